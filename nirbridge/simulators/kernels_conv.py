"""Compiled event-driven convolution, no matrix is built (numba, extra ``fast``).

The sums of one item lie channels-last with a margin for what falls beside the map. A source reaches, per kernel row,
one run of ``taps * channels`` neighbouring sums; the kernel is stored per stride phase, flipped, so that the weights of
a run lie side by side too. Events come in the sources' order, so every sum has the order of the meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv
from nirbridge.simulators.kernels_dense import aligned
from nirbridge.simulators.kernels_update import compiled


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Tables of one convolution.

    ``sum_at, weight_at: uint32[sources]``: where the first run of a source begins; ``weights``: flat;
    ``rows, run``: kernel rows per source, and floats per run; ``pitch``: floats between rows of sums; ``sums``: floats
    in all; ``first``: the first sum inside the map; ``shape``: (height, width, channels) of the map.
    """

    sum_at: Array
    weight_at: Array
    weights: Array
    rows: int
    run: int
    pitch: int
    sums: int
    first: int
    shape: tuple[int, int, int]


@cache
def conv_kernel(run: int, valued: bool) -> Any:
    """The kernel for runs of so many floats (0: any number, slower), events ``indptr, idx, val`` into ``out``.

    ``out: [items, height, width * channels]``; ``acc: [sums]`` is scratch.
    """

    @numba.njit(error_model="numpy")
    def add(acc, weights, a, w, n, x):
        to, row = acc[a : a + n], weights[w : w + n]  # indices from 0: no test of their sign
        for j in range(n):
            to[j] += row[j] * x if valued else row[j]

    @compiled
    def convolve(indptr, idx, val, sum_at, weight_at, weights, rows, length, pitch, first, acc, out):
        n = run if run else length
        for item in range(out.shape[0]):
            for j in range(acc.shape[0]):
                acc[j] = 0
            for e in range(indptr[item], indptr[item + 1]):
                a, w = np.int64(sum_at[idx[e]]), np.int64(weight_at[idx[e]])
                for r in range(rows):
                    x = val[e if valued else 0]
                    add(acc, weights, a + r * pitch, w + r * n, n, x)
            for y in range(out.shape[1]):
                row, to = acc[first + y * pitch :], out[item, y]
                for j in range(to.shape[0]):
                    to[j] = row[j]

    return convolve


def is_plain(op: Conv) -> bool:
    """True for one group without dilation, in one or two dimensions."""
    return op.groups == 1 and max(op.dilation) == 1 and len(op.kernel) <= 2


def plan_conv(op: Conv, dtype: Any) -> Plan:
    """The tables of a plain convolution; one dimension is a map of height 1."""
    one = len(op.kernel) == 1
    cout, cin = op.weight.shape[:2]
    ky, kx = (1, *op.kernel) if one else op.kernel
    sy, sx = (1, *op.stride) if one else op.stride
    (top, bottom), (left, right) = ((0, 0), *op.padding) if one else op.padding
    height, width = (1, *op.input_shape[1:]) if one else op.input_shape[1:]
    out_h, out_w = (1, *op.output_shape[1:]) if one else op.output_shape[1:]
    rows, columns = -(-ky // sy), -(-kx // sx)
    pitch = ((width + left + right - 1) // sx + columns) * cout
    phases = _phases(op.weight.reshape(cout, cin, ky, kx), (sy, sx), (rows, columns), dtype)
    c, y, x = np.indices((cin, height, width)).reshape(3, -1)
    y, x = y + top, x + left
    weight_at = (((y % sy) * sx + x % sx) * cin + c) * (rows * columns * cout)
    sum_at = (y // sy) * pitch + (x // sx) * cout
    sums = ((height + top + bottom - 1) // sy + rows) * pitch
    first = (rows - 1) * pitch + (columns - 1) * cout
    run = columns * cout
    return Plan(
        sum_at.astype(np.uint32),
        weight_at.astype(np.uint32),
        phases,
        rows,
        run,
        pitch,
        sums,
        first,
        (out_h, out_w, cout),
    )


def _phases(weight: Array, stride: tuple[int, int], taps: tuple[int, int], dtype: Any) -> Array:
    """``[phase y, phase x, cin, row, tap, cout]``, flipped, zeros where a phase has fewer taps; flat."""
    cout, cin, ky, kx = weight.shape
    out = aligned((stride[0], stride[1], cin, taps[0], taps[1], cout), dtype)
    for y in range(ky):
        for x in range(kx):
            at = taps[0] - 1 - y // stride[0], taps[1] - 1 - x // stride[1]
            out[y % stride[0], x % stride[1], :, at[0], at[1], :] = weight[:, :, y, x].T
    return out.reshape(-1)
