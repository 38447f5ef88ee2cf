"""The operations of a module: those on all time steps at once, and those of the loop over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.dialect.base import element, leading_axes, shape
from nirbridge.dialect.lowering.function import Body, Extent, FunctionText, Tensor
from nirbridge.dialect.lowering.linear import conv, dense, dense_by_events, sparse, sum_pool
from nirbridge.dialect.lowering.pointwise import Node, Pointwise, kept_states, lowered_step
from nirbridge.dialect.neurons import NeuronBase
from nirbridge.dialect.passes.batch_time import projection_of
from nirbridge.dialect.read import attribute_values, operator_of
from nirbridge.dialect.structure import CollectOp, ConnectOp, Delayed, InputOp, OutputOp, ResultOp, ScanOp, user_of
from nirbridge.dialect.synapses import (
    ConvOp,
    CurrentOp,
    DenseOp,
    RealOp,
    ScaleOp,
    ShiftOp,
    SparseOp,
    SumPoolOp,
    Synapse,
)
from nirbridge.dialect.values import Resources, unescaped
from nirbridge.errors import ModelError, quoted


@dataclass(slots=True)
class LoweredState:
    """A state: what it is of, its start, its argument of the function, and its value in the next time step."""

    of: str
    variable: str
    initial: Array
    argument: Tensor
    inside: Tensor | None = None
    following: Tensor | None = None


class BodyLowering:
    """Operations of one module; ``values`` are the tensors of those that are lowered."""

    def __init__(self, f: FunctionText, ops: Sequence[Any], resources: Resources, time: Extent, batch: Extent) -> None:
        self.f, self.ops, self.resources, self.time, self.batch = f, ops, resources, time, batch
        self.values: dict[Any, Any] = {}
        self.neurons: dict[Any, dict[str, LoweredState]] = {}
        self.histories: dict[Any, LoweredState] = {}

    def states(self) -> list[LoweredState]:
        """Every state of the loop, in the order of the function's arguments."""
        found: list[LoweredState] = []
        for op in self.ops:
            if isinstance(op, NeuronBase):
                self.neurons[op] = self._neuron_states(op, len(found))
                found += self.neurons[op].values()
        return [*found, *self.late(len(found))]

    def late(self, first: int) -> list[LoweredState]:
        """Histories of delayed values; ``first``: number of the first argument."""
        found: list[LoweredState] = []
        depths: dict[Any, int] = {}
        for op in self.ops:
            if isinstance(op, Delayed):
                steps = self.resources.array(op.steps)
                depths[op.late] = max(depths.get(op.late, 0), int(steps.max(initial=0)))
        for x, depth in depths.items():
            if depth:
                extents = (depth, *shape(x))
                argument = self._argument(first + len(found), str(element(x)), extents)
                self.histories[x] = LoweredState(*_past_of(x), np.zeros(extents), argument)
                found.append(self.histories[x])
        return found

    def _argument(self, k: int, kind: str, extents: tuple[int, ...]) -> Tensor:
        return Tensor(f"%state{k}", kind, (self.batch,), extents)

    def _neuron_states(self, op: Any, first: int) -> dict[str, LoweredState]:
        kept = kept_states(attribute_values(op, self.resources), str(element(op.results[0])))
        return {
            name: LoweredState(_name(op), name, start, self._argument(k, kind, op.shape))
            for k, (name, (kind, start)) in enumerate(kept.items(), first)
        }

    def before(self) -> None:
        """Operations on all time steps at once: time and batch are one axis of them."""
        for op in self.ops:
            if isinstance(op, Synapse) and leading_axes(op.x) == 2:
                x = self.values[op.x]
                if isinstance(x, Tensor) and len(x.lead) == 2:
                    x = self.values[op.x] = self.f.merged(x, self._merged_extent())
                self.values[op.y] = self._synapse(op, x)
        for op in self.ops:
            if isinstance(op, ScanOp):
                self.values[op.x] = self._value(op.x)

    def _merged_extent(self) -> Extent:
        if self.time.size is not None and self.batch.size is not None:
            return Extent(self.time.size * self.batch.size)
        sides = [self._index(extent) for extent in (self.time, self.batch)]
        return Extent(None, self.f.op(f"arith.muli {sides[0]}, {sides[1]} : index"))

    def _index(self, extent: Extent) -> str:
        return extent.name if extent.size is None else self.f.index(extent.size)

    def _time_step_of(self, x: Tensor) -> Tensor:
        """One time step of a tensor of all of them."""
        if len(x.lead) == 2:
            return self.f.slice(x, (self.batch,), "%t", 0)
        first = self.f.op(f"arith.muli %t, {self._index(self.batch)} : index")
        return self.f.rows(x, first, self.batch)

    def loop(self, outs: Sequence[Tensor], collected: Sequence[Any]) -> list[Tensor]:
        """The loop over time: results over time, then the states after it."""
        f = self.f
        states = [*(s for own in self.neurons.values() for s in own.values()), *self.histories.values()]
        carried = [*outs, *(s.argument for s in states)]
        inner = [Tensor(f"%carried{k}", t.element, t.lead, t.shape) for k, t in enumerate(carried)]
        for state, tensor in zip(states, inner[len(outs) :], strict=True):
            state.inside = tensor
        extent = self._index(self.time)
        args = ", ".join(f"{a.name} = {t.name}" for a, t in zip(inner, carried, strict=True))
        types = ", ".join(t.type for t in carried)
        name, count = f.fresh(), len(carried)
        many = f":{count}" if count > 1 else ""
        f.line(
            f"{name}{many} = scf.for %t = {f.index(0)} to {extent} step {f.index(1)} iter_args({args}) -> ({types}) {{"
        )
        f.indent += 1
        self.step()
        stacked = self._stacked(inner[: len(outs)], collected)
        for x, state in self.histories.items():
            assert state.inside is not None
            state.following = moved_on(f, state.inside, self._value(x))
        ends = [*stacked, *(s.following or s.argument for s in states)]
        f.line(f"scf.yield {', '.join(t.name for t in ends)} : {types}")
        f.indent -= 1
        f.line("}")
        names = [f"{name}#{k}" for k in range(count)] if count > 1 else [name]
        return [Tensor(n, t.element, t.lead, t.shape) for n, t in zip(names, carried, strict=True)]

    def _stacked(self, inner: Sequence[Tensor], collected: Sequence[Any]) -> list[Tensor]:
        """Outputs over time with the values of this time step."""
        found = []
        for into, whole in zip(inner, collected, strict=True):
            now = self._value(whole.owner.x)
            rest = [0] * len(now.shape)
            found.append(self.f.inserted(now, into, ["%t", 0, *rest], [1, self.batch, *now.shape]))
        return found

    def step(self) -> None:
        """The operations of one time step."""
        for op in self.ops:
            if isinstance(op, ScanOp):
                self.values[op.y] = self._time_step_of(self._value(op.x))
            elif isinstance(op, Delayed):
                self.values[op.y] = self._delay(op)
            elif isinstance(op, NeuronBase):
                self.neuron(op)
            elif isinstance(op, OutputOp):
                p = Pointwise(self.f, (self.batch,), shape(op.y), op.fused is not None)
                total = self._sum(p, op.operands, str(element(op.y)))
                (self.values[op.y],) = p.finish([total])
            elif isinstance(op, RealOp):
                self.values[op.y] = self._real(op)
            elif isinstance(op, Synapse):
                if leading_axes(op.x) == 1:
                    self.values[op.y] = self._synapse(op, self.values.get(op.x))
            elif not isinstance(op, InputOp | ResultOp | CollectOp | ConnectOp):
                raise ModelError.of("dialect", f"an operation {quoted(op.name)}", "it has no lowering", "remove it")

    def _value(self, value: Any) -> Tensor:
        if value not in self.values:
            found = f"a value of {quoted(value.owner.name)} is used before its time step has it"
            raise ModelError.of("dialect", found, "a cycle leads through a delay", "delay it by 1 or more")
        return self._tensor(self.values[value])

    def _tensor(self, value: Any) -> Tensor:
        """The value as a tensor: elementwise operations that wait for their use are written."""
        if isinstance(value, Tensor):
            return value
        p, node = value
        (tensor,) = p.finish([node])
        return tensor

    def _delay(self, op: Any) -> Tensor:
        steps = self.resources.array(op.steps)
        history = self.histories.get(op.late)
        now = self._value(op.late) if not steps.all() else None
        return delayed(self.f, None if history is None else history.inside, now, steps)

    def _sum(self, p: Pointwise, currents: Sequence[Any], kind: str) -> Node:
        total: Node | None = None
        for current in currents:
            node = self._node(p, current)
            total = node if total is None else p.op("arith.addf" if kind.startswith("f") else "arith.addi", total, node)
        return p.number(0, kind) if total is None else total

    def _node(self, p: Pointwise, value: Any) -> Node:
        found = self.values.get(value)
        if isinstance(found, tuple):
            return found[1]
        return p.of(self._value(value))

    def neuron(self, op: Any) -> None:
        """One time step of a population."""
        kind, states = str(element(op.results[0])), self.neurons[op]
        p = Pointwise(self.f, (self.batch,), op.shape, op.fused is not None)
        drive = self._sum(p, op.operands, kind) if op.operands else None
        inside = {name: p.of(s.inside) for name, s in states.items() if s.inside is not None}
        found = lowered_step(p, attribute_values(op, self.resources), kind, drive, inside)
        needed = [name for name in found if name in states or (name in op.given and any(op.given[name].uses))]
        own = {id(found[name]): s.inside for name, s in states.items() if s.inside is not None}
        tensors = dict(zip(needed, self.distinct(p, [found[name] for name in needed], own), strict=True))
        for name, state in states.items():
            state.following = tensors[name]
        self.values |= {value: tensors[name] for name, value in op.given.items() if name in tensors}

    @staticmethod
    def distinct(p: Pointwise, nodes: Sequence[Node], states: Mapping[int, Tensor]) -> list[Tensor]:
        """The values as tensors; one that stands for several variables is computed once, a state in its own place."""
        unique = list({id(node): node for node in nodes}.values())
        into = {k: states[id(node)] for k, node in enumerate(unique) if id(node) in states}
        tensors = {id(node): tensor for node, tensor in zip(unique, p.finish(unique, into), strict=True)}
        return [tensors[id(node)] for node in nodes]

    def _real(self, op: RealOp) -> Tensor:
        p = Pointwise(self.f, (self.batch,), shape(op.x))
        value = p.op("arith.sitofp", p.of(self._value(op.x)), element=str(element(op.y)))
        kind = str(element(op.y))
        scale = p.number(self.resources.array(op.scale), kind)
        if op.offset is None:
            value = p.op("arith.mulf", value, scale)
        else:
            value = p.op(
                "arith.addf", p.op("arith.divf", value, scale), p.number(self.resources.array(op.offset), kind)
            )
        return p.finish([value])[0]

    def _synapse(self, op: Any, x: Any) -> Any:
        """A tensor, or elementwise operations that wait for the neuron that they belong to."""
        x = self._value(op.x) if x is None else x
        if isinstance(op, ScaleOp | CurrentOp | ShiftOp):
            return self._elementwise(op, x)
        tensor = self._tensor(x)
        part = operator_of(op, self.resources)
        if isinstance(op, DenseOp):
            return (dense if op.events is None else dense_by_events)(self.f, part, tensor)
        if isinstance(op, SparseOp):
            return sparse(self.f, part, tensor)
        if isinstance(op, ConvOp):
            return conv(self.f, part, tensor)
        if isinstance(op, SumPoolOp):
            summed = sum_pool(self.f, part, tensor)
            p = Pointwise(self.f, summed.lead, summed.shape, _is_fused(op))
            factor = p.number(part.factor, summed.element)
            return summed if part.factor == 1.0 else (p, p.op("arith.mulf", p.of(summed), factor))
        return self.f.unflat(self.f.flat(tensor), op.given) if op.given != op.taken else x

    def _elementwise(self, op: Any, x: Any) -> Any:
        kind = str(element(op.y))
        if isinstance(x, Tensor):
            p = Pointwise(self.f, x.lead, x.shape, _is_fused(op))
            node = p.of(x)
        else:
            p, node = x
        if isinstance(op, ScaleOp):
            return p, p.op("arith.mulf", node, p.number(self.resources.array(op.scale), kind))
        if isinstance(op, ShiftOp):
            exponent = op.attributes["exponent"].value.data  # type: ignore[attr-defined]
            word = "arith.shli" if exponent >= 0 else "arith.shrsi"
            return (p, p.op(word, node, p.number(abs(exponent), kind))) if exponent else x
        if op.bias is None:
            return x
        return p, p.op("arith.addf", node, p.number(self.resources.array(op.bias), kind))


def _is_fused(op: Any) -> bool:
    """Whether the elementwise operations of a projection are one loop with those of its target."""
    while not isinstance(op, NeuronBase | OutputOp):
        op = user_of(op.results[0])
    return op.fused is not None


def _name(op: Any) -> str:
    return unescaped(op.attributes["name"].data)


def _past_of(value: Any) -> tuple[str, str]:
    """The node and part that the past of a value is, as of ``SimulationState``: of a source, or of a projection."""
    owner = value.owner
    if isinstance(owner, NeuronBase):
        return _name(owner), "past"
    if isinstance(owner, ScanOp) and isinstance(owner.x.owner, InputOp):  # else an operator that is batched over time
        return _name(owner.x.owner), "past"
    end = owner
    while not isinstance(end, NeuronBase | OutputOp):  # forwards, which a projection ends
        end = user_of(end.results[0])
    return _name(end), f"past of projection {projection_of(owner)}"


# -- delays --------------------------------------------------------------------------------------------------------
# Histories of values, the oldest first: reading values some time steps ago, and moving on by one time step.


def delayed(f: FunctionText, past: Tensor | None, now: Tensor | None, delays: Array) -> Tensor:
    """Values some time steps ago, one delay for all or one per element.

    ``past``: ``[batch, depth, *shape]``; ``now``: ``[batch, *shape]``, needed where a delay is 0.
    """
    delays = np.asarray(delays, np.int64)
    if not delays.any():
        assert now is not None, "a source is computed before its targets"
        return now
    assert past is not None, "a delayed source has a history"
    depth = past.shape[0]
    if bool((delays == delays.flat[0]).all()):
        return f.slice(past, past.lead, str(depth - int(delays.flat[0])), 1)
    return _each(f, past, now, delays)


def _each(f: FunctionText, past: Tensor, now: Tensor | None, delays: Array) -> Tensor:
    depth, shape = past.shape[0], past.shape[1:]
    axes = len(shape) + 1
    has_present = bool((delays == 0).any())
    rows = f.array(np.minimum(depth - delays, depth - 1), "i32")
    out = f.empty(past.element, past.lead, shape)
    names = [f.fresh() for _ in range(axes)]
    lines = [f"{name} = linalg.index {k} : index" for k, name in enumerate(names)]
    place, row, value, old = (f.fresh() for _ in range(4))
    lines.append(f"{row} = arith.index_cast {place} : i32 to index")
    where = ", ".join([names[0], row, *names[1:]])
    lines.append(f"{value} = tensor.extract {past.name}[{where}] : {past.type}")
    every = ", ".join(f"d{k}" for k in range(axes))
    inner = ", ".join(f"d{k}" for k in range(1, axes))
    maps, ins, arguments, result = [f"({every}) -> ({inner})"], [rows], [place], value
    if has_present:
        assert now is not None, "a source is computed before its targets"
        present, chosen, flag, is_now = (f.fresh() for _ in range(4))
        maps += [f"({every}) -> ({inner})", f"({every}) -> ({every})"]
        ins += [f.array(delays == 0, "i32"), now]
        arguments += [flag, present]
        lines.append(f"{is_now} = arith.cmpi ne, {flag}, {f.scalar(0, 'i32')} : i32")
        lines.append(f"{chosen} = arith.select {is_now}, {present}, {value} : {past.element}")
        result = chosen
    maps.append(f"({every}) -> ({every})")
    body = Body([*arguments, old], lines, [result])
    return f.generic(maps, ["parallel"] * axes, ins, [out], body)[0]


def moved_on(f: FunctionText, past: Tensor, now: Tensor) -> Tensor:
    """The history one time step later."""
    depth, batch, shape = past.shape[0], str(past.lead[0]), now.shape
    none = [0] * len(shape)
    kept = past
    if depth > 1:
        rest = replace(past, shape=(depth - 1, *shape))
        offsets, extents = ", ".join(map(str, [0, 1, *none])), ", ".join(map(str, [batch, depth - 1, *shape]))
        ones = ", ".join(["1"] * past.axes)
        text = f"tensor.extract_slice {past.name}[{offsets}] [{extents}] [{ones}] : {past.type} to {rest.type}"
        into = f.empty(past.element, past.lead, past.shape)  # not the history itself: IREE moves nothing in its place
        kept = f.inserted(replace(rest, name=f.op(text)), into, [0, 0, *none], [batch, depth - 1, *shape])
    return f.inserted(now, kept, [0, depth - 1, *none], [batch, 1, *shape])
