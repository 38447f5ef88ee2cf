"""Quantization-aware fine-tuning of torch models: weights are rounded in forward as the integers will be.

In order: quantize the model; ``attach`` to each layer with the values of ``factor_of``; train; ``detach``;
quantize again with ``Options(scales=scales_of(…))`` of the first one. The integers are those that were trained.

The backward pass ignores the rounding (straight-through); the gradient of a clipped weight is zero. Rounding, grid and
factor are those of ``quantize``: ``fake_weights`` of a tensor are the real values of a projection's integers with that
factor.
"""

from __future__ import annotations

from typing import Any

from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import QuantizedNetwork, SignMode
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.weights import weight_range


def fake_weights(weight: Any, bits: int, factor: float | None = None, mode: SignMode | None = None) -> Any:
    """The tensor rounded to the real values of the integers: ``integer / factor``.

    Args:
        weight: a torch tensor.
        bits: width of the weights.
        factor: integers per real weight; None: the one that fills the grid, as ``quantize`` takes for one projection.
        mode: sign mode; None: from the weights, as ``quantize`` does.
    """
    import torch

    span = weight_range(weight.detach().cpu().double().numpy(), bits)
    grid = grid_of(bits, mode or span.mode)
    if factor is None:
        factor = 1.0 / span.unit if span.unit else 1.0
    exact = weight.double() * factor
    # torch rounds halves to the even number, as numpy's rint does
    integers = torch.clamp(torch.round(exact / grid.step) * grid.step, grid.low, grid.high)
    inside = (exact >= grid.low - grid.step / 2) & (exact <= grid.high + grid.step / 2)
    passed = torch.where(inside, exact, exact.detach())
    # the added term is exactly 0: forward gives the integers, backward the gradient of the real weights
    return ((integers.detach() + (passed - passed.detach())) / factor).to(weight.dtype)


def factor_of(quantized: QuantizedNetwork, source: str, target: str) -> tuple[float, int, SignMode]:
    """(factor, bits, sign mode) of the projection from source to target, for ``fake_weights``.

    Raises:
        KeyError: there is no such projection.
    """
    for p in quantized.projections:
        if (p.source, p.target) == (source, target):
            return float(p.scale), p.weight_bits, p.sign_mode
    raise KeyError(f"{source} -> {target}")


def scales_of(quantized: QuantizedNetwork) -> dict[str, float]:
    """The scale of each population, for ``Options(scales=…)``: a tuned model gets the integers it was trained on."""
    return {p.name: float(p.neuron.scale) for p in quantized.populations}


def attach(
    module: Any, bits: int, name: str = "weight", factor: float | None = None, mode: SignMode | None = None
) -> Any:
    """Make a torch module use the rounded form of a parameter; returns the module. ``detach`` undoes it."""
    from torch import nn
    from torch.nn.utils import parametrize

    class Rounded(nn.Module):
        """The rounding as a parametrization."""

        def forward(self, weight: Any) -> Any:
            """See ``fake_weights``."""
            return fake_weights(weight, bits, factor, mode)

    parametrize.register_parametrization(module, name, Rounded())
    return module


def detach(module: Any, name: str = "weight") -> Any:
    """Store the rounded values as the module's own parameter and remove the rounding; returns the module."""
    from torch.nn.utils import parametrize

    return parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def real_weights(quantized: QuantizedNetwork, index: int) -> Any:
    """The real values of the integer weights of the projection with this index, gains of the neurons included."""
    projection = next(p for p in quantized.projections if p.index == index)
    return weights_of(projection.operator) / projection.scale
