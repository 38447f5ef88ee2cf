"""Energy and duration of a time step as stacked bars, every part with the source of its figure."""

from __future__ import annotations

from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.html.page import Section
from nirbridge.report.html.svg import paint, picture, scrolled, swatch, text
from nirbridge.report.html.tags import Child, Markup, remark, table, tag
from nirbridge.report.map_facts import figure_with_prefix, is_approximate_table, one_line
from nirbridge.report.pictures.energy_picture import CostBar, energy_picture

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
