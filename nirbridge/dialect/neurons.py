"""Operations of neurons: one time step of a population, in real numbers and in a chip's integers. Needs xDSL.

Operands are the currents, added in their order; results are what the population sends and its variables after the time
step. The state is implicit: the lowering makes it arguments and results. The rules are those of
``network/neurons.py`` and ``quantization/model.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.irdl import attr_def, irdl_op_definition, opt_attr_def, result_def, var_operand_def

from nirbridge._types import Shape
from nirbridge.dialect.base import SpikeOp, ValueType, element, has_values, shape
from nirbridge.dialect.kinds import (
    FIRING,
    FIXED_BIAS,
    FIXED_CURRENT,
    FIXED_FIRING,
    FIXED_MEMBRANE,
    FIXED_RESET,
    INTEGER,
    MEMBRANE,
    RESET,
    SYNAPSE,
    TEXT,
    UNITS,
    VALUES,
    AttributeClass,
    Kind,
)
from nirbridge.dialect.placement import placement_faults
from nirbridge.dialect.values import Resources, integer, size_of, text
from nirbridge.errors import Diagnostic
from nirbridge.network.neurons import Neuron, flat_fields
from nirbridge.network.nir.fields import NEURONS as KINDS
from nirbridge.quantization.model import FixedNeuron


@cache
def record_parts(record: type[Any]) -> dict[str, type[Any]]:
    """The records that a neuron record may have in it, by field."""
    hints = get_type_hints(record).items()
    return {f: x for f, hint in hints for x in get_args(hint) if isinstance(x, type) and is_dataclass(x)}


@cache
def record_fields(record: type[Any]) -> dict[str, str]:
    """The fields of a neuron record that a module holds, and their types in words; of records in it ``field.name``."""
    found = {f.name: str(f.type) for f in fields(record)}
    for name, part in record_parts(record).items():
        del found[name]
        found |= {f"{name}.{f.name}": "Array | None" for f in fields(part)}
    return found


def neuron_attributes(kind: type[NeuronBase], n: Neuron | FixedNeuron, resources: Resources) -> dict[str, Any]:
    """The fields of a neuron record as attributes of its operation; absent ones are left out."""
    made, given = {str: text, int: integer}, flat_fields(n)
    values = {name: given[name] for name in record_fields(type(n)) if given.get(name) is not None}
    listed: dict[str, Any] = {name: made.get(type(x), resources.attribute)(x) for name, x in values.items()}
    held = {name for each in kind.CLASSES for name in each.parameters}
    alone = {name: value for name, value in listed.items() if name not in held}
    return alone | {each.name: each.of(listed) for each in kind.CLASSES}


class NeuronBase(SpikeOp):
    """What neurons of both kinds of numbers share."""

    args = var_operand_def(ValueType)
    named = attr_def(attr_name="name")
    index = attr_def()
    placement = opt_attr_def()
    order = opt_attr_def()
    fused = opt_attr_def()
    latency = opt_attr_def()
    assembly_format = "$args attr-dict `:` functional-type($args, results)"

    RECORD: ClassVar[type[Any]] = Neuron
    CLASSES: ClassVar[tuple[AttributeClass, ...]] = ()
    THRESHOLD: ClassVar[str] = ""

    @classmethod
    def kind_of(cls, name: str) -> Kind:
        """The kind of an attribute: of a field of the record that is in no class, that of its type."""
        words = record_fields(cls.RECORD).get(name)
        if words is None or name == "kind" or name in (each.name for each in cls.CLASSES):
            return super().kind_of(name)
        return INTEGER if words == "int" else VALUES if "Array" in words else TEXT

    def field(self, name: str) -> Any:
        """The attribute of a field of the record, in a class or alone; None where it is absent."""
        holder = next((each.name for each in self.CLASSES if name in each.parameters), None)
        found = self.attribute(name) if holder is None else getattr(self.attribute(holder), name)
        return None if isinstance(found, UnitAttr) else found

    @property
    def fires(self) -> bool:
        """False for a readout."""
        return self.field(self.THRESHOLD) is not None

    @property
    def shape(self) -> Shape:
        """The population's shape."""
        return shape(self.results[0])

    @property
    def given(self) -> dict[str, Any]:
        """The results by name."""
        names = [name for name, _ in self.get_irdl_definition().results]
        return dict(zip(names, self.results, strict=True))

    def diagnose(self) -> Iterator[Diagnostic]:
        """Faults of types, coefficients and rules."""
        for value in (*self.operands, *self.results):
            if (shape(value), element(value)) != (self.shape, element(self.results[0])):
                yield self.fault(
                    f"a value of type {value.type}", f"its neurons send {self.results[0].type}", "reshape it"
                )
        if any(value.type != self.results[1].type for value in (*self.operands, *self.results[1:])):
            yield self.fault("currents or states are spikes", "only s may be", "correct it")
        for name, words in record_fields(self.RECORD).items():
            if "Array" in words and (values := self.field(name)) is not None:
                yield from has_values(self, {name: values}, [(), self.shape])
        if self.placement is not None:
            for found, limit in placement_faults(self.placement, self.shape):
                yield self.fault(found, limit, "give the placement of a map")
        yield from has_values(self, ["order"], [(size_of(self.shape),)])
        yield from self._rules()

    def _rules(self) -> Iterator[Diagnostic]:
        most = self.field("max_spikes").value.data
        if most < 1:
            yield self.fault(f"max_spikes is {most}", "at least 1", "correct it")
        elif (self.results[0].type.element == i1) != (self.fires and most == 1):  # type: ignore[attr-defined]
            yield self.fault(f"sends {self.results[0].type}", "i1 where neurons send one spike at most, else numbers")
        for name, part in record_parts(self.RECORD).items():
            if len({self.field(f"{name}.{f.name}") is None for f in fields(part)}) > 1:
                yield self.fault(
                    f"a part of {name} alone", f"it is {', '.join(f.name for f in fields(part))}", "add it"
                )
        for name, words in record_fields(self.RECORD).items():
            if "None" in words and self.field(name) is not None and not self.fires:
                yield self.fault(f"a readout with {name}", "only neurons that fire have it", f"remove {name}")


Operation = TypeVar("Operation", bound=NeuronBase)


def neuron_operation(kind: type[Operation]) -> type[Operation]:
    """The operation of a neuron record: its classes, and an attribute for each other field; None is absent."""
    for each in kind.CLASSES:
        setattr(kind, each.name, attr_def())
    held = {name for each in kind.CLASSES for name in each.parameters}
    for name, words in ((n, w) for n, w in record_fields(kind.RECORD).items() if n not in held):
        setattr(kind, name, opt_attr_def() if "None" in words else attr_def())
    return irdl_op_definition(kind)


@neuron_operation
class NeuronOp(NeuronBase):
    """The canonical neuron (``network/neurons.py``) in real numbers; without ``theta`` a readout."""

    name = "spike.neuron"
    s = result_def(ValueType)
    u = result_def(ValueType)
    v = result_def(ValueType)
    i = result_def(ValueType)
    RECORD: ClassVar[type[Any]] = Neuron
    CLASSES: ClassVar[tuple[AttributeClass, ...]] = (MEMBRANE, SYNAPSE, FIRING, RESET)
    THRESHOLD: ClassVar[str] = "theta"

    def _rules(self) -> Iterator[Diagnostic]:
        """See ``NeuronBase``; kinds without a threshold are readouts."""
        kind: Any = self.attribute("kind")
        if self.fires and not any("threshold" in name for name in KINDS[kind.data]):
            yield self.fault(f"{kind.data} with a threshold", "theta of a readout is unit", "change its kind or theta")
        yield from super()._rules()


@neuron_operation
class FixedNeuronOp(NeuronBase):
    """A chip's neuron (``quantization/model.py``) in integers; without ``fires_above`` a readout.

    ``custom``: no LIF of Lava computes it, though it could.
    """

    name = "spike.fixed_neuron"
    s = result_def(ValueType)
    u = result_def(ValueType)
    v = result_def(ValueType)
    custom = opt_attr_def()
    RECORD: ClassVar[type[Any]] = FixedNeuron
    CLASSES: ClassVar[tuple[AttributeClass, ...]] = (
        FIXED_MEMBRANE,
        FIXED_CURRENT,
        FIXED_BIAS,
        FIXED_FIRING,
        FIXED_RESET,
        UNITS,
    )
    THRESHOLD: ClassVar[str] = "fires_above"


NEURONS = {op.RECORD: op for op in (NeuronOp, FixedNeuronOp)}
"""The operation of each neuron record."""
