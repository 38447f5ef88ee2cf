"""The first section of a report: what a reader asks first, one answer in each tile."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.html.fullest import as_full, core_text
from nirbridge.report.html.page import Section
from nirbridge.report.html.sections.floorplan import Plan, link_name
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.html.svg import bar
from nirbridge.report.html.tags import Child, Markup, facts, listed, remark, short, tag
from nirbridge.report.map_facts import (
    cores_available,
    figure_with_prefix,
    is_approximate_table,
    map_facts,
    one_line,
    rate_text,
    remarks,
)
from nirbridge.report.pictures.energy_picture import energy_picture
from nirbridge.report.pictures.proof_picture import proof_picture


def overview_section(sources: ReportSources, plan: Plan | None) -> Section | None:
    """Tiles of what is known; None where nothing has a tile."""
    tiles = list(_tiles(sources, plan))
    if not tiles:
        return None
    marked = None
    if sources.mapped is not None and sources.mapped.placement_only:
        said = next(lines[0] for label, lines in map_facts(sources.mapped) if label == "marked")
        marked = tag("p", said, class_="warning")
    notes = [tag("p", said, class_="warning") for said in sources.remarks]
    rests = None if sources.mapped is None or plan is None else remark(_rests_on(sources.mapped, tiles))
    return Section("overview", "At a glance", "", (marked, notes, tag("div", tiles, class_="tiles"), rests))


def _rests_on(mapped: MappedNetwork, tiles: list[Markup]) -> str:
    """The rates for traffic, energy and time, and what the mark ~ says where a tile has it."""
    rates = f"Rates for traffic, energy and time: {one_line(mapped.rates)}."
    marked = any("~" in each for each in tiles)
    return f"{rates} ~ marks figures that rest on values that are not public." if marked else rates


def _tile(name: str, value: Child, *said: Child) -> Markup:
    return tag(
        "div",
        tag("h3", name),
        tag("p", value, class_="value"),
        (tag("p", each) for each in said if each),
        class_="tile",
    )


def _tiles(sources: ReportSources, plan: Plan | None) -> Iterator[Markup]:
    if sources.mapped is not None and plan is not None:
        yield from _of_map(sources.mapped, plan)
    elif sources.drawn is not None:
        network = sources.drawn
        yield _tile(
            "Network", counted(network.neurons, "neuron"), f"in {counted(len(network.populations), 'population')}"
        )
    if sources.quantized is not None:
        layers = sources.quantized.report
        bits = sorted({w["bits"] for layer in layers for w in layer.weights})
        span = f"{bits[0]}" if len(bits) == 1 else f"{bits[0]} to {bits[-1]}" if bits else "no"
        proved = all(layer.bounds.proved for layer in layers)
        yield _tile(
            "Weights",
            f"{span} bits",
            "no overflow for any input (proved)" if proved else "ranges rest on calibration data",
        )
    if sources.verification is not None:
        verification = sources.verification
        ways = ", ".join(short(way, 20) for way in verification.recordings)
        state = (
            tag("span", "✓ holds", class_="good")
            if verification.holds
            else tag("span", "✗ does not hold", class_="bad")
        )
        yield _tile("Verification", state, f"{counted(verification.steps, 'time step')}: {ways}")


def _of_map(mapped: MappedNetwork, plan: Plan) -> Iterator[Markup]:
    proof, report = proof_picture(mapped), mapped.partition.report
    status = {
        "optimal": "no map needs fewer (proved)",
        "optimal-sliced": "fewest for rectangular slices, each stored by itself (proved)",
    }
    bound = status.get(report.status, f"at least {report.cores_lower_bound:,}, gap {proof.gap:,}")
    yield _tile("Cores", f"{len(mapped.cores):,} of {cores_available(mapped):,}", bound, _chips(mapped, plan))
    fullest = plan.fullest
    if fullest is not None:
        where = f"{core_text(fullest.cores[0], mapped)}{as_full(fullest.cores)}"
        drawn = bar(fullest.share, says=f"{fullest.share:.0%} of the limit", full=True)
        yield _tile("Limiting resource", fullest.words, fullest.used, drawn, where)
    busiest = plan.traffic.busiest
    if busiest is not None:
        more = len(plan.traffic.as_busy) - 1
        load = f"{rate_text(busiest.load)} spikes per time step" + (
            f", as on {counted(more, 'other link')}" if more else ""
        )
        mean = f"mean of the used links {rate_text(plan.traffic.load_mean)}"
        yield _tile("Busiest link", link_name(busiest, plan), load, mean)
    for cost, name in zip(
        energy_picture(mapped).bars, ("Energy of a time step", "Duration of a time step"), strict=True
    ):
        if cost.total is not None:
            rough = is_approximate_table(mapped.chip.approximate, cost.quantity)
            most = max(cost.parts, key=lambda part: part.value, default=None)
            said = "" if most is None else f"{most.stop - most.start:.0%} {most.kind}"
            yield _tile(name, figure_with_prefix(cost.total, cost.unit, approximate=rough), said)


def _chips(mapped: MappedNetwork, plan: Plan) -> str:
    return f"on {counted(plan.floor.chips_in_use, 'chip')} of {short(mapped.chip.name, 24)}"


def facts_section(sources: ReportSources) -> Section | None:
    """Every fact of the text report, assumptions and notes."""
    mapped, network = sources.mapped, sources.drawn
    body: list[Child] = []
    if mapped is not None:
        body.append(facts((label, [tag("p", line) for line in lines]) for label, lines in map_facts(mapped)))
        parts = remarks(mapped)
    elif network is not None:
        parts = [
            (name, list(lines)) for name, lines in (("assumed", network.assumed), ("notes", network.notes)) if lines
        ]
    else:
        return None
    body += [(tag("h3", heading.capitalize()), listed(lines)) for heading, lines in parts]
    return Section("facts", "Facts and assumptions", "", body) if body else None
