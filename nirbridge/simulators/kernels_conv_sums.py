"""The sums of a convolution for one step, source by source (numba, extra ``fast``)."""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.kernels_conv_vector import (
    NARROW,
    WIDE,
    add_narrow,
    add_narrow_scaled,
    add_wide,
    add_wide_scaled,
)
from nirbridge.simulators.kernels_update import borrowing


@borrowing
def _add_plain(acc, weights, idx, n, reach, rows, vectors, pitch, wide) -> None:
    lanes = np.uint64(WIDE if wide else NARROW)
    for e in range(n):
        a, w = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1])
        for _ in range(rows):
            if not wide:
                for k in range(vectors):
                    add_narrow(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes)
            elif vectors == 3:
                add_wide(acc, a, weights, w)
                add_wide(acc, a + lanes, weights, w + lanes)
                add_wide(acc, a + np.uint64(2) * lanes, weights, w + np.uint64(2) * lanes)
            else:
                for k in range(vectors):
                    add_wide(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes)
            a += np.uint64(pitch)
            w += np.uint64(vectors) * lanes


@borrowing
def _add_scaled(acc, weights, idx, val, n, reach, rows, vectors, pitch, wide) -> None:
    lanes = np.uint64(WIDE if wide else NARROW)
    for e in range(n):
        a, w, x = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1]), val[e]
        for _ in range(rows):
            if wide:
                for k in range(vectors):
                    add_wide_scaled(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes, x)
            else:
                for k in range(vectors):
                    add_narrow_scaled(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes, x)
            a += np.uint64(pitch)
            w += np.uint64(vectors) * lanes


@borrowing
def add_conv(acc, weights, idx, val, n, reach, plan, valued) -> None:
    """Adds to ``acc`` the sums of a step: sources ``idx[:n]`` (``valued``: times ``val``).

    ``reach: uint32[sources, 2]``: where the first run of a source begins among the sums and the weights; ``plan``:
    kernel rows per source, vectors per run, sums between rows, whether vectors are wide.
    """
    if valued:
        _add_scaled(acc, weights, idx, val, n, reach, plan[0], plan[1], plan[2], plan[3])
    else:
        _add_plain(acc, weights, idx, n, reach, plan[0], plan[1], plan[2], plan[3])


@borrowing
def clear(x) -> None:
    """Zeros."""
    for j in range(x.shape[0]):
        x[j] = 0
