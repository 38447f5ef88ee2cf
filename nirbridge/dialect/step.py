"""Operations of a module under construction. Needs xDSL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.neurons import NEURONS, neuron_attributes
from nirbridge.dialect.placement import Placement, placement_attributes
from nirbridge.dialect.structure import CollectOp, DelayOp, InputOp, OutputOp, ResultOp, ScanOp
from nirbridge.dialect.synapses import ConvOp, DenseOp, IdentityOp, ReshapeOp, ScaleOp, SparseOp, SumPoolOp
from nirbridge.dialect.values import Resources, integer, integers, real, tensor_type, text
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool


class StepBuilder:
    """The body of a module: operations are appended in order, delayed values may come from later ones."""

    def __init__(self, element: Any) -> None:
        self.element = element
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

    def input(self, name: str, shape: Shape) -> Any:
        """An input, whose time step is returned."""
        whole = self.op(InputOp, [], tensor_type(self.element, None, None, *shape), name=text(name))
        self.now[name] = self.op(ScanOp, [whole], tensor_type(self.element, None, *shape))
        return self.now[name]

    def sent(self, source: str, delays: Array, shape: Shape) -> Any:
        """Values that a source sent some time steps ago; the source may come later if each is delayed."""
        if not delays.any() and not delays.ndim:
            return self.now[source]
        return self.awaited(lambda: self.now[source], delays, shape)

    def awaited(self, make: Callable[[], Any], delays: Array, shape: Shape) -> Any:
        """Values some time steps ago of a value that ``make`` gives after the neurons of the time step."""
        kind, steps = tensor_type(self.element, None, *shape), self.resources.attribute(delays)
        operation = DelayOp.create(operands=[], result_types=[kind], attributes={"steps": steps})
        self.block.add_op(operation)
        self._awaited.append((operation, make))
        return operation.results[0]

    def connect(self) -> None:
        """Give every delay the values that it delays."""
        for operation, make in self._awaited:  # which may append further delays
            operation.operands = [make()]
        self._awaited.clear()

    def delayed(self, value: Any, delays: Array) -> Any:
        """A value some time steps ago."""
        steps = self.resources.attribute(delays)
        return self.op(DelayOp, [value], value.type, steps=steps)

    def part(self, part: Operator, x: Any) -> Any:
        """One linear operator."""
        result = tensor_type(x.type.get_element_type(), None, *part.output_shape)
        return self.op(_KINDS[type(part)], [x], result, **_part_attributes(part, self.resources))

    def neurons(self, index: int, p: Any, placement: Placement | None, currents: Iterable[Any]) -> dict[str, Any]:
        """A population of either kind of numbers; its results by name."""
        given = neuron_attributes(p.neuron, self.resources) | {"name": text(p.name), "index": integer(index)}
        if placement is not None:
            given |= placement_attributes(placement, self.resources)
        operation, kind = NEURONS[type(p.neuron)], tensor_type(self.element, None, *p.shape)
        types = [kind] * len(operation.get_irdl_definition().results)
        op = operation.create(operands=list(currents), result_types=types, attributes=given)
        self.block.add_op(op)
        return op.given

    def output(self, name: str, shape: Shape, currents: Sequence[Any], element: Any = None) -> Any:
        """An output of the time step."""
        kind = tensor_type(self.element if element is None else element, None, *shape)
        return self.op(OutputOp, currents, kind, name=text(name))

    def result(self, name: str, variable: str, value: Any) -> None:
        """The values of all time steps as a result of the module."""
        kind = value.type
        whole = self.op(CollectOp, [value], tensor_type(kind.get_element_type(), None, None, *kind.get_shape()[1:]))
        given = {"name": text(name), "variable": StringAttr(variable)}
        self.block.add_op(ResultOp.create(operands=[whole], attributes=given))


_KINDS: Mapping[type[Any], Any] = {
    Identity: IdentityOp,
    Reshape: ReshapeOp,
    Scale: ScaleOp,
    Dense: DenseOp,
    Sparse: SparseOp,
    Conv: ConvOp,
    SumPool: SumPoolOp,
}


def _part_attributes(part: Any, resources: Resources) -> dict[str, Any]:
    if isinstance(part, Scale):
        return {"scale": resources.attribute(part.scale)}
    if isinstance(part, Dense):
        return {"weight": resources.attribute(part.weight)}
    if isinstance(part, Sparse):
        return {name: resources.attribute(getattr(part, name)) for name in ("indptr", "indices", "data")}
    if not isinstance(part, Conv | SumPool):
        return {}
    given = {"stride": integers(part.stride), "padding": integers([side for pair in part.padding for side in pair])}
    if isinstance(part, SumPool):
        return given | {"kernel": integers(part.kernel), "factor": real(part.factor)}
    weight = resources.attribute(part.weight)
    return given | {"weight": weight, "dilation": integers(part.dilation), "groups": integer(part.groups)}
