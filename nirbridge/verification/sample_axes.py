"""The ways in which a module can take sequences of the sample's shape, found from sizes alone.

The importer's own understanding of the axes is not used, since the check includes it. A reading says which axes of the
module's argument are time and batch, and whether forward is called once or once per time step; the module then shows
which readings it accepts, and its values show which one it means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.network.axes import SAMPLE, VALUES, Axes

Places = tuple[int | None, int | None]
TIME, BATCH = "time", "batch"
LAST = -1
"""The place of a time axis after all values."""


@dataclass(frozen=True, slots=True)
class TrialEffort:
    """Sizes of the runs: time steps and batch where the sample has none, the largest batch where it has one.

    ``longer``: time steps for a forward that requires more than ``steps``.
    """

    steps: int
    batch: int
    most_batch: int
    longer: int = 300


EFFORTS = (TrialEffort(32, 4, 2**31), TrialEffort(16, 2, 4), TrialEffort(8, 1, 1))
"""From the most thorough to the least; the first that is affordable is taken."""


@dataclass(frozen=True, slots=True)
class TrialReading:
    """``time``, ``batch``: the places of the two among the argument's axes, None where it has no such axis.

    ``step_shapes``: shape of one time step's values, per argument. ``is_stepwise``: forward is called once per time
    step (then there is no time axis).
    """

    time: int | None
    batch: int | None
    step_shapes: tuple[Shape, ...]
    steps: int
    samples: int
    is_stepwise: bool = False

    def has_axes(self, axes: Axes) -> bool:
        """True if batch and time are where named axes have them; of axes without time, one call per time step."""
        if TIME not in axes:
            return self.is_stepwise
        if self.is_stepwise or self.time is None or (self.batch is None and SAMPLE in axes):
            return False
        named = [word for word in axes if word != VALUES]
        rank = len(self.step_shapes[0]) + len(named)
        gap = axes.index(VALUES) if VALUES in axes else len(axes)
        places = {word: k if k < gap else rank + k - len(axes) for k, word in enumerate(axes)}
        own = {TIME: self.time % rank, **({} if self.batch is None else {SAMPLE: self.batch % rank})}
        return all(own.get(word) == places[word] for word in named)

    def calls(self, values: Sequence[Array]) -> Iterator[tuple[Array, ...]]:
        """The arguments of each call, made of ``[steps, samples, values]`` for each argument."""
        ranges = [slice(t, t + 1) for t in range(self.steps)] if self.is_stepwise else [slice(None)]
        for steps in ranges:
            yield tuple(self._placed(v[steps], shape) for v, shape in zip(values, self.step_shapes, strict=True))

    def _placed(self, values: Array, shape: Shape) -> Array:
        """The values with time and batch where the argument has them."""
        spread = values.reshape(len(values), self.samples, *shape)
        words = [word for word, place in ((TIME, self.time), (BATCH, self.batch)) if place is not None]
        spread = spread if BATCH in words else spread[:, 0]
        spread = spread if TIME in words else spread[0]
        rank = spread.ndim
        places = [place % rank for place in (self.time, self.batch) if place is not None]
        return np.ascontiguousarray(np.moveaxis(spread, range(len(places)), places))

    @property
    def words(self) -> str:
        """The axes in words, for messages."""
        axes = [str(n) for n in self.step_shapes[0]]
        rank = len(axes) + (self.time is not None) + (self.batch is not None)
        named = {place % rank: word for place, word in ((self.time, TIME), (self.batch, BATCH)) if place is not None}
        for place in sorted(named):
            axes.insert(place, named[place])
        return f"[{', '.join(axes)}], {'one call per time step' if self.is_stepwise else 'one call'}"


def trial_readings(samples: Sequence[Shape], ports: Sequence[Shape], effort: TrialEffort) -> list[TrialReading]:
    """Every reading of the sample's shapes for a network with these input shapes, the most natural ones first."""
    exact: list[TrialReading] = []
    as_many: list[TrialReading] = []
    for time, batch in _axes(min(map(len, samples))):
        removed = [axis for axis in (time, batch) if axis is not None]
        step_shapes = tuple(tuple(n for k, n in enumerate(s) if k not in removed) for s in samples)
        sizes = {tuple(s[axis] for axis in removed) for s in samples}
        if len(sizes) == 1 and [math.prod(o) for o in step_shapes] == [math.prod(p) for p in ports]:
            group = exact if list(step_shapes) == list(ports) else as_many
            group += _of_axes(time, batch, step_shapes, samples[0], effort)
    return list(dict.fromkeys([*exact, *as_many]))


def short_readings(samples: Sequence[Shape], ports: Sequence[Shape], steps: int, most: int) -> list[TrialReading]:
    """The readings with one sample and ``steps`` time steps; then those whose time axis has up to ``most``."""
    options = [replace(r, samples=1) for r in trial_readings(samples, ports, TrialEffort(steps, 1, 1, steps))]
    whole = [r for r in options if steps < r.steps <= most]
    return list(dict.fromkeys([*(replace(r, steps=min(r.steps, steps)) for r in options), *whole]))


def _axes(rank: int) -> Iterator[Places]:
    """(time, batch) among the axes of the sample: none, one of the two, both; the batch is one of the first two."""
    yield None, None
    if rank:
        yield None, 0
    yield from ((time, None) for time in range(rank))
    yield from ((time, 1 if time == 0 else 0) for time in range(rank) if rank > 1)
    yield from ((time, 1) for time in range(2, rank))


def _of_axes(
    time: int | None, batch: int | None, step_shapes: tuple[Shape, ...], sample: Shape, effort: TrialEffort
) -> Iterator[TrialReading]:
    steps = effort.steps if time is None else sample[time]
    samples = effort.batch if batch is None else min(sample[batch], effort.most_batch)
    if time is not None and batch is not None:
        yield TrialReading(time, batch, step_shapes, steps, samples)
        yield TrialReading(None, 0, step_shapes, steps, samples, is_stepwise=True)
    elif time is not None:
        yield TrialReading(time, None, step_shapes, steps, 1)
        yield TrialReading(0 if time == 0 else time + 1, 1 if time == 0 else 0, step_shapes, steps, samples)
        yield TrialReading(time + 1, 0, step_shapes, steps, samples)
        yield TrialReading(None, 0, step_shapes, steps, samples, is_stepwise=True)
        yield TrialReading(None, None, step_shapes, steps, 1, is_stepwise=True)
    else:
        yield TrialReading(None, 0, step_shapes, steps, samples, is_stepwise=True)
        yield from _with_time(step_shapes, steps, samples)
        if batch is None:
            yield TrialReading(None, None, step_shapes, steps, 1, is_stepwise=True)
            yield TrialReading(0, None, step_shapes, steps, 1)
        yield from (replace(r, steps=effort.longer) for r in _with_time(step_shapes, steps, samples))


def _with_time(step_shapes: tuple[Shape, ...], steps: int, samples: int) -> Iterator[TrialReading]:
    """The sample is one time step, and forward takes sequences: time first, after the batch, last."""
    yield TrialReading(0, 1, step_shapes, steps, samples)
    yield TrialReading(1, 0, step_shapes, steps, samples)
    yield TrialReading(LAST, 0, step_shapes, steps, samples)
