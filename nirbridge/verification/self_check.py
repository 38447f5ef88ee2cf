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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UnequalImport, UsageError
from nirbridge.importers.by_hand.spec import reads_own
from nirbridge.importers.module_checks import LabelledData
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.importers.tracing.memory import VARIABLE, limit_of_user
from nirbridge.importers.tracing.run import deep_copy, preserved_module
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Port
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.timing import PREFIX
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.verification.large.check import LargeCheck
from nirbridge.verification.measured import measure_import
from nirbridge.verification.module_facts import (
    CALL,
    has_active_dropout,
    leaf_modules,
    module_tensors,
    network_multiplications,
    trial_bytes,
)
from nirbridge.verification.outcomes import AFFORDABLE, SelfCheck, outcome_of, skipped
from nirbridge.verification.random_inputs import finite_samples
from nirbridge.verification.sample_axes import EFFORTS, TrialEffort, TrialReading, trial_readings
from nirbridge.verification.trials import Trials

INPUTS = 2
"""Random inputs of a default check: one of the sample's own kind and a derived one."""
ROOM = 220_000_000
"""Bytes that a check takes at most; together with the import: 300 MB and 2.5 times the parameters."""


def self_check(
    module: Any,
    sample: Any,
    graph: Any,
    forms: NeuronSpecs,
    inputs: int | None,
    *,
    private: Callable[..., Any] | None = None,
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
        private: makes a copy of the module that may be run (default: a deep copy), with the function given, if any.
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
    network = from_nir(graph)
    samples = finite_samples(tuple(sample) if isinstance(sample, tuple | list) else (sample,))
    shapes, ports = [s.shape for s in samples], [p.shape for p in network.inputs]
    efforts = [e for e in EFFORTS if _fits(network, module, _natural(shapes, ports, e))]
    effort, cost = _effort(network, module, shapes, ports, number_of_inputs, efforts or EFFORTS)
    notes = str(graph.metadata.get(f"{PREFIX}notes", ""))
    if inputs is None and measure is None and (not efforts or cost > AFFORDABLE):
        large = LargeCheck(network, module, forms, samples, private, accepted, notes, limit_of_user() or ROOM)
        with preserved_module(module):
            found = large.outcome() or (skipped(f"about {cost:.1e} multiplications") if efforts else None)
        if found is not None:
            return found.document()
    if not efforts:
        return _out_of_room(network, module, _natural(shapes, ports, EFFORTS[-1]), measure).document()
    options = [r for r in trial_readings(shapes, ports, effort) if _fits(network, module, [r])]
    if reads_own(forms):  # no neuron is seen by its path: a wrong reading may be equal on outputs alone
        options = [r for r in options if r.has_axes(network.axes)] or options
    with preserved_module(module):
        trials = Trials(network, forms, samples, lambda: (private or deep_copy)(module), module_tensors(module))
        outcome = outcome_of(trials, options, number_of_inputs, accepted, notes)
        measured = None if measure is None else measure_import(trials, module, measure, limit_of_user() or ROOM)
    axis = None if are_axes_given else copied_axis(network)
    if axis is not None and outcome.outcome == "identical":
        raise UnequalImport(_copies(network, axis))
    text = outcome.text + "; dropout is off" if has_active_dropout(module) else outcome.text
    return replace(outcome, text=text, measured=measured).document()


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


def _copies(network: Network, axis: tuple[int, int]) -> Diagnostic:
    port, place = network.inputs[axis[0]], axis[1]
    found = f"the import holds {port.shape[place]} copies of its neurons, one for each part of axis {place}"
    limit = f"one time step was read as {port.shape}"
    step = "say which axes of the sample are batch and time, or import with check=0 (--no-check)"
    return Diagnostic(f"self-check: input {port.name!r}", found, limit, step)


# -- copied axes ---------------------------------------------------------------------------------------------------
# Axes of an input along which an imported network only copies itself.
#
# A batch or a time axis that was taken for values shows in this way, and in no comparison with the module: the module
# treats its batch alike. The network is run again with the parts in turned order. If outputs and membranes turn with
# the parts, and one part reaches no more neurons than those of one copy, the parts are independent copies. Membranes
# count since loud inputs make neurons with different weights fire alike.

_STEPS = 6


def copied_axis(network: Network) -> tuple[int, int] | None:
    """(number of an input, axis) of the first axis of that kind; None where there is none."""
    if not any(isinstance(part, Dense | Sparse | Conv) for p in network.projections for part in parts_of(p.operator)):
        return None
    for number, port in enumerate(network.inputs):
        axes = port.shape[:1] if _is_image(network, port) else port.shape
        for axis, size in enumerate(axes):
            if len(port.shape) > 1 and size > 1 and _is_copied(network, number, axis, size):
                return number, axis
    return None


def _is_image(network: Network, port: Port) -> bool:
    """True if a convolution takes the positions of the port as an image: its axes are neither batch nor time."""
    parts = (part for p in network.projections for part in parts_of(p.operator) if isinstance(part, Conv))
    is_one = (q.input_shape[0] == port.shape[0] and math.prod(q.input_shape) == port.size for q in parts)
    return len(port.shape) == 3 and any(is_one)


def _is_copied(network: Network, number: int, axis: int, size: int) -> bool:
    """True if a rotation of the input's parts rotates the parts of every output, and parts do not meet."""
    if not all(size in port.shape or port.size % size == 0 for port in network.outputs):
        return False
    source = np.random.default_rng(3)
    fed = {p.name: 8.0 * source.random((_STEPS, *p.shape)) for p in network.inputs}
    name = network.inputs[number].name
    usual, turned = (_values(network, {**fed, name: v}) for v in (fed[name], np.roll(fed[name], 1, axis=axis + 1)))
    if not all(_has_the_same(usual[p.name], turned[p.name]) for p in network.populations):
        return False
    reached = _reached(network, number, axis)
    if not any(np.any(reached[p.name]) for p in network.outputs) or any(
        np.count_nonzero(reached[p.name]) * size > p.size for p in (*network.populations, *network.outputs)
    ):
        return False
    return all(_moves_with(usual[p.name], turned[p.name], size) for p in network.outputs)


def _reached(network: Network, number: int, axis: int) -> dict[str, Array]:
    """The values that the first part of an axis of an input has an effect on, over any number of time steps."""
    source, ports = np.random.default_rng(3), (*network.inputs, *network.populations, *network.outputs)
    reached = {p.name: np.zeros(p.shape, bool) for p in ports}
    np.moveaxis(reached[network.inputs[number].name], axis, 0)[0] = True
    before = 0
    while before < (before := sum(map(np.count_nonzero, reached.values()))):
        for p in network.projections:
            values = np.where(reached[p.source], source.uniform(1.0, 2.0, reached[p.source].shape), 0.0)
            reached[p.target] |= np.asarray(apply(p.operator, values)) != 0
    return reached


def _moves_with(usual: Array, turned: Array, size: int) -> bool:
    if size not in usual.shape[1:]:  # values were joined in row-major order
        usual, turned = (a.reshape(len(a), size, -1) for a in (usual, turned))
    axes = (k for k in range(1, usual.ndim) if usual.shape[k] == size)
    return any(np.allclose(np.roll(usual, 1, axis=k), turned) for k in axes)


def _has_the_same(usual: Array, turned: Array) -> bool:
    """True if the neurons have the same membranes in each time step, in any order."""
    usual_sorted, turned_sorted = (np.sort(values.reshape(len(values), -1), axis=1) for values in (usual, turned))
    return np.allclose(usual_sorted, turned_sorted)


def _values(network: Network, fed: Mapping[str, Array]) -> dict[str, Array]:
    """Input of every output, and the membranes of every population before their reset."""
    probes = [
        *(Probe(p.name, ("u",)) for p in network.populations),
        *(Probe(p.name, ("s",)) for p in network.outputs),
    ]
    run = simulate(network, dict(fed), record=probes, dtype="float64", backend="numpy")
    return {name: values.astype(np.float64) for (name, _), values in run.recording.arrays.items()}
