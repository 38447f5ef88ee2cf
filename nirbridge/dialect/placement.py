"""Cores of a map as attributes of populations: the slices of neurons that each core holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import CoreId
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.dialect.values import Resources

KEYS = {"chip", "tile", "core", "slice"}


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The cores of one population.

    Attributes:
        slices: a core and the range of places along each axis that it holds.
        order: place k holds neuron ``order[k]`` (flat, row-major); None: places are neurons.
    """

    slices: tuple[tuple[CoreId, Box], ...]
    order: Array | None = None


def placements_of(mapped: MappedNetwork) -> dict[str, Placement]:
    """The cores of every population of a map."""
    listed: dict[str, list[tuple[CoreId, Box]]] = {p.name: [] for p in mapped.network.populations}
    for block, core in zip(mapped.partition.blocks, mapped.cores, strict=True):
        for each in block.slices:
            listed[each.population].append((core, each.box))
    orders = {name: np.asarray(order, np.int64) for name, order in mapped.partition.orders.items()}
    return {name: Placement(tuple(slices), orders.get(name)) for name, slices in listed.items()}


def check_placements(model: Network | QuantizedNetwork, placements: Mapping[str, Placement]) -> None:
    """Raises ModelError where the populations of a map are not those of the model."""
    names = {p.name for p in model.populations}
    other = sorted(names.symmetric_difference(placements))
    if placements and other:
        found = f"{counted(len(other), 'population')} of only one of them, as {quoted(other[0])}"
        raise ModelError.of("map and model", found, "they have the same populations", "give the model of the map")


def placement_attributes(placement: Placement, resources: Resources) -> dict[str, Any]:
    """A placement as attributes of its population."""
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

    from nirbridge.dialect.values import integer, integers

    listed = []
    for core, box in placement.slices:
        given = {"chip": integer(core.chip), "tile": integers([core.x, core.y]), "core": integer(core.core)}
        listed.append(DictionaryAttr(given | {"slice": integers([end for pair in box for end in pair])}))
    found: dict[str, Any] = {"placement": ArrayAttr(listed)}
    return found if placement.order is None else found | {"order": resources.attribute(placement.order)}


def placement_faults(placement: Any, shape: Shape) -> Iterator[tuple[str, str]]:
    """(found, limit) of a placement attribute: its form, then every neuron on exactly one core."""
    if not all(map(_is_slice, placement.data)):
        yield "placement has another form", "{chip, tile = [x, y], core, slice = [start, stop of each axis]}"
        return
    holders = np.zeros(shape, np.int64)
    for core, box in map(slice_of, placement.data):
        if min(core) < 0:
            yield f"placement on {tuple(core)}", "chip, tile and core are 0 or more"
        if len(box) != len(shape) or any(not 0 <= a < b <= n for (a, b), n in zip(box, shape, strict=False)):
            yield f"placement of a slice {box}", f"ranges within {shape}"
            return
        holders[tuple(slice(*pair) for pair in box)] += 1
    if holders.size and bool((holders != 1).any()):
        first = tuple(int(k) for k in np.argwhere(holders != 1)[0])
        yield f"neuron {first} is on {counted(int(holders[first]), 'core')}", "every neuron is on exactly one"


def slice_of(attribute: Any) -> tuple[CoreId, Box]:
    """The core and the slice of an entry of a placement."""
    from nirbridge.dialect.values import integers_in

    given = attribute.data
    ends = integers_in(given["slice"])
    x, y = integers_in(given["tile"])
    core = CoreId(given["chip"].value.data, x, y, given["core"].value.data)
    return core, tuple(zip(ends[::2], ends[1::2], strict=True))


def _is_slice(attribute: Any) -> bool:
    from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr

    if not isinstance(attribute, DictionaryAttr) or set(attribute.data) != KEYS:
        return False
    given = attribute.data
    arrays = [given[name] for name in ("tile", "slice")]
    if not all(isinstance(each, DenseArrayBase) for each in arrays):
        return False
    sizes = [len(each) for each in arrays]  # type: ignore[arg-type]
    return sizes[0] == 2 and sizes[1] % 2 == 0 and all(isinstance(given[k], IntegerAttr) for k in ("chip", "core"))
