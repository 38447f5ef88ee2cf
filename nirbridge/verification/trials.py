"""Runs of the module and of the network on the same random inputs, under one reading of the sample's axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import counted
from nirbridge.importers.by_hand.spec import reads_own
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.network.axes import TIME, number_in
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.verification.matching import matched_membranes, matched_outputs, matched_spikes
from nirbridge.verification.original_runs import OriginalRun, run_original
from nirbridge.verification.random_inputs import GAINS, draw_values
from nirbridge.verification.rounding import DOUBLE, SINGLE, ModuleConstants, rounding_bounds
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.verdicts import RunEvidence, Verdict

Values = Mapping[tuple[str, str], Array]
_LIVELY = 0.9
"""Share of the neurons (and of those that fire at most) that has to fire."""
_SHOWN = 2
_LISTENED = 16
"""Time steps by which the loudness of inputs is chosen."""
STEPS, STATIC, MERGED, MERGED_BATCH_FIRST = "steps", "static", "merged", "merged-batch-first"


@dataclass(frozen=True, slots=True)
class Trial:
    """One reading of the sample, tried on one input.

    ``form``: ``steps``; ``static``: a loop inside forward has the same input in each iteration; ``merged``: the
    batch axis of the reading holds time and batch, which forward takes apart. ``size``: time steps times samples.
    ``ways``: where each output was found among the values that the module returns. ``is_exact``: one time step has the
    shapes of the network's inputs.
    """

    reading: TrialReading
    form: str
    verdict: Verdict
    size: int
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_exact: bool = True

    @property
    def is_equal(self) -> bool:
        """True if nothing differs, and something was there to differ."""
        return self.verdict.agreement[0]


class Trials:
    """The module, the network, and how the two are run; ``wide``: in float64; ``chosen``: what the outcome is about.

    ``tensors``: the numbers that the module computes with.
    """

    def __init__(
        self,
        network: Network,
        forms: NeuronSpecs,
        samples: Sequence[Array],
        private: Callable[[], Any],
        tensors: list[Array],
    ) -> None:
        self.network, self.forms, self.samples, self.private = network, forms, samples, private
        self.constants = ModuleConstants(tensors)
        self.shapes = {n.name: n.shape for n in (*network.populations, *network.outputs)}
        self.failures: dict[str, str] = {}
        self.unmatched: dict[str, str] = {}
        self.refuted: list[Trial] = []
        self.wide = True
        self.gains: tuple[float, float] | None = None
        self.chosen: Trial | None = None
        timed = (word for word in network.axes if word.startswith(f"{TIME}="))
        self.constant_steps = next(map(number_in, timed), 0)

    def why(self, notes: str = "") -> str:
        """Reasons why no reading could be checked, with their axes; those named in the import's notes first."""
        reasons = {**self.failures, **self.unmatched}
        if not reasons:
            return "no reading of the sample's shape fits the network's inputs"
        is_other = {words: f"was read as {words.partition('], ')[0]}]" not in notes for words in reasons}
        ordered = sorted(reasons, key=lambda words: (is_other[words], words not in self.unmatched))
        shown = "; ".join(f"as {words}: {reasons[words]}" for words in ordered[:_SHOWN])
        more = len(ordered) - _SHOWN
        return f"{shown}; and {counted(more, 'other reading')}" if more > 0 else shown

    def candidates(self, options: Sequence[TrialReading]) -> Iterator[Trial]:
        """The readings with which all that fires is compared and equal; if there are none, the best agreement alone.

        A reading that is not the module's may be equal on one input. Another input refutes it, and the next candidate
        counts; trials in ``refuted`` also count against candidates that are equal on little.
        """
        firing = sum(p.neuron.fires and p.neuron.kind != "Threshold" for p in self.network.populations)  # has a module
        for wide in (True, False):
            self.wide, is_found = wide, False
            tried: list[Trial] = []
            for trial in (trial for reading in options for trial in self._tried(reading, 0)):
                tried.append(trial)
                is_full = trial.verdict.difference is None and 0 < firing == trial.verdict.populations
                if is_full and not _is_equal_on_little(trial, [*tried, *self.refuted]):
                    is_found = True
                    yield trial
            if tried:
                yield from () if is_found else (_best(tried),)
                return

    def again(self, trial: Trial, number: int) -> Trial | None:
        """The same reading on another input."""
        return next((t for t in self._tried(trial.reading, number) if t.form == trial.form), None)

    def in_own_precision(self, trial: Trial) -> Trial | None:
        """The module in its own precision, on the first input."""
        self.wide = False
        try:
            return self.again(trial, 0)
        finally:
            self.wide = True

    def is_noisy(self, trial: Trial) -> bool:
        """True if the module gives other outputs with another seed of torch's random numbers."""
        arrays = self._drawn(trial.reading, 0)
        runs = [self._ran(trial.reading, arrays, seed, stops=trial.form != STEPS) for seed in (1, 2)]
        if runs[0] is None or runs[1] is None:
            return False
        first, second = (_everything(run) for run in runs if run is not None)
        return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=False))

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _drawn(self, reading: TrialReading, number: int) -> list[Array]:
        """Inputs ``[steps, samples, values]``: of the sample's own kind first, then derived, then without the gain."""
        if self.gains is None:
            self.gains = self._loudness(reading)
        derived, gain = number % 3 == 1, (*self.gains, 1.0)[number % 3]
        return self._random(reading, number, derived=derived, gain=gain)

    def _random(self, reading: TrialReading, number: int, *, derived: bool, gain: float) -> list[Array]:
        return [
            draw_values(
                s, (reading.steps, reading.samples, math.prod(shape)), 97 * number + k, derived=derived, gain=gain
            )
            for k, (s, shape) in enumerate(zip(self.samples, reading.step_shapes, strict=True))
        ]

    def _loudness(self, reading: TrialReading) -> tuple[float, float]:
        """The least factor on the inputs with which nearly as many neurons fire as with any, then the loudest."""
        firing = [p for p in self.network.populations if p.neuron.fires]
        short = replace(reading, steps=min(reading.steps, _LISTENED))
        fired: dict[float, int] = {}
        for gain in GAINS if firing else ():
            values = self._simulated(self._random(short, 0, derived=False, gain=gain), ("s",))
            fired[gain] = sum(int(np.count_nonzero(values[p.name, "s"].any(axis=(0, 1)))) for p in firing)
        largest = max(fired.values(), default=0)
        least = next((gain for gain in GAINS if fired.get(gain, 0) >= _LIVELY * largest), 1.0)
        return least, max(fired, key=lambda g: (fired[g], -g), default=1.0)

    # -- runs ------------------------------------------------------------------------------------------------------

    def _simulated(self, arrays: Sequence[Array], variables: Sequence[str] = ("s", "u", "v", "i")) -> Values:
        fed = {
            port.name: values.reshape(*values.shape[:2], *port.shape)
            for port, values in zip(self.network.inputs, arrays, strict=True)
        }
        probes = [
            Probe(p.name, tuple(v for v in variables if v != "s" or p.neuron.fires))
            for p in self.network.populations
            if p.neuron.fires or len(variables) > 1
        ]
        ports = [Probe(p.name, ("s",)) for p in self.network.outputs]
        run = simulate(self.network, fed, record=[*probes, *ports], dtype="float64", backend="numpy")
        return {**run.recording.arrays, **{(name, "s"): values for name, values in fed.items()}}

    def _ran(self, reading: TrialReading, arrays: Sequence[Array], seed: int, *, stops: bool) -> OriginalRun | None:
        try:
            return self.run_module(reading.calls(arrays), seed, stops=stops)
        except Exception as error:  # whatever the user's code raises
            self.failures.setdefault(reading.words, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            return None

    def run_module(self, calls: Iterable[Sequence[Array]], seed: int, *, stops: bool) -> OriginalRun:
        """The module on the arguments of each call; ``stops``: see ``run_original``. Raises whatever it raises."""
        return run_original(self.private, self.forms, calls, wide=self.wide, seed=seed, stops_at_loops=stops)

    def _tried(self, reading: TrialReading, number: int) -> Iterator[Trial]:
        """The reading on one input, in every form that the run allows."""
        arrays = self._drawn(reading, number)
        run = self._ran(reading, arrays, number, stops=reading.is_stepwise)
        if reads_own(self.forms) and self.constant_steps > 1 and reading.is_stepwise:
            first = self._ran(replace(reading, steps=1), [a[:1] for a in arrays], number, stops=False)
            yield from () if first is None else self._loops(reading, arrays, first, self.constant_steps)
        if run is not None and run.is_stopped:
            yield from self._loops(reading, arrays, run)
            run = self._ran(reading, arrays, number, stops=False)
        if run is not None:
            yield from self._judged(reading, STEPS, arrays, run)

    def _loops(
        self, reading: TrialReading, arrays: Sequence[Array], run: OriginalRun, constant: int = 0
    ) -> Iterator[Trial]:
        """One call that ran several turns: an axis of time and batch together, or a static input.

        The latter takes as many time steps for each sample, so it comes last.
        """
        iterations, samples = constant or run.iterations, reading.samples
        if samples % iterations == 0:
            first = [a[0].reshape(iterations, samples // iterations, -1) for a in arrays]
            yield from self._judged(reading, MERGED, first, run)
            last = [np.swapaxes(a[0].reshape(samples // iterations, iterations, -1), 0, 1) for a in arrays]
            yield from self._judged(reading, MERGED_BATCH_FIRST, last, run)
        repeated = [np.repeat(a[:1], iterations, axis=0) for a in arrays]
        yield from self._judged(reading, STATIC, repeated, run)

    def _judged(self, reading: TrialReading, form: str, arrays: Sequence[Array], run: OriginalRun) -> Iterator[Trial]:
        values, samples = self._simulated(arrays), arrays[0].shape[1]
        limits = rounding_bounds(self.network, values, self.constants, DOUBLE if self.wide else SINGLE)
        outputs = matched_outputs(run, samples, self.network, values, limits)
        if len(outputs) == len(self.network.outputs):
            spikes = matched_spikes(run, self.network, values)
            membranes = matched_membranes(run, self.network, values, limits)
            shown = (outputs, spikes, membranes)
            evidence = RunEvidence(self.network, values, limits, self.constants, *shown, samples, self.shapes)
            ways = {m.name: m.way for m in outputs}
            is_exact = list(reading.step_shapes) == [port.shape for port in self.network.inputs]
            yield Trial(reading, form, evidence.verdict(), len(arrays[0]) * samples, ways, is_exact)
        else:
            shapes = list(dict.fromkeys(str(tensor.shape) for _, tensor in run.returned[0]))
            found = f"it returns values of shape {' and '.join(shapes[:_SHOWN])}" if shapes else "it returns nothing"
            self.unmatched.setdefault(
                reading.words, f"{found}, which hold no output of each of {len(arrays[0])} time steps"
            )


def _best(tried: Sequence[Trial]) -> Trial:
    """The best agreement: equal ones come first, those that a larger one contradicts last.

    Of unequal ones, which an accepted deviation leaves, those with the network's own shapes come first: few time steps
    of another reading may agree better.
    """

    def rank(trial: Trial) -> tuple[int, int, bool, float, int, int]:
        order = 0 if _is_equal_on_little(trial, tried) else 2 if trial.is_equal else 1
        _, populations, overlap, busy = trial.verdict.agreement
        return order, populations, order < 2 and trial.is_exact, overlap, busy, trial.size

    return max(tried, key=rank)


def _is_equal_on_little(trial: Trial, tried: Sequence[Trial]) -> bool:
    """True if a trial is equal, while one on far more steps and samples compared as many populations, and differs.

    A network that is wrong can be equal for a time step or two, under a reading that the module does not refuse.
    """
    return trial.verdict.difference is None and any(
        t.verdict.difference is not None
        and t.verdict.populations >= max(1, trial.verdict.populations)
        and t.size > 2 * trial.size
        for t in tried
    )


def _everything(run: OriginalRun) -> list[Array]:
    """All that a run returned, and the spikes and membranes of its neurons."""
    returned = [values for call in run.returned for _, values in call]
    shown = [values for probe in run.probes.values() for values in (*probe.spikes, *probe.membranes)]
    return [*returned, *(values for values in shown if values is not None)]
