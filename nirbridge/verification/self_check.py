"""The self-check of an import: the module and the imported network on the same random inputs.

The module runs on its own natural input, of the shape that the user has; the network gets the same values in its own
layout. Neither the importer's understanding of the axes nor its reading of any neuron is used. Both run in float64
(copies; surrogates and constants that the framework creates in float32 are widened), and the module once more in its
own precision, which shows effects of that precision alone (autocast). Compared are the outputs, the spikes of every
population whose module is found by its path, and the membranes where the framework exposes them; ``rounding`` derives
how far rounding may move a membrane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Problem, UnequalImport
from nirbridge.importers.readings import Forms
from nirbridge.importers.trace_module import untouched
from nirbridge.network.from_nir import from_nir
from nirbridge.network.model import Network
from nirbridge.simulators import Record, simulate
from nirbridge.verification.matching import matched_membranes, matched_outputs, matched_spikes
from nirbridge.verification.module_facts import drops, multiplications, tensors
from nirbridge.verification.original_runs import OriginalRun, deep_copy, run_original
from nirbridge.verification.random_inputs import GAINS, drawn, numbers_of
from nirbridge.verification.rounding import DOUBLE, SINGLE, Known, bounds
from nirbridge.verification.sample_axes import SampleReading, readings
from nirbridge.verification.verdicts import Evidence, Verdict

INPUTS = 2
"""Random inputs of a check that nobody asked for."""
AFFORDABLE = 100_000_000
"""Multiplications of all runs up to which the check is made by default: about half a second of one core."""
_LOUD = "no output is different from 0, so that little was compared"


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What a self-check found: ``outcome`` is ``identical``, ``noise``, ``skipped`` or ``not-run``.

    ``outputs``: values compared; ``ties``: samples whose first difference rounding decides, in words.
    """

    outcome: str
    text: str
    outputs: int = 0
    inputs: int = 0
    ties: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The outcome as plain JSON."""
        return {**asdict(self), "ties": list(self.ties)}


def self_check(
    module: Any,
    sample: Any,
    graph: Any,
    forms: Forms,
    inputs: int | None,
    private: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """Compare ``graph`` with the module that it was imported from.

    Args:
        module: the user's module; neither it nor torch's random numbers are changed.
        sample: the sample that was given to the importer.
        graph: the ``nir.NIRGraph``.
        forms: the neuron classes of the framework.
        inputs: how many random inputs to compare; None: two, where the module is cheap.
        private: makes a copy of the module that may be run (default: a deep copy).

    Returns:
        The outcome, as ``SelfCheck.document`` gives it.

    Raises:
        UnequalImport: the two differ by more than rounding.
    """
    network = from_nir(graph)
    samples = numbers_of(tuple(sample) if isinstance(sample, tuple | list) else (sample,))
    with untouched(module):
        return _Check(module, samples, network, forms, inputs, private or deep_copy).outcome().document()


@dataclass(frozen=True, slots=True)
class _Trial:
    """One reading of the sample, tried on one input."""

    reading: SampleReading
    is_static: bool
    verdict: Verdict


class _Check:
    """One self-check."""

    def __init__(
        self,
        module: Any,
        samples: Sequence[Array],
        network: Network,
        forms: Forms,
        inputs: int | None,
        private: Callable[[Any], Any],
    ) -> None:
        self.private = lambda: private(module)
        self.module, self.samples, self.network, self.forms = module, samples, network, forms
        self.inputs = INPUTS if inputs is None else inputs
        self.is_forced = inputs is not None
        self.known = Known(tensors(module))
        self.shapes = {n.name: n.shape for n in (*network.populations, *network.outputs)}
        self.failures: list[str] = []
        self.wide = True

    def outcome(self) -> SelfCheck:
        """Run it."""
        options = list(readings([s.shape for s in self.samples], [p.shape for p in self.network.inputs]))
        cost = multiplications(self.network) * sum((r.steps * r.batch for r in options[:1]), 0) * (self.inputs + 1)
        if cost > AFFORDABLE and not self.is_forced:
            found = f"skipped: about {cost:.1e} multiplications, by default at most {AFFORDABLE:.0e}"
            return SelfCheck("skipped", f"{found}; force it with check=1 (--check 1)")
        gain = self._gain(options)
        chosen = self._chosen(options, gain)
        if chosen is None:
            return SelfCheck("not-run", f"not run: the module cannot be called on random inputs ({self._why()})")
        trials = [chosen, *(self._again(chosen, k, gain) for k in range(1, self.inputs))]
        trials += [self._as_it_is(chosen, gain)] if self.wide else []
        for trial in trials:
            if trial is not None and trial.verdict.difference is not None:
                if self._is_noisy(trial, gain):
                    return SelfCheck("noise", "not compared: the module itself gives different outputs for one input")
                raise _unequal(trial, chosen)
        return self._identical([t for t in trials if t is not None])

    def _why(self) -> str:
        return self.failures[0] if self.failures else "no reading of the sample's shape fits the network's inputs"

    def _identical(self, trials: Sequence[_Trial]) -> SelfCheck:
        outputs = sum(t.verdict.outputs for t in trials)
        ties = tuple(str(tie) for t in trials for tie in t.verdict.ties)
        reading = trials[0].reading
        text = f"identical on {outputs:,} outputs ({self.inputs} random inputs, {reading.words})"
        text += f"; {len(ties)} of the samples end in a tie that rounding decides: {ties[0]}" if ties else ""
        text += "" if any(t.verdict.is_lively for t in trials) else f"; {_LOUD}"
        text += "; dropout is off" if drops(self.module) else ""
        return SelfCheck("identical", text, outputs, self.inputs, ties)

    # -- runs ------------------------------------------------------------------------------------------------------

    def _gain(self, options: Sequence[SampleReading]) -> float:
        """The factor on the inputs with which most neurons fire."""
        if not options:
            return 1.0
        reading = replace(options[0], steps=min(options[0].steps, 32))
        firing: dict[float, int] = {}
        for gain in GAINS:
            values = self._simulated(self._drawn(reading, 0, gain))
            spikes = [values[p.name, "s"] for p in self.network.populations if p.neuron.fires]
            firing[gain] = sum(int(np.count_nonzero(a.any(axis=(0, 1)))) for a in spikes)
        return max(firing, key=lambda g: (firing[g], -g))

    def _drawn(self, reading: SampleReading, number: int, gain: float) -> list[Array]:
        """Inputs ``[steps, batch, values]``: of the sample's own kind first, then derived, then without the gain."""
        derived, factor = number % 3 == 1, 1.0 if number % 3 == 2 else gain
        return [
            drawn(s, (reading.steps, reading.batch, math.prod(own)), 97 * number + k, derived=derived, gain=factor)
            for k, (s, own) in enumerate(zip(self.samples, reading.own, strict=True))
        ]

    def _simulated(self, arrays: Sequence[Array]) -> Mapping[tuple[str, str], Array]:
        fed = {
            port.name: values.reshape(*values.shape[:2], *port.shape)
            for port, values in zip(self.network.inputs, arrays, strict=True)
        }
        firing = [Record(p.name, ("s", "u", "v", "i")) for p in self.network.populations if p.neuron.fires]
        quiet = [Record(p.name, ("u", "v", "i")) for p in self.network.populations if not p.neuron.fires]
        ports = [Record(p.name, ("s",)) for p in self.network.outputs]
        run = simulate(self.network, fed, record=[*firing, *quiet, *ports], dtype="float64", backend="numpy")
        return {**run.recording.arrays, **{(name, "s"): values for name, values in fed.items()}}

    def _chosen(self, options: Sequence[SampleReading], gain: float) -> _Trial | None:
        """The first reading with which all that fires is compared and equal, else that with the best agreement."""
        firing = sum(p.neuron.fires for p in self.network.populations)
        for wide in (True, False):
            self.wide = wide
            best: _Trial | None = None
            for reading in options:
                for trial in self._tried(reading, 0, gain):
                    if trial.verdict.agreement[:2] == (firing, True) and firing:
                        return trial
                    if best is None or trial.verdict.agreement > best.verdict.agreement:
                        best = trial
            if best is not None:
                return best
        return None

    def _tried(self, reading: SampleReading, number: int, gain: float) -> Iterator[_Trial]:
        """The reading on one input: as a static input of a loop in forward too, where one call runs several turns."""
        arrays = self._drawn(reading, number, gain)
        if reading.is_stepwise:
            once = replace(reading, steps=1)
            single = self._ran(once, [a[:1] for a in arrays], number)
            if single is not None and single.turns > 1:
                yield from self._static(reading, arrays, single)
        run = self._ran(reading, arrays, number)
        if run is not None:
            yield from self._judged(reading, arrays, run, is_static=False)

    def _static(self, reading: SampleReading, arrays: Sequence[Array], run: OriginalRun) -> Iterator[_Trial]:
        longer = replace(reading, steps=run.turns)
        repeated = [np.repeat(a[:1], run.turns, axis=0) for a in arrays]
        yield from self._judged(longer, repeated, run, is_static=True)

    def _ran(self, reading: SampleReading, arrays: Sequence[Array], number: int) -> OriginalRun | None:
        try:
            return run_original(self.private, self.forms, reading.calls(arrays), wide=self.wide, seed=number)
        except Exception as error:  # whatever the user's code raises
            self.failures.append(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            return None

    def _judged(
        self, reading: SampleReading, arrays: Sequence[Array], run: OriginalRun, *, is_static: bool
    ) -> Iterator[_Trial]:
        values = self._simulated(arrays)
        limits = bounds(self.network, values, self.known, DOUBLE if self.wide else SINGLE)
        sent = {p.name: values[p.name, "s"].astype(np.float64) for p in self.network.outputs}
        layout = replace(reading, is_stepwise=False) if is_static else reading
        outputs = matched_outputs(run, layout, len(arrays[0]), self.network, sent, limits)
        if len(outputs) < len(self.network.outputs):
            return
        spikes = matched_spikes(run, layout, self.network, values)
        membranes = matched_membranes(run, layout, self.network, values, limits)
        evidence = Evidence(
            self.network, values, limits, self.known, outputs, spikes, membranes, reading.batch, self.shapes
        )
        yield _Trial(reading, is_static, evidence.verdict())

    def _again(self, chosen: _Trial, number: int, gain: float) -> _Trial | None:
        """The reading that was chosen, on another input."""
        trials = self._tried(chosen.reading, number, gain)
        return next((t for t in trials if t.is_static == chosen.is_static), None)

    def _as_it_is(self, chosen: _Trial, gain: float) -> _Trial | None:
        """The module in its own precision, on the first input."""
        self.wide = False
        try:
            return self._again(chosen, 0, gain)
        finally:
            self.wide = True

    def _is_noisy(self, trial: _Trial, gain: float) -> bool:
        """True if the module does not repeat itself with another seed of torch's random numbers."""
        reading = replace(trial.reading, steps=1) if trial.is_static else trial.reading
        arrays = self._drawn(reading, 0, gain)
        runs = [
            run_original(
                self.private, self.forms, reading.calls([a[: reading.steps] for a in arrays]), wide=False, seed=s
            )
            for s in (1, 2)
        ]
        pairs = zip(runs[0].returned, runs[1].returned, strict=True)
        return any(
            not np.array_equal(a, b, equal_nan=True) for x, y in pairs for (_, a), (_, b) in zip(x, y, strict=True)
        )


def _unequal(trial: _Trial, chosen: _Trial) -> UnequalImport:
    verdict = trial.verdict
    assert verdict.difference is not None
    found = str(verdict.difference.text)
    place = str(verdict.difference).removesuffix(f": {found}")
    first = verdict.first_population
    text = f"{found}; {verdict.share_equal:.2%} of the outputs are equal"
    text += f"; the first population that differs: {first}" if first and first != verdict.difference else ""
    limit = f"the import has to compute the same as the module (random input, {trial.reading.words})"
    step = "report the module as a fault of the importer, or import with check=0 (--no-check) at your own risk"
    return UnequalImport(Problem(f"self-check: {place}", text, limit, step))
