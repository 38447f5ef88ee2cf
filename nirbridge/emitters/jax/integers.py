"""A quantized network as a module for JAX: sums in real numbers where these are exact, neurons in int32 or int64."""

from __future__ import annotations

import numpy as np

from nirbridge.emitters.jax.build import ModuleBuilder
from nirbridge.emitters.jax.linear import linear
from nirbridge.emitters.jax.module import ModuleWriter
from nirbridge.emitters.ports import ProgramNames, integer_names
from nirbridge.emitters.timesteps import integer_states, sent_ranges
from nirbridge.network.model import Projection
from nirbridge.program.interval import fit_of_neurons
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import operator_bounds, prove

EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""Sums of whole numbers below this are exact in the type, in any order."""
INT32 = 1 << 30
"""Numbers below this leave room in int32 for one addition of two."""
REAL = "float64"
"""Of readouts, which the host computes."""


def integer_module(quantized: QuantizedNetwork) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a quantized network, bit-equal to the fixed-point simulator, and its names."""
    return _IntegerBuilder(quantized).built()


class _IntegerBuilder(ModuleBuilder):
    def __init__(self, quantized: QuantizedNetwork) -> None:
        super().__init__(quantized, (*quantized.projections, *quantized.reads))
        self.q, self.ranges = quantized, sent_ranges(quantized)
        bounds = prove(quantized)
        self.types = {p.name: self._type(p, bounds[p.name].a_in) for p in quantized.populations}
        self.types |= {p.name: "int32" if p.value_max < INT32 else "int64" for p in quantized.inputs}

    def _type(self, p: FixedPopulation, drive: tuple[int, int]) -> str:
        """int32 where no sum of the neuron and of its currents can leave it."""
        currents = [self._largest(q) << max(q.weight_exp, 0) for q in self.q.projections if q.target == p.name]
        fits = fit_of_neurons(p.neuron, drive, 32)
        return "int32" if fits and max(currents, default=0) < INT32 else "int64"

    def built(self) -> tuple[ModuleWriter, ProgramNames]:
        q, variables = self.q, {}
        for port in q.inputs:
            self.begin_input(port.name, self.types[port.name])
        for p in q.populations:
            self.begin_population(p.name, self.types[p.name])
        for p in q.populations:
            states = {
                name: self.m.state(
                    f"{self.ids[p.name]}.{name}", x, "int32" if name == "refractory" else self.types[p.name]
                )
                for name, x in integer_states(p).items()
            }
            variables[p.name] = self.population(p, self._drive(p), states, self.types[p.name])
        for k, port in enumerate(q.outputs):
            reads = [self._read(j, read) for j, read in enumerate(q.reads) if read.target == port.name]
            self.m.step.append(f'values["out{k}"] = {" + ".join(reads)}')
        for p in q.populations:
            self.turn_ring(self.ids[p.name], self.depths[p.name])
        return self.m, integer_names(q, variables)

    def _drive(self, target: FixedPopulation) -> str:
        dtype, found = self.types[target.name], []
        for k, p in enumerate(self.q.projections):
            if p.target == target.name:
                found.append(self.current(f"c{k}", p, self._sums(f"c{k}", p, dtype)))
        return " + ".join(found) or self.silence(target.shape, dtype)

    def _largest(self, p: FixedProjection) -> int:
        """The largest number that a sum of the projection can meet."""
        sent = self.ranges[p.source]
        low, high = operator_bounds(p.operator, sent)
        sums = (-int(low.min(initial=0)), int(high.max(initial=0)), -sent.low, sent.high)
        return max(*sums, int(np.abs(weights_of(p.operator)).max(initial=0)))

    def _sums(self, key: str, p: FixedProjection, dtype: str) -> str:
        """``operator(sent) << weight_exp``."""
        largest = self._largest(p)
        computed = next((kind for kind, limit in EXACT.items() if largest < limit), "int64")
        sent = self.sent(p.source, p.delay_steps, key)
        shapes = self.sources[p.source].shape, self.q.population(p.target).shape
        text = linear(self.m, key, p.operator, f"{sent}.astype(jnp.{computed})", computed, shapes)
        text = f"{text}.astype(jnp.{dtype})"
        if p.weight_exp == 0:
            return text
        return f"{text} << {p.weight_exp}" if p.weight_exp > 0 else f"{text} >> {-p.weight_exp}"

    def _read(self, j: int, read: Projection) -> str:
        """The values of a readout in reals."""
        key = f"r{j}"
        sent = f"{self.sent(read.source, read.delay_steps, key)}.astype(jnp.{REAL})"
        for port in self.q.inputs:
            if port.name == read.source and port.graded:
                sent = f"({sent} * {self.m.weight(f'{key}.scale', port.scale, REAL)})"
        if read.source not in self.inputs and not (p := self.q.population(read.source)).neuron.fires:
            scale = self.m.coefficient(f"{key}.scale", p.neuron.scale, p.shape, REAL)
            offset = self.m.coefficient(f"{key}.offset", p.neuron.v_offset, p.shape, REAL)
            sent = f"({sent} / {scale} + {offset})"
        target = next(port.shape for port in self.q.outputs if port.name == read.target)
        values = linear(self.m, key, read.operator, sent, REAL, (self.sources[read.source].shape, target))
        return self.current(key, read, values, dtype=REAL)
