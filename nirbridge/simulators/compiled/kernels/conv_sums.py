"""The sums of a convolution for one step, source by source (numba, extra ``fast``)."""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.compiled.kernels.jit import borrowing
from nirbridge.simulators.compiled.kernels.simd_runs import (
    NARROW,
    WIDE,
    add_3_24,
    add_3_24_scaled,
    add_3_48,
    add_3_48_scaled,
    add_narrow,
    add_narrow_scaled,
    add_wide,
    add_wide_scaled,
)


@borrowing
def _add_common(acc, weights, idx, val, n, reach, run, pitch, valued) -> None:
    """Sources of three rows of 48 or 24 numbers: kernels of 3, or of 5 with stride 2, into 16 or 8 channels."""
    pitch, one = np.uint64(pitch), val[0]
    for e in range(n):
        a, w = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1])
        if run == 48 and valued:
            add_3_48_scaled(acc, a, weights, w, pitch, val[e])
        elif run == 48:
            add_3_48(acc, a, weights, w, pitch, one)
        elif valued:
            add_3_24_scaled(acc, a, weights, w, pitch, val[e])
        else:
            add_3_24(acc, a, weights, w, pitch, one)


@borrowing
def _add_plain(acc, weights, idx, n, reach, rows, vectors, pitch, wide) -> None:
    lanes = np.uint64(WIDE if wide else NARROW)
    for e in range(n):
        a, w = np.uint64(reach[idx[e], 0]), np.uint64(reach[idx[e], 1])
        for _ in range(rows):
            if not wide:
                for k in range(vectors):
                    add_narrow(acc, a + np.uint64(k) * lanes, weights, w + np.uint64(k) * lanes)
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
    run = plan[1] * (WIDE if plan[3] else NARROW)
    if plan[0] == 3 and (run == 48 or run == 24):
        _add_common(acc, weights, idx, val, n, reach, run, plan[2], valued)
    elif valued:
        _add_scaled(acc, weights, idx, val, n, reach, plan[0], plan[1], plan[2], plan[3])
    else:
        _add_plain(acc, weights, idx, n, reach, plan[0], plan[1], plan[2], plan[3])


@borrowing
def clear(x) -> None:
    """Zeros."""
    for j in range(x.shape[0]):
        x[j] = 0
