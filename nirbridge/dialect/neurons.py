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

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import attr_def, irdl_op_definition, opt_attr_def, result_def, var_operand_def

from nirbridge._types import Shape
from nirbridge.dialect.base import SpikeOp, has_values, shape
from nirbridge.dialect.placement import placement_faults
from nirbridge.dialect.values import Resources, integer, size_of, text
from nirbridge.errors import Diagnostic, quoted
from nirbridge.network.neurons import Neuron, flat_fields
from nirbridge.quantization.model import FixedNeuron

OF_THE_HOST = ("bias_mant", "bias_exp", "scale", "v_offset")
"""Fields of integer neurons that no time step reads: the host reads them, or ``bias`` has them."""


@cache
def record_parts(record: type[Any]) -> dict[str, type[Any]]:
    """The records that a neuron record may have in it, by field."""
    hints = get_type_hints(record).items()
    return {f: x for f, hint in hints for x in get_args(hint) if isinstance(x, type) and is_dataclass(x)}


@cache
def record_fields(record: type[Any]) -> dict[str, str]:
    """The fields of a neuron record that a module holds, and their types in words; of records in it ``field.name``."""
    found = {f.name: str(f.type) for f in fields(record) if f.name not in OF_THE_HOST} | {"bias": "Array"}
    for name, part in record_parts(record).items():
        del found[name]
        found |= {f"{name}.{f.name}": "Array | None" for f in fields(part)}
    return found


def neuron_attributes(n: Neuron | FixedNeuron, resources: Resources) -> dict[str, Any]:
    """The fields of a neuron record as attributes; absent ones are left out."""
    made, given = {str: text, int: integer}, {**flat_fields(n), "bias": n.bias}
    values = {name: given[name] for name in record_fields(type(n)) if given.get(name) is not None}
    return {name: made.get(type(x), resources.attribute)(x) for name, x in values.items()}


class NeuronBase(SpikeOp):
    """What neurons of both kinds of numbers share."""

    args = var_operand_def()
    named = attr_def(attr_name="name")
    index = attr_def()
    placement = opt_attr_def()
    order = opt_attr_def()
    fused = opt_attr_def()

    RECORD: ClassVar[type[Any]] = Neuron
    RESETS: ClassVar[tuple[str, ...]] = ()
    THRESHOLD: ClassVar[str] = ""

    @property
    def fires(self) -> bool:
        """False for a readout."""
        return self.attribute(self.THRESHOLD) is not None

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
            if value.type != self.results[0].type:
                yield self.fault(
                    f"a value of type {value.type}", f"its neurons send {self.results[0].type}", "reshape it"
                )
        arrays = [name for name, words in record_fields(self.RECORD).items() if "Array" in words]
        yield from has_values(self, arrays, [(), self.shape])
        if self.placement is not None:
            for found, limit in placement_faults(self.placement, self.shape):
                yield self.fault(found, limit, "give the placement of a map")
        yield from has_values(self, ["order"], [(size_of(self.shape),)])
        yield from self._rules()

    def _rules(self) -> Iterator[Diagnostic]:
        reset = self.attribute("reset").data
        if reset not in self.RESETS:
            yield self.fault(f"reset {quoted(reset)}", f"one of {', '.join(self.RESETS)}", "correct it")
        if self.attribute("max_spikes").value.data < 1:
            yield self.fault(f"max_spikes is {self.attribute('max_spikes').value.data}", "at least 1", "correct it")
        for name, part in record_parts(self.RECORD).items():
            if len({self.attribute(f"{name}.{f.name}") is None for f in fields(part)}) > 1:
                yield self.fault(
                    f"a part of {name} alone", f"it is {', '.join(f.name for f in fields(part))}", "add it"
                )
        for name, words in record_fields(self.RECORD).items():
            if "None" in words and self.attribute(name) is not None and not self.fires:
                yield self.fault(f"a readout with {name}", "only neurons that fire have it", f"remove {name}")


Operation = TypeVar("Operation", bound=NeuronBase)


def neuron_operation(kind: type[Operation]) -> type[Operation]:
    """The operation of a neuron record: an attribute for each of its fields, those that may be None optional."""
    for name, words in record_fields(kind.RECORD).items():
        setattr(kind, name, opt_attr_def() if "None" in words else attr_def())
    return irdl_op_definition(kind)


@neuron_operation
class NeuronOp(NeuronBase):
    """The canonical neuron (``network/neurons.py``) in real numbers; without ``theta`` a readout."""

    name = "spike.neuron"
    s = result_def(TensorType)
    u = result_def(TensorType)
    v = result_def(TensorType)
    i = result_def(TensorType)
    RECORD: ClassVar[type[Any]] = Neuron
    RESETS: ClassVar[tuple[str, ...]] = ("to-value", "subtract", "none")
    THRESHOLD: ClassVar[str] = "theta"

    def _rules(self) -> Iterator[Diagnostic]:
        yield from super()._rules()
        compare = self.attribute("compare").data
        if compare not in (">", ">="):
            yield self.fault(f"compare {quoted(compare)}", "'>' or '>='", "correct it")


@neuron_operation
class FixedNeuronOp(NeuronBase):
    """A chip's neuron (``quantization/model.py``) in integers; without ``fires_above`` a readout."""

    name = "spike.fixed_neuron"
    s = result_def(TensorType)
    u = result_def(TensorType)
    v = result_def(TensorType)
    RECORD: ClassVar[type[Any]] = FixedNeuron
    RESETS: ClassVar[tuple[str, ...]] = ("zero", "subtract", "none")
    THRESHOLD: ClassVar[str] = "fires_above"


NEURONS = {op.RECORD: op for op in (NeuronOp, FixedNeuronOp)}
"""The operation of each neuron record."""
