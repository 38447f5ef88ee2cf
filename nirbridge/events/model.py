"""Events of a sensor, and their sums per time step: none is lost or counted twice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted

MAX_BYTES = 2 * 2**30
Origin = Literal["zero", "first"]
UNITS: Mapping[str, Fraction] = MappingProxyType(
    {"s": Fraction(1), **{n: Fraction(1, 1000**k) for k, n in enumerate(("ms", "us", "ns"), 1)}}
)
"""Units of time by name, in seconds."""
MICROSECOND = UNITS["us"]
_STEPS_MAX = 2**40
_ROUNDING = 3
"""Units of rounding of a time: of its conversion to seconds, of the length of a time step, of their quotient."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events of one sensor, in any order; all arrays are ``[events]``.

    ``t`` counts ``unit`` seconds (int64, or floats); ``y`` and ``p`` (0 or 1) are None where the source has none:
    without both, ``x`` is the index of a neuron. ``value``: what an event adds, None: 1. ``sample``: its sample, of
    ``samples``. ``origin``: whether time step 0 begins at time 0 or with the first event. ``sensor``: width and height
    as the source states them. ``span``: length of the recording, in units of ``t``. ``left_out``: what else the
    source holds, by name.
    """

    kind: str
    t: Array
    x: Array
    y: Array | None = None
    p: Array | None = None
    value: Array | None = None
    sample: Array | None = None
    samples: int | None = None
    unit: Fraction = MICROSECOND
    origin: Origin = "zero"
    sensor: tuple[int, int] | None = None
    span: float | None = None
    left_out: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, slots=True)
class EventOptions:
    """How events become time steps.

    ``bin``: seconds per time step; None: dt of the network. ``sensor``: width and height; None: those of the input.
    ``merge``: both polarities in one channel. ``clip``: several events of a place and time step count as one.
    ``unit``: of columns; None: microseconds. ``origin``: see ``Events``; None: that of the format.
    """

    bin: float | None = None
    sensor: tuple[int, int] | None = None
    merge: bool = False
    clip: bool = False
    unit: str | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BinnedEvents:
    """Events per time step: ``array`` is ``[time steps, *shape]``, or ``[time steps, samples, *shape]``.

    ``events``: those of the source; ``beyond``: those after the last time step, which are not in the array;
    ``several``: bins with more than one event; ``text`` says so.

    Example:
        >>> binned = nb.read_events({"x": np.array([3, 3]), "t": np.array([50, 90])}, "model.nir")
        >>> binned.text
        '2 events in 1 time step of 0.0001 s, 1 bin with several (at most 2)'
    """

    array: Array
    events: int
    beyond: int
    several: int
    text: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)


def checked_events(events: Events, subject: str) -> Events:
    """The events with places and polarities as integers.

    Raises:
        UsageError: columns of different lengths, places or polarities that are no whole numbers, times that are
            negative or not finite.
    """
    n = events.t.size
    columns = {name: getattr(events, name) for name in ("t", "x", "y", "p", "value", "sample")}
    for name, column in columns.items():
        if column is not None and (column.shape != (n,) or column.dtype.kind not in "biuf"):
            found = f"{name} is {column.dtype} of shape {column.shape}"
            raise UsageError.of(
                subject, found, f"columns are numbers of shape [{n:,}]", "give one number for each event"
            )
    places = {name: _whole(columns[name], name, subject) for name in ("x", "y") if columns[name] is not None}
    polarity = None if events.p is None else _polarity(events.p, subject)
    return replace(events, t=_times(events.t, subject), p=polarity, **places)


def _whole(values: Array, name: str, subject: str) -> Array:
    """Whole numbers from 0 to 2^31. Raises UsageError for the first that is none."""
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = ~((values >= 0) & (values < 2**31))
        wrong |= False if values.dtype.kind != "f" else values != np.floor(values)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise UsageError.of(subject, f"{name} is {values[at]} at event {at:,}", "a whole number from 0", "remove it")
    return values.astype(np.int64)


def _polarity(values: Array, subject: str) -> Array:
    """0 and 1; -1 stands for 0 where no event has 0. Raises UsageError for others."""
    wrong = (values != 1) & (values != 0)
    if wrong.any() and not (values == 0).any():
        wrong = (values != 1) & (values != -1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise UsageError.of(subject, f"p is {values[at]} at event {at:,}", "0 and 1, or -1 and 1", "correct it")
    return (values == 1).astype(np.uint8)


def _times(t: Array, subject: str) -> Array:
    """Times as int64 where all are whole, else of the float type that they have. Raises UsageError."""
    is_float = t.dtype.kind == "f"
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = ~((t >= 0) & (np.isfinite(t) if is_float else t <= 2**63 - 1))
        is_whole = not is_float or ((t < 2**53) & (t == np.floor(t))).all()
    if wrong.any():
        at = int(np.argmax(wrong))
        hint = "shift the times, or cut the file where its clock starts again" if t[at] < 0 else "remove it"
        raise UsageError.of(subject, f"t is {t[at]} at event {at:,}", "a finite time from 0", hint)
    return t.astype(np.int64) if is_whole else t


# -- binning -------------------------------------------------------------------------------------------------------


def bin_events(
    events: Events,
    shape: Shape,
    dt: float | None,
    options: EventOptions,
    *,
    steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    subject: str = "events",
) -> BinnedEvents:
    """The number of events (or the sum of their values) per time step and place of an input.

    Time step ``k`` holds the events from ``k * bin`` to just before ``(k + 1) * bin``: exactly so for whole times and
    the decimal value of ``bin``; a time in floating point that is an edge but for its rounding is at this edge.

    Raises:
        UsageError: no length of a time step, events outside the sensor, polarities that the input has no channels
            for, more time steps than ``max_bytes`` hold.
    """
    length = _bin_length(options, dt, subject)
    size = math.prod(shape)
    place = _places(events, shape, options, subject)
    step, count = _time_steps(events, length, options, subject)
    count = count if steps is None else steps
    if count < 1:
        raise UsageError.of(subject, "has no events", "their times give the number of time steps", "give --steps")
    inside = step < count
    samples = 1 if events.samples is None else events.samples
    elements = count * samples * size
    _check_size(elements * (1 if events.value is None else 8), count, length, max_bytes, subject)
    sample = 0 if events.sample is None else events.sample[inside]
    keys = (step[inside] * samples + sample) * size + place[inside]
    array, several, most = _summed(keys, None if events.value is None else events.value[inside], elements, options)
    if array.nbytes > max_bytes:
        _check_size(array.nbytes, count, length, max_bytes, subject)
    lead = (count,) if events.samples is None else (count, samples)
    beyond = int(len(events) - inside.sum())
    text = _in_words(events, count, length, several, most, beyond, options)
    return BinnedEvents(array.reshape(*lead, *shape), len(events), beyond, several, text)


def _bin_length(options: EventOptions, dt: float | None, subject: str) -> float:
    length = options.bin if options.bin is not None else dt
    if length is None:
        raise UsageError.of(
            subject, "the network states no dt", "events are counted per time step", "give --bin SECONDS"
        )
    if not (math.isfinite(length) and length > 0):
        raise UsageError.of("--bin", f"{length:g}", "a finite number of seconds above 0", "correct it")
    return float(length)


def _check_size(size: int, steps: int, length: float, max_bytes: int, subject: str) -> None:
    if size > max_bytes:
        found = f"{counted(steps, 'time step')} of {length:g} s take {size:,} bytes"
        hint = "give a longer --bin, --steps, --events origin=first, or raise --max-bytes"
        raise UsageError.of(subject, found, f"at most {max_bytes:,} are used", hint)


def _places(events: Events, shape: Shape, options: EventOptions, subject: str) -> Array:
    """The index of each event in the flattened input. Raises UsageError."""
    size = math.prod(shape)
    if events.y is None and events.p is None:
        width, height, channels = size, 1, 1
    else:
        width, height, channels = _layout(events, shape, options, subject)
    y = np.zeros(len(events), np.int64) if events.y is None else events.y
    outside = (events.x >= width) | (y >= height)
    if outside.any():
        at = int(np.argmax(outside))
        sensor = f"{width} x {height}" if height > 1 else f"{width}"
        found = f"{int(outside.sum()):,} of {counted(len(events), 'event')} outside the sensor of {sensor}"
        place = f"the first is event {at:,} at x {events.x[at]}" + ("" if events.y is None else f", y {y[at]}")
        raise UsageError.of(subject, found, place, "give the size of its sensor with --sensor, or crop the events")
    channel = 0 if channels == 1 or events.p is None else events.p.astype(np.int64)
    return (channel * height + y) * width + events.x


def _layout(events: Events, shape: Shape, options: EventOptions, subject: str) -> tuple[int, int, int]:
    """Width and height of the sensor and the number of channels of an input. Raises UsageError."""
    sensor = options.sensor or _sensor_of(events, shape)
    if sensor is None:
        limit = f"the input has the shape {list(shape)}, and events have x and y"
        raise UsageError.of(subject, "the sensor's size is not known", limit, "give --sensor WIDTHxHEIGHT")
    width, height = sensor
    channels, left = divmod(math.prod(shape), width * height)
    grid = [(height, width)] + ([(width,)] if height == 1 else [])
    flat = (channels * height * width,)
    fits = {1: [flat, *grid, *((1, *g) for g in grid)], 2: [flat, *((2, *g) for g in grid)]}
    if left or shape not in fits.get(channels, ()):
        found = f"a sensor of {width} x {height} for an input of shape {list(shape)}"
        limit = "inputs are [2, height, width], [height, width] or the same in one axis"
        raise UsageError.of(subject, found, limit, "give another --sensor, or use read_events and reshape")
    if channels == 1 and events.p is not None and not options.merge:
        limit = f"the input of shape {list(shape)} has one channel"
        raise UsageError.of(subject, "has events of two polarities", limit, "count both in it with --events merge")
    if channels == 2 and (options.merge or events.p is None):
        found = "merged polarities" if options.merge else "has events without a polarity"
        raise UsageError.of(subject, found, f"the input of shape {list(shape)} has two channels", "give its polarities")
    return width, height, channels


def _sensor_of(events: Events, shape: Shape) -> tuple[int, int] | None:
    """The size that the shape of an input gives; that of the source for an input of one axis."""
    if events.y is None:
        return (shape[-1], 1) if len(shape) in (1, 2) else events.sensor
    return (shape[-1], shape[-2]) if len(shape) in (2, 3) else events.sensor


def _time_steps(events: Events, length: float, options: EventOptions, subject: str) -> tuple[Array, int]:
    """The time step of each event, and the number of time steps of the recording."""
    ticks = Fraction(repr(length)) / events.unit
    t, rounding = events.t, 0.0
    if t.dtype.kind == "f":
        rounding = _ROUNDING * np.finfo(t.dtype).eps / float(ticks) * t.astype(np.float64)
        t = t.astype(np.float64)
    if (options.origin or events.origin) == "first" and len(t):
        t = t - t.min()
    last = t.max() if len(t) else 0
    if last / float(ticks) > _STEPS_MAX:
        hint = "give --events origin=first, or another --bin"
        raise UsageError.of(subject, f"its last event is at time step {last / float(ticks):.3g}", "", hint)
    if t.dtype.kind == "i":
        whole = [int(n) for n in ticks.as_integer_ratio()]
        is_small = int(last) * whole[1] < 2**62 and whole[0] < 2**62
        step = t * whole[1] // whole[0] if is_small else (t.astype(object) * whole[1] // whole[0]).astype(np.int64)
    else:
        step = np.floor(_at_edges(t / float(ticks), rounding)).astype(np.int64)
    end = int(step.max()) + 1 if len(step) else 0
    span = min((events.span or 0) / float(ticks), _STEPS_MAX)
    return step, max(end, int(np.ceil(_at_edges(span, _ROUNDING * np.finfo(float).eps * span))))


def _at_edges(steps: Any, rounding: Any) -> Any:
    """Times in time steps; those that are an edge but for their rounding become this edge."""
    edge = np.rint(steps)
    return np.where(np.abs(steps - edge) <= rounding, edge, steps)


def _summed(keys: Array, values: Array | None, elements: int, options: EventOptions) -> tuple[Array, int, int]:
    """The array of sums, the number of bins with several events, and the most events of one. Raises UsageError."""
    places, counts = np.unique(keys, return_counts=True)
    several, most = int((counts > 1).sum()), int(counts.max(initial=0))
    if values is not None:
        if options.clip:
            raise UsageError.of("--events clip", "the events have values", "values are summed", "leave it out")
        array = np.zeros(elements)
        np.add.at(array, keys, values)
        return array, several, most
    kept = np.minimum(counts, 1) if options.clip else counts
    array = np.zeros(elements, np.min_scalar_type(int(kept.max(initial=0))))
    array[places] = kept
    return array, several, most


def _in_words(
    events: Events, steps: int, length: float, several: int, most: int, beyond: int, options: EventOptions
) -> str:
    many = "bin" if several == 1 else "bins"
    held = f"{several:,} {many} with several"
    if several:
        held += f" (at most {most:,}{', counted as one' if options.clip else ''})"
    parts = [f"{counted(len(events), 'event')} in {counted(steps, 'time step')} of {length:g} s", held]
    if beyond:
        parts.append(f"{counted(beyond, 'event')} after the last time step left out")
    back = int((np.diff(events.t) < 0).sum()) if events.origin == "first" else 0
    parts += [f"the clock goes back {counted(back, 'time')}"] if back else []
    parts += [f"{name} left out: {count:,}" for name, count in events.left_out.items() if count]
    return ", ".join(parts)
