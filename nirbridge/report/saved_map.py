"""A map file in text and as a short document: the model, the lower bound, and the cores of the populations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from nirbridge.errors import counted, quoted
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.map_facts import (
    APPROXIMATE_HEADING,
    approximate_lines,
    figure_with_prefix,
    is_approximate_limit,
    is_approximate_table,
    one_line,
    rate_text,
)
from nirbridge.report.tables import facts_table, heading, listed, table

_LEFT_OUT = ("schema", "chip", "blocks", "routes", "projections", "populations")
"""Keys of a map file that its document does not repeat as they are."""


def saved_map_document(record: MapRecord) -> dict[str, Any]:
    """The map file without its lists of blocks and routes; the slices and cores of every population instead."""
    unchanged = {key: value for key, value in record.raw.items() if key not in _LEFT_OUT}
    return {
        **unchanged,
        "chip": record.chip["name"],
        "populations": [
            {**row, "slices": slices, "cores": cores}
            for row, (slices, cores) in zip(record.raw["populations"], _cut(record), strict=True)
        ],
        "projections": len(record.projections),
        "routes": len(record.routes),
    }


def saved_map_text(record: MapRecord, *, notes: bool = True) -> RenderableType:
    """The same as tables; without assumptions and notes where ``notes`` is false."""
    parts: list[RenderableType] = [facts_table(_lines(record)), heading("resources"), _resources(record)]
    parts += [heading("populations"), _populations(record)]
    for title in ("assumed", "notes") if notes else ():
        parts += listed(title, map(one_line, record.raw.get(title) or ()))
    parts += listed(APPROXIMATE_HEADING, approximate_lines(record.chip["name"], _approximate(record)) if notes else ())
    return Group(*parts)


def _lines(record: MapRecord) -> Iterator[tuple[str, str]]:
    totals, proof = record.totals, record.proof
    if record.placement_only:
        yield "marked", "PLACEMENT ONLY: cannot be quantized, run or emitted"
    yield "model", f"{quoted(record.model_file)}, sha256 {one_line(record.model_sha256[:16])}"
    yield "chip", f"{one_line(record.chip['name'])}, {counted(record.chips, 'chip')}"
    yield "neurons", f"{sum(p.neurons for p in record.populations):,}"
    yield "dt", figure_with_prefix(record.raw["timing"]["dt"], "s")
    yield "cores", f"{totals['cores_used']:,} of {totals['cores_available']:,} used"
    bounds = (
        f"at least {proof['cores_lower_bound']:,} for any map, {proof['cores_lower_bound_sliced']:,} for the slicings"
    )
    if proof.get("interrupted"):
        yield "marked", "SEARCH INTERRUPTED: the best map so far"
    yield "proof", f"{one_line(proof['status'])} ({one_line(proof['method'])}, seed {proof['seed']}): {bounds} searched"
    yield "objective", one_line(record.raw["objective"])
    yield "weights", counted(record.weight_bits, "bit")
    yield "traffic", f"{rate_text(totals['multicast_hops'])} multicast hops per time step"
    for label, key, unit in (("energy", "energy_per_step_j", "J"), ("time", "time_per_step_s", "s")):
        value = totals.get(key)
        rough = is_approximate_table(_approximate(record), label)
        figure = "unknown" if value is None else f"{figure_with_prefix(value, unit, approximate=rough)} per time step"
        yield label, figure
    yield "rates", one_line(record.raw["rates"])


def _approximate(record: MapRecord) -> tuple[str, ...]:
    return tuple(record.raw["approximate"])


def _resources(record: MapRecord) -> Table:
    rows = []
    for name in RESOURCES:
        row = record.totals[name]
        limit = "not limited" if row.get("limit") is None else f"{row['limit']:,}"
        mark = "~" if is_approximate_limit(_approximate(record), name) else ""
        rows.append((name.replace("_", " "), f"{row['used']:,}", f"{row['max']:,}", mark + limit))
    return table(("resource", "all cores", "fullest core", "limit"), "LR", rows)


def _populations(record: MapRecord) -> Table:
    rows = []
    for p, (slices, cores) in zip(record.populations, _cut(record), strict=True):
        shape = " x ".join(f"{n:,}" for n in p.shape)
        rows.append((quoted(p.name, 40), one_line(p.kind), shape, f"{p.neurons:,}", f"{slices:,}", f"{cores:,}"))
    return table(("population", "kind", "shape", "neurons", "slices", "cores"), "llR", rows)


def _cut(record: MapRecord) -> list[tuple[int, int]]:
    """(Slices, cores that they are on) of every population."""
    slices = {p.name: 0 for p in record.populations}
    cores: dict[str, set[Any]] = {p.name: set() for p in record.populations}
    for block in record.blocks:
        for each in block.slices:
            if each.population in slices:  # the checker refuses others; this only shows
                slices[each.population] += 1
                cores[each.population].add(block.core)
    return [(slices[p.name], len(cores[p.name])) for p in record.populations]
