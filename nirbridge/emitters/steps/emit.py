"""TVM and tinygrad as targets: one time step as an ONNX model whose states go in and out, and a loop over time."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.onnx.emit import needed
from nirbridge.emitters.ports import PROGRAM
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import ScriptTool
from nirbridge.emitters.target import Target
from nirbridge.errors import ModelError, ToolMissing
from nirbridge.files.regular import template_text
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Recording

TEMPLATES = Path(__file__).with_name("templates")


def emit(network: Network, tool: ScriptTool) -> Artifact:
    """The time step of a network in float32 as ``step.onnx``, and scripts that run it; always the same bytes.

    Raises:
        ToolMissing: the package onnx is not installed.
        ModelError: no input.
    """
    needed("onnx")
    from nirbridge.emitters.onnx.scan import step_model

    if not network.inputs:
        raise ModelError.of("network", "has no input", "an ONNX model takes its batch from one", "add an input")
    proto, names, states = step_model(network)
    marks = {"TOOL": tool.tool, "PACKAGES": ", ".join(tool.packages), "PORTS": names.table()}
    files = {
        "step.onnx": proto.SerializeToString(deterministic=True),
        "states.npz": npz_bytes(states),
        "tool.py": _template(f"{tool.emitter}.py").encode(),
        "run.py": filled(_template("run.py"), marks).encode(),
        "README.md": filled(_template("README.md"), marks).encode(),
        PROGRAM: names.as_json(),
    }
    return make_artifact(files, {"kind": tool.emitter, "schema": 1, "numbers": names.facts["numbers"]})


def _template(name: str) -> str:
    return template_text(TEMPLATES / f"{name}.txt")


def _run_by_clang(artifact: Artifact, inputs: Mapping[str, Input] | Input, **options: Any) -> Recording:
    """``run_program`` of tinygrad, which compiles by clang. Raises ToolMissing without it."""
    if shutil.which("clang") is None:
        raise ToolMissing.of(
            "emitter 'tinygrad'", "clang is not installed", "it compiles for processors by clang", "apt install clang"
        )
    return TINYGRAD_TOOL.run_program(artifact, inputs, **options)


def _target(tool: ScriptTool, start: Any) -> Target:
    return Target(
        name=tool.emitter,
        summary=f"one time step as an ONNX model, compiled and run over time by {tool.tool}",
        takes=(Network,),
        hint="emit the network itself",
        make=lambda network, options: emit(network, tool),
        start=start,
        carries=ALL,
    )


TVM_TOOL = ScriptTool("tvm", ("tvm", "onnx"), "tvm", "TVM")
TINYGRAD_TOOL = ScriptTool("tinygrad", ("tinygrad", "onnx"), "tinygrad", "tinygrad")
TVM, TINYGRAD = _target(TVM_TOOL, TVM_TOOL.run_program), _target(TINYGRAD_TOOL, _run_by_clang)
