"""A quantized network as an ONNX model: sums in float32 where these are exact, neurons in int64."""

from __future__ import annotations

import numpy as np

from nirbridge.emitters.onnx.linear import linear
from nirbridge.emitters.onnx.neurons import SteppedTensors, integer_step
from nirbridge.emitters.onnx.plan import OnnxPlan
from nirbridge.emitters.onnx.scan import ScanBuilder, size_of
from nirbridge.emitters.ports import identifiers, integer_names
from nirbridge.emitters.timesteps import integer_states, longest_delays, sent_ranges
from nirbridge.network.model import Projection
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import operator_bounds, prove

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
