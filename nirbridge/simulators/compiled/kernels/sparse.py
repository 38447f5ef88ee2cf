"""Compiled event-driven product with a sparse matrix, and pools without overlap (numba, extra ``fast``)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.simulators.compiled.kernels.jit import compiled


@cache
def sparse_kernel(valued: bool) -> Any:
    """The kernel for a matrix stored by source: events ``indptr, idx, val`` into ``out: [rows, posts]``.

    ``starts: int64[pre + 1]``, ``targets`` (unsigned, so that no sign has to be tested) and ``weights`` per synapse.
    """

    @compiled
    def run(indptr, idx, val, starts, targets, weights, out):
        for row in range(out.shape[0]):
            acc = out[row]
            for j in range(acc.shape[0]):
                acc[j] = 0
            for e in range(indptr[row], indptr[row + 1]):
                source = idx[e]
                to = targets[starts[source] : starts[source + 1]]  # indices from 0: no test of their sign
                row = weights[starts[source] : starts[source + 1]]
                x = val[e if valued else 0]
                for j in range(row.shape[0]):
                    acc[to[j]] += row[j] * x if valued else row[j]

    return run


@compiled
def count_kernel(indptr, idx, val, window, out) -> None:
    """Spikes per window: ``window: int64[pre]`` says which one a source is in (-1: none).

    ``out: uint8[rows, posts]`` of zeros is filled. Sources send at most 1, so a window of up to 255 sources
    cannot overflow.
    """
    for row in range(out.shape[0]):
        for e in range(indptr[row], indptr[row + 1]):
            at = window[idx[e]]
            if at >= 0:
                out[row, at] += 1


def smallest_unsigned(count: int) -> type:
    """The narrowest unsigned type for indices below ``count``."""
    return np.uint16 if count <= 1 << 16 else np.uint32


def by_source(indptr: Array, indices: Array, data: Array, pre: int, dtype: Any) -> tuple[Array, Array, Array]:
    """Compressed rows ``[post, pre]`` as ``starts, targets, weights`` per source, targets ascending."""
    from scipy.sparse import csr_array

    posts = len(indptr) - 1
    columns = csr_array((np.asarray(data, dtype), indices, indptr), shape=(posts, pre)).tocsc()
    return columns.indptr.astype(np.int64), columns.indices.astype(smallest_unsigned(posts)), columns.data
