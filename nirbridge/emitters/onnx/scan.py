"""A model as one Scan over time: states, histories, and one time step as its body."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from nirbridge.arrays import Array
from nirbridge.emitters.onnx.graph import BATCH, TIME, GraphBuilder, described, model_of
from nirbridge.emitters.onnx.linear import delayed, moved_on


@dataclass(frozen=True, slots=True)
class ScanState:
    """A state of the scan: its name in the body, its type, and its start ``[1, …]``."""

    name: str
    dtype: str
    start: Array


@dataclass(slots=True)
class ScanBuilder:
    """What the body of a Scan needs: states with their next values, inputs and outputs of one time step."""

    g: GraphBuilder = field(default_factory=GraphBuilder)
    states: list[ScanState] = field(default_factory=list)
    following: list[str] = field(default_factory=list)
    inputs: list[tuple[str, str, int, tuple[int, ...]]] = field(default_factory=list)
    outputs: list[tuple[str, str, str, int, tuple[int, ...]]] = field(default_factory=list)
    now: dict[str, str] = field(default_factory=dict)
    past: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def state(self, name: str, dtype: str, start: Array) -> str:
        """A new state; its next value is to be given by ``follow``, in the same order."""
        self.states.append(ScanState(name, dtype, np.asarray(start)[None]))
        return name

    def follow(self, tensor: str) -> None:
        """The next value of the first state that has none yet. A tensor stands for one state only."""
        place = len(self.following)
        self.following.append(self.g.op("Identity", tensor, name=f"{self.states[place].name}_next"))

    def begin_history(self, source: str, identifier: str, depth: int, size: int, dtype: str) -> None:
        """A source with the longest delay of what it sends."""
        self.depths[source], self.sizes[source] = depth, size
        if depth:
            self.past[source] = self.state(f"{identifier}_past", dtype, np.zeros((depth, size)))

    def sent(self, source: str, delays: Array) -> str:
        """What a source sent some time steps ago."""
        past, depth = self.past.get(source), self.depths[source]
        return delayed(self.g, past, self.now.get(source), depth, delays, self.sizes[source])

    def end_histories(self) -> None:
        """Every history one time step later."""
        for source, past in self.past.items():
            self.following.append(moved_on(self.g, past, self.now[source], self.depths[source], f"{past}_next"))

    def model(self) -> Any:
        """The whole model, of a network with an input."""
        body = self._body()
        outer = GraphBuilder("model_")
        first = self.inputs[0][0]
        batch = outer.op("Shape", first, start=1, end=2)
        starts = [self._started(outer, state, batch) for state in self.states]
        rows = [outer.reshaped(name, 0, 0, size) if len(shape) != 1 else name for name, _, size, shape in self.inputs]
        outs = [f"{name}_flat" if len(shape) != 1 else name for name, _, _, _, shape in self.outputs]
        ends = [f"{state.name}_end" for state in self.states]
        scan = helper.make_node("Scan", [*starts, *rows], [*ends, *outs], num_scan_inputs=len(rows), body=body)
        outer.nodes.append(scan)
        for flat, (name, _, _, _, shape) in zip(outs, self.outputs, strict=True):
            if flat != name:
                outer.nodes.append(helper.make_node("Reshape", [flat, outer.constant((0, 0, *shape), "int64")], [name]))
        constants = [*self.g.constants.values(), *outer.constants.values()]
        inputs = [described(name, dtype, (TIME, BATCH, *shape)) for name, dtype, _, shape in self.inputs]
        outputs = [described(name, dtype, (TIME, BATCH, *shape)) for name, _, dtype, _, shape in self.outputs]
        return model_of(outer.nodes, inputs, outputs, constants)

    def _body(self) -> Any:
        states = [described(s.name, s.dtype, (BATCH, *s.start.shape[1:])) for s in self.states]
        steps = [described(f"{name}_now", dtype, (BATCH, size)) for name, dtype, size, _ in self.inputs]
        following = [
            described(name, s.dtype, (BATCH, *s.start.shape[1:]))
            for name, s in zip(self.following, self.states, strict=True)
        ]
        outputs = []
        for name, tensor, dtype, size, _ in self.outputs:
            outputs.append(described(self.g.op("Identity", tensor, name=f"{name}_now"), dtype, (BATCH, size)))
        return helper.make_graph(self.g.nodes, "step", [*states, *steps], [*following, *outputs])

    @staticmethod
    def _started(outer: GraphBuilder, state: ScanState, batch: str) -> str:
        start = outer.constant(state.start, state.dtype)
        shape = outer.op("Concat", batch, outer.constant(state.start.shape[1:], "int64"), axis=0)
        return outer.op("Expand", start, shape)


def size_of(shape: tuple[int, ...]) -> int:
    """Elements of a shape."""
    return math.prod(shape)
