"""The network that a module of the dialect was made of. Needs xDSL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, Float32Type, Float64Type, UnitAttr

from nirbridge.arrays import Array, freeze
from nirbridge.dialect.base import element, parameters_of, place_of, shape
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.neurons import FixedNeuronOp, NeuronBase, NeuronOp, record_fields, record_parts
from nirbridge.dialect.placement import Placement, slice_of
from nirbridge.dialect.structure import Delayed, InputOp, OutputOp, ScanOp
from nirbridge.dialect.synapses import (
    PARTS,
    ConvOp,
    CurrentOp,
    DenseOp,
    IdentityOp,
    RealOp,
    ReshapeOp,
    ScaleOp,
    ShiftOp,
    SparseOp,
)
from nirbridge.dialect.values import Resources, integers_in, names_in, plain_value, unescaped
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.axes import stored_axes
from nirbridge.network.check import check_network
from nirbridge.network.model import ModelFile, Network, Population, Port, Projection, Timing
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.network.storage.codec import ValueDecoder
from nirbridge.network.storage.file import diagnose_sizes
from nirbridge.quantization.model import FixedInput, FixedPopulation, FixedProjection, LayerReport, QuantizedNetwork
from nirbridge.quantization.storage.file import check_facts, check_quantized

HINT = "give the module as network_module makes it, before its passes"


def module_model(module: DialectModule) -> Network | QuantizedNetwork:
    """The network of a module, or the quantized network where it is of a chip's integers.

    Raises:
        ModelError: a module that a pass rewrote, or a model that its own checks refuse, with the place of each fault.
    """
    reader = (_Reader if isinstance(module.network.chip, UnitAttr) else _FixedReader)(module)
    try:
        model = reader.model()
        if isinstance(model, Network):
            check_network(model)
            ModelError.raise_all(diagnose_sizes(model))
        else:
            check_quantized(model)
            check_facts(model)
    except ModelError as error:
        raise ModelError(*(reader.placed(problem) for problem in error.problems)) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:  # of provenance, or huge shapes
        raise ModelError(replace(module.network.fault(quoted(str(error), 200)), hint=HINT)) from None
    return model


def module_placements(module: DialectModule) -> dict[str, Placement]:
    """The placements that a module holds, by population."""
    found = {}
    for op in module.ops:
        if isinstance(op, NeuronBase) and (placement := op.attribute("placement")) is not None:
            order = op.attribute("order")
            values = None if order is None else module.resources.array(order)
            found[_name(op)] = Placement(tuple(map(slice_of, placement.data)), values)
    return found


class _Reader:
    """Follows every current back to its source."""

    neuron: type[Any] = NeuronOp

    def __init__(self, module: DialectModule) -> None:
        self.op, self.resources, self.ops = module.network, module.resources, module.ops

    def model(self) -> Any:
        """The network."""
        facts = self.facts("assumed", "notes", "axes", "file")
        file, dt = facts.pop("file", None), self.op.dt.value.data  # type: ignore[attr-defined]
        if file is not None and len(file) != 2:
            raise ValueError("file in provenance is not a name and a digest")
        return Network(
            dt,
            Timing(dt, **{name: plain_value(value) for name, _, value in parameters_of(self.op.timing)}),
            tuple(Population(_name(op), op.shape, self.record(op)) for op in self.sorted(NeuronOp)),
            tuple(self.projection(op) for op in self.sorted(CurrentOp)),
            tuple(Port(_name(op), shape(op.y)) for op in self.listed(InputOp)),
            tuple(Port(_name(op), shape(op.y)) for op in self.listed(OutputOp)),
            file=None if file is None else ModelFile(*file),
            **facts,
        )

    def facts(self, *known: str, others: Sequence[str] = ()) -> dict[str, Any]:
        """The lists of texts in the provenance; ``others``: what else it has. Raises ValueError for further ones."""
        kept: Any = self.op.provenance.data  # type: ignore[attr-defined]
        if unknown := set(kept) - {*known, *others}:
            raise ValueError(f"provenance has {min(unknown)}")
        found = {name: names_in(value) for name, value in kept.items() if name in known}
        return found | {"axes": stored_axes(found, "axes", "provenance")}

    def listed(self, kind: type[Any]) -> list[Any]:
        """The operations of a kind in order."""
        return [op for op in self.ops if isinstance(op, kind)]

    def sorted(self, kind: type[Any]) -> list[Any]:
        """The operations of a kind by their ``index``."""
        return sorted(self.listed(kind), key=lambda op: _integer(op, "index"))

    def placed(self, problem: Diagnostic) -> Diagnostic:
        """A fault of the model at the operation that it is of."""
        place = "" if problem.subject.startswith("line ") else f"{self.place_of(problem) or 'dialect'}, "
        hint = "give one spike.past in it 1 step or more" if "a cycle without delay" in problem.found else problem.hint
        return replace(problem, subject=f"{place}{problem.subject}", hint=hint)

    def place_of(self, problem: Diagnostic) -> str:
        """The place of the projection, the population or the port of a fault, else that of the network."""
        subject = problem.subject
        if subject.startswith("spike."):
            return ""
        number = re.match(r"projection (\d+)", subject)
        if number is not None:
            return next((place_of(op) for op in self.sorted(CurrentOp)[int(number[1]) :]), place_of(self.op))
        named: list[Any] = [
            op for op in self.ops if "name" in op.attributes and quoted(_name(op)) in subject + problem.found
        ]
        return place_of((named or [self.op])[-1])

    def record(self, op: Any) -> Any:
        """The record of a population."""
        found = attribute_values(op, self.resources)
        return op.RECORD(**{f.name: found[f.name] for f in fields(op.RECORD)})

    def projection(self, op: CurrentOp) -> Projection:
        """The projection that ends in a current."""
        value, late = self.undelayed(op.x)
        parts: list[Operator] = []
        while isinstance(value.owner, PARTS):
            parts.insert(0, operator_of(value.owner, self.resources))
            value = value.owner.x
        value, delays = self.undelayed(value.owner.x if isinstance(value.owner, RealOp) else value)
        if not parts:  # an operator of its own comes between the two delays
            raise ModelError(op.fault("a projection without an operator", "", HINT))
        bias = None if op.bias is None else self.array(op, "bias")
        operator = parts[0] if len(parts) == 1 else Chain(tuple(parts))
        ends, is_back = (self.source(op, value), _target(op)), op.is_back is not None
        return Projection(*ends, operator, bias, delays, late, is_back, **self.nodes(op))

    def nodes(self, op: CurrentOp) -> dict[str, Any]:
        """The names of nodes of a projection."""
        listed: Any = {} if op.provenance is None else op.provenance.data  # type: ignore[attr-defined]
        return {name: names_in(value) for name, value in listed.items()}

    def undelayed(self, value: Any) -> tuple[Any, Array]:
        """A value before its delay, and the delay."""
        if isinstance(op := value.owner, Delayed):
            steps = self.array(op, "steps")
            if steps.dtype.kind not in "iu" or steps.min(initial=0) < 0:
                raise ModelError(op.fault("a value of its steps is no integer of 0 or more", "", "correct it"))
            return op.late, steps
        return value, freeze(np.int64(0))

    def array(self, op: Any, name: str) -> Array:
        """The values of an attribute."""
        return self.resources.array(op.attributes[name])

    def source(self, op: Any, value: Any) -> str:
        """The source of the values of a projection."""
        owner: Any = value.owner
        if isinstance(owner, self.neuron) and value is owner.given["s"]:
            return _name(owner)
        if isinstance(owner, ScanOp) and isinstance(owner.x.owner, InputOp):
            return _name(owner.x.owner)
        raise ModelError(op.fault("a projection that no source drives", "an input or a neuron", HINT))


class _FixedReader(_Reader):
    """As ``_Reader``, of a chip's integers."""

    neuron = FixedNeuronOp

    def model(self) -> Any:
        plain_names = tuple(f.name for f in fields(_Bookkeeping))
        facts = self.facts("notes", "axes", others=plain_names)
        stored = {name: plain_value(self.op.provenance.data[name]) for name in plain_names}  # type: ignore[attr-defined]
        currents = self.sorted(CurrentOp)
        populations = tuple(self.population(op) for op in self.sorted(FixedNeuronOp))
        nodes = [(op, _integer(op, "latency")) for op in self.ops if op.attributes.get("latency") is not None]
        plain = ValueDecoder({}).parts(_Bookkeeping, stored)
        return QuantizedNetwork(
            unescaped(self.op.chip.data),  # type: ignore[attr-defined]
            self.op.dt.value.data,  # type: ignore[attr-defined]
            populations,
            tuple(self.fixed(op) for op in currents if op.grid is not None),
            tuple(self.input(op) for op in self.listed(InputOp)),
            tuple(Port(_name(op), shape(op.y)) for op in self.listed(OutputOp)),
            tuple(self.projection(op) for op in currents if op.grid is None),
            MappingProxyType({_name(op): steps for op, steps in nodes}),
            plain.formats,
            plain.report,
            **facts,
        )

    def input(self, op: InputOp) -> FixedInput:
        """An input and the integers that it takes."""
        if op.value_max is None or op.unit is None:
            raise ModelError(op.fault("an input without value_max or unit", "inputs of integers have both", HINT))
        return FixedInput(_name(op), shape(op.y), _integer(op, "value_max"), op.unit.value.data)  # type: ignore[attr-defined]

    def population(self, op: FixedNeuronOp) -> FixedPopulation:
        """A population."""
        record = self.record(op)
        is_lif = record.is_lava_lif and op.custom is None
        return FixedPopulation(_name(op), op.shape, record, "lif" if is_lif else "custom")

    def fixed(self, op: CurrentOp) -> FixedProjection:
        """A projection in integers: delay, operator, shift, delay, with reshapes to and from the operator's shapes."""
        value, late = self.undelayed(op.x)
        chain = []
        while isinstance(value.owner, (*PARTS, ShiftOp)):
            chain.insert(0, value.owner)
            value = value.owner.x
        value, delays = self.undelayed(value)
        shifts = [each for each in chain if isinstance(each, ShiftOp)]
        operators = [each for each in chain if isinstance(each, DenseOp | SparseOp | ConvOp)]
        if len(shifts) != 1 or len(operators) != 1:
            raise ModelError(op.fault("a projection of other operations", "one operator and one shift", HINT))
        grid = {name: _plain(each, self.resources) for name, _, each in parameters_of(op.grid)}  # type: ignore[arg-type]
        return FixedProjection(
            self.source(op, value),
            _target(op),
            operator_of(operators[0], self.resources),
            weight_exp=_integer(shifts[0], "exponent"),
            delay_steps=delays,
            target_delay_steps=late,
            **grid,
            **self.nodes(op),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Bookkeeping:
    """The fields of a quantized network that are plain values."""

    formats: Mapping[str, Any]
    report: tuple[LayerReport, ...]


def operator_of(op: Any, resources: Resources) -> Any:
    """The linear operator of an operation of synapses; weights of integers are int64, those of reals as stored."""
    taken, given = op.taken, op.given

    def array(name: str) -> Array:
        stored = resources.array(op.attributes[name])
        if stored.dtype.kind == "f" and not np.isfinite(stored).all():
            raise ModelError(op.fault(f"a value of its {name} is not finite", "", "correct it"))
        if name not in ("weight", "data") or isinstance(element(op.y), Float32Type | Float64Type):
            return stored
        shift = 0 if op.weight_shift is None else op.weight_shift.value.data
        return freeze(stored.astype(np.int64) << min(max(shift, 0), 63))

    if isinstance(op, IdentityOp):
        return Identity(taken)
    if isinstance(op, ReshapeOp):
        return Reshape(taken, given)
    if isinstance(op, ScaleOp):
        return Scale(array("scale"))
    if isinstance(op, DenseOp):
        return Dense(array("weight"))
    if isinstance(op, SparseOp):
        return Sparse(array("indptr"), array("indices"), array("data"), taken, given)
    stride, sides = (integers_in(op.attributes[name]) for name in ("stride", "padding"))
    padding = tuple(zip(sides[::2], sides[1::2], strict=True))
    if isinstance(op, ConvOp):
        dilation, groups = integers_in(op.attributes["dilation"]), _integer(op, "groups")
        return Conv(array("weight"), stride, padding, dilation, groups, taken)
    return SumPool(integers_in(op.attributes["kernel"]), stride, padding, taken, op.attributes["factor"].value.data)


def attribute_values(op: Any, resources: Resources) -> dict[str, Any]:
    """The fields of a neuron as arrays, numbers, words and records; None for absent ones."""
    found = {name: _plain(op.field(name), resources) for name in record_fields(op.RECORD)}
    for name, part in record_parts(op.RECORD).items():
        given = {f.name: found.pop(f"{name}.{f.name}") for f in fields(part)}
        given |= {f.name: bool(given[f.name]) for f in fields(part) if f.type == "bool"}
        found[name] = part(**given) if f"{name}.{fields(part)[0].name}" in op.attributes else None
    if "bias_mant" in found:
        found["bias"] = found["bias_mant"] << found["bias_exp"]
    return found


def _target(op: CurrentOp) -> str:
    targets = [use.operation for use in op.y.uses if isinstance(use.operation, NeuronBase | OutputOp)]
    if len(targets) != 1:
        raise ModelError(op.fault(f"a current with {len(targets)} targets", "one", HINT))
    return _name(targets[0])


def _name(op: Any) -> str:
    return unescaped(op.attributes["name"].data)


def _integer(op: Any, name: str) -> int:
    return op.attributes[name].value.data


def _plain(attribute: Any, resources: Resources) -> Any:
    if isinstance(attribute, DenseResourceAttr | DenseIntOrFPElementsAttr):
        return resources.array(attribute)
    return None if attribute is None else plain_value(attribute)
