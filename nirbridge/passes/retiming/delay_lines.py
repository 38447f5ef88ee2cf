"""Delays beyond a chip's range: relay populations that pass spikes on, one line per source, taps for projections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from nirbridge.arrays import compact, freeze
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.masking import only_sources
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import neuron
from nirbridge.network.nir.delays import SECONDS, delayed_subject
from nirbridge.network.operators import Identity

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
