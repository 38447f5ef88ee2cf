"""Events for a notebook: rasters of recordings, and the first difference of a comparison or verification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nirbridge.comparison.alignment import has_batch, recorded_steps
from nirbridge.errors import NirbridgeError, counted
from nirbridge.report.cards.bars import BAR, WIDTH, Bar, bars_svg
from nirbridge.report.cards.svg import BLUE, GREY, INK, ORANGE, RED, fitted, path, rect, svg, text
from nirbridge.report.html.events import events_of, round_steps
from nirbridge.report.html.sections.verification import aligned
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterBand, RasterPicture, raster_picture
from nirbridge.report.plots.recordings import has_more

if TYPE_CHECKING:
    from nirbridge.comparison.types import Comparison, ComparisonRow
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification

NODES_MAX, ROWS_MAX, POINTS_MAX = 12, 48, 2_000
COMMON_MAX, DIFFERENT_MAX = 700, 600
"""Marks of a difference: those of both recordings are thinned apart, so that they take no place from the others."""
_LEFT, _LINE = 108.0, 10.0
_TRACK = WIDTH - _LEFT
_SIGNS = {"both": "v2.4", "a": "l2.4 2.4m0 -2.4l-2.4 2.4", "b": "m1.2 0v2.4m-1.2 -1.2h2.4"}
_INKS = {"both": GREY, "a": RED, "b": BLUE}


def recording_svg(recording: Recording) -> str:
    """Rasters of all nodes with recorded spikes on one time axis, in the order of the recording."""
    names = [node for node, variable in recording.arrays if variable == "s"]
    nodes = [each for name in names if (each := _events(recording, name)) is not None]
    if not nodes:
        return ""
    drawn = raster_picture(nodes[:NODES_MAX], rows_max=ROWS_MAX, points_max=POINTS_MAX)
    heights = [max(9.0 * len(_words(band)) + 2, 1.2 * _rows(band)) for band in drawn.bands]
    more = [f"the first {NODES_MAX} of {len(nodes):,} nodes"] if len(nodes) > NODES_MAX else []
    more += ["sample 0 of the batch"] if has_batch(recording) else []
    total = sum(heights) + 5 * len(heights)

    def parts() -> Iterator[str]:
        top = 0.0
        for band, height in zip(drawn.bands, heights, strict=True):
            yield from _band(band, top, height, drawn)
            top += height + 5
        yield from _axis(drawn.first, drawn.stop, total)
        yield text(0, total + 2 * _LINE + 2, f"Shown: {'; '.join(more)}", anchor="start") if more else ""

    return svg(WIDTH, total + (2.4 if more else 1.2) * _LINE, f"raster of {recording!r}", parts())


def _events(recording: Recording, node: str) -> NodeEvents | None:
    try:
        return events_of(recording, node, 0, recorded_steps(recording, (node, "s")))
    except NirbridgeError:  # a file may state a clock that is none
        return None


def _rows(band: RasterBand) -> int:
    return max(1, math.ceil(band.neurons / max(1, band.stride)))


def _band(band: RasterBand, top: float, height: float, drawn: RasterPicture) -> Iterator[str]:
    rows = _rows(band)
    tall = max(1.2, min(4.0, 0.8 * height / rows))
    yield rect(_LEFT, top, (_TRACK, height), "#f7f7f7", "none")
    places = zip(band.steps.tolist(), band.neuron.tolist(), strict=True)
    marks = (
        f"M{_x(step, drawn):.4g} {top + (neuron / band.stride + 0.5) / rows * height - tall / 2:.4g}v{tall:.2g}"
        for step, neuron in places
    )
    yield path(marks, stroke=INK, width=0.9)
    for number, line in enumerate(_words(band)):
        yield fitted(_LEFT - 4, top + 8 + 9 * number, line, _LEFT - 6, anchor="end", bold=not number)


def _words(band: RasterBand) -> list[str]:
    """The label of a band, a line each."""
    neurons = counted(band.neurons, "neuron")
    lines = [
        band.node,
        counted(band.events, "event"),
        neurons if band.stride == 1 else f"1 in {band.stride:,} of {neurons}",
    ]
    return [*lines, *([f"{counted(band.joined, 'time step')} a mark"] if band.joined > 1 else [])]


def _x(step: float, drawn: RasterPicture) -> float:
    return _LEFT + (step + 0.5 - drawn.first) / max(1, drawn.stop - drawn.first) * _TRACK


def _axis(first: int, stop: int, y: float) -> Iterator[str]:
    span = RasterPicture((), first, stop)
    steps = round_steps(first, stop)
    yield path([f"M{_LEFT:.4g} {y:.4g}h{_TRACK:.4g}", *(f"M{_x(s, span):.4g} {y:.4g}v2" for s in steps)], stroke=INK)
    yield from (text(_x(step, span), y + 9, f"{step:,}") for step in steps)
    yield text(_LEFT - 4, y + 9, "time step", anchor="end")


# -- differences -------------------------------------------------------------------------------------------------


def comparison_svg(comparison: Comparison) -> str:
    """The spikes of the first node that differs, else of the first node; bars where the spikes are not there."""
    drawn = "" if comparison.recordings is None else _first_difference(comparison, comparison.recordings, ("A", "B"))
    rows = [row for row in comparison.rows if row.spikes is not None]
    if drawn or not rows:
        return drawn
    return _agreement([(row.node, row.equal, row) for row in rows], f"agreement of {comparison!r}")


def verification_svg(verification: Verification) -> str:
    """The first required pair that is not equal, or else the first that differs; bars where all pairs are equal."""
    differing = sorted((p for p in verification.pairs if not p.comparison.equal), key=lambda p: not p.required)
    for pair in differing:
        recordings = verification.recordings.get(pair.a), verification.recordings.get(pair.b)
        if recordings[0] is not None and recordings[1] is not None:
            drawn = _first_difference(pair.comparison, (recordings[0], recordings[1]), (pair.a, pair.b))
            if drawn:
                return drawn
    bars = [(f"{p.a} {'=' if p.required else '~'} {p.b}", p.comparison.equal, p.comparison) for p in verification.pairs]
    return _agreement(bars, f"agreement of {verification!r}") if bars else ""


def _agreement(rows: Iterable[tuple[str, bool, Comparison | ComparisonRow]], label: str) -> str:
    bars = []
    for name, equal, row in rows:
        share = 1.0 if row.spikes is None else row.spikes.jaccard
        said = "equal" if equal else "different" if row.spikes is None else f"different, {share:.2%}"
        bars.append(Bar(name, share if equal or row.spikes is not None else 0.0, said, BLUE if equal else ORANGE))
    return bars_svg(bars, label, "Events in both as a share of the events in either")


def _first_difference(comparison: Comparison, recordings: tuple[Recording, Recording], names: tuple[str, str]) -> str:
    rows = [row for row in comparison.rows if row.spikes is not None]
    first = min((r for r in rows if r.first_step is not None), key=lambda r: r.first_step or 0, default=None)
    row = first or next(iter(rows), None)
    found = None if row is None else aligned(row, recordings)
    if row is None or found is None:
        return ""
    x, y, clock = found
    events = {"both": (x != 0) & (x == y), "a": has_more(x, y), "b": has_more(y, x)}
    nodes = {kind: NodeEvents(kind, values, clock.first, clock.every) for kind, values in events.items()}
    common = raster_picture([nodes["both"]], rows_max=10**9, points_max=COMMON_MAX)
    others = raster_picture([nodes["a"], nodes["b"]], rows_max=10**9, points_max=DIFFERENT_MAX)
    place = "no spike differs" if row.first_step is None else f"first difference in time step {row.first_step:,}"
    sample = "" if row.first_sample is None else f", sample {row.first_sample:,}"
    bands = (*common.bands, *others.bands)
    heading = f"{place}{sample}"
    return _difference(RasterPicture(bands, common.first, common.stop), row.node, heading, names, f"{comparison!r}")


def _difference(drawn: RasterPicture, node: str, heading: str, names: tuple[str, str], label: str) -> str:
    neurons = drawn.bands[0].neurons
    height = max(50.0, min(150.0, 3.0 * neurons))
    top, total = 12.0, 12.0 + height
    remarks = {"both": drawn.bands[0].remark, "a": drawn.bands[1].remark, "b": drawn.bands[2].remark}
    words = {"both": "in both", "a": f"only {names[0]}, or more", "b": f"only {names[1]}, or more"}

    def parts() -> Iterator[str]:
        yield fitted(0, 7, node, BAR, bold=True)
        yield fitted(WIDTH, 7, heading, WIDTH - BAR - 8, anchor="end")
        yield rect(_LEFT, top, (_TRACK, height), "#f7f7f7", "none")
        yield text(_LEFT - 4, top + 7, "neuron 0", anchor="end")
        yield text(_LEFT - 4, total, f"neuron {neurons - 1:,}", anchor="end")
        for band in drawn.bands:
            places = zip(band.steps.tolist(), band.neuron.tolist(), strict=True)
            marks = (
                _sign(band.node, _x(step, drawn), top + (neuron + 0.5) / neurons * height) for step, neuron in places
            )
            yield path(marks, stroke=_INKS[band.node], width=0.8)
        yield from _axis(drawn.first, drawn.stop, total)
        for number, band in enumerate(drawn.bands):
            y = total + 21 + number * _LINE
            said = f"{words[band.node]}: {band.events:,}" + (f" ({remarks[band.node]})" if band.remark else "")
            yield path([_sign(band.node, 4, y - 2.5)], stroke=_INKS[band.node], width=0.8)
            yield fitted(10, y, said, WIDTH - 10)

    return svg(WIDTH, total + 22 + 2 * _LINE, f"spikes of {label}", parts())


def _sign(kind: str, x: float, y: float) -> str:
    """A bar, a cross of diagonals, a cross."""
    left = x if kind == "both" else x - 1.2
    return f"M{left:.4g} {y - 1.2:.4g}{_SIGNS[kind]}"
