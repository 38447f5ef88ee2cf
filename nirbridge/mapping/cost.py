"""Traffic, energy and time of one time step of a mapped network.

Traffic is counted on multicast trees (``route``). Energy and time follow SANA-FE's model of event costs
(J. A. Boyle et al., SANA-FE; its figures are in the chip files): a core sends one message per spike and destination
core, so axons out and hops are counted per message (unicast), on the X-Y path of each.

Energy per step: synaptic operations, an access and an update of every neuron, spikes, messages, hops along x and y.
Time per step, a simplification that leaves out waiting and overlap: the work of the busiest core (the largest sum of
its own synaptic operations, neuron updates, spikes, messages out and messages in), then the busiest link (its
messages one after the other), then the barrier. Host inputs cost the host nothing here; their hops, and their
messages and operations in the cores, count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.model import MapCosts
from nirbridge.mapping.route import Routes, link_loads, routes, tree_hops
from nirbridge.mapping.traffic_bound import traffic_lower_bound
from nirbridge.partitioner.cost.axons import HOST, AxonTable

ENERGY_FIGURES = MappingProxyType(
    {
        "synaptic operations": "synaptic_op_j",
        "neuron accesses": "neuron_access_j",
        "neuron updates": "neuron_update_j",
        "spikes": "spike_j",
        "axons out": "axon_out_j",
        "hops x": "hop_x_j",
        "hops y": "hop_y_j",
    }
)
"""Kinds of event of the energy breakdown, and the chip's figure of each."""
TIME_FIGURES = MappingProxyType(
    {
        "synaptic operations": "synaptic_op_s",
        "neuron updates": "neuron_update_s",
        "spikes": "spike_s",
        "axons out": "axon_out_s",
        "axons in": "axon_in_s",
    }
)
"""Kinds of event in a core of the time breakdown, and the chip's figure of each."""


def costs(
    axons: AxonTable,
    cores: Sequence[CoreId],
    chip: Chip,
    neurons_per_block: Sequence[int] | Array,
    *,
    chips: int | None = None,
    spikes_per_block: Sequence[float] | Array | None = None,
) -> MapCosts:
    """The costs of blocks on ``cores`` (``cores[b]``: the core of block b).

    Args:
        axons: the axon table, with rates.
        cores: one distinct core a block.
        chip: the chip; events without a figure are left out of the breakdowns, totals without any are None.
        neurons_per_block: neurons of each block [blocks].
        chips: chips in a row that a placement may use (the lower bound depends on it); None: as many as a board has.
        spikes_per_block: spikes per step of each block [blocks]; None: those of its neurons that have a target.
    """
    paths = routes(axons, cores, chip)
    loads = link_loads(paths.multicast, axons.spikes_per_step, *_extent(cores, chip))
    used = loads[loads > 0]
    events = core_events(axons, paths.entry_group, neurons_per_block, spikes_per_block)
    energy, time = _energy(events, paths, axons, chip), _time(events, paths, axons, cores, chip)
    away = axons.targets != axons.source_block[paths.entry_group]
    return MapCosts(
        unicast_spikes_per_step=float(axons.spikes_per_step[paths.entry_group] @ away),
        multicast_hops_per_step=float(axons.spikes_per_step @ tree_hops(paths.multicast)),
        max_link_load_spikes_per_step=float(loads.max(initial=0.0)),
        mean_link_load_spikes_per_step=float(used.mean()) if len(used) else 0.0,
        energy_per_step_j=sum(energy.values()) if energy else None,
        time_per_step_s=sum(time.values()) if time else None,
        energy_breakdown_j=MappingProxyType(energy),
        time_breakdown_s=MappingProxyType(time),
        traffic_lower_bound=traffic_lower_bound(axons, len(cores), chip, chips=chips or chip.mesh.chips_max),
    )


def core_events(
    axons: AxonTable,
    group: Array,
    neurons_per_block: Sequence[int] | Array,
    spikes_per_block: Sequence[float] | Array | None = None,
) -> dict[str, Array]:
    """Events of each core in one time step, by kind: float64 [blocks] each; ``group``: of each entry of the table.

    Neurons are accessed and updated in every time step. Axons in and out are messages: one per spike and destination
    core, the own core included.
    """
    blocks = len(neurons_per_block)
    source, rate = axons.source_block, np.asarray(axons.spikes_per_step, dtype=np.float64)
    on_chip, sent = source != HOST, source[group] != HOST
    spikes = np.bincount(source[on_chip], rate[on_chip], blocks) if spikes_per_block is None else spikes_per_block
    neurons = np.asarray(neurons_per_block, dtype=np.float64)
    return {
        "synaptic operations": np.bincount(axons.targets, axons.synaptic_ops_per_step, blocks),
        "neuron accesses": neurons,
        "neuron updates": neurons,
        "spikes": np.asarray(spikes, dtype=np.float64),
        "axons out": np.bincount(source[group][sent], rate[group][sent], blocks),
        "axons in": np.bincount(axons.targets, rate[group], blocks),
    }


def _energy(events: Mapping[str, Array], paths: Routes, axons: AxonTable, chip: Chip) -> dict[str, float]:
    messages = np.asarray(axons.spikes_per_step, dtype=np.float64)[paths.entry_group]
    counts = {kind: per_core.sum() for kind, per_core in events.items()}
    counts |= {"hops x": messages @ paths.hops_x, "hops y": messages @ paths.hops_y}
    figures = {kind: getattr(chip.energy, field) for kind, field in ENERGY_FIGURES.items()}
    return {kind: float(counts[kind]) * figure for kind, figure in figures.items() if figure is not None}


def _time(
    events: Mapping[str, Array], paths: Routes, axons: AxonTable, cores: Sequence[CoreId], chip: Chip
) -> dict[str, float]:
    figures = {kind: getattr(chip.time, field) for kind, field in TIME_FIGURES.items()}
    work = {kind: events[kind] * figure for kind, figure in figures.items() if figure is not None}
    parts: dict[str, float] = {}
    if work and len(cores):
        busiest = int(np.argmax(np.sum(list(work.values()), axis=0)))
        parts = {kind: float(seconds[busiest]) for kind, seconds in work.items()}
    link = _busiest_link(paths, axons, cores, chip)
    parts |= {} if link is None else {"busiest link": link}
    return parts | ({} if chip.time.barrier_s is None else {"barrier": chip.time.barrier_s})


def _busiest_link(paths: Routes, axons: AxonTable, cores: Sequence[CoreId], chip: Chip) -> float | None:
    figures = (chip.time.hop_x_s, chip.time.hop_y_s)
    if figures == (None, None):
        return None
    loads = link_loads(paths.unicast, axons.spikes_per_step[paths.entry_group], *_extent(cores, chip))
    along_x, along_y = (0.0 if f is None else f for f in figures)
    return float(max((loads[:, :, :2] * along_x).max(initial=0.0), (loads[:, :, 2:] * along_y).max(initial=0.0)))


def _extent(cores: Sequence[CoreId], chip: Chip) -> tuple[int, int]:
    """Columns and rows of the chips that are used (routes never leave them)."""
    used = 1 + max((core.chip for core in cores), default=0)
    return chip.mesh.width_tiles * used, chip.mesh.height_tiles


def missing_figures(chip: Chip) -> Mapping[str, tuple[str, ...]]:
    """Kinds of event that a chip has no figure for, of ``energy`` and of ``time``; the totals leave these out."""
    time = dict(TIME_FIGURES) | {"hops x": "hop_x_s", "hops y": "hop_y_s", "barrier": "barrier_s"}
    return {
        "energy": tuple(kind for kind, field in ENERGY_FIGURES.items() if getattr(chip.energy, field) is None),
        "time": tuple(kind for kind, field in time.items() if getattr(chip.time, field) is None),
    }
