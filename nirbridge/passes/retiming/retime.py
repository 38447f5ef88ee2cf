"""Retiming: delays such that a network on hardware, where every hop takes a time step, computes the same later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from nirbridge.arrays import compact, freeze
from nirbridge.errors import Bug, Diagnostic, ModelError, counted, quoted
from nirbridge.network.graph import in_causal_order
from nirbridge.network.masking import only_targets
from nirbridge.network.model import Network, Projection
from nirbridge.passes.base import Promise, check_argument
from nirbridge.passes.retiming.delay_lines import constant_drives, heard_early, with_constant_drives, with_delay_lines
from nirbridge.passes.retiming.initial_states import is_quiet
from nirbridge.passes.text import check_options, option_error

NAMES_SHOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class RetimedNetwork:
    """A network whose delays hold the hops of the hardware, and how late each part of it is.

    ``network`` is an ordinary network: every projection into a population has a delay of 1 step or more, of which one
    is the hop; those into outputs have none (an output is read where its source is). ``latency`` gives for every input
    (0), population and output the hardware step of its reference step 0: its spikes at step
    ``t + latency`` are those of ``reference``, the network that was retimed, at step t. Inserted populations
    (kind ``relay``) have the latency of the spikes that they pass on.

    ``keep_early_spikes`` as of ``Retime``; ``early``: the populations to which that made a difference.
    """

    network: Network
    latency: Mapping[str, int]
    reference: Network
    notes: tuple[str, ...]
    keep_early_spikes: bool = False
    early: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retime:
    """Give every projection a whole delay, so that the network on hardware is the reference, later.

    With ``latency`` L a projection of delay d gets ``d + L[target] - L[source]``, which has to be at least 1 (0 into
    an output). Inputs have latency 0 and none is below 0. **Minimised** are the latency of every output (all at once);
    then, as long as no population moves that acts without input, the delays beyond the hops, summed over projections
    and source neurons; then every latency. Existing delays (uniform, per source, per target element) are kept.
    docs/retiming.md has the details.

    ``delay_steps_max``: the longest delay of a synapse beyond the hop (``chip.core.delay_steps``); longer ones take
    relay populations. None: any. ``graded_spikes``: whether a relay may send several spikes per time step.
    ``keep_early_spikes``: populations that cannot wait for their first time step start at the first time step of the
    hardware instead of being refused. They may fire before their first input and enter their first time step in another
    state, so the network then is not the reference, later.
    """

    pass_name: ClassVar[str] = "retime"
    delay_steps_max: int | None = None
    graded_spikes: bool = True
    keep_early_spikes: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        if self.delay_steps_max is not None and self.delay_steps_max < 0:
            raise option_error(self, "delay_steps_max", "0 or more time steps")

    @property
    def promise(self) -> Promise:
        """Later; changed where early spikes are kept."""
        return "changed" if self.keep_early_spikes else "later"

    def __call__(self, network: Network) -> Network:
        """The retimed network alone; ``retimed`` has its latencies. Raises ModelError."""
        return self.retimed(network).network

    def retimed(self, network: Network) -> RetimedNetwork:
        """The retimed network with the latency of each of its parts.

        Raises:
            ModelError: loops with fewer time steps of delay than hops; populations that cannot wait for their first
                time step; sources that no relay can pass on. All of one kind are listed.
        """
        check_argument(self, network)
        reference, network = network, UniformDelays()(network)
        names = [subject.name for subject in (*network.inputs, *network.populations, *network.outputs)]
        inside = {p.name for p in network.populations}
        sizes = {subject.name: subject.size for subject in (*network.inputs, *network.populations)}
        arcs = [_arc(p, inside, sizes) for p in network.projections]
        least, loop = least_latencies(names, arcs)
        if loop:
            raise ModelError(*(_loop_problem(each, arcs) for each in all_loops(names, arcs)))
        latency = cheapest_latencies(least, arcs, _movable(network))
        shifted = [compact(p.delay_steps + (latency[p.target] - latency[p.source])) for p in network.projections]
        delayed = (replace(p, delay_steps=d) for p, d in zip(network.projections, shifted, strict=True))
        started = with_constant_drives(
            replace(network, projections=tuple(delayed)), latency, keep_early_spikes=self.keep_early_spikes
        )
        retimed, latency = started.network, started.latency
        lines: Mapping[str, tuple[str, ...]] = {}
        if self.delay_steps_max is not None:
            limits = {"delay_steps_max": self.delay_steps_max, "graded_spikes": self.graded_spikes}
            retimed, latency, lines = with_delay_lines(retimed, latency, **limits, model=reference)
        retimed = with_hops(in_causal_order(without_hops(retimed)))
        notes = (*_notes(reference, latency, network, started.waiting, lines), *early_notes(started.early, latency))
        retimed = replace(retimed, notes=(*retimed.notes, *notes))
        return RetimedNetwork(
            retimed, MappingProxyType(latency), reference, notes, self.keep_early_spikes, started.early
        )


def early_notes(early: Sequence[str], latency: Mapping[str, int]) -> tuple[str, ...]:
    """Differences of a network with early spikes from its reference, population by population."""
    return tuple(
        f"early spikes of {quoted(name)} are kept: it starts {latency[name]:,} time steps before its first input, in "
        "the first of the chip, so it is not in the state of the reference at that input"
        for name in early
    )


def without_hops(network: Network) -> Network:
    """The network of a ``RetimedNetwork`` as maps count delays: without the step that a spike takes from core to core.

    A back edge keeps it, as everywhere (docs/reference/map-file.md, section 4). A network without skip paths is the
    one that was retimed.
    """
    return _with_delays_changed(network, -1)


def with_hops(network: Network) -> Network:
    """The inverse of ``without_hops``."""
    return _with_delays_changed(network, 1)


def _with_delays_changed(network: Network, steps: int) -> Network:
    """``steps`` more for every projection into a population but back edges."""
    inside = {p.name for p in network.populations}
    projections = (
        p if p.is_back or p.target not in inside else replace(p, delay_steps=freeze(p.delay_steps + steps, np.int64))
        for p in network.projections
    )
    return replace(network, projections=tuple(projections))


def _arc(p: Projection, inside: set[str], sizes: Mapping[str, int]) -> LatencyArc:
    hop = 1 if p.target in inside else 0
    return LatencyArc(p.source, p.target, hop - int(p.delay_steps.min()), sizes[p.source] * hop)


def _movable(network: Network) -> frozenset[str]:
    """Populations that do nothing without input: running them later than need be changes nothing."""
    drives = constant_drives(network)
    heard = heard_early(network)
    return frozenset(p.name for p in network.populations if is_quiet(p, drives[p.name], feeds_neurons=p.name in heard))


# -- in words ----------------------------------------------------------------------------------------------------


def _loop_problem(loop: tuple[str, ...], arcs: Sequence[LatencyArc]) -> Diagnostic:
    hops = len(loop)
    missing = sum(max(a.needs for a in arcs if (a.source, a.target) == ends) for ends in pairwise((*loop, loop[0])))
    shown = " -> ".join(quoted(n) for n in [*loop[:NAMES_SHOWN], *(["…"] if hops > NAMES_SHOWN else []), loop[0]])
    found = f"{counted(hops - missing, 'step')} of delay for {counted(hops, 'hop')}"
    limit = "a hop between neurons takes a step on a chip, so a loop needs as many steps of delay as hops"
    step = f"delay it by {missing} more (a Delay node on one of its edges, in training too), or merge its populations"
    ids = MappingProxyType({"names": loop, "missing_steps": missing})
    return Diagnostic(f"loop {shown}", found, limit, step, ids)


def _notes(
    reference: Network,
    latency: Mapping[str, int],
    even: Network,
    waiting: tuple[str, ...],
    lines: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    inside = {p.name for p in even.populations}
    longer = [p for p in even.projections if p.target in inside and _inserted(p, latency)]
    if longer:
        ends = dict.fromkeys(f"{quoted(p.source)} -> {quoted(p.target)}" for p in longer)
        yield f"retimed: shorter paths are delayed at {_listed(list(ends))}"
    if len(even.projections) != len(reference.projections):
        yield "projections whose delay differs per target are split into one for each delay"
    if waiting:
        yield (
            f"{_listed([quoted(n) for n in waiting])}: constant drives come from a neuron that always fires, "
            "since they act from the population's own first step on"
        )
    for source, relays in lines.items():
        yield f"{quoted(source)}: delays beyond the chip's range take {len(relays)} relay populations"


def _inserted(p: Projection, latency: Mapping[str, int]) -> int:
    """Steps of delay that were added to a projection, the hop not counted; 0 where its own delay held the hop."""
    return max(0, latency[p.target] - latency[p.source] - (0 if p.delay_steps.any() else 1))


def _listed(texts: Sequence[str]) -> str:
    rest = f" and {len(texts) - NAMES_SHOWN:,} more" if len(texts) > NAMES_SHOWN else ""
    return ", ".join(texts[:NAMES_SHOWN]) + rest


# -- latencies -----------------------------------------------------------------------------------------------------
# Latency of each population: least latencies under difference constraints, and a loop that has none named.
#
# Every arc asks for ``latency[target] - latency[source] >= needs``. Of all integer solutions with no latency below 0
# there is one that is least in every latency at once (the longest paths); a loop whose needs add up to more than 0 has
# none.

_ROOT = ""
"""Stands for time 0; no population or port has an empty name."""


@dataclass(frozen=True, slots=True)
class LatencyArc:
    """``latency[target] - latency[source] >= needs``; each time step above that costs ``weight``."""

    source: str
    target: str
    needs: int
    weight: int = 0


def least_latencies(names: Sequence[str], arcs: Sequence[LatencyArc]) -> tuple[dict[str, int], tuple[str, ...]]:
    """The least latencies of 0 or more, and a loop that cannot be met, in the order of its arcs.

    Bellman and Ford's rounds over the arcs in the order given, which is one round where that order is causal. With a
    loop the latencies mean nothing; without one it is empty.
    """
    latency = dict.fromkeys(names, 0)
    before: dict[str, str] = {}
    changed = ""
    for _ in range(len(names) + 1):
        changed = ""
        for arc in arcs:
            least = latency[arc.source] + arc.needs
            if least > latency[arc.target]:
                latency[arc.target], before[arc.target], changed = least, arc.source, arc.target
        if not changed:
            return latency, ()
    return latency, _loop(changed, before, len(names))


def _loop(name: str, before: Mapping[str, str], count: int) -> tuple[str, ...]:
    for _ in range(count):  # from a node that still rises, far enough back to be on the loop itself
        name = before[name]
    loop = [name]
    while before[loop[-1]] != name:
        loop.append(before[loop[-1]])
    return tuple(reversed(loop))


def all_loops(names: Sequence[str], arcs: Sequence[LatencyArc]) -> tuple[tuple[str, ...], ...]:
    """Loops that cannot be met: one after the other, each without the arcs of those before it."""
    loops: list[tuple[str, ...]] = []
    left = list(arcs)
    while loop := least_latencies(names, left)[1]:
        loops.append(loop)
        removed = set(pairwise((*loop, loop[0])))
        left = [arc for arc in left if (arc.source, arc.target) not in removed]
    return tuple(loops)


def cheapest_latencies(least: Mapping[str, int], arcs: Sequence[LatencyArc], free: Collection[str]) -> dict[str, int]:
    """Latencies of least cost where only those of ``free`` may rise above ``least``; of several the least ones.

    The cost is the sum over arcs of ``weight * (latency[target] - latency[source] - needs)``. It is a linear program
    over difference constraints, whose corners are integers. A solution costs the least exactly if the arcs
    that the dual solution pays for are tight; so the least of them all are least latencies once more.
    """
    costly = [a for a in arcs if a.weight and least[a.target] - least[a.source] > a.needs]
    if not any(a.source in free or a.target in free for a in costly):
        return dict(least)
    fixed = [name for name in least if name not in free]
    bounds = [LatencyArc(_ROOT, name, least[name]) for name in least] + [
        LatencyArc(name, _ROOT, -least[name]) for name in fixed
    ]
    every = [*arcs, *bounds]
    tight = [LatencyArc(a.target, a.source, -a.needs) for a in _paid_for((*least, _ROOT), every)]
    latency, loop = least_latencies((_ROOT, *least), [*every, *tight])
    if loop or latency[_ROOT]:
        raise Bug.of("latencies", "the tight arcs contradict each other", "", "please report it")
    return {name: latency[name] for name in least}


def _paid_for(names: Sequence[str], arcs: Sequence[LatencyArc]) -> list[LatencyArc]:
    """The arcs with a dual above 0: tight in every solution of least cost."""
    import numpy as np
    from scipy import sparse
    from scipy.optimize import linprog

    at = {name: k for k, name in enumerate(names)}
    rows = np.arange(len(arcs))
    sources, targets = (np.array([at[getattr(a, end)] for a in arcs]) for end in ("source", "target"))
    ones = np.ones(len(arcs))
    table = sparse.csr_array(
        (np.concatenate((ones, -ones)), (np.tile(rows, 2), np.concatenate((sources, targets)))),
        shape=(len(arcs), len(names)),
    )
    weights = np.array([float(a.weight) for a in arcs])
    cost = np.bincount(targets, weights, len(names)) - np.bincount(sources, weights, len(names))
    limits = [(None, None)] * (len(names) - 1) + [(0, 0)]
    solved = linprog(cost, A_ub=table, b_ub=[-a.needs for a in arcs], bounds=limits, method="highs")
    if solved.status != 0:
        raise Bug.of("latencies", f"the solver says: {solved.message}", "", "please report it")
    return [arc for arc, dual in zip(arcs, solved.ineqlin.marginals, strict=True) if dual < -0.5]


# -- uniform delays ------------------------------------------------------------------------------------------------
# Projections whose delay differs per target, as several projections of one delay each.


@dataclass(frozen=True, slots=True)
class UniformDelays:
    """Move every delay to the source side, so that ``target_delay_steps`` is 0 everywhere.

    A delay that all targets share is added to ``delay_steps``. Delays that differ split the projection into one per
    distinct delay, each for the targets that have it. Every target gets the same input as before, bit for bit.
    """

    pass_name: ClassVar[str] = "uniform-delays"
    promise: Promise = field(default="same", init=False, repr=False)

    def __call__(self, network: Network) -> Network:
        """The network with delays at the sources; the same object where nothing has to move.

        Raises:
            ModelError: a projection that has to be split has too many synapses to be listed.
        """
        check_argument(self, network)
        if not any(p.target_delay_steps.any() for p in network.projections):
            return network
        return replace(network, projections=tuple(q for p in network.projections for q in _even(p)))


def _even(p: Projection) -> Iterator[Projection]:
    delays = np.unique(p.target_delay_steps)
    no_delay = freeze(np.int64(0))
    if len(delays) == 1:
        yield replace(p, delay_steps=compact(p.delay_steps + int(delays[0])), target_delay_steps=no_delay)
        return
    for steps in delays.tolist():
        has_delay = p.target_delay_steps == steps
        bias = None if p.bias is None else freeze(np.where(has_delay, p.bias, np.zeros((), p.bias.dtype)))
        yield replace(
            p,
            operator=only_targets(p.operator, has_delay),
            bias=bias,
            delay_steps=compact(p.delay_steps + steps),
            target_delay_steps=no_delay,
            nodes=(),
        )
