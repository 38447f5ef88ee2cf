"""JAX in a process of its own, which a guard ends: it exports modules and runs them, and is never imported here."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, npz_bytes, write_artifact
from nirbridge.emitters.lava.runtime.run import RunLimits, output_of_script, run_judged
from nirbridge.emitters.lava.runtime.supervision import start_guard
from nirbridge.emitters.own_time import hear_log
from nirbridge.emitters.program_runs import Ran, record_program
from nirbridge.errors import ToolMissing
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Key, Probe, Recording

LIMITS = RunLimits(start_s=300.0, process_s=0.0, step_s=5.0)
"""When a run is ended: compilation is part of its start."""
EXPORT_S = 600.0
TOOL = "JAX"


def is_installed() -> bool:
    """True if jax can be imported."""
    return importlib.util.find_spec("jax") is not None


def needed() -> None:
    """Raises ToolMissing where jax is not installed."""
    if not is_installed():
        hint = 'pip install "nirbridge[jax]"'
        raise ToolMissing.of("emitter 'jax'", "the package jax is not installed", "", hint)


def exported_bytes(files: Mapping[str, bytes]) -> bytes:
    """What ``export.py`` of a program writes.

    Raises:
        ToolMissing: jax is not installed.
        ModelError: jax refuses the module, or took longer than ``EXPORT_S``.
    """
    needed()
    return output_of_script(files, "export.py", EXPORT_S, tool=TOOL)


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    limits: RunLimits = LIMITS,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a module on inputs.

    Args:
        artifact: an emitted module; its folder is gone after the run, however that ends.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate``, and ``simulate_fixed`` for a module in integers.
        limits: when a run is ended.
        progress: called with a stage and the completed fraction.

    Raises:
        ToolMissing: jax is not installed.
        UsageError: inputs or records that the module does not take.
        ModelError: the run failed or did not end in time; its log is in the message.
    """
    needed()
    return record_program(artifact, inputs, steps, record, partial(_ran, artifact, limits, progress))


def _ran(
    artifact: Artifact,
    limits: RunLimits,
    progress: Progress,
    facts: Any,
    values: Mapping[str, Array],
    keys: set[Key],
    steps: int,
) -> Ran:
    variables = {n["name"]: n["variables"] for n in facts["nodes"]}
    names = {key: variables[key[0]][key[1]] for key in sorted(keys)}
    given = {p["id"]: np.asarray(values[p["name"]], p["dtype"]) for p in facts["inputs"]}
    samples = next(iter(given.values())).shape[1] if given else 1
    with start_guard() as (guarding, scratch):
        (scratch / "in.npz").write_bytes(npz_bytes(given))
        (scratch / "records.json").write_text(json.dumps(sorted(names.values())), encoding="ascii")
        write_artifact(artifact, scratch / "program")
        paths = [f"{scratch}/{name}" for name in ("program/run.py", "in.npz", "out.npz", "records.json")]
        seconds = limits.seconds(steps * samples, 0)
        words = [sys.executable, *paths, str(steps)]
        run_judged(guarding, words, scratch, seconds, steps, progress, tool=TOOL)
        with np.load(scratch / "out.npz", allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        hear_log(scratch / "log")
    outputs = {p["name"]: found[p["id"]] for p in facts["outputs"]}
    return {key: found[name] for key, name in names.items()}, outputs
