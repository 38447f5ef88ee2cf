"""A mapped network in linalg: a function for each core, and the run that moves spikes along the routes of the map.

``@core_k`` takes the values on the input axons of core k in the last time steps, oldest first, and the state of its
neurons; it returns what its neurons send, in the order of its slots, and their next state. It holds the synapses and
coefficients of that core alone. ``@run`` calls every core in each time step, then puts what they and the inputs sent
onto the axons that their routes lead to. Outputs are read as the host reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.dialect.base import element
from nirbridge.dialect.build import quantized_module
from nirbridge.dialect.lowering.body import BodyLowering, LoweredState, moved_on
from nirbridge.dialect.lowering.function import Extent, FunctionText, Tensor
from nirbridge.dialect.lowering.linear import joined, sparse, taken
from nirbridge.dialect.lowering.pointwise import Node, Pointwise, kept_states, lowered_step
from nirbridge.dialect.lowering.program import LoweredProgram, Lowering
from nirbridge.dialect.neurons import NeuronBase
from nirbridge.dialect.read import attribute_values
from nirbridge.dialect.structure import OutputOp, ResultOp
from nirbridge.dialect.values import Resources, unescaped
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.operators import Sparse
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.mapped.simulate import map_record
from nirbridge.simulators.mapped.tables import CoreSlice, LoadedBoard, LoadedCore, SynapseMemory, load_board


def cores_program(
    quantized: QuantizedNetwork,
    mapping: MappedNetwork,
    records: Sequence[tuple[str, str]] = (),
    *,
    batch: int | None = None,
    steps: int | None = None,
) -> LoweredProgram:
    """The program of a network on the cores of its map.

    Args:
        quantized: the network in integers.
        mapping: its map.
        records: see ``quantized_module``.
        batch: see ``lowered``.
        steps: see ``lowered``.

    Raises:
        IllegalMapping: the map is not of this network, or its routes do not carry every spike.
        UsageError: no variable of that name.
    """
    board = load_board(quantized, map_record(mapping))
    return _CoresLowering(quantized_module(quantized, records), batch, steps, board).program()


class _CoresLowering(Lowering):
    """The lowering of a module whose neurons are computed by their cores."""

    def __init__(self, module: Any, batch: int | None, steps: int | None, board: LoadedBoard) -> None:
        super().__init__(module, batch, steps)
        self.board = board

    def body(self) -> BodyLowering:
        """The body of the loop, and the functions that it calls."""
        neurons = [op for op in self.ops if isinstance(op, NeuronBase)]
        ops = [*neurons, *_read_by_host(self.ops)]
        body = _CoresBody(self.f, ops, self.module.resources, self.time, self.batch)
        coefficients = {_name(op): attribute_values(op, self.module.resources) for op in neurons}
        body.cores = [
            _Core(k, core, coefficients, str(element(neurons[0].results[0])), self.batch, self.resources)
            for k, core in enumerate(self.board.cores)
        ]
        body.board, body.inputs = self.board, {_name(op): op for op in self.inputs}
        self.functions = [core.text for core in body.cores]
        return body


def _read_by_host(ops: Sequence[Any]) -> list[Any]:
    """The operations between neurons or inputs and the results, in their order."""
    needed: set[Any] = set()
    stack: list[Any] = [op for op in ops if isinstance(op, OutputOp | ResultOp)]
    while stack:
        op = stack.pop()
        if op not in needed and not isinstance(op, NeuronBase):
            needed.add(op)
            stack += [value.owner for value in op.operands]
    return [op for op in ops if op in needed]


def _name(op: Any) -> str:
    return unescaped(op.attributes["name"].data)


@dataclass(slots=True)
class _SliceState:
    """A state of a slice on a core: its type and its first values ``[neurons]``."""

    piece: CoreSlice
    variable: str
    argument: Tensor
    initial: Array


class _Core:
    """The function of one core.

    ``states``: in the order of its arguments; ``depth``: time steps of its axons that it takes; ``axons``: how many.
    """

    def __init__(
        self,
        number: int,
        core: LoadedCore,
        coefficients: Mapping[str, Mapping[str, Any]],
        kind: str,
        batch: Extent,
        resources: Resources,
    ) -> None:
        self.number, self.core, self.kind, self.batch = number, core, kind, batch
        self.name = f"core_{number}"
        self.values = [_sliced(coefficients[piece.population], piece) for piece in core.pieces]
        self.states = list(self._states())
        self.axons = sum(len(neurons) for _, neurons in core.axons)
        self.depth = max((int(m.delay.max(initial=1)) for m in core.memories), default=1)
        self.past = Tensor("%axons", kind, (batch,), (self.depth, self.axons))
        self.f = FunctionText(resources)
        self.text = self._text()

    def _states(self) -> Iterator[_SliceState]:
        count = 0
        for piece, values in zip(self.core.pieces, self.values, strict=True):
            for name, (kind, first) in kept_states(values, self.kind).items():
                size = len(piece.neurons)
                argument = Tensor(f"%state{count}", kind, (self.batch,), (size,))
                yield _SliceState(piece, name, argument, np.broadcast_to(first, (size,)))
                count += 1

    @property
    def arguments(self) -> list[Tensor]:
        """Axons, where the core has any, and states."""
        return [*([self.past] if self.axons else []), *(s.argument for s in self.states)]

    @property
    def results(self) -> list[Tensor]:
        """What the slots send, and the next states."""
        sent = Tensor("", self.kind, (self.batch,), (self.core.slots,))
        return [sent, *(s.argument for s in self.states)]

    def signature(self) -> tuple[str, str]:
        """Types of arguments and results; the batch comes first where it is not known."""
        index = ["index"] if self.batch.size is None else []
        return ", ".join([*index, *(t.type for t in self.arguments)]), ", ".join(t.type for t in self.results)

    def _text(self) -> str:
        sent, following = [], []
        for piece, values in zip(self.core.pieces, self.values, strict=True):
            states = {s.variable: s.argument for s in self.states if s.piece is piece}
            p = Pointwise(self.f, (self.batch,), (len(piece.neurons),))
            drive = self._drive(p, piece)
            nodes = lowered_step(p, values, self.kind, drive, {name: p.of(t) for name, t in states.items()})
            names = ["s", *states]
            tensors = BodyLowering.distinct(p, [nodes[name] for name in names], {})
            sent.append(tensors[0])
            following += tensors[1:]
        ends = [joined(self.f, sent), *following]
        self.f.line(f"return {', '.join(t.name for t in ends)} : {self.signature()[1]}")
        index = ["%batch: index"] if self.batch.size is None else []
        taken = ", ".join([*index, *(f"{t.name}: {t.type}" for t in self.arguments)])
        head = f"  func.func private @{self.name}({taken}) -> ({self.signature()[1]}) {{"
        return "\n".join([head, *self.f.head, *self.f.lines, "  }"])

    def _drive(self, p: Pointwise, piece: CoreSlice) -> Node | None:
        """The weights that arrive in this time step, of all projections into the slice."""
        total: Node | None = None
        for memory in self.core.memories:
            if len(memory.slot) and piece.start <= memory.slot[0] < piece.stop:
                node = self._arrived(p, memory, piece)
                total = node if total is None else p.op("arith.addi", total, node)
        return total

    def _arrived(self, p: Pointwise, memory: SynapseMemory, piece: CoreSlice) -> Node:
        """The sum of one projection's weights over its delays, shifted."""
        axon = np.repeat(np.arange(self.axons), np.diff(memory.first))
        total: Node | None = None
        for delay in np.unique(memory.delay).tolist():
            here = memory.delay == delay
            part = _matrix(memory.slot[here] - piece.start, axon[here], memory.weight[here], (self.axons,), p.shape)
            row = self.f.slice(self.past, (self.batch,), str(self.depth - delay), 1)
            node = p.of(sparse(self.f, part, row))
            total = node if total is None else p.op("arith.addi", total, node)
        assert total is not None, "a memory with synapses has delays"
        word = "arith.shli" if memory.weight_exp >= 0 else "arith.shrsi"
        exponent = abs(memory.weight_exp)
        return p.op(word, total, p.number(exponent, self.kind)) if exponent else total


def _sliced(values: Mapping[str, Any], piece: CoreSlice) -> dict[str, Any]:
    """The coefficients of the neurons of a slice; single ones stay."""

    def own(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: own(getattr(value, f.name)) for f in fields(value)})
        return value.reshape(-1)[piece.neurons] if isinstance(value, np.ndarray) and value.ndim else value

    return {name: own(value) for name, value in values.items()}


def _matrix(rows: Array, columns: Array, weights: Array, taken: tuple[int, ...], given: tuple[int, ...]) -> Sparse:
    """Synapses as a sparse operator; rows are targets."""
    order = np.lexsort((columns, rows))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=given[0]))))
    return Sparse(freeze(indptr), freeze(columns[order]), freeze(weights[order]), taken, given)


class _CoresBody(BodyLowering):
    """The loop over time: calls of cores, then their spikes along routes, then what the host reads."""

    cores: list[_Core]
    board: LoadedBoard
    inputs: Mapping[str, Any]

    def states(self) -> list[LoweredState]:
        """Those of the cores, their axons, and histories of what the host reads late."""
        count = 0
        self.past: dict[int, LoweredState] = {}
        for core in self.cores:
            kept: dict[str, LoweredState] = {}
            for s in core.states:
                variable = f"{s.variable} of {core.name}"
                argument = replace(s.argument, name=f"%state{count}")
                kept[f"{s.piece.start} {s.variable}"] = LoweredState(s.piece.population, variable, s.initial, argument)
                count += 1
            if core.axons:
                zeros, argument = np.zeros(core.past.shape), replace(core.past, name=f"%state{count}")
                self.past[core.number] = kept["past"] = LoweredState(core.name, "past", zeros, argument)
                count += 1
            self.neurons[core.number] = kept
        return [*(s for kept in self.neurons.values() for s in kept.values()), *self.late(count)]

    def step(self) -> None:
        """One time step."""
        sent = {core.number: self._call(core) for core in self.cores}
        for core in self.cores:
            state = self.past.get(core.number)
            if state is not None:
                assert state.inside is not None
                state.following = moved_on(self.f, state.inside, self._arriving(core, sent))
        self.sent = sent
        super().step()

    def _call(self, core: _Core) -> Tensor:
        """What the core sends; its states move on."""
        kept = [s for key, s in self.neurons[core.number].items() if key != "past"]
        past = [self.past[core.number]] if core.axons else []
        values = [s.inside.name for s in (*past, *kept) if s.inside is not None]
        given = ", ".join([*([self.batch.name] if self.batch.size is None else []), *values])
        taken, types = core.signature()
        name, count = self.f.fresh(), 1 + len(kept)
        self.f.line(
            f"{name}{f':{count}' if count > 1 else ''} = func.call @{core.name}({given}) : ({taken}) -> ({types})"
        )
        results = [f"{name}#{k}" for k in range(count)] if count > 1 else [name]
        for state, result in zip(kept, results[1:], strict=True):
            state.following = replace(state.argument, name=result)
        return replace(core.results[0], name=results[0])

    def _arriving(self, core: _Core, sent: Mapping[int, Tensor]) -> Tensor:
        """The values on the input axons of a core, from the routes to it."""
        parts, places, first = [], np.zeros(core.axons, np.int64), 0
        for route in self.board.routes:
            if route.target != core.number or not len(route.slots):
                continue
            if route.source is None:
                op = self.inputs[str(route.source_input)]
                whole = self.f.flat(self._time_step_of(self._value(op.y)))
            else:
                whole = sent[route.source]
            slots, back = np.unique(route.slots, return_inverse=True)
            places[route.axons] = first + back
            parts.append(taken(self.f, whole, slots))
            first += len(slots)
        return taken(self.f, joined(self.f, parts), places)

    def neuron(self, op: Any) -> None:
        """What the host reads of a population, from its cores."""
        if not any(use.operation in self.ops for use in op.given["s"].uses):
            return
        parts, order = [], []
        for core in self.cores:
            for piece in core.core.pieces:
                if piece.population == _name(op):
                    parts.append(taken(self.f, self.sent[core.number], np.arange(piece.start, piece.stop)))
                    order.append(piece.neurons)
        whole = taken(self.f, joined(self.f, parts), np.argsort(np.concatenate(order)))
        self.values[op.given["s"]] = self.f.unflat(whole, op.shape)
