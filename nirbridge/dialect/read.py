"""The network that a module of the dialect was made of. Needs xDSL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import SSAValue

from nirbridge.arrays import Array, freeze
from nirbridge.dialect.base import is_escaped, shape
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.neurons import NeuronBase, NeuronOp, record_fields, record_parts
from nirbridge.dialect.placement import Placement, slice_of
from nirbridge.dialect.structure import STRUCTURE, DelayOp, InputOp, OutputOp, ScanOp
from nirbridge.dialect.synapses import (
    PARTS,
    ConvOp,
    CurrentOp,
    DenseOp,
    IdentityOp,
    ReshapeOp,
    ScaleOp,
    SparseOp,
    Synapse,
)
from nirbridge.dialect.values import Resources, integers_in, names_in, unescaped
from nirbridge.errors import ModelError
from nirbridge.network.check import check_network
from nirbridge.network.model import ModelFile, Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

HINT = "give the module as network_module makes it, before its passes"


def module_network(module: DialectModule) -> Network:
    """The network of a module in real numbers.

    Raises:
        ModelError: a module of integers, one that a pass rewrote, or a network that ``check_network`` refuses.
    """
    network = _Reader(module).network()
    check_network(network)
    return network


def module_placements(module: DialectModule) -> dict[str, Placement]:
    """The placements that a module holds, by population."""
    found = {}
    for op in module.operation.body.block.ops:
        if isinstance(op, NeuronBase) and (placement := op.attribute("placement")) is not None:
            order = op.attribute("order")
            values = None if order is None else module.resources.array(order)
            found[_name(op)] = Placement(tuple(map(slice_of, placement.data)), values)
    return found


class _Reader:
    """Follows every current back to its source."""

    def __init__(self, module: DialectModule) -> None:
        self.op, self.resources = module.network, module.resources
        self.ops = list(module.operation.body.block.ops)

    def network(self) -> Network:
        if any(not isinstance(op, (NeuronOp, Synapse, *STRUCTURE)) for op in self.ops):
            raise ModelError.of("dialect", "a module of a chip's integers", "networks in real numbers are read", HINT)
        neurons = sorted((op for op in self.ops if isinstance(op, NeuronOp)), key=lambda op: _integer(op, "index"))
        currents = sorted((op for op in self.ops if isinstance(op, CurrentOp)), key=lambda op: _integer(op, "index"))
        given: Any = self.op.attributes
        facts = given["facts"].data
        if set(facts) - {"file"} != {"assumed", "notes"} or not all(map(_are_names, facts.values())):
            raise ModelError.of("dialect", "facts of another kind", "assumed and notes, perhaps file", HINT)
        file = names_in(facts["file"]) if "file" in facts else None
        return Network(
            given["dt"].value.data,
            _timing(given["timing"].data),
            tuple(Population(_name(op), op.shape, self._neuron(op)) for op in neurons),
            tuple(self._projection(op) for op in currents),
            tuple(Port(_name(op), shape(op.y, 2)) for op in self.ops if isinstance(op, InputOp)),
            tuple(Port(_name(op), shape(op.y)) for op in self.ops if isinstance(op, OutputOp)),
            names_in(facts["assumed"]),
            names_in(facts["notes"]),
            None if file is None else ModelFile(*file),
        )

    def _neuron(self, op: NeuronOp) -> Neuron:
        found = attribute_values(op, self.resources)
        return Neuron(**{f.name: found[f.name] for f in fields(Neuron)})

    def _projection(self, op: CurrentOp) -> Projection:
        value, late = self._undelayed(op.operands[0])
        parts: list[Operator] = []
        while isinstance(value.owner, PARTS):
            parts.insert(0, operator_of(value.owner, self.resources))
            value = value.owner.operands[0]
        value, delays = self._undelayed(value)
        if not parts:  # an operator of its own comes between the two delays
            raise ModelError.of("dialect", "a projection without an operator", "", HINT)
        given: Any = op.attributes
        return Projection(
            _source(value),
            _target(op),
            parts[0] if len(parts) == 1 else Chain(tuple(parts)),
            self._array(op, "bias") if "bias" in given else None,
            delays,
            late,
            bool(given["is_back"].value.data),
            names_in(given["nodes"]),
            names_in(given["delay_nodes"]),
        )

    def _undelayed(self, value: SSAValue) -> tuple[SSAValue, Array]:
        if isinstance(value.owner, DelayOp):
            return value.owner.operands[0], self._array(value.owner, "steps")
        return value, freeze(np.int64(0))

    def _array(self, op: Any, name: str) -> Array:
        return self.resources.array(op.attributes[name])


def operator_of(op: Any, resources: Resources) -> Any:
    """The linear operator of an operation of synapses."""
    taken, given = op.taken, op.given

    def array(name: str) -> Array:
        return resources.array(op.attributes[name])

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
    found = {name: _plain(op.attributes.get(name), resources) for name in record_fields(op.RECORD)}
    for name, part in record_parts(op.RECORD).items():
        given = {f.name: found.pop(f"{name}.{f.name}") for f in fields(part)}
        given |= {f.name: bool(given[f.name]) for f in fields(part) if f.type == "bool"}
        found[name] = part(**given) if f"{name}.{fields(part)[0].name}" in op.attributes else None
    return found


def _source(value: SSAValue) -> str:
    owner: Any = value.owner
    if isinstance(owner, NeuronOp) and value is owner.given["s"]:
        return _name(owner)
    if isinstance(owner, ScanOp) and isinstance(owner.x.owner, InputOp):
        return _name(owner.x.owner)
    raise ModelError.of("dialect", "a projection that no source drives", "an input or a neuron", HINT)


def _target(op: CurrentOp) -> str:
    targets = [use.operation for use in op.y.uses if isinstance(use.operation, NeuronOp | OutputOp)]
    if len(targets) != 1:
        raise ModelError.of("dialect", f"a current with {len(targets)} targets", "one", HINT)
    return _name(targets[0])


def _name(op: Any) -> str:
    return unescaped(op.attributes["name"].data)


def _integer(op: Any, name: str) -> int:
    return op.attributes[name].value.data


def _are_names(attribute: Any) -> bool:
    return isinstance(attribute, ArrayAttr) and all(
        isinstance(each, StringAttr) and is_escaped(each.data) for each in attribute.data
    )


def _timing(values: Mapping[str, Any]) -> Timing:
    return Timing(**{name: _plain(values.get(name), Resources()) for name in (f.name for f in fields(Timing))})


def _plain(attribute: Any, resources: Resources) -> Any:
    if isinstance(attribute, DenseResourceAttr | DenseIntOrFPElementsAttr):
        return resources.array(attribute)
    if isinstance(attribute, StringAttr):
        return unescaped(attribute.data)
    return attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else None
