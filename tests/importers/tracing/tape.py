"""Recordings written by hand, call by call, as ``trace_run.record`` writes those of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nirbridge._types import Shape
from nirbridge.importers.tracing.recorder import Node, Recording, Value
from nirbridge.importers.tracing.time_loop import Turns

ROW = (2, 4)
"""Two samples of four values: what all that is not told otherwise has as its shape."""


class Tape:
    """Appends nodes; what each method gives is the node's first output."""

    def __init__(self) -> None:
        self.recording = Recording()

    def start(self) -> None:
        """The next call of forward."""
        self.recording.starts.append(len(self.recording.nodes))

    def node(
        self,
        kind: str,
        name: str,
        args: tuple[Any, ...],
        *,
        path: str = "",
        kwargs: Mapping[str, Any] | None = None,
        shapes: tuple[Shape, ...] = (ROW,),
        func: Any = None,
        module: Any = None,
    ) -> Value:
        found = Node(len(self.recording.nodes), kind, name, path, module, args, dict(kwargs or {}), shapes, func)
        self.recording.nodes.append(found)
        return Value(found)

    def input(self, shape: Shape = ROW, name: str = "x") -> Value:
        return self.node("input", name, (), shapes=(shape,))

    def neuron(self, path: str, *args: Any, **more: Any) -> Value:
        """A neuron that returns spikes and one state."""
        return self.node("neuron", path, args, path=path, shapes=(ROW, ROW), **more)

    def call(self, name: str, *args: Any, path: str = "", shape: Shape = ROW, func: Any = None, **kwargs: Any) -> Value:
        return self.node("function", name, args, path=path, kwargs=kwargs, shapes=(shape,), func=func)

    def returns(self, **outputs: Any) -> None:
        """What this call of forward returns."""
        self.recording.outputs = list(outputs.items())
        self.recording.returned.append(self.recording.outputs)


def state(value: Value) -> Value:
    """The second output of a neuron's call."""
    return Value(value.node, 1)


Body = Callable[[Tape, Value, int, list[Value]], Any]
"""(tape, input of the turn, its number, what the turns before gave) -> the turn's neuron call."""


def looped(body: Body, turns: int = 3) -> tuple[Tape, Turns]:
    """A forward that loops over the first axis of its input."""
    tape = Tape()
    tape.start()
    x = tape.input((turns, *ROW))
    done: list[Value] = []
    for k in range(turns):
        done.append(body(tape, tape.call("select", x, 0, k), k, done))
    tape.returns(output=done[-1])
    return tape, Turns(tape.recording)


def called(body: Body, turns: int = 3) -> tuple[Tape, Turns]:
    """A forward of one step that is called several times."""
    tape = Tape()
    done: list[Value] = []
    for k in range(turns):
        tape.start()
        done.append(body(tape, tape.input(), k, done))
        tape.returns(output=done[-1])
    return tape, Turns(tape.recording, calls=turns)
