"""Nodes, constants and types of an ONNX model under construction. Needs the package onnx (extra ``onnx``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nirbridge.arrays import Array

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

    def flat(self, values: Array, shape: tuple[int, ...], dtype: str) -> str:
        """A coefficient of a population: one number, or one per neuron ``[1, neurons]``."""
        values = np.asarray(values)
        if values.size and (values == values.flat[0]).all():
            return self.constant(values.flat[0], dtype)
        return self.constant(np.broadcast_to(values, shape).reshape(1, -1), dtype)

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
