"""Recordings written by hand, written as flows: neurons of one framework, and what their flow says."""

from __future__ import annotations

from typing import Any

from nirbridge.importers.dataflow import Flow
from nirbridge.importers.neuron_specs import Form
from nirbridge.importers.tracing.graph_builder import Writer
from nirbridge.importers.tracing.recorder import Value
from tests.importers.tracing.tape import ROW, Tape

Roles = tuple[str, ...]
STEP: Roles = ("batch", "value")
SEQUENCE: Roles = ("time", "batch", "value")


class Neuron:
    """A framework's class, of which the tests make neurons of one step and of whole sequences."""

    def __init__(self, layout: Any = None) -> None:
        self.layout = layout

    def children(self) -> list[Any]:
        return []


class Block:
    """A module of the user's own."""

    def children(self) -> list[Any]:
        return [Neuron()]


FORMS: Any = {Neuron: Form(lambda *_: None, layout=lambda module: module.layout)}  # type: ignore[arg-type, return-value]
IN_FRONT = "move them in front of the values, for example with permute or movedim"


def flow(tape: Tape, roles: Roles = STEP, calls: int = 1, **more: Roles) -> Flow:
    return Writer(tape.recording, FORMS, {"x": roles, **more}, calls).flow()


def lif(tape: Tape, x: Any, path: str = "lif", *states: Any, layout: Any = None, shape: Any = ROW) -> Value:
    return tape.node("neuron", path, (x, *states), path=path, module=Neuron(layout), shapes=(shape, shape))


def begun() -> tuple[Tape, Value]:
    tape = Tape()
    tape.start()
    return tape, tape.input()


def names(found: Flow) -> list[str]:
    return [c.name for c in found.calls]


def texts(found: Flow) -> list[str]:
    return [str(p) for p in found.problems]
