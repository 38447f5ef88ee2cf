"""Events of recordings as pictures: rasters of several nodes on one time axis, and where two recordings differ."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import RecordedSteps, has_batch, recorded_steps
from nirbridge.errors import NirbridgeError, counted
from nirbridge.report.html.page import Child, Markup, Picture, joined, number, picture, short, tag, text, track
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterBand, RasterPicture
from nirbridge.simulators.types import Recording

ROWS_MAX, POINTS_MAX, NODES_MAX = 56, 6000, 24
"""Neurons, points and nodes of a picture; beyond them rasters are thinned, and say so."""
STEPS_MAX = 10**12
"""Time steps of a picture: a file may state a later start, or a longer distance, than numbers on an axis can tell."""
LEFT, WIDTH, _RIGHT, _APART = 190.0, 780.0, 14.0, 14.0


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


def raster(drawn: RasterPicture, label: str) -> Picture:
    """Bands of marks from the top down, with a common axis of time steps."""
    inner: list[Child] = []
    top = 6.0
    for band in drawn.bands:
        height = _height(band)
        inner.append(_marks(band, top, height, drawn))
        top += height + _APART
    inner.append(time_axis(drawn.first, drawn.stop, top - 4))
    return picture(LEFT + WIDTH + _RIGHT, top + 34, inner, label=label, class_="raster")


def _height(band: RasterBand) -> float:
    return max(36.0, 2.6 * math.ceil(band.neurons / max(1, band.stride)))


def _marks(band: RasterBand, top: float, height: float, drawn: RasterPicture) -> Markup:
    rows = max(1, math.ceil(band.neurons / max(1, band.stride)))
    tall = max(2.4, min(6.0, height / rows * 0.9))
    wide = min(max(WIDTH / max(1, drawn.stop - drawn.first) * 0.5, 1.2), 3.0)
    lines = []
    for step, neuron in zip(band.steps.tolist(), band.neuron.tolist(), strict=True):
        x, y = place_of(step, drawn.first, drawn.stop), top + (neuron / band.stride + 0.5) / rows * height
        lines.append(f"M{number(x)} {number(y - tall / 2)}v{number(tall)}")
    marks = tag("path", d="".join(lines), class_="mark", stroke_width=wide) if lines else None
    said = f"{counted(band.neurons, 'neuron')}, {counted(band.events, 'event')}"
    return joined((track(LEFT, top, (WIDTH, height), band.node, said), marks))


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
    """What is left out of a raster, in words."""
    return [f"{short(band.node, 30)}: {band.remark}" for band in drawn.bands if band.remark]


def difference(drawn: RasterPicture, names: tuple[str, str], label: str) -> Picture:
    """Three bands over each other, told apart by shape: equal in both, more in the first, more in the second."""
    neurons = drawn.bands[0].neurons
    height = max(120.0, min(420.0, 4.0 * neurons))
    said = ("in both", f"only in {names[0]}, or more", f"only in {names[1]}, or more")
    inner: list[Child] = [tag("rect", x=LEFT, y="6", width=WIDTH, height=height, class_="track")]
    for line, (kind, words, band) in enumerate(zip(("both", "only-a", "only-b"), said, drawn.bands, strict=True)):
        places = [
            (place_of(s, drawn.first, drawn.stop), 6 + (n + 0.5) / neurons * height)
            for s, n in zip(band.steps.tolist(), band.neuron.tolist(), strict=True)
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
