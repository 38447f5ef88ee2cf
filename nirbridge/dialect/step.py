"""Operations of a module under construction. Needs xDSL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr, UnitAttr, i1
from xdsl.ir import Block, SSAValue

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.base import shape, stream_type, value_type
from nirbridge.dialect.neurons import NEURONS, neuron_attributes
from nirbridge.dialect.placement import Placement, placement_attributes
from nirbridge.dialect.structure import CollectOp, ConnectOp, DelayOp, InputOp, OutputOp, PastOp, ResultOp, ScanOp
from nirbridge.dialect.synapses import (
    ConvOp,
    DenseOp,
    IdentityOp,
    ReshapeOp,
    ScaleOp,
    SparseOp,
    SumPoolOp,
    keeps_spikes,
)
from nirbridge.dialect.values import Resources, integer, integers, narrowest, real, text
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool


class StepBuilder:
    """The time step of a network: operations are appended in order, values of the past may come from later ones.

    ``element``: its numbers; ``narrow``: weights are stored in the fewest bits.
    """

    def __init__(self, element: Any, *, narrow: bool = False) -> None:
        self.element, self.narrow = element, narrow
        self.resources = Resources()
        self.block = Block()
        self.now: dict[str, Any] = {}
        self._awaited: list[tuple[Any, Callable[[], Any]]] = []

    def op(self, kind: type[Any], operands: Sequence[SSAValue], result: Any, **attributes: Any) -> Any:
        """Append an operation with one result, which is returned."""
        given = {name: value for name, value in attributes.items() if value is not None}
        operation = kind.create(operands=list(operands), result_types=[result], attributes=given)
        self.block.add_op(operation)
        return operation.results[0]

    def input(self, name: str, shape: Shape, *, spikes: bool = False, **attributes: Any) -> Any:
        """An input, whose time step is returned."""
        element = i1 if spikes else self.element
        whole = self.op(InputOp, [], stream_type(element, shape), name=text(name), **attributes)
        self.now[name] = self.op(ScanOp, [whole], value_type(element, shape))
        return self.now[name]

    def sent(self, source: str, delays: Array, shape: Shape, *, spikes: bool = False) -> Any:
        """Values that a source sent some time steps ago; the source may come later if each is delayed."""
        if not delays.any() and not delays.ndim:
            return self.now[source]
        if source in self.now:
            return self.delayed(self.now[source], delays)
        return self.awaited(lambda: self.now[source], delays, i1 if spikes else self.element, shape)

    def awaited(self, make: Callable[[], Any], delays: Array, element: Any, shape: Shape) -> Any:
        """Values some time steps ago of a value that ``make`` gives after the neurons of the time step."""
        past = self.op(PastOp, [], value_type(element, shape), steps=self.resources.attribute(delays))
        self._awaited.append((past, make))
        return past

    def connect(self) -> None:
        """Connect every value of the past."""
        for past, make in self._awaited:  # which may append further ones
            self.block.add_op(ConnectOp.create(operands=[past, make()]))
        self._awaited.clear()

    def delayed(self, value: Any, delays: Array) -> Any:
        """A value some time steps ago."""
        steps = self.resources.attribute(delays)
        return self.op(DelayOp, [value], value.type, steps=steps)

    def part(self, part: Operator, x: Any) -> Any:
        """One linear operator."""
        kind = _KINDS[type(part)]
        element = x.type.element if keeps_spikes(kind) or x.type.element != i1 else self.element
        attributes = _part_attributes(part, self.resources, narrow=self.narrow and element == self.element)
        return self.op(kind, [x], type(x.type)(integers(part.output_shape), element), **attributes)

    def neurons(
        self, index: int, p: Any, placement: Placement | None, currents: Iterable[Any], **attributes: Any
    ) -> dict[str, Any]:
        """A population of either kind of numbers; its results by name."""
        operation = NEURONS[type(p.neuron)]
        given = neuron_attributes(operation, p.neuron, self.resources)
        given |= {"name": text(p.name), "index": integer(index), **attributes}
        if getattr(p, "process", None) == "custom" and p.neuron.is_lava_lif:
            given["custom"] = UnitAttr()
        if placement is not None:
            given |= placement_attributes(placement, self.resources)
        numbers = value_type(self.element, p.shape)
        sent = value_type(i1, p.shape) if sends_spikes(p.neuron) else numbers
        types = [sent, *[numbers] * (len(operation.get_irdl_definition().results) - 1)]
        op = operation.create(operands=list(currents), result_types=types, attributes=given)
        self.block.add_op(op)
        return op.given

    def output(self, name: str, shape: Shape, currents: Sequence[Any], element: Any = None, **attributes: Any) -> Any:
        """An output of the time step."""
        kind = value_type(self.element if element is None else element, shape)
        return self.op(OutputOp, currents, kind, name=text(name), **attributes)

    def result(self, name: str, variable: str, value: Any) -> None:
        """The values of all time steps as a result of the module."""
        whole = self.op(CollectOp, [value], stream_type(value.type.element, shape(value)))
        given = {"name": text(name), "variable": StringAttr(variable)}
        self.block.add_op(ResultOp.create(operands=[whole], attributes=given))


def sends_spikes(n: Any) -> bool:
    """Whether neurons send one spike at most per time step, so that what they send is ``i1``."""
    return n.fires and n.max_spikes == 1


_KINDS: Mapping[type[Any], Any] = {
    Identity: IdentityOp,
    Reshape: ReshapeOp,
    Scale: ScaleOp,
    Dense: DenseOp,
    Sparse: SparseOp,
    Conv: ConvOp,
    SumPool: SumPoolOp,
}


def _part_attributes(part: Any, resources: Resources, *, narrow: bool) -> dict[str, Any]:
    def weights(name: str, values: Array) -> dict[str, Any]:
        if not narrow:
            return {name: resources.attribute(values)}
        shift, stored = narrowest(values)
        return {name: resources.attribute(stored)} | ({"weight_shift": integer(shift)} if shift else {})

    if isinstance(part, Scale):
        return {"scale": resources.attribute(part.scale)}
    if isinstance(part, Dense):
        return weights("weight", part.weight)
    if isinstance(part, Sparse):
        lists = {name: resources.attribute(getattr(part, name)) for name in ("indptr", "indices")}
        return lists | weights("data", part.data)
    if not isinstance(part, Conv | SumPool):
        return {}
    given = {"stride": integers(part.stride), "padding": integers([side for pair in part.padding for side in pair])}
    if isinstance(part, SumPool):
        return given | {"kernel": integers(part.kernel), "factor": real(part.factor)}
    return (
        given | weights("weight", part.weight) | {"dilation": integers(part.dilation), "groups": integer(part.groups)}
    )
