"""Kinds of event and the chip's figure of each: energy in joules, time in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Literal

from nirbridge.chips.model import Chip, Steps, SynapseKind

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
