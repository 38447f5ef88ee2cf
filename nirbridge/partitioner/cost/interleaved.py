"""Words of a core that holds some rows of a feature map, every second or third one for example, in closed form.

Where a chip stores like kernels once, sources of a 3 x 3 kernel have lists of three lengths along an axis: of whole
kernels, and of kernels that a border of the map or the end of a slice truncates. A slice of few rows stores mostly
truncated kernels. A core that holds every second row, from one border to the other, has sources that reach one or two
of its rows, and only the two borders truncate. Rows that do not touch follow each other in the numbering of the core,
so the rows form an axis with fewer outputs, which has patterns as any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import Axis, axis_from_matrix
from nirbridge.partitioner.cost.connectivity import Separable
from nirbridge.partitioner.cost.patterns import Patterns, axis_lists, range_patterns
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection, numbering_axes

ROWS = 1
"""The slowest axis in the numbering of a slice."""


def row_patterns(axis: Axis, rows: Array) -> Patterns:
    """The patterns (``CostModel.axis_patterns``) of an axis of which a core holds the outputs ``rows``, ascending."""
    if axis.full:
        return range_patterns(axis, None, 0, len(rows))
    kept = np.isin(axis.outs, rows)
    inputs = np.repeat(np.arange(axis.n_in), np.diff(axis.indptr))[kept]
    places = np.searchsorted(rows, axis.outs[kept])
    chosen = sparse.csr_array((axis.taps[kept], (places, inputs)), shape=(len(rows), axis.n_in))
    own = axis_from_matrix(chosen)
    return range_patterns(own, axis_lists(own), 0, len(rows))


def words_of_rows(
    sizes: CostModel, edge: IncomingProjection, box: Box, rows: Sequence[int], patterns: Patterns | None = None
) -> int:
    """Words of one separable projection into the ``rows`` of a box (whose own range of rows does not count).

    ``patterns``: ``row_patterns`` of these rows, where they are known.
    """
    form = edge.form
    assert isinstance(form, Separable), "rows are an axis of a window"
    order = numbering_axes(form.target_shape)[::-1]
    of_rows = row_patterns(form.axes[ROWS], np.asarray(rows)) if patterns is None else patterns
    by_axis = tuple(of_rows if a == ROWS else sizes.axis_patterns(form.axes[a], *box[a]) for a in order)
    widths = tuple(len(rows) if a == ROWS else box[a][1] - box[a][0] for a in order)
    return sizes.pattern_words(edge, order, by_axis, widths)


def rows_of(boxes: Sequence[Box]) -> tuple[int, ...] | None:
    """The rows of boxes that are equal on all other axes, in ascending order without overlap; None: they are not so."""
    first, rows = boxes[0], []
    if len(first) < 2:
        return None
    for box in boxes:
        if box[:ROWS] != first[:ROWS] or box[ROWS + 1 :] != first[ROWS + 1 :]:
            return None
        if rows and box[ROWS][0] <= rows[-1]:
            return None
        rows += range(*box[ROWS])
    return tuple(rows)
