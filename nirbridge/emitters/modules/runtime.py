"""Runs an emitted module in a process of its own, which is ended where it takes too long."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, npz_bytes, read_document, write_artifact
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.modules.plan import Framework
from nirbridge.emitters.ports import PROGRAM
from nirbridge.emitters.real_recordings import population_keys, real_channels, real_recording, signature
from nirbridge.errors import ToolMissing
from nirbridge.files.atomic import write_new
from nirbridge.files.npy import load_npz
from nirbridge.files.scratch import temporary_folder
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.types import Key, Probe, Recording

START_S = 300.0
VALUE_S = 1e-6
"""Longest time of a run: the start of a process that imports a framework, and a time for each value of each step."""
STEP_S = 0.2


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    framework: Framework,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a module on inputs, in float32; nothing remains of it.

    Args:
        artifact: an emitted module; its own ``run.py`` is run.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        framework: the framework that it was emitted for.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate``; of populations the variables of ``framework.records``.
        progress: called with a stage and the completed fraction.

    Raises:
        ToolMissing: the framework is not installed.
        UsageError: inputs or records that the module does not take.
        ModelError: it failed, or did not end in time.
    """
    needed(framework)
    progress("run", 0.0)
    facts = read_document(artifact, PROGRAM, {"inputs": list[dict[str, Any]], "work": float})
    network = signature(facts)
    opened = open_inputs(network, inputs, steps, 0, "float32")
    channels = real_channels(network, facts, record, tuple(framework.records))
    keys = sorted(population_keys(network, channels))
    ids = {p["name"]: p["id"] for p in facts["inputs"]}
    values = {ids[name]: np.asarray(a, np.float32) for name, a in opened.read(0, opened.steps).items()}
    seconds = START_S + opened.steps * (STEP_S + VALUE_S * facts["work"] * (opened.batch or 1))
    found, outputs = _ran(artifact, facts, values, keys, seconds)
    progress("run", 1.0)
    return real_recording(network, channels, opened, found, outputs, backend=framework.name)


def needed(framework: Framework) -> None:
    """Raises ToolMissing where the framework is not installed."""
    for package in dict.fromkeys(("torch", framework.package)):
        if importlib.util.find_spec(package) is None:
            found, step = f"the package {package} is not installed", f"pip install {package}"
            raise ToolMissing.of(f"emitter '{framework.name}'", found, "", step)


def _ran(
    artifact: Artifact, facts: Any, values: Mapping[str, Array], keys: Sequence[Key], seconds: float
) -> tuple[dict[Key, Array], dict[str, Array]]:
    """(variables of populations, outputs): ``[steps, samples, *shape]``."""
    nodes = {n["name"]: n for n in facts["nodes"]}
    wanted = [f"{nodes[name]['id']}:{variable}" for name, variable in keys]
    with temporary_folder("module") as scratch:
        folder = Path(scratch)
        write_artifact(artifact, folder / "program")
        write_new(folder / "in.npz", npz_bytes(values))
        command = [sys.executable, "-B", str(folder / "program" / "run.py"), "in.npz", "out.npz", *wanted]
        run_to_end(command, folder, seconds)
        arrays = load_npz(folder / "out.npz", max_bytes=sys.maxsize)
    outputs = {p["name"]: arrays[f"output{k}"] for k, p in enumerate(facts["outputs"])}
    return {key: arrays[text] for key, text in zip(keys, wanted, strict=True)}, outputs
