"""Quantization of a retimed network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, ModelError, counted, did_you_mean, quoted
from nirbridge.network.model import Network
from nirbridge.network.neurons import beyond_kernels, floored
from nirbridge.passes.retiming.retime import early_notes
from nirbridge.quantization.folding import FoldedPopulation, fold_population
from nirbridge.quantization.formats import formats_of, plain_formats
from nirbridge.quantization.legality import feature_problems, with_known_resets
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.quantization.operators import gained_operator, weights_of
from nirbridge.quantization.options import QuantizationOptions, bits_of, unknown_names
from nirbridge.quantization.overflow import OutputRange
from nirbridge.quantization.population import QuantizedPopulation, quantize_population
from nirbridge.quantization.scales import IncomingOperator, input_range
from nirbridge.quantization.weights import weight_range


def quantize(retimed: Any, chip: Chip, options: QuantizationOptions | None = None) -> QuantizedNetwork:
    """Quantize a network to the fixed-point arithmetic of a chip.

    Args:
        retimed: a ``RetimedNetwork``, or a ``Network`` whose projections
            into populations have delays of 1 time step or more.
        chip: whose number formats are used.
        options: see ``QuantizationOptions``.

    Raises:
        ModelError: everything that the chip's neurons cannot do, population by population.
        UsageError: a chip without number formats, or options that make no sense.
    """
    settings = options or QuantizationOptions()
    formats_of(chip)
    as_given: Network = getattr(retimed, "network", retimed)
    ModelError.raise_all(quantization_problems(as_given, chip, settings))
    network = with_known_resets(as_given, chip)
    latency: Mapping[str, int] = getattr(retimed, "latency", {})
    inputs = tuple(_input(port.name, port.shape, settings) for port in network.inputs)
    results, early = _populations(network, retimed, inputs, chip, settings)
    problems = [problem for result in results for problem in result.problems]
    is_lost = any(problem.ids.get("rule") == "zeros" for problem in problems)  # its scale makes all spikes early
    ModelError.raise_all(p for p in problems if not (is_lost and p.ids.get("rule") == "early"))
    outputs = {port.name for port in network.outputs}
    nodes = (*network.inputs, *network.populations, *network.outputs)
    return QuantizedNetwork(
        chip=chip.name,
        dt=network.dt,
        populations=tuple(result.population for result in results),
        projections=tuple(sorted((p for result in results for p in result.projections), key=lambda p: p.index)),
        inputs=inputs,
        outputs=network.outputs,
        reads=tuple(p for p in network.projections if p.target in outputs),
        latency=MappingProxyType({**{node.name: 0 for node in nodes}, **latency}),
        formats=MappingProxyType(plain_formats(chip)),
        report=tuple(result.report for result in results),
        notes=(*network.notes, *(note for note in early_notes(early, latency) if note not in network.notes)),
        network=network,
        early=early,
        axes=network.axes,
    )


def _populations(
    network: Network, retimed: Any, inputs: tuple[FixedInput, ...], chip: Chip, options: QuantizationOptions
) -> tuple[list[QuantizedPopulation], tuple[str, ...]]:
    """Every population in integers, and those that act before their first time step, where that is accepted."""
    latency: Mapping[str, int] = getattr(retimed, "latency", {})
    early: set[str] = set(getattr(retimed, "early", ()))
    waits = {p.name: 0 if p.name in early else latency.get(p.name, 0) for p in network.populations}
    folded = {p.name: fold_population(network, p, waits[p.name]) for p in network.populations}
    into, sent = _incoming(network, folded, inputs, chip, options)
    results: list[QuantizedPopulation] = []
    for k, p in enumerate(network.populations):
        most = sent[p.name].high
        result = quantize_population(network, folded[p.name], into[p.name], chip, options, (waits[p.name], most))
        if getattr(retimed, "keep_early_spikes", False) and any(x.ids.get("rule") == "early" for x in result.problems):
            result = quantize_population(
                network, fold_population(network, p, 0), into[p.name], chip, options, (0, most)
            )
            early.add(p.name)  # only its integers have no such initial state
        results.append(result)
        options.progress("quantize", (k + 1) / len(network.populations))
    return results, tuple(p.name for p in network.populations if p.name in early)


def _input(name: str, shape: tuple[int, ...], options: QuantizationOptions) -> FixedInput:
    if name not in options.graded:
        return FixedInput(name, shape)
    size, bits = options.graded[name]
    last = (1 << (bits - 1)) - 1
    return FixedInput(name, shape, last, size / last)


def _incoming(
    network: Network,
    folded: Mapping[str, FoldedPopulation],
    inputs: tuple[FixedInput, ...],
    chip: Chip,
    options: QuantizationOptions,
) -> tuple[dict[str, list[IncomingOperator]], dict[str, OutputRange]]:
    """The real operators into each population, with its gain, and the range of each source."""
    worth = {p.name: p.scale for p in inputs}
    sent = {p.name: OutputRange(-p.value_max if p.graded else 0, p.value_max) for p in inputs}
    into: dict[str, list[IncomingOperator]] = {p.name: [] for p in network.populations}
    for p in network.populations:
        sent[p.name] = OutputRange(0, min(p.neuron.max_spikes, np.iinfo(np.int16).max))
    for p in network.populations:  # causal order, so that most sources are bounded before their targets
        for index, projection in enumerate(network.projections):
            if projection.target == p.name:
                gain = folded[p.name].gain * worth.get(projection.source, 1.0)
                operator = gained_operator(projection.operator, np.asarray(gain))
                bits = bits_of(projection, chip, options)
                span = weight_range(weights_of(operator), bits, options.clip.get(index, 1.0))
                into[p.name].append(IncomingOperator(index, operator, span, sent[projection.source]))
        if p.neuron.max_spikes > 1:
            sent[p.name] = OutputRange(0, _most_spikes(folded[p.name], into[p.name], sent[p.name].high))
    return into, sent


def _most_spikes(folded: FoldedPopulation, incoming: list[IncomingOperator], declared: int) -> int:
    """Bound on the spikes of one time step, where they take v back below its threshold."""
    n, theta = folded.neuron, folded.theta
    if (
        theta is None
        or n.reset == "none"
        or beyond_kernels(n)
        or (n.reset == "subtract" and not np.all(n.reset_amount >= theta))
    ):
        return declared
    gone = float(np.min(np.maximum(1.0 - folded.a_syn, 1 / 4096)))
    drive = input_range(incoming, folded.population.size).high / gone + float(np.max(folded.bias))
    carried = max(float(np.max(level)) for level in (theta, floored(folded, folded.v_start)))
    return max(1, min(declared, int(1.05 * (carried + drive) / float(np.min(theta))) + 2))


def quantization_problems(network: Network, chip: Chip, options: QuantizationOptions) -> Iterator[Diagnostic]:
    """Every reason why the network cannot be quantized for the chip."""
    yield from feature_problems(network, chip, lambda p: bits_of(p, chip, options))
    yield from _delay_problems(network, chip)
    yield from unknown_names(network, options)
    yield from _input_problems(network, chip, options)
    names = {p.name for p in network.populations}
    for name, scale in options.scales.items():
        if name not in names or not (np.isfinite(scale) and scale > 0):
            yield Diagnostic(
                f"scale of {quoted(name)}", f"{scale:g}", "a number above 0, of a population of the network"
            )


def _delay_problems(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    """Delays of a network on the chip: a hop takes one time step of every delay, the synapse stores the others."""
    inside, longest = {p.name for p in network.populations}, chip.core.delay_steps
    for p in network.projections:
        if p.target not in inside:
            continue
        least, most = int(p.delay_steps.min()), int(p.delay_steps.max())
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        if least < 1 or bool(np.any(p.target_delay_steps)):
            found = "a delay per target" if np.any(p.target_delay_steps) else f"a delay of {least} time steps"
            yield Diagnostic(
                subject, found, "every hop on a chip takes a time step", "retime the network first (passes.Retime)"
            )
        elif longest is not None and most - 1 > longest:
            limit = f"a hop of chip {quoted(chip.name)} and its synapse delay by at most {longest + 1:,} time steps"
            step = "retime the network with delay_steps_max (passes.Retime)"
            yield Diagnostic(subject, f"a delay of {most:,} time steps", limit, step)


def _input_problems(network: Network, chip: Chip, options: QuantizationOptions) -> Iterator[Diagnostic]:
    names = {port.name for port in network.inputs}
    shown = ", ".join(map(quoted, sorted(names)))
    for name, (size, bits) in options.graded.items():
        subject = f"input {quoted(name)}"
        if name not in names:
            yield Diagnostic(
                subject, "the network has no input of that name", f"its inputs are {shown}", did_you_mean(name, names)
            )
        if not chip.neuron.graded_spikes:
            step = "turn values into spikes first (simulators.encoders: rate or latency code)"
            yield Diagnostic(subject, "graded values", f"chip {quoted(chip.name)} sends 0 or 1", step)
        if not (np.isfinite(size) and size > 0 and 2 <= bits <= 24):
            yield Diagnostic(
                subject, f"values up to {size:g} in {counted(bits, 'bit')}", "sizes are above 0, bits 2 to 24"
            )
