"""Frameworks as targets: a network as a trainable module of PyTorch, alone or with a framework's neurons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.modules.frameworks.norse import NORSE as _NORSE
from nirbridge.emitters.modules.frameworks.snntorch import SNNTORCH as _SNNTORCH
from nirbridge.emitters.modules.frameworks.spikingjelly import SPIKINGJELLY as _SPIKINGJELLY
from nirbridge.emitters.modules.frameworks.torch import TORCH as _TORCH
from nirbridge.emitters.modules.plan import Framework, ModulePlan
from nirbridge.emitters.modules.planning import module_plan
from nirbridge.emitters.modules.render import model_text, template
from nirbridge.emitters.program import json_text
from nirbridge.emitters.readme import shape_text, table_name
from nirbridge.errors import instance_of
from nirbridge.mapping.model import Model
from nirbridge.network.model import Network
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording import default_probes, output_dtypes
from nirbridge.simulators.types import Probe, Recording

NUMBERS = "float32"
_CLASS = re.compile(r"(?:\b\w+\.)?\b[A-Z]\w+(?=\()")
"""The class in the text that makes a neuron, around which functions may stand."""


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """Options for emitting a module: none so far."""


def emit(network: Network, framework: Framework) -> Artifact:
    """The program of a network as a module of a framework; always the same bytes.

    Raises:
        ModelError: no input or output, and everything that the framework's classes do not compute.
    """
    plan = module_plan(network, framework)
    files = {
        "model.py": model_text(plan).encode("ascii"),
        "weights.npz": npz_bytes(plan.tensors),
        "program.json": json_text(_program(plan)).encode("ascii"),
        "run.py": template("run.py").encode("ascii"),
        "README.md": _readme(plan).encode("utf-8"),
    }
    return make_artifact(files, {"kind": framework.name, "schema": 1, "numbers": NUMBERS})


def _program(plan: ModulePlan) -> dict[str, Any]:
    """Names of the network, and the attributes of the module that stand for them."""
    network = plan.network
    types = output_dtypes(network, frozenset(), NUMBERS)
    silent = {p.node for p in default_probes(network) if p.variables == ("v",)}
    ids = {n.population.name: n.id for n in plan.neurons}
    return {
        "framework": plan.framework.name,
        "dt": network.dt,
        "inputs": [{"name": p.name, "shape": p.shape, "id": plan.ids[p.name]} for p in network.inputs],
        "outputs": [
            {"name": p.name, "shape": p.shape, "dtype": types[p.name], "reads_out": p.name in silent}
            for p in network.outputs
        ],
        "nodes": [
            {
                "name": p.name,
                "shape": p.shape,
                "id": ids[p.name],
                "fires": p.neuron.fires,
                "max_spikes": p.neuron.max_spikes,
                "variables": {key: list(place) for key, place in plan.framework.records.items()},
            }
            for p in network.populations
        ],
        "work": sum(p.size for p in network.populations) + sum(a.size for a in plan.tensors.values()),
    }


def _readme(plan: ModulePlan) -> str:
    rows = []
    for kind, ports in (("input", plan.network.inputs), ("output", plan.network.outputs)):
        for p in ports:
            name = f"`{plan.ids[p.name]}`" if kind == "input" else ""
            rows.append(f"| {kind} | {table_name(p.name)} | {name} | {shape_text(('time', 'batch', *p.shape))} |")
    for n in plan.neurons:
        notes = "; ".join(n.held.notes)
        text = _CLASS.findall(n.held.call.text)[0]
        rows.append(f"| population | {table_name(n.population.name)} | `{n.id}` ({text}) | {notes} |")
    facts = {
        "@FRAMEWORK@": plan.framework.name,
        "@PACKAGE@": plan.framework.package,
        "@SURROGATE@": plan.framework.surrogate,
        "@SHAPES@": " ".join(f"--sample-shape 8,2,{_listed(p.shape)}" for p in plan.network.inputs),
        "@ROWS@": "\n".join(rows),
    }
    text = template("README.md")
    for mark, value in facts.items():
        text = text.replace(mark, value)
    return text


def _listed(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))


@dataclass(frozen=True, slots=True)
class ModuleEmitter:
    """Trainable modules of one framework."""

    framework: Framework
    takes = (Network,)
    options = ModuleOptions

    @property
    def records(self) -> tuple[str, ...]:
        """The variables of a population that a run records."""
        return tuple(self.framework.records)

    def emit(self, model: Model, options: ModuleOptions | None = None) -> Artifact:
        """See ``emit``."""
        subject = f"of emitter '{self.framework.name}'"
        network = instance_of(model, Network, f"model {subject}", "emit the network itself")
        if options is not None:
            instance_of(options, ModuleOptions, f"options {subject}")
        return emit(network, self.framework)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``run_program``."""
        from nirbridge.emitters.modules.runtime import run_program

        program = instance_of(artifact, Artifact, f"program of emitter '{self.framework.name}'")
        return run_program(program, self.framework, inputs, steps=steps, record=record, progress=progress)


TORCH = ModuleEmitter(_TORCH)
SNNTORCH = ModuleEmitter(_SNNTORCH)
NORSE = ModuleEmitter(_NORSE)
SPIKINGJELLY = ModuleEmitter(_SPIKINGJELLY)
