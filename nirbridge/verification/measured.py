"""Accuracy of a module and of its import on the user's labelled data.

The data have the axes that the self-check found: those of the sample, with another batch size. A module that is called
once per time step is given data with a leading time axis, or each sample in ``HELD`` time steps. Decisions are those of
the largest sum over time of the last output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.importers.ann.replay import arrays_by_input, value_problem
from nirbridge.importers.module_checks import LabelledData, has_float64
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.verification.matching import MatchedValues, matched_outputs, matched_spikes
from nirbridge.verification.module_facts import trial_bytes
from nirbridge.verification.original_runs import run_original
from nirbridge.verification.rounding import RoundingBounds
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.spike_differences import SpikeDifference, added, differences_text, spike_differences
from nirbridge.verification.trials import STATIC, STEPS, Trial, Trials

HELD = 32
"""Time steps in which a sample without a time axis is given to a module that is called once per time step."""
BATCH = 256
_NEARLY = 1e-4
"""Values differ by more than this share of the largest one."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Shares of right decisions of both, of equal decisions, and of different values of the output."""

    samples: int
    steps: int
    module_accuracy: float
    import_accuracy: float
    alike: float
    outputs_differ: float
    populations: tuple[SpikeDifference, ...]

    @property
    def text(self) -> str:
        """One line."""
        size = f"{counted(self.samples, 'sample')} of {counted(self.steps, 'time step')}"
        right = f"accuracy {self.module_accuracy:.1%} (module) and {self.import_accuracy:.1%} (import)"
        spikes = differences_text(self.populations)
        return (
            f"{right} on {size}; {self.alike:.1%} of the decisions and {1 - self.outputs_differ:.2%} of the outputs "
            "are equal" + (f"; {spikes}" if spikes else "")
        )

    def document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "populations": [one.document() for one in self.populations], "text": self.text}


def measure_import(trials: Trials, module: Any, data: LabelledData, room: int) -> Measurement:
    """Run both on the data, in batches that take at most ``room`` bytes.

    Raises:
        UsageError: data that do not fit the axes, labels that do not fit the output, a module that fails on them.
    """
    trial = trials.chosen
    if trial is None or trial.form not in (STEPS, STATIC):
        found = "the self-check could not find how the module takes batch and time"
        step = "give a sample as the module takes it, with batch and time as axes of their own"
        raise UsageError.of("measure", found, "the data are read as the module takes them", step)
    sequences = _sequences(trials, trial, data)
    steps, samples = sequences[0].shape[:2]
    per_sample = trial_bytes(trials.network, module, steps, 1) - trial_bytes(trials.network, module, 0, 0)
    size = 1 if trial.reading.batch is None else max(1, min(BATCH, room // per_sample))
    decided: list[Array] = []
    unequal, values, spikes = 0, 0, list[Sequence[SpikeDifference]]()
    for start in range(0, samples, size):
        part = [s[:, start : start + size] for s in sequences]
        output, populations = _run(trials, trial, part, wide=has_float64(module))
        decided.append(_decisions(output, data.labels))
        unequal, values = unequal + _unequal(output), values + output.original.size
        spikes.append(spike_differences(populations))
    own, imported = np.concatenate(decided, axis=1)
    rights = (float(np.mean(own == data.labels)), float(np.mean(imported == data.labels)))
    return Measurement(samples, steps, *rights, float(np.mean(own == imported)), unequal / values, added(spikes))


# -- data ------------------------------------------------------------------------------------------------------------


def _sequences(trials: Trials, trial: Trial, data: LabelledData) -> list[Array]:
    """The inputs as ``[steps, samples, values]``, in the order of the module's arguments."""
    by_name = arrays_by_input(data.inputs, trials.network.inputs, "data of measure")
    arrays = [by_name[port.name] for port in trials.network.inputs]
    names = [f"data of measure of input {quoted(port.name)}" for port in trials.network.inputs]
    for name, array in zip(names, arrays, strict=True):
        problem = value_problem(array)
        if problem:
            raise UsageError.of(name, *problem)
    shapes = trial.reading.step_shapes
    found = [_sequence(trial, a, shape, name) for a, shape, name in zip(arrays, shapes, names, strict=True)]
    sizes = {sequence.shape[:2] for sequence in found}
    if len(sizes) > 1:
        limit = "every input needs the same numbers of time steps and samples"
        raise UsageError.of("data of measure", f"sizes {sorted(sizes)}", limit, "give the same to every input")
    samples = found[0].shape[1]
    if samples != len(data.labels):
        found_labels = f"{counted(len(data.labels), 'label')} for {counted(samples, 'sample')}"
        limit = f"read as {' or '.join(_layouts(trial, shapes[0]))}"
        raise UsageError.of("labels of measure", found_labels, limit, "give one class per sample")
    return found


def _sequence(trial: Trial, array: Array, shape: Shape, name: str) -> Array:
    reading, extra = trial.reading, array.ndim - len(shape)
    if reading.is_stepwise:
        if extra == 1 and array.shape[1:] == shape:
            steps = trial.size // reading.samples if trial.form == STATIC else HELD
            return np.broadcast_to(array.reshape(1, len(array), -1), (steps, len(array), math.prod(shape)))
        if extra == 2 and array.shape[2:] == shape and trial.form == STEPS:
            return array.reshape(*array.shape[:2], -1)
    elif extra == 2 and reading.time is not None:
        rank = array.ndim
        places = (reading.time % rank, reading.batch % rank) if reading.batch is not None else (0, 0)
        places = places if reading.batch is not None else (1 + reading.time % (rank - 1), 0)
        moved = np.moveaxis(array, places, (0, 1))
        if moved.shape[2:] == shape:
            return moved.reshape(*moved.shape[:2], -1)
    limit = f"the self-check read the sample as {reading.words}"
    step = f"give {' or '.join(_layouts(trial, shape))}"
    raise UsageError.of(name, f"shape {array.shape}", limit, step)


def _layouts(trial: Trial, shape: Shape) -> Iterator[str]:
    """The axes that data may have, in words."""
    values, reading = [str(n) for n in shape], trial.reading
    if reading.is_stepwise:
        yield f"[{', '.join(['samples', *values])}]"
        if trial.form == STEPS:
            yield f"[{', '.join(['time', 'samples', *values])}]"
    elif reading.batch is None:
        yield f"[samples, {reading.words.partition(']')[0].removeprefix('[')}]"
    else:
        yield reading.words.partition("]")[0].replace("batch", "samples") + "]"


# -- runs ------------------------------------------------------------------------------------------------------------


def _run(
    trials: Trials, trial: Trial, arrays: Sequence[Array], *, wide: bool
) -> tuple[MatchedValues, list[MatchedValues]]:
    """The last output of both, and the spikes of their populations."""
    steps, samples = arrays[0].shape[:2]
    reading: TrialReading = replace(trial.reading, steps=1 if trial.form == STATIC else steps, samples=samples)
    given = [np.asarray(a, np.float32) for a in arrays]
    try:
        run = run_original(trials.private, trials.forms, reading.calls(given), wide=wide, seed=0)
    except Exception as error:  # whatever the user's code raises
        text = f"the module fails on the data: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        step = "give data as the module takes them, with as many time steps as it needs"
        raise UsageError.of("measure", text, f"read as {trial.reading.words}", step) from error
    if run.probes and all(probe.steps != steps for probe in run.probes.values()):
        found = f"the module's neurons run {run.iterations} time steps on data of {steps}"
        step = "give data of as many time steps as forward runs"
        raise UsageError.of("measure", found, f"read as {trial.reading.words}, {counted(samples, 'sample')}", step)
    network = trials.network
    fed = {p.name: a.reshape(*a.shape[:2], *p.shape) for p, a in zip(network.inputs, given, strict=True)}
    nodes = [p.name for p in network.populations if p.neuron.fires] + [p.name for p in network.outputs]
    imported = simulate(network, fed, record=[Probe(name, ("s",)) for name in nodes]).recording.arrays
    bounds = RoundingBounds({}, {}, {p.name: np.zeros(()) for p in network.outputs})
    outputs = matched_outputs(run, samples, network, imported, bounds, trial.ways)
    if not outputs or outputs[-1].name != network.outputs[-1].name:
        found = "the last output of the network is no output of the module in these time steps"
        raise UsageError.of("measure", found, "decisions are those of its sums over time", "let forward return spikes")
    return outputs[-1], matched_spikes(run, network, imported)


def _decisions(output: MatchedValues, labels: Array) -> Array:
    """Classes that the module and the import decide for, ``[2, samples]``."""
    classes = output.original.shape[-1]
    if int(labels.max()) >= classes:
        limit = f"output {quoted(output.name)} has {counted(classes, 'value')}"
        raise UsageError.of("labels of measure", f"class {labels.max()}", limit, "number the classes from 0")
    return np.stack([side.sum(axis=0).argmax(axis=-1) for side in (output.original, output.imported)])


def _unequal(output: MatchedValues) -> int:
    size = float(np.max(np.abs(output.original), initial=0.0))
    return int(np.count_nonzero(np.abs(output.original - output.imported) > _NEARLY * size))
