"""Energy and time of recorded spikes on a map, summed over a run: by kind of event, and by core.

Counts and prices are those of ``mapping.cost``; here they are added up, block by block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.mapping.cost import EventCounter, at_end, price
from nirbridge.mapping.cost.model import StepCosts, StepEvents
from nirbridge.mapping.cost.time import energy_counts, receiving_parts, sending_parts
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network

Rates = Mapping[str, Array]
Parts = Mapping[str, float]
OWN = "own"


@dataclass(frozen=True, slots=True, eq=False)
class RunCosts:
    """Sums over all time steps and samples of a run.

    ``steps``: time steps of all samples. ``energy_j`` and ``time_s``: joules and seconds by kind of event, with the
    figures of the chip (``own``) and, where its file has ranges, with the least (``low``) and the greatest (``high``);
    empty where the chip has none. ``longest_s``: the longest time step. ``counts``: events by kind. ``work_s``
    [blocks]: seconds that each core works. ``updates``: neurons updated, by population. ``busiest_s``: seconds of the
    core that is busiest in each time step, with its neurons (``neurons``) and with incoming messages (``messages``).
    """

    steps: int
    energy_j: Mapping[str, Parts]
    time_s: Mapping[str, Parts]
    longest_s: float | None
    counts: Mapping[str, int]
    work_s: Array
    updates: Mapping[str, int]
    busiest_s: Mapping[str, float]

    def energy(self, end: str = OWN) -> float | None:
        """Joules of the run; None where the chip has no figures, or no ranges."""
        return sum(self.energy_j[end].values()) if self.energy_j.get(end) else None

    def time(self, end: str = OWN) -> float | None:
        """Seconds of the run; None where the chip has no figures, or no ranges."""
        return sum(self.time_s[end].values()) if self.time_s.get(end) else None


class CostCounter:
    """Adds up the costs of the blocks of a run."""

    def __init__(self, mapped: MappedNetwork) -> None:
        """A counter of one map."""
        self.mapped, self.counter = mapped, EventCounter.of(mapped)
        self._shapes = {p.name: p.shape for p in (*mapped.network.inputs, *mapped.network.populations)}
        self._always = frozenset(drivers(mapped.network))
        self._chips = {OWN: mapped.chip}
        if mapped.chip.ranges:
            self._chips |= {"low": at_end(mapped.chip, "low"), "high": at_end(mapped.chip, "high")}
        self._energy: dict[str, dict[str, float]] = {end: {} for end in self._chips}
        self._time: dict[str, dict[str, float]] = {end: {} for end in self._chips}
        self._counts: dict[str, int] = {}
        self._work = np.zeros(len(mapped.cores))
        self._updates = {p.name: 0 for p in mapped.network.populations}
        self._busiest = {"neurons": 0.0, "messages": 0.0}
        self._steps, self._longest = 0, None if mapped.chip.time.barrier_s is None else 0.0

    @property
    def marks_updates(self) -> bool:
        """True if idle neurons cost less: the chip file has a figure for the access of a neuron beside its update."""
        energy, time = self.mapped.chip.energy, self.mapped.chip.time
        pairs = ((energy.neuron_access_j, energy.neuron_update_j), (time.neuron_access_s, time.neuron_update_s))
        return all(access is not None or update is None for access, update in pairs)

    def take(self, sent: Mapping[str, Array], updated: Mapping[str, Array]) -> None:
        """Add a block: what each input and population sends, and the neurons that are updated (none: all of them).

        All are ``[time steps, samples, neurons]``.
        """
        size = next((array.shape[:2] for array in sent.values()), (0, 0))
        spikes = {name: array.reshape(*array.shape[:2], *self._shapes[name]) for name, array in sent.items()}
        for p in self.mapped.network.populations:
            if p.name not in spikes:  # a readout sends to other populations in every time step, to outputs nothing
                sends = p.name in self._always
                spikes[p.name] = np.broadcast_to(np.asarray(sends), (*size, *p.shape))
        active = {name: array.reshape(*array.shape[:2], *self._shapes[name]) for name, array in updated.items()}
        for name in self._updates:
            marks = active.get(name)
            every = int(np.prod(size)) * int(np.prod(self._shapes[name]))
            self._updates[name] += every if marks is None else int(np.count_nonzero(marks))
        for events in self.counter.pieces(spikes, active or None):
            self._add(events)

    def _add(self, events: StepEvents) -> None:
        chip = self.mapped.chip
        for end, priced in self._chips.items():
            paid = price(events, priced)
            _sum_into(self._energy[end], paid.energy_parts_j)
            _sum_into(self._time[end], paid.time_parts_s)
            if end == OWN:
                self._remember_longest(paid)
        for kind, values in {**energy_counts(events, chip), "axons in": events.axons_in}.items():
            self._counts[kind] = self._counts.get(kind, 0) + int(values.sum())
        sending, receiving = (sum(p.values()) for p in (sending_parts(events, chip), receiving_parts(events, chip)))
        for name, work in (("neurons", sending), ("messages", receiving)):
            self._busiest[name] += float(np.asarray(work).max(axis=1, initial=0.0).sum())
        both = np.maximum(sending, receiving) if chip.time.overlap else sending + receiving
        self._work += np.asarray(both).sum(axis=0)
        self._steps += events.steps

    def _remember_longest(self, paid: StepCosts) -> None:
        if paid.time_s is not None:
            self._longest = max(self._longest or 0.0, float(paid.time_s.max(initial=0.0)))

    def finish(self) -> RunCosts:
        """The sums of all blocks."""
        totals = self._energy, self._time, self._longest, self._counts, self._work, self._updates, self._busiest
        return RunCosts(self._steps, *totals)


def _sum_into(totals: dict[str, float], parts: Mapping[str, Array]) -> None:
    for kind, values in parts.items():
        totals[kind] = totals.get(kind, 0.0) + float(values.sum())


def drivers(network: Network) -> list[str]:
    """Readouts that send their value to another population in every time step."""
    populations = {p.name for p in network.populations}
    sources = {p.source for p in network.projections if p.target in populations}
    return [p.name for p in network.populations if p.name in sources and not p.neuron.fires]


def run_rates(network: Network, measured: Rates) -> dict[str, Array]:
    """Measured rates of every input and population of a network.

    A readout never fires: 0, except where it sends its value to another population in every time step: 1.
    """
    rates: dict[str, Array] = {port.name: np.zeros(()) for port in network.inputs}
    always = set(drivers(network))
    for p in network.populations:
        rates[p.name] = np.asarray(1.0 if p.name in always else 0.0)
    return rates | {name: rate for name, rate in measured.items() if name in rates}
