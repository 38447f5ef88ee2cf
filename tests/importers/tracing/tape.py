"""Handwritten traces, call by call, as ``trace_run.record`` writes those of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nirbridge._types import Shape
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue
from nirbridge.importers.tracing.time_loop import TimeLoop

ROW = (2, 4)
"""Two samples of four values: what all that is not told otherwise has as its shape."""


class Tape:
    """Appends nodes; what each method gives is the node's first output."""

    def __init__(self) -> None:
        self.recording = ForwardTrace()

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
    ) -> TracedValue:
        found = TracedCall(len(self.recording.nodes), kind, name, path, module, args, dict(kwargs or {}), shapes, func)
        self.recording.nodes.append(found)
        return TracedValue(found)

    def input(self, shape: Shape = ROW, name: str = "x") -> TracedValue:
        return self.node("input", name, (), shapes=(shape,))

    def neuron(self, path: str, *args: Any, **more: Any) -> TracedValue:
        """A neuron that returns spikes and one state."""
        return self.node("neuron", path, args, path=path, shapes=(ROW, ROW), **more)

    def call(
        self, name: str, *args: Any, path: str = "", shape: Shape = ROW, func: Any = None, **kwargs: Any
    ) -> TracedValue:
        return self.node("function", name, args, path=path, kwargs=kwargs, shapes=(shape,), func=func)

    def returns(self, **outputs: Any) -> None:
        """What this call of forward returns."""
        self.recording.outputs = list(outputs.items())
        self.recording.returned.append(self.recording.outputs)


def state(value: TracedValue) -> TracedValue:
    """The second output of a neuron's call."""
    return TracedValue(value.node, 1)


Body = Callable[[Tape, TracedValue, int, list[TracedValue]], Any]
"""(tape, input of the turn, its number, what the turns before gave) -> the turn's neuron call."""


def looped(body: Body, iterations: int = 3) -> tuple[Tape, TimeLoop]:
    """A forward that loops over the first axis of its input."""
    tape = Tape()
    tape.start()
    x = tape.input((iterations, *ROW))
    done: list[TracedValue] = []
    for k in range(iterations):
        done.append(body(tape, tape.call("select", x, 0, k), k, done))
    tape.returns(output=done[-1])
    return tape, TimeLoop(tape.recording)


def called(body: Body, iterations: int = 3) -> tuple[Tape, TimeLoop]:
    """A forward of one step that is called several times."""
    tape = Tape()
    done: list[TracedValue] = []
    for k in range(iterations):
        tape.start()
        done.append(body(tape, tape.input(), k, done))
        tape.returns(output=done[-1])
    return tape, TimeLoop(tape.recording, calls=iterations)
