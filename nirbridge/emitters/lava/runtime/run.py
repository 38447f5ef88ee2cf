"""Runs an emitted program so that it cannot hang and leaves no process, shared memory or file.

A guard (``guard.py``), a process of its own in a new session, starts the program and ends it; see there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, npz_bytes, read_json, write_artifact
from nirbridge.emitters.lava.runtime.environment import find_python
from nirbridge.emitters.lava.runtime.supervision import run_supervised, start_guard, sweep_shared
from nirbridge.emitters.own_time import hear_log
from nirbridge.emitters.ports import PROGRAM
from nirbridge.errors import FileError, ModelError, UsageError, quoted
from nirbridge.files.atomic import write_new
from nirbridge.files.regular import open_file, read_own
from nirbridge.network.model import Network, Port, Timing
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording_file import read_recording
from nirbridge.simulators.types import Recording

_LOG_BYTES = 6000
_PROCESSES_MAX = 10**7
TIMING = Timing(None, "euler", "to-value", ">", "per-second")
"""Of a network of names and shapes alone, by which inputs and probes are checked."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When a run is ended: after ``start_s``, ``process_s`` per process and ``step_s`` per step, or ``quiet_s`` idle.

    Idle is without a step. The defaults are some hundred times what a run of the tests takes.
    """

    start_s: float = 120.0
    process_s: float = 2.0
    step_s: float = 5.0
    quiet_s: float = 180.0

    def seconds(self, steps: int, processes: int) -> float:
        """Longest time of the whole run."""
        return self.start_s + self.process_s * processes + self.step_s * steps


def run_program(
    folder: str | Path | Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[str] = (),
    limits: RunLimits | None = None,
    python: str | Path | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Runs the program in ``folder`` on inputs; ``u`` is the synaptic current, as in Lava.

    Args:
        folder: an emitted program; one that is not written yet is gone after the run, however that ends.
        inputs: see ``simulate``; streams are read whole.
        steps: number of time steps; default: the length of the inputs.
        record: ``NODE:s,u,v`` or ``*:s,u,v`` each; default: the outputs.
        limits: when a run is ended.
        python: an interpreter that has Lava; default: ``find_python()``.
        progress: called with a stage and the share of steps that is done.

    Raises:
        FileError: no program.
        UsageError: no Lava environment, or inputs that the program does not take.
        ModelError: a process of Lava failed, or the run did not end in time; its log is in the message.
    """
    program = _program(folder)
    interpreter = Path(python) if python is not None else find_python()
    arrays, count, samples = opened_inputs(inputs, program, steps)
    run_limits = limits or RunLimits()
    seconds = run_limits.seconds(count * samples, program["processes"] * samples)
    sweep_shared()
    with start_guard() as (guarding, scratch):
        write_new(scratch / "in.npz", npz_bytes(arrays))
        folder = _written(folder, scratch)
        command = [str(interpreter), str(folder / "run.py"), "--input", f"{scratch}/in.npz", "-o", f"{scratch}/out.npz"]
        write_new(scratch / "records.json", json.dumps(list(record)).encode())
        command += ["--scratch", str(scratch), "--steps", str(count), "--records", f"{scratch}/records.json"]
        end = run_supervised(guarding, command, scratch, seconds, run_limits.quiet_s, count, progress)
        judge(folder, end, scratch, seconds, run_limits.quiet_s)
        hear_log(scratch / "log")
        return read_recording(scratch / "out.npz", max_bytes=sys.maxsize)  # written for this run alone: no limit


def judge(folder: Path, end: Mapping[str, Any], scratch: Path, seconds: float, quiet_s: float) -> None:
    """Raise the error of a failed run."""
    if end["why"] == "ended" and end["code"] == 0 and (scratch / "out.npz").is_file():
        return
    subject, log = f"program {quoted(folder.name)}", log_text(scratch / "log")
    if end["why"] == "ended" and end["code"] == 2 and "error: " in log:
        raise UsageError.of(subject, log.rpartition("error: ")[2].strip(), "", "see its README.md", log=log)
    found = {
        "seconds": f"did not end within {seconds:.0f} s and was killed",
        "quiet": f"made no progress for {quiet_s:.0f} s and was killed",
        "guard": "was killed together with its guard",
    }.get(end["why"], f"failed with exit code {end['code']}")
    shown = f"{found}; its log ends with:\n{log}" if log else f"{found}; it wrote no log"
    raise ModelError.of(subject, shown, log=log, why=end["why"])


def run_judged(
    guarding: Any, command: list[str], scratch: Path, seconds: float, steps: int, progress: Progress, *, tool: str
) -> None:
    """Run a script of a program, whose arguments are nirbridge's own, to its end; ``tool``: its name in progress.

    Raises:
        ModelError: it failed or did not end in time.
    """
    end = run_supervised(guarding, command, scratch, seconds, seconds, steps, progress, tool=tool)
    if end["why"] == "ended" and end["code"] == 2:
        raise ModelError.of("program", "was given arguments that it does not take", "", "emit it again")
    judge(scratch / "program", end, scratch, seconds, seconds)


def output_of_script(files: Mapping[str, bytes], script: str, seconds: float, *, tool: str) -> bytes:
    """What a script of a program that is not written yet writes with ``-o``. Raises as ``run_judged``."""
    with start_guard() as (guarding, scratch):
        folder = scratch / "program"
        folder.mkdir()
        for name, content in files.items():
            write_new(folder / name, content)
        command = [sys.executable, f"{folder}/{script}", "-o", f"{scratch}/out.npz"]
        run_judged(guarding, command, scratch, seconds, 1, no_progress, tool=tool)
        return read_own(scratch / "out.npz")


def log_text(path: Path) -> str:
    """The end of a log, one line after the other, without what no terminal shows; empty where there is none."""
    try:
        with open_file(path, follow=False) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text).strip()


def _written(program: str | Path | Artifact, scratch: Path) -> Path:
    """The folder of a program; one that is in memory is written beside what the guard removes."""
    if not isinstance(program, Artifact):
        return Path(program).absolute()
    write_artifact(program, scratch / "program")
    return scratch / "program"


def _program(where: str | Path | Artifact) -> dict[str, Any]:
    """``program.json`` of a program of ours. Raises FileError."""
    subject = "program" if isinstance(where, Artifact) else f"folder {quoted(Path(where).absolute().name)}"
    manifest, program = read_json(where, MANIFEST), read_json(where, PROGRAM)
    if not isinstance(manifest, dict) or manifest.get("kind") != "lava":
        raise FileError.of(subject, "is not a Lava program", "", "make one with nirbridge emit --to lava")
    if not _is_program(program):
        raise FileError.of(subject, "its program.json is damaged", "", "make it again with nirbridge emit --to lava")
    return program


def _is_program(program: object) -> bool:
    """True if the entries of ``program.json`` that a run needs exist, with the right type and size."""
    if not isinstance(program, dict) or not _is_count(program.get("processes"), _PROCESSES_MAX):
        return False
    ports = program.get("inputs")
    return isinstance(ports, list) and all(_is_port(port) for port in ports)


def _is_port(port: object) -> bool:
    if not isinstance(port, dict) or not all(isinstance(port.get(key), str) for key in ("name", "id")):
        return False
    shape = port.get("shape")
    return isinstance(shape, list) and all(_is_count(n, 2**31) for n in shape)


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def opened_inputs(
    inputs: Mapping[str, Input] | Input, program: Mapping[str, Any], steps: int | None
) -> tuple[dict[str, Array], int, int]:
    """Arrays by identifier of the input (so that no name of a model names a file), time steps, samples.

    Raises:
        UsageError: wrong names, shapes, types or steps, as every simulator says it.
    """
    ports = tuple(Port(port["name"], tuple(port["shape"])) for port in program["inputs"])
    opened = open_inputs(Network(1.0, TIMING, (), (), ports, ()), inputs, steps, 0, "float64")
    ids = {port["name"]: port["id"] for port in program["inputs"]}
    values = opened.read(0, opened.steps)
    arrays = {ids[name]: a if opened.batch is not None else a[:, 0] for name, a in values.items()}
    return arrays, opened.steps, opened.batch or 1
