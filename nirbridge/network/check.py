"""Well-formedness of a network: ``diagnose_network`` yields every problem, ``check_network`` raises them all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, all_finite
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.graph import cycle_among, topological_order
from nirbridge.network.model import Network, Population, Projection, Timing
from nirbridge.network.neurons import EXTRAS, arrays_of, extras_of
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Sparse, SumPool


def is_valid_network(network: Network) -> bool:
    """True if ``diagnose_network`` finds nothing."""
    return next(diagnose_network(network), None) is None


def check_network(network: Network) -> None:
    """Raise ModelError with every problem that ``diagnose_network`` finds."""
    ModelError.raise_all(diagnose_network(network))


def diagnose_network(network: Network) -> Iterator[Diagnostic]:
    """Every problem: timing, names, shapes, values, delays, cycles of zero delay."""
    yield from _timing(network)
    yield from _names(network)
    for population in network.populations:
        yield from _population(population)
    sources = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    targets = {p.name: p.shape for p in (*network.populations, *network.outputs)}
    for index, projection in enumerate(network.projections):
        yield from _projection(f"projection {index}", projection, sources, targets)
    yield from _zero_delay_cycles(network)


def _problem(subject: str, found: str, limit: str = "", hint: str = "", **ids: object) -> Diagnostic:
    return Diagnostic(subject, found, limit, hint, MappingProxyType(ids))


def _timing(network: Network) -> Iterator[Diagnostic]:
    if not (math.isfinite(network.dt) and network.dt > 0):
        yield _problem("network", f"dt is {network.dt} s", "a finite number above 0", "correct dt")
    for f in fields(Timing):
        if getattr(network.timing, f.name) is None:
            yield _problem("network", f"its timing leaves {f.name} open", "a network's timing is resolved", "set it")
    if network.timing.dt is not None and network.timing.dt != network.dt:
        yield _problem("network", f"dt is {network.dt} s, its timing says {network.timing.dt} s", "", "make them equal")


def _names(network: Network) -> Iterator[Diagnostic]:
    ends = (*network.inputs, *network.populations, *network.outputs)
    for name, count in Counter(end.name for end in ends).items():
        if count > 1:
            yield _problem("network", f"{count} populations or ports are named {quoted(name)}", "", "rename", name=name)
    for end in ends:
        if not end.name:
            yield _problem("network", "a population or port has no name", "", "name it")
        if any(n < 1 for n in end.shape):
            subject, limit = f"population or port {quoted(end.name)}", "every axis has 1 or more"
            yield _problem(subject, f"shape {end.shape}", limit, "correct the shape", name=end.name)


def _population(population: Population) -> Iterator[Diagnostic]:
    subject, neuron = f"population {quoted(population.name)}", population.neuron
    for name, value in arrays_of(neuron).items():
        if value.shape not in ((), population.shape):
            limit = f"() or {population.shape}"
            yield _problem(subject, f"neuron {name} has shape {value.shape}", limit, "reshape it", name=population.name)
        if not all_finite(value):
            yield _problem(subject, f"neuron {name} is not finite", "", "repair it", name=population.name)
    if neuron.max_spikes < 1:
        yield _problem(subject, f"max_spikes is {neuron.max_spikes}", "at least 1", "correct it", name=population.name)
    if bool(np.any(neuron.refractory_steps < 0)):
        yield _problem(subject, "refractory_steps is negative", "at least 0", "correct it", name=population.name)
    for name in () if neuron.fires else extras_of(neuron):
        found, limit = f"a readout with {EXTRAS[name].noun} ({name})", "only neurons that fire have one"
        yield _problem(subject, found, limit, f"remove {name}", name=population.name)
    for name in extras_of(neuron) if neuron.fires else ():
        for found, limit in EXTRAS[name].faults(neuron):
            yield _problem(subject, found, limit, f"correct {name}", name=population.name)


def _projection(
    head: str, p: Projection, sources: Mapping[str, Shape], targets: Mapping[str, Shape]
) -> Iterator[Diagnostic]:
    subject = f"{head} {quoted(p.source)} -> {quoted(p.target)}"
    for end, names, kinds in ((p.source, sources, "population or input"), (p.target, targets, "population or output")):
        if end not in names:
            yield _problem(
                subject, f"there is no {kinds} {quoted(end)}", "", "add it, or remove the projection", name=end
            )
    broken = [*_operator(subject, p.operator)]
    yield from broken
    if broken:
        return
    into, out = p.operator.input_shape, p.operator.output_shape
    if p.source in sources and sources[p.source] != into:
        yield _problem(subject, f"its operator takes {into}", f"the source has {sources[p.source]}", "reshape")
    if p.target in targets and targets[p.target] != out:
        yield _problem(subject, f"its operator gives {out}", f"the target has {targets[p.target]}", "reshape")
    if p.bias is not None and (p.bias.shape != out or not all_finite(p.bias)):
        found = f"its bias of shape {p.bias.shape} is wrong"
        yield _problem(subject, found, f"finite numbers of shape {out}", "correct it")
    yield from _delays(subject, p, into, out)
    if p.nodes and len(p.nodes) != len(parts_of(p.operator)):
        found = f"{len(p.nodes)} node names for {len(parts_of(p.operator))} parts"
        yield _problem(subject, found, "none, or one for each part", "correct nodes")


def _delays(subject: str, p: Projection, into: Shape, out: Shape) -> Iterator[Diagnostic]:
    sound = True
    for name, shape in (("delay_steps", into), ("target_delay_steps", out)):
        value: Array = getattr(p, name)
        if value.dtype.kind not in "iu" or value.shape not in ((), shape) or bool(np.any(value < 0)):
            sound = False
            found = f"{name} has shape {value.shape} and type {value.dtype}"
            yield _problem(subject, found, f"integers of 0 or more, shape () or {shape}", "correct it")
    if sound and p.is_back and p.min_delay_steps < 1:
        yield _problem(
            subject, "it closes a cycle with a delay of 0", "a back edge has 1 time step or more", "delay it"
        )


def _operator(subject: str, operator: Operator) -> Iterator[Diagnostic]:
    parts = parts_of(operator)
    if isinstance(operator, Chain) and (len(parts) < 2 or any(isinstance(p, Chain) for p in parts)):
        yield _problem(subject, "its chain is nested or has fewer than two parts", "", "compose it again")
        return
    broken = [problem for part in parts for problem in _part(subject, part)]
    yield from broken
    if broken:
        return
    for first, second in pairwise(parts):
        if first.output_shape != second.input_shape:
            found = f"a part of its chain gives {first.output_shape}"
            yield _problem(subject, found, f"the next takes {second.input_shape}", "put a Reshape between")


def _part(subject: str, part: Operator) -> Iterator[Diagnostic]:
    values = part_weights(part)
    if values is not None and not all_finite(values):
        yield _problem(subject, f"a weight of its {type(part).__name__} is not finite", "", "repair it")
    if isinstance(part, Dense) and part.weight.ndim != 2:
        yield _problem(subject, f"a dense weight of shape {part.weight.shape}", "[post, pre]", "correct it")
    if isinstance(part, Sparse):
        yield from _sparse(subject, part)
    if isinstance(part, Conv | SumPool):
        yield from _windows(subject, part)


def _sparse(subject: str, part: Sparse) -> Iterator[Diagnostic]:
    rows, columns = math.prod(part.output_shape), math.prod(part.input_shape)
    lists = (part.indptr, part.indices)
    if any(values.ndim != 1 for values in (*lists, part.data)) or any(values.dtype.kind != "i" for values in lists):
        yield _problem(
            subject, "its sparse lists are not along one axis", "indptr and indices are integers", "correct them"
        )
        return
    count = len(part.indices)
    covers = part.indptr.shape == (rows + 1,) and part.indptr[0] == 0 and part.indptr[-1] == count == len(part.data)
    # unordered rows are seen before the differences of two extremes could overflow
    if not covers or bool(np.any((part.indptr < 0) | (part.indptr > count))) or bool(np.any(np.diff(part.indptr) < 0)):
        yield _problem(subject, "its sparse rows do not cover its data", f"{rows} rows", "correct indptr")
        return
    if count and not 0 <= int(part.indices.min()) <= int(part.indices.max()) < columns:
        yield _problem(subject, "a sparse column index is out of range", f"{columns} columns", "correct indices")
    first = np.zeros(count + 1, bool)
    first[part.indptr] = True
    if bool(np.any((np.diff(part.indices) <= 0) & ~first[1:count])):
        yield _problem(subject, "sparse columns are not ascending within a row", "", "sort the indices, merge doubles")


def _windows(subject: str, part: Conv | SumPool) -> Iterator[Diagnostic]:
    axes = len(part.kernel)
    lengths = {len(part.stride), len(part.padding), len(part.dilation), len(part.input_shape) - 1}
    kind = type(part).__name__
    if axes < 1 or lengths != {axes}:
        yield _problem(
            subject, f"its {kind} has {axes} kernel axes but entries for {sorted(lengths)}", "", "correct it"
        )
        return
    if min((*part.stride, *part.dilation, *part.kernel, *(1 + q for pair in part.padding for q in pair))) < 1:
        yield _problem(
            subject, f"its {kind} has a stride, kernel or dilation below 1, or padding below 0", "", "correct it"
        )
    elif min(part.output_shape) < 1:
        yield _problem(
            subject, f"its {kind} puts out {part.output_shape}", "every axis has 1 or more", "use a smaller kernel"
        )
    if isinstance(part, Conv):
        cout, per_group = part.weight.shape[:2]
        if part.groups < 1 or cout % part.groups or per_group * part.groups != part.input_shape[0]:
            found = f"{cout} kernels of {per_group} channels in {part.groups} groups on {part.input_shape[0]} channels"
            yield _problem(subject, found, "groups divide both", "correct the weight or groups")


def _zero_delay_cycles(network: Network) -> Iterator[Diagnostic]:
    following: dict[str, list[str]] = {p.name: [] for p in network.populations}
    for p in network.projections:
        if p.source in following and p.target in following and p.min_delay_steps < 1:
            following[p.source].append(p.target)
    ordered = set(topological_order(following, following))
    if left := [name for name in following if name not in ordered]:
        names, shown = cycle_among(left, following)
        hint = "mark one edge of it as a back edge, or delay it"
        yield _problem("network", f"a cycle without delay: {shown}", "", hint, names=names)
