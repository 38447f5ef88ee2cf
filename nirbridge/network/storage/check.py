"""What a network file may hold: well-formed networks of known types and bounded sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.check import diagnose_network
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.nir.fields import NEURONS
from nirbridge.network.operators import Conv, Operator, SumPool

ELEMENTS_MAX = 2**28
"""Neurons, inputs and outputs, each with the spikes that are kept for its delays; values between two operators."""
NODES_MAX, PROJECTIONS_MAX = 10_000, 100_000
NAME_BYTES_MAX = 1000
_NUMBERS_MAX = 2**31 - 1
_READOUTS = ("LI", "CubaLI", "I")
_WEIGHT_KINDS = "fiu"


def check_stored(network: Network) -> None:
    """Raise one ModelError with every problem of ``diagnose_stored``."""
    ModelError.raise_all(diagnose_stored(network))


def diagnose_stored(network: Network) -> Iterator[Diagnostic]:
    """Every problem of a network that keeps it out of a file: too many parts, names, types, form, sizes."""
    counts = {
        "populations, inputs and outputs": (len([*_nodes(network)]), NODES_MAX),
        "projections": (len(network.projections), PROJECTIONS_MAX),
    }
    problems = [
        Diagnostic("network", f"{count:,} {noun}", f"at most {limit:,}", "merge some of them")
        for noun, (count, limit) in counts.items()
        if count > limit
    ]
    problems = problems or [*_names(network), *_neurons(network), *_weights(network)]
    problems = problems or [*diagnose_network(network)] or [*_sizes(network)]
    yield from problems


def diagnose_kept(sizes: Mapping[str, int], delays: Iterable[tuple[str, int]], outputs: int) -> Iterator[Diagnostic]:
    """The state of a run has to fit memory: a short file can state any number.

    Args:
        sizes: elements of each input and population.
        delays: source and longest delay of each projection.
        outputs: elements of all outputs.
    """
    stored = dict(sizes)
    for source, longest in delays:
        if source in sizes:
            stored[source] = max(stored[source], sizes[source] * (1 + longest))
    kept = sum(stored.values()) + outputs
    if kept > ELEMENTS_MAX:
        found = f"{kept:,} values to keep (neurons, and spikes on their way)"
        yield Diagnostic("network", found, f"{ELEMENTS_MAX:,} are allowed", "shorten delays")


def _nodes(network: Network) -> Iterator[Any]:
    yield from (*network.inputs, *network.populations, *network.outputs)


def _names(network: Network) -> Iterator[Diagnostic]:
    """Names and notes are UTF-8, of bounded length."""
    named = {f"node {quoted(node.name)}": node.name for node in _nodes(network)}
    for p in network.projections:
        named |= {f"{_subject(p)}, node {quoted(name)}": name for name in (*p.nodes, *p.delay_nodes)}
    for subject, name in named.items():
        if not _is_text(name) or len(name.encode()) > NAME_BYTES_MAX:
            yield Diagnostic(
                subject, "its name cannot be stored", f"UTF-8 of at most {NAME_BYTES_MAX:,} bytes", "rename"
            )
    for name in ("assumed", "notes"):
        if not all(map(_is_text, getattr(network, name))):
            yield Diagnostic("network", f"its {name} cannot be stored", "UTF-8", "correct them")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _neurons(network: Network) -> Iterator[Diagnostic]:
    for population in network.populations:
        yield from _neuron(population)


def _neuron(population: Population) -> Iterator[Diagnostic]:
    subject, neuron = f"population {quoted(population.name)}", population.neuron
    if neuron.kind not in NEURONS:
        yield Diagnostic(
            subject, f"a neuron of kind {quoted(neuron.kind)}", f"one of {', '.join(NEURONS)}", "rename it"
        )
    elif neuron.fires == (neuron.kind in _READOUTS):
        found = f"{neuron.kind} {'with' if neuron.fires else 'without'} a threshold"
        yield Diagnostic(subject, found, f"{', '.join(_READOUTS)} never fire, the others do", "change its kind")
    for field in fields(neuron):
        values = getattr(neuron, field.name)
        expected = np.int64 if field.name == "refractory_steps" else np.float64
        if isinstance(values, np.ndarray) and values.dtype != expected:
            yield Diagnostic(
                subject, f"neuron {field.name} of type {values.dtype}", f"{expected.__name__} is expected", "convert it"
            )
    most = neuron.refractory_steps.max(initial=0), neuron.max_spikes
    if max(most) > _NUMBERS_MAX:
        yield Diagnostic(subject, f"a count of {max(most):,}", f"at most {_NUMBERS_MAX:,}", "reduce it")


def _weights(network: Network) -> Iterator[Diagnostic]:
    """Real numbers; lists and shapes are checked with the network."""
    for p in network.projections:
        arrays = [getattr(part, f.name) for part in parts_of(p.operator) for f in fields(part)]
        for values in (*arrays, p.bias):
            if isinstance(values, np.ndarray) and values.dtype.kind not in _WEIGHT_KINDS:
                yield Diagnostic(_subject(p), f"values of type {values.dtype}", "real numbers", "convert them")


def _sizes(network: Network) -> Iterator[Diagnostic]:
    sizes = {x.name: math.prod(x.shape) for x in (*network.inputs, *network.populations)}
    delays = ((p.source, p.max_delay_steps) for p in network.projections)
    yield from diagnose_kept(sizes, delays, sum(port.size for port in network.outputs))
    for p in network.projections:
        most = max(_largest(part) for part in parts_of(p.operator))
        empty = any(min(shape, default=1) < 1 for part in parts_of(p.operator) for shape in _ends(part))
        if most > ELEMENTS_MAX or empty:
            found = "an operator without values" if empty else f"an operator over {most:,} values"
            yield Diagnostic(_subject(p), found, f"from 1 to {ELEMENTS_MAX:,}", "correct its shapes")


def _ends(part: Operator) -> tuple[Shape, Shape]:
    return part.input_shape, part.output_shape


def _largest(part: Operator) -> int:
    """Values that the part takes, passes or pads to; also the largest number of its window."""
    values = [math.prod(shape) for shape in _ends(part)]
    if isinstance(part, Conv | SumPool):
        spatial = zip(part.input_shape[1:], part.padding, strict=True)
        padded = part.input_shape[0] * math.prod(size + before + after for size, (before, after) in spatial)
        values += [padded, math.prod(part.kernel), *part.stride, *part.dilation]
    return max(values)


def _subject(p: Projection) -> str:
    return f"projection {quoted(p.source)} -> {quoted(p.target)}"
