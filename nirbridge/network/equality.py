"""Semantic equality of networks: equal networks compute the same, bit for bit.

Compared: dt and resolved timing, ports and populations (by name), every field of every neuron, and per target the
projections in order: source, operator (trivial parts removed, values and number formats bit for bit), bias, delays,
back mark. Not compared: the order of populations and of targets (sums run per target), the names of composed nodes,
assumptions, notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from nirbridge.arrays import compact, same_array, stored_part
from nirbridge.errors import counted, quoted
from nirbridge.network.compose import compose, is_trivial, parts_of
from nirbridge.network.graph import grouped
from nirbridge.network.model import Network, Projection, Timing
from nirbridge.network.neurons import flat_fields
from nirbridge.network.operators import Operator, Reshape, Sparse


def same_network(a: Network, b: Network) -> bool:
    """True if the two networks compute the same, bit for bit."""
    return next(_differences(a, b), None) is None


def network_differences(a: Network, b: Network) -> tuple[str, ...]:
    """The differences, one sentence each; empty where ``same_network``."""
    return tuple(_differences(a, b))


def _differences(a: Network, b: Network) -> Iterator[str]:
    if a.dt != b.dt:
        yield f"dt: {a.dt!r} s and {b.dt!r} s"
    for f in fields(Timing):
        x, y = getattr(a.timing, f.name), getattr(b.timing, f.name)
        if x != y and f.name != "dt":
            yield f"timing {f.name}: {x!r} and {y!r}"
    for noun, left, right in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        yield from _by_name(noun, {p.name: p.shape for p in left}, {p.name: p.shape for p in right})
    yield from _populations(a, b)
    yield from _projections(a, b)


def _by_name(noun: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*left, *right}):
        if name not in left or name not in right:
            yield f"{noun} {quoted(name)}: only in the {'first' if name in left else 'second'}"
        elif left[name] != right[name]:
            yield f"{noun} {quoted(name)}: shape {left[name]} and {right[name]}"


def _populations(a: Network, b: Network) -> Iterator[str]:
    left, right = ({p.name: p for p in network.populations} for network in (a, b))
    yield from _by_name("population", {n: p.shape for n, p in left.items()}, {n: p.shape for n, p in right.items()})
    for name in sorted(left.keys() & right.keys()):
        ours, theirs = (flat_fields(side[name].neuron) for side in (left, right))
        for field in ours | theirs:
            x, y = ours.get(field), theirs.get(field)
            if not _same_value(x, y):
                yield f"population {quoted(name)}: neuron {field} {_brief(x)} and {_brief(y)}"


def _projections(a: Network, b: Network) -> Iterator[str]:
    left, right = (grouped((p.target, p) for p in network.projections) for network in (a, b))
    for target in sorted({*left, *right}):
        into_a, into_b = left.get(target, []), right.get(target, [])
        if len(into_a) != len(into_b):
            yield f"target {quoted(target)}: {len(into_a)} and {counted(len(into_b), 'projection')}"
            continue
        for k, (p, q) in enumerate(zip(into_a, into_b, strict=True)):
            for difference in _projection(p, q):
                yield f"projection {k} {quoted(p.source)} -> {quoted(target)}: {difference}"


def _projection(p: Projection, q: Projection) -> Iterator[str]:
    if p.source != q.source:
        yield f"source {quoted(p.source)} and {quoted(q.source)}"
    if not same_operator(p.operator, q.operator):
        yield f"operator {_brief(p.operator)} and {_brief(q.operator)}"
    for name in ("bias", "delay_steps", "target_delay_steps"):
        x, y = getattr(p, name), getattr(q, name)
        if (x is None) != (y is None) or (x is not None and not same_array(compact(x), compact(y))):
            yield f"{name} {_brief(x)} and {_brief(y)}"
    if p.is_back != q.is_back:
        yield f"is_back {p.is_back} and {q.is_back}"


def same_operator(a: Operator, b: Operator) -> bool:
    """True if both have the same shapes and, trivial parts aside, the same parts, values bit for bit."""
    if (a.input_shape, a.output_shape) != (b.input_shape, b.output_shape):
        return False
    left, right = _canonical(a), _canonical(b)
    if len(left) != len(right):
        return False
    return all(
        type(x) is type(y) and all(_same_value(getattr(x, f.name), getattr(y, f.name)) for f in fields(x))
        for x, y in zip(left, right, strict=True)
    )


def _canonical(operator: Operator) -> tuple[Operator, ...]:
    """Parts without trivial ones; a Sparse on axes is one on flat vectors between reshapes."""
    parts: list[Operator] = []
    for part in parts_of(operator):
        if isinstance(part, Sparse):
            flat_in, flat_out = (math.prod(part.input_shape),), (math.prod(part.output_shape),)
            flat = Sparse(part.indptr, part.indices, part.data, flat_in, flat_out)
            parts += [Reshape(part.input_shape, flat_in), flat, Reshape(flat_out, part.output_shape)]
        else:
            parts.append(part)
    composed, _ = compose(parts, [""] * len(parts), operator.input_shape)
    return tuple(p for p in parts_of(composed) if not is_trivial(p))


def _same_value(x: Any, y: Any) -> bool:
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return type(x) is type(y) and x == y
    same_layout = (x.shape, x.strides) == (y.shape, y.strides)
    return same_array(stored_part(x), stored_part(y)) if same_layout else same_array(x, y)


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size == 1:
            return repr(value.item())
        return f"array{value.shape} {value.dtype} from {value.min():.17g} to {value.max():.17g}"
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    return " * ".join(type(p).__name__ for p in reversed(parts_of(value)))
