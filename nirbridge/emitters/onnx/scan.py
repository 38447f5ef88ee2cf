"""A network in float32, or in integers, as one Scan over time: states, histories, and one time step as its body."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from nirbridge.arrays import Array
from nirbridge.emitters.onnx.linear import BATCH, TIME, GraphBuilder, delayed, described, linear, model_of, moved_on
from nirbridge.emitters.onnx.plan import OnnxPlan
from nirbridge.emitters.ports import identifiers, integer_names, real_names
from nirbridge.emitters.timesteps import integer_states, late_depths, longest_delays, real_states, sent_ranges
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population, Projection
from nirbridge.program.interval import first_values, fits, intervals
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Stepped, Term, fold, is_truth
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import operator_bounds, prove


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


# -- neurons -------------------------------------------------------------------------------------------------------

NODES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "floor": "Floor", "min": "Min",
    "max": "Max", "not": "Not", "where": "Where", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "and": "And",
}  # fmt: skip
"""Operations that ONNX has; its ``Div`` of integers cuts towards zero."""
WIDTH = 64


@dataclass(frozen=True, slots=True)
class SteppedTensors:
    """Tensors of one time step of a population: what it sends, its variables, and its next state by name."""

    sent: str
    variables: dict[str, str]
    state: dict[str, str]


def real_step(g: GraphBuilder, p: Population, drive: str, state: Mapping[str, str]) -> SteppedTensors:
    """One time step of a population in float32; ``drive``: ``[batch, neurons]``."""
    return _written(g, p, inlined(traced_step(p.neuron)), {"drive": drive, **_args(state)}, lambda term: False)


def integer_step(
    g: GraphBuilder, p: FixedPopulation, drive: str, state: Mapping[str, str], a_in: tuple[int, int]
) -> SteppedTensors:
    """The same in int64; ``a_in``: the least and the greatest drive of any time step."""
    step, first = inlined(traced_step(p.neuron)), first_values(p.neuron, a_in)
    known = intervals(step, first)
    if not fits(known, WIDTH):
        known = intervals(step := in_halves(step), first)
    return _written(g, p, step, {"drive": drive, **_args(state)}, lambda term: known.get(id(term), (0, 0))[0] >= 0)


def _args(state: Mapping[str, str]) -> dict[str, str]:
    return {f"state.{name}": tensor for name, tensor in state.items()}


def _written(
    g: GraphBuilder,
    p: Population | FixedPopulation,
    step: Stepped,
    args: Mapping[str, str],
    is_positive: Callable[[Term], bool],
) -> SteppedTensors:
    types = {"real": "float32", "int": "int64", "count": "int64", "bool": "bool"}

    def tensor(value: Term | str) -> str:
        if isinstance(value, str):
            return value
        return g.flat(np.asarray(value.value), p.shape, types[value.kind])

    def make(term: Term, given: list[Term | str]) -> Term | str:
        """A tensor; a number or a coefficient stays a term until a node reads it."""
        if term.op in ("const", "param"):
            return term
        if term.op == "arg":
            return args[term.name]
        if is_truth(term):
            return g.cast(tensor(given[0]), types[term.kind])
        return _of_integers(g, term, given, tensor, is_positive) or g.op(NODES[term.op], *map(tensor, given))

    variables = {name: term for name, term in step.variables.items() if name != "s" or p.neuron.fires}
    following = {name: term for name, term in step.state.items() if f"state.{name}" in args}
    sent, *tensors = map(tensor, fold([step.sent, *variables.values(), *following.values()], make))
    named = dict(zip(variables, tensors, strict=False))
    return SteppedTensors(sent, named, dict(zip(following, tensors[len(named) :], strict=True)))


def _of_integers(
    g: GraphBuilder,
    term: Term,
    given: list[Term | str],
    tensor: Callable[[Term | str], str],
    is_positive: Callable[[Term], bool],
) -> str | None:
    """Operations that ONNX has not: shifts, masks, and quotients that are rounded down."""
    if term.op in ("shl", "shr"):
        x, unit = tensor(given[0]), g.constant(1 << int(term.args[1].value), "int64")
        if term.op == "shl":
            return g.op("Mul", x, unit)
        return g.op("Div", x if is_positive(term.args[0]) else _multiple(g, x, unit), unit)
    if term.op == "floordiv":
        x, y = map(tensor, given)
        return g.op("Div", _multiple(g, x, y), y)
    if term.op == "and" and term.kind != "bool":
        return g.op("Mod", tensor(given[0]), g.constant(int(term.args[1].value) + 1, "int64"))
    return None


def _multiple(g: GraphBuilder, x: str, unit: str) -> str:
    """The next multiple of a unit below."""
    return g.op("Sub", x, g.op("Mod", x, unit))


# -- integers ------------------------------------------------------------------------------------------------------
# A quantized network as an ONNX model: sums in float32 where these are exact, neurons in int64.

EXACT = 1 << 24
"""Sums of whole numbers below this are exact in float32, in any order."""


def integer_model(quantized: QuantizedNetwork) -> OnnxPlan:
    """The model of a quantized network, bit-equal to the fixed-point simulator.

    Raises:
        ModelError: a convolution whose sums float32 cannot hold and whose synapses are too many to list.
    """
    return _IntegerBuilder(quantized).plan()


class _IntegerBuilder:
    def __init__(self, quantized: QuantizedNetwork) -> None:
        self.q, self.scan = quantized, ScanBuilder()
        self.g = self.scan.g
        self.ids, self.ranges = identifiers(quantized), sent_ranges(quantized)
        self.reals: dict[str, str] = {}

    def plan(self) -> OnnxPlan:
        q, scan = self.q, self.scan
        states = {p.name: self._states(p) for p in q.populations}
        sources = (*q.inputs, *q.populations)
        for name, depth in longest_delays(sources, (*q.projections, *q.reads)).items():
            size = next(size_of(x.shape) for x in sources if x.name == name)
            scan.begin_history(name, self.ids[name], depth, size, "int64")
        for port in q.inputs:
            scan.inputs.append((self.ids[port.name], "int64", size_of(port.shape), port.shape))
            scan.now[port.name] = f"{self.ids[port.name]}_now"
        bounds = prove(q)
        stepped: dict[str, SteppedTensors] = {}
        for p in q.populations:
            stepped[p.name] = integer_step(self.g, p, self._drive(p), states[p.name], bounds[p.name].a_in)
        scan.now |= {name: step.sent for name, step in stepped.items()}
        for k, port in enumerate(q.outputs):
            scan.outputs.append((f"out{k}", self._output(port.name), "float64", port.size, port.shape))
        for p in q.populations:
            for name in states[p.name]:
                scan.follow(stepped[p.name].state[name])
        scan.end_histories()
        return self._plan(stepped)

    def _states(self, p: FixedPopulation) -> dict[str, str]:
        return {
            key: self.scan.state(f"{self.ids[p.name]}_{key}", "int64", start.reshape(-1))
            for key, start in integer_states(p).items()
        }

    def _drive(self, target: FixedPopulation) -> str:
        total = None
        for p in self.q.projections:
            if p.target == target.name:
                current = self._current(p)
                total = current if total is None else self.g.op("Add", total, current)
        if total is not None:
            return total
        batch = self.g.op("Shape", f"{self.ids[self.q.inputs[0].name]}_now", start=0, end=1)
        shape = self.g.op("Concat", batch, self.g.constant([target.size], "int64"), axis=0)
        return self.g.op("Expand", self.g.constant(0, "int64"), shape)

    def _current(self, p: FixedProjection) -> str:
        """``operator(sent) << weight_exp``, in float32 where no sum and no value leaves its whole numbers."""
        low, high = operator_bounds(p.operator, self.ranges[p.source])
        sent = self.ranges[p.source]
        largest = max(-int(low.min(initial=0)), int(high.max(initial=0)), -sent.low, sent.high)
        largest = max(largest, int(np.abs(weights_of(p.operator)).max(initial=0)))
        dtype = "float32" if largest < EXACT else "int64"
        arriving = self.scan.sent(p.source, p.delay_steps)
        summed = linear(self.g, p.operator, arriving if dtype == "int64" else self.g.cast(arriving, dtype), dtype)
        summed = summed if dtype == "int64" else self.g.cast(summed, "int64")
        if p.weight_exp >= 0:
            return self.g.op("Mul", summed, self.g.constant(1 << p.weight_exp, "int64")) if p.weight_exp else summed
        unit = self.g.constant(1 << -p.weight_exp, "int64")
        return self.g.op("Div", self.g.op("Sub", summed, self.g.op("Mod", summed, unit)), unit)

    def _output(self, name: str) -> str:
        """The values of an output in reals, from what its sources send."""
        total = None
        for read in (r for r in self.q.reads if r.target == name):
            values = linear(self.g, read.operator, self._real(read), "float64")
            if read.bias is not None:
                values = self.g.op("Add", values, self.g.flat(read.bias, read.operator.output_shape, "float64"))
            total = values if total is None else self.g.op("Add", total, values)
        assert total is not None, "the checker lets no output without a source through"
        return total

    def _real(self, read: Projection) -> str:
        sent = self.g.cast(self.scan.sent(read.source, read.delay_steps), "float64")
        for port in self.q.inputs:
            if port.name == read.source:
                return self.g.op("Mul", sent, self.g.constant(port.scale, "float64")) if port.graded else sent
        p = self.q.population(read.source)
        if p.neuron.fires:
            return sent
        scaled = self.g.op("Div", sent, self.g.flat(p.neuron.scale, p.shape, "float64"))
        return self.g.op("Add", scaled, self.g.flat(p.neuron.v_offset, p.shape, "float64"))

    def _plan(self, stepped: dict[str, SteppedTensors]) -> OnnxPlan:
        names = integer_names(self.q, {name: step.variables for name, step in stepped.items()})
        return OnnxPlan(self.scan.model(), names)


# -- real ----------------------------------------------------------------------------------------------------------
# A network in float32 as an ONNX model.

FLOAT = "float32"


def real_model(network: Network) -> OnnxPlan:
    """The model of a network with an input."""
    return _RealBuilder(in_causal_order(network)).plan()


class _RealBuilder:
    """One time step of a network, projection by projection."""

    def __init__(self, network: Network) -> None:
        self.network, self.scan = network, ScanBuilder()
        self.g = self.scan.g
        self.ids = identifiers(network)
        self.late: dict[int, tuple[str, int]] = {}
        self.late_now: dict[int, str] = {}

    def plan(self) -> OnnxPlan:
        network, scan = self.network, self.scan
        populations = [p for group in population_groups(network) for p in group.populations]
        states = {p.name: self._states(p) for p in populations}
        for k, depth in late_depths(network).items():
            size = size_of(network.projections[k].operator.output_shape)
            self.late[k] = scan.state(f"late{k}", FLOAT, np.zeros((depth, size))), depth
        sources = (*network.inputs, *network.populations)
        for name, depth in longest_delays(sources, network.projections).items():
            size = next(size_of(x.shape) for x in sources if x.name == name)
            scan.begin_history(name, self.ids[name], depth, size, FLOAT)
        for port in network.inputs:
            scan.inputs.append((self.ids[port.name], FLOAT, port.size, port.shape))
            scan.now[port.name] = f"{self.ids[port.name]}_now"
        stepped: dict[str, SteppedTensors] = {}
        for p in populations:
            stepped[p.name] = step = real_step(self.g, p, self._drive(p.name, p.size), states[p.name])
            scan.now[p.name] = step.sent
        for k, port in enumerate(network.outputs):
            scan.outputs.append((f"out{k}", self._drive(port.name, port.size), FLOAT, port.size, port.shape))
        for p in populations:
            for name in states[p.name]:
                scan.follow(stepped[p.name].state[name])
        for k, (past, depth) in self.late.items():
            scan.following.append(moved_on(self.g, past, self.late_now[k], depth, f"{past}_next"))
        scan.end_histories()
        return self._plan(stepped)

    def _states(self, p: Population) -> dict[str, str]:
        return {
            key: self.scan.state(
                f"{self.ids[p.name]}_{key}", "int64" if key == "refractory" else FLOAT, start.reshape(-1)
            )
            for key, start in real_states(p).items()
        }

    def _drive(self, target: str, size: int) -> str:
        """The currents of a target, added in the order of the network's projections."""
        total = None
        for k, p in enumerate(self.network.projections):
            if p.target == target:
                current = self._current(k, p)
                total = current if total is None else self.g.op("Add", total, current)
        return total or self._silence(size)

    def _current(self, k: int, p: Projection) -> str:
        current = linear(self.g, p.operator, self.scan.sent(p.source, p.delay_steps), FLOAT)
        if k in self.late:
            past, depth = self.late[k]
            self.late_now[k] = current
            delays = np.broadcast_to(p.target_delay_steps, p.operator.output_shape).reshape(-1)
            current = delayed(self.g, past, current, depth, delays, len(delays))
        if p.bias is None:
            return current
        return self.g.op("Add", current, self.g.flat(p.bias, p.operator.output_shape, FLOAT))

    def _silence(self, size: int) -> str:
        """No input: zeros for every sample."""
        batch = self.g.op("Shape", f"{self.ids[self.network.inputs[0].name]}_now", start=0, end=1)
        shape = self.g.op("Concat", batch, self.g.constant([size], "int64"), axis=0)
        return self.g.op("Expand", self.g.constant(0, FLOAT), shape)

    def _plan(self, stepped: dict[str, SteppedTensors]) -> OnnxPlan:
        names = real_names(self.network, {name: step.variables for name, step in stepped.items()}, FLOAT)
        return OnnxPlan(self.scan.model(), names)
