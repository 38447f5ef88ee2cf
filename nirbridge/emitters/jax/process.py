"""JAX in a process of its own, which a guard ends: it exports modules and runs them, and is never imported here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.lava.runtime.run import RunLimits, output_of_script
from nirbridge.emitters.program_runs import Ran, record_program
from nirbridge.emitters.script_runs import run_script, variable_names
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
    names = variable_names(facts, keys)
    given: Any = {"limits": limits, "progress": progress, "tool": TOOL, "takes_records": True}
    return run_script(artifact.files, facts, values, names, steps, **given)
