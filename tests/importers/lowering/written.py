"""Handwritten traces and their dataflow graphs, with the neurons of one framework."""

from __future__ import annotations

from typing import Any

from nirbridge.importers.neuron_specs import DataflowGraph, NeuronSpec
from nirbridge.importers.tracing.graph_builder import GraphBuilder
from nirbridge.importers.tracing.recorder import TracedValue
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


FORMS: Any = {Neuron: NeuronSpec(lambda *_: None, layout=lambda module: module.layout)}  # type: ignore[arg-type, return-value]
IN_FRONT = "move them in front of the values, for example with permute or movedim"


def flow(tape: Tape, roles: Roles = STEP, calls: int = 1, **more: Roles) -> DataflowGraph:
    return GraphBuilder(tape.recording, FORMS, {"x": roles, **more}, calls).flow()


def lif(tape: Tape, x: Any, path: str = "lif", *states: Any, layout: Any = None, shape: Any = ROW) -> TracedValue:
    return tape.node("neuron", path, (x, *states), path=path, module=Neuron(layout), shapes=(shape, shape))


def begun() -> tuple[Tape, TracedValue]:
    tape = Tape()
    tape.start()
    return tape, tape.input()


def names(found: DataflowGraph) -> list[str]:
    return [c.name for c in found.calls]


def texts(found: DataflowGraph) -> list[str]:
    return [str(p) for p in found.problems]
