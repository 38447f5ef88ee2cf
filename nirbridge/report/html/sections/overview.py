"""The first questions of a reader, one answer in each tile; energy, time, the proof and the resources as bars."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.report.html.page import (
    Child,
    Markup,
    Picture,
    ReportSources,
    Section,
    bar,
    facts,
    folded,
    joined,
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
from nirbridge.report.html.sections.floorplan import Plan, link_name
from nirbridge.report.map_facts import (
    as_full,
    core_name,
    core_rows,
    core_text,
    cores_available,
    cores_with_most,
    figure_with_prefix,
    fullest_of,
    is_approximate_table,
    map_facts,
    one_line,
    percent,
    proof_text,
    rate_text,
    remarks,
    resource_rows,
)
from nirbridge.report.pictures.bar_pictures import CostBar, ProofBar, ProofPicture, energy_picture, proof_picture


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
            most = max(cost.parts, key=lambda part: part.value, default=None)
            said = "" if most is None else f"{most.stop - most.start:.0%} {most.kind}"
            missing = f"no data for {', '.join(cost.missing)}" if cost.missing else ""
            yield _tile(name, _total(cost, mapped), said + " of what is known" * bool(said and missing), missing)


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
    return figure_with_prefix(cost.total or 0.0, cost.unit, approximate=rough, partial=cost.missing)


def _heading(cost: CostBar, mapped: MappedNetwork) -> str:
    name = {"energy": "Energy of a time step", "time": "Duration of a time step"}[cost.quantity]
    return name if cost.total is None else f"{name}: {_total(cost, mapped)}"


def _bar(cost: CostBar) -> list[Child]:
    if cost.total is None:
        return [tag("p", f"Unknown: the chip file has no data for {cost.quantity}.")]
    label = "; ".join(f"{part.kind} {part.stop - part.start:.0%}" for part in cost.parts)
    inner: list[Child] = []
    for part in cost.parts:
        x, width = _WIDTH * part.start, _WIDTH * (part.stop - part.start)
        inner.append(tag("rect", x=x, y="0", width=width, height="34", fill=paint(part.number), class_="edge"))
        share = f"{part.stop - part.start:.0%}"
        if width > 60:
            inner.append(_plate(x + width / 2, share))
    name = f"Parts of the {'energy' if cost.unit == 'J' else 'duration'} of a time step"
    drawn = scrolled(picture(_WIDTH, 34, inner, label=label or "nothing", class_="stack"), f"{name}, drawn")
    rows = [
        [
            (swatch(part.number), " ", part.kind),
            figure_with_prefix(part.value, cost.unit, approximate=part.is_approximate),
            f"{part.stop - part.start:.1%}",
            part.source or "the chip file names none",
        ]
        for part in cost.parts
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


# -- proof ---------------------------------------------------------------------------------------------------------
# The proof in one picture and one sentence, and the resources of cores as bars with their limits.


_LABEL, _BAR, _LINE = 250.0, 620.0, 26.0


def proof_section(value: MappedNetwork | Partition) -> Section:
    """Cores found, bounds, gap, and the bound that decides."""
    proof = proof_picture(value)
    report = (value.partition if isinstance(value, MappedNetwork) else value).report
    rows = [[bar.label, f"{bar.cores:,}", "decides" if bar.decides else ""] for bar in proof.bars]
    more: list[Child] = [
        scrolled(proof_drawing(proof), "Proof"),
        folded("Bounds as a table", table("Cores and lower bounds", ["", "cores", ""], rows, "lrl")),
    ]
    if isinstance(value, MappedNetwork):
        more.append(listed(proof_text(value)))
    more.append(remark(f"Found by {report.method} with {report.solver}, seed {report.seed}."))
    return Section("proof", "Proof", f"{proof.sentence[0].upper()}{proof.sentence[1:]}.", more)


def proof_drawing(proof: ProofPicture) -> Picture:
    """Bars of the cores found and of the lower bounds, the bound that decides, and the gap."""
    most = max((each.cores for each in proof.bars), default=1) or 1
    height = len(proof.bars) * _LINE + 34
    found = next((each.cores for each in proof.bars if each.kind == "found"), most)
    bound = found - proof.gap
    inner: list[Child] = []
    if proof.gap > 0:
        left, right = (_LABEL + _BAR * cores / most for cores in (bound, found))
        inner.append(tag("rect", x=left, y=0.0, width=right - left, height=height - 30, class_="gap"))
        inner.append(
            text(
                min((left + right) / 2, _LABEL + _BAR),
                height - 16,
                f"gap {counted(proof.gap, 'core')}",
                anchor="middle",
            )
        )
    edge = _LABEL + _BAR * found / most
    inner.append(tag("path", d=f"M{edge:.2f} 0V{height - 30}", class_="found-line"))
    for line, each in enumerate(proof.bars):
        inner.append(_proof_bar(each, line, _BAR * each.cores / most, edge))
    label = "; ".join(f"{each.label} {each.cores:,}{', decides' if each.decides else ''}" for each in proof.bars)
    return picture(_LABEL + _BAR + 120, height, inner, label=label, class_="proof")


def _proof_bar(each: ProofBar, line: int, width: float, edge: float) -> Markup:
    y = line * _LINE
    kind = "found" if each.kind == "found" else "decides" if each.decides else "bound"
    said = f"{each.cores:,}" + (" decides" if each.decides else "")
    after = _LABEL + width + 6
    if after < edge < after + 7.6 * len(said) + 4:  # beyond the line of the cores found, which would cross the text
        after = edge + 6
    parts = (
        text(_LABEL - 8, y + 17, each.label, anchor="end", class_="strong" if kind != "bound" else None),
        tag("rect", x=_LABEL, y=y + 4, width=max(width, 1.0), height=18.0, class_=f"bar-{kind}"),
        text(after, y + 17, said, class_="strong" if kind != "bound" else None),
    )
    return tag("g", joined(parts))


def resources_section(mapped: MappedNetwork) -> Section:
    """Every resource: the fullest core and the mean as a bar, with the limit of a core."""
    rows = resource_rows(mapped)
    fullest = fullest_of(mapped)
    lead = "The chip limits no resource of a core."
    if fullest is not None:
        core = core_text(fullest.cores[0], mapped)
        lead = f"The limiting resource is {fullest.words}: {core} uses {fullest.used}{as_full(fullest.cores)}."
    said = (
        "Bars show the fullest core, ticks the mean of the used cores, the end of a track the limit of a core"
        f"{'; ~ marks limits that are not public' * any(row.is_approximate and row.limit for row in rows)}."
    )
    headings = ["resource", "fullest core", "used there", "limit of a core", "share", "", "all cores"]
    body = table("Resources", headings, _rows(mapped, fullest.resource if fullest else ""), "llrrrlr")
    return Section("resources", "Resources", lead, (body, remark(said)))


def _rows(mapped: MappedNetwork, fullest: str) -> Iterator[list[Child]]:
    cores = max(1, len(core_rows(mapped)))
    for row in resource_rows(mapped):
        mean = row.total / cores / row.limit if row.limit else None
        limit = "not limited" if row.limit is None else f"{'~' * row.is_approximate}{row.limit:,}"
        share = "" if row.share is None else percent(row.share)
        says = "" if row.share is None else f"fullest core {row.share:.0%}, mean {mean or 0:.0%} of the limit"
        name = row.name.replace("_", " ")
        drawn = bar(row.share, mean=mean, says=f"{name}: {says}", full=row.name == fullest)
        yield [name, _where(mapped, row.name), f"{row.most:,}", limit, share, drawn, f"{row.total:,}"]


def _where(mapped: MappedNetwork, resource: str) -> str:
    """The first of the cores that use most, and how many others do."""
    cores = cores_with_most(mapped, resource)
    if not cores:
        return "-"
    return core_name(cores[0], mapped) + (f" and {len(cores) - 1:,} more" if len(cores) > 1 else "")
