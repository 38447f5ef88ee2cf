"""Compiled event-driven convolution, no matrix is built (numba).

The sums of one item lie channels-last with a margin for what falls beside the map. A source reaches, per kernel row,
one run of ``taps * channels`` neighbouring sums; the kernel is stored per stride phase, flipped, so that the weights of
a run lie side by side too. Events come in the sources' order, so every sum has the order of the meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv
from nirbridge.simulators.compiled.kernels.jit import borrowing, copy, jitted
from nirbridge.simulators.compiled.kernels.simd import aligned_zeros
from nirbridge.simulators.compiled.kernels.simd_runs import (
    NARROW,
    WIDE,
    add_3_24,
    add_3_48,
    add_narrow,
    add_wide,
)


@borrowing
def _add_common(acc, weights, idx, val, n, reach, run, pitch, valued) -> None:
    """Sources of three rows of 48 or 24 numbers: kernels of 3, or of 5 with stride 2, into 16 or 8 channels."""
    pitch, one = np.uint64(pitch), acc.dtype.type(1)
    for e in range(n):
        a, w, x = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1]), val[e] if valued else one
        if run == 48:
            add_3_48(acc, a, weights, w, pitch, x)
        else:
            add_3_24(acc, a, weights, w, pitch, x)


@borrowing
def _add_runs(acc, weights, idx, val, n, reach, rows, vectors, pitch, wide, valued) -> None:
    lanes, pitch, one = np.uint64(WIDE if wide else NARROW), np.uint64(pitch), acc.dtype.type(1)
    for e in range(n):
        a, w, x = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1]), val[e] if valued else one
        for _ in range(rows):
            if wide:
                for k in range(vectors):
                    add_wide(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes, pitch, x)
            else:
                for k in range(vectors):
                    add_narrow(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes, pitch, x)
            a += pitch
            w += np.uint64(vectors) * lanes


@borrowing
def add_conv(acc, weights, idx, val, n, reach, plan, valued) -> None:
    """Adds to ``acc`` the sums of a step: sources ``idx[:n]`` (``valued``: times ``val``).

    ``reach: uint32[sources, 2]``: where the first run of a source begins among the sums and the weights; ``plan``:
    kernel rows per source, vectors per run, sums between rows, whether vectors are wide.
    """
    run = plan[1] * (WIDE if plan[3] else NARROW)
    if plan[0] == 3 and (run == 48 or run == 24):
        _add_common(acc, weights, idx, val, n, reach, run, plan[2], valued)
    else:
        _add_runs(acc, weights, idx, val, n, reach, plan[0], plan[1], plan[2], plan[3], valued)


@borrowing
def clear(x) -> None:
    """Zeros."""
    for j in range(x.shape[0]):
        x[j] = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConvTables:
    """Tables of one convolution.

    ``reach: uint32[sources, 2]``: where the first run of a source begins among the sums and the weights; ``weights``:
    flat; ``runs``: kernel rows per source, vectors per run, sums between rows, whether vectors are wide; ``sums``: how
    many in all; ``shape``: the first sum inside the map, sums between rows, rows, sums per row; ``channels``: per
    place, with filling.
    """

    reach: Array
    weights: Array
    runs: tuple[int, int, int, bool]
    sums: int
    shape: tuple[int, int, int, int]
    channels: int


@jitted
def convolve(indptr, idx, val, valued, reach, weights, runs, acc, shape, out) -> None:
    """Events ``indptr, idx, val`` by item into ``out: [items, rows, sums per row]``; ``acc: [sums]`` is scratch."""
    for item in range(out.shape[0]):
        start, stop = indptr[item], indptr[item + 1]
        factors = val[start:stop] if valued else val
        clear(acc)
        add_conv(acc, weights, idx[start:stop], factors, stop - start, reach, runs, valued)
        for y in range(out.shape[1]):
            at = shape[0] + y * shape[1]
            copy(out[item, y], acc[at : at + out.shape[2]])


def is_plain(op: Conv) -> bool:
    """True for one group without dilation, in one or two dimensions."""
    return op.groups == 1 and max(op.dilation) == 1 and len(op.kernel) <= 2


def conv_tables(op: Conv, dtype: Any) -> ConvTables:
    """The tables of a plain convolution; one dimension is a map of height 1."""
    is_line = len(op.kernel) == 1
    cin = op.weight.shape[1]
    ky, kx = (1, *op.kernel) if is_line else op.kernel
    sy, sx = (1, *op.stride) if is_line else op.stride
    (top, bottom), (left, right) = ((0, 0), *op.padding) if is_line else op.padding
    height, width = (1, *op.input_shape[1:]) if is_line else op.input_shape[1:]
    out_h, out_w = (1, *op.output_shape[1:]) if is_line else op.output_shape[1:]
    channels = -(-op.weight.shape[0] // NARROW) * NARROW
    rows, columns = -(-ky // sy), -(-kx // sx)
    pitch = ((width + left + right - 1) // sx + columns) * channels
    taps = op.weight.reshape(-1, cin, ky, kx)
    weights = _phases(taps, (sy, sx), (rows, columns), channels, dtype)
    c, y, x = np.indices((cin, height, width)).reshape(3, -1)
    y, x = y + top, x + left
    weight_at = (((y % sy) * sx + x % sx) * cin + c) * (rows * columns * channels)
    sum_at = (y // sy) * pitch + (x // sx) * channels
    lanes = WIDE if channels % WIDE == 0 else NARROW
    return ConvTables(
        np.ascontiguousarray(np.stack([sum_at, weight_at], axis=1), np.uint32),
        weights,
        (rows, columns * channels // lanes, pitch, lanes == WIDE),
        ((height + top + bottom - 1) // sy + rows) * pitch,
        ((rows - 1) * pitch + (columns - 1) * channels, pitch, out_h, out_w * channels),
        channels,
    )


def _phases(weight: Array, stride: tuple[int, int], taps: tuple[int, int], channels: int, dtype: Any) -> Array:
    """``[phase y, phase x, cin, row, tap, channels]``, flipped, zeros where a phase has fewer taps; flat."""
    cout, cin, ky, kx = weight.shape
    out = aligned_zeros((stride[0], stride[1], cin, taps[0], taps[1], channels), dtype)
    for y in range(ky):
        for x in range(kx):
            at = taps[0] - 1 - y // stride[0], taps[1] - 1 - x // stride[1]
            out[y % stride[0], x % stride[1], :, at[0], at[1], :cout] = weight[:, :, y, x].T
    return out.reshape(-1)
