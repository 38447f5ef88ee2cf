"""Sparse matrices of scipy as operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.errors import UsageError, type_text
from nirbridge.network.operators import Sparse


def sparse_operator(matrix: Any, input_shape: Shape | None = None, output_shape: Shape | None = None) -> Sparse:
    """The operator of a sparse matrix ``[post, pre]``; it is never made dense.

    Entries of one place are added, rows sorted; zeros that the matrix stores stay synapses.

    Args:
        matrix: a matrix or array of ``scipy.sparse``, of any format.
        input_shape: shape of the source, flattened row-major; None: ``(pre,)``.
        output_shape: shape of the target; None: ``(post,)``.

    Raises:
        UsageError: no sparse matrix, or one of another size than the shapes.
    """
    if not hasattr(matrix, "tocsr"):
        limit = "it takes a matrix of scipy.sparse"
        raise UsageError.of("sparse_operator()", type_text(matrix), limit, "scipy.sparse.csr_array(matrix)")
    rows = matrix.tocsr(copy=True)
    rows.sum_duplicates()
    post, pre = map(int, rows.shape)
    into, out = input_shape or (pre,), output_shape or (post,)
    if (math.prod(out), math.prod(into)) != (post, pre):
        found = f"a matrix of {post:,} x {pre:,}"
        raise UsageError.of("sparse_operator()", found, f"from {into} to {out}", "give [post, pre]")
    return Sparse(freeze(rows.indptr, np.int64), freeze(rows.indices, np.int64), freeze(rows.data), into, out)
