"""Events of recordings as pictures: rasters of several nodes on one time axis, and where two recordings differ."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import RecordedSteps, has_batch, recorded_steps
from nirbridge.errors import NirbridgeError, counted
from nirbridge.report.html.page import Child, Markup, Picture, joined, number, picture, short, tag, text, track
from nirbridge.report.pictures.labels import distinct_labels
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterBand, RasterPicture
from nirbridge.simulators.types import Recording

POINTS_MAX, NODES_MAX = 6000, 24
"""Cells and nodes of a picture; beyond them rasters are binned, and say so, and nodes are left out."""
STEPS_MAX = 10**12
"""Time steps of a picture: a file may state a later start, or a longer distance, than numbers on an axis can tell."""
LEFT, WIDTH, _RIGHT, _APART = 190.0, 780.0, 14.0, 14.0
_ROW, _ROWS, _ROWS_LEAST = 4.0, 240, 24
"""Height of a row, rows of all bands together, rows that each band may have however many there are."""
_MARK, _FEW_MARK, _FEW = (2.0, 3.6), (3.5, 9.0), 100
"""Least size of a mark; that of at most so many of a node, so that one spike in a long run is seen."""
SHADES = (0.4, 0.6, 0.8, 1.0)
"""Opacity of a cell with up to a quarter, a half, three quarters, all of the events of the fullest one."""


def steps_by_neurons(recording: Recording, node: str, variable: str, sample: int) -> Array | None:
    """``[steps, neurons]`` of one sample; None where it was not recorded, or has no such sample."""
    array = recording.arrays.get((node, variable))
    if array is None or not array.ndim:
        return None
    if has_batch(recording):
        if array.ndim < 2 or not 0 <= sample < array.shape[1]:
            return None
        array = array[:, sample]
    return array.reshape(len(array), math.prod(array.shape[1:]))


def rows_max(bands: int) -> int:
    """Rows of each of so many bands."""
    return max(_ROWS_LEAST, _ROWS // max(1, bands))


def raster(drawn: RasterPicture, label: str) -> Picture:
    """Bands of marks, or of shaded cells, from the top down, with a common axis of time steps."""
    inner: list[Child] = []
    top = 6.0
    names = distinct_labels([band.node for band in drawn.bands], lambda name: short(name, 22))
    for band, name in zip(drawn.bands, names, strict=True):
        height = max(36.0, _ROW * band.rows)
        said = f"{counted(band.neurons, 'neuron')}, {counted(band.events, 'event')}"
        inner.append(track(LEFT, top, (WIDTH, height), name, said))
        inner.append(_cells(band, top, height, drawn, "mark") if band.is_binned else _marks(band, top, height, drawn))
        top += height + _APART
    inner.append(time_axis(drawn.first, drawn.stop, top - 4))
    return picture(LEFT + WIDTH + _RIGHT, top + 34, inner, label=label, class_="raster")


def _marks(band: RasterBand, top: float, height: float, drawn: RasterPicture) -> Markup | None:
    """A mark for each event."""
    least = _FEW_MARK if band.events <= _FEW else _MARK
    tall = max(least[1], min(6.0, height / band.rows * 0.9))
    wide = max(least[0], min(WIDTH / max(1, drawn.stop - drawn.first) * 0.5, 3.0))
    lines = []
    for step, neuron in zip(band.steps.tolist(), band.neuron.tolist(), strict=True):
        x, y = place_of(step, drawn.first, drawn.stop), top + (neuron + 0.5) / band.rows * height
        lines.append(f"M{number(x)} {number(y - tall / 2)}v{number(tall)}")
    return tag("path", d="".join(lines), class_="mark", stroke_width=wide) if lines else None


def _cells(band: RasterBand, top: float, height: float, drawn: RasterPicture, kind: str) -> Markup:
    """Cells as lines as thick as a row, neighbours of one shade as one line, a path for each shade."""
    row, pitch = band.neuron // band.stride, height / band.rows
    column = (band.steps - band.first) // (band.joined * band.every)
    shade = -(-band.counts * len(SHADES) // band.most) - 1
    scale = WIDTH / max(1, drawn.stop - drawn.first)
    left, right, wide = (band.first - drawn.first) * scale, (band.stop - drawn.first) * scale, band.joined * band.every
    paths = []
    for k, opacity in enumerate(SHADES):
        order = np.lexsort((column, row))
        at = order[shade[order] == k]
        begins = np.flatnonzero((np.diff(row[at], prepend=-1) != 0) | (np.diff(column[at], prepend=-2) != 1))
        counts = np.diff(begins, append=len(at))
        lines = []
        for r, c, n in zip(row[at[begins]].tolist(), column[at[begins]].tolist(), counts.tolist(), strict=True):
            x = left + c * wide * scale
            length = max(_MARK[0], min(n * wide * scale, right - x))
            lines.append(f"M{number(LEFT + x)} {number(top + (r + 0.5) * pitch)}h{number(length)}")
        if lines:
            paths.append(tag("path", d="".join(lines), class_=kind, stroke_width=pitch, stroke_opacity=opacity))
    return joined(paths)


def place_of(step: float, first: int, stop: int) -> float:
    """The x of a time step's middle."""
    return LEFT + (step + 0.5 - first) / max(1, stop - first) * WIDTH


def time_axis(first: int, stop: int, y: float) -> Markup:
    """Ticks at round time steps, and the name of the axis."""
    ticks = round_steps(first, stop)
    line = f"M{number(LEFT)} {number(y)}h{number(WIDTH)}"
    line += "".join(f"M{number(place_of(t, first, stop))} {number(y)}v4" for t in ticks)
    labels = [text(place_of(t, first, stop), y + 17, f"{t:,}", anchor="middle") for t in ticks]
    return tag(
        "g",
        tag("path", d=line, class_="axis"),
        labels,
        text(LEFT - 8, y + 17, "time step", anchor="end", class_="small"),
    )


def round_steps(first: int, stop: int) -> list[int]:
    """At most 12 multiples of 1, 2 or 5 times a power of ten."""
    span = max(1, stop - first)
    scale = next(s * 10**e for e in range(12) for s in (1, 2, 5) if span / (s * 10**e) <= 12)
    return list(range(-(-first // scale) * scale, stop, scale))


def remarks_of(drawn: RasterPicture) -> list[str]:
    """What a cell of each binned band is, in words."""
    names = distinct_labels([band.node for band in drawn.bands], lambda name: short(name, 30))
    return [f"{name}, {band.remark}" for name, band in zip(names, drawn.bands, strict=True) if band.remark]


def difference(drawn: RasterPicture, names: tuple[str, str], label: str) -> Picture:
    """Three bands over each other, told apart by shape: equal in both, more in the first, more in the second."""
    both = drawn.bands[0]
    neurons, height = both.neurons, max(120.0, min(420.0, _ROW * both.neurons))
    said = ("in both", f"only in {names[0]}, or more", f"only in {names[1]}, or more")
    inner: list[Child] = [tag("rect", x=LEFT, y="6", width=WIDTH, height=height, class_="track")]
    for line, (kind, words, band) in enumerate(zip(("both", "only-a", "only-b"), said, drawn.bands, strict=True)):
        shaded = band is both and band.is_binned
        inner.append(_cells(band, 6, height, drawn, "both") if shaded else None)
        later, lower = (band.joined - 1) * band.every / 2, band.stride / 2  # the middle of a cell
        places = [
            (place_of(s + later, drawn.first, drawn.stop), 6 + min(n + lower, neurons) / neurons * height)
            for s, n in zip(band.steps.tolist(), band.neuron.tolist(), strict=True)
            if not shaded
        ]
        y = height + 64 + 17 * line
        inner.append(
            tag("path", d="".join(_sign(kind, *at) for at in (*places, (LEFT + 6, y - 4))), class_=f"diff {kind}")
        )
        inner.append(text(LEFT + 16, y, f"{words}: {band.events:,}{f' ({band.remark})' * bool(band.remark)}"))
    inner.append(text(LEFT - 8, 18, "neuron 0", anchor="end", class_="small"))
    inner.append(text(LEFT - 8, 6 + height, f"neuron {neurons - 1:,}", anchor="end", class_="small"))
    inner.append(time_axis(drawn.first, drawn.stop, 16 + height))
    return picture(LEFT + WIDTH + _RIGHT, height + 106, inner, label=label, class_="raster")


def _sign(kind: str, x: float, y: float) -> str:
    """A bar, a triangle that points up, one that points down."""
    at = f"M{number(x)} "
    if kind == "both":
        return f"{at}{number(y - 2)}v4"
    if kind == "only-a":
        return f"M{number(x - 3)} {number(y + 2.5)}h6l-3-5z"
    return f"M{number(x - 3)} {number(y - 2.5)}h6l-3 5z"


def is_drawable(clock: RecordedSteps, steps: int) -> bool:
    """Whether an axis can hold the time steps of that many recorded ones."""
    return clock.first + (steps + 1) * clock.every <= STEPS_MAX


def events_of(recording: Recording, node: str) -> NodeEvents | None:
    """The events of a node in sample 0; None where not recorded, or where no axis holds them."""
    try:
        clock = recorded_steps(recording, (node, "s"))
    except NirbridgeError:  # a file may state a clock that is none
        return None
    values = steps_by_neurons(recording, node, "s", 0)
    if values is None or not values.shape[1] or not is_drawable(clock, len(values)):
        return None
    return NodeEvents(node, np.asarray(values), clock.first, clock.every)
