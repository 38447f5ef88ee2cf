"""Whether a map of a tiny network exists: tries every grouping of its neurons, shares no code with the search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network

Neuron = tuple[str, int]


def groupings(neurons: list[Neuron], cores: int) -> Iterator[list[list[Neuron]]]:
    """Every way to put the neurons on at most ``cores`` alike cores."""
    if not neurons:
        yield []
        return
    *rest, last = neurons
    for grouping in groupings(rest, cores):
        for i in range(len(grouping)):
            yield [*grouping[:i], [*grouping[i], last], *grouping[i + 1 :]]
        if len(grouping) < cores:
            yield [*grouping, [last]]


def synapses(network: Network) -> dict[Neuron, set[tuple[str, int]]]:
    """The sources of every neuron."""
    names = {p.name for p in network.populations}
    neurons = [(p.name, i) for p in network.populations for i in range(p.size)]
    sources: dict[Neuron, set[tuple[str, int]]] = {n: set() for n in neurons}
    for projection in network.projections:
        if projection.target in names:
            entries = matrix(projection.operator).tocoo()
            for post, pre in zip(entries.row, entries.col, strict=True):
                sources[projection.target, int(post)].add((projection.source, int(pre)))
    return sources


def kinds(network: Network, chip: Chip) -> dict[Neuron, tuple[tuple[float, ...], float | None]]:
    """(decays as the chip stores them, of 12 bits, and refractory steps, threshold) of every neuron."""
    found = {}
    for p in network.populations:
        fields = [np.broadcast_to(a, p.shape).ravel() for a in (p.neuron.a_syn, p.neuron.a_mem)]
        if chip.numbers is not None and chip.core.decay_profiles is not None:
            lows, mosts = (1, 0), (chip.numbers.du_max + 1, chip.numbers.dv_max)
            stored = [np.rint(4096 * (1 - np.asarray(a, float))) for a in fields]
            fields = [np.clip(a, low, most) for a, low, most in zip(stored, lows, mosts, strict=True)]
        fields.append(np.broadcast_to(p.neuron.refractory_steps, p.shape).ravel())
        theta = None if p.neuron.theta is None else np.broadcast_to(p.neuron.theta, p.shape).ravel()
        for i in range(p.size):
            found[p.name, i] = (tuple(float(f[i]) for f in fields), None if theta is None else float(theta[i]))
    return found


def is_legal(grouping: list[list[Neuron]], network: Network, chip: Chip) -> bool:
    """True if every core is within the limits of neurons, axons and profiles (words are not counted)."""
    sources, kind, core = synapses(network), kinds(network, chip), chip.core
    owner = {n: c for c, members in enumerate(grouping) for n in members}
    reached = [set().union(*(sources[n] for n in members)) for members in grouping]
    sent = [0] * len(grouping)
    for axons in reached:
        for source in axons:
            if source in owner:
                sent[owner[source]] += 1
    for c, members in enumerate(grouping):
        decays = {kind[n][0] for n in members}
        thresholds = {kind[n][1] for n in members} - {None}
        pairs = (
            (len(members), core.neurons),
            (len(reached[c]), core.input_axons),
            (sent[c], core.output_axons),
            (len(decays), core.decay_profiles),
            (len(thresholds), core.threshold_profiles),
        )
        if any(most is not None and used > most for used, most in pairs):
            return False
    return True


def fewest_cores(network: Network, chip: Chip, cores: int) -> int | None:
    """Cores of the best map there is, or None: there is none onto ``cores`` cores."""
    neurons = [(p.name, i) for p in network.populations for i in range(p.size)]
    legal = (len(g) for g in groupings(neurons, cores) if is_legal(g, network, chip))
    return min(legal, default=None)
