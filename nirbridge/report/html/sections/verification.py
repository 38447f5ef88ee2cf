"""A verification: equality way by way, where spikes first differ, and how long every layer agrees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import RecordedSteps, align_steps, recorded_steps
from nirbridge.comparison.types import Comparison, ComparisonRow
from nirbridge.errors import NirbridgeError, counted, quoted
from nirbridge.report.compare import place_text
from nirbridge.report.html.events import (
    LEFT,
    WIDTH,
    difference,
    is_drawable,
    place_of,
    rows_max,
    steps_by_neurons,
    time_axis,
)
from nirbridge.report.html.page import (
    Child,
    Markup,
    Picture,
    Section,
    bar,
    folded,
    listed,
    number,
    picture,
    remark,
    scrolled,
    short,
    table,
    tag,
    text,
    track,
)
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterPicture, differing_events, raster_picture
from nirbridge.simulators.types import Recording
from nirbridge.verification.bounds import LayerBound
from nirbridge.verification.verify import ComparedPair, Verification, verification_verdict

ROWS_MAX, LAYERS_MAX, POINTS = 200, 24, 120
"""Rows of a table, layers drawn over time, points of a line."""
COMMON_MAX, DIFFERENT_MAX = 4000, 2000
"""Marks of events that are equal, and of those that are not."""
Pair = tuple[Recording, Recording]


def verification_section(verification: Verification) -> Section:
    """The section of a verification."""
    verdict = verification_verdict(verification)
    state = "Holds" if verification.holds else "Does not hold"
    body: list[Child] = [_pairs(verification.pairs)]
    length = f"{counted(verification.steps, 'time step')}; input: {verification.input_said}."
    body.insert(0, tag("p", length))
    for pair in _to_draw(verification):
        recordings = verification.recordings[pair.a], verification.recordings[pair.b]
        body += compared_parts(pair.comparison, recordings, (pair.a, pair.b))
    if verification.layers:
        body.append(_bounds(verification.layers))
    if verification.notes:
        body.append(folded("Notes", listed(verification.notes)))
    return Section("verification", "Verification", f"{state}: {verdict}.", body)


def _to_draw(verification: Verification) -> list[ComparedPair]:
    """The first pair (the reference), and every pair that has to be equal and is not."""
    broken = [p for p in verification.pairs[1:] if p.required and not p.comparison.equal]
    return [verification.pairs[0], *broken]


def _pairs(pairs: tuple[ComparedPair, ...]) -> Markup:
    headings = ["ways", "required", "result", "first difference", "agreement of spikes", "", "decisions alike"]
    rows = []
    for pair in pairs:
        comparison, spikes = pair.comparison, pair.comparison.spikes
        first = min(
            (r for r in comparison.rows if r.first_step is not None), key=lambda r: r.first_step or 0, default=None
        )
        where = "none" if first is None else f"{quoted(first.node, 30)}, {place_text(first)}"
        jaccard = None if spikes is None else spikes.jaccard
        decided = next((r.decisions for r in comparison.rows if r.decisions is not None), None)
        rows.append(
            [
                f"{pair.a} {'=' if pair.required else '~'} {pair.b}",
                "equal" if pair.required else "within bound",
                _result(pair),
                where,
                "" if jaccard is None else f"{jaccard:.2%}",
                None if jaccard is None else bar(jaccard, says=f"{jaccard:.2%} of the events are in both"),
                "" if decided is None else f"{decided.alike:,} of {decided.samples:,}",
            ]
        )
    return table("Ways of computing, compared", headings, rows, "llllrlr")


def _result(pair: ComparedPair) -> Markup:
    """A word, with a sign beside its colour."""
    if pair.comparison.equal:
        return tag("span", "✓ equal", class_="good")
    return tag("span", "✗ different", class_="bad") if pair.required else tag("span", "≈ different", class_="near")


def compared_parts(comparison: Comparison, recordings: Pair | None, names: tuple[str, str]) -> Iterator[Child]:
    """The differences of a comparison: a table of rows, the raster of the first that differs, agreement over time."""
    yield tag("h3", f"{short(names[0], 30)} and {short(names[1], 30)}")
    yield _rows(comparison, names)
    if recordings is None:
        return
    rows = [row for row in comparison.rows if row.spikes is not None]
    differing = [row for row in rows if row.first_step is not None]
    if rows and not differing:
        yield tag("p", f"Every spike of {counted(len(rows), 'node')} is equal, in every time step.")
        return
    if differing:
        first = min(differing, key=lambda row: row.first_step or 0)
        found = first_difference(first, recordings, names)
        if found is not None:
            yield tag("h4", found[0])
            yield scrolled(found[1], "Spikes that differ")
        yield from _agreement(rows, recordings, names)


def _rows(comparison: Comparison, names: tuple[str, str]) -> Markup:
    headings = [
        "node",
        "variable",
        "result",
        "first difference",
        "latency",
        f"spikes of {names[0]}",
        f"spikes of {names[1]}",
        "agreement",
    ]
    rows = []
    for row in comparison.rows[:ROWS_MAX]:
        spikes = row.spikes
        counts = (
            ["", "", ""]
            if spikes is None
            else [f"{spikes.spikes_a:,}", f"{spikes.spikes_b:,}", f"{spikes.jaccard:.2%}"]
        )
        result = tag("span", "✓ equal", class_="good") if row.equal else tag("span", "≈ different", class_="near")
        where = row.problem or ("none" if row.first_step is None else place_text(row))
        rows.append([quoted(row.node, 40), row.variable, result, where, f"{row.latency_steps:,}", *counts])
    shown = table("Every recorded variable", headings, rows, "llllrrrr")
    cut = None
    if len(comparison.rows) > ROWS_MAX:
        cut = remark(f"The first {ROWS_MAX} of {len(comparison.rows):,} are listed.")
    return folded("Every recorded variable as a table", shown, cut)


def aligned(row: ComparisonRow, recordings: Pair) -> tuple[Array, Array, RecordedSteps] | None:
    """Both spike arrays of a row over their common steps, of the first sample that differs; and their clock."""
    sample = row.first_sample or 0
    x, y = (steps_by_neurons(r, row.node, "s", sample) for r in recordings)
    if x is None or y is None or x.shape[1] != y.shape[1] or not x.shape[1]:
        return None
    try:
        clocks = [recorded_steps(r, (row.node, "s")) for r in recordings]
    except NirbridgeError:
        return None
    found = align_steps(len(x), len(y), row.latency_steps, *clocks)
    clock = None if found is None else RecordedSteps(found.first_step, found.every)
    if found is None or clock is None or not is_drawable(clock, len(x)):
        return None
    return x[found.in_a], y[found.in_b], clock


def first_difference(
    row: ComparisonRow, recordings: Pair, names: tuple[str, str], points: tuple[int, int] = (COMMON_MAX, DIFFERENT_MAX)
) -> tuple[str, Picture] | None:
    """Where the spikes of a row first differ, in words, and their picture; None where no axis holds both.

    At most ``points`` marks of both, and of the differences: the former take no place from the latter.
    """
    arrays = aligned(row, recordings)
    if arrays is None:
        return None
    x, y, clock = arrays
    both, *others = (NodeEvents("", events, clock.first, clock.every) for events in differing_events(x, y))
    common = raster_picture([both], rows_max=rows_max(1), points_max=points[0])
    bands = (*common.bands, *raster_picture(others, rows_max=10**9, points_max=points[1]).bands)
    sample = "" if row.first_sample is None else f", sample {row.first_sample:,}"
    at = "no spike differs" if row.first_step is None else f"spikes first differ at {place_text(row)}"
    counts = f"{bands[0].events:,} equal, {bands[1].events:,} and {bands[2].events:,} of one alone"
    label = f"Spikes of {short(row.node, 40)} in {names[0]} and {names[1]}: {counts}"
    drawn = difference(RasterPicture(bands, common.first, common.stop), names, label)
    return f"{quoted(row.node, 40)}{sample}: {at}", drawn


# -- agreement over time -----------------------------------------------------------------------------------------


def agreement_over_time(x: Array, y: Array, points: int = POINTS) -> list[float]:
    """Events in both over events in either, for at most ``points`` stretches of time; 1 where there are none."""
    edges = np.unique(np.linspace(0, len(x), min(points, max(1, len(x))) + 1).astype(int))[:-1]
    common, either = ((a != 0).sum(axis=1, dtype=np.int64) for a in ((x != 0) & (y != 0), (x != 0) | (y != 0)))
    both, any_ = (np.add.reduceat(each, edges) if len(each) else each for each in (common, either))
    return np.where(any_ > 0, both / np.maximum(any_, 1), 1.0).tolist()


def _agreement(rows: list[ComparisonRow], recordings: Pair, names: tuple[str, str]) -> Iterator[Child]:
    lines = []
    for row in rows:
        arrays = aligned(row, recordings)
        if arrays is not None:
            first = arrays[2].first
            lines.append((row, agreement_over_time(*arrays[:2]), first, first + len(arrays[0]) * arrays[2].every))
    if not lines:
        return
    yield tag("h4", f"Agreement of every layer over time, {names[0]} and {names[1]}")
    yield remark("Events in both as a share of the events in either; 1 is equal.")
    yield _lines(lines[:LAYERS_MAX])
    if len(lines) > LAYERS_MAX:
        yield remark(f"The first {LAYERS_MAX} of {len(lines):,} are drawn.")


def _lines(lines: list[tuple[ComparisonRow, list[float], int, int]]) -> Markup:
    """A line for each layer in a band of its own, on one axis of time steps."""
    height = 44.0
    first, stop = min(line[2] for line in lines), max(line[3] for line in lines)
    inner: list[Child] = []
    top = 8.0
    for row, shares, begin, end in lines:
        span, right = (end - begin) / max(1, len(shares)), LEFT + WIDTH + 6
        points = [
            (place_of(begin - 0.5 + (k + edge) * span, first, stop), top + 3 + (height - 6) * (1 - share))
            for k, share in enumerate(shares)
            for edge in (0, 1)
        ]
        drawn = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        jaccard = row.spikes.jaccard if row.spikes is not None else 1.0
        inner += [
            track(LEFT, top, (WIDTH, height), row.node, f"{jaccard:.1%} in all"),
            tag("path", d=f"M{drawn}", class_="agreement"),
            text(right, top + 11, "1", class_="small"),
            text(right, top + height, "0", class_="small"),
        ]
        top += height + 10
    inner.append(time_axis(first, stop, top))
    label = "; ".join(f"{short(row.node, 22)} {row.spikes.jaccard:.1%}" for row, *_ in lines if row.spikes is not None)
    svg = picture(LEFT + WIDTH + 22, top + 34, inner, label=f"Agreement over time: {label}", class_="agreement-lines")
    return scrolled(svg, "Agreement over time")


def _bounds(layers: tuple[LayerBound, ...]) -> Markup:
    headings = [
        "population",
        "largest deviation",
        "its bound",
        "share of the bound",
        "",
        "spikes",
        "changed by rounding",
        "holds",
    ]
    rows = []
    for layer in layers[:ROWS_MAX]:
        unit, share = layer.theta or 1.0, layer.seen / layer.bound if layer.bound else 0.0
        drawn = bar(share, says=f"{share:.0%} of the bound", full=not layer.holds) if np.isfinite(share) else None
        holds = tag("span", "✓ yes", class_="good") if layer.holds else tag("span", "✗ no", class_="bad")
        values = f"{layer.seen / unit:.3g}", f"{layer.bound / unit:.3g}", f"{share:.0%}" if np.isfinite(share) else ""
        rows.append([quoted(layer.population, 40), *values, drawn, f"{layer.spikes:,}", f"{layer.changed:,}", holds])
    note = remark("Deviations of v from the real neuron driven by the same spikes, in thresholds (of a readout: in v).")
    return tag(
        "div",
        tag("h3", "Rounding stays within its bound"),
        table("Rounding error of every population", headings, rows, "lrrrlrrl"),
        note,
    )
