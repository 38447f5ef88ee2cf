"""Linear operators in linalg on tensors with one leading axis. Sums begin at 0 and run over ascending indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.lowering.function import Body, FunctionText, Tensor, type_text
from nirbridge.network.operators import Conv, Dense, Sparse, SumPool

MATRIX_MAX = 2**20
"""Sparse operators with fewer elements than this as a matrix are one: a product is quicker than looking up places."""
PADDED_MAX = 16
"""Rows of a sparse operator are padded to the longest unless that takes more than this many times its entries."""


def dense(f: FunctionText, part: Dense, x: Tensor) -> Tensor:
    """``y[b, n] = sum over k of x[b, k] w[k, n]``."""
    return product(f, np.asarray(part.weight).T, x)


def product(f: FunctionText, table: Array, x: Tensor) -> Tensor:
    """A product with a matrix ``[pre, post]``."""
    weight = f.array(table, x.element)
    out = f.filled(x.element, x.lead, (table.shape[1],))
    ins = f"ins({x.name}, {weight.name} : {x.type}, {weight.type}) outs({out.name} : {out.type})"
    return replace(out, name=f.op(f"linalg.matmul {ins} -> {out.type}"))


def dense_by_events(f: FunctionText, part: Dense, x: Tensor) -> Tensor:
    """As ``dense``, for sources that are mostly 0: a row of weights is added for each that is not."""
    weight = f.array(np.asarray(part.weight).T, x.element)
    pre, post = weight.shape
    out, row_type = f.filled(x.element, x.lead, (post,)), f"tensor<{post}x{x.element}>"
    zero, one, count, none = f.index(0), f.index(1), f.index(pre), f.scalar(0, x.element)
    extent = f.index(x.lead[0].size) if x.lead[0].size is not None else x.lead[0].name
    sample, source, outer, inner, loop, done, chosen = (f.fresh() for _ in range(7))
    kind, test = out.type, ("arith.cmpf une" if x.element.startswith("f") else "arith.cmpi ne")
    f.line(f"{loop} = scf.for {sample} = {zero} to {extent} step {one} iter_args({outer} = {out.name}) -> ({kind}) {{")
    f.line(f"{done} = scf.for {source} = {zero} to {count} step {one} iter_args({inner} = {outer}) -> ({kind}) {{")
    value = f.op(f"tensor.extract {x.name}[{sample}, {source}] : {x.type}")
    active = f.op(f"{test}, {value}, {none} : {x.element}")
    f.line(f"{chosen} = scf.if {active} -> ({kind}) {{")
    taken = f.op(f"tensor.extract_slice {weight.name}[{source}, 0] [1, {post}] [1, 1] : {weight.type} to {row_type}")
    old = f.op(f"tensor.extract_slice {inner}[{sample}, 0] [1, {post}] [1, 1] : {kind} to {row_type}")
    rows = [Tensor(name, x.element, (), (post,)) for name in (taken, old)]
    w, total = f.fresh(), f.fresh()
    new, lines = _added(f, x.element, value, w, total)
    (added,) = f.generic(["(n) -> (n)"] * 2, ["parallel"], rows[:1], rows[1:], Body([w, total], lines, [new]))
    stored = f.op(
        f"tensor.insert_slice {added.name} into {inner}[{sample}, 0] [1, {post}] [1, 1] : {row_type} into {kind}"
    )
    for text in (f"scf.yield {stored} : {kind}", "} else {", f"scf.yield {inner} : {kind}", "}"):
        f.line(text)
    for name in (chosen, done):
        f.line(f"scf.yield {name} : {kind}")
        f.line("}")
    return replace(out, name=loop)


def sparse(f: FunctionText, part: Sparse, x: Tensor) -> Tensor:
    """A small operator as a matrix; else rows padded to one length by entries of weight 0, or to one per group."""
    flat, rows = f.flat(x), np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
    pre, post = flat.shape[0], len(part.indptr) - 1
    if pre * post <= MATRIX_MAX:
        table = np.zeros((pre, post), np.asarray(part.data).dtype)
        np.add.at(table, (part.indices, rows), part.data)
        return f.unflat(product(f, table, flat), part.output_shape)
    longest = int(np.diff(part.indptr).max(initial=0))
    if post * longest <= PADDED_MAX * max(len(part.data), 1):
        return f.unflat(_padded_rows(f, part, flat, longest), part.output_shape)
    return f.unflat(_rows_by_length(f, part, flat), part.output_shape)


def _padded_rows(f: FunctionText, part: Sparse, x: Tensor, longest: int) -> Tensor:
    counts = np.diff(part.indptr)
    inside = np.arange(longest) < counts[:, None]
    places, weights = np.zeros(inside.shape, np.int32), np.zeros(inside.shape, np.asarray(part.data).dtype)
    places[inside], weights[inside] = part.indices, part.data
    index, weight = f.array(places, "i32"), f.array(weights, x.element)
    out = f.filled(x.element, x.lead, (len(counts),))
    row, place, taken, w, i, total = (f.fresh() for _ in range(6))
    lines = [
        f"{row} = linalg.index 0 : index",
        f"{place} = arith.index_cast {i} : i32 to index",
        f"{taken} = tensor.extract {x.name}[{row}, {place}] : {x.type}",
    ]
    term, added = _added(f, x.element, taken, w, total)
    maps = ["(b, n, k) -> (n, k)"] * 2 + ["(b, n, k) -> (b, n)"]
    body = Body([i, w, total], [*lines, *added], [term])
    return f.generic(maps, ["parallel", "parallel", "reduction"], [index, weight], [out], body)[0]


def _rows_by_length(f: FunctionText, part: Sparse, x: Tensor) -> Tensor:
    """Rows of very different lengths: those of similar length are padded together, then all are put in order."""
    counts = np.diff(part.indptr)
    classes = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    order = [np.flatnonzero(classes == kind) for kind in np.unique(classes)]
    parts = [_padded_rows(f, _only(part, rows), x, max(int(counts[rows].max()), 1)) for rows in order]
    return taken(f, joined(f, parts), np.argsort(np.concatenate(order)))


def taken(f: FunctionText, x: Tensor, places: Array) -> Tensor:
    """Elements of ``[batch, n]`` by their places: the tensor itself, a stretch of it, or one by one."""
    size, count = x.shape[0], len(places)
    if count and np.array_equal(places, np.arange(places[0], places[0] + count)):
        if count == size:
            return x
        into = replace(x, shape=(count,))
        where = f"[0, {places[0]}] [{x.lead[0]}, {count}] [1, 1]"
        return replace(into, name=f.op(f"tensor.extract_slice {x.name}{where} : {x.type} to {into.type}"))
    row, place, value, index, old = (f.fresh() for _ in range(5))
    lines = [
        f"{row} = linalg.index 0 : index",
        f"{place} = arith.index_cast {index} : i32 to index",
        f"{value} = tensor.extract {x.name}[{row}, {place}] : {x.type}",
    ]
    maps = ["(b, n) -> (n)", "(b, n) -> (b, n)"]
    out = f.empty(x.element, x.lead, (count,))
    return f.generic(maps, ["parallel"] * 2, [f.array(places, "i32")], [out], Body([index, old], lines, [value]))[0]


def joined(f: FunctionText, parts: Sequence[Tensor]) -> Tensor:
    """Tensors ``[batch, n]`` one after the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    whole, start = f.empty(first.element, first.lead, (sum(t.shape[0] for t in parts),)), 0
    for part in parts:
        whole = f.inserted(part, whole, [0, start], [part.lead[0], part.shape[0]])
        start += part.shape[0]
    return whole


def _only(part: Sparse, rows: Array) -> Sparse:
    """Some rows of an operator."""
    every = np.diff(part.indptr)
    chosen = np.zeros(len(every), bool)
    chosen[rows] = True
    counts, entries = every[rows], np.repeat(chosen, every)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return replace(
        part,
        indptr=indptr,
        indices=part.indices[entries],
        data=np.asarray(part.data)[entries],
        output_shape=(len(rows),),
    )


def _added(f: FunctionText, element: str, x: str, w: str, total: str) -> tuple[str, list[str]]:
    """(the new total, the lines that compute it): a product, rounded, then a sum."""
    kind, term, new = ("f" if element.startswith("f") else "i"), f.fresh(), f.fresh()
    return new, [
        f"{term} = arith.mul{kind} {x}, {w} : {element}",
        f"{new} = arith.add{kind} {total}, {term} : {element}",
    ]


def conv(f: FunctionText, part: Conv, x: Tensor) -> Tensor:
    """A named convolution over two axes without groups; else the same sums written out."""
    padded = _reached(f, _padded(f, x, part.padding), part)
    weight = f.array(part.weight, x.element)
    if part.groups == 1 and len(part.kernel) == 2:
        return _named(f, "linalg.conv_2d_nchw_fchw", part, padded, weight, part.output_shape)
    return _grouped(f, part, padded, np.asarray(part.weight))


def sum_pool(f: FunctionText, part: SumPool, x: Tensor) -> Tensor:
    """The sums of a pool; its factor is applied afterwards."""
    padded = _reached(f, _padded(f, x, part.padding), part)
    if len(part.kernel) == 2:
        window = f.empty(x.element, (), part.kernel)
        return _named(f, "linalg.pooling_nchw_sum", part, padded, window, part.output_shape)
    channels = part.input_shape[0]
    ones = np.ones((channels, 1, *part.kernel))
    whole = Conv(ones, part.stride, part.padding, part.dilation, channels, part.input_shape)
    return _grouped(f, whole, padded, ones)


def _named(f: FunctionText, name: str, part: Any, x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    out = f.filled(x.element, x.lead, shape)
    strides, dilations = (f"dense<{list(v)}> : tensor<{len(v)}xi64>" for v in (part.stride, part.dilation))
    ins = f"ins({x.name}, {weight.name} : {x.type}, {weight.type}) outs({out.name} : {out.type})"
    text = f"{name} {{dilations = {dilations}, strides = {strides}}} {ins} -> {out.type}"
    return replace(out, name=f.op(text))


def _grouped(f: FunctionText, part: Conv, x: Tensor, weights: Array) -> Tensor:
    """Axes: batch, group, kernel, positions; channel of the group and taps are summed over."""
    groups, spatial = part.groups, len(part.kernel)
    channels, kernels = x.shape[0] // groups, weights.shape[0] // groups
    split = _split_channels(f, x, groups, channels)
    weight = f.array(weights.reshape(groups, kernels, *weights.shape[1:]), x.element)
    out = f.filled(x.element, x.lead, (groups, kernels, *part.output_shape[1:]))
    places, taps = [f"y{k}" for k in range(spatial)], [f"t{k}" for k in range(spatial)]
    axes = f"(b, g, n, {', '.join(places)}, c, {', '.join(taps)})"
    steps = zip(places, part.stride, taps, part.dilation, strict=True)
    read = ", ".join(f"{y} * {s} + {t} * {d}" for y, s, t, d in steps)
    maps = [
        f"{axes} -> (b, g, c, {read})",
        f"{axes} -> (g, n, c, {', '.join(taps)})",
        f"{axes} -> (b, g, n, {', '.join(places)})",
    ]
    value, w, total = (f.fresh() for _ in range(3))
    new, lines = _added(f, x.element, value, w, total)
    kinds = ["parallel"] * (3 + spatial) + ["reduction"] * (1 + spatial)
    (summed,) = f.generic(maps, kinds, [split, weight], [out], Body([value, w, total], lines, [new]))
    rest = "".join(f", [{k + 3}]" for k in range(spatial))
    into = type_text(x.element, x.lead, part.output_shape)
    name = f.op(f"tensor.collapse_shape {summed.name} [[0], [1, 2]{rest}] : {summed.type} into {into}")
    return Tensor(name, x.element, x.lead, part.output_shape)


def _split_channels(f: FunctionText, x: Tensor, groups: int, channels: int) -> Tensor:
    shape = (groups, channels, *x.shape[1:])
    rest = "".join(f", [{k + 3}]" for k in range(len(x.shape) - 1))
    extents = ", ".join(map(str, (*x.lead, *shape)))
    into = type_text(x.element, x.lead, shape)
    text = f"tensor.expand_shape {x.name} [[0], [1, 2]{rest}] output_shape [{extents}] : {x.type} into {into}"
    return Tensor(f.op(text), x.element, x.lead, shape)


def _padded(f: FunctionText, x: Tensor, padding: Sequence[tuple[int, int]]) -> Tensor:
    """Zeros around the axes after the channels."""
    if not any(map(any, padding)):
        return x
    shape = (x.shape[0], *(n + lo + hi for n, (lo, hi) in zip(x.shape[1:], padding, strict=True)))
    low, high = (", ".join(["0", "0", *(str(p[k]) for p in padding)]) for k in (0, 1))
    into, name = type_text(x.element, x.lead, shape), f.fresh()
    zero = f.scalar(0, x.element)
    args = ", ".join(f"{f.fresh()}: index" for _ in range(x.axes))
    head = f"{name} = tensor.pad {x.name} low[{low}] high[{high}] {{"
    f.block(head, f"^bb0({args}):", [f"tensor.yield {zero} : {x.element}"], f"}} : {x.type} to {into}")
    return Tensor(name, x.element, x.lead, shape)


def _reached(f: FunctionText, x: Tensor, part: Conv | SumPool) -> Tensor:
    """Without the rows that no window reaches, along axes with one window.

    Where an axis has one window, IREE takes the extent of the input for that of the kernel.
    """
    windows = zip(x.shape[1:], part.output_shape[1:], part.kernel, part.dilation, strict=True)
    shape = (x.shape[0], *((k - 1) * d + 1 if count == 1 else n for n, count, k, d in windows))
    if shape == x.shape:
        return x
    into = type_text(x.element, x.lead, shape)
    zeros, ones = (", ".join([number] * x.axes) for number in "01")
    sizes = ", ".join(map(str, (*x.lead, *shape)))
    return Tensor(
        f.op(f"tensor.extract_slice {x.name}[{zeros}] [{sizes}] [{ones}] : {x.type} to {into}"),
        x.element,
        x.lead,
        shape,
    )
