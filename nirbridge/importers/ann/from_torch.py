"""A trained PyTorch ANN -> a spiking network with the same function, as NIR: rates of integrate-and-fire neurons.

Every ReLU becomes a population of integrate-and-fire neurons (threshold 1, soft reset); everything linear between two
of them becomes one projection with its constants. The input is constant over time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, UsageError, did_you_mean, quoted
from nirbridge.importers.ann.convert import (
    ConversionOptions,
    ConversionReport,
    ScaleChoice,
    ScaledNetwork,
    ScaleOptions,
    convert_ann,
    folding_note,
    report_document,
)
from nirbridge.importers.ann.rectifiers import FORMS, with_rectifiers
from nirbridge.importers.ann.replay import (
    calibration_arrays,
    check_replayable,
    checked_samples,
    folding_error,
    module_outputs,
    scale_samples,
    select_samples,
    walk_populations,
)
from nirbridge.importers.ann.spiking import Readout
from nirbridge.importers.by_hand import spec
from nirbridge.importers.emitted import is_emitted, network_of
from nirbridge.importers.frameworks import neuron_specs_in
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.lowering.described_graph import APPROXIMATE, KEY, module_to_graph, to_graph, with_self_check
from nirbridge.importers.module_checks import check_accepted, check_module
from nirbridge.importers.neuron_specs import DataflowGraph, NeuronSpec, distinct
from nirbridge.importers.sample import TimeAxis
from nirbridge.importers.tracing.run import copied, one_thread
from nirbridge.importers.tracing.trace import trace_module
from nirbridge.network import Network, Port
from nirbridge.network.axes import SAMPLE, TIME

LEAST_ERROR = "least-error"
DT = 1e-4
"""Seconds per time step where none are given."""


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """A converted network, as ``Network`` and as the ``nir.NIRGraph`` of it, and the report of the conversion."""

    network: Network
    graph: Any
    report: ConversionReport


def from_torch(
    module: Any,
    sample: Any,
    calibration: Any = None,
    *,
    dt: float | None = None,
    percentile: ScaleChoice = LEAST_ERROR,
    steps: int = 64,
    per_channel: bool = True,
    fair_start: bool = True,
    readout: Readout = "potential",
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """The ``nir.NIRGraph`` of a ``torch.nn.Module``: with neurons written by hand as it is, else converted to spikes.

    Without ``calibration``, the neurons of the module are recognised in the data flow of its forward, and the import is
    compared with the module on ``check`` random inputs (None: 2); ``time_axis`` is the axis of the sample that is time.
    A module that ``nirbridge emit --to torch`` wrote is read as it is. With ``calibration``, a trained ANN is
    converted; see ``convert_torch`` for all else.
    """
    if calibration is None and is_emitted(module):
        return _from_emitted(module, sample, dt)
    if calibration is None:
        check_module(module, dt)
        return module_to_graph(
            module,
            sample,
            spec.own_specs(),
            package="torch",
            dt=spec.DT if dt is None else dt,
            batched=batched,
            time_axis=time_axis,
            accept=accept,
            check=check,
            edit=lambda flow: spec.with_neurons(flow, module),
        )
    return convert_torch(
        module,
        sample,
        calibration,
        dt=DT if dt is None else dt,
        percentile=percentile,
        steps=steps,
        per_channel=per_channel,
        fair_start=fair_start,
        readout=readout,
        batched=batched,
        accept=accept,
        progress=progress,
    ).graph


def _from_emitted(module: Any, sample: Any, dt: float | None) -> Any:
    """A module that nirbridge wrote; ``dt``: None, that of its network."""
    check_module(module, dt)
    graph = to_graph(network_of(module, dt), f"torch {version('torch')}")
    return with_self_check(graph, module, sample, {}, None)


def convert_torch(
    module: Any,
    sample: Any,
    calibration: Any,
    *,
    dt: float = 1e-4,
    percentile: ScaleChoice = LEAST_ERROR,
    steps: int = 64,
    per_channel: bool = True,
    fair_start: bool = True,
    readout: Readout = "potential",
    batched: bool | None = None,
    accept: Sequence[str] = (),
    progress: Progress | None = None,
) -> Conversion:
    """Converts a trained ANN and says how well it went.

    Args:
        module: layers of Linear, Conv1d/2d, BatchNorm, ReLU, LeakyReLU and others that are linear in pieces, AvgPool,
            MaxPool, Flatten, Dropout, sums of branches. It is read in eval mode (a copy: the module stays as it is).
        sample: one input, with or without the batch axis, or a tuple of them: shapes only.
        calibration: typical inputs, ``[samples, *shape]`` (tensor or array; a tuple or a mapping of them for several
            inputs; for one input also a list of batches). Some hundreds of training samples are enough,
            without labels.
        dt: seconds per time step.
        percentile: the activation that a spike in every time step stands for: ``"least-error"`` (the scale of least
            mean squared error at ``steps``), ``"max"``, or a percentile of the activations such as 99.9.
        steps: how many steps the scales and start potentials are tuned for; the network runs for any number.
        per_channel: a scale for each channel (each neuron of a linear layer), else one for each population.
        fair_start: potentials start where the mean count on the calibration data is right, else exactly at half the
            threshold (which the populations that see the input alone always do).
        readout: ``"potential"``: outputs are potentials of integrators in the ANN's units, v / steps is the ANN's
            output, its sign kept; ``"spikes"``: outputs are spike counts on one scale, negative values are 0.
        batched: whether the sample has a batch axis (None: inferred).
        accept: names of known deviations to accept (``module_checks.DEVIATIONS``); all others are refused.
        progress: called with a stage and the share that is done.

    Raises:
        ModelError: layers that no spike rate stands for, every one with what to do instead.
        UsageError: options or calibration data that make no sense, all of them.
    """
    import torch

    check_module(module, dt)
    options = _options(dt, percentile, steps, per_channel, fair_start, readout)
    fixed = copied(module).eval() if module.training else module
    flow = rectified_flow(fixed, sample, batched)
    ann = replayable_network(flow, dt, check_accepted(accept))
    arrays = calibration_arrays(calibration, [Port(c.name, c.shape) for c in flow.inputs])
    available = len(next(iter(arrays.values())))
    arrays = select_samples(arrays, scale_samples(ann, available, searches=percentile == LEAST_ERROR))
    used = len(next(iter(arrays.values())))
    checked = select_samples(arrays, checked_samples(ann, used))
    with one_thread() if percentile == LEAST_ERROR else nullcontext():  # a search looks at so much data and no more
        computed = walk_populations(ann, _as_given(checked, ann))
        refs = [output.ref for output in flow.outputs]
        places = [refs.index(ref) for ref in dict.fromkeys(refs)]
        error, size = folding_error(ann, module_outputs(fixed, checked, ann.outputs, places), computed)
        converted = convert_ann(ann, _as_given(arrays, ann), options, progress)
    report = _report(converted, options, (available, used), error, size)
    notes, axes = (*converted.network.notes, folding_note(report)), (SAMPLE, f"{TIME}={steps}")
    network = replace(converted.network, notes=notes, axes=axes)
    graph = to_graph(network, f"torch {torch.__version__}, an ANN converted to spike rates")
    graph.metadata["nirbridge:conversion"] = json.dumps(report_document(report), sort_keys=True)
    graph.metadata[KEY] = json.dumps(dict(APPROXIMATE), sort_keys=True)
    _describe(graph, converted.scales, steps)
    return Conversion(converted.network, graph, report)


def rectified_flow(module: Any, sample: Any, batched: bool | None = None) -> DataflowGraph:
    """The data flow of an ANN with its ReLUs as neurons. Raises ModelError: every layer that cannot be converted."""
    flow = trace_module(module, sample, _spiking_forms(module), batched=batched, time_axis="none")
    rectified, problems = with_rectifiers(flow)
    if problems:
        ModelError.raise_all(distinct((*problems, *flow.problems)))
    return rectified


def replayable_network(flow: DataflowGraph, dt: float, accept: Sequence[str] = ()) -> Network:
    """The ANN as an unscaled network: populations are rectifiers (``ceiling``). Raises ModelError: every loop."""
    network = build_network(flow, FORMS, dt, accept=accept)
    check_replayable(network)
    return network


def _as_given(data: Mapping[str, Array], network: Network) -> dict[str, Array]:
    """Samples in the shapes of the network's inputs, which may differ from those of the module's arguments."""
    return {p.name: data[p.name].reshape(-1, *p.shape) for p in network.inputs}


def _spiking_forms(module: Any) -> dict[type, NeuronSpec]:
    """The neuron classes of the frameworks that a module has parts of: refused whole, not operation by operation."""
    return {cls: spec for specs in neuron_specs_in(module).values() for cls, spec in specs.items()}


def _options(
    dt: float, percentile: ScaleChoice, steps: int, per_channel: bool, fair_start: bool, readout: Readout
) -> ConversionOptions:
    problems: list[Diagnostic] = []
    if not (np.isfinite(dt) and dt > 0):
        problems.append(Diagnostic("dt", f"{dt}", "a finite number of seconds above 0", "correct it"))
    if steps < 1 or steps != int(steps):
        problems.append(Diagnostic("steps", f"{steps}", "a whole number of at least 1", "correct it"))
    named = isinstance(percentile, str)
    if not (percentile in (LEAST_ERROR, "max") if named else 0 < percentile <= 100):
        limit = "'least-error', 'max' or a number above 0 and up to 100"
        problems.append(Diagnostic("percentile", quoted(percentile), limit, "99.9 is a usual one"))
    if readout not in ("potential", "spikes"):
        hint = did_you_mean(readout, ("potential", "spikes")) or "choose one of them"
        problems.append(Diagnostic("readout", quoted(readout), "'potential' or 'spikes'", hint))
    UsageError.raise_all(problems)
    return ConversionOptions(float(dt), ScaleOptions(percentile, int(steps), per_channel), fair_start, readout)


def _report(
    converted: ScaledNetwork, options: ConversionOptions, samples: tuple[int, int], error: float, size: float
) -> ConversionReport:
    targets, reached = converted.wanted, converted.reached
    output_error = None
    if options.readout == "potential":
        off = [np.square(reached[n] - targets[n], dtype=np.float64).reshape(-1) for n in targets]
        output_error = float(np.sqrt(np.mean(np.concatenate(off))))
    agreeing = [
        np.argmax(reached[n].reshape(len(w), -1), 1) == np.argmax(w.reshape(len(w), -1), 1)
        for n, w in targets.items()
        if w[0].size > 1
    ]
    measured = len(next(iter(targets.values()))) if targets else 0
    decisions = float(np.mean(np.concatenate(agreeing))) if agreeing else None
    return ConversionReport(
        options.scales.steps, *samples, measured, error, size, output_error, decisions, converted.layers
    )


def _describe(graph: Any, scales: Mapping[str, Array], steps: int) -> None:
    """Store the scales in the graph: activation = spikes / steps * scale."""
    graph.metadata["nirbridge:converted_for_steps"] = steps
    for name, scale in scales.items():
        node = graph.nodes.get(name)
        if hasattr(node, "v_threshold"):  # the scale of an output port is that of the population in front of it
            node.metadata["nirbridge:activation_scale"] = np.array(np.broadcast_to(scale, node.v_threshold.shape))
