"""Runs of programs whose ``run.py`` takes and writes arrays by key, in a process of its own that a guard ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import npz_bytes
from nirbridge.emitters.lava.runtime.run import RunLimits, run_judged
from nirbridge.emitters.lava.runtime.supervision import start_guard
from nirbridge.emitters.own_time import hear_log
from nirbridge.emitters.program_runs import Ran
from nirbridge.files.atomic import write_new
from nirbridge.files.npy import load_npz
from nirbridge.simulators.types import Key


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
