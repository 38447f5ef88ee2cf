"""What a reader asks first, one answer in each tile; energy and time of a step as bars."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.html.page import Section
from nirbridge.report.html.sections.floorplan import Plan, link_name
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.html.tags import (
    Child,
    Markup,
    bar,
    facts,
    listed,
    paint,
    picture,
    remark,
    scrolled,
    short,
    swatch,
    table,
    tag,
    text,
)
from nirbridge.report.map_facts import (
    as_full,
    core_text,
    cores_available,
    figure_with_prefix,
    is_approximate_table,
    map_facts,
    one_line,
    rate_text,
    remarks,
)
from nirbridge.report.pictures.bar_pictures import CostBar, energy_picture, proof_picture


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


# -- costs ---------------------------------------------------------------------------------------------------------
# Energy and duration of a time step as stacked bars, every part with the source of its figure.

_WIDTH = 900.0


def costs_section(mapped: MappedNetwork) -> Section:
    """The bars of a map."""
    bars = energy_picture(mapped).bars
    body: list[Child] = []
    for cost in bars:
        body += [tag("h3", _heading(cost, mapped)), *_bar(cost)]
    if any(cost.total is not None for cost in bars):
        body.append(remark(f"Rates of neurons and inputs: {one_line(mapped.rates)}."))
    return Section("costs", "Energy and time", _lead(mapped, bars), body)


def _lead(mapped: MappedNetwork, bars: tuple[CostBar, CostBar]) -> str:
    said = []
    for cost in bars:
        if cost.total is None:
            said.append(f"The chip file has no figures of {cost.quantity}")
            continue
        largest = max(cost.parts, key=lambda part: part.value, default=None)
        most = "" if largest is None else f", {(largest.stop - largest.start):.0%} of it {largest.kind}"
        said.append(f"{_total(cost, mapped)} per time step{most}")
    return ". ".join(said) + "."


def _total(cost: CostBar, mapped: MappedNetwork) -> str:
    rough = is_approximate_table(mapped.chip.approximate, cost.quantity)
    return figure_with_prefix(cost.total or 0.0, cost.unit, approximate=rough)


def _heading(cost: CostBar, mapped: MappedNetwork) -> str:
    name = {"energy": "Energy of a time step", "time": "Duration of a time step"}[cost.quantity]
    return name if cost.total is None else f"{name}: {_total(cost, mapped)}"


def _bar(cost: CostBar) -> list[Child]:
    if cost.total is None:
        return [tag("p", f"Unknown: the chip file has no data for {cost.quantity}.")]
    label = "; ".join(f"{part.kind} {part.stop - part.start:.0%}" for part in cost.parts)
    inner: list[Child] = []
    for number, part in enumerate(cost.parts):
        x, width = _WIDTH * part.start, _WIDTH * (part.stop - part.start)
        inner.append(tag("rect", x=x, y="0", width=width, height="34", fill=paint(number), class_="edge"))
        share = f"{part.stop - part.start:.0%}"
        if width > 60:
            inner.append(_plate(x + width / 2, share))
    name = f"Parts of the {'energy' if cost.unit == 'J' else 'duration'} of a time step"
    drawn = scrolled(picture(_WIDTH, 34, inner, label=label or "nothing", class_="stack"), f"{name}, drawn")
    rows = [
        [
            (swatch(number), " ", part.kind),
            figure_with_prefix(part.value, cost.unit, approximate=part.is_approximate),
            f"{part.stop - part.start:.1%}",
            part.source or "the chip file names none",
        ]
        for number, part in enumerate(cost.parts)
    ]
    result: list[Child] = [drawn, table(name, ["part", cost.unit, "share", "source of the figure"], rows, "lrrl")]
    if cost.missing:
        result.append(remark(f"Left out, since the chip file has no figure: {', '.join(cost.missing)}."))
    return result


def _plate(x: float, said: str) -> Markup:
    """Text on a plate, so that it is read on every texture."""
    width = 9.0 * len(said) + 8
    plate = tag("rect", x=x - width / 2, y="8", width=width, height="18", rx="3", class_="plate")
    return tag("g", plate, text(x, 21, said, anchor="middle"))
