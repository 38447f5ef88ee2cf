"""Quantization of a retimed network."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import ModelError
from nirbridge.network.model import Network
from nirbridge.passes.retiming.retime import early_notes
from nirbridge.quantization.folding import FoldedPopulation, fold_population
from nirbridge.quantization.formats import formats_of, plain_formats
from nirbridge.quantization.legality import with_known_resets
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.quantization.operators import gained_operator, weights_of
from nirbridge.quantization.options import QuantizationOptions, bits_of
from nirbridge.quantization.overflow import OutputRange
from nirbridge.quantization.population import QuantizedPopulation, quantize_population
from nirbridge.quantization.scales import IncomingOperator, input_range
from nirbridge.quantization.unsupported import quantization_problems
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
    chosen = options or QuantizationOptions()
    formats_of(chip)
    network = _accepted(getattr(retimed, "network", retimed), chip, chosen)
    latency: Mapping[str, int] = getattr(retimed, "latency", {})
    inputs = tuple(_input(port.name, port.shape, chosen) for port in network.inputs)
    made, early = _populations(network, retimed, inputs, chip, chosen)
    problems = [problem for one in made for problem in one.problems]
    ModelError.raise_all(problems)
    outputs = {port.name for port in network.outputs}
    return QuantizedNetwork(
        chip=chip.name,
        dt=network.dt,
        populations=tuple(one.population for one in made),
        projections=tuple(sorted((p for one in made for p in one.projections), key=lambda p: p.index)),
        inputs=inputs,
        outputs=network.outputs,
        reads=tuple(p for p in network.projections if p.target in outputs),
        latency=MappingProxyType({**_every_node(network), **latency}),
        formats=MappingProxyType(plain_formats(chip)),
        report=tuple(one.report for one in made),
        notes=(*network.notes, *(note for note in early_notes(early, latency) if note not in network.notes)),
        network=network,
        early=early,
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
    made: list[QuantizedPopulation] = []
    for k, p in enumerate(network.populations):
        most = sent[p.name].high
        one = quantize_population(network, folded[p.name], into[p.name], chip, options, (waits[p.name], most))
        if getattr(retimed, "keep_early_spikes", False) and any(x.ids.get("rule") == "early" for x in one.problems):
            one = quantize_population(network, fold_population(network, p, 0), into[p.name], chip, options, (0, most))
            early.add(p.name)  # only its integers have no such initial state
        made.append(one)
        options.progress("quantize", (k + 1) / len(network.populations))
    return made, tuple(p.name for p in network.populations if p.name in early)


def _accepted(network: Network, chip: Chip, options: QuantizationOptions) -> Network:
    """The network as the chip runs it. Raises ModelError with everything that the chip or the options refuse."""
    ModelError.raise_all(quantization_problems(network, chip, options))
    return with_known_resets(network, chip)


def _every_node(network: Network) -> dict[str, int]:
    return {node.name: 0 for node in (*network.inputs, *network.populations, *network.outputs)}


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
                found = weight_range(weights_of(operator), bits, options.clip.get(index, 1.0))
                into[p.name].append(IncomingOperator(index, operator, found, sent[projection.source]))
        if p.neuron.max_spikes > 1:
            sent[p.name] = OutputRange(0, _most_spikes(folded[p.name], into[p.name], sent[p.name].high))
    return into, sent


def _most_spikes(folded: FoldedPopulation, incoming: list[IncomingOperator], declared: int) -> int:
    """Bound on the spikes of one time step, where they take v back below its threshold."""
    n, theta = folded.neuron, folded.theta
    if theta is None or n.reset == "none" or (n.reset == "subtract" and not np.all(n.reset_amount >= theta)):
        return declared
    gone = float(np.min(np.maximum(1.0 - folded.a_syn, 1 / 4096)))
    drive = input_range(incoming, folded.population.size).high / gone + float(np.max(folded.bias))
    carried = max(float(np.max(theta)), float(np.max(folded.v_start)))
    return max(1, min(declared, int(1.05 * (carried + drive) / float(np.min(theta))) + 2))
