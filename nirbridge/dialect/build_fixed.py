"""A quantized network as a module of the dialect, in i32 where that provably suffices. Needs xDSL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i1
from xdsl.ir import Region

from nirbridge.arrays import Array
from nirbridge.dialect.build import Variable, variable_of
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.placement import Placement, check_placements
from nirbridge.dialect.step import StepBuilder
from nirbridge.dialect.structure import NetworkOp
from nirbridge.dialect.synapses import CurrentOp, RealOp, ShiftOp
from nirbridge.dialect.values import ELEMENTS, integer, real, tensor_type, text, texts
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Projection
from nirbridge.network.operators import Reshape
from nirbridge.program.interval import fit_of_neurons
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
from nirbridge.quantization.overflow import largest_sum, prove


def quantized_module(
    quantized: QuantizedNetwork,
    records: Sequence[Variable] = (),
    placement: Mapping[str, Placement] | None = None,
    bits: int | None = None,
) -> DialectModule:
    """The module of a quantized network; its outputs are in float64, as the host reads them.

    Args:
        quantized: a network in a chip's integers.
        records: variables (``s``, ``u``, ``v`` of a population, ``s`` of an input) that become further results.
        placement: see ``network_module``.
        bits: width of the integers, 32 or 64; None: 32 where no value can leave them.

    Raises:
        ModelError: a map of other populations.
        UsageError: no variable of that name.
    """
    check_placements(quantized, placement or {})
    width = (32 if fits_in_32(quantized) else 64) if bits is None else bits
    return _FixedBuilder(quantized, f"int{width}", placement or {}).module(records)


def fits_in_32(quantized: QuantizedNetwork) -> bool:
    """Whether no value of any time step leaves 32 bits, whatever the inputs."""
    bounds = prove(quantized)
    fits = all(fit_of_neurons(p.neuron, bounds[p.name].a_in, 32) for p in quantized.populations)
    return fits and largest_sum(quantized) < 1 << 31


class _FixedBuilder:
    """One time step of a quantized network, projection by projection."""

    def __init__(self, quantized: QuantizedNetwork, numbers: str, placement: Mapping[str, Placement]) -> None:
        self.q, self.numbers, self.placement = quantized, numbers, placement
        self.step = StepBuilder(ELEMENTS[numbers])
        self.resources = self.step.resources

    def module(self, records: Sequence[Variable]) -> DialectModule:
        q, step = self.q, self.step
        given = {"dt": real(q.dt), "timing": DictionaryAttr({}), "numbers": StringAttr(self.numbers)}
        facts = DictionaryAttr({"chip": text(q.chip), "notes": texts(q.notes)})
        step.block.add_op(NetworkOp.create(attributes={**given, "facts": facts}))
        variables: dict[Variable, Any] = {(p.name, "s"): step.input(p.name, p.shape) for p in q.inputs}
        for k, p in enumerate(q.populations):
            currents = (self._current(j, e, p.shape) for j, e in enumerate(q.projections) if e.target == p.name)
            found = step.neurons(k, p, self.placement.get(p.name), currents)
            variables |= {(p.name, name): value for name, value in found.items()}
            step.now[p.name] = found["s"]
        for port in q.outputs:
            currents = [self._read(k, r) for k, r in enumerate(q.reads) if r.target == port.name]
            step.result(port.name, "s", step.output(port.name, port.shape, currents, ELEMENTS["float64"]))
        for name, variable in records:
            step.result(name, variable, variable_of(variables, name, variable))
        step.connect()
        return DialectModule(ModuleOp(Region(step.block)), self.resources)

    def _shape(self, name: str) -> tuple[int, ...]:
        return next(x.shape for x in (*self.q.inputs, *self.q.populations) if x.name == name)

    def _current(self, k: int, p: FixedProjection, shape: tuple[int, ...]) -> Any:
        step, source = self.step, self._shape(p.source)
        value = step.sent(p.source, _over(p.delay_steps, source), source)
        value = self._reshaped(value, source, p.operator.input_shape)
        value = step.part(p.operator, value)
        value = step.op(ShiftOp, [value], value.type, exponent=integer(p.weight_exp))
        value = self._reshaped(value, p.operator.output_shape, shape)
        if p.target_delay_steps.any():
            value = step.delayed(value, _over(p.target_delay_steps, shape))
        return self._ended(k, value, p.nodes, None)

    def _reshaped(self, value: Any, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        return value if before == after else self.step.part(Reshape(before, after), value)

    def _ended(self, k: int, value: Any, nodes: Sequence[str], bias: Array | None) -> Any:
        given: dict[str, Any] = {"index": integer(k), "nodes": texts(nodes), "delay_nodes": texts(())}
        given["is_back"] = IntegerAttr(0, i1)
        given["bias"] = None if bias is None else self.resources.attribute(bias)
        return self.step.op(CurrentOp, [value], value.type, **given)

    def _read(self, k: int, read: Projection) -> Any:
        """The values of an output from one source, in reals."""
        step, source = self.step, self._shape(read.source)
        value = step.sent(read.source, _over(read.delay_steps, source), source)
        scale, offset = self._units(read.source)
        given: dict[str, Any] = {"scale": self.resources.attribute(scale)}
        given["offset"] = None if offset is None else self.resources.attribute(offset)
        value = step.op(RealOp, [value], tensor_type(ELEMENTS["float64"], None, *source), **given)
        for part in parts_of(read.operator):
            value = step.part(part, value)
        return self._ended(k, value, read.nodes, read.bias)

    def _units(self, name: str) -> tuple[Array, Array | None]:
        """(factor of what a source sends, None), or (integers per real, real at 0) of a readout."""
        for port in self.q.inputs:
            if port.name == name:
                return np.float64(port.scale if port.graded else 1.0), None  # type: ignore[return-value]
        n = self.q.population(name).neuron
        return (np.float64(1.0), None) if n.fires else (n.scale, n.v_offset)  # type: ignore[return-value]


def _over(delays: Array, shape: tuple[int, ...]) -> Array:
    """Delays of one value, or per element in the source's shape."""
    return delays if delays.ndim == 0 else delays.reshape(shape)
