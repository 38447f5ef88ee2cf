"""The sums of a convolution for one step, source by source (numba, extra ``fast``)."""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.compiled.kernels.jit import borrowing
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
