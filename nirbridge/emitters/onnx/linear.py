"""Linear operators and delays in ONNX, on flat tensors ``[batch, elements]``."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.onnx.graph import GraphBuilder
from nirbridge.emitters.timesteps import sparse_rows, sparse_table
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

BLOCK_ROWS = 128
"""Rows that ONNX Runtime adds at least before it begins another sum (256 on x86-64)."""


def linear(g: GraphBuilder, operator: Operator, x: str, dtype: str) -> str:
    """``operator(x)``; ``x``: ``[batch, elements of its input shape]`` of ``dtype``.

    Raises:
        ModelError: a convolution in another type than float32 that has too many synapses for a list of them.
    """
    for part in parts_of(operator):
        x = _part(g, part, x, dtype)
    return x


def _part(g: GraphBuilder, part: Operator, x: str, dtype: str) -> str:
    assert not isinstance(part, Chain), "a chain has no chain among its parts"
    if isinstance(part, Identity | Reshape):
        return x
    if isinstance(part, Scale):
        return g.op("Mul", x, g.constant(np.asarray(part.scale).reshape(1, -1), dtype))
    if isinstance(part, Dense):
        return _product(g, x, np.asarray(part.weight).T, dtype)
    if isinstance(part, Sparse):
        return _sparse(g, part, x, dtype)
    if dtype != "float32":  # ONNX Runtime has convolutions of float32 alone
        table = matrix(part)
        return _sparse(
            g, Sparse(table.indptr, table.indices, table.data, part.input_shape, part.output_shape), x, dtype
        )
    return _conv(g, part, x) if isinstance(part, Conv) else _pool(g, part, x)


def _product(g: GraphBuilder, x: str, table: Array, dtype: str) -> str:
    """``x @ table``, rounded before anything else is computed from it.

    ONNX Runtime fuses a product with the constant factor after it and applies that to the sum of each block of
    rows, which rounds otherwise. A Max is never fused; an Identity is removed first.
    """
    product = g.op("MatMul", x, g.constant(table, dtype))
    return g.op("Max", product, product) if dtype == "float32" and len(table) > BLOCK_ROWS else product


def _sparse(g: GraphBuilder, part: Sparse, x: str, dtype: str) -> str:
    table = sparse_table(part)
    if table is not None:
        return _product(g, x, table, dtype)
    rows, post = sparse_rows(part), math.prod(part.output_shape)
    terms = g.op("Mul", g.columns(x, np.asarray(part.indices)), g.constant(np.asarray(part.data).reshape(1, -1), dtype))
    batch = g.op("Shape", x, start=0, end=1)
    none = g.op("Expand", g.constant(0, dtype), g.op("Concat", batch, g.constant([post], "int64"), axis=0))
    places = g.op("Expand", g.constant(rows.reshape(1, -1), "int64"), g.op("Shape", terms))
    return g.op("ScatterElements", none, places, terms, axis=1, reduction="add")


def _conv(g: GraphBuilder, part: Conv, x: str) -> str:
    image = g.reshaped(x, -1, *part.input_shape)
    pads = [low for low, _ in part.padding] + [high for _, high in part.padding]
    out = g.op(
        "Conv",
        image,
        g.constant(part.weight, "float32"),
        strides=list(part.stride),
        dilations=list(part.dilation),
        pads=pads,
        group=part.groups,
    )
    return g.reshaped(out, -1, math.prod(part.output_shape))


def _pool(g: GraphBuilder, part: SumPool, x: str) -> str:
    """A window of ones for each channel, then the factor, as the reference does it."""
    channels = part.input_shape[0]
    ones = np.ones((channels, 1, *part.kernel))
    sums = _conv(g, Conv(ones, part.stride, part.padding, part.dilation, channels, part.input_shape), x)
    return sums if part.factor == 1.0 else g.op("Mul", sums, g.constant(part.factor, "float32"))


def delayed(g: GraphBuilder, past: str | None, now: str | None, depth: int, delays: Array, size: int) -> str:
    """Values of a source some time steps ago, one delay for all or one per element.

    ``past``: ``[batch, depth, size]``, the oldest first; ``now``: ``[batch, size]``, needed for a delay of 0.
    """
    delays = np.asarray(delays).reshape(-1)
    same = bool((delays == delays[0]).all())
    if same and delays[0] == 0:
        assert now is not None, "a source is computed before its targets"
        return now
    assert past is not None
    if same:
        return g.op("Gather", past, g.constant(depth - int(delays[0]), "int64"), axis=1)
    if (delays == 0).any():
        assert now is not None
        past = g.op("Concat", past, g.op("Unsqueeze", now, g.constant([1], "int64")), axis=1)
    rows = g.reshaped(past, -1, (depth + int((delays == 0).any())) * size)
    return g.columns(rows, (depth - delays) * size + np.arange(size))


def moved_on(g: GraphBuilder, past: str, now: str, depth: int, name: str) -> str:
    """The history one time step later.

    A history of one time step is a copy of ``now``: OpenVINO 2026.4 makes none of a reshaped input of the body, and
    reads the input of the next time step in its place. It removes an Identity, and keeps a Max.
    """
    latest = g.constant([1], "int64")
    if depth == 1:
        return g.op("Unsqueeze", g.op("Max", now, now), latest, name=name)
    rest = g.op("Slice", past, latest, g.constant([depth], "int64"), latest)
    return g.op("Concat", rest, g.op("Unsqueeze", now, latest), axis=1, name=name)
