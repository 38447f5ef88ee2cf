"""Delays beyond a chip's range: relay populations that pass spikes on, one line per source, taps for projections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network import Network, Neuron, Population, Projection, neuron
from nirbridge.network.masking import only_sources
from nirbridge.network.naming import fresh_name
from nirbridge.network.nir.delays import SECONDS, delayed_subject
from nirbridge.network.operators import Chain, Dense, Identity, Reshape
from nirbridge.passes.retiming.initial_states import LARGEST_START, initial_state_before

RELAYS_MAX = 500
"""Relay populations of a network; each takes cores, and a time step of a chip passes through all of them."""
_LISTED = 20


def with_delay_lines(
    network: Network,
    latency: Mapping[str, int],
    *,
    delay_steps_max: int,
    graded_spikes: bool,
    model: Network | None = None,
) -> tuple[Network, dict[str, int], dict[str, tuple[str, ...]]]:
    """Every delay into a population within ``delay_steps_max + 1`` steps (one of them is the hop itself).

    A projection with a longer delay reads from the relay of its source that leaves the shortest rest; relays of
    a source are shared, so there are as few as its longest delay needs. A projection whose delays differ so far that
    its sources read from several relays is split by source. A relay fires on every spike that reaches it and
    never else. Messages speak of the delays of ``model``, which was retimed before (default: of ``network``).

    Returns:
        The network, the latencies with those of the relays, and the relays of each source: relay ``k`` repeats the
        spikes that the source sent ``(k + 1) * (delay_steps_max + 1)`` time steps earlier.

    Raises:
        ModelError: a source that a relay cannot pass on (several spikes per time step, no graded spikes; a
            readout's potential); every one is listed.
    """
    reach = delay_steps_max + 1
    inside = {p.name for p in network.populations}
    stages: dict[str, int] = {}
    for p in network.projections:
        if p.target in inside and (count := _stage(p, reach)) > 0:
            stages[p.source] = max(count, stages.get(p.source, 0))
    if not stages:
        return network, dict(latency), {}
    _check_count(network, stages, reach, model or network)
    _check(network, stages, graded_spikes=graded_spikes)
    lines = _lines(network, stages)
    relays = {source: _relays(network, source, names, reach) for source, names in lines.items()}
    projections = [q for source in lines for q in relays[source][1]]
    for p in network.projections:
        taps = (p.source, *lines.get(p.source, ()))
        projections += _tapped(p, taps, reach) if p.source in lines and p.target in inside else [p]
    times = {n: latency[source] + (k + 1) * reach for source, names in lines.items() for k, n in enumerate(names)}
    delayed = replace(network, populations=_placed(network, relays), projections=tuple(projections))
    return delayed, {**latency, **times}, lines


def _check_count(network: Network, stages: Mapping[str, int], reach: int, model: Network) -> None:
    """Count the relays before any is made.

    Raises:
        ModelError: more relay populations than ``RELAYS_MAX``; every source with more than its share.
    """
    total = sum(stages.values())
    if total <= RELAYS_MAX:
        return
    problems = []
    for name, count in stages.items():
        if count * len(stages) < total:
            continue
        p = max((q for q in network.projections if q.source == name), key=lambda q: q.max_delay_steps)
        in_model = max(
            (q.max_delay_steps for q in model.projections if (q.source, q.target) == (p.source, p.target)), default=0
        )
        # hops are taken from the model's own delay, or added to it
        steps = in_model if in_model > reach else p.max_delay_steps
        relays = f"{counted(count, 'relay population')} of {counted(reach, 'time step')} each"
        found = f"a delay of {steps:,} time steps takes {relays}"
        limit = f"at most {RELAYS_MAX:,} are made for a network, which needs {total:,}"
        problems.append(Diagnostic(delayed_subject(p), found, limit, SECONDS))
    raise ModelError(*problems[:_LISTED])


def _stage(p: Projection, reach: int) -> int:
    """Number of relays before the longest delay of a projection."""
    return -(-p.max_delay_steps // reach) - 1


def _check(network: Network, stages: Mapping[str, int], *, graded_spikes: bool) -> None:
    problems = []
    for p in network.populations:
        if p.name not in stages or (p.neuron.fires and (graded_spikes or p.neuron.max_spikes == 1)):
            continue
        sends = f"up to {counted(p.neuron.max_spikes, 'spike')} per time step" if p.neuron.fires else "its potential"
        found = f"sends {sends} over a delay that takes {counted(stages[p.name], 'relay population')}"
        limit = "a relay passes on one spike per time step"
        hint = "shorten the delay, or choose a chip with longer delays or graded spikes"
        problems.append(Diagnostic(f"population {quoted(p.name)}", found, limit, hint))
    ModelError.raise_all(problems)


def _lines(network: Network, stages: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Names of the relays of each source."""
    taken = {subject.name for subject in (*network.inputs, *network.outputs, *network.populations)}
    lines: dict[str, tuple[str, ...]] = {}
    for source in (p.name for p in (*network.inputs, *network.populations) if p.name in stages):
        names = []
        for _ in range(stages[source]):
            names.append(fresh_name(f"{source}_relay", taken))
            taken.add(names[-1])
        lines[source] = tuple(names)
    return lines


def _relays(
    network: Network, name: str, names: tuple[str, ...], reach: int
) -> tuple[list[Population], list[Projection]]:
    source = next(p for p in (*network.inputs, *network.populations) if p.name == name)
    most = source.neuron.max_spikes if isinstance(source, Population) else 1
    one = neuron("relay", theta=0.5)
    several = neuron("relay", theta=1.0, reset="subtract", reset_amount=1.0, compare=">=", max_spikes=most)
    populations = [Population(relay, source.shape, one if most == 1 else several) for relay in names]
    ends = zip((name, *names), names, strict=False)
    delay = freeze(np.int64(reach))
    return populations, [Projection(a, b, Identity(source.shape), delay_steps=delay) for a, b in ends]


def _tapped(p: Projection, taps: tuple[str, ...], reach: int) -> Iterator[Projection]:
    """The projection from the relay with the shortest rest; one for each relay where the delays go so far apart."""
    stage = np.maximum(-(-p.delay_steps // reach) - 1, 0)
    stages = np.unique(stage).tolist()
    for number, k in enumerate(stages):
        is_source = stage == k
        rest = np.where(is_source, p.delay_steps - k * reach, 1)
        yield replace(
            p,
            source=taps[k],
            operator=p.operator if len(stages) == 1 else only_sources(p.operator, is_source),
            bias=p.bias if number == len(stages) - 1 else None,
            delay_steps=compact(rest),
            nodes=p.nodes if len(stages) == 1 else (),
        )


def _placed(
    network: Network, relays: Mapping[str, tuple[list[Population], list[Projection]]]
) -> tuple[Population, ...]:
    """Relays of inputs first, those of a population after it."""
    populations = [r for port in network.inputs for r in relays.get(port.name, ([], []))[0]]
    for p in network.populations:
        populations += [p, *relays.get(p.name, ([], []))[0]]
    return tuple(populations)


# -- constant drives -----------------------------------------------------------------------------------------------

ALWAYS = "always"
"""Name of the neuron that fires in every time step."""


def constant_drives(network: Network) -> dict[str, Array | None]:
    """Per population the sum of the biases of the projections into it, None where there are none (or all are 0)."""
    drives: dict[str, Array | None] = {p.name: None for p in network.populations}
    for p in network.projections:
        if p.target in drives and p.bias is not None and p.bias.any():
            before = drives[p.target]
            drives[p.target] = p.bias if before is None else before + p.bias
    return drives


def heard_early(network: Network, latency: Mapping[str, int] | None = None) -> set[str]:
    """Sources whose values before their first time step reach a neuron, or an output that reads them late.

    An output that reads without a delay of the model starts with the first time step of its source. ``latency``: of a
    network whose delays contain the differences of latencies; None: the delays are those of the model.
    """
    inside = {p.name for p in network.populations}
    shift = {} if latency is None else latency
    return {
        p.source
        for p in network.projections
        if p.target in inside or int(p.delay_steps.max()) > shift.get(p.target, 0) - shift.get(p.source, 0)
    }


@dataclass(frozen=True, slots=True, eq=False)
class ConstantDrives:
    """A retimed network whose populations start as ``with_constant_drives`` says.

    ``waiting``: populations whose constant drive comes from a neuron that always fires; ``early``: populations that
    start at the first step of the hardware as they start in the reference, and so act before their own first step.
    """

    network: Network
    latency: dict[str, int]
    waiting: tuple[str, ...]
    early: tuple[str, ...]


def with_constant_drives(
    network: Network, latency: Mapping[str, int], *, keep_early_spikes: bool = False
) -> ConstantDrives:
    """The retimed network with starts from which each population is at step ``latency`` where the reference starts.

    First the start is solved backwards (``initial_states``). Where there is none, the constant drives (those of a
    synaptic current: the projections' biases) become synapses from one neuron that fires in every step, with the
    population's latency as their delay: nothing happens before its first step, and from then on each step gets the
    same drive. This is exact but for the order of sums, and costs that neuron and a synapse per driven neuron.

    Populations that neither holds for are named in one error, or keep their start with ``keep_early_spikes``.

    Returns:
        The network, the latencies with that of the neuron that always fires (0), the populations that it drives, and
        those that act early.

    Raises:
        ModelError: populations that neither holds for, each named.
    """
    drives = constant_drives(network)
    heard = heard_early(network, latency)
    populations: list[Population] = []
    waiting: list[str] = []
    early: list[Population] = []
    for p in network.populations:
        drive, steps = drives[p.name], latency[p.name]
        started = initial_state_before(p, drive, steps, feeds_neurons=p.name in heard)
        if started is None:
            started = _bare(p, drive, steps, feeds_neurons=p.name in heard)
            waiting += [] if started is None else [p.name]
            early += [p] if started is None else []
        populations.append(p if started is None or started is p.neuron else replace(p, neuron=started))
    if early and not keep_early_spikes:
        raise ModelError(*(_problem(p, latency[p.name]) for p in early))
    retimed, times = replace(network, populations=tuple(populations)), dict(latency)
    if waiting:
        retimed, times = _driven(retimed, network, drives, latency, tuple(waiting))
    return ConstantDrives(retimed, times, tuple(waiting), tuple(p.name for p in early))


def _bare(p: Population, drive: Array | None, steps: int, *, feeds_neurons: bool) -> Neuron | None:
    """The neuron without its constant drive, as far as synapses can take that over; None: it still cannot wait."""
    n = p.neuron
    moves = not n.a_syn.any()
    gain = n.g_syn * n.g_mem
    if (moves and bool(np.any((gain == 0) & (n.bias != 0)))) or (drive is None and not (moves and n.bias.any())):
        return None
    bare = replace(n, bias=freeze(np.float64(0.0))) if moves else n
    return initial_state_before(replace(p, neuron=bare), None, steps, feeds_neurons=feeds_neurons)


def _problem(p: Population, steps: int) -> Diagnostic:
    found = f"it would leave its start in the {counted(steps, 'step')} before its input arrives"
    limit = (
        f"its start is solved backwards where it does not fire on the way and stays within {LARGEST_START:g} thresholds"
    )
    adapts = "" if p.neuron.adaptation is None else ", adaptation init 0"
    step = f"start it at rest (v_init, i_init, threshold above 0{adapts}), or give --keep-early-spikes"
    ids = MappingProxyType({"population": p.name, "rule": "early", "steps": steps})
    return Diagnostic(f"population {quoted(p.name)}", found, limit, step, ids)


def _driven(
    network: Network,
    before: Network,
    drives: Mapping[str, Array | None],
    latency: Mapping[str, int],
    waiting: Sequence[str],
) -> tuple[Network, dict[str, int]]:
    taken = {subject.name for subject in (*network.inputs, *network.outputs, *network.populations)}
    always = Population(fresh_name(ALWAYS, taken), (1,), neuron("relay", bias=1.0, theta=0.5))
    projections = [replace(p, bias=None) if p.target in waiting else p for p in network.projections]
    for name in waiting:
        driven = before.population(name)
        steps = freeze(np.int64(latency[name]))
        projections.append(Projection(always.name, name, _weights(driven, drives[name]), delay_steps=steps))
    network = replace(network, populations=(always, *network.populations), projections=tuple(projections))
    return network, {**latency, always.name: 0}


def _weights(p: Population, drive: Array | None) -> Dense | Chain:
    n = p.neuron
    total = np.zeros(p.shape) if drive is None else drive.astype(np.float64)
    if not n.a_syn.any():
        gain = np.broadcast_to(n.g_syn * n.g_mem, p.shape)
        total = total + np.where(gain != 0, n.bias / np.where(gain != 0, gain, 1.0), 0.0)
    dense = Dense(freeze(total.reshape(-1, 1)))
    return dense if len(p.shape) == 1 else Chain((dense, Reshape((p.size,), p.shape)))
