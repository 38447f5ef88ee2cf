"""Runs of programs whose ``run.py`` takes and writes arrays by key, in a process of its own that a guard ends."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, npz_bytes
from nirbridge.emitters.lava.runtime.run import RunLimits, run_judged
from nirbridge.emitters.lava.runtime.supervision import start_guard
from nirbridge.emitters.own_time import hear_log
from nirbridge.emitters.program_runs import Ran, record_program
from nirbridge.errors import ToolMissing
from nirbridge.files.atomic import write_new
from nirbridge.files.npy import load_npz
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Key, Probe, Recording

LIMITS = RunLimits(start_s=300.0, process_s=0.0, step_s=5.0)
"""When a run is ended: compilation is part of its start."""


@dataclass(frozen=True, slots=True)
class ScriptTool:
    """A tool that programs' ``run.py`` import: the emitter of that name, the packages and the extra, a name for people.

    ``run_program`` is the ``start`` of its target; nothing of the tool is imported in this process.
    """

    emitter: str
    packages: tuple[str, ...]
    extra: str
    tool: str

    def is_installed(self) -> bool:
        """True if every package can be imported."""
        return not self._missing()

    def _missing(self) -> list[str]:
        return [name for name in self.packages if importlib.util.find_spec(name) is None]

    def needed(self) -> None:
        """Raises ToolMissing where a package is not installed."""
        for name in self._missing():
            subject, hint = f"emitter '{self.emitter}'", f'pip install "nirbridge[{self.extra}]"'
            raise ToolMissing.of(subject, f"the package {name} is not installed", "", hint)

    def run_program(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        limits: RunLimits = LIMITS,
        progress: Progress = no_progress,
    ) -> Recording:
        """Runs a program on inputs.

        Args:
            artifact: an emitted program; its folder is gone after the run, however that ends.
            inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
            steps: number of time steps; default: the length of the inputs.
            record: see ``simulate``, and ``simulate_fixed`` for a program in integers.
            limits: when a run is ended.
            progress: called with a stage and the completed fraction.

        Raises:
            ToolMissing: a package is not installed.
            UsageError: inputs or records that the program does not take.
            ModelError: the run failed or did not end in time; its log is in the message.
        """
        self.needed()
        return record_program(artifact, inputs, steps, record, partial(self._ran, artifact, limits, progress))

    def _ran(
        self,
        artifact: Artifact,
        limits: RunLimits,
        progress: Progress,
        facts: Any,
        values: Mapping[str, Array],
        keys: set[Key],
        steps: int,
    ) -> Ran:
        names = variable_names(facts, keys)
        given: Any = {"limits": limits, "progress": progress, "tool": self.tool, "takes_records": True}
        return run_script(artifact.files, facts, values, names, steps, **given)


def variable_names(facts: Any, keys: set[Key]) -> dict[Key, str]:
    """The names that variables of populations have in the results of ``run.py``; ``facts``: ``program.json``."""
    variables = {n["name"]: n["variables"] for n in facts["nodes"]}
    return {key: variables[key[0]][key[1]] for key in sorted(keys)}


def sample_count(values: Mapping[str, Array]) -> int:
    """The samples of arrays ``[steps, samples, *shape]``; 1 of a network without input."""
    return next(iter(values.values())).shape[1] if values else 1


def run_script(
    files: Mapping[str, bytes],
    facts: Any,
    values: Mapping[str, Array],
    names: Mapping[Key, str],
    steps: int,
    *,
    limits: RunLimits,
    progress: Progress,
    tool: str,
    takes_records: bool = False,
) -> Ran:
    """What ``python run.py in.npz out.npz STEPS`` computes.

    Args:
        files: of the program; their folder is gone after the run, however that ends.
        facts: ``program.json``.
        values: arrays ``[steps, samples, *shape]`` by name of an input.
        names: see ``variable_names``.
        steps: number of time steps.
        limits: when the run is ended.
        progress: called with a stage and the completed fraction.
        tool: the name for messages.
        takes_records: a file with the names comes before the number of time steps.

    Raises:
        ModelError: as of ``run_judged``.
    """
    given = {p["id"]: np.asarray(values[p["name"]], p["dtype"]) for p in facts["inputs"]}
    with start_guard() as (guarding, scratch):
        write_new(scratch / "in.npz", npz_bytes(given))
        write_new(scratch / "records.json", json.dumps(sorted(names.values())).encode())
        (scratch / "program").mkdir()
        for name, content in files.items():
            write_new(scratch / "program" / name, content)
        paths = ["program/run.py", "in.npz", "out.npz", *(["records.json"] if takes_records else [])]
        words = [sys.executable, *(f"{scratch}/{path}" for path in paths), str(steps)]
        seconds = limits.seconds(steps * sample_count(values), 0)
        run_judged(guarding, words, scratch, seconds, steps, progress, tool=tool)
        found = load_npz(scratch / "out.npz", max_bytes=sys.maxsize)
        hear_log(scratch / "log")
    outputs = {p["name"]: found[p["id"]] for p in facts["outputs"]}
    return {key: found[name] for key, name in names.items()}, outputs
