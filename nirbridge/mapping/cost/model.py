"""Events of time steps on the cores of a map, the chip's figure of each kind, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, Steps, SynapseKind


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """One entry per message: a spike on its way to one core. All arrays [messages], int64 but ``ops``.

    ``step`` its time step; ``source`` and ``target`` blocks (``source`` is -1 for a host input). ``accesses``,
    ``updates``, ``spikes``, ``sent``: the work of the source core in this time step up to the moment at which the
    message leaves it: neurons accessed and updated, spikes, and messages, itself included; all 0 for host inputs. Links
    of its path: ``hops_x`` and ``hops_y`` within chips, ``crossings_x`` and ``crossings_y`` between chips. ``ops``:
    its synapses in the target core, by kind.
    """

    step: Array
    source: Array
    target: Array
    accesses: Array
    updates: Array
    spikes: Array
    sent: Array
    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    ops: Mapping[SynapseKind, Array]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True, eq=False)
class StepEvents:
    """Events of time steps. Per core [steps, blocks]; whole numbers where they are counted, not expected.

    ``synaptic_ops`` by kind of synapse; ``axons_out`` and ``axons_in`` are messages, one per spike and destination
    core, the own core included. Per time step [steps]: links of all messages, within chips (``hops_x``, ``hops_y``) and
    between chips (``crossings_x``, ``crossings_y``), and the most messages over one link along
    x, along y (links between chips included), and between chips. ``tiles``: tiles of which a core holds neurons.
    """

    synaptic_ops: Mapping[SynapseKind, Array]
    neuron_accesses: Array
    neuron_updates: Array
    spikes: Array
    axons_out: Array
    axons_in: Array
    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    link_x: Array
    link_y: Array
    link_between: Array
    tiles: int
    messages: Messages

    @property
    def steps(self) -> int:
        """Number of time steps."""
        return len(self.hops_x)


@dataclass(frozen=True, slots=True, eq=False)
class StepCosts:
    """Energy and time of each time step, float64 [steps], with their parts by kind of event, which sum to them.

    None and no parts where the chip has no figures. The parts of the time are those of the longest chain of work: see
    ``mapping.cost.time``.
    """

    energy_j: Array | None
    time_s: Array | None
    energy_parts_j: Mapping[str, Array]
    time_parts_s: Mapping[str, Array]


def joined_costs(parts: list[StepCosts]) -> StepCosts:
    """The costs of time steps that were priced in several goes, one after the other."""
    if len(parts) == 1:
        return parts[0]

    def whole(arrays: list[Array | None]) -> Array | None:
        known = [a for a in arrays if a is not None]
        return np.concatenate(known) if known else None

    def by_kind(maps: list[Mapping[str, Array]]) -> dict[str, Array]:
        return {kind: np.concatenate([m[kind] for m in maps]) for kind in maps[0]}

    return StepCosts(
        whole([p.energy_j for p in parts]),
        whole([p.time_s for p in parts]),
        by_kind([p.energy_parts_j for p in parts]),
        by_kind([p.time_parts_s for p in parts]),
    )


# -- figures -------------------------------------------------------------------------------------------------------
# Kinds of event and the chip's figure of each: energy in joules, time in seconds.


SYNAPTIC: Mapping[SynapseKind, str] = MappingProxyType(
    {
        "dense": "synaptic operations",
        "sparse": "sparse synaptic operations",
        "convolution": "convolution synaptic operations",
    }
)
"""The kind of event of each kind of synapse; without a figure of its own it counts as ``synaptic operations``."""

ENERGY_FIGURES = MappingProxyType(
    {
        "synaptic operations": "energy.synaptic_op_j",
        "sparse synaptic operations": "energy.synaptic_op_sparse_j",
        "convolution synaptic operations": "energy.synaptic_op_convolution_j",
        "neuron accesses": "energy.neuron_access_j",
        "neuron updates": "energy.neuron_update_j",
        "spikes": "energy.spike_j",
        "axons out": "energy.axon_out_j",
        "hops x": "energy.hop_x_j",
        "hops y": "energy.hop_y_j",
        "chip crossings": "board.link_j",
    }
)
"""Kinds of event of the energy breakdown, and the dotted key of the chip's figure of each."""

TIME_FIGURES = MappingProxyType(
    {
        "synaptic operations": "time.synaptic_op_s",
        "sparse synaptic operations": "time.synaptic_op_sparse_s",
        "convolution synaptic operations": "time.synaptic_op_convolution_s",
        "neuron accesses": "time.neuron_access_s",
        "neuron updates": "time.neuron_update_s",
        "spikes": "time.spike_s",
        "axons out": "time.axon_out_s",
        "axons in": "time.axon_in_s",
        "hops x": "time.hop_x_s",
        "hops y": "time.hop_y_s",
        "chip crossings": "board.link_s",
        "busiest link": "time.hop_x_s",
        "barrier": "time.barrier_s",
    }
)
"""Kinds of event of the time breakdown, and the dotted key of the chip's figure of each."""

STAND_INS = MappingProxyType(
    {
        "sparse synaptic operations": "synaptic operations",
        "convolution synaptic operations": "synaptic operations",
        "chip crossings": "hops x",
    }
)
"""Kinds that count as another one where a chip has no figure of their own."""

End = Literal["low", "high"]


def figure(chip: Chip, key: str) -> float | None:
    """The figure of a dotted key that is one number; None: not known."""
    table, _, name = key.partition(".")
    return getattr(getattr(chip, table), name)


def has_figure(chip: Chip, figures: Mapping[str, str], kind: str) -> bool:
    """True if the chip has a figure of its own for a kind of event."""
    return figure(chip, figures[kind]) is not None


def own_kind(chip: Chip, figures: Mapping[str, str], synapse: SynapseKind) -> str:
    """The kind of event under which operations of a kind of synapse are counted and priced."""
    kind = SYNAPTIC[synapse]
    return kind if has_figure(chip, figures, kind) else SYNAPTIC["dense"]


def seconds(chip: Chip, kind: str) -> float:
    """Seconds of one event in a core or on a link; 0 where the chip has no figure.

    A kind without a figure of its own takes that of the kind it counts as.
    """
    value = figure(chip, TIME_FIGURES[kind])
    if value is None and kind in STAND_INS:
        return seconds(chip, STAND_INS[kind])
    return value or 0.0


def has_energies(chip: Chip) -> bool:
    """True if the chip has any figure of energy."""
    return any(getattr(chip.energy, f.name) is not None for f in fields(chip.energy))


def has_times(chip: Chip) -> bool:
    """True if the chip has any figure of time."""
    return any(getattr(chip.time, f.name) is not None for f in fields(chip.time) if f.name != "overlap")


def missing_figures(chip: Chip) -> Mapping[str, tuple[str, ...]]:
    """Kinds of event that a chip has no figure for, of ``energy`` and of ``time``; the totals leave these out.

    Kinds that count as another one are not named, nor are accesses of neurons where their updates have a time: files
    without ``neuron_access_s`` give both together.
    """
    energy = [kind for kind in ENERGY_FIGURES if kind not in STAND_INS]
    time = [kind for kind in TIME_FIGURES if kind not in STAND_INS and kind != "busiest link"]
    if has_figure(chip, TIME_FIGURES, "neuron updates"):
        time.remove("neuron accesses")
    return {
        "energy": tuple(kind for kind in energy if not has_figure(chip, ENERGY_FIGURES, kind)),
        "time": tuple(kind for kind in time if not has_figure(chip, TIME_FIGURES, kind)),
    }


def at_end(chip: Chip, end: End) -> Chip:
    """The chip with every figure that has a range at the lowest or at the highest value of its sources.

    Energy and time grow with every figure, so that costs with these two chips enclose those of all values between.
    """
    parts: dict[str, dict[str, float | Steps]] = {"energy": {}, "time": {}, "board": {}}
    for key, ends in chip.ranges.items():
        table, _, name = key.partition(".")
        parts[table][name] = ends[0 if end == "low" else 1]
    changed = {table: replace(getattr(chip, table), **values) for table, values in parts.items()}
    return replace(chip, **changed)
