"""Composition of linear operators: exact, small merges only; nothing is expanded to a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.network.operators import Chain, Dense, Identity, Operator, Reshape, Scale, Sparse

Named = tuple[Operator, str]


def parts_of(operator: Operator) -> tuple[Operator, ...]:
    """The parts of a Chain; any other operator alone."""
    return operator.parts if isinstance(operator, Chain) else (operator,)


def weight_field(part: Operator) -> str:
    """Name of the field that holds the weights or factors of one part; empty for a part without any."""
    return next((name for name in ("weight", "data", "scale") if hasattr(part, name)), "")


def part_weights(part: Operator) -> Array | None:
    """Weights or factors of one part; None for a part without any."""
    field = weight_field(part)
    return getattr(part, field) if field else None


def compose(parts: Sequence[Operator], names: Sequence[str], shape: Shape) -> tuple[Operator, tuple[str, ...]]:
    """One operator for ``parts`` applied in order to an input of ``shape``, and the node name of each part left.

    Exact merges only: identities, scales of 1 and empty reshapes vanish, neighbouring reshapes become one (named
    after the first), neighbouring scales become one in float64.
    """
    merged_parts: list[Named] = []
    for part, name in zip(parts, names, strict=True):
        for inner in parts_of(part):
            _push(merged_parts, inner, name)
    operators = tuple(part for part, _ in merged_parts)
    if not operators:
        return Identity(shape), ()
    return (operators[0] if len(operators) == 1 else Chain(operators)), tuple(name for _, name in merged_parts)


def _push(merged_parts: list[Named], part: Operator, name: str) -> None:
    if is_trivial(part):
        return
    merged = _merge(merged_parts[-1][0], part) if merged_parts else None
    if merged is None:
        merged_parts.append((part, name))
    else:
        _push(merged_parts, merged, merged_parts.pop()[1])


def is_trivial(part: Operator) -> bool:
    """True if the operator changes nothing, not even the shape."""
    if isinstance(part, Scale):
        return one_value(part.scale) == 1.0
    return isinstance(part, Identity) or (isinstance(part, Reshape) and part.input_shape == part.output_shape)


def one_value(array: Array) -> float | None:
    """The value that all elements share, or None; broadcast views are not expanded."""
    core = stored_part(array)
    if core.size and bool(np.all(core == core.flat[0])):
        return float(core.flat[0])
    return None


def _merge(first: Operator, second: Operator) -> Operator | None:
    if isinstance(first, Reshape) and isinstance(second, Reshape):
        return Reshape(first.input_shape, second.output_shape)
    if isinstance(first, Scale) and isinstance(second, Scale):
        a, b = one_value(first.scale), one_value(second.scale)
        if a is not None and b is not None:
            return Scale(freeze(np.broadcast_to(np.float64(a * b), first.output_shape)))
        return Scale(freeze(first.scale.astype(np.float64) * second.scale.astype(np.float64)))
    return None


def whole_rows(sources: Array, input_shape: Shape, output_shape: Shape) -> Operator:
    """Each of ``sources`` (flat, ascending, at least one) to every target, without weights."""
    many, targets = len(sources), math.prod(output_shape)
    one_each, ones = np.arange(many + 1), freeze(np.broadcast_to(np.float64(1), sources.shape))
    picked = Sparse(freeze(one_each, np.int64), freeze(sources, np.int64), ones, input_shape, (many,))
    full = Dense(freeze(np.broadcast_to(np.float64(1), (targets, many))))
    if output_shape == (targets,):
        return Chain((picked, full))
    return Chain((picked, full, Reshape((targets,), output_shape)))
