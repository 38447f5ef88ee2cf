"""Ports and populations of an emitted program: names of the network, and the tensors that stand for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.readme import shape_text, table_name
from nirbridge.network.model import Network
from nirbridge.program.rules import states_of
from nirbridge.program.step import Key, StepProgram
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.recording import default_probes, output_dtypes

NETWORK, PROGRAM = "network.q.npz", "program.json"
"""Files of a program: the integers that it was made of, and the names."""
_PORTS = list[dict[str, Any]]
PROGRAM_FIELDS: Mapping[str, Any] = {"numbers": str, "inputs": _PORTS, "nodes": _PORTS, "outputs": _PORTS}
"""Types of the fields of ``program.json`` that every run needs."""


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """An input or output: its name in the network and in the program, and the type of its values in recordings.

    ``reads_out``: readouts alone lead to this output.
    """

    name: str
    shape: Shape
    id: str
    dtype: str
    reads_out: bool = False


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A population: the tensors of a time step that hold its variables."""

    name: str
    shape: Shape
    fires: bool
    max_spikes: int
    variables: Mapping[str, str]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class PlannedState:
    """A part of the state: its node and its part as of ``SimulationState``, and the key of its array in the program.

    ``id``: empty where no time step reads it. ``depth``: time steps of a past; 0 for the state of neurons. ``start``:
    the initial values of a sample, of shape ``()`` where they are equal.
    """

    name: str
    part: str
    id: str
    shape: Shape
    depth: int
    dtype: str
    start: Array


Variables = Mapping[str, Mapping[str, str]]
"""By population, the tensors that hold its variables."""


@dataclass(frozen=True, slots=True)
class ProgramNames:
    """Names of a program; ``facts``: plain JSON on the numbers that it computes in.

    ``states``: what a run can continue from; None of a program that does not take it.
    """

    inputs: tuple[PlannedPort, ...]
    nodes: tuple[PlannedNode, ...]
    outputs: tuple[PlannedPort, ...]
    facts: Mapping[str, Any]
    states: tuple[PlannedState, ...] | None = None

    def as_json(self) -> bytes:
        """``program.json``: ASCII, sorted; without ``states`` where a run cannot continue."""
        record = {key: [asdict(x) for x in getattr(self, key)] for key in ("inputs", "nodes", "outputs")}
        if self.states is not None:
            record["states"] = [{**asdict(s), "start": s.start.tolist()} for s in self.states]
        return (json.dumps({**self.facts, **record}, sort_keys=True, indent=1) + "\n").encode("ascii")

    def table(self) -> str:
        """Rows of a table in Markdown: tensor, kind, name and shape of every port."""
        rows = []
        for kind, ports in (("input", self.inputs), ("output", self.outputs)):
            for p in ports:
                shape = shape_text(("time", "batch", *p.shape))
                rows.append(f"| `{p.id}` | {kind} | {table_name(p.name)} | {shape} |")
        return "\n".join(rows)


def identifiers(network: Network | QuantizedNetwork) -> dict[str, str]:
    """``in0``, ``in1`` … and ``p0``, ``p1`` … by the names of inputs and populations."""
    ids = {p.name: f"in{k}" for k, p in enumerate(network.inputs)}
    return ids | {p.name: f"p{k}" for k, p in enumerate(network.populations)}


def real_names(network: Network, variables: Variables, dtype: str, program: StepProgram | None = None) -> ProgramNames:
    """The names of a program in real numbers of ``dtype``; outputs have the types that the reference records.

    ``program``: its time step, where runs continue; the network is in causal order then. See ``planned_states``.
    """
    ids, types = identifiers(network), output_dtypes(network, frozenset(), dtype)
    inputs = tuple(PlannedPort(p.name, p.shape, ids[p.name], dtype) for p in network.inputs)
    silent = {p.node for p in default_probes(network) if p.variables == ("v",)}
    outputs = tuple(
        PlannedPort(p.name, p.shape, f"out{k}", types[p.name], p.name in silent) for k, p in enumerate(network.outputs)
    )
    nodes = tuple(
        PlannedNode(p.name, p.shape, p.neuron.fires, p.neuron.max_spikes, variables[p.name], dtype)
        for p in network.populations
    )
    states = None if program is None else planned_states(network, program, dtype)
    return ProgramNames(inputs, nodes, outputs, {"numbers": dtype, "dt": network.dt, "chip": None}, states)


def integer_names(
    quantized: QuantizedNetwork, variables: Variables, program: StepProgram | None = None
) -> ProgramNames:
    """The names of a program in a chip's integers; its outputs are float64. ``program``: as of ``real_names``."""
    q, ids = quantized, identifiers(quantized)
    inputs = tuple(PlannedPort(p.name, p.shape, ids[p.name], "int64") for p in q.inputs)
    outputs = tuple(PlannedPort(p.name, p.shape, f"out{k}", "float64") for k, p in enumerate(q.outputs))
    nodes = tuple(
        PlannedNode(p.name, p.shape, p.neuron.fires, p.neuron.max_spikes, variables[p.name], "int64")
        for p in q.populations
    )
    states = None if program is None else planned_states(q, program, "float64")
    return ProgramNames(inputs, nodes, outputs, {"numbers": "integers", "dt": q.dt, "chip": q.chip}, states)


PAST, END = ".past", "_end"
"""What the key of a past ends with, and that of an output which is a state after the last time step."""


def state_id(ids: Mapping[str, str], key: Key) -> str:
    """``p0.v``, ``in0.past``; ``c3.past`` of the delayed currents of projection 3."""
    name, what = key
    return f"{what}.past" if what[1:].isdigit() else f"{ids[name]}.{what}"


def planned_states(model: Network | QuantizedNetwork, program: StepProgram, dtype: str) -> tuple[PlannedState, ...]:
    """Every part of the state that the simulators have of a model; reals are of ``dtype``.

    ``model`` is in causal order, and ``program`` its time step.
    """
    ids, found = identifiers(model), []
    carried = program.carried
    kinds = {"int": "int64", "real": dtype}
    for p in model.populations:
        for part, start in states_of(p.neuron).items():
            kind = "int64" if part == "refractory" else kinds[program.kind]
            key = state_id(ids, (p.name, part)) if (p.name, part) in carried else ""
            found.append(PlannedState(p.name, part, key, p.shape, 0, kind, np.asarray(start, kind)))
    for key, h in program.histories.items():
        name, what = key
        part = what if what == "past" else f"past of projection {what[1:]}"
        kind = kinds[program.kind]
        found.append(PlannedState(name, part, state_id(ids, key), h.shape, h.depth, kind, np.zeros((), kind)))
    return tuple(found)
