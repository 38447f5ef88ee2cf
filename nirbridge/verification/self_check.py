"""The self-check of an import: the module and the imported network on the same random inputs.

The module runs on its own natural input, of the shape that the user has; the network gets the same values in its own
layout. Neither the importer's understanding of the axes nor its reading of any neuron is used. Both run in float64
(copies; surrogates and constants that the framework creates in float32 are widened), and the module once more in its
own precision, which shows effects of that precision alone (autocast). Compared are the outputs, the spikes of every
population whose module is found by its path, and the membranes where the framework exposes them; ``rounding`` derives
how far rounding may move a membrane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nirbridge.errors import Diagnostic, UnequalImport, UsageError
from nirbridge.importers.labelled_data import LabelledData
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.importers.tracing.memory import VARIABLE, limit_of_user
from nirbridge.importers.tracing.run import deep_copy, preserved_module
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.timing import PREFIX
from nirbridge.verification.copied_axes import copied_axis
from nirbridge.verification.measured import Measurement, measure_import
from nirbridge.verification.module_facts import (
    has_active_dropout,
    leaf_modules,
    module_tensors,
    network_multiplications,
    parameter_count,
    trial_bytes,
)
from nirbridge.verification.random_inputs import finite_samples
from nirbridge.verification.sample_axes import EFFORTS, TrialEffort, TrialReading, trial_readings
from nirbridge.verification.spike_differences import SpikeDifference, added, differences_text
from nirbridge.verification.trials import Trial, Trials

INPUTS = 2
"""Random inputs of a default check: one of the sample's own kind and a derived one."""
AFFORDABLE = 100_000_000
"""Multiplications of all runs up to which the check is a default: a quarter of a second of one core."""
ROOM = 220_000_000
"""Bytes that a check takes at most; together with the import: 300 MB and 2.5 times the parameters."""
CALL = 10_000
"""Multiplications that take as long as one call of a layer without any (some 30 microseconds)."""
_RISK = "report the module as a fault of the importer, or import with check=0 (--no-check) at your own risk"


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """``outcome``: ``identical``, ``accepted`` (deviations that the user accepts), ``noise``, ``skipped``, ``not-run``.

    ``outputs``: values compared; ``ties``: samples whose first difference rounding decides, in words; ``populations``:
    spikes of both, with accepted deviations; ``measured``: both on the user's data.
    """

    outcome: str
    text: str
    outputs: int = 0
    inputs: int = 0
    ties: tuple[str, ...] = ()
    populations: tuple[SpikeDifference, ...] = ()
    measured: Measurement | None = None

    def document(self) -> dict[str, Any]:
        """The outcome as plain JSON; spikes by population and a measurement where there are any."""
        more: dict[str, Any] = {"populations": [one.document() for one in self.populations]}
        more["measured"] = None if self.measured is None else self.measured.document()
        values = {**asdict(self), "ties": list(self.ties), **more}
        return {name: value for name, value in values.items() if name not in more or value}


def self_check(
    module: Any,
    sample: Any,
    graph: Any,
    forms: NeuronSpecs,
    inputs: int | None,
    *,
    private: Callable[[Any], Any] | None = None,
    accepted: Sequence[str] = (),
    are_axes_given: bool = False,
    measure: LabelledData | None = None,
) -> dict[str, Any]:
    """Compare ``graph`` with the module that it was imported from.

    Args:
        module: the user's module; neither it nor torch's random numbers are changed.
        sample: the sample that was given to the importer.
        graph: the ``nir.NIRGraph``.
        forms: the neuron classes of the framework.
        inputs: how many random inputs to compare; None: two, where the module is cheap. None are compared where one
            takes too much memory.
        private: makes a copy of the module that may be run (default: a deep copy).
        accepted: deviations that the user accepted; then a difference is stated and not raised.
        are_axes_given: the user stated which axes are batch and time.
        measure: labelled data on which both are run too; then the check is made whatever it costs.

    Returns:
        The outcome, as ``SelfCheck.document`` gives it.

    Raises:
        UnequalImport: the two differ by more than rounding.
        UsageError: data that do not fit, or no check that could find their axes.
    """
    number_of_inputs = INPUTS if inputs is None else inputs
    is_default = inputs is None and measure is None
    if is_default and parameter_count(module) * (number_of_inputs + 1) * EFFORTS[-1].steps > AFFORDABLE:
        return skipped(f"{parameter_count(module):,} parameters").document()
    network = from_nir(graph)
    samples = finite_samples(tuple(sample) if isinstance(sample, tuple | list) else (sample,))
    shapes, ports = [s.shape for s in samples], [p.shape for p in network.inputs]
    efforts = [e for e in EFFORTS if _fits(network, module, _natural(shapes, ports, e))]
    if not efforts:
        return _out_of_room(network, module, _natural(shapes, ports, EFFORTS[-1]), measure).document()
    effort, cost = _effort(network, module, shapes, ports, number_of_inputs, efforts)
    if is_default and cost > AFFORDABLE:
        return skipped(f"about {cost:.1e} multiplications").document()
    options = [r for r in trial_readings(shapes, ports, effort) if _fits(network, module, [r])]
    with preserved_module(module):
        trials = Trials(network, forms, samples, lambda: (private or deep_copy)(module), module_tensors(module))
        notes = str(graph.metadata.get(f"{PREFIX}notes", ""))
        outcome = outcome_of(trials, options, number_of_inputs, accepted, notes)
        measured = None if measure is None else measure_import(trials, module, measure, limit_of_user() or ROOM)
    axis = None if are_axes_given else copied_axis(network)
    if axis is not None and outcome.outcome == "identical":
        raise UnequalImport(_copies(network, axis))
    text = outcome.text + "; dropout is off" if has_active_dropout(module) else outcome.text
    return replace(outcome, text=text, measured=measured).document()


def skipped(why: str) -> SelfCheck:
    """No check, and why."""
    limit = f"by default at most {AFFORDABLE:,} multiplications in all runs"
    return SelfCheck("skipped", f"skipped: {why}, {limit}; force it with check=1 (--check 1)")


def _natural(shapes: Sequence[Any], ports: Sequence[Any], effort: TrialEffort) -> list[TrialReading]:
    """The readings but those with more time steps, which are tried where forward accepts nothing else."""
    return trial_readings(shapes, ports, replace(effort, longer=effort.steps))


def _fits(network: Network, module: Any, options: Sequence[TrialReading]) -> bool:
    limit = limit_of_user() or ROOM
    return all(trial_bytes(network, module, r.steps, r.samples) <= limit for r in options)


def _out_of_room(
    network: Network, module: Any, options: Sequence[TrialReading], measure: LabelledData | None
) -> SelfCheck:
    size = max(trial_bytes(network, module, r.steps, r.samples) for r in options)
    limit = f"it may take {limit_of_user() or ROOM:,}; set {VARIABLE}={size} for more"
    found = f"the check would take about {size:,} bytes of memory"
    if measure is not None:
        raise UsageError.of("measure", f"no self-check finds the axes of the data: {found}", limit, "or measure a part")
    return SelfCheck("skipped", f"skipped: {found}, {limit}")


def _effort(
    network: Network,
    module: Any,
    shapes: Sequence[Any],
    ports: Sequence[Any],
    inputs: int,
    efforts: Sequence[TrialEffort] = EFFORTS,
) -> tuple[TrialEffort, float]:
    """The most thorough effort that is affordable, else the least, and its cost."""
    per_step, per_call = network_multiplications(network), CALL * leaf_modules(module)
    cost = 0.0
    for effort in efforts:
        first: Sequence[TrialReading] = trial_readings(shapes, ports, effort)[:1]
        cost = (inputs + 1) * sum(r.steps * (r.samples * per_step + per_call) for r in first)
        if cost <= AFFORDABLE:
            return effort, cost
    return efforts[-1], cost


def outcome_of(
    trials: Trials, options: Sequence[TrialReading], inputs: int, accepted: Sequence[str] = (), notes: str = ""
) -> SelfCheck:
    """The module and the import on several inputs, under the reading that fits. Raises UnequalImport."""
    first: list[Trial] = []
    for candidate in trials.candidates(options):
        tried = _on_every_input(trials, candidate, inputs)
        refuting = [trial for trial in tried if trial.verdict.difference is not None]
        first = first or tried
        trials.chosen = (first if refuting else tried)[0]
        if not refuting:
            return _identical(tried, inputs)
        trials.refuted += refuting
    if not first:
        found = "the module and the import could not be compared on any random input"
        return SelfCheck("not-run", f"not run: {found} ({trials.why(notes)})")
    return _differing(trials, first, inputs, accepted)


def _on_every_input(trials: Trials, candidate: Trial, inputs: int) -> list[Trial]:
    done = [candidate, *(trials.again(candidate, number) for number in range(1, inputs))]
    done += [trials.in_own_precision(candidate)] if trials.wide else []
    return [trial for trial in done if trial is not None]


def _differing(trials: Trials, tried: Sequence[Trial], inputs: int, accepted: Sequence[str]) -> SelfCheck:
    if trials.is_noisy(tried[0]):
        return SelfCheck("noise", "not compared: the module itself gives different outputs for the same input")
    if accepted:
        share = min(trial.verdict.share_equal for trial in tried)
        text = f"{share:.2%} of the outputs are equal, with the deviations accepted: {', '.join(accepted)}"
        spikes = added(trial.verdict.spikes for trial in tried[:inputs])
        text += f"; {differences_text(spikes)}" if spikes else ""
        return SelfCheck("accepted", text, sum(t.verdict.outputs for t in tried), inputs, populations=spikes)
    raise UnequalImport(_unequal(next(trial for trial in tried if trial.verdict.difference is not None)))


def _identical(trials: Sequence[Trial], inputs: int) -> SelfCheck:
    outputs = sum(t.verdict.outputs for t in trials)
    ties = tuple(str(tie) for t in trials for tie in t.verdict.ties)
    fired, neurons = max((t.verdict.fired, t.verdict.neurons) for t in trials)
    number = "1 random input" if inputs == 1 else f"{inputs} random inputs"
    text = f"identical on {outputs:,} outputs ({number}, {trials[0].reading.words}"
    text += f"; {fired:,} of {neurons:,} neurons fired)" if neurons else ")"
    text += f"; rounding decides the first difference of {len(ties)} samples: {ties[0]}" if ties else ""
    return SelfCheck("identical", text, outputs, inputs, ties)


def _unequal(trial: Trial) -> Diagnostic:
    verdict = trial.verdict
    assert verdict.difference is not None
    found = str(verdict.difference.text)
    place = str(verdict.difference).removesuffix(f": {found}")
    first = verdict.first_population
    text = f"{found}; {verdict.share_equal:.2%} of the outputs are equal"
    text += f"; the first population that differs: {first}" if first and first != verdict.difference else ""
    limit = f"the import must compute the same as the module (random input, {trial.reading.words})"
    return Diagnostic(f"self-check: {place}", text, limit, _RISK)


def _copies(network: Network, axis: tuple[int, int]) -> Diagnostic:
    port, place = network.inputs[axis[0]], axis[1]
    found = f"the import holds {port.shape[place]} copies of its neurons, one for each part of axis {place}"
    limit = f"one time step was read as {port.shape}"
    step = "say which axes of the sample are batch and time, or import with check=0 (--no-check)"
    return Diagnostic(f"self-check: input {port.name!r}", found, limit, step)
