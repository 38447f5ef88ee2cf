"""The cores that hold a neuron: one, or one for each copy of its population."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.chips.model import CoreId
from nirbridge.errors import UsageError, did_you_mean, quoted

NAMES_SHOWN = 8


def neuron_cores(
    name: object,
    index: object,
    shapes: Sequence[tuple[str, Shape]],
    splits: Sequence[tuple[str, int]],
    slices: Sequence[tuple[str, Box, CoreId]],
    orders: Mapping[str, Sequence[int]] | None = None,
) -> tuple[CoreId, ...]:
    """The core of a neuron of a population of the model; with copies of the population one core for each, in order.

    Args:
        name: the population.
        index: the neuron, an index per axis of the population's shape; one number where there is one axis.
        shapes: name and shape of every population of the map, copies after their original.
        splits: population -> copies, in the order in which they were made.
        slices: population, box and core of every slice of the map.
        orders: the permutations of neurons in which slices count, by population.

    Raises:
        UsageError: no such population or neuron.
    """
    shape_of = dict(shapes)
    if not isinstance(name, str) or name not in shape_of:
        limit = f"the map has {', '.join(map(quoted, list(shape_of)[:NAMES_SHOWN]))}"
        hint = did_you_mean(name, shape_of) or "name one; inputs and outputs are on the host"
        raise UsageError.of(f"population {quoted(name)}", "unknown", limit, hint)
    neuron = _neuron(name, index, shape_of[name])
    groups = _copies([n for n, _ in shapes], splits)
    copies = next((group for group in groups if name in group and group[0] == name), (name,))
    places = {copy: _place(neuron, shape_of[name], (orders or {}).get(copy)) for copy in copies}
    return tuple(next(core for p, box, core in slices if p == c and _holds(box, places[c])) for c in copies)


def _place(neuron: tuple[int, ...], shape: Shape, order: Sequence[int] | None) -> tuple[int, ...]:
    """Coordinates of a neuron in slices: its index on each axis, or that of its place in the order."""
    if order is None:
        return neuron
    flat = np.flatnonzero(np.asarray(order) == np.ravel_multi_index(neuron, shape))[0]
    return tuple(int(k) for k in np.unravel_index(flat, shape))


def _holds(box: Box, neuron: tuple[int, ...]) -> bool:
    return all(start <= k < stop for k, (start, stop) in zip(neuron, box, strict=True))


def _neuron(name: str, index: object, shape: Shape) -> tuple[int, ...]:
    indices: tuple[Any, ...] = tuple(index) if isinstance(index, tuple | list) else (index,)
    try:
        neuron = tuple(operator.index(k) for k in indices)
    except TypeError:
        neuron = ()
    if len(neuron) != len(shape) or any(not 0 <= k < n for k, n in zip(neuron, shape, strict=True)):
        limit = f"it has the shape {' x '.join(map(str, shape))}, neurons are numbered from 0"
        found = f"no neuron {quoted(index)[1:-1]}"
        raise UsageError.of(f"population {quoted(name)}", found, limit, "give an index for each axis")
    return neuron


def _copies(names: Sequence[str], splits: Sequence[tuple[str, int]]) -> list[tuple[str, ...]]:
    """The populations of the model, each with its copies: each split, the last first, is taken back.

    A split puts its copies right after their population, so copies of one population are next to each other.
    """
    groups: list[tuple[str, ...]] = [(name,) for name in names]
    for name, ways in reversed(splits):
        first = next(i for i, group in enumerate(groups) if group[0] == name)
        groups[first : first + ways] = [tuple(copy for group in groups[first : first + ways] for copy in group)]
    return groups
