"""TVM and tinygrad as targets: one time step as an ONNX model whose states go in and out, and a loop over time."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.onnx.emit import needed
from nirbridge.emitters.ports import PROGRAM
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import ScriptTool
from nirbridge.emitters.target import NoOptions, Target
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.files.npy import load_npz
from nirbridge.files.regular import template_text
from nirbridge.files.scratch import unnamed_file
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Recording

TEMPLATES = Path(__file__).with_name("templates")
TUNE_S, TRIAL_S = 600.0, 30.0
"""Longest time of a search: its start, and each trial."""
TRIALS_MAX, BATCH_MAX = 10_000, 65_536


@dataclass(frozen=True, slots=True)
class TvmOptions:
    """Options for emitting a program for TVM."""

    tune: Annotated[int, "Trials of TVM's own search for schedules, which the program keeps"] = 0
    batch: Annotated[int, "Samples of a run that schedules are searched for"] = 1


def emit(network: Network, tool: ScriptTool, options: Any = None) -> Artifact:
    """The time step of a network in float32 as ``step.onnx``, and scripts that run it.

    The same network gives the same bytes, unless schedules are searched.

    Raises:
        ToolMissing: the package onnx is not installed; TVM is not, for a search.
        UsageError: an option out of range.
        ModelError: no input; the search failed.
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
    facts: dict[str, object] = {"kind": tool.emitter, "schema": 1, "numbers": names.facts["numbers"]}
    if isinstance(options, TvmOptions):
        _check(options)
        if options.tune:
            found, note = _tuned(files, options)
            files, facts = files | found, facts | {"notes": [note]}
    return make_artifact(files, facts)


def _check(options: TvmOptions) -> None:
    """Raises UsageError for the first option that does not apply."""
    for name, least, most in (("tune", 0, TRIALS_MAX), ("batch", 1, BATCH_MAX)):
        value = getattr(options, name)
        if not isinstance(value, int) or not least <= value <= most:
            limit = f"a whole number from {least} to {most:,}"
            raise UsageError.of("options of emitter 'tvm'", f"{name} {value!r}", limit)


def _tuned(files: Mapping[str, bytes], options: TvmOptions) -> tuple[dict[str, bytes], str]:
    """The schedules that TVM's search found, where a time step is faster with them, and a sentence."""
    TVM_TOOL.needed()
    order = json.dumps({"trials": options.tune, "batch": options.batch}).encode()
    given = {**files, "tune.py": _template("tune.py").encode(), "order.json": order}
    content = output_of_script(given, "tune.py", TUNE_S + TRIAL_S * options.tune, tool=TVM_TOOL.tool)
    with unnamed_file("tuned.npz", content) as path:
        found = load_npz(path, max_bytes=sys.maxsize)
    before, after = (1e6 * float(seconds) for seconds in found.pop("seconds"))
    note = f"TVM searched {options.tune:,} trials for batch {options.batch:,}: {before:.3g} us a time step before, "
    if after >= before:
        return {}, f"{note}{after:.3g} after, so no schedules are kept"
    return {name: values.tobytes() for name, values in found.items()}, f"{note}{after:.3g} after"


def _template(name: str) -> str:
    return template_text(TEMPLATES / f"{name}.txt")


def _run_by_clang(artifact: Artifact, inputs: Mapping[str, Input] | Input, **options: Any) -> Recording:
    """``run_program`` of tinygrad, which compiles by clang. Raises ToolMissing without it."""
    if shutil.which("clang") is None:
        raise ToolMissing.of(
            "emitter 'tinygrad'", "clang is not installed", "it compiles for processors by clang", "apt install clang"
        )
    return TINYGRAD_TOOL.run_program(artifact, inputs, **options)


def _target(tool: ScriptTool, start: Any, options: type[Any] = NoOptions) -> Target:
    return Target(
        name=tool.emitter,
        summary=f"one time step as an ONNX model, compiled and run over time by {tool.tool}",
        takes=(Network,),
        hint="emit the network itself",
        options=options,
        make=lambda network, options: emit(network, tool, options),
        start=start,
        carries=ALL,
    )


TVM_TOOL = ScriptTool("tvm", ("tvm", "onnx"), "tvm", "TVM")
TINYGRAD_TOOL = ScriptTool("tinygrad", ("tinygrad", "onnx"), "tinygrad", "tinygrad")
TVM = _target(TVM_TOOL, TVM_TOOL.run_program, TvmOptions)
TINYGRAD = _target(TINYGRAD_TOOL, _run_by_clang)
