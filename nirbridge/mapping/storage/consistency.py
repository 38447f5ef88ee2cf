"""Consistency of a map file with its model and chip: delays, features, quantized network, timing.

With latency L, a spike that the model sends with delay d from a to b has to take ``d + L[b] - L[a]`` time steps on the
chip, relays in between included; a hop between populations takes one of them. The pass that found L is not used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, FileError, counted, quoted
from nirbridge.mapping.storage.record import MapRecord, ProjectionRecord
from nirbridge.mapping.zeros import unstored_problems
from nirbridge.network.model import Network, Projection, Timing
from nirbridge.network.nir.timing import CHOICES
from nirbridge.partitioner.cost.resources import delay_on_chip_steps
from nirbridge.quantization.legality import feature_problems

if TYPE_CHECKING:
    from nirbridge.quantization.model import QuantizedNetwork


_AGAIN = "map the model again"
FIELDS = ("dt", *CHOICES)
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
    on_chip = _on_chip(record, model)
    for (source, target), steps in _by_latency(model, latency).items():
        taken = on_chip.get((source, target))
        if taken != steps:
            text = "there is no path" if taken is None else f"a spike takes {counted(taken, 'time step')}"
            limit = f"{steps} by the delays of the model and the latencies"
            yield _problem(f"{quoted(source)} -> {quoted(target)}", text, limit, source=source, target=target)


def _problem(subject: str, found: str, limit: str = "", /, **ids: object) -> Diagnostic:
    return Diagnostic(subject, found, limit, _AGAIN, MappingProxyType(ids))


def _by_latency(model: Network, latency: Mapping[str, int]) -> Steps:
    """Time steps of the longest path of each pair; names that the map lacks are reported elsewhere."""
    longest: Steps = {}
    for p in model.projections:
        ends = (p.source, p.target)
        if p.source in latency and p.target in latency:
            steps = p.max_delay_steps + latency[p.target] - latency[p.source]
            longest[ends] = max(longest.get(ends, steps), steps)
    return longest


def _on_chip(record: MapRecord, model: Network) -> Steps:
    """Time steps from each source of the model to each target, through the relays that the compiler inserted."""
    inside = {p.name for p in record.populations}
    in_model = {p.name for p in (*model.inputs, *model.populations)}
    into = {p.target: p for p in reversed(record.projections)}
    taken: Steps = {}
    for p in record.projections:
        source, steps = _origin(p, into, in_model, inside)
        taken[source, p.target] = max(taken.get((source, p.target), steps), steps)
    return taken


def _origin(
    p: ProjectionRecord, into: Mapping[str, ProjectionRecord], in_model: set[str], inside: set[str]
) -> tuple[str, int]:
    """The source in the model of a projection, and the time steps from it; relays have one input each."""
    steps, seen = _steps(p, inside), {p.source}
    while p.source not in in_model and p.source in into:
        p = into[p.source]
        if p.source in seen:
            break
        seen.add(p.source)
        steps += _steps(p, inside)
    return p.source, steps


def _steps(p: ProjectionRecord, inside: set[str]) -> int:
    return p.delay_steps + (1 if p.target in inside and not p.is_back else 0)


def network_mismatches(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    """A different chip; every population, input, delay and weight width that differs between map and network."""
    problems = [*_differing_names(quantized, record)]
    yield from problems or (
        *_delays(quantized, record),
        *_wider(quantized, record),
        *unstored_problems(quantized, record),
    )
    yield from placement_only_problem(record, "map the model for a chip that can run it, without --placement-only")


def _differing_names(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    chip = str(record.chip.get("name"))
    if chip != quantized.chip:
        yield _problem("chip", f"the map is of {quoted(chip)}", f"the integers are of {quoted(quantized.chip)}")
    for kind, members, stored in (
        ("population", quantized.populations, record.populations),
        ("input", quantized.inputs, record.inputs),
    ):
        shapes = {p.name: p.shape for p in stored}
        for p in members:
            if p.name not in shapes:
                yield _problem(f"{kind} {quoted(p.name)}", "is not in the map", name=p.name)
            elif shapes[p.name] != p.shape:
                found, limit = f"has shape {shapes[p.name]} in the map", f"{p.shape} in the network"
                yield _problem(f"{kind} {quoted(p.name)}", found, limit, name=p.name)


def _delays(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    inside = {p.name for p in quantized.populations}
    mapped: dict[tuple[str, str], list[int]] = defaultdict(list)
    for p in record.projections:
        if p.target in inside:  # a hop takes a time step, which is the delay of a back edge
            mapped[p.source, p.target].append(p.delay_steps + (0 if p.is_back else 1))
    delays: dict[tuple[str, str], list[int]] = defaultdict(list)
    for p in quantized.projections:
        delays[p.source, p.target].append(int(np.max(p.delay_steps)) + int(np.max(p.target_delay_steps)))
    for (source, target), steps in delays.items():
        stored = mapped[source, target]
        if sorted(stored) != sorted(steps):
            subject = f"projections {quoted(source)} -> {quoted(target)}"
            time = f"{_listed(stored)} time step{'s' * (stored != [1])}"
            found = f"take {time} in the map" if stored else "are not in the map"
            yield _problem(subject, found, f"{_listed(steps)} in the network", source=source, target=target)


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


def _listed(steps: list[int]) -> str:
    return ", ".join(f"{n:,}" for n in sorted(steps))


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
    """The timing ``asked``, completed by the map's where that differs from ``network`` (read with ``asked``).

    Values that do not differ are left open, so that the metadata of single nodes still counts.
    """
    mapped = timing_of(record)
    differing = [key for key in FIELDS if getattr(mapped, key) != getattr(network.timing, key)]
    return replace(asked, **{key: getattr(mapped, key) for key in differing if getattr(asked, key) is None})


def timing_mismatches(record: MapRecord, network: Network) -> Iterator[Diagnostic]:
    """Differences between the timing of the map and that of ``network``."""
    mapped = timing_of(record)
    for key in FIELDS:
        stored, read = getattr(mapped, key), getattr(network.timing, key)
        if stored != read:
            found, limit = f"{_shown(stored)} in the map", f"{_shown(read)} as the model was read"
            step = "leave out the option, or map the model again"
            yield Diagnostic(f"timing.{key}", found, limit, step, MappingProxyType({"key": key}))


def _shown(value: float | str | None) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


# -- abilities -----------------------------------------------------------------------------------------------------
# Features of neurons and synapses that a map needs and a chip lacks. Limits of cores are counted elsewhere.


def unsupported_features(
    record: MapRecord, network: Network, chip: Chip, *, placement_only: bool
) -> Iterator[Diagnostic]:
    """Delays and weight widths beyond those of the chip; for more than a placement, all that it cannot run."""
    yield from _long_delays(network, chip)
    yield from _weight_bits(record, chip)
    if placement_only:
        return
    bits = counted_weight_bits(record, network, chip)
    widths = {id(p): width for p, width in zip(network.projections, bits, strict=True)}
    yield from feature_problems(network, chip, lambda p: widths[id(p)])


def counted_weight_bits(record: MapRecord, network: Network, chip: Chip) -> list[int]:
    """Weight bits per projection to count with: those of the file, or the chip's own where they are not legal."""
    stored = [p.weight_bits for p in record.projections]
    if len(stored) != len(network.projections) or not set(stored) <= set(chip.synapses.weight_bits):
        return [chip.synapses.weight_bits_default] * len(network.projections)
    return stored


def placement_only_problem(record: MapRecord, hint: str) -> list[Diagnostic]:
    """The problem of a map marked ``placement_only`` where one that runs is needed."""
    if not record.placement_only:
        return []
    found, limit = "is marked placement_only", "such a map cannot be quantized, run or emitted"
    return [Diagnostic("map", found, limit, hint, MappingProxyType({"placement_only": True}))]


def _subject(k: int, p: Projection | ProjectionRecord) -> str:
    return f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"


def _long_delays(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    longest = chip.core.delay_steps
    for k, p in enumerate(network.projections):
        steps = delay_on_chip_steps(p)
        if longest is not None and steps > longest:
            limit = f"a {quoted(chip.name)} synapse delays by at most {longest:,}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(_subject(k, p), f"a delay of {steps:,} time steps", limit, "shorten the delay", ids)


def _weight_bits(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    legal = chip.synapses.weight_bits
    for k, p in enumerate(record.projections):
        if p.weight_bits not in legal:
            limit = f"a {quoted(chip.name)} stores {', '.join(map(str, legal))}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(_subject(k, p), f"{p.weight_bits} weight bits", limit, "choose one of these", ids)
