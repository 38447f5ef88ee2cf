"""Do the delays of a map make up for the hops of the chip? From the latencies in the file and the model's own delays.

With latency L, a spike that the model sends with delay d from a to b has to take ``d + L[b] - L[a]`` steps on the chip,
relays in between included; a hop between populations takes one of them. Nothing of the pass that found L is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from nirbridge.errors import Problem, quoted
from nirbridge.mapping.storage.record import MapRecord, ProjectionRecord
from nirbridge.network.model import Network

_AGAIN = "map the model again"
Steps = dict[tuple[str, str], int]


def wrong_latencies(record: MapRecord, model: Network) -> Iterator[Problem]:
    """Everything in the map's latencies and delays that does not keep the meaning of ``model``, not yet retimed.

    Nothing where the map does not say that it was retimed.
    """
    latency = record.latency
    if latency is None:
        return
    names = [p.name for p in (*record.inputs, *record.populations, *record.outputs)]
    missing = [name for name in names if name not in latency]
    for name in missing:
        yield _problem(f"retimed.latency of {quoted(name)}", "is not in the map", name=name)
    for p in record.inputs:
        if latency.get(p.name):
            yield _problem(
                f"retimed.latency of {quoted(p.name)}", f"is {latency[p.name]}", "0 of an input", name=p.name
            )
    if missing:
        return
    taken, wanted = _on_chip(record, model), _wanted(model, latency)
    for (source, target), steps in wanted.items():
        found = taken.get((source, target))
        if found != steps:
            text = "no way" if found is None else f"a spike takes {found} steps"
            limit = f"{steps} by the delays of the model and the latencies"
            yield _problem(f"{quoted(source)} -> {quoted(target)}", text, limit, source=source, target=target)


def _problem(thing: str, found: str, limit: str = "", /, **ids: object) -> Problem:
    return Problem(thing, found, limit, _AGAIN, MappingProxyType(ids))


def _wanted(model: Network, latency: Mapping[str, int]) -> Steps:
    """The longest way of each pair; -1 where the model has a name that the map does not, which is said elsewhere."""
    wanted: Steps = {}
    for p in model.projections:
        ends = (p.source, p.target)
        if p.source in latency and p.target in latency:
            steps = p.max_delay_steps + latency[p.target] - latency[p.source]
            wanted[ends] = max(wanted.get(ends, steps), steps)
    return wanted


def _on_chip(record: MapRecord, model: Network) -> Steps:
    """Steps from each sender of the model to each receiver, through what the compiler put in between."""
    inside = {p.name for p in record.populations}
    known = {p.name for p in (*model.inputs, *model.populations)}
    into: dict[str, list[ProjectionRecord]] = {}
    for p in record.projections:
        into.setdefault(p.target, []).append(p)
    taken: Steps = {}
    for p in record.projections:
        source, steps = _origin(p, into, known, inside)
        taken[source, p.target] = max(taken.get((source, p.target), steps), steps)
    return taken


def _origin(
    p: ProjectionRecord, into: Mapping[str, list[ProjectionRecord]], known: set[str], inside: set[str]
) -> tuple[str, int]:
    """The model's own sender behind a projection, and the steps from there; relays have one input each."""
    steps, seen = _steps(p, inside), {p.source}
    while p.source not in known and into.get(p.source):
        p = into[p.source][0]
        if p.source in seen:
            break
        seen.add(p.source)
        steps += _steps(p, inside)
    return p.source, steps


def _steps(p: ProjectionRecord, inside: set[str]) -> int:
    return p.delay_steps + (1 if p.target in inside and not p.is_back else 0)
