"""Inputs whose axes forward splits, and reshapes for which NIR has no node.

An input takes the shape that the first layer sees. A reshape that splits an axis elsewhere becomes one matrix with the
operators after it, if that is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import DataflowGraph, Operation, place_label
from nirbridge.importers.lowering.linear_layers import Term
from nirbridge.network.apply import apply
from nirbridge.network.compose import compose, is_trivial, one_value, parts_of
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Dense, Operator, Reshape, Scale, Sparse

Named = tuple[tuple[Operator, ...], tuple[str, ...]]


def input_shapes(flow: DataflowGraph) -> dict[str, Shape]:
    """The shape in which samples of each input are given: the module's own, unless NIR could not go on from it.

    NIR only merges neighbouring axes. Where forward splits some, the shape after that is taken if every shape that a
    layer sees can be made from it; row-major order is kept, so that no value moves.
    """
    readers: dict[str, list[Operation]] = {}
    for call in flow.calls:
        for ref in call.inputs:
            readers.setdefault(ref.call, []).append(call)
    returned = {output.ref.call for output in flow.outputs}
    return {c.name: _given(c.shape, tuple(dict.fromkeys(_seen(c, readers, returned)))) for c in flow.inputs}


def _given(shape: Shape, layer_shapes: Sequence[Shape]) -> Shape:
    candidates = [
        s for s in layer_shapes if s and math.prod(s) == math.prod(shape)
    ]  # others stem from operations that could not be traced
    fitting = (s for s in (shape, *candidates) if all(merged_axes(s, other) is not None for other in layer_shapes))
    return next(fitting, shape)


def _seen(call: Operation, readers: Mapping[str, Sequence[Operation]], returned: set[str]) -> Iterator[Shape]:
    """Shapes in which layers see a value, after calls that leave every value in its place."""
    if call.name in returned:
        yield call.shape
    for reader in readers.get(call.name, ()):
        if _stays(reader):
            yield from _seen(reader, readers, returned)
        else:
            yield call.shape


def _stays(call: Operation) -> bool:
    if call.kind == "gather":
        indices = np.asarray(call.arguments["indices"]).reshape(-1)
        return np.array_equal(indices, np.arange(len(indices)))
    return call.kind in ("reshape", "scale", "shift")


def input_term(call: Operation, port_shape: Shape, delay: int) -> Term:
    """An input's values, in the module's shape, from a port of another."""
    if port_shape == call.shape:
        return Term(call.name, delay, call.shape)
    return Term(call.name, delay, port_shape, (Reshape(port_shape, call.shape),), (f"{call.name}_shape",))


def input_notes(flow: DataflowGraph) -> tuple[str, ...]:
    """Notes on ports whose shape differs from that of the module's argument."""
    port_shapes = input_shapes(flow)
    return tuple(
        f"input {quoted(c.name)}: samples of shape {c.shape} are given as {port_shapes[c.name]}, the values in the "
        "same (row-major) order, because NIR cannot split axes"
        for c in flow.inputs
        if port_shapes[c.name] != c.shape
    )


def merge_reshapes(term: Term, calls: Mapping[str, Operation], port_shapes: Mapping[str, Shape]) -> Named:
    """Reshapes after an input of another shape merged into one or none, after the scales among them."""
    parts, names = term.parts, term.names
    if term.source not in port_shapes or port_shapes[term.source] == calls[term.source].shape:
        return parts, names
    count = next((k for k, part in enumerate(parts) if not isinstance(part, Reshape | Scale)), len(parts))
    merged = [(_reshaped(p, term.shape), n) for p, n in zip(parts[:count], names, strict=False) if isinstance(p, Scale)]
    joint = Reshape(term.shape, parts[count - 1].output_shape)
    merged += [] if is_trivial(joint) else [(joint, names[0])]
    return (*(p for p, _ in merged), *parts[count:]), (*(n for _, n in merged), *names[count:])


def _reshaped(part: Any, shape: Shape) -> Scale:
    value = one_value(part.scale)
    scale = part.scale.reshape(shape) if value is None else np.broadcast_to(part.scale.dtype.type(value), shape)
    return Scale(freeze(scale))


def reshape_problems(
    operator: Operator, nodes: Sequence[str], term: Term, calls: Mapping[str, Operation]
) -> Iterator[Diagnostic]:
    """Problems of reshapes that NIR cannot express, each with its module."""
    names = nodes if len(nodes) == len(parts_of(operator)) else [""] * len(parts_of(operator))
    for part, name in zip(parts_of(operator), names, strict=True):
        if isinstance(part, Reshape) and merged_axes(part.input_shape, part.output_shape) is None:
            place = calls[name].subject if name in calls else place_label("")
            found = f"a reshape from {part.input_shape} to {part.output_shape} after {quoted(term.source)}"
            limit = "NIR has Flatten, which merges neighbouring axes; only the network's inputs can be given reshaped"
            step = (
                "keep the shape from the input on, or flatten before every neuron (small layers then become a matrix)"
            )
            yield Diagnostic(place, found, limit, step)


_WEIGHTS_MAX = 4_000_000
"""Most weights that such a matrix is written with."""


def without_splits(parts: tuple[Operator, ...], names: tuple[str, ...]) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """The parts with every split of an axis, up to the next flat value, as one matrix, where that is small."""
    splits = (isinstance(p, Reshape | Sparse) and len(p.output_shape) > len(p.input_shape) for p in parts)
    start = next((k for k, is_split in enumerate(splits) if is_split), None)
    if start is None or len(parts[start].input_shape) != 1:
        return parts, names
    stop = next((k for k in range(start, len(parts)) if len(parts[k].output_shape) == 1), None)
    if stop is None or parts[start].input_shape[0] * parts[stop].output_shape[0] > _WEIGHTS_MAX:
        return parts, names
    joint, _ = compose(parts[start : stop + 1], names[start : stop + 1], parts[start].input_shape)
    columns: Any = apply(joint, np.eye(parts[start].input_shape[0], dtype=np.float32))
    dense = Dense(freeze(np.ascontiguousarray(columns.T), np.float32))
    rest = without_splits(parts[stop + 1 :], names[stop + 1 :])
    return (*parts[:start], dense, *rest[0]), (*names[:start], names[stop], *rest[1])
