"""A network whose populations list their neurons in another order, so that ranges of them make good slices.

The order of a population is a permutation: place k holds neuron ``order[k]`` (flat, row-major). Only cost models see
such a network: simulators and emitters keep the order of the model, and a map names the neurons of its places.
Operators that an order cuts up (windows, pools, one to one) become lists of their pairs, whose words are an upper bound
where a chip stores like kernels once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array, freeze
from nirbridge.network import Network, Population, Projection
from nirbridge.network.neurons import with_arrays
from nirbridge.network.operators import Chain, Dense, Operator, Reshape, Sparse
from nirbridge.partitioner.cost.connectivity import AllToAll, connectivity, explicit

Orders = Mapping[str, tuple[int, ...]]


def ordered_network(network: Network, orders: Orders) -> Network:
    """The network with its populations in these orders; the network itself where there are none.

    Raises:
        ModelError: an operator that has to be listed pair by pair has too many pairs.
    """
    if not orders:
        return network
    arrays = {name: np.array(order, np.int64) for name, order in orders.items()}
    return replace(
        network,
        populations=tuple(_population(p, arrays.get(p.name)) for p in network.populations),
        projections=tuple(_projection(p, arrays.get(p.source), arrays.get(p.target)) for p in network.projections),
    )


def in_orders(values: Mapping[str, Array], orders: Orders) -> Mapping[str, Array]:
    """Values per neuron, by population, each in the order of its population."""
    if not orders:
        return values
    ordered = {name: _taken(np.asarray(a), np.array(orders[name])) for name, a in values.items() if name in orders}
    return MappingProxyType({**values, **ordered})


def _population(p: Population, order: Array | None) -> Population:
    if order is None:
        return p
    return replace(p, neuron=with_arrays(p.neuron, lambda values: _taken(values, order)))


def _projection(p: Projection, source: Array | None, target: Array | None) -> Projection:
    if source is None and target is None:
        return p
    return replace(
        p,
        operator=_operator(p, source, target),
        bias=None if p.bias is None else _taken(p.bias, target),
        delay_steps=_taken(p.delay_steps, source),
        target_delay_steps=_taken(p.target_delay_steps, target),
    )


def _taken(values: Array, order: Array | None) -> Array:
    """The values of the neurons in their order; one value for all stays one."""
    if order is None or not values.ndim or not any(values.strides):
        return values
    return freeze(values.reshape(-1)[order].reshape(values.shape))


def _operator(p: Projection, source: Array | None, target: Array | None) -> Operator:
    operator = p.operator
    if isinstance(operator, Sparse):
        return _rows(operator, source, target)
    if isinstance(operator, Dense):
        return Dense(_along(_along(operator.weight, target, 0), source, 1))
    form = connectivity(operator, f"projection {p.source!r} -> {p.target!r}")
    if isinstance(form, AllToAll) and form.touched.all():
        return _dense(operator)
    lists = explicit(form, f"projection {p.source!r} -> {p.target!r}")
    ones = np.broadcast_to(np.float64(1), len(lists.sources))
    listed = Sparse(lists.indptr, lists.sources, ones, operator.input_shape, operator.output_shape)
    return _rows(listed, source, target)


def _along(weight: Array, order: Array | None, axis: int) -> Array:
    return weight if order is None or not weight.strides[axis] else np.take(weight, order, axis)


def _dense(operator: Operator) -> Operator:
    """All pairs: the same in every order."""
    shapes = operator.input_shape, operator.output_shape
    n_in, n_out = map(math.prod, shapes)
    dense = Dense(np.broadcast_to(np.float64(1), (n_out, n_in)))
    return Chain((Reshape(shapes[0], (n_in,)), dense, Reshape((n_out,), shapes[1])))


def _rows(operator: Sparse, source: Array | None, target: Array | None) -> Sparse:
    """Rows in the order of the targets, columns numbered by the places of the sources."""
    shape = (len(operator.indptr) - 1, math.prod(operator.input_shape))
    narrow = np.int32 if max(len(operator.indices), *shape) < 2**31 else np.int64
    columns = np.asarray(operator.indices, narrow)
    if source is not None:
        place = np.empty_like(source)
        place[source] = np.arange(len(source))
        columns = place.astype(narrow)[columns]
    # the values are the numbers of the entries, so that sorting moves the entries whatever they are
    entries = np.arange(len(columns), dtype=narrow)
    rows: Any = sparse.csr_array((entries, columns, operator.indptr.astype(narrow)), shape=shape)
    if target is not None:
        rows = rows[target]
    rows.sort_indices()
    data = operator.data if not any(operator.data.strides) else operator.data[rows.data]
    return replace(operator, indptr=rows.indptr.astype(np.int64), indices=rows.indices.astype(np.int64), data=data)
