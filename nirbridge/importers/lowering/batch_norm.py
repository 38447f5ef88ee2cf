"""Error of a BatchNorm that was folded into the preceding weights, in figures."""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.dataflow import Operation
from nirbridge.importers.lowering.linear_layers import Expression, per_channel_values
from nirbridge.importers.torch_apply import torch_apply
from nirbridge.importers.tracing.run import one_thread
from nirbridge.network.operators import Conv, Dense

_PROBES = 2
_SEED = 20_240_901


def folding_text(before: Expression, call: Operation, after: Expression) -> str:
    """A note on what became of a BatchNorm: ``after`` is ``before`` with it."""
    if not any(t.parts and isinstance(t.parts[-1], Dense | Conv) for t in before.terms):
        return "BatchNorm as one factor and one constant per channel"
    largest, share = folding_difference(before, call, after)
    figure = f"on random inputs the result is off by {largest:.1e} at most, {share:.1e} of the largest value"
    return f"BatchNorm folded into the weights before it, rounded to float32: {figure}"


def folding_difference(before: Expression, call: Operation, after: Expression) -> tuple[float, float]:
    """Largest absolute difference between the folded weights' results and the layers', and its share of the largest.

    Both in float32, on numbers from -1 to 1 at the inputs of the weights that were folded.
    """
    source = np.random.default_rng(_SEED)
    layers, folded = np.zeros((_PROBES, *before.shape), np.float32), np.zeros((_PROBES, *after.shape), np.float32)
    for old, new in zip(before.terms, after.terms, strict=True):
        if old.parts and isinstance(old.parts[-1], Dense | Conv):
            probe = source.uniform(-1, 1, (_PROBES, *old.parts[-1].input_shape)).astype(np.float32)
            with one_thread():
                layers += torch_apply(old.parts[-1], probe)
                folded += torch_apply(new.parts[-1], probe)
    target = _normalized(call, layers + _float32(before.constant))
    size = float(np.max(np.abs(target), initial=0.0))
    largest = float(np.max(np.abs(folded + _float32(after.constant) - target), initial=0.0))
    return largest, largest / size if size else 0.0


def _normalized(call: Operation, x: Array) -> Array:
    """The output of the layer itself, in float32."""
    a, shape = call.arguments, x.shape[1:]
    mean, variance = (_float32(per_channel_values(a[name], shape)) for name in ("mean", "variance"))
    weight = np.ones((), np.float32) if a["weight"] is None else _float32(per_channel_values(a["weight"], shape))
    return (x - mean) / np.sqrt(variance + np.float32(a["epsilon"])) * weight + _float32(
        per_channel_values(a["bias"], shape)
    )


def _float32(values: Array | None) -> Array:
    """The values in float32, 0 for None."""
    return np.zeros((), np.float32) if values is None else values.astype(np.float32)
