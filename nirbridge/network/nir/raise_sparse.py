"""A sparse matrix between neurons on axes, as plain NIR nodes.

NIR has matrices between vectors, and convolutions between images. A map from ``(cin, rows in, columns in)`` to
``(cout, rows, columns)`` is a group of up to three of its nodes:

* a convolution whose kernel covers all rows mixes channels and rows; its output channels are channels and rows;
* a Linear with leading axes mixes the columns;
* a convolution of whole rows, padded by all but one row, moves the rows from the channels back into their axis.

A matrix that is no product of the two is one convolution that covers the whole image and one that moves all values. The
first node's metadata holds the matrix and the number of nodes, so that ``lower_sparse`` reads one operator again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.network.nir.timing import PREFIX
from nirbridge.network.operators import Sparse

NODES, DATA = PREFIX + "nodes", PREFIX + "data"
"""Metadata of the first node of a group: how many nodes it has, and the values of the matrix."""
WEIGHTS_MAX = 100_000_000
"""Most weights that a group is written with."""
_UNGROUPED_MAX = 2**20
"""Weights up to which a convolution is written without groups: nir 1.0.8 infers wrong shapes with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Entries of a matrix: row, column, value."""

    rows: Array
    columns: Array
    values: Array


def is_image_map(part: Sparse) -> bool:
    """True for a matrix from channels and one or two axes to as many."""
    return len(part.input_shape) == len(part.output_shape) in (2, 3)


def image_map_nodes(part: Sparse, bias: Array | None) -> list[Any]:
    """The group of nodes for an image map, empty where it would take too many weights; ``bias``: of full shape."""
    builders: tuple[Callable[[Sparse], list[Any]], ...] = (_channel_mix, _columns, _moved, _separate, _dense)
    nodes = next((found for build in builders if (found := build(part))), [])
    if not nodes:
        return []
    nodes[0].metadata |= {
        PREFIX + "indptr": np.array(part.indptr),
        PREFIX + "indices": np.array(part.indices),
        DATA: np.array(part.data),
        NODES: len(nodes),
    }
    return nodes if bias is None else [*nodes[:-1], _with_bias(nodes[-1], bias)]


def entries_of(part: Sparse) -> Entries:
    """The stored entries."""
    rows = np.repeat(np.arange(math.prod(part.output_shape)), np.diff(part.indptr))
    return Entries(rows, part.indices, part.data)


# -- builders ----------------------------------------------------------------------------------------------------


def _channel_mix(part: Sparse) -> list[Any]:
    """One convolution with a kernel of one position, where positions stay."""
    spatial = part.input_shape[1:]
    found = _factors(part, math.prod(spatial), math.prod(part.output_shape[1:]))
    if found is None or part.output_shape[1:] != spatial or not _is_identity(found[1], math.prod(spatial)):
        return []
    weight = np.zeros((part.output_shape[0], part.input_shape[0], *(1,) * len(spatial)), part.data.dtype)
    weight[found[0].rows, found[0].columns] = found[0].values.reshape(-1, *(1,) * len(spatial))
    return [convolution(weight, spatial)]


def _columns(part: Sparse) -> list[Any]:
    """One Linear along the last axis, where the others stay."""
    lead, width, columns = part.input_shape[:-1], part.input_shape[-1], part.output_shape[-1]
    found = _factors(part, width, columns)
    if found is None or part.output_shape[:-1] != lead or not _is_identity(found[0], math.prod(lead), scale=True):
        return []
    if math.prod(part.output_shape) * width > WEIGHTS_MAX:
        return []
    return [_linear(_filled(found[1], (columns, width), part.data.dtype) * found[0].values[0], lead)]


def _moved(part: Sparse) -> list[Any]:
    """One convolution that moves all values of one position into an image, row-major."""
    count, spatial = part.input_shape[0], part.output_shape[1:]
    places, block = np.arange(count), math.prod(spatial)
    moves = math.prod(part.input_shape) == count == math.prod(part.output_shape) == len(part.indices)
    if not moves or not np.array_equal(part.indices, places) or not bool(np.all(part.data == 1)):
        return []
    if count * block > WEIGHTS_MAX:
        return []
    return [moving_convolution(part.output_shape[0], spatial, (1,) * len(spatial), part.data.dtype)]


def _separate(part: Sparse) -> list[Any]:
    """Rows and columns one after the other."""
    if len(part.input_shape) != 3:
        return []
    (cin, height, width), (cout, rows, columns) = part.input_shape, part.output_shape
    found = _factors(part, width, columns)
    if found is None:
        return []
    mixing, along = found
    matrix = _filled(along, (columns, width), part.data.dtype)
    if max(cout * rows * cin * height, cout * rows * columns * width) > WEIGHTS_MAX:
        return []
    nodes = [_covering(mixing, (cin, height), cout * rows, (height, 1), (height, width), part.data.dtype, rows)]
    stays = width == columns and bool(np.all(matrix == np.eye(width)))
    nodes += [] if stays else [_linear(matrix, (cout * rows, 1))]
    return nodes if rows == 1 else [*nodes, moving_convolution(cout, (rows, 1), (1, columns), part.data.dtype)]


def _dense(part: Sparse) -> list[Any]:
    """Every input reaches every output: the whole matrix as one kernel."""
    spatial, outputs = part.input_shape[1:], part.output_shape[1:]
    count, size = math.prod(part.output_shape), math.prod(part.input_shape)
    if count * max(size, math.prod(outputs)) > WEIGHTS_MAX:
        return []
    shape = (part.input_shape[0], math.prod(spatial))
    first = _covering(entries_of(part), shape, count, spatial, spatial, part.data.dtype, math.prod(outputs))
    return [first, moving_convolution(part.output_shape[0], outputs, (1,) * len(outputs), part.data.dtype)]


def _covering(
    mixing: Entries, shape: tuple[int, int], count: int, kernel: Shape, spatial: Shape, dtype: Any, rows: int
) -> Any:
    """A convolution whose kernel covers whole axes: ``count`` outputs of inputs of ``shape`` (channels, positions)."""
    channels, positions = shape
    stays = channels * rows == count and bool(np.all(mixing.rows // rows == mixing.columns // positions))
    groups = channels if stays and count * channels * positions > _UNGROUPED_MAX else 1
    weight = np.zeros((count, channels // groups * positions), dtype)
    weight[mixing.rows, mixing.columns % weight.shape[1] if groups > 1 else mixing.columns] = mixing.values
    return convolution(weight.reshape(count, channels // groups, *kernel), spatial, groups=groups)


# -- factors -----------------------------------------------------------------------------------------------------


def _factors(part: Sparse, inner_in: int, inner_out: int) -> tuple[Entries, Entries] | None:
    """The matrix as a product: (outer axes, inner axes), the inner ones of these sizes; None where it is none."""
    flat = entries_of(part)
    (a, w), (a1, w1) = np.divmod(flat.rows, inner_out), np.divmod(flat.columns, inner_in)
    outer_in = math.prod(part.input_shape) // inner_in
    outer, i = np.unique(a * outer_in + a1, return_inverse=True)
    inner, j = np.unique(w * inner_in + w1, return_inverse=True)
    if not len(outer) or len(outer) * len(inner) != len(flat.values):
        return None
    table = np.zeros((len(outer), len(inner)))
    table[i, j] = flat.values
    if table[0, 0] == 0:
        return None
    left, right = table[:, 0], table[0] / table[0, 0]
    if not np.array_equal((left[:, None] * right).astype(flat.values.dtype), table.astype(flat.values.dtype)):
        return None
    return Entries(*np.divmod(outer, outer_in), left), Entries(*np.divmod(inner, inner_in), right)


def _filled(entries: Entries, shape: Shape, dtype: Any) -> Array:
    matrix = np.zeros(shape, dtype)
    matrix[entries.rows, entries.columns] = entries.values
    return matrix


def _is_identity(entries: Entries, size: int, *, scale: bool = False) -> bool:
    """True for the identity of a size; with ``scale`` also for a multiple of it."""
    places = np.arange(size)
    stays = np.array_equal(entries.rows, places) and np.array_equal(entries.columns, places)
    return stays and bool(np.all(entries.values == (entries.values[0] if scale else 1)))


# -- nodes -------------------------------------------------------------------------------------------------------


def convolution(weight: Array, spatial: Shape, padding: Shape | None = None, groups: int = 1) -> Any:
    """A Conv1d or Conv2d with stride 1."""
    import nir

    zero = np.zeros(weight.shape[0])
    if len(spatial) == 1:
        return nir.Conv1d(spatial[0], weight, 1, padding[0] if padding else 0, 1, groups, zero)
    conv: Any = nir.Conv2d  # its annotations know pairs only as literal pairs
    return conv(spatial, weight, (1, 1), padding or (0, 0), (1, 1), groups, zero)


def moving_convolution(channels: int, block: Shape, spatial: Shape, dtype: Any) -> Any:
    """The convolution from ``(channels * prod(block), *spatial)`` to channels of blocks that lie along the axes."""
    size = math.prod(block)
    groups = channels if (channels * size) ** 2 > _UNGROUPED_MAX else 1
    weight = moving_weight(channels, block, groups, dtype)
    return convolution(weight, spatial, tuple(n - 1 for n in block), groups)


def moving_weight(channels: int, block: Shape, groups: int, dtype: Any) -> Array:
    """Input ``k`` of a channel reaches the place ``k`` of its block alone: its kernel is 1 at the opposite place."""
    size = math.prod(block)
    own = np.eye(size, dtype=dtype)[:, ::-1].reshape(size, *block)
    if groups > 1:
        return np.array(np.broadcast_to(own, (channels, *own.shape)))
    weight = np.zeros((channels, channels, *own.shape), dtype)
    weight[np.arange(channels), np.arange(channels)] = own
    return weight.reshape(channels, channels * size, *block)


def _linear(matrix: Array, lead: Shape) -> Any:
    import nir

    return nir.Linear(np.array(np.broadcast_to(matrix, (*lead, *matrix.shape))))


def _with_bias(node: Any, bias: Array) -> Any:
    """The last node with a bias; of a convolution, one per channel."""
    import nir

    if isinstance(node, nir.Linear):
        affine = nir.Affine(node.weight, np.array(bias))
        affine.metadata |= node.metadata
        return affine
    node.bias = bias.reshape(len(bias), -1)[:, 0].copy()
    return node
