"""Consistency of a map file with its model: latencies and delays, the quantized network, the timing.

With latency L, a spike that the model sends with delay d from a to b has to take ``d + L[b] - L[a]`` time steps on the
chip, relays in between included; a hop between populations takes one of them. The pass that found L is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.errors import Diagnostic, IllegalMapping, counted, quoted
from nirbridge.mapping.abilities import placement_only_problem
from nirbridge.mapping.storage.record import MapRecord, ProjectionRecord
from nirbridge.network.model import Network

if TYPE_CHECKING:
    from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
import math

from nirbridge.errors import FileError
from nirbridge.network.model import Timing
from nirbridge.network.nir.timing import CHOICES

_AGAIN = "map the model again"
Steps = dict[tuple[str, str], int]


def latency_problems(record: MapRecord, model: Network) -> Iterator[Diagnostic]:
    """Every latency and delay of the map that contradicts ``model``, the network before retiming.

    Nothing where the map was not retimed.
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
            text = "there is no path" if found is None else f"a spike takes {found} time step{'s' * (found != 1)}"
            limit = f"{steps} by the delays of the model and the latencies"
            yield _problem(f"{quoted(source)} -> {quoted(target)}", text, limit, source=source, target=target)


def _problem(subject: str, found: str, limit: str = "", /, **ids: object) -> Diagnostic:
    return Diagnostic(subject, found, limit, _AGAIN, MappingProxyType(ids))


def _wanted(model: Network, latency: Mapping[str, int]) -> Steps:
    """Time steps of the longest path of each pair; names that the map lacks are reported elsewhere."""
    wanted: Steps = {}
    for p in model.projections:
        ends = (p.source, p.target)
        if p.source in latency and p.target in latency:
            steps = p.max_delay_steps + latency[p.target] - latency[p.source]
            wanted[ends] = max(wanted.get(ends, steps), steps)
    return wanted


def _on_chip(record: MapRecord, model: Network) -> Steps:
    """Time steps from each source of the model to each target, through the relays that the compiler inserted."""
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
    """The source in the model of a projection, and the time steps from it; relays have one input each."""
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


def check_same_network(quantized: QuantizedNetwork, record: MapRecord) -> None:
    """Raise IllegalMapping with every problem of ``network_mismatches``."""
    IllegalMapping.raise_all(network_mismatches(quantized, record))


def network_mismatches(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    """A different chip; every population, input, delay and weight width that differs between map and network."""
    problems = [*_things(quantized, record)]
    yield from problems or (*_delays(quantized, record), *_wider(quantized, record))
    yield from placement_only_problem(record, "map the model for a chip that can run it, without --placement-only")


def _things(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    chip = str(record.chip.get("name"))
    if chip != quantized.chip:
        yield _problem("chip", f"the map is of {quoted(chip)}", f"the integers are of {quoted(quantized.chip)}")
    for what, mine, theirs in (
        ("population", quantized.populations, record.populations),
        ("input", quantized.inputs, record.inputs),
    ):
        mapped = {p.name: p.shape for p in theirs}
        for p in mine:
            if p.name not in mapped:
                yield _problem(f"{what} {quoted(p.name)}", "is not in the map", name=p.name)
            elif mapped[p.name] != p.shape:
                found, limit = f"has shape {mapped[p.name]} in the map", f"{p.shape} in the network"
                yield _problem(f"{what} {quoted(p.name)}", found, limit, name=p.name)


def _delays(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    inside = {p.name for p in quantized.populations}
    mapped: dict[tuple[str, str], list[int]] = {}
    for p in record.projections:
        if p.target in inside:  # a hop takes a time step, which is the delay of a back edge
            mapped.setdefault((p.source, p.target), []).append(p.delay_steps + (0 if p.is_back else 1))
    own: dict[tuple[str, str], list[int]] = {}
    for p in quantized.projections:
        own.setdefault((p.source, p.target), []).append(_longest(p))
    for ends, steps in own.items():
        found = mapped.get(ends, [])
        if sorted(found) != sorted(steps):
            subject = f"projections {quoted(ends[0])} -> {quoted(ends[1])}"
            text = (
                f"take {_listed(found)} time step{'s' * (found != [1])} in the map" if found else "are not in the map"
            )
            yield _problem(subject, text, f"{_listed(steps)} in the network", source=ends[0], target=ends[1])


def _wider(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    """Weights that take more bits than the map's memory was counted with."""
    stored_bits: dict[tuple[str, str], int] = {}
    for p in record.projections:
        stored_bits[p.source, p.target] = min(p.weight_bits, stored_bits.get((p.source, p.target), p.weight_bits))
    for p in quantized.projections:
        bits = stored_bits.get((p.source, p.target), p.weight_bits)
        if p.weight_bits > bits:
            subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
            found, limit = f"weights of {counted(p.weight_bits, 'bit')}", f"the map has memory for {bits}"
            yield _problem(subject, found, limit, source=p.source, target=p.target)


def _longest(p: FixedProjection) -> int:
    return int(np.max(p.delay_steps)) + int(np.max(p.target_delay_steps))


def _listed(steps: list[int]) -> str:
    return ", ".join(f"{n:,}" for n in sorted(steps))


FIELDS = ("dt", *CHOICES)


def timing_of(record: MapRecord) -> Timing:
    """The timing in the map; one FileError with every illegal value."""
    stored = record.raw["timing"]
    problems = []
    if not (math.isfinite(stored["dt"]) and stored["dt"] > 0):
        limit = "expected a number of seconds above 0"
        problems.append(Diagnostic("map: timing.dt", f"is {stored['dt']}", limit, "map the model again"))
    for key, choices in CHOICES.items():
        if stored[key] not in choices:
            limit = f"expected one of {', '.join(choices)}"
            problems.append(Diagnostic(f"map: timing.{key}", f"is {quoted(stored[key])}", limit, "map the model again"))
    FileError.raise_all(problems)
    return Timing(**{key: stored[key] for key in FIELDS})


def requested_timing(record: MapRecord, network: Network, asked: Timing) -> Timing:
    """``asked``, completed by the timing of the map where that differs from ``network``, which was read with ``asked``.

    Values that do not differ are left open, so that the metadata of single nodes still counts.
    """
    mapped = timing_of(record)
    chosen = {}
    for key in FIELDS:
        mine = getattr(asked, key)
        differs = getattr(mapped, key) != getattr(network.timing, key)
        chosen[key] = getattr(mapped, key) if mine is None and differs else mine
    return Timing(**chosen)


def timing_mismatches(record: MapRecord, network: Network) -> Iterator[Diagnostic]:
    """Where the map was made with another timing than ``network``."""
    mapped = timing_of(record)
    for key in FIELDS:
        mine, read = getattr(mapped, key), getattr(network.timing, key)
        if mine != read:
            limit = f"{_shown(read)} as the model was read"
            step = "leave out the option, or map the model again"
            yield Diagnostic(f"timing.{key}", f"{_shown(mine)} in the map", limit, step, MappingProxyType({"key": key}))


def _shown(value: float | str | None) -> str:
    return quoted(value) if isinstance(value, str) else str(value)
