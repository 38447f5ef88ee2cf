"""The ways in which a module can take sequences of the sample's shape, found from sizes alone.

The importer's own understanding of the axes is not used: it is part of what is checked. A reading says which leading
axes of the module's argument are time and batch, and whether forward is called once or once per time step; the module
itself then shows which readings it accepts, and values show which one it means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array

Shape = tuple[int, ...]
TIME, BATCH = "time", "batch"
ADDED_BATCH = 4
"""Batch size where the sample has no batch axis."""
STEPS = (32, 300)
"""Time steps of sequences whose length the sample does not say; the second for a forward that requires more."""


@dataclass(frozen=True, slots=True)
class SampleReading:
    """``lead``: the axes before the values of one time step; ``own``: shape of those values, per argument.

    ``is_stepwise``: forward is called once per time step (``lead`` then has no time). Sizes are those of the runs.
    """

    lead: tuple[str, ...]
    own: tuple[Shape, ...]
    steps: int
    batch: int
    is_stepwise: bool

    def calls(self, values: Sequence[Array]) -> Iterator[tuple[Array, ...]]:
        """The arguments of each call, made of ``[steps, batch, *values]`` for each argument."""
        if self.is_stepwise:
            for t in range(self.steps):
                yield tuple(self._placed(v[t : t + 1], o) for v, o in zip(values, self.own, strict=True))
        else:
            yield tuple(self._placed(v, o) for v, o in zip(values, self.own, strict=True))

    def _placed(self, values: Array, own: Shape) -> Array:
        sizes = {TIME: len(values), BATCH: self.batch}
        ordered = np.swapaxes(values, 0, 1) if self.lead == (BATCH, TIME) else values
        return np.ascontiguousarray(ordered).reshape(*(sizes[word] for word in self.lead), *own)

    @property
    def words(self) -> str:
        """The axes in words, for messages."""
        lead = ", ".join([*self.lead, *(str(n) for n in self.own[0])])
        return f"[{lead}], {'one call per time step' if self.is_stepwise else 'one call'}"


def readings(samples: Sequence[Shape], ports: Sequence[Shape]) -> Iterator[SampleReading]:
    """Every reading of the sample's shapes for a network with these input shapes, the most natural ones first."""
    for count in _leading_counts(samples, ports):
        lead, own = samples[0][:count], tuple(s[count:] for s in samples)
        yield from _READINGS[count](lead, own)


def _leading_counts(samples: Sequence[Shape], ports: Sequence[Shape]) -> list[int]:
    """How many leading axes the sample may have: the rest is the port's shape, or as many values."""
    exact, as_many = [], []
    for count in range(min(3, 1 + min(map(len, samples)))):
        alike = len({s[:count] for s in samples}) == 1
        rests = [s[count:] for s in samples]
        if alike and rests == list(ports):
            exact.append(count)
        elif alike and [math.prod(r) for r in rests] == [math.prod(p) for p in ports]:
            as_many.append(count)
    return [*exact, *as_many]


def _without_lead(lead: Shape, own: tuple[Shape, ...]) -> Iterator[SampleReading]:
    first, longer = STEPS
    yield SampleReading((BATCH,), own, first, ADDED_BATCH, True)
    yield from _whole(own, first, ADDED_BATCH)
    yield SampleReading((), own, first, 1, True)
    yield from _whole(own, first, 1)
    yield SampleReading((TIME,), own, first, 1, False)
    yield from _whole(own, longer, ADDED_BATCH)


def _whole(own: tuple[Shape, ...], steps: int, batch: int) -> Iterator[SampleReading]:
    yield SampleReading((TIME, BATCH), own, steps, batch, False)
    yield SampleReading((BATCH, TIME), own, steps, batch, False)


def _one_lead(lead: Shape, own: tuple[Shape, ...]) -> Iterator[SampleReading]:
    """A batch of one time step, or a sequence without batch."""
    (n,) = lead
    yield SampleReading((BATCH,), own, STEPS[0], n, True)
    if n > 1:
        yield SampleReading((TIME,), own, n, 1, False)
    for steps in STEPS:
        yield from _whole(own, steps, n)
    if n > 1:
        yield SampleReading((BATCH,), own, n, ADDED_BATCH, True)
        yield SampleReading((), own, n, 1, True)


def _two_leads(lead: Shape, own: tuple[Shape, ...]) -> Iterator[SampleReading]:
    """A whole sequence: time and batch in either order, in one call or step by step."""
    a, b = lead
    yield SampleReading((TIME, BATCH), own, a, b, False)
    yield SampleReading((BATCH, TIME), own, b, a, False)
    yield SampleReading((BATCH,), own, a, b, True)
    yield SampleReading((BATCH,), own, b, a, True)


_READINGS = (_without_lead, _one_lead, _two_leads)
