"""TorchInductor as a target: the torch module over time steps, compiled ahead of time to C++ by AOTInductor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.modules.emit import emit as emit_module
from nirbridge.emitters.modules.frameworks.torch import TORCH
from nirbridge.emitters.modules.plan import ModulePlan
from nirbridge.emitters.modules.planning import module_plan
from nirbridge.emitters.modules.render import output_of, starts, step_lines
from nirbridge.emitters.own_time import compile_time
from nirbridge.emitters.ports import PROGRAM, ProgramNames, identifiers, real_names
from nirbridge.emitters.program import filled as with_lines
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import ScriptTool
from nirbridge.emitters.target import Target
from nirbridge.errors import ToolMissing, UsageError
from nirbridge.files.regular import template_text
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Recording

TEMPLATES = Path(__file__).with_name("templates")
PACKAGE = "step.pt2"
COMPILE_S = 1800.0
"""Longest time of one compilation; the networks of the tests take 10 to 60 s."""
UNROLL_MAX = 1000
INDUCTOR_TOOL = ScriptTool("inductor", ("torch",), "torch", "TorchInductor")
NOT_WANTED = "There is no `step.pt2`: `python compile.py` makes it."
WANTED = "`step.pt2` was compiled for the processor of the machine that emitted it."


@dataclass(frozen=True, slots=True)
class InductorOptions:
    """Options for emitting a program for TorchInductor."""

    unroll: Annotated[int, "Time steps that one call of the package computes, unrolled"] = 1
    package: Annotated[bool, "Compile it and keep the package, which is for this machine alone"] = False


def emit(network: Network, options: InductorOptions | None = None) -> Artifact:
    """The torch module of a network, a script that compiles its time steps, one that runs them, on request the package.

    The same network and options give the same bytes but those of the package: torch 2.13 writes the names of its
    temporary files into it, and it is for one processor. So a package is not kept unless it is requested.

    Raises:
        ToolMissing: a package is requested, and torch or a C++ compiler is not installed.
        UsageError: an option that does not apply.
        ModelError: no input or output, or torch refuses the module.
    """
    chosen = options or InductorOptions()
    if not isinstance(chosen.unroll, int) or not 1 <= chosen.unroll <= UNROLL_MAX:
        subject, limit = "options of emitter 'inductor'", f"a whole number from 1 to {UNROLL_MAX:,}"
        raise UsageError.of(subject, f"unroll {chosen.unroll!r}", limit)
    plan = module_plan(network, TORCH)
    names = _names(plan, chosen.unroll)
    module = emit_module(network, TORCH).files
    files = {name: module[name] for name in ("model.py", "weights.npz")}
    files["steps.py"] = _steps_text(plan, names).encode("ascii")
    files |= {f"{name}.py": _template(f"{name}.py").encode("ascii") for name in ("compile", "run")}
    marks = {"PORTS": names.table(), "STEPS": str(chosen.unroll), "PACKAGE": WANTED if chosen.package else NOT_WANTED}
    files |= {PROGRAM: names.as_json(), "README.md": filled(_template("README.md"), marks).encode("utf-8")}
    if chosen.package:
        files[PACKAGE] = compiled(files)
    return make_artifact(files, {"kind": "inductor", "schema": 1, "numbers": names.facts["numbers"]})


def _names(plan: ModulePlan, unroll: int) -> ProgramNames:
    """The names of the program; ``results``: keys of what a call returns, in their order."""
    ids = identifiers(plan.network)
    variables = {
        p.name: {v: f"{ids[p.name]}.{v}" for v in TORCH.records if v != "s" or p.neuron.fires}
        for p in plan.network.populations
    }
    names = real_names(plan.network, variables, "float32")
    results = [p.id for p in names.outputs] + [key for n in names.nodes for key in n.variables.values()]
    return replace(names, facts={**names.facts, "unroll": unroll, "results": results})


def _steps_text(plan: ModulePlan, names: ProgramNames) -> str:
    """``steps.py``."""
    first = plan.ids[plan.network.inputs[0].name]
    start = list(starts(plan, first))
    states = [line.partition(" = ")[0] for line in start]
    outputs = {p.id: f"out_{plan.ids[p.name]}" for p in names.outputs}
    variables = {n.name: n.variables for n in names.nodes}
    kept = {}
    for n in plan.neurons:
        values = {"s": output_of(n), "v": f'state_{n.id}["v"]'}
        kept |= {key: values[v] for v, key in variables[n.population.name].items()}
    found = [f'"{key}": {outputs.get(key, "[]")}' for key in names.facts["results"]]
    marks = {
        "INPUTS": ", ".join(plan.ids[p.name] for p in plan.network.inputs),
        "FIRST": first,
        "STATE": f"({', '.join(states)},)",
        "FOUND": f"{{{', '.join(found)}}}",
    }
    lines = {
        "START": start,
        "OUTPUTS": [f"{name} = []" for name in outputs.values()],
        "STEP": [*step_lines(plan), *(f'_found["{key}"].append({text})' for key, text in kept.items())],
    }
    return with_lines(filled(_template("steps.py"), marks), lines)


def _template(name: str) -> str:
    return template_text(TEMPLATES / f"{name}.txt")


# -- runs ----------------------------------------------------------------------------------------------------------
# Torch compiles and runs in processes of their own, which a guard ends; it is never imported here.


def compiled(files: Mapping[str, bytes]) -> bytes:
    """What ``compile.py`` of a program writes.

    Raises:
        ToolMissing: torch or a C++ compiler is not installed.
        ModelError: torch or the compiler refuses the module, or takes longer than ``COMPILE_S``.
    """
    INDUCTOR_TOOL.needed()
    if not shutil.which(os.environ.get("CXX", "g++")):
        limit = "AOTInductor needs one: g++, or what CXX names"
        raise ToolMissing.of("emitter 'inductor'", "no C++ compiler is installed", limit, "apt install g++")
    with compile_time():
        return output_of_script(files, "compile.py", COMPILE_S, tool=INDUCTOR_TOOL.tool)


def run_program(artifact: Artifact, inputs: Mapping[str, Input] | Input, **options: Any) -> Recording:
    """Runs a program on inputs; see ``ScriptTool.run_program``.

    A package that the program does not have is compiled, and kept for later runs of this process.
    """
    program = artifact if PACKAGE in artifact.files else _with_package(artifact)
    return INDUCTOR_TOOL.run_program(program, inputs, **options)


@lru_cache(maxsize=8)
def _with_package(artifact: Artifact) -> Artifact:
    """An artifact is told by its identity."""
    return replace(artifact, files={**artifact.files, PACKAGE: compiled(artifact.files)})


INDUCTOR = Target(
    name="inductor",
    summary="the torch module compiled ahead of time to a package of C++ by torch's AOTInductor",
    takes=(Network,),
    hint="emit the network itself",
    options=InductorOptions,
    make=emit,
    start=run_program,
    records=tuple(TORCH.records),
    carries=ALL,
)
