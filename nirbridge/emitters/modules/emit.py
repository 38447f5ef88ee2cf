"""Frameworks as targets: a network as a trainable module of PyTorch, alone or with a framework's neurons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.modules.frameworks.norse import NORSE as _NORSE
from nirbridge.emitters.modules.frameworks.snntorch import SNNTORCH as _SNNTORCH
from nirbridge.emitters.modules.frameworks.spikingjelly import SPIKINGJELLY as _SPIKINGJELLY
from nirbridge.emitters.modules.frameworks.torch import TORCH as _TORCH
from nirbridge.emitters.modules.frameworks.torch import torch_with
from nirbridge.emitters.modules.plan import Framework, ModulePlan
from nirbridge.emitters.modules.planning import module_plan
from nirbridge.emitters.modules.render import model_text, template
from nirbridge.emitters.program import json_text
from nirbridge.emitters.readme import shape_text, table_name
from nirbridge.emitters.surrogates import DEFAULT, SlopeField, SurrogateField
from nirbridge.emitters.target import Target, later
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL, USUAL
from nirbridge.simulators.recording import default_probes, output_dtypes

NUMBERS = "float32"
_CLASS = re.compile(r"(?:\b\w+\.)?\b[A-Z]\w+(?=\()")
"""The class in the text that makes a neuron, around which functions may stand."""


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options for emitting a module of PyTorch alone."""

    surrogate: SurrogateField = DEFAULT
    slope: SlopeField = None


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
        text = _CLASS.findall(n.members[-1].call.text)[0]
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


def _target(framework: Framework) -> Target:
    start = later("nirbridge.emitters.modules.runtime:run_program")
    return Target(
        name=framework.name,
        summary=f"a trainable module of {framework.package}",
        takes=(Network,),
        hint="emit the network itself",
        make=lambda network, options: emit(network, framework),
        start=partial(start, framework=framework),
        records=tuple(framework.records),
        carries=ALL if framework.carries is None else USUAL,
    )


SNNTORCH, NORSE, SPIKINGJELLY = map(_target, (_SNNTORCH, _NORSE, _SPIKINGJELLY))
TORCH = replace(
    _target(_TORCH),
    options=TorchOptions,
    make=lambda network, options: emit(network, torch_with(options.surrogate, options.slope)),
)
