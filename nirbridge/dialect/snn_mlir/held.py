"""Legality check for snn-mlir, and the rewrite that moves gains into weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.dialect.snn_mlir.grammar import ELEMENTS, KINDS, SPIKING, kind_of
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.check import check_network
from nirbridge.network.compose import is_trivial, part_weights, parts_of, weight_field
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import EXTRAS, Neuron, extras_of
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, SumPool

WEIGHTS_MAX = 20_000_000
"""Weights of a text: each takes some 16 characters."""
OTHER_FORMATS = "nirbridge emit and the other stages of lower take every network"
_PARTS = {"Scale": "factors of its own for each element", "Sparse": "a sparse matrix"}
_CONSTANTS = {
    "a_mem": "decay", "a_syn": "decay of the current", "g_mem": "input gain", "g_syn": "gain of the current",
    "theta": "threshold", "v_reset": "reset value", "bias": "constant drive", "v_init": "first potential",
    "i_init": "first current", "refractory_steps": "refractory time",
}  # fmt: skip


def held_form(network: Network, dtype: str) -> Network:
    """Rewrite a network to gains of 1 and weights in ``dtype``, as snn-mlir requires.

    Gains that are powers of two move into weights and biases. No value is rounded: spikes and potentials are unchanged.

    Raises:
        ModelError: snn-mlir cannot represent the network; lists every reason.
    """
    check_network(network)
    ModelError.raise_all(_structure(network))
    ModelError.raise_all(
        [
            *(problem for p in network.populations for problem in _neuron(p, dtype)),
            *(problem for p in network.projections for problem in _operator(p)),
        ]
    )
    held = _with_gains_of_one(network, dtype)
    ModelError.raise_all(problem for p in held.projections for problem in _values(p, dtype))
    return replace(held, projections=tuple(_in_format(p, dtype) for p in held.projections))


def _problem(subject: str, found: str, limit: str, hint: str = OTHER_FORMATS) -> Diagnostic:
    return Diagnostic(subject, found, f"snn-mlir has {limit}", hint)


def _structure(network: Network) -> Iterator[Diagnostic]:
    """One chain from one input to one output, and populations that are self-recurrent with a delay of one time step."""
    for noun, ports in (("input", network.inputs), ("output", network.outputs)):
        if len(ports) != 1:
            yield _problem("network", counted(len(ports), noun), "one input and one output")
    yield from _ends(network)
    weights = sum(w.size for p in network.projections for part in parts_of(p.operator)
                  if (w := part_weights(part)) is not None)  # fmt: skip
    if weights > WEIGHTS_MAX:
        yield Diagnostic("network", f"{weights:,} weights", f"a text holds {WEIGHTS_MAX:,}", OTHER_FORMATS)
    yield from (problem for p in network.projections for problem in _delays(p))


def _ends(network: Network) -> Iterator[Diagnostic]:
    """Each source feeds one target, each population is fed, and an output is what a population gives."""
    reads = [p for p in network.projections if p.target in {o.name for o in network.outputs}]
    for p in reads:
        if not is_trivial(p.operator) or p.bias is not None or p.source in {i.name for i in network.inputs}:
            yield _problem(f"output {quoted(p.target)}", "is not what one population gives", "outputs of neurons")
    for end in (*network.inputs, *network.populations):
        if not end.shape:
            yield _problem(f"{_noun(network, end.name)} {quoted(end.name)}", "shape ()", "one axis or more")
        leaving = [p for p in network.projections if p.source == end.name and not p.is_back]
        if len(leaving) != 1:
            found = f"feeds {counted(len(leaving), 'target')} (a branch)" if leaving else "feeds nothing"
            yield _problem(f"{_noun(network, end.name)} {quoted(end.name)}", found, "one chain from input to output")
    for population in network.populations:
        if all(p.is_back for p in network.projections if p.target == population.name):
            yield _problem(f"population {quoted(population.name)}", "has no input", "one chain from input to output")


def _noun(network: Network, name: str) -> str:
    return "input" if name in {p.name for p in network.inputs} else "population"


def _delays(p: Projection) -> Iterator[Diagnostic]:
    subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
    if p.is_back and p.source != p.target:
        yield _problem(subject, "closes a cycle over several populations", "self-recurrent populations alone")
    if p.max_delay_steps != int(p.is_back) or p.min_delay_steps != int(p.is_back):
        own = " beside that of its cycle" if p.is_back else ""
        yield _problem(subject, f"a delay of up to {counted(p.max_delay_steps, 'time step')}", f"no delays{own}")


def _neuron(population: Population, dtype: str) -> Iterator[Diagnostic]:
    n, subject = population.neuron, f"population {quoted(population.name)}"
    if n.kind not in KINDS:
        yield _problem(subject, f"its neurons are of kind {quoted(n.kind)}", ", ".join(KINDS))
        return
    if n.fires != (KINDS[n.kind] in SPIKING):
        yield _problem(subject, f"{n.kind} {'with' if n.fires else 'without'} a threshold", "the kinds of NIR")
    for field, words in _CONSTANTS.items():
        value = getattr(n, field)
        if value is not None and value.size > 1:
            yield _problem(subject, f"a {words} of its own for each neuron", "one value for a population")
            return
    for field in _zeros(n):
        if getattr(n, field).item() != 0:
            yield _problem(subject, f"a {_CONSTANTS[field]} of {getattr(n, field).item():g}", "none")
    if n.fires and (n.reset != "to-value" or n.compare != ">" or n.max_spikes != 1):
        many = f", up to {n.max_spikes} spikes per time step" if n.max_spikes > 1 else ""
        found = f"reset {n.reset}, a spike where v {n.compare} threshold{many}"
        yield _problem(subject, found, "a reset to a value and one spike where v > threshold")
    for field in extras_of(n):
        yield _problem(subject, EXTRAS[field].noun, "none")
    if kind_of(KINDS[n.kind], n.a_mem.item()) != n.kind:
        yield _problem(subject, f"a decay of {n.a_mem.item():g} in kind {n.kind}", "a decay of 1 in integrators alone")
    yield from _gains(population, dtype)


def _zeros(n: Neuron) -> list[str]:
    """Fields of a neuron record that have to be 0."""
    fields = ["bias", "v_init", "i_init", "refractory_steps"]
    fields += ["a_syn"] if not n.has_synapse else []
    return [*fields, "v_reset"] if n.kind == "CubaLIF" else fields


def _gains(population: Population, dtype: str) -> Iterator[Diagnostic]:
    subject = f"population {quoted(population.name)}"
    gain = _gain(population, dtype)
    if gain <= 0 or math.frexp(gain)[0] != 0.5:
        found = f"an input gain of {gain:.8g}"
        hint = "give weights that have the gain in them, with r = tau / dt and w_in = tau_syn / dt"
        yield Diagnostic(subject, found, "snn-mlir has none; powers of two are moved into the weights", hint)


def _gain(population: Population, dtype: str) -> float:
    """The factor of the input, in the number format of the text."""
    n = population.neuron
    return float(np.dtype(dtype).type(n.g_mem.item() * n.g_syn.item()))


def _operator(p: Projection) -> Iterator[Diagnostic]:
    subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
    parts = parts_of(p.operator)
    for part in parts:
        name = type(part).__name__
        if name in _PARTS:
            yield _problem(subject, _PARTS[name], "dense matrices, convolutions and pools")
        elif isinstance(part, Conv) and (part.groups != 1 or set(part.dilation) != {1}):
            yield _problem(subject, f"a convolution of {part.groups} groups, dilation {part.dilation}", "neither")
        elif isinstance(part, SumPool) and (len(part.kernel) != 2 or not _is_pool(part)):
            yield _problem(
                subject, f"a pool over {len(part.kernel)} axes, times {part.factor:g}", "sums and means in 2-D"
            )
        if isinstance(part, Conv | SumPool) and any(low != high for low, high in part.padding):
            yield _problem(subject, f"padding of {part.padding}", "the same padding on both sides")
    if p.bias is not None and bias_of_part(p) is None:
        found = "a bias that is not one value for each output of a matrix, or each channel of a convolution"
        yield _problem(subject, found, "such biases alone")


def _is_pool(part: SumPool) -> bool:
    return part.factor in (1.0, 1.0 / math.prod(part.kernel))


def bias_of_part(p: Projection) -> Array | None:
    """The bias of a projection as that of its last matrix or convolution, before reshapes; None where it is none."""
    parts = [*parts_of(p.operator)]
    while parts and isinstance(parts[-1], Reshape | Identity):
        parts.pop()
    if p.bias is None or not parts or not isinstance(parts[-1], Dense | Conv):
        return None
    shaped = p.bias.reshape(parts[-1].output_shape)
    if isinstance(parts[-1], Dense):
        return shaped
    first = shaped.reshape(len(shaped), -1)[:, :1]
    return first[:, 0] if bool(np.all(shaped.reshape(len(shaped), -1) == first)) else None


def _with_gains_of_one(network: Network, dtype: str) -> Network:
    gains = {p.name: _gain(p, dtype) for p in network.populations}
    one = freeze(np.float64(1))
    populations = tuple(replace(p, neuron=replace(p.neuron, g_mem=one, g_syn=one)) for p in network.populations)
    projections = tuple(_scaled(p, gains.get(p.target, 1.0)) for p in network.projections)
    return replace(network, populations=populations, projections=projections)


def _scaled(p: Projection, gain: float) -> Projection:
    """Multiply weights and bias by the gain; drop a bias of zeros, which NIR files leave out, too."""
    p = replace(p, bias=None) if p.bias is not None and not p.bias.any() else p
    if gain == 1:
        return p
    parts = [*parts_of(p.operator)]
    last = max((k for k, part in enumerate(parts) if isinstance(part, Dense | Conv)), default=None)
    subject = f"population {quoted(p.target)}"
    if last is None:
        found = f"an input gain of {gain:g}, and no weights to multiply by it"
        raise ModelError.of(subject, found, "snn-mlir has no gain", OTHER_FORMATS)
    parts[last] = _times(parts[last], gain, subject)
    operator: Operator = parts[0] if len(parts) == 1 else Chain(tuple(parts))
    return replace(p, operator=operator, bias=None if p.bias is None else freeze(p.bias * gain))


def _times(part: Any, gain: float, subject: str) -> Any:
    field = weight_field(part)
    values = getattr(part, field)
    core = stored_part(values).astype(np.float64)
    scaled = (core * gain).astype(values.dtype if values.dtype.kind == "f" else np.float64)
    if not np.array_equal(scaled.astype(np.float64) / gain, core):
        found = f"weights that an input gain of {gain:g} rounds in their number format"
        raise ModelError.of(subject, found, "snn-mlir has no gain", OTHER_FORMATS)
    return replace(part, **{field: freeze(np.broadcast_to(scaled, values.shape))})


def _in_format(p: Projection, dtype: str) -> Projection:
    """Cast the weights to the number format of the text; ``_values`` has checked that this rounds none."""
    parts = [_cast(part, dtype) for part in parts_of(p.operator)]
    return replace(p, operator=parts[0] if len(parts) == 1 else Chain(tuple(parts)))


def _cast(part: Any, dtype: str) -> Any:
    values = part_weights(part)
    if values is None:
        return part
    return replace(
        part, **{weight_field(part): freeze(np.broadcast_to(stored_part(values).astype(dtype), values.shape))}
    )


def _values(p: Projection, dtype: str) -> Iterator[Diagnostic]:
    """Weights and biases that the number format of the text cannot represent."""
    arrays = [p.bias, *(part_weights(part) for part in parts_of(p.operator))]
    for array in (stored_part(a) for a in arrays if a is not None):
        with np.errstate(over="ignore", under="ignore"):
            if not np.array_equal(array.astype(dtype).astype(np.float64), array.astype(np.float64)):
                subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
                hint = "lower with --dtype float64" if dtype == "float32" else "give floating-point weights"
                yield Diagnostic(subject, f"weights that {dtype} rounds", f"the text holds {ELEMENTS[dtype]}", hint)
                return
