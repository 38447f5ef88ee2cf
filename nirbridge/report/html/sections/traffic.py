"""Traffic: the busiest links as bars, and the matrix of who sends how much to whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nirbridge.arrays import Array
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.naming import natural_key
from nirbridge.report.html.page import (
    Child,
    Markup,
    Section,
    bar,
    explored,
    folded,
    number,
    rectangles,
    remark,
    sample,
    short,
    table,
    tag,
    text,
)
from nirbridge.report.html.sections.floorplan import Plan, link_name, rounded
from nirbridge.report.map_facts import one_line, rate_text, traffic_lines
from nirbridge.report.pictures.map_pictures import TrafficMatrix, traffic_matrix

LINKS_MAX, PAIRS_MAX, ROWS_MAX, CORES_MAX = 12, 100, 160, 1600
"""Links in the table, pairs in the table, rows of the matrix, cores up to which it is one of cores."""
LEVELS = 5
_ROOM, _ROOM_LARGE, _LETTER = 460.0, 760.0, 6.8
"""Sides of a matrix, of one with more than 40 rows, and the width of a letter."""
_VALUED_MIN = 34.0
"""Side of a cell from which on it has its value as text."""


def traffic_section(plan: Plan, matrix: TrafficMatrix) -> Section:
    """The section of a map's traffic."""
    busiest = plan.traffic.busiest
    lead = "No spike leaves its tile: no link has any load."
    if busiest is not None:
        lead = (
            f"The busiest link is {link_name(busiest, plan)}: {rate_text(busiest.load)} spikes per time step,"
            f" {_times(busiest.load, plan.traffic.load_mean)} the mean of the used links."
        )
        others = [link_name(link, plan) for link in plan.traffic.as_busy[1:]]
        if others:
            more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
            lead += f" As busy: {', '.join(others[:3])}{more}."
    body: list[Child] = [tag("p", f"{line}.") for line in _said(plan.mapped)]
    if busiest is not None:
        body.append(_links(plan))
    if matrix.spikes.any():
        body += [_matrix(matrix), _pairs(matrix)]
    return Section("traffic", "Traffic", lead, body)


def _said(mapped: MappedNetwork) -> Iterator[str]:
    for line in (*traffic_lines(mapped)[:2], f"rates of neurons and inputs: {one_line(mapped.rates)}"):
        yield line[0].upper() + line[1:]


def _times(load: float, mean: float) -> str:
    return f"{load / mean:.3g} times" if mean else "as"


def _links(plan: Plan) -> Markup:
    links = plan.traffic.links[::-1][:LINKS_MAX]
    rows = [
        [
            link_name(link, plan),
            rate_text(link.load),
            bar(link.share, says=f"{link.share:.0%} of the busiest", full=link in plan.traffic.as_busy),
        ]
        for link in links
    ]
    caption = f"The {len(links)} busiest of {len(plan.traffic.links):,} links with traffic"
    return table(caption, ["link: tile (column, row)", "spikes per time step", "share of the busiest"], rows, "lrl")


# -- matrix ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """Classes of values: each ends ``ratio`` times below the next, the last one at ``most``."""

    most: float
    ratio: float

    def level(self, value: float) -> int:
        """Class of a value above 0: 0 to 4, all that is smaller in the first."""
        below = math.log(self.most / value) / math.log(self.ratio) - 1e-9
        return max(0, LEVELS - 1 - max(0, int(below)))


def scale_of(values: Array) -> Scale:
    """The scale of a matrix with a value above 0: five classes from its least value up, 1.2 to 4 times apart."""
    positive = values[values > 0]
    spread = float(positive.max() / positive.min())
    return Scale(float(positive.max()), min(max(spread ** (1 / LEVELS), 1.2), 4.0))


@dataclass(frozen=True, slots=True)
class MatrixFrame:
    """Where the cells of a matrix are: their side, and the corner of the first."""

    side: float
    left: float
    top: float


def _frame(matrix: TrafficMatrix, joined: int) -> MatrixFrame:
    longest = math.ceil(max(matrix.spikes.shape) / joined)
    side = max(3.0, min(40.0, (_ROOM if longest <= 40 else _ROOM_LARGE) / longest))
    left = max(len(short(name, 15)) for name in matrix.sources[::joined]) * _LETTER + 14
    top = max(len(short(name, 10)) for name in matrix.destinations[::joined]) * _LETTER + 30
    return MatrixFrame(side, max(left, len(f"from {matrix.of} ↓") * 8.2 + 12), top)


def drawn_matrix(matrix: TrafficMatrix) -> tuple[TrafficMatrix, int]:
    """The matrix with at most ``ROWS_MAX`` rows and columns: neighbours are summed; and how many of them."""
    joined = max(1, math.ceil(max(matrix.spikes.shape) / ROWS_MAX))
    if joined == 1:
        return matrix, 1
    sums = _summed(_summed(matrix.spikes, joined).T, joined).T
    names = [
        tuple(_span(every, k, joined) for k in range(0, len(every), joined))
        for every in (matrix.sources, matrix.destinations)
    ]
    return TrafficMatrix(matrix.of, names[0], names[1], sums), joined


def _summed(values: Array, joined: int) -> Array:
    import numpy as np

    return np.add.reduceat(values, np.arange(0, len(values), joined), axis=0)


def _span(names: tuple[str, ...], first: int, count: int) -> str:
    last = names[min(first + count, len(names)) - 1]
    return names[first] if last == names[first] else f"{names[first]} to {last}"


def _matrix(matrix: TrafficMatrix) -> Markup:
    drawn, joined = drawn_matrix(matrix)
    frame, (rows, columns) = _frame(matrix, joined), drawn.spikes.shape
    side = frame.side
    width = frame.left + max(columns * side, len(f"to {drawn.of} →") * 8.2) + 4
    height = frame.top + rows * side + 4
    inner: list[Child] = [
        tag("rect", x=frame.left, y=frame.top, width=columns * side, height=rows * side, class_="chip")
    ]
    inner += [*_cells(drawn, frame), *_names(matrix, joined, frame)]
    inner.append(tag("rect", id="matrix-cursor", class_="cursor", width=side + 2, height=side + 2, visibility="hidden"))
    place = {"viewBox": f"0 0 {number(width)} {number(height)}", "width": width, "height": height}
    svg = tag("svg", *inner, id="matrix-picture", class_="plan", aria_hidden="true", **place)
    window = explored("matrix", svg, f"Traffic matrix by {matrix.of}: arrow keys go from cell to cell")
    said = "Rows send, columns receive. Point at a cell, or use the arrow keys."
    status = tag("p", said, id="matrix-status", class_="hint", aria_live="polite")
    note = remark(f"Each cell sums {joined} by {joined} neighbours.") if joined > 1 else None
    heading = tag("h3", f"Spikes per time step, {matrix.of} by {matrix.of}")
    return tag(
        "div", heading, status, tag("div", window, tag("div", _legend(drawn), note, class_="side"), class_="columns")
    )


def _cells(drawn: TrafficMatrix, frame: MatrixFrame) -> Iterator[Child]:
    scale, side = scale_of(drawn.spikes), frame.side
    boxes: dict[int, list[tuple[float, float, float, float]]] = {}
    inset = 0.5 if side >= 6 else 0.0
    values: list[Child] = []
    for row, column, value in _positive(drawn):
        x, y = frame.left + column * side, frame.top + row * side
        boxes.setdefault(scale.level(value), []).append((x + inset, y + inset, side - 2 * inset, side - 2 * inset))
        if side >= _VALUED_MIN:
            said = _brief(value)
            values.append(text(x + side / 2, y + side / 2 + 4, said, anchor="middle", class_="cell-text"))
    for level, each in sorted(boxes.items()):
        yield rectangles(each, class_=f"level{level}")
    yield from values


def _brief(value: float) -> str:
    """At most four characters."""
    if value >= 1000:
        return f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:.0f}k" if value < 999_500 else "big"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.05 else "0.0"


def _positive(drawn: TrafficMatrix) -> Iterator[tuple[int, int, float]]:
    for row, values in enumerate(drawn.spikes.tolist()):
        yield from ((row, column, value) for column, value in enumerate(values) if value > 0)


def _names(matrix: TrafficMatrix, joined: int, frame: MatrixFrame) -> Iterator[Markup]:
    """Names of rows and columns, as many as have room at 13 pixels each; of joined ones that of the first."""
    sources, destinations = matrix.sources[::joined], matrix.destinations[::joined]
    every, side = max(1, math.ceil(13 / frame.side)), frame.side
    yield text(frame.left, 12, f"to {matrix.of} →", class_="title")
    yield text(frame.left - 8, frame.top - 10, f"from {matrix.of} ↓", anchor="end", class_="title")
    for row in range(0, len(sources), every):
        y = frame.top + (row + 0.5) * side + 4
        yield text(frame.left - 6, y, short(sources[row], 15), anchor="end")
    for column in range(0, len(destinations), every):
        x, y = frame.left + (column + 0.5) * side + 4, frame.top - 6
        said = short(destinations[column], 10)
        yield tag("text", said, transform=f"translate({number(x)} {number(y)}) rotate(-90)")


def _legend(drawn: TrafficMatrix) -> Markup:
    scale, rows = scale_of(drawn.spikes), []
    used = {scale.level(value) for _, _, value in _positive(drawn)}
    for level in sorted(used, reverse=True):
        box = tag("rect", x="0.5", y="0.5", width="23", height="15", class_=f"level{level}")
        high = scale.most / scale.ratio ** (LEVELS - 1 - level)
        low = "up to" if not level else f"{rounded(high / scale.ratio)} to"
        rows.append(tag("li", sample(box), f" {low} {rounded(high)}"))
    none = remark("A cell without colour: no spikes.")
    return tag("div", tag("h3", "Spikes per time step"), tag("ul", rows), none, class_="legend")


def _pairs(matrix: TrafficMatrix) -> Markup:
    found = [(value, matrix.sources[row], matrix.destinations[column]) for row, column, value in _positive(matrix)]
    found.sort(key=lambda pair: -pair[0])
    rows = [[short(source), short(target), rate_text(value)] for value, source, target in found[:PAIRS_MAX]]
    caption = f"The {len(rows)} largest of {len(found):,} pairs" if len(found) > len(rows) else "Pairs with traffic"
    headings = [f"from {matrix.of}", f"to {matrix.of}", "spikes per time step"]
    return folded("Traffic as a table", table(caption, headings, rows, "llr", sort=True))


def matrix_data(matrix: TrafficMatrix) -> dict[str, Any]:
    """Names and values of the drawn matrix for the script."""
    drawn, joined = drawn_matrix(matrix)
    frame = _frame(matrix, joined)
    cells = [[row, column, float(f"{value:.4g}")] for row, column, value in _positive(drawn)]
    named = [[short(name, 40) for name in names] for names in (drawn.sources, drawn.destinations)]
    place = {"side": frame.side, "left": frame.left, "top": frame.top}
    return {"of": matrix.of, **place, "from": named[0], "to": named[1], "cells": cells}


def map_matrix(mapped: MappedNetwork) -> TrafficMatrix:
    """The matrix of a report: by core, in the order of their numbers; by population beyond ``CORES_MAX`` cores."""
    found = traffic_matrix(mapped, cores_max=CORES_MAX)
    if found.of != "core":
        return found
    order = sorted(range(len(found.destinations)), key=lambda k: natural_key(found.destinations[k]))
    host = len(found.sources) - len(found.destinations)
    rows = [*range(host), *(k + host for k in order)]
    sources, targets = tuple(found.sources[k] for k in rows), tuple(found.destinations[k] for k in order)
    return TrafficMatrix("core", sources, targets, found.spikes[rows][:, order])
