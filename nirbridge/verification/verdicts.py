"""One run of the module beside one of the import: equal, tied at a threshold, or unequal at a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import quoted
from nirbridge.network.model import Network, Population
from nirbridge.verification.matching import STEPWISE, MatchedValues
from nirbridge.verification.rounding import COMPUTED, SINGLE, ModuleConstants, RoundingBounds, adapted
from nirbridge.verification.spike_differences import SpikeDifference, spike_differences

_TELLING = 10
"""Nonzero values from which on equal outputs are evidence."""
Values = Mapping[tuple[str, str], Array]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A place at which the two differ; ``subject`` names an output or a population, ``text`` the two values.

    ``is_not_finite``: one of the two values is NaN or infinite.
    """

    subject: str
    step: int
    sample: int
    neuron: tuple[int, ...]
    text: str
    is_not_finite: bool = False

    def __str__(self) -> str:
        place = f"time step {self.step}, sample {self.sample}, neuron {self.neuron}"
        return f"{self.subject}, {place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one run: ``outputs`` is how many values were compared, ``share_equal`` of how many are equal.

    ``populations``: how many could be compared; ``busy``: values that are not 0 on one of the sides, ``overlap``: the
    share of them that is equal. ``fired``: neurons that fired, of all that can. ``spikes``: those of each population.
    """

    outputs: int
    share_equal: float
    populations: int
    overlap: float
    busy: int
    fired: int
    neurons: int
    ties: Sequence[ValueDifference] = ()
    difference: ValueDifference | None = None
    first_population: ValueDifference | None = None
    spikes: Sequence[SpikeDifference] = ()

    @property
    def agreement(self) -> tuple[bool, int, float, int]:
        """Rank of the reading of the sample's axes."""
        is_proof = self.difference is None and (self.populations > 0 or self.busy >= _TELLING)
        return is_proof, self.populations, self.overlap, min(self.busy, 5 * _TELLING)


@dataclass(slots=True)
class RunEvidence:
    """The arrays of one run, compared; ``rows``: flat indices of the neurons where not all of a population are."""

    network: Network
    values: Values
    bounds: RoundingBounds
    constants: ModuleConstants
    outputs: Sequence[MatchedValues]
    spikes: Sequence[MatchedValues]
    membranes: Sequence[MatchedValues]
    batch: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)

    def verdict(self) -> Verdict:
        """Judge every sample up to its first difference."""
        ends = [self._first_step(b) for b in range(self.batch)]
        ties: list[ValueDifference] = []
        differences: list[tuple[ValueDifference, ValueDifference | None]] = []
        for sample, step in enumerate(ends):
            if step is None:
                continue
            population = self._first_population(step, sample)
            if self._is_tie(step, sample, population):
                ties.append(population or self._place(step, sample))
            else:
                differences.append((self._place(step, sample), population))
        membrane = self._membrane_difference(ends)
        differences += [(membrane, membrane)] if membrane is not None and not differences else []
        first = min(differences, key=lambda pair: (pair[0].step, pair[0].sample), default=(None, None))
        total = sum(m.original.size for m in self.outputs)
        wrong = sum(int(np.count_nonzero(m.differs)) for m in self.outputs)
        firing = [p for p in self.network.populations if p.neuron.fires]
        return Verdict(
            self._compared(ends),
            1 - wrong / max(1, total),
            len(self.spikes),
            *self._overlap(),
            sum(int(np.count_nonzero(self.values[p.name, "s"].any(axis=(0, 1)))) for p in firing),
            sum(p.size for p in firing),
            ties,
            *first,
            spike_differences(self.spikes),
        )

    def _overlap(self) -> tuple[float, int]:
        busy = [(m.original != 0) | (m.imported != 0) for m in self.outputs]
        wrong = sum(int(np.count_nonzero(m.differs & b)) for m, b in zip(self.outputs, busy, strict=True))
        cells = sum(int(np.count_nonzero(b)) for b in busy)
        return 1 - wrong / max(1, cells), cells

    def _first_step(self, sample: int) -> int | None:
        """The first time step in which an output or a population of a sample differs."""
        steps = [
            int(np.argmax(where)) if m.over_time == STEPWISE else self._steps() - 1
            for m in (*self.outputs, *self.spikes)
            if (where := m.differs[:, sample].any(axis=-1)).any()
        ]
        return min(steps, default=None)

    def _steps(self) -> int:
        return len(next(iter(self.values.values())))

    def _first_population(self, step: int, sample: int) -> ValueDifference | None:
        for m in self.spikes:
            cells = np.flatnonzero(m.differs[step, sample])
            if cells.size:
                return self._difference(m, f"population {quoted(m.name)}", step, step, sample, int(cells[0]))
        return None

    def _place(self, step: int, sample: int) -> ValueDifference:
        """The first output that differs in this sample, else the population."""
        best: ValueDifference | None = None
        for m in self.outputs:
            row = 0 if m.over_time != STEPWISE else int(np.argmax(m.differs[:, sample].any(axis=-1)))
            cells = np.flatnonzero(m.differs[row, sample])
            step_of_output = row if m.over_time == STEPWISE else self._steps() - 1
            if cells.size and (best is None or step_of_output < best.step):
                best = self._difference(m, f"output {quoted(m.name)}", step_of_output, row, sample, int(cells[0]))
        place = best or self._first_population(step, sample)
        assert place is not None  # a difference is in one of the two
        return place

    def _difference(
        self, m: MatchedValues, subject: str, step: int, row: int, sample: int, cell: int
    ) -> ValueDifference:
        shape = self.shapes.get(m.name, (m.original.shape[-1],))
        place = int(self.rows[m.name][cell]) if m.name in self.rows else cell
        neuron = tuple(int(k) for k in np.unravel_index(place, shape)) if shape else ()
        a, b = m.original[row, sample, cell], m.imported[row, sample, cell]
        over = "" if m.over_time == STEPWISE else f"{m.over_time}: "
        text = f"{over}the module gives {a:.9g}, the import {b:.9g}"
        return ValueDifference(subject, step, sample, neuron, text, not np.isfinite(a + b))

    # -- ties ------------------------------------------------------------------------------------------------------

    def _is_tie(self, step: int, sample: int, first: ValueDifference | None) -> bool:
        """True if rounding may decide the first difference: its membranes lie within the bound of the threshold."""
        probed = {m.name: m for m in self.spikes}
        for p in (p for p in self.network.populations if p.neuron.fires):
            near = self._near(p)
            if p.name in probed:
                cells = probed[p.name].differs[step, sample]
                if cells.any():
                    return bool(near[step, sample].ravel()[cells].all())
            elif near[: step + 1, sample].any():
                return True
        return False

    def _near(self, p: Population) -> Array:
        """Where the membrane lies within the bound of a threshold (of a multiple of it where several spikes count)."""
        n, u = p.neuron, self.values[p.name, "u"].astype(np.float64)
        theta = np.asarray(n.theta, np.float64)
        error = self.bounds.before_reset[p.name] + (0.0 if self.constants.holds(theta) else COMPUTED) * np.abs(theta)
        if n.adaptation is not None:
            b, d_b = adapted(n, self.values[p.name, "s"].astype(np.float64), self.constants, SINGLE)
            theta, error = theta + b, error + d_b
        if n.max_spikes == 1:
            return np.abs(u - theta) <= error
        counts = np.clip(np.rint(u / theta), 1, n.max_spikes)
        return np.abs(u - counts * theta) <= error * np.maximum(1, counts)

    # -- membranes -------------------------------------------------------------------------------------------------

    def _membrane_difference(self, ends: Sequence[int | None]) -> ValueDifference | None:
        """The first membrane that is further off than rounding, before the spikes of its sample differ."""
        candidates: list[ValueDifference] = []
        for m in self.membranes:
            differs = m.differs
            for sample, end in enumerate(ends):
                cells = np.argwhere(differs[:end, sample])
                if (m.over_time != STEPWISE and end is not None) or not len(cells):
                    continue
                row, cell = (int(k) for k in cells[0])
                step = row if m.over_time == STEPWISE else self._steps() - 1
                subject = f"membrane of population {quoted(m.name)}"
                candidates.append(self._difference(m, subject, step, row, sample, cell))
        return min(candidates, key=lambda d: d.step, default=None)

    def _compared(self, ends: Sequence[int | None]) -> int:
        return sum(
            (len(m.original) if end is None else end * (m.over_time == STEPWISE)) * m.original.shape[-1]
            for m in self.outputs
            for end in ends
        )
