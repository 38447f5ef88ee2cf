"""A quantized network as a module of the dialect, in i32 where that provably suffices. Needs xDSL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.dialect.build import Builder, Variable
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.placement import Placement, check_placements
from nirbridge.dialect.synapses import RealOp, ShiftOp
from nirbridge.dialect.values import ELEMENTS, integer, tensor_type
from nirbridge.network.model import Port, Projection
from nirbridge.network.neurons import USUAL, check_extras
from nirbridge.network.operators import Reshape
from nirbridge.program.interval import fit_of_neurons
from nirbridge.quantization.model import QuantizedNetwork
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
    check_extras(quantized.populations, USUAL, "the dialect")
    check_placements(quantized, placement or {})
    width = (32 if fits_in_32(quantized) else 64) if bits is None else bits
    return _FixedBuilder(quantized, f"int{width}", placement or {}).module(records)


def fits_in_32(quantized: QuantizedNetwork) -> bool:
    """Whether no value of any time step leaves 32 bits, whatever the inputs."""
    bounds = prove(quantized)
    fits = all(fit_of_neurons(p.neuron, bounds[p.name].a_in, 32) for p in quantized.populations)
    return fits and largest_sum(quantized) < 1 << 31


class _FixedBuilder(Builder):
    """One time step of a quantized network."""

    host = ELEMENTS["float64"]

    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"chip": self.network.chip, "notes": self.network.notes}

    def order(self) -> Iterator[Any]:
        return iter(self.network.populations)

    def read(self, target: Port) -> Iterator[Any]:
        return (self._read(k, r) for k, r in enumerate(self.network.reads) if r.target == target.name)

    def _shape(self, name: str) -> tuple[int, ...]:
        return next(x.shape for x in (*self.network.inputs, *self.network.populations) if x.name == name)

    def current(self, k: int, p: Any) -> Any:
        step, source, target = self.step, self._shape(p.source), self._shape(p.target)
        value = step.sent(p.source, _over(p.delay_steps, source), source)
        value = step.part(p.operator, self._reshaped(value, source, p.operator.input_shape))
        value = step.op(ShiftOp, [value], value.type, exponent=integer(p.weight_exp))
        value = self._reshaped(value, p.operator.output_shape, target)
        if p.target_delay_steps.any():
            value = step.delayed(value, _over(p.target_delay_steps, target))
        return self.ended(k, p, value)

    def _reshaped(self, value: Any, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        return value if before == after else self.step.part(Reshape(before, after), value)

    def _read(self, k: int, read: Projection) -> Any:
        """The values of an output from one source, in reals."""
        step, source = self.step, self._shape(read.source)
        value = step.sent(read.source, _over(read.delay_steps, source), source)
        scale, offset = self._units(read.source)
        given: dict[str, Any] = {"scale": self.resources.attribute(scale)}
        given["offset"] = None if offset is None else self.resources.attribute(offset)
        value = step.op(RealOp, [value], tensor_type(ELEMENTS["float64"], None, *source), **given)
        return self.ended(k, read, self.applied(read.operator, value))

    def _units(self, name: str) -> tuple[Array, Array | None]:
        """(factor of what a source sends, None), or (integers per real, real at 0) of a readout."""
        for port in self.network.inputs:
            if port.name == name:
                return np.float64(port.scale if port.graded else 1.0), None  # type: ignore[return-value]
        n = self.network.population(name).neuron
        return (np.float64(1.0), None) if n.fires else (n.scale, n.v_offset)  # type: ignore[return-value]


def _over(delays: Array, shape: tuple[int, ...]) -> Array:
    """Delays of one value, or per element in the source's shape."""
    return delays if delays.ndim == 0 else delays.reshape(shape)
