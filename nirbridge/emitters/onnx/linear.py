"""Linear operators and delays in ONNX, on flat tensors ``[batch, elements]``, and the nodes that they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nirbridge.arrays import Array
from nirbridge.emitters.sums import sparse_rows, sparse_table, synapses
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
    if isinstance(part, Sparse) or dtype != "float32":  # ONNX Runtime has convolutions of float32 alone
        return _sparse(g, synapses(part), x, dtype)
    return _conv(g, part, x) if isinstance(part, Conv) else _pool(g, part, x)


def _product(g: GraphBuilder, x: str, table: Array, dtype: str) -> str:
    """``x @ table``, rounded before anything else is computed from it.

    ONNX Runtime fuses a product with the constant factor after it, or with an addition (``W s + a v``), and
    applies these to the sum of each block of rows, which rounds otherwise. A Max is never fused.
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


def delayed(g: GraphBuilder, past: str, now: str | None = None, *, depth: int, delays: Array) -> str:
    """Values of some time steps ago, one delay for all or one per element.

    ``past``: ``[batch, depth, size]``, the oldest first; ``now``: ``[batch, size]``, needed for a delay of 0.
    """
    if delays.ndim == 0:
        return g.op("Gather", past, g.constant(depth - int(delays), "int64"), axis=1)
    if now is not None:
        past = g.op("Concat", past, g.op("Unsqueeze", now, g.constant([1], "int64")), axis=1)
    rows = g.reshaped(past, -1, (depth + int(now is not None)) * delays.size)
    return g.columns(rows, (depth - delays.reshape(-1)) * delays.size + np.arange(delays.size))


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


# -- graph ---------------------------------------------------------------------------------------------------------
# Nodes, constants and types of an ONNX model under construction. Needs the package onnx (extra ``onnx``).

OPSET, IR = 18, 9
BATCH, TIME = "batch", "time"
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
Extent = int | str


class GraphBuilder:
    """Nodes of a graph and the constants that they use, each of which is stored once; names begin with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._by_value: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Append a node with one output, whose name is returned."""
        self._count += 1
        out = name or f"{self.prefix}t{self._count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def constant(self, values: Any, dtype: str) -> str:
        """The name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(np.asarray(values).astype(dtype))
        array = array.reshape(np.shape(values))
        key = (dtype, array.shape, array.tobytes())
        if key not in self._by_value:
            self._by_value[key] = name = f"{self.prefix}c{len(self.constants)}"
            self.constants[name] = numpy_helper.from_array(array, name)
        return self._by_value[key]

    def cast(self, tensor: str, dtype: str) -> str:
        """The tensor in another type."""
        return self.op("Cast", tensor, to=TYPES[dtype])

    def reshaped(self, tensor: str, *shape: int) -> str:
        """The tensor in another shape."""
        return self.op("Reshape", tensor, self.constant(shape, "int64"))

    def columns(self, tensor: str, places: Array) -> str:
        """The columns ``places`` of ``[batch, columns]``."""
        return self.op("Gather", tensor, self.constant(places, "int64"), axis=1)


def described(name: str, dtype: str, shape: Sequence[Extent]) -> Any:
    """A tensor of a graph with its type and shape."""
    return helper.make_tensor_value_info(name, TYPES[dtype], list(shape))


def model_of(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: Sequence[Any]) -> Any:
    """A checked model."""
    graph = helper.make_graph(list(nodes), "network", list(inputs), list(outputs), list(constants))
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, producer_name="nirbridge", opset_imports=opsets, ir_version=IR)
    onnx.checker.check_model(model, full_check=True)
    return model
