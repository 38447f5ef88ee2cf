"""Linear operators on calibration data, with torch's convolutions (many times faster than ``network.apply``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Conv, Operator

AT_ONCE = 2**22
"""Most elements of an intermediate value that are held at once."""


def torch_apply(operator: Operator, x: Array) -> Array:
    """``operator(x)`` for ``x: [..., *input_shape]``; float64 where x is, else float32.

    Weights have that type too. Sums are those of ``network.apply`` in another order.
    """
    dtype = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    rows = x.reshape(-1, *operator.input_shape)
    parts = parts_of(operator)
    functions = [_convolution(part, dtype) if isinstance(part, Conv) else partial(apply, part) for part in parts]
    widest = max(math.prod(shape) for part in parts for shape in (part.input_shape, part.output_shape))
    step = max(1, AT_ONCE // widest)
    out = np.empty((len(rows), *operator.output_shape), dtype)
    for start in range(0, len(rows), step):
        batch = rows[start : start + step].astype(dtype, copy=False)
        out[start : start + step] = reduce(lambda value, function: function(value), functions, batch)
    return out.reshape(*x.shape[: x.ndim - len(operator.input_shape)], *operator.output_shape)


def _convolution(part: Conv, dtype: np.dtype[np.floating]) -> Callable[[Array], Array]:
    import torch
    from torch.nn import functional

    run = functional.conv1d if len(part.kernel) == 1 else functional.conv2d
    weight = torch.from_numpy(part.weight.astype(dtype))  # a copy: torch takes no read-only arrays
    even = all(before == behind for before, behind in part.padding)
    padding = tuple(before for before, _ in part.padding) if even else 0

    def convolve(x: Array) -> Array:
        padded = x if even else np.pad(x, ((0, 0), (0, 0), *part.padding))
        tensor = torch.from_numpy(np.require(padded, dtype, ["C", "W"]))
        return run(tensor, weight, None, part.stride, padding, part.dilation, part.groups).numpy()

    return convolve
