"""The result of a comparison of two recordings: a row for each variable of each node."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nirbridge._values import ReportedValue
from nirbridge.comparison import distances
from nirbridge.comparison.distances import Decisions, LatencySource
from nirbridge.files.attributes import load_attribute
from nirbridge.simulators.types import Key, Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

SPIKES, COUNT = "s", "count"


@dataclass(frozen=True, slots=True)
class SpikeDistances:
    """Distances of two spike arrays: see ``nirbridge.comparison.distances``.

    ``outside_a`` and ``outside_b`` are events in steps that have no counterpart in the other recording; they are in no
    other number.
    """

    is_graded: bool
    spikes_a: int
    spikes_b: int
    common: int
    either: int
    count_error: int
    van_rossum: float
    outside_a: int
    outside_b: int

    @property
    def jaccard(self) -> float:
        """Events in both over events in either; 1 where there are none."""
        return distances.ratio(self.common, self.either)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One variable of one node. Steps are numbered as in A; a neuron is an index of its population's shape.

    ``problem`` says why the two are not equal whatever their values (shapes, numbers of steps), and ``steps`` is how
    many kept steps were compared: 0 where none could be. ``first_step`` is None where no value differs, or where there
    are no steps (``count``); ``first_sample`` is None for recordings without a batch.
    """

    node: str
    variable: str
    steps: int
    latency_steps: int
    latency_source: LatencySource
    equal: bool
    first_step: int | None = None
    first_neuron: tuple[int, ...] | None = None
    first_values: tuple[float, float] | None = None
    largest_difference: float | None = None
    spikes: SpikeDistances | None = None
    decisions: Decisions | None = None
    problem: str | None = None
    first_sample: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(ReportedValue):
    """Result of ``compare``; ``rows`` in natural order of names; ``only_a`` and ``only_b`` are in one of the two.

    ``recordings``: A and B, where they were kept for ``plot``.
    """

    rows: tuple[ComparisonRow, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    tau_steps: float
    notes: tuple[str, ...]
    recordings: tuple[Recording, Recording] | None = field(default=None, compare=False)

    def plot(self, node: str | None = None, *, sample: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw the spikes that differ: of ``node`` and ``sample``, or of the first that differs. Raises UsageError."""
        return load_attribute("nirbridge.report.plots.recordings:plot_comparison")(self, node, sample=sample, ax=ax)

    @property
    def equal(self) -> bool:
        """True if both hold the same nodes and variables, and every row is equal."""
        return not self.only_a and not self.only_b and all(row.equal for row in self.rows)

    @property
    def first_step(self) -> int | None:
        """The first step, as A numbers it, at which anything differs."""
        return min((row.first_step for row in self.rows if row.first_step is not None), default=None)

    @property
    def spikes(self) -> SpikeDistances | None:
        """All spike rows as one: events and errors added up, distances as of one large population."""
        distances = [row.spikes for row in self.rows if row.spikes is not None and row.variable == SPIKES]
        if not distances:
            return None
        names = ("spikes_a", "spikes_b", "common", "either", "count_error", "outside_a", "outside_b")
        sums = {name: sum(getattr(s, name) for s in distances) for name in names}
        van_rossum = math.sqrt(sum(s.van_rossum * s.van_rossum for s in distances))  # ** 2 overflows with an exception
        return SpikeDistances(is_graded=any(s.is_graded for s in distances), van_rossum=van_rossum, **sums)
