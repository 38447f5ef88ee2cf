"""Scales into weights: a chain of linear operators with as few ``Scale`` parts as the weights can take up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

Weighted = Dense | Conv | Sparse


def rescale(operator: Operator, before: Array, after: Array) -> Operator:
    """``after * operator(before * x)``; ``before`` and ``after`` broadcast to the shapes of x and of the result.

    Computed in float64, then rounded once to float32. A factor that differs within a channel of a convolution or
    pool stays a ``Scale``.
    """
    first = Scale(freeze(np.broadcast_to(np.asarray(before, np.float64), operator.input_shape)))
    last = Scale(freeze(np.broadcast_to(np.asarray(after, np.float64), operator.output_shape)))
    inner = (first, *map(_in_float64, parts_of(operator)), last)
    parts = _absorbed([p for p in inner if not isinstance(p, Identity)])
    folded, _ = compose(parts, [""] * len(parts), operator.input_shape)
    single = [_in_float32(p) for p in parts_of(folded)]
    return compose(single, [""] * len(single), operator.input_shape)[0]


def _absorbed(chain: Sequence[Operator]) -> list[Operator]:
    """Every ``Scale`` goes into the weights in front of it, else into those behind it, else stays."""
    parts, done = list(chain), 0
    while done < len(parts):
        part = parts[done]
        if isinstance(part, Scale):
            merged = _into(parts, done, -1) or _into(parts, done, +1)
            if merged is not None:
                parts, done = merged, 0
                continue
        done += 1
    return parts


def _into(parts: Sequence[Operator], at: int, step: int) -> list[Operator] | None:
    """The chain with the scale at ``at`` gone into the next weights in direction ``step``, or None."""
    here = parts[at]
    scale: Array | None = here.scale if isinstance(here, Scale) else None
    k = at + step
    while 0 <= k < len(parts) and scale is not None:
        part = parts[k]
        if isinstance(part, Scale):
            merged: Operator | None = Scale(freeze(part.scale * scale))
        else:
            merged = _weighted(part, scale, output=step < 0) if isinstance(part, Weighted) else None
        if merged is not None:
            out = [*parts[:k], merged, *parts[k + 1 :]]
            del out[at]
            return out
        scale = _through(part, scale, output=step < 0)
        k += step
    return None


def _through(part: Operator, scale: Array, *, output: bool) -> Array | None:
    """The scale that does on one side of a part what ``scale`` does on the other, or None."""
    shape = part.input_shape if output else part.output_shape
    if isinstance(part, Reshape):
        return scale.reshape(shape)
    if not isinstance(part, SumPool):
        return None
    per_channel = channel_values(scale)
    return None if per_channel is None else np.broadcast_to(_on_channels(per_channel, len(shape)), shape)


def _on_channels(values: Array, axes: int) -> Array:
    return values.reshape(-1, *(1,) * (axes - 1))


def channel_values(scale: Array) -> Array | None:
    """One value per channel (axis 0) where the scale has no more than that, else None."""
    rows = scale.reshape(scale.shape[0], -1)
    return rows[:, 0] if bool(np.all(rows == rows[:, :1])) else None


def _weighted(part: Weighted, scale: Array, *, output: bool) -> Operator | None:
    if isinstance(part, Dense):
        factor = scale.reshape(-1, 1) if output else scale.reshape(1, -1)
        return Dense(part.weight * factor)
    if isinstance(part, Sparse):
        rows = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
        return replace(part, data=part.data * scale.reshape(-1)[rows if output else part.indices])
    values = channel_values(scale)
    if values is None:
        return None
    if output:
        return replace(part, weight=part.weight * _on_channels(values, part.weight.ndim))
    own = part.weight.shape[1]
    group = np.arange(part.weight.shape[0]) // (part.weight.shape[0] // part.groups)
    per_weight = values[group[:, None] * own + np.arange(own)]
    return replace(part, weight=part.weight * per_weight.reshape(*per_weight.shape, *(1,) * len(part.kernel)))


def _in_float64(part: Operator) -> Operator:
    return _cast(part, np.float64)


def _in_float32(part: Operator) -> Operator:
    return _cast(part, np.float32)


def _cast(part: Operator, dtype: type) -> Operator:
    if isinstance(part, Scale):
        return Scale(freeze(part.scale, dtype))
    if isinstance(part, Dense | Conv):
        return replace(part, weight=freeze(part.weight, dtype))
    return replace(part, data=freeze(part.data, dtype)) if isinstance(part, Sparse) else part


def magnitude(operator: Operator) -> tuple[Operator, ...]:
    """The parts with the absolute values of their weights, for bounds."""
    out: list[Operator] = []
    for part in parts_of(operator):
        if isinstance(part, Scale):
            out.append(Scale(np.abs(part.scale)))
        elif isinstance(part, Dense | Conv):
            out.append(replace(part, weight=np.abs(part.weight)))
        else:
            out.append(replace(part, data=np.abs(part.data)) if isinstance(part, Sparse) else part)
    return tuple(out)
