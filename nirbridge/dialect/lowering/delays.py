"""Histories of values, the oldest first: reading values some time steps ago, and moving on by one time step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nirbridge.arrays import Array
from nirbridge.dialect.lowering.function import Body, FunctionText, Tensor


def delayed(f: FunctionText, past: Tensor | None, now: Tensor | None, delays: Array) -> Tensor:
    """Values some time steps ago, one delay for all or one per element.

    ``past``: ``[batch, depth, *shape]``; ``now``: ``[batch, *shape]``, needed where a delay is 0.
    """
    delays = np.asarray(delays, np.int64)
    if not delays.any():
        assert now is not None, "a source is computed before its targets"
        return now
    assert past is not None, "a delayed source has a history"
    depth = past.shape[0]
    if bool((delays == delays.flat[0]).all()):
        return f.slice(past, past.lead, str(depth - int(delays.flat[0])), 1)
    return _each(f, past, now, delays)


def _each(f: FunctionText, past: Tensor, now: Tensor | None, delays: Array) -> Tensor:
    depth, shape = past.shape[0], past.shape[1:]
    axes = len(shape) + 1
    has_present = bool((delays == 0).any())
    rows = f.array(np.minimum(depth - delays, depth - 1), "i32")
    out = f.empty(past.element, past.lead, shape)
    names = [f.fresh() for _ in range(axes)]
    lines = [f"{name} = linalg.index {k} : index" for k, name in enumerate(names)]
    place, row, value, old = (f.fresh() for _ in range(4))
    lines.append(f"{row} = arith.index_cast {place} : i32 to index")
    where = ", ".join([names[0], row, *names[1:]])
    lines.append(f"{value} = tensor.extract {past.name}[{where}] : {past.type}")
    every = ", ".join(f"d{k}" for k in range(axes))
    inner = ", ".join(f"d{k}" for k in range(1, axes))
    maps, ins, arguments, result = [f"({every}) -> ({inner})"], [rows], [place], value
    if has_present:
        assert now is not None, "a source is computed before its targets"
        present, chosen, flag, is_now = (f.fresh() for _ in range(4))
        maps += [f"({every}) -> ({inner})", f"({every}) -> ({every})"]
        ins += [f.array(delays == 0, "i32"), now]
        arguments += [flag, present]
        lines.append(f"{is_now} = arith.cmpi ne, {flag}, {f.scalar(0, 'i32')} : i32")
        lines.append(f"{chosen} = arith.select {is_now}, {present}, {value} : {past.element}")
        result = chosen
    maps.append(f"({every}) -> ({every})")
    body = Body([*arguments, old], lines, [result])
    return f.generic(maps, ["parallel"] * axes, ins, [out], body)[0]


def moved_on(f: FunctionText, past: Tensor, now: Tensor) -> Tensor:
    """The history one time step later."""
    depth, batch, shape = past.shape[0], str(past.lead[0]), now.shape
    none = [0] * len(shape)
    kept = past
    if depth > 1:
        rest = replace(past, shape=(depth - 1, *shape))
        offsets, extents = ", ".join(map(str, [0, 1, *none])), ", ".join(map(str, [batch, depth - 1, *shape]))
        ones = ", ".join(["1"] * past.axes)
        text = f"tensor.extract_slice {past.name}[{offsets}] [{extents}] [{ones}] : {past.type} to {rest.type}"
        into = f.empty(past.element, past.lead, past.shape)  # not the history itself: IREE moves nothing in its place
        kept = f.inserted(replace(rest, name=f.op(text)), into, [0, 0, *none], [batch, depth - 1, *shape])
    return f.inserted(now, kept, [0, depth - 1, *none], [batch, 1, *shape])
