"""A network as a module of the dialect. Needs xDSL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, UnitAttr, i1
from xdsl.ir import Region

from nirbridge.arrays import Array
from nirbridge.dialect.base import shape, value_type
from nirbridge.dialect.kinds import GRID, TIMING
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.placement import Placement, check_placements
from nirbridge.dialect.step import StepBuilder, sends_spikes
from nirbridge.dialect.structure import END, NetworkOp
from nirbridge.dialect.synapses import CurrentOp, RealOp, ShiftOp
from nirbridge.dialect.values import ELEMENTS, integer, plain_attribute, real, text, texts
from nirbridge.errors import UsageError, quoted
from nirbridge.network.check import check_network
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import population_groups
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Reshape
from nirbridge.network.storage.codec import ValueEncoder
from nirbridge.program.interval import fit_of_neurons
from nirbridge.quantization.model import FixedInput, FixedProjection, QuantizedNetwork
from nirbridge.quantization.overflow import largest_sum, prove

Variable = tuple[str, str]
"""A node and one of its variables, as recordings name them."""
DTYPES = ("float32", "float64")
NAMES_SHOWN = 8


def network_module(
    network: Network,
    dtype: str = "float32",
    records: Sequence[Variable] = (),
    placement: Mapping[str, Placement] | None = None,
) -> DialectModule:
    """The module of a network in ``dtype``.

    Args:
        network: any network that the reference simulates.
        dtype: type of its tensors; weights and coefficients are stored as the network has them.
        records: variables (``s``, ``u``, ``v``, ``i`` of a population, ``s`` of an input) that become further results.
        placement: the cores of each population, kept as attributes; None: those of no map.

    Raises:
        ModelError: a network that ``check_network`` refuses, values of a type that the dialect lacks, or a map of other
            populations.
        UsageError: no variable of that name.
    """
    check_network(network)
    check_placements(network, placement or {})
    return Builder(network, dtype, placement or {}).module(records)


class Builder:
    """One time step of a network, projection by projection; ``host``: the type of outputs where it is another one."""

    host: Any = None

    def __init__(self, network: Any, numbers: str, placement: Mapping[str, Placement]) -> None:
        self.network, self.numbers, self.placement = network, numbers, placement
        self.step = StepBuilder(ELEMENTS[numbers], narrow=numbers.startswith("int"))
        self.resources = self.step.resources

    def module(self, records: Sequence[Variable]) -> DialectModule:
        """The module; ``records`` become further results."""
        network, step = self.network, self.step
        variables: dict[Variable, Any] = {(p.name, "s"): self.input(p) for p in network.inputs}
        for p in self.order():
            index = next(k for k, q in enumerate(network.populations) if q is p)
            found = step.neurons(index, p, self.placement.get(p.name), self.currents(p), **self.latency_of(p.name))
            variables |= {(p.name, name): value for name, value in found.items()}
            step.now[p.name] = found["s"]
        for p in network.outputs:
            value = step.output(p.name, p.shape, list(self.read(p)), self.host, **self.latency_of(p.name))
            step.result(p.name, "s", value)
        for name, variable in records:
            step.result(name, variable, variable_of(variables, name, variable))
        step.connect()
        step.block.add_op(END.create())
        whole = NetworkOp.create(attributes=self.facts(), regions=[Region(step.block)])
        return DialectModule(ModuleOp([whole]), self.resources)

    def input(self, port: Any) -> Any:
        """An input."""
        return self.step.input(port.name, port.shape)

    def latency_of(self, name: str) -> dict[str, Any]:
        """The latency of a node as an attribute, where there is one."""
        return {}

    def facts(self) -> dict[str, Any]:
        """The attributes of a network: meaning, and bookkeeping as ``provenance``."""
        network = self.network
        plain = {name: text(getattr(network.timing, name)) for name in TIMING.parameters}
        file = {} if network.file is None else {"file": texts((network.file.name, network.file.sha256))}
        listed = {
            name: texts(getattr(network, name)) for name in ("assumed", "notes", "axes") if getattr(network, name)
        }
        return self.common(file | listed) | {"timing": TIMING.of(plain), "chip": UnitAttr()}

    def common(self, provenance: dict[str, Any]) -> dict[str, Any]:
        """The attributes of networks of both kinds of numbers."""
        file = getattr(self.network, "file", None)
        stem = "network" if file is None else re.sub(r"\W", "_", file.name.partition(".")[0], flags=re.ASCII)
        name = stem if re.match(r"[A-Za-z_]", stem) else "network"
        numbers, kept = StringAttr(self.numbers), DictionaryAttr(provenance)
        return {"sym_name": StringAttr(name), "dt": real(self.network.dt), "numbers": numbers, "provenance": kept}

    def order(self) -> Iterator[Any]:
        """The populations in the order in which a time step computes them."""
        return (p for group in population_groups(self.network) for p in group.populations)

    def currents(self, target: Any) -> Iterator[Any]:
        """The currents of a population or an output."""
        return (self.current(k, p) for k, p in enumerate(self.network.projections) if p.target == target.name)

    read = currents

    def current(self, k: int, p: Projection) -> Any:
        """The current of a projection."""
        step = self.step
        if p.source not in step.now and not p.delay_steps.all():  # the delay after the operator closes a cycle
            late, out = p.target_delay_steps, p.operator.output_shape
            return self.ended(k, p, step.awaited(lambda: self._sums(p), late, step.element, out))
        value = self._sums(p)
        if p.target_delay_steps.any() or p.target_delay_steps.ndim:
            value = step.delayed(value, p.target_delay_steps)
        return self.ended(k, p, value)

    def ended(self, k: int, p: Any, value: Any) -> Any:
        """The last operation of a projection, which has what no other says of it."""
        names = {name: texts(getattr(p, name)) for name in ("nodes", "delay_nodes") if getattr(p, name, ())}
        given: dict[str, Any] = {"index": integer(k), "provenance": DictionaryAttr(names) if names else None}
        given["is_back"] = UnitAttr() if getattr(p, "is_back", False) else None
        bias = getattr(p, "bias", None)
        given["bias"] = None if bias is None else self.resources.attribute(bias)
        element = i1_as(value.type.element, self.step.element)
        return self.step.op(CurrentOp, [value], value_type(element, shape(value)), **given, **self.grid(p))

    def grid(self, p: Any) -> dict[str, Any]:
        """The number format of a projection's weights as an attribute, where there is one."""
        return {}

    def _sums(self, p: Projection) -> Any:
        """What a projection's operator makes of the values that arrive."""
        return self.applied(p.operator, self.sent(p.source, p.delay_steps, p.operator.input_shape))

    def sent(self, source: str, delays: Array, shape: tuple[int, ...]) -> Any:
        """Values that a source sent some time steps ago."""
        spikes = any(p.name == source and sends_spikes(p.neuron) for p in self.network.populations)
        return self.step.sent(source, delays, shape, spikes=spikes)

    def applied(self, operator: Any, value: Any) -> Any:
        """What an operator makes of values, part by part."""
        for part in parts_of(operator):
            value = self.step.part(part, value)
        return value


def variable_of(variables: Mapping[Variable, Any], name: str, variable: str) -> Any:
    """The value of a variable. Raises UsageError where the network has none of that name."""
    if (name, variable) in variables:
        return variables[name, variable]
    own = [known for node, known in variables if node == name]
    if own:
        found, limit = f"{quoted(name)} has no variable {quoted(variable)}", f"it has {', '.join(own)}"
    else:
        names = list(dict.fromkeys(node for node, _ in variables))
        shown = ", ".join(map(quoted, names[:NAMES_SHOWN]))
        found, limit = f"no population or input {quoted(name)}", f"there are {shown}"
    raise UsageError.of("lower, records", found, limit, "choose one of them")


def i1_as(element: Any, numbers: Any) -> Any:
    """The element of a value as numbers."""
    return numbers if element == i1 else element


# -- integers ------------------------------------------------------------------------------------------------------
# A quantized network as a module, in i32 where that provably suffices.


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


class _FixedBuilder(Builder):
    """One time step of a quantized network."""

    host = ELEMENTS["float64"]

    def facts(self) -> dict[str, Any]:
        q = self.network
        kept = {name: texts(getattr(q, name)) for name in ("notes", "axes") if getattr(q, name)}
        kept |= {name: plain_attribute(ValueEncoder().plain(getattr(q, name))) for name in ("formats", "report")}
        return self.common(kept) | {"timing": UnitAttr(), "chip": text(q.chip)}

    def input(self, port: FixedInput) -> Any:
        given = {"value_max": integer(port.value_max), "unit": real(port.scale)}
        given |= self.latency_of(port.name)
        return self.step.input(port.name, port.shape, spikes=not port.graded, **given)

    def latency_of(self, name: str) -> dict[str, Any]:
        latency = self.network.latency
        return {"latency": integer(latency[name])} if name in latency else {}

    def grid(self, p: Any) -> dict[str, Any]:
        if not isinstance(p, FixedProjection):
            return {}
        given = {"weight_bits": integer(p.weight_bits), "index": integer(p.index), "sign_mode": StringAttr(p.sign_mode)}
        return {"grid": GRID.of(given | {"scale": self.resources.attribute(p.scale)})}

    def order(self) -> Iterator[Any]:
        return iter(self.network.populations)

    def read(self, target: Port) -> Iterator[Any]:
        return (self._read(k, r) for k, r in enumerate(self.network.reads) if r.target == target.name)

    def _shape(self, name: str) -> tuple[int, ...]:
        return next(x.shape for x in (*self.network.inputs, *self.network.populations) if x.name == name)

    def current(self, k: int, p: Any) -> Any:
        step, source, target = self.step, self._shape(p.source), self._shape(p.target)
        value = self.sent(p.source, _over(p.delay_steps, source), source)
        value = step.part(p.operator, self._reshaped(value, source, p.operator.input_shape))
        kind = value_type(step.element, p.operator.output_shape)
        value = step.op(ShiftOp, [value], kind, exponent=integer(p.weight_exp))
        value = self._reshaped(value, p.operator.output_shape, target)
        if p.target_delay_steps.any():
            value = step.delayed(value, _over(p.target_delay_steps, target))
        return self.ended(k, p, value)

    def _reshaped(self, value: Any, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        return value if before == after else self.step.part(Reshape(before, after), value)

    def _read(self, k: int, read: Projection) -> Any:
        """The values of an output from one source, in reals."""
        step, source = self.step, self._shape(read.source)
        value = self.sent(read.source, _over(read.delay_steps, source), source)
        scale, offset = self._units(read.source)
        given: dict[str, Any] = {"scale": self.resources.attribute(scale)}
        given["offset"] = None if offset is None else self.resources.attribute(offset)
        value = step.op(RealOp, [value], value_type(ELEMENTS["float64"], source), **given)
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
