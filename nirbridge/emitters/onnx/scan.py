"""A network in float32, or in integers, as one Scan over time: the step program is its body."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from onnx import helper, numpy_helper

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.onnx.linear import BATCH, TIME, GraphBuilder, delayed, described, linear, model_of, moved_on
from nirbridge.emitters.ports import END, ProgramNames, identifiers, integer_names, real_names, state_id
from nirbridge.emitters.sums import sums_of_currents
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network
from nirbridge.program.interval import first_values, fits, intervals
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.rules import traced_step
from nirbridge.program.step import Key, StepProgram, step_program
from nirbridge.program.terms import Kind, Term, fold, is_truth
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.overflow import prove

NODES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "floor": "Floor", "min": "Min",
    "max": "Max", "not": "Not", "where": "Where", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "and": "And",
}  # fmt: skip
"""Operations that ONNX has; its ``Div`` of integers cuts towards zero."""
INTEGERS: Mapping[Kind, str] = {"int": "int64", "real": "float64", "count": "int64", "bool": "bool"}
REALS: Mapping[Kind, str] = {"real": "float32", "count": "int64", "bool": "bool"}
WIDTH = 64
STATES = "batch_or_1"
"""The first axis of a state that is given: one for each sample, or one for all of them."""
EXACT = 1 << 24
"""Sums of whole numbers below this are exact in float32, in any order."""


def integer_model(quantized: QuantizedNetwork) -> tuple[Any, ProgramNames]:
    """The model of a quantized network and its names, bit-equal to the fixed-point simulator.

    Sums are made in float32 where these are exact, neurons in int64.

    Raises:
        ModelError: a convolution whose sums float32 cannot hold and whose synapses are too many to list.
    """
    q, bounds, program = quantized, prove(quantized), step_program(quantized)
    steps = ((traced_step(p.neuron), first_values(p.neuron, bounds[p.name].a_in)) for p in q.populations)
    if not all(fits(intervals(*step), WIDTH) for step in steps):
        program = in_halves(program)
    exact = {key: "float32" for key, largest in sums_of_currents(q).items() if largest < EXACT}
    builder = _Builder(q, program, INTEGERS, exact)
    return builder.scan(), integer_names(q, builder.variables(), builder.program)


def real_model(network: Network) -> tuple[Any, ProgramNames]:
    """The model of a network with an input, and its names."""
    network = in_causal_order(network)
    builder = _Builder(network, step_program(network), REALS, {})
    return builder.scan(), real_names(network, builder.variables(), REALS["real"], builder.program)


def step_model(network: Network) -> tuple[Any, ProgramNames, dict[str, Array]]:
    """The model of one time step in float32, its names, and the states before the first one, ``[1, …]`` by input.

    A state ``p0_v`` is an input and, as ``p0_v_next``, an output; both are ``[batch, …]``, and so are the rows of the
    network's inputs, ``in0_now``, and outputs, ``out0_now``, over elements. Variables are tensors that are no outputs.
    """
    network = in_causal_order(network)
    builder = _Builder(network, step_program(network), REALS, {})
    proto, states = builder.step()
    names = real_names(network, builder.variables(), REALS["real"])
    return proto, names, {s.name: s.start.astype(s.dtype) for s in states}


@dataclass(frozen=True, slots=True)
class ScanState:
    """A state of the scan: its name in the body, that of its next value, its type, and its start ``[1, …]``.

    ``port``: its name as an input of the model.
    """

    port: str
    name: str
    following: str
    dtype: str
    start: Array


class _Body(NamedTuple):
    """One time step: ports as (name, type, shape), states, and the tensors that it is given and gives."""

    inputs: list[tuple[str, str, Shape]]
    outputs: list[tuple[str, str, Shape]]
    states: list[ScanState]
    given: list[Any]
    found: list[Any]


class _Builder:
    """Nodes of a step program.

    Args:
        model: the network, with an input.
        program: its time step.
        types: of tensors of each kind.
        exact: the type that holds the sums of a current, by its name, where it is another one.
    """

    def __init__(
        self,
        model: Network | QuantizedNetwork,
        program: StepProgram,
        types: Mapping[Kind, str],
        exact: Mapping[str, str],
    ) -> None:
        self.model, self.program, self.types, self.exact = model, inlined(program), types, exact
        self.g, self.ids = GraphBuilder(), identifiers(model)
        self.shapes = {x.name: x.shape for x in (*model.inputs, *model.populations, *model.outputs)}
        samples, steps = self.program.of_samples, self.program.populations
        ends = [(t, name) for name, step in steps.items() for t in step.ends]
        ends += [(t, name) for name, t in self.program.outputs.items()]
        self.constant = {id(t): math.prod(self.shapes[name]) for t, name in ends if id(t) not in samples}
        self.made: dict[int, str] = {}
        fold(self.program.ends, self._made, self.made)

    def variables(self) -> dict[str, dict[str, str]]:
        """The tensors of the variables of each population."""
        return {
            p.name: {
                v: self.made[id(t)]
                for v, t in self.program.populations[p.name].variables.items()
                if v != "s" or p.neuron.fires
            }
            for p in self.model.populations
        }

    def _made(self, term: Term, given: list[str]) -> str:
        """The tensor of a term, ``[batch, elements]``; of a number or coefficient one that fits it."""
        tensor = self._tensor(term, given)
        if id(term) not in self.constant:
            return tensor
        batch = self.g.op("Shape", f"{self.ids[next(iter(self.program.inputs))]}_now", start=0, end=1)
        size = self.g.constant([self.constant[id(term)]], "int64")
        return self.g.op("Expand", tensor, self.g.op("Concat", batch, size, axis=0))

    def _tensor(self, term: Term, given: list[str]) -> str:
        g, dtype = self.g, self.types[term.kind]
        if term.op in ("const", "param"):
            values = np.asarray(term.value)
            return g.constant(values.reshape(1, -1) if values.ndim else values, dtype)
        if term.op == "arg":
            return f"{self.ids[term.name]}_now" if term.value is None else self._state(term.value)
        if term.op == "past":
            h = self.program.histories[term.value.key]
            return delayed(g, self._state(term.value.key), *given, depth=h.depth, delays=term.value.delays)
        if term.op == "linear":
            sums = self.exact.get(term.name, dtype)
            summed = linear(g, term.value, given[0] if sums == dtype else g.cast(given[0], sums), sums)
            return summed if sums == dtype else g.cast(summed, dtype)
        if term.op == "real" or is_truth(term):
            return g.cast(given[0], dtype)
        return _of_integers(g, term, given) or g.op(NODES[term.op], *given)

    def _state(self, key: Key) -> str:
        name, what = key
        return f"{what}_past" if key in self.program.histories and what != "past" else f"{self.ids[name]}_{what}"

    def _states(self) -> list[ScanState]:
        """What the body carries; a tensor stands for one next value only."""
        g, program, states = self.g, self.program, []
        for (name, variable), arg in program.carried.items():
            state, start = self._state((name, variable)), program.initial[name, variable].reshape(1, -1)
            following = self.made[id(program.populations[name].state[variable])]
            following = g.op("Identity", following, name=f"{state}_next")
            port = state_id(self.ids, (name, variable))
            states.append(ScanState(port, state, following, self.types[arg.kind], start))
        for key, h in program.histories.items():
            state, start = self._state(key), np.zeros((1, h.depth, math.prod(h.shape)))
            following = moved_on(g, state, self.made[id(h.term)], h.depth, f"{state}_next")
            states.append(ScanState(state_id(self.ids, key), state, following, self.types[h.term.kind], start))
        return states

    def _body(self) -> _Body:
        kind, states = self.types[self.program.kind], self._states()
        inputs = [(self.ids[name], kind, self.shapes[name]) for name in self.program.inputs]
        outputs = [(f"out{k}", self.types["real"], self.shapes[name]) for k, name in enumerate(self.program.outputs)]
        for (name, _, _), term in zip(outputs, self.program.outputs.values(), strict=True):
            self.g.op("Identity", self.made[id(term)], name=f"{name}_now")
        carried = [described(s.name, s.dtype, (BATCH, *s.start.shape[1:])) for s in states]
        following = [described(s.following, s.dtype, (BATCH, *s.start.shape[1:])) for s in states]
        rows, outs = ([described(f"{n}_now", t, (BATCH, math.prod(x))) for n, t, x in p] for p in (inputs, outputs))
        return _Body(inputs, outputs, states, [*carried, *rows], [*following, *outs])

    def step(self) -> tuple[Any, list[ScanState]]:
        """The model of one time step, and its states."""
        body = self._body()
        return model_of(self.g.nodes, body.given, body.found, list(self.g.constants.values())), body.states

    def scan(self) -> Any:
        """The whole model; its states are inputs, at first the initial ones, and outputs."""
        outer, made = GraphBuilder("model_"), self._body()
        inputs, outputs, states = made.inputs, made.outputs, made.states
        body = helper.make_graph(self.g.nodes, "step", made.given, made.found)
        batch = outer.op("Shape", inputs[0][0], start=1, end=2)
        starts = [_started(outer, state, batch) for state in states]
        flat = [outer.reshaped(n, 0, 0, math.prod(x)) if len(x) != 1 else n for n, _, x in inputs]
        flat_outs = [f"{n}_flat" if len(x) != 1 else n for n, _, x in outputs]
        ends = [*(f"{state.port}{END}" for state in states), *flat_outs]
        outer.nodes.append(helper.make_node("Scan", [*starts, *flat], ends, num_scan_inputs=len(flat), body=body))
        for tensor, (name, _, shape) in zip(flat_outs, outputs, strict=True):
            if tensor != name:
                outer.op("Reshape", tensor, outer.constant((0, 0, *shape), "int64"), name=name)
        given, found = ([described(n, t, (TIME, BATCH, *x)) for n, t, x in p] for p in (inputs, outputs))
        given += [described(s.port, s.dtype, (STATES, *s.start.shape[1:])) for s in states]
        found += [described(f"{s.port}{END}", s.dtype, (BATCH, *s.start.shape[1:])) for s in states]
        first = [numpy_helper.from_array(s.start.astype(s.dtype), s.port) for s in states]
        used = {tensor for node in (*self.g.nodes, *outer.nodes) for tensor in node.input}
        constants = [*self.g.constants.values(), *outer.constants.values()]
        return model_of(outer.nodes, given, found, [*first, *(t for t in constants if t.name in used)])


def _started(outer: GraphBuilder, state: ScanState, batch: str) -> str:
    """A state that is given, or else the initial one, of each sample."""
    shape = outer.op("Concat", batch, outer.constant(state.start.shape[1:], "int64"), axis=0)
    return outer.op("Expand", state.port, shape)


def _of_integers(g: GraphBuilder, term: Term, given: list[str]) -> str | None:
    """Operations that ONNX has not: shifts, masks, and quotients that are rounded down."""
    if term.op in ("shl", "shr"):
        x, unit = given[0], g.constant(1 << int(term.args[1].value), "int64")
        if term.op == "shl":
            return g.op("Mul", x, unit)
        return g.op("Div", x if _is_positive(term.args[0]) else _multiple(g, x, unit), unit)
    if term.op == "floordiv":
        return g.op("Div", _multiple(g, *given), given[1])
    if term.op == "and" and term.kind != "bool":
        return g.op("Mod", given[0], g.constant(int(term.args[1].value) + 1, "int64"))
    return None


def _is_positive(term: Term) -> bool:
    """True where no value is below 0, as far as signs show it."""
    if term.op in ("const", "param"):
        return bool(np.all(np.asarray(term.value) >= 0))
    return term.op == "abs" or (term.op in ("mul", "and", "shr") and all(map(_is_positive, term.args)))


def _multiple(g: GraphBuilder, x: str, unit: str) -> str:
    """The next multiple of a unit below."""
    return g.op("Sub", x, g.op("Mod", x, unit))
