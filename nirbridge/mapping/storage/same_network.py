"""Is a map of the network that integers are of? By names, shapes and delays: what runs has to be what was mapped."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.errors import IllegalMapping, Problem, quoted
from nirbridge.mapping.abilities import marked
from nirbridge.mapping.storage.record import MapRecord

if TYPE_CHECKING:
    from nirbridge.quantization.model import FixedProjection, Quantized

_AGAIN = "map the model again"


def check_same(quantized: Quantized, record: MapRecord) -> None:
    """Raises IllegalMapping with every problem of ``other_network``."""
    problems = tuple(other_network(quantized, record))
    if problems:
        raise IllegalMapping(*problems)


def other_network(quantized: Quantized, record: MapRecord) -> Iterator[Problem]:
    """Another chip; every population, input, delay and width of weights that the map does not have so."""
    problems = [*_things(quantized, record)]
    yield from problems or (*_delays(quantized, record), *_wider(quantized, record))
    yield from marked(record, "map the model for a chip that can run it, without --placement-only")


def _things(quantized: Quantized, record: MapRecord) -> Iterator[Problem]:
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


def _delays(quantized: Quantized, record: MapRecord) -> Iterator[Problem]:
    inside = {p.name for p in quantized.populations}
    mapped: dict[tuple[str, str], list[int]] = {}
    for p in record.projections:
        if p.target in inside:  # a hop takes a step, which a back edge has as its delay
            mapped.setdefault((p.source, p.target), []).append(p.delay_steps + (0 if p.is_back else 1))
    own: dict[tuple[str, str], list[int]] = {}
    for p in quantized.projections:
        own.setdefault((p.source, p.target), []).append(_longest(p))
    for ends, steps in own.items():
        found = mapped.get(ends, [])
        if sorted(found) != sorted(steps):
            thing = f"projections {quoted(ends[0])} -> {quoted(ends[1])}"
            text = f"take {_listed(found)} steps in the map" if found else "are not in the map"
            yield _problem(thing, text, f"{_listed(steps)} in the network", source=ends[0], target=ends[1])


def _wider(quantized: Quantized, record: MapRecord) -> Iterator[Problem]:
    """Weights that take more bits than the map's memory was counted with."""
    counted: dict[tuple[str, str], int] = {}
    for p in record.projections:
        counted[p.source, p.target] = min(p.weight_bits, counted.get((p.source, p.target), p.weight_bits))
    for p in quantized.projections:
        bits = counted.get((p.source, p.target), p.weight_bits)
        if p.weight_bits > bits:
            thing = f"projection {quoted(p.source)} -> {quoted(p.target)}"
            found, limit = f"weights of {p.weight_bits} bits", f"the map has memory for {bits}"
            yield _problem(thing, found, limit, source=p.source, target=p.target)


def _longest(p: FixedProjection) -> int:
    return int(np.max(p.delay_steps)) + int(np.max(p.target_delay_steps))


def _listed(steps: list[int]) -> str:
    return ", ".join(f"{n:,}" for n in sorted(steps))


def _problem(thing: str, found: str, limit: str = "", /, **ids: object) -> Problem:
    return Problem(thing, found, limit, _AGAIN, MappingProxyType(ids))
