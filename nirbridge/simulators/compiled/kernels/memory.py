"""Weights in the form that the compiled kernels read (see simd.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.__array_interface__["data"][0] % 64
    return room[start : start + size].view(dtype).reshape(shape)


def pack_weights(weight: np.ndarray, block: int, dtype: Any) -> np.ndarray:
    """``weight: [post, pre]`` as ``[blocks, pre, block]``, padded with zeros, aligned."""
    post, pre = weight.shape
    blocks = -(-post // block)
    out = aligned_zeros((blocks, pre, block), dtype)
    for k in range(blocks):
        rows = weight[k * block : (k + 1) * block]
        out[k, :, : len(rows)] = rows.T
    return out
