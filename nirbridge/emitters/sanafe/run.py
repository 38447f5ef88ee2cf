"""Runs of emitted programs: the installed package in a process of its own, which a guard ends.

SANA-FE is under the GPL, version 3, and is never imported here: the program's own ``run.py`` imports it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, artifact_kind, npz_bytes, read_document, write_artifact
from nirbridge.emitters.lava.runtime.probes import requested
from nirbridge.emitters.lava.runtime.run import RunLimits, judge, opened_inputs
from nirbridge.emitters.lava.runtime.supervision import run_supervised, start_guard
from nirbridge.emitters.own_time import hear_log
from nirbridge.emitters.ports import PROGRAM
from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.errors import Diagnostic, FileError, ToolMissing, UsageError, counted, quoted
from nirbridge.files.atomic import write_new
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording_file import read_recording
from nirbridge.simulators.types import Probe, Recording

LIMITS = RunLimits(start_s=120.0, process_s=2e-4, step_s=5.0, quiet_s=180.0)
"""Of ``RunLimits`` a process is a synapse here: SANA-FE takes about ten microseconds to load one."""


def installed_version() -> str:
    """The version of the installed package, found without importing it.

    Raises:
        ToolMissing: it is not installed.
    """
    try:
        return version("sanafe")
    except PackageNotFoundError:
        hint = 'pip install "nirbridge[sanafe]"'
        raise ToolMissing.of("emitter 'sanafe'", "the package sanafe is not installed", "", hint) from None


def run_program(
    program: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    limits: RunLimits = LIMITS,
    stages: bool = False,
    progress: Progress = no_progress,
) -> Recording:
    """Run a program on inputs; its figures of energy and time are ``recording.meta["figures"]``.

    Args:
        program: an emitted program; its folder is gone after the run, however that ends.
        inputs: see ``simulate``; streams are read whole. Each sample of a batch starts from the initial states.
        steps: number of time steps; default: the length of the inputs.
        record: spikes and potentials of nodes; default: the outputs.
        limits: when a run is ended.
        stages: SANA-FE's timing model simple; the figures have its time by stages (``stages_s``).
        progress: called with a stage and the share of time steps that is done.

    Raises:
        FileError: no SANA-FE program.
        ToolMissing: the package is not installed.
        UsageError: inputs, steps or probes that the program does not take.
        ModelError: SANA-FE failed, or the run did not end in time; its log is in the message.
    """
    document = _document(program)
    installed_version()
    probes = requested(program, _checked(record))
    arrays, count, samples = opened_inputs(inputs, document, steps)
    loads = samples if document["refractory"] else 1
    quiet = limits.quiet_s + limits.process_s * document["synapses"]
    seconds = limits.seconds(count * samples, document["synapses"] * loads)
    with start_guard() as (guarding, scratch):
        write_new(scratch / "in.npz", npz_bytes(arrays))
        write_new(scratch / "records.json", json.dumps(list(probes.texts)).encode())
        write_artifact(program, scratch / "program")
        command = [*_command(scratch, count), *(("--timing", "simple", "--stages") if stages else ())]
        end = run_supervised(guarding, command, scratch, seconds, quiet, count * samples, progress, tool="SANA-FE")
        judge(scratch / "program", end, scratch, seconds, quiet)
        hear_log(scratch / "log")
        return probes.recording(read_recording(scratch / "out.npz", max_bytes=sys.maxsize))


def _command(scratch: Path, steps: int) -> list[str]:
    paths = ["--input", f"{scratch}/in.npz", "-o", f"{scratch}/out.npz", "--records", f"{scratch}/records.json"]
    return [sys.executable, f"{scratch}/program/run.py", *paths, "--scratch", str(scratch), "--steps", str(steps)]


def _document(program: Artifact) -> dict[str, Any]:
    """``program.json`` of a SANA-FE program. Raises FileError."""
    if artifact_kind(program) != "sanafe":
        raise FileError.of("program", "is not a SANA-FE program", "", "make one with nirbridge emit --to sanafe")
    return read_document(program, PROGRAM, {"inputs": list[dict[str, Any]]})


def _checked(record: Sequence[Probe] | None) -> Sequence[Probe] | None:
    """The probes, none of which asks for currents. Raises UsageError."""
    currents = [p.node for p in record or () if "u" in p.variables]
    if currents:
        limit = "a program for SANA-FE records s and v"
        raise UsageError(*(Diagnostic(f"record {quoted(name)}", "variable u", limit) for name in currents))
    return record


# -- figures -------------------------------------------------------------------------------------------------------
# SANA-FE's energy and time of a map on data, and whether its spikes are those of the integers.

_BLOCK_BYTES = 2**27
"""Recorded spikes of one run; a run loads the network once."""


def measure(
    mapped: MappedNetwork, program: Artifact, inputs: Mapping[str, Array], version: str, progress: Progress
) -> Witness:
    """Run a map on every sample, until the last spike has arrived everywhere.

    Args:
        mapped: the map.
        program: emitted of it.
        inputs: by name, ``[steps, samples, *shape]``.
        version: the version of SANA-FE that programs are made for.
        progress: called with a stage and the completed fraction.

    Raises:
        ModelError: a run that failed.
        ToolMissing: the package is not installed.
    """
    installed, quantized = installed_version(), integers_of(mapped)
    longest, samples = (next(iter(inputs.values())).shape[k] for k in (0, 1))
    steps = longest + max(quantized.latency.values(), default=0)
    probes = [Probe(p.name, ("s",)) for p in quantized.populations if p.neuron.fires]
    block = max(1, _BLOCK_BYTES // max(1, steps * quantized.neurons))
    found: list[Mapping[str, Any]] = []
    spikes, different = 0, 0
    for start in range(0, samples, block):
        some = {name: values[:, start : start + block] for name, values in inputs.items()}
        recording = run_program(program, some, steps=steps, record=probes, progress=progress)
        expected = simulate_fixed(quantized, some, steps=steps, record=probes).recording
        found += recording.meta["figures"]["samples"]
        for key, values in recording.arrays.items():
            spikes += int(values.sum(dtype=np.int64))
            different += int(np.count_nonzero(values != expected.arrays[key]))
    notes = () if installed == version else (f"programs are made for version {version}",)
    if different:
        notes = (*notes, f"{counted(different, 'spike')} of {spikes:,} differ from the integers")
    return Witness(
        name="sanafe",
        version=installed,
        spikes_equal=different == 0,
        spikes=spikes / samples,
        energy_j=_mean(mapped.chip.energy, [sample["energy_j"]["total"] for sample in found]),
        time_s=_mean(mapped.chip.time, [sample["time_s"] for sample in found]),
        samples=samples,
        notes=notes,
    )


def stage_times(
    mapped: MappedNetwork, program: Artifact, inputs: Mapping[str, Array], progress: Progress
) -> StageTimes:
    """SANA-FE's time without waiting for links and buffers, and by stages, from a run with its timing model simple.

    Arguments and errors: as of ``measure``.
    """
    quantized = integers_of(mapped)
    steps = next(iter(inputs.values())).shape[0] + max(quantized.latency.values(), default=0)
    recording = run_program(program, inputs, steps=steps, stages=True, progress=progress)
    found = recording.meta["figures"]["samples"]
    stages = [sample["stages_s"] for sample in found]
    means = {f"{name}_s": float(np.mean([s[name] for s in stages])) for name in stages[0]}
    return StageTimes(**means, simple_s=float(np.mean([sample["time_s"] for sample in found])))


def _mean(figures: Any, values: list[float]) -> float | None:
    """The mean over samples; None where the chip has none of these figures."""
    known = (getattr(figures, name) for name in type(figures).__dataclass_fields__)
    return float(np.mean(values)) if any(figure is not None for figure in known) else None
