"""Small axon tables and chips for the tests of placement, routes and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from nirbridge.chips.model import (
    Chip,
    CoreId,
    CoreLimits,
    EnergyFigures,
    Mesh,
    NeuronSupport,
    SynapseFormat,
    TimeFigures,
)
from nirbridge.partitioner.cost.axons import HOST, AxonTable

Group = tuple[int, float, Sequence[int]]
"""Source block (or HOST), spikes per step, target blocks."""


def chip(
    width: int = 3,
    height: int = 3,
    per_tile: int = 1,
    *,
    chips_max: int = 4,
    dead: Iterable[CoreId] = (),
    energy: EnergyFigures | None = None,
    time: TimeFigures | None = None,
) -> Chip:
    return Chip(
        name="tiny",
        description="",
        mesh=Mesh(width, height, per_tile, chips_max),
        core=CoreLimits(None, None, None, None, None, None),
        synapses=SynapseFormat(64, None, (8,), 8, None, True, 0, None, 0, False),
        neuron=NeuronSupport(True, True, True),
        energy=energy or EnergyFigures(),
        time=time or TimeFigures(),
        sources={},
        approximate=(),
        dead_cores=tuple(dead),
    )


def table(groups: Sequence[Group], *, synapses_per_entry: int = 3) -> AxonTable:
    targets = [sorted(set(targets)) for _, _, targets in groups]
    flat = np.array([b for own in targets for b in own], dtype=np.int64)
    ptr = np.cumsum([0, *(len(own) for own in targets)], dtype=np.int64)
    rates = np.array([rate for _, rate, _ in groups], dtype=np.float64)
    synapses = np.full(len(flat), synapses_per_entry, dtype=np.int64)
    return AxonTable(
        names=("host", "p"),
        source_name=np.array([0 if source == HOST else 1 for source, _, _ in groups], dtype=np.int64),
        source_block=np.array([source for source, _, _ in groups], dtype=np.int64),
        neurons=np.ones(len(groups), dtype=np.int64),
        spikes_per_step=rates,
        target_ptr=ptr,
        targets=flat,
        synapses=synapses,
        synaptic_ops_per_step=synapses * np.repeat(rates, np.diff(ptr)),
    )


def cores_in_rows(on: Chip, chips: int = 1) -> list[CoreId]:
    mesh = on.mesh
    return [
        CoreId(c, x, y, k)
        for c in range(chips)
        for y in range(mesh.height_tiles)
        for x in range(mesh.width_tiles)
        for k in range(mesh.cores_per_tile)
    ]


@st.composite
def group_lists(draw: st.DrawFn, blocks: int, most: int = 8) -> list[Group]:
    """Groups over ``blocks`` blocks; rates are multiples of 1/4, so that sums are exact."""
    one = st.tuples(
        st.integers(HOST, blocks - 1),
        st.integers(0, 20).map(lambda n: n / 4),
        st.lists(st.integers(0, blocks - 1), min_size=1, max_size=blocks, unique=True),
    )
    return draw(st.lists(one, max_size=most))


# -- what a tree is, walked link by link, sharing no code with the library ----------------------------------------


def at(core: CoreId, on: Chip) -> tuple[int, int]:
    return core.chip * on.mesh.width_tiles + core.x, core.y


def walk(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[tuple[int, int], str]]:
    """Links (tile, direction) of the X-Y path, in order."""
    (x, y), links = start, []
    while x != end[0]:
        step = 1 if end[0] > x else -1
        links.append(((x, y), "+x" if step > 0 else "-x"))
        x += step
    while y != end[1]:
        step = 1 if end[1] > y else -1
        links.append(((x, y), "+y" if step > 0 else "-y"))
        y += step
    return links


def tree_links(group: Group, cores: Sequence[CoreId], on: Chip) -> set[tuple[tuple[int, int], str]]:
    """Union of the paths of one group."""
    source, _, targets = group
    start = (0, 0) if source == HOST else at(cores[source], on)
    return {link for target in targets for link in walk(start, at(cores[target], on))}


def hops_by_hand(groups: Sequence[Group], cores: Sequence[CoreId], on: Chip) -> float:
    return sum(rate * len(tree_links((s, rate, t), cores, on)) for s, rate, t in groups)


def loads_by_hand(
    groups: Sequence[Group], cores: Sequence[CoreId], on: Chip
) -> dict[tuple[tuple[int, int], str], float]:
    loads: dict[tuple[tuple[int, int], str], float] = {}
    for group in groups:
        for link in tree_links(group, cores, on):
            loads[link] = loads.get(link, 0.0) + group[1]
    return loads


def objective_by_hand(groups: Sequence[Group], cores: Sequence[CoreId], on: Chip) -> float:
    """Multicast hops plus the load of the busiest link."""
    return hops_by_hand(groups, cores, on) + max(loads_by_hand(groups, cores, on).values(), default=0.0)
