"""Neurons of a box in the order of numbering, and every synapse into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axis import axis_rows
from nirbridge.partitioner.cost.connectivity import Explicit, Separable


def numbering_axes(shape: Shape) -> tuple[int, ...]:
    """Axes from the slowest to the fastest in the numbering of a slice: channels (axis 0) last."""
    return (*range(1, len(shape)), 0) if shape else ()


def flat_indices(shape: Shape, box: Box) -> Array:
    """Row-major flat indices of the neurons of a box, in the order in which a slice numbers them."""
    grids = np.ravel_multi_index(np.ix_(*[np.arange(a, b) for a, b in box]), shape)
    return np.transpose(grids, numbering_axes(shape)).ravel()


def input_channels(form: Separable, sources: Array) -> Array:
    """The input channel of each source (numbered channels last); a flat input is one channel."""
    return sources % form.axes[0].n_in if len(form.axes) > 1 else np.zeros_like(sources)


def box_lists(form: Separable | Explicit, box: Box, rows: Array) -> tuple[Array, Array, Array]:
    """(source, position in the box, tap) of every synapse into a box of targets ``rows``, in any order.

    A source is an opaque number here, the same in every box of one form; of several axes, channels last. Taps of
    index lists are 0.
    """
    if isinstance(form, Explicit):
        lengths = form.indptr[rows + 1] - form.indptr[rows]
        offset = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        source = form.sources[np.repeat(form.indptr[rows], lengths) + offset]
        return source, np.repeat(np.arange(len(rows)), lengths), np.zeros(len(source), np.int64)
    flat = len(form.axes) == 1  # one channel: its only axis is a place
    source, position, tap = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64)
    for a in numbering_axes(form.target_shape):
        own: Any = axis_rows(form.axes[a], *box[a], a + flat)
        outs = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
        source = (source[:, None] * own.shape[1] + own.indices).reshape(-1)
        position = (position[:, None] * own.shape[0] + outs).reshape(-1)
        tap = (tap[:, None] * own.data).reshape(-1)
    return source, position, tap
