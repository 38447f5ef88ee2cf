"""Compiled event-driven product with a dense matrix (numba, extra ``fast``).

Weights are packed ``[block of posts][pre][block]``; a block is the outermost loop with all items inside, so that its
weights stay in the cache. Eight rows are added per pass, one after another: so the sums have the sources' order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

from nirbridge.simulators.kernels_update import compiled

BLOCKS = (16, 64, 256)


def add_rows(block: int, valued: bool) -> Any:
    """A kernel that adds the rows ``idx[start:stop]`` of ``w: [pre, block]`` (times ``val``) to ``acc``, in order."""

    @numba.njit(error_model="numpy")
    def plain(acc, w, idx, val, start, stop):
        e = start
        while e + 8 <= stop:
            w0, w1, w2, w3 = w[idx[e]], w[idx[e + 1]], w[idx[e + 2]], w[idx[e + 3]]
            w4, w5, w6, w7 = w[idx[e + 4]], w[idx[e + 5]], w[idx[e + 6]], w[idx[e + 7]]
            for j in range(block):
                a = acc[j] + w0[j]
                a = ((a + w1[j]) + w2[j]) + w3[j]
                acc[j] = (((a + w4[j]) + w5[j]) + w6[j]) + w7[j]
            e += 8
        while e < stop:
            row = w[idx[e]]
            for j in range(block):
                acc[j] = acc[j] + row[j]
            e += 1

    @numba.njit(error_model="numpy")
    def graded(acc, w, idx, val, start, stop):
        for e in range(start, stop):
            row = w[idx[e]]
            x = val[e]
            for j in range(block):
                acc[j] = acc[j] + row[j] * x

    return graded if valued else plain


@cache
def dense_kernel(block: int, valued: bool) -> Any:
    """The kernel for packed weights of this block.

    Arguments: events ``indptr, idx, val``; ``w: [blocks, pre, block]``; ``out: [rows, posts]``, filled.
    """
    add = add_rows(block, valued)

    @compiled
    def run(indptr, idx, val, w, out):
        acc = np.empty(block, w.dtype)
        for k in range(w.shape[0]):
            first = k * block
            stop = min(out.shape[1], first + block)
            part = w[k]
            for row in range(out.shape[0]):
                for j in range(block):
                    acc[j] = 0
                add(acc, part, idx, val, indptr[row], indptr[row + 1])
                for j in range(first, stop):
                    out[row, j] = acc[j - first]

    return run


def block_of(posts: int) -> int:
    """The block for so many targets: the widest that does not pad much."""
    if posts <= BLOCKS[0]:
        return BLOCKS[0]
    return BLOCKS[1] if posts <= 192 else BLOCKS[2]


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


def packed(weight: np.ndarray, block: int, dtype: Any) -> np.ndarray:
    """``weight: [post, pre]`` as ``[blocks, pre, block]``, padded with zeros, aligned."""
    post, pre = weight.shape
    blocks = -(-post // block)
    out = aligned((blocks, pre, block), dtype)
    for k in range(blocks):
        rows = weight[k * block : (k + 1) * block]
        out[k, :, : len(rows)] = rows.T
    return out
