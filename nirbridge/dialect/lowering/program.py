"""A module of the dialect as one function over time in linalg, scf, arith and tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.dialect.base import element, shape
from nirbridge.dialect.lowering.body import BodyLowering, LoweredState
from nirbridge.dialect.lowering.function import Extent, FunctionText, Tensor
from nirbridge.dialect.lowering.pointwise import Pointwise
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.structure import InputOp, ResultOp
from nirbridge.dialect.values import Resources, unescaped

RUN, INITIAL = "run", "initial"
"""The functions of a lowered module."""


@dataclass(frozen=True, slots=True)
class LoweredTensor:
    """An argument or result of ``run``: its node and variable, its type, its shape but for time and batch.

    ``initial`` is the start of a state, of that shape; None of inputs and outputs.
    """

    node: str
    variable: str
    shape: Shape
    dtype: str
    initial: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LoweredProgram:
    """A module whose function ``run`` takes inputs ``[time, batch, *shape]`` and states ``[batch, *shape]``.

    It returns the outputs over time, then the states after the last time step, in the order of its arguments.
    ``initial`` takes the batch (an index) and returns the states before the first time step. A network without an
    input takes one input ``[time, batch]`` of which only the extents count; its node is empty.
    """

    text: str
    inputs: tuple[LoweredTensor, ...]
    states: tuple[LoweredTensor, ...]
    outputs: tuple[LoweredTensor, ...]


def lowered(module: DialectModule, *, batch: int | None = None, steps: int | None = None) -> LoweredProgram:
    """The program of a module.

    Args:
        module: a module, before or after its passes.
        batch: number of samples; None: any, at run time.
        steps: number of time steps; None: any.
    """
    return Lowering(module, batch, steps).program()


class Lowering:
    """The function over time of a module; ``functions``: texts of others that it calls."""

    def __init__(self, module: DialectModule, batch: int | None, steps: int | None) -> None:
        self.module = module
        self.resources = Resources()
        self.f = FunctionText(self.resources)
        self.ops = module.ops
        self.inputs = [op for op in self.ops if isinstance(op, InputOp)]
        self.results = [op for op in self.ops if isinstance(op, ResultOp)]
        self.time, self.batch = Extent(steps, "%time"), Extent(batch, "%batch")
        self.functions: list[str] = []

    def body(self) -> BodyLowering:
        """The body of the loop over time."""
        return BodyLowering(self.f, self.ops, self.module.resources, self.time, self.batch)

    def program(self) -> LoweredProgram:
        """The module with its functions."""
        f, body = self.f, self.body()
        numbers = str(self.module.network.attributes["numbers"].data)  # type: ignore[attr-defined]
        clock = "i32" if numbers.startswith("int") else {"float32": "f32", "float64": "f64"}[numbers]
        lead = (self.time, self.batch)
        given = [Tensor(f"%in{k}", str(element(op.y)), lead, shape(op.y)) for k, op in enumerate(self.inputs)]
        arguments = given or [Tensor("%in0", clock, lead, ())]
        for op, tensor in zip(self.inputs, given, strict=True):
            body.values[op.y] = tensor
        states = body.states()
        taken = [*arguments, *(state.argument for state in states)]
        for axis, extent in enumerate(lead):
            if extent.size is None:
                f.line(f"{extent.name} = tensor.dim {arguments[0].name}, {f.index(axis)} : {arguments[0].type}")
        body.before()
        outs = self._outs(lead)
        final = body.loop(outs, [op.x for op in self.results])
        types = ", ".join(t.type for t in final)
        f.line(f"return {', '.join(t.name for t in final)} : {types}")
        head = f"  func.func @{RUN}({', '.join(f'{t.name}: {t.type}' for t in taken)}) -> ({types}) {{"
        run = "\n".join([head, *f.head, *f.lines, "  }"])
        functions = "\n".join([*self.functions, run, self._initial(states)])
        text = f"module {{\n{functions}\n}}\n{self.resources.text()}"
        return self._described(text, states, _dtype(clock))

    def _outs(self, lead: tuple[Extent, ...]) -> list[Tensor]:
        """Arrays for the outputs over time, those of one type with different numbers.

        A compiler that writes in place may take equal ones for one array (IREE 3.13, see ``iree_text``).
        """
        outs: list[Tensor] = []
        for op in self.results:
            kind, rest = str(element(op.x)), shape(op.x)
            before = sum(t.element == kind and t.shape == rest for t in outs)
            outs.append(self.f.filled(kind, lead, rest, before) if before else self.f.empty(kind, lead, rest))
        return outs

    def _described(self, text: str, states: Sequence[LoweredState], clock: str) -> LoweredProgram:
        listed = [LoweredTensor(_name(op), "s", shape(op.y), _dtype(element(op.y))) for op in self.inputs]
        inputs = listed or [LoweredTensor("", "s", (), clock)]
        kept = [
            LoweredTensor(s.of, s.variable, s.argument.shape, _dtype(s.argument.element), s.initial) for s in states
        ]
        outputs = [LoweredTensor(_name(op), _variable(op), shape(op.x), _dtype(element(op.x))) for op in self.results]
        return LoweredProgram(text, tuple(inputs), tuple(kept), tuple(outputs))

    def _initial(self, states: Sequence[Any]) -> str:
        """The function that makes the states before the first time step."""
        f = FunctionText(self.resources)
        made = [_broadcast(f, state, self.batch) for state in states]
        types = ", ".join(t.type for t in made)
        f.line(f"return {', '.join(t.name for t in made)} : {types}" if made else "return")
        head = f"  func.func @{INITIAL}(%batch: index) -> ({types}) {{"
        return "\n".join([head, *f.head, *f.lines, "  }"])


def _broadcast(f: FunctionText, state: Any, batch: Extent) -> Tensor:
    kind = state.argument
    p = Pointwise(f, (batch,), kind.shape)
    (tensor,) = p.finish([p.number(state.initial, kind.element)])
    return tensor


def _name(op: Any) -> str:
    return unescaped(op.attributes["name"].data)


def _variable(op: Any) -> str:
    return op.attributes["variable"].data


def _dtype(kind: Any) -> str:
    return {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}[str(kind)]


def state_arrays(program: LoweredProgram, batch: int) -> list[Array]:
    """The states of ``batch`` samples before the first time step."""
    found = []
    for state in program.states:
        initial = np.asarray(state.initial, state.dtype)
        found.append(np.ascontiguousarray(np.broadcast_to(initial, (batch, *state.shape))))
    return found


# -- IREE ----------------------------------------------------------------------------------------------------------
# A lowered module as IREE 3.13 runs it fastest.

_HEAD = "module {"
_LINK = "(@__device_0 -> @__device_0 = {unified_memory = true})"


def iree_text(program: LoweredProgram) -> str:
    """The module with the statement that its one device shares its memory with itself.

    Without it IREE takes each value that the loop over time carries for one of another device, and copies it in
    every time step, the outputs of all time steps among them: the time of a run grows with the square of the time
    steps. Modules with delays stay as they are, since their histories would move within one buffer.
    """
    if any(state.variable.startswith("past") for state in program.states) or not program.text.startswith(_HEAD):
        return program.text
    head = f"module attributes {{stream.topology = #hal.device.topology<links = [{_LINK}]>}} {{"
    return head + program.text[len(_HEAD) :]
