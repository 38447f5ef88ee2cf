"""Results of large layers while a module is recorded: of the right shape, filled with random numbers.

A recording is about which value goes where. No value of a layer decides that (a forward that asks one for its number is
refused), so a large sum of products need not be computed. Random numbers that differ from run to run show, as computed
values would, where a number of the data went around the recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nirbridge.importers.tracing.structures import torch_tensor, without_values

LARGE = 2**24
"""Multiplications from which a layer is not computed."""
_LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv3d"})
_BLOCK = 65_521


class RandomResults:
    """Random results, from the seed that torch was given last."""

    def __init__(self) -> None:
        self.block: Any = None

    def result(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of ``func``, or random numbers of its shape if it is a large layer."""
        if name not in _LAYERS:
            return func(*args, **kwargs)
        x = args[0] if args else kwargs.get("input")
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        if not (_is_plain(x) and _is_plain(weight)) or _multiplications(name, x, weight) < LARGE:
            return func(*args, **kwargs)
        shape = tuple(func(*without_values(tuple(args)), **without_values(dict(kwargs))).shape)
        return self._random(shape, x)

    def _random(self, shape: tuple[int, ...], like: Any) -> Any:
        import torch

        if self.block is None:
            source = torch.Generator().manual_seed(torch.initial_seed())
            self.block = torch.randn(_BLOCK, generator=source)
        out = torch.empty(shape, dtype=like.dtype)
        flat = out.view(-1)
        for start in range(0, len(flat), _BLOCK):
            part = flat[start : start + _BLOCK]
            part.copy_(self.block[: len(part)])
        return out


def fill_with_spikes(tensor: Any, source: Any) -> None:
    """Fills a tensor with zeros and ones by chance."""
    if tensor.is_floating_point():
        tensor.random_(0, 2, generator=source)


def _is_plain(tensor: Any) -> bool:
    return isinstance(tensor, torch_tensor()) and tensor.device.type == "cpu" and tensor.is_floating_point()


def _multiplications(name: str, x: Any, weight: Any) -> int:
    """Multiplications of a layer; of a convolution, as if its stride were its kernel and its groups one."""
    return x.numel() * weight.shape[0] if name != "linear" or weight.ndim > 1 else 0
