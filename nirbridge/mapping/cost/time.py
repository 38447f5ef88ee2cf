"""Time of a time step: a core's neurons, messages and incoming spikes as stages that work at once; the price of events.

The rules, with their sources:

* A core computes its neurons one after the other, in the order of its numbering, and sends the messages of a spike as
  soon as it has computed the neuron, one after the other (M. Davies et al. 2018, doi:10.1109/MM.2018.112130359;
  SANA-FE).
* A message takes the time of every link of its path. Host inputs are there when the time step begins.
* A core processes incoming messages in the order in which they arrive, each with all its synapses, while it and other
  cores still compute neurons (the synapse, dendrite and axon units of Davies 2018; SANA-FE's schedule).
* The time step ends when every core has computed and processed everything and the busiest link has carried its messages
  one after the other; then comes the barrier, by tiles in use (SANA-FE's table).

A core that receives messages k = 1, 2, ... with arrivals a and services s is done at the largest of all
a_k + s_k + s_(k+1) + ..., so the end of a time step is the end of one chain of work, whose parts are the breakdown.
Waiting for links and full buffers is left out. Without ``time.overlap`` the stages follow each other: all the work of
the busiest core, then the busiest link, then the barrier.
"""

from __future__ import annotations

from functools import reduce
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SYNAPSE_KINDS, Chip
from nirbridge.mapping.cost.model import (
    ENERGY_FIGURES,
    TIME_FIGURES,
    Messages,
    StepCosts,
    StepEvents,
    figure,
    has_energies,
    has_figure,
    has_times,
    own_kind,
    seconds,
)

SENDING = ("neuron accesses", "neuron updates", "spikes", "axons out")
"""Kinds of event by which a core computes its neurons and sends."""

PATHS = ("hops x", "hops y", "chip crossings")
"""Kinds of event on the way of a message between cores."""


def step_times(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Seconds by kind of event, float64 [steps] each: the parts of the longest chain, and the barrier."""
    parts = {kind: np.zeros(events.steps) for kind in time_kinds(chip)}
    if chip.time.overlap:
        _overlapped(events, chip, parts)
    else:
        _one_after_the_other(events, chip, parts)
    barrier = chip.time.barrier(events.tiles)
    if barrier is not None:
        parts["barrier"] += barrier
    return parts


def time_kinds(chip: Chip) -> list[str]:
    """Kinds of event in the breakdown of this chip: those with a figure; ways of messages only where stages overlap."""
    known = [kind for kind, key in TIME_FIGURES.items() if figure(chip, key) is not None and kind != "busiest link"]
    if not chip.time.overlap:
        known = [kind for kind in known if kind not in PATHS]
    if figure(chip, "time.hop_x_s") is not None or figure(chip, "time.hop_y_s") is not None:
        known.insert(known.index("barrier") if "barrier" in known else len(known), "busiest link")
    return known


def sending_parts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Seconds in which every core computes its neurons and sends, by kind, [steps, blocks] each."""
    counts = (events.neuron_accesses, events.neuron_updates, events.spikes, events.axons_out)
    return {kind: count * seconds(chip, kind) for kind, count in zip(SENDING, counts, strict=True)}


def receiving_parts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Seconds in which every core processes its incoming messages, by kind, [steps, blocks] each."""
    parts = {"axons in": events.axons_in * seconds(chip, "axons in")}
    for synapse in SYNAPSE_KINDS:
        kind = own_kind(chip, TIME_FIGURES, synapse)
        parts[kind] = parts.get(kind, 0.0) + events.synaptic_ops[synapse] * seconds(chip, kind)
    return parts


def busiest_link(events: StepEvents, chip: Chip) -> Array:
    """Seconds in which the busiest link carries its messages, [steps]."""
    within = np.maximum(events.link_x * seconds(chip, "hops x"), events.link_y * seconds(chip, "hops y"))
    return np.maximum(within, events.link_between * (chip.board.link_s or 0.0))


def _one_after_the_other(events: StepEvents, chip: Chip, parts: dict[str, Array]) -> None:
    """The work of the busiest core, then the busiest link."""
    work = sending_parts(events, chip) | receiving_parts(events, chip)
    if events.neuron_accesses.shape[1]:
        busiest = np.argmax(np.sum(list(work.values()), axis=0), axis=1)
        rows = np.arange(events.steps)
        for kind in work.keys() & parts.keys():
            parts[kind] += work[kind][rows, busiest]
    if "busiest link" in parts:
        parts["busiest link"] += busiest_link(events, chip)


def _overlapped(events: StepEvents, chip: Chip, parts: dict[str, Array]) -> None:
    """The longest of three: a core that sends, a core that receives, a link."""
    steps = events.steps
    sending = sending_parts(events, chip)
    total = np.sum(list(sending.values()), axis=0)
    ends = total.max(axis=1, initial=0.0)
    chains = Chains(events.messages, chip, steps)
    links = busiest_link(events, chip)
    sends = (ends >= chains.end) & (ends >= links)
    receives = ~sends & (chains.end >= links)
    if total.shape[1]:
        busiest, rows = np.argmax(total, axis=1), np.arange(steps)
        for kind in sending.keys() & parts.keys():
            parts[kind] += np.where(sends, sending[kind][rows, busiest], 0.0)
    for kind, values in chains.parts(np.flatnonzero(receives), chip).items():
        if kind in parts:
            parts[kind] += values
    if "busiest link" in parts:
        parts["busiest link"] += np.where(sends | receives, 0.0, links)


class Chains:
    """The message of each time step with the longest chain: its way to its core, and all that follows there.

    ``end`` float64 [steps]: seconds at which the last core has processed its messages; 0 where there are none.
    """

    def __init__(self, messages: Messages, chip: Chip, steps: int) -> None:
        """Schedule the messages of ``steps`` time steps."""
        self.end = np.zeros(steps)
        self._messages, self._steps = messages, steps
        self._best = np.zeros(steps, np.int64)
        if not len(messages):
            return
        way, service = way_parts(messages, chip), service_parts(messages, chip)
        arrival = np.sum(list(way.values()), axis=0)
        blocks = int(messages.target.max()) + 1
        core = messages.step * blocks + messages.target
        order = np.lexsort((arrival, core))
        self._order, core = order, core[order]
        done = np.cumsum(np.sum(list(service.values()), axis=0)[order])
        self._last = np.searchsorted(core, core, side="right") - 1
        before = np.concatenate(([0.0], done[:-1]))
        ends = arrival[order] + done[self._last] - before
        step = messages.step[order]
        first = np.flatnonzero(np.diff(step, prepend=-1))
        self.end[step[first]] = np.maximum.reduceat(ends, first)
        longest = np.flatnonzero(ends == self.end[step])[::-1]
        self._best[step[longest]] = longest

    def parts(self, steps: Array, chip: Chip) -> dict[str, Array]:
        """Seconds of the longest chains of ``steps`` by kind of event, [all steps] each; 0 in other time steps."""
        parts: dict[str, Array] = {}
        if not len(steps):
            return parts
        first = self._best[steps]
        for kind, values in way_parts(self._messages, chip).items():
            _add(parts, kind, steps, values[self._order[first]], self._steps)
        for kind, values in service_parts(self._messages, chip).items():
            done = np.concatenate(([0.0], np.cumsum(values[self._order])))
            _add(parts, kind, steps, done[self._last[first] + 1] - done[first], self._steps)
        return parts


def way_parts(messages: Messages, chip: Chip) -> dict[str, Array]:
    """Seconds from the begin of the time step until each message arrives, by kind of event."""
    crossing = figure(chip, "board.link_s")
    hop_x, hop_y = seconds(chip, "hops x"), seconds(chip, "hops y")
    between = (0.0, 0.0) if crossing is not None else (hop_x, hop_y)
    parts = {
        "neuron accesses": messages.accesses * seconds(chip, "neuron accesses"),
        "neuron updates": messages.updates * seconds(chip, "neuron updates"),
        "spikes": messages.spikes * seconds(chip, "spikes"),
        "axons out": messages.sent * seconds(chip, "axons out"),
        "hops x": messages.hops_x * hop_x + messages.crossings_x * between[0],
        "hops y": messages.hops_y * hop_y + messages.crossings_y * between[1],
    }
    if crossing is not None:
        parts["chip crossings"] = (messages.crossings_x + messages.crossings_y) * crossing
    return parts


def service_parts(messages: Messages, chip: Chip) -> dict[str, Array]:
    """Seconds in which its core processes each message, by kind of event."""
    parts = {"axons in": np.full(len(messages), seconds(chip, "axons in"))}
    for synapse, count in messages.ops.items():
        kind = own_kind(chip, TIME_FIGURES, synapse)
        parts[kind] = parts.get(kind, 0.0) + count * seconds(chip, kind)
    return parts


def _add(parts: dict[str, Array], kind: str, steps: Array, values: Array, size: int) -> None:
    if kind not in parts:
        parts[kind] = np.zeros(size)
    parts[kind][steps] += values


# -- price ---------------------------------------------------------------------------------------------------------


def price(events: StepEvents, chip: Chip) -> StepCosts:
    """Energy and time of every time step, with the figures of ``chip``.

    Energy is the sum of all events, each times its figure (J. A. Boyle et al., SANA-FE, IEEE TCAD 2025); leakage is not
    in it. For time see ``mapping.cost.time``. ``at_end(chip, "low")`` and ``"high"`` give the ends of ranges.
    """
    energy = energy_parts(events, chip) if has_energies(chip) else {}
    time = step_times(events, chip) if has_times(chip) else {}
    return StepCosts(_sum(energy), _sum(time), MappingProxyType(energy), MappingProxyType(time))


def energy_parts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Joules by kind of event, float64 [steps] each; kinds without a figure are left out."""
    counts = energy_counts(events, chip)
    figures = {kind: figure(chip, key) for kind, key in ENERGY_FIGURES.items()}
    return {kind: counts[kind] * joules for kind, joules in figures.items() if joules is not None}


def energy_counts(events: StepEvents, chip: Chip) -> dict[str, Array]:
    """Events of all cores by kind of ``ENERGY_FIGURES``, [steps] each, counted as the chip has figures for them."""
    counts = {kind: np.zeros(events.steps) for kind in ENERGY_FIGURES}
    for synapse in SYNAPSE_KINDS:
        counts[own_kind(chip, ENERGY_FIGURES, synapse)] += events.synaptic_ops[synapse].sum(axis=1)
    counts["neuron accesses"] += events.neuron_accesses.sum(axis=1)
    counts["neuron updates"] += events.neuron_updates.sum(axis=1)
    counts["spikes"] += events.spikes.sum(axis=1)
    counts["axons out"] += events.axons_out.sum(axis=1)
    crossings = has_figure(chip, ENERGY_FIGURES, "chip crossings")
    counts["hops x"] += events.hops_x + (0 if crossings else events.crossings_x)
    counts["hops y"] += events.hops_y + (0 if crossings else events.crossings_y)
    counts["chip crossings"] += (events.crossings_x + events.crossings_y) if crossings else 0
    return counts


def _sum(parts: dict[str, Array]) -> Array | None:
    """Kind by kind, so that a step has the same sum whatever steps it is priced with."""
    return reduce(np.add, parts.values()) if parts else None
