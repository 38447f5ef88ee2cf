"""Traffic, energy and time of one time step of a mapped network at expected rates.

Traffic is counted on multicast trees (``route``). Energy and time follow SANA-FE's model of event costs
(J. A. Boyle et al., SANA-FE, IEEE TCAD 2025; its figures are in the chip files): a core sends one message per spike and
destination core, so axons out and hops are counted per message (unicast), on the X-Y path of each.

Time is that of ``mapping.cost.time`` in the limit of many small spikes, spread evenly over the time in which a core
computes its neurons. For ways of one length the work that arrives at a core after some moment falls in a convex way
with that moment. The core is then done either when all its work, begun at once, is done, or when the last message has
reached it: no other moment decides. Ways differ by a few links; the nearest source's counts for the work. Steps of
recorded spikes take longer on average, since the mean of the largest of several times is not less than the largest of
their means. Host inputs cost the host nothing here; their hops, and their messages and operations in the cores, count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.model import SYNAPSE_KINDS, Chip, CoreId, SynapseKind
from nirbridge.mapping.cost.model import (
    ENERGY_FIGURES,
    STAND_INS,
    TIME_FIGURES,
    StepCosts,
    figure,
    has_energies,
    has_figure,
    has_times,
    own_kind,
    seconds,
)
from nirbridge.mapping.cost.recorded import EventCounter
from nirbridge.mapping.cost.time import busiest_link, price, receiving_parts, sending_parts, time_kinds, way_parts
from nirbridge.mapping.model import MapCosts, MappedNetwork
from nirbridge.mapping.route import Routes, link_loads, routes, tree_hops
from nirbridge.mapping.traffic import Traffic
from nirbridge.mapping.traffic_bound import traffic_lower_bound
from nirbridge.partitioner.cost.axons import HOST, AxonTable


def costs(
    axons: AxonTable,
    cores: Sequence[CoreId],
    chip: Chip,
    neurons_per_block: Sequence[int] | Array,
    *,
    chips: int | None = None,
    spikes_per_block: Sequence[float] | Array | None = None,
    nets: Traffic | None = None,
    bounded: bool = True,
) -> MapCosts:
    """The costs of blocks on ``cores`` (``cores[b]``: the core of block b).

    Args:
        axons: the axon table, with rates.
        cores: one distinct core a block.
        chip: the chip; events without a figure are left out of the breakdowns, totals without any are None.
        neurons_per_block: neurons of each block [blocks].
        chips: chips that a placement may use (the lower bound depends on it); None: as many as a board has.
        spikes_per_block: spikes per step of each block [blocks]; None: those of its neurons that have a target.
        nets: ``traffic`` of the table, where it is known.
        bounded: False leaves the lower bound on traffic at 0.
    """
    paths = routes(axons, cores, chip)
    loads = link_loads(paths.multicast, axons.spikes_per_step, *_extent(cores, chip))
    used = loads[loads > 0]
    events = core_events(axons, paths.entry_group, neurons_per_block, spikes_per_block)
    energy, time = _energy(events, paths, axons, chip), _time(events, paths, axons, cores, chip)
    away = axons.targets != axons.source_block[paths.entry_group]
    on_chips = chips or chip.mesh.chips_max
    hops = float(weighted_sum(axons.spikes_per_step, tree_hops(paths.multicast)))
    bound = traffic_lower_bound(axons, len(cores), chip, chips=on_chips, nets=nets) if bounded else 0.0
    return MapCosts(
        unicast_spikes_per_step=float(weighted_sum(axons.spikes_per_step[paths.entry_group], away)),
        multicast_hops_per_step=hops,
        max_link_load_spikes_per_step=float(loads.max(initial=0.0)),
        mean_link_load_spikes_per_step=float(used.mean()) if len(used) else 0.0,
        energy_per_step_j=_sum(energy.values()) if energy else None,
        time_per_step_s=_sum(time.values()) if time else None,
        energy_breakdown_j=MappingProxyType(energy),
        time_breakdown_s=MappingProxyType(time),
        traffic_lower_bound=bound,
    )


def _sum(values: Iterable[float]) -> float:
    """One after the other: from Python 3.12 on `sum` rounds otherwise, and a map would have other bytes."""
    return reduce(add, values)


def core_events(
    axons: AxonTable,
    group: Array,
    neurons_per_block: Sequence[int] | Array,
    spikes_per_block: Sequence[float] | Array | None = None,
) -> dict[str, Array]:
    """Events of each core in one time step, by kind: float64 [blocks] each; ``group``: of each entry of the table.

    Neurons are accessed and updated in every time step. Axons in and out are messages: one per spike and destination
    core, the own core included. Operations are by kind of synapse.
    """
    blocks = len(neurons_per_block)
    source, rate = axons.source_block, np.asarray(axons.spikes_per_step, dtype=np.float64)
    on_chip, sent = source != HOST, source[group] != HOST
    spikes = np.bincount(source[on_chip], rate[on_chip], blocks) if spikes_per_block is None else spikes_per_block
    neurons = np.asarray(neurons_per_block, dtype=np.float64)
    counts = {kind: _entry_ops(axons, kind) for kind in SYNAPSE_KINDS}
    ops: dict[str, Array] = {
        kind: np.bincount(axons.targets, values, blocks) if any(values.strides) else np.zeros(blocks)
        for kind, values in counts.items()
    }
    return ops | {
        "neuron accesses": neurons,
        "neuron updates": neurons,
        "spikes": np.asarray(spikes, dtype=np.float64),
        "axons out": np.bincount(source[group][sent], rate[group][sent], blocks),
        "axons in": np.bincount(axons.targets, rate[group], blocks),
    }


def _entry_ops(axons: AxonTable, kind: SynapseKind) -> Array:
    """Operations of one kind per entry; a table that does not tell kinds has dense rows."""
    if not axons.ops_by_kind:
        return axons.synaptic_ops_per_step if kind == "dense" else np.broadcast_to(np.float64(0), len(axons.targets))
    return axons.ops_by_kind[kind]


def _by_kind(events: Mapping[str, Array], chip: Chip, figures: Mapping[str, str]) -> dict[str, Array]:
    """The events with operations under the kinds that the chip has figures for."""
    counts = {kind: values for kind, values in events.items() if kind not in SYNAPSE_KINDS}
    for synapse in SYNAPSE_KINDS:
        kind = own_kind(chip, figures, synapse)
        counts[kind] = counts.get(kind, 0.0) + events[synapse]
    return counts


def _energy(events: Mapping[str, Array], paths: Routes, axons: AxonTable, chip: Chip) -> dict[str, float]:
    if not has_energies(chip):
        return {}
    messages = np.asarray(axons.spikes_per_step, dtype=np.float64)[paths.entry_group]
    counts = {kind: float(np.sum(values)) for kind, values in _by_kind(events, chip, ENERGY_FIGURES).items()}
    between = has_figure(chip, ENERGY_FIGURES, "chip crossings")
    counts["hops x"] = float(weighted_sum(messages, paths.hops_x - between * paths.crossings_x))
    counts["hops y"] = float(weighted_sum(messages, paths.hops_y - between * paths.crossings_y))
    counts["chip crossings"] = float(weighted_sum(messages, paths.crossings_x + paths.crossings_y))
    figures = {kind: figure(chip, key) for kind, key in ENERGY_FIGURES.items()}
    known = {kind: counts.get(kind, 0.0) * joules for kind, joules in figures.items() if joules is not None}
    return {kind: joules for kind, joules in known.items() if joules or kind not in STAND_INS}


def _time(
    events: Mapping[str, Array], paths: Routes, axons: AxonTable, cores: Sequence[CoreId], chip: Chip
) -> dict[str, float]:
    if not has_times(chip):
        return {}
    counts = _by_kind(events, chip, TIME_FIGURES)
    sending = {k: counts[k] * seconds(chip, k) for k in ("neuron accesses", "neuron updates", "spikes", "axons out")}
    receiving = {k: v * seconds(chip, k) for k, v in counts.items() if k not in sending}
    parts = dict.fromkeys(time_kinds(chip), 0.0)
    link = _busiest_link(paths, axons, cores, chip)
    if chip.time.overlap:
        _longest(sending, receiving, link, parts, _Ways(paths, axons, chip))
        parts = {kind: value for kind, value in parts.items() if value}
    else:
        _take(sending | receiving, int(np.argmax(_total(sending | receiving))) if len(cores) else None, parts)
        if "busiest link" in parts:
            parts["busiest link"] = link
    barrier = chip.time.barrier(len({core[:3] for core in cores}))
    return parts if barrier is None else parts | {"barrier": barrier}


def _longest(
    sending: dict[str, Array], receiving: dict[str, Array], link: float, parts: dict[str, float], ways: _Ways
) -> None:
    """The longest of: a core sends and its last message arrives, messages arrive and a core processes all, a link."""
    sent, received = _total(sending), _total(receiving)
    last = np.where(ways.source == HOST, 0.0, np.append(sent, 0.0)[ways.source]) + ways.seconds
    nearest = np.full(len(received), np.inf)
    np.minimum.at(nearest, ways.target, ways.seconds)
    done = received + np.where(np.isfinite(nearest), nearest, 0.0)
    ends = [sent.max(initial=0.0), last.max(initial=0.0), done.max(initial=0.0), link]
    decides = int(np.argmax(ends))
    if decides == 0:
        _take(sending, int(np.argmax(sent)) if len(sent) else None, parts)
    elif decides == 1:
        entry = int(np.argmax(last))
        _take(sending, int(ways.source[entry]) if ways.source[entry] != HOST else None, parts)
        ways.add(entry, parts)
    elif decides == 2:
        core = int(np.argmax(done))
        _take(receiving, core, parts)
        own = np.flatnonzero(ways.target == core)
        ways.add(int(own[np.argmin(ways.seconds[own])]), parts)
    elif "busiest link" in parts:
        parts["busiest link"] += link


class _Ways:
    """Seconds of the ways of an axon table that have spikes, by their links: of each pair of blocks the first entry."""

    def __init__(self, paths: Routes, axons: AxonTable, chip: Chip) -> None:
        spikes = np.asarray(axons.spikes_per_step)[paths.entry_group] > 0
        own = _first_of_pairs(axons.source_block[paths.entry_group], axons.targets, np.flatnonzero(spikes))
        crossing = figure(chip, "board.link_s") is not None
        cross_x, cross_y = paths.crossings_x[own], paths.crossings_y[own]
        self.source, self.target = axons.source_block[paths.entry_group][own], axons.targets[own]
        self.parts = {
            "hops x": (paths.hops_x[own] - crossing * cross_x) * seconds(chip, "hops x"),
            "hops y": (paths.hops_y[own] - crossing * cross_y) * seconds(chip, "hops y"),
        }
        if crossing:
            self.parts["chip crossings"] = (cross_x + cross_y) * seconds(chip, "chip crossings")
        self.seconds = _total(self.parts)

    def add(self, entry: int, parts: dict[str, float]) -> None:
        """Add the way of one entry to the parts of the time."""
        for kind in self.parts.keys() & parts.keys():
            parts[kind] += float(self.parts[kind][entry])


def _first_of_pairs(source: Array, target: Array, entries: Array) -> Array:
    """Of ``entries``, ascending, the first of each pair of blocks; all of them where there are fewer than pairs."""
    blocks = 1 + max(int(source.max(initial=0)), int(target.max(initial=0)))
    if blocks * (blocks + 1) > len(entries):
        return entries
    first, last_to_first = np.full(blocks * (blocks + 1), -1), entries[::-1]
    first[(source[last_to_first] - HOST) * blocks + target[last_to_first]] = last_to_first  # the last one written stays
    return np.sort(first[first >= 0])


def _total(parts: Mapping[str, Array]) -> Array:
    return np.sum(list(parts.values()), axis=0)


def _take(work: Mapping[str, Array], core: int | None, parts: dict[str, float]) -> None:
    """Add the work of one core to the parts of the time."""
    for kind in work.keys() & parts.keys() if core is not None else ():
        parts[kind] += float(work[kind][core])


def _busiest_link(paths: Routes, axons: AxonTable, cores: Sequence[CoreId], chip: Chip) -> float:
    along_x, along_y = seconds(chip, "hops x"), seconds(chip, "hops y")
    if not along_x and not along_y:
        return 0.0
    loads = link_loads(paths.unicast, axons.spikes_per_step[paths.entry_group], *_extent(cores, chip))
    along = max((loads[:, :, :2] * along_x).max(initial=0.0), (loads[:, :, 2:] * along_y).max(initial=0.0))
    width, height = chip.mesh.width_tiles, chip.mesh.height_tiles
    leaving = (
        loads[:, width - 1 :: width, 0],
        loads[:, ::width, 1],
        loads[height - 1 :: height, :, 2],
        loads[::height, :, 3],
    )
    between = max(load.max(initial=0.0) for load in leaving)  # those at the rim of the board are 0
    return float(max(along, between * (chip.board.link_s or 0.0)))


def _extent(cores: Sequence[CoreId], chip: Chip) -> tuple[int, int]:
    """Columns and rows of the chips that are used (routes never leave them)."""
    return board_tiles(chip, 1 + max((core.chip for core in cores), default=0))


# -- limits --------------------------------------------------------------------------------------------------------
# The worst case of a time step: every neuron that can fire does, and every input sends.


@dataclass(frozen=True, slots=True, eq=False)
class WorstCase:
    """A time step in which everything fires.

    ``costs`` of that step by the model (one time step): no step of recorded spikes costs more. ``time_limit_s``: a
    bound for any order of the messages, with waiting for links of unlimited room: the longest sending, then the longest
    way with all messages of the busiest link before it on each of its links, then the longest receiving, then the
    barrier. None where the chip has no figures of time.
    """

    costs: StepCosts
    time_limit_s: float | None


def worst_case(mapped: MappedNetwork, chip: Chip | None = None) -> WorstCase:
    """The worst case of a map; ``chip``: figures to price with, the map's own where None."""
    on = chip or mapped.chip
    events = EventCounter.of(mapped).every_neuron_fires()
    paid = price(events, on)
    if paid.time_s is None:
        return WorstCase(paid, None)
    sending = np.sum(list(sending_parts(events, on).values()), axis=0).max(initial=0.0)
    receiving = np.sum(list(receiving_parts(events, on).values()), axis=0).max(initial=0.0)
    m = events.messages
    links = (m.hops_x + m.hops_y + m.crossings_x + m.crossings_y).max(initial=0)
    ways = way_parts(m, on)
    way = np.sum([ways[kind] for kind in ways.keys() & {"hops x", "hops y", "chip crossings"}], axis=0).max(initial=0.0)
    queues = float(busiest_link(events, on)[0]) * links
    together = sending + max(way, queues) + receiving + (on.time.barrier(events.tiles) or 0.0)
    return WorstCase(paid, float(together))
