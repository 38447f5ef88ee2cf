"""A network as a module of snn-mlir: one time step, weights as constants, states as arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.snn_mlir.grammar import (
    ELEMENTS,
    FACTS,
    FUNCTION,
    KINDS,
    NEURONS,
    SYNAPSES,
    escaped,
    identifier,
    memory,
)
from nirbridge.dialect.snn_mlir.held import bias_of_part, held_form
from nirbridge.errors import ModelError
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Projection, Timing
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, SumPool

_DIGITS = {"f32": 8, "f64": 16}
"""Digits after the point that tell each number of the format from its neighbours."""


def snn_mlir_text(network: Network, dtype: str = "float32") -> str:
    """The text of a network in the dialect of snn-mlir 1.0, for its ``snn-opt``; always the same for the same network.

    Args:
        network: a chain of populations from one input to one output; populations may be self-recurrent.
        dtype: number format of the text, ``float32`` or ``float64``; it has to hold every weight.

    Raises:
        ModelError: a network that snn-mlir does not hold; every reason.
    """
    return _Writer(held_form(network, dtype), ELEMENTS[dtype]).text()


class _Writer:
    """Lines of a module, in the order of its populations."""

    def __init__(self, network: Network, element: str) -> None:
        self.network, self.element = network, element
        self.used: set[str] = {"output", "input"}
        self.constants: list[str] = []
        self.arguments: list[str] = []
        self.body: list[str] = []
        self.ends: list[str] = []

    def text(self) -> str:
        network = self.network
        (given,), (wanted,) = network.inputs, network.outputs
        self.values = {given.name: "%input"}
        self.arguments.append(f"%input : {memory(given.shape, self.element)}")
        (last,) = (p.source for p in network.projections if p.target == wanted.name)
        for population in network.populations:
            self._population(population, is_last=population.name == last)
        self.arguments.append(f"%output : {memory(wanted.shape, self.element)}")
        head = ",\n    ".join(self.arguments)
        lines = [
            "module {",
            *self.constants,
            f"  func.func @{FUNCTION}(\n    {head}",
            f"  ) attributes {{ llvm.emit_c_interface, {FACTS} = {{{self._facts()}}} }} {{",
            *(f"    {line}" for line in (*self.body, *self.ends, "return")),
            "  }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _facts(self) -> str:
        network = self.network
        names = [network.inputs[0].name, *(p.name for p in network.populations), network.outputs[0].name]
        words = [str(getattr(network.timing, f.name)) for f in fields(Timing) if f.name != "dt"]
        lists = {"names": names, "timing": words}
        listed = [f"{key} = [{', '.join(_string(each) for each in values)}]" for key, values in lists.items()]
        return ", ".join([f"dt = {_number(network.dt)}", *listed])

    def _name(self, prefix: str, name: str) -> str:
        """A new name for a value or a constant."""
        found = fresh_name(f"{prefix}_{identifier(name)}", self.used)
        self.used.add(found)
        return found

    def _memory(self, shape: Shape) -> str:
        return memory(shape, self.element)

    def _new(self, prefix: str, name: str, shape: Shape) -> str:
        value = f"%{self._name(prefix, name)}"
        self.body.append(f"{value} = memref.alloca() : {self._memory(shape)}")
        return value

    def _population(self, population: Population, *, is_last: bool) -> None:
        into = [p for p in self.network.projections if p.target == population.name]
        previous = ""
        kind = self._memory(population.shape)
        operation = KINDS[population.neuron.kind]
        states = ["current", "voltage"] if population.neuron.has_synapse else ["voltage"]
        values = [f"%{self._name(state, population.name)}" for state in states]
        self.arguments += [f"{value} : {kind}" for value in values]
        if any(p.is_back for p in into):
            previous = f"%{self._name('prev_spikes', population.name)}"
            self.arguments.append(f"{previous} : {kind}")
        terms = [self._projection(p, previous if p.is_back else self.values[p.source]) for p in into]
        total = terms[0] if len(terms) == 1 else self._sum(population, terms)
        output = "%output" if is_last else self._new("spikes", population.name, population.shape)
        n = population.neuron
        given = ", ".join(f"{key} = {_number(getattr(n, field).item())}" for key, field in NEURONS[operation].items())
        kinds = ", ".join([kind] * (1 + len(values)))
        self.body.append(
            f"{operation} ins({total}) state({', '.join(values)}) out({output}) {{{given}}} : {kinds} -> {kind}"
        )
        self.values[population.name] = output
        if previous:
            self.ends.append(f"memref.copy {output}, {previous} : {kind} to {kind}")

    def _sum(self, population: Population, terms: Sequence[str]) -> str:
        """The currents of several projections, in their order."""
        total = self._new("merged", population.name, population.shape)
        axes = ", ".join(f"d{k}" for k in range(len(population.shape)))
        maps = ", ".join([f"affine_map<({axes}) -> ({axes})>"] * (len(terms) + 1))
        loops = ", ".join(['"parallel"'] * len(population.shape))
        kinds, e = ", ".join([self._memory(population.shape)] * len(terms)), self.element
        names = [f"%in{k}: {e}" for k in range(len(terms))]
        self.body += [
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}} "
            f"ins({', '.join(terms)} : {kinds}) outs({total} : {self._memory(population.shape)}) {{",
            f"^bb0({', '.join([*names, f'%acc: {e}'])}):",
        ]
        value = "%in0"
        for k in range(1, len(terms)):
            self.body.append(f"  %sum{k} = arith.addf {value}, %in{k} : {e}")
            value = f"%sum{k}"
        self.body += [f"  linalg.yield {value} : {e}", "}"]
        return total

    def _projection(self, p: Projection, value: str) -> str:
        parts = [part for part in parts_of(p.operator) if not isinstance(part, Identity)]
        names = p.nodes if len(p.nodes) == len(parts) else [""] * len(parts)
        biased = max((k for k, part in enumerate(parts) if isinstance(part, Dense | Conv)), default=-1)
        bias = bias_of_part(p)
        for k, (part, name) in enumerate(zip(parts, names, strict=True)):
            value = self._part(part, value, name or f"{p.source}_{p.target}", bias if k == biased else None)
        return value

    def _part(self, part: Operator, value: str, name: str, bias: Array | None) -> str:
        if isinstance(part, Reshape):
            return self._reshape(part, value, name)
        if isinstance(part, SumPool):
            return self._pool(part, value, name)
        if isinstance(part, Dense | Conv):
            return self._synapse(part, value, name, bias)
        raise ModelError.of("snn-mlir", f"operator {type(part).__name__}", "matrices, convolutions and pools")

    def _synapse(self, part: Dense | Conv, value: str, name: str, bias: Array | None) -> str:
        weight = np.asarray(part.weight)
        constants = [self._constant("w", name, weight)]
        biased = ""
        if bias is not None:
            constants.append(self._constant("b", name, bias))
            biased = f" bias({constants[1]} : {self._memory(bias.shape)})"
        output = self._new("synapse", name, part.output_shape)
        axes = len(part.kernel) if isinstance(part, Conv) else 0
        operation = next(name for name, count in SYNAPSES.items() if count == axes)
        given = f" {{{_window(part.stride, part.padding)}}}" if isinstance(part, Conv) else ""
        kinds = f"{self._memory(part.input_shape)}, {self._memory(weight.shape)} -> {self._memory(part.output_shape)}"
        self.body.append(f"{operation} ins({value}, {constants[0]}){biased} out({output}){given} : {kinds}")
        return output

    def _constant(self, prefix: str, name: str, values: Array) -> str:
        symbol = self._name(prefix, name)
        kind = self._memory(values.shape)
        literal = _literal(np.asarray(values, np.float64), f".{_DIGITS[self.element]}e")
        self.constants.append(f'  memref.global "private" constant @{symbol} : {kind} = dense<{literal}>')
        self.body.append(f"%{symbol} = memref.get_global @{symbol} : {kind}")
        return f"%{symbol}"

    def _pool(self, part: SumPool, value: str, name: str) -> str:
        output = self._new("pool", name, part.output_shape)
        operation = "snn.sumpool2d" if part.factor == 1.0 else "snn.avgpool2d"
        kinds = f"{self._memory(part.input_shape)} -> {self._memory(part.output_shape)}"
        given = f"kernel = {_integers(part.kernel)}, {_window(part.stride, part.padding)}"
        self.body.append(f"{operation} ins({value}) out({output}) {{{given}}} : {kinds}")
        return output

    def _reshape(self, part: Reshape, value: str, name: str) -> str:
        """Row-major, over one axis where both shapes have several."""
        flat = (math.prod(part.input_shape),)
        if len(part.input_shape) > 1:
            value = self._reshaped("memref.collapse_shape", value, name, part.input_shape, flat)
        if len(part.output_shape) > 1:
            value = self._reshaped("memref.expand_shape", value, name, flat, part.output_shape)
        return value

    def _reshaped(self, operation: str, value: str, name: str, old: Shape, new: Shape) -> str:
        result = f"%{self._name('flat', name)}"
        group = ", ".join(map(str, range(max(len(old), len(new)))))
        extents = f" output_shape [{', '.join(map(str, new))}]" if operation == "memref.expand_shape" else ""
        kinds = f"{self._memory(old)} into {self._memory(new)}"
        self.body.append(f"{result} = {operation} {value} [[{group}]]{extents} : {kinds}")
        return result


def _window(stride: Sequence[int], padding: Sequence[tuple[int, int]]) -> str:
    """Stride and padding: lists for two axes, numbers for one."""
    sides = [low for low, _ in padding]
    if len(stride) == 1:
        return f"stride = {stride[0]} : i64, padding = {sides[0]} : i64"
    return f"stride = {_integers(stride)}, padding = {_integers(sides)}"


def _integers(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _number(value: float) -> str:
    return f"{value:.16e} : f64"


def _string(text: str) -> str:
    return f'"{escaped(text)}"'


def _literal(values: Any, form: str) -> str:
    """Nested lists of numbers."""
    if values.ndim == 1:
        return "[" + ", ".join([format(each, form) for each in values.tolist()]) + "]"
    return "[" + ", ".join(_literal(row, form) for row in values) + "]"
