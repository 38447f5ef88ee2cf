"""Runs a circuit: builds its test bench with Verilator, or with Icarus Verilog where that is absent, and reads what it prints."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document, write_artifact
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.own_time import compile_time
from nirbridge.emitters.program_runs import quantized_of
from nirbridge.emitters.verilog.emit import NETWORK
from nirbridge.emitters.verilog.plan import Circuit, circuit
from nirbridge.emitters.verilog.tokens import mark, token_lines, traced
from nirbridge.errors import ModelError, ToolMissing
from nirbridge.files.atomic import create_file
from nirbridge.files.regular import read_regular
from nirbridge.files.scratch import temporary_folder
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording

FILES = ("testbench.v", "net.v", "library.v")
SPEED = 2e5
"""Clock cycles a second that a simulation computes at least, for its time limit."""
START_S = 600.0


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
    stall: int = 0,
    simulator: str = "",
) -> Recording:
    """Simulates the circuit of a program on inputs; nothing remains of it.

    Args:
        artifact: an emitted program; its own files are simulated.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate_fixed``.
        progress: called with a stage and the completed fraction.
        stall: how often streams rest: 0 never, 1 at random, 2 for long.
        simulator: "verilator" or "icarus"; default: the first that is there.

    Raises:
        ToolMissing: no simulator of Verilog.
        UsageError: wrong inputs or records.
        ModelError: it cannot be built, fails, or does not end in time.
    """
    command = find_simulator(simulator)
    quantized = quantized_of(artifact.files[NETWORK])
    lanes = read_document(artifact, MANIFEST, {"lanes": dict})["lanes"]
    plan = circuit(quantized, {name: (sums, neurons) for name, (sums, neurons) in lanes.items()})
    channels = fixed_channels(quantized, signature_network(quantized), record)
    arrays, batched = integer_inputs(quantized, inputs, steps)
    length, samples = next(iter(arrays.values())).shape[:2]
    requested = required_variables(channels)
    with temporary_folder("verilog") as scratch:
        folder = Path(scratch) / "program"
        write_artifact(artifact, folder)
        for path in (folder / "vectors").iterdir():
            path.unlink()
        progress("build", 0.0)
        with compile_time():
            program = _BUILDERS[command](folder)
        progress("simulate", 0.5)
        found = _simulated(plan, program, folder, arrays, stall)
        progress("simulate", 1.0)
    needed = needed_arrays(quantized, requested)
    recorder = ChannelRecorder(channels, 0, length, samples)
    found = {key: a for key, a in found.items() if key in needed}
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend="verilog"))


def _simulated(
    plan: Circuit, program: Sequence[str], folder: Path, arrays: Mapping[str, Array], stall: int
) -> dict[Key, Array]:
    """All variables of all populations, ``[steps, samples, neurons]``.

    Time steps after the last let every core finish it: each is at most the number of cores ahead of an output.
    """
    steps, samples = next(iter(arrays.values())).shape[:2]
    more = len(plan.cores) + 1
    place = folder / "vectors"
    for s in plan.inputs:
        with create_file(place / f"{s.id}.hex") as file:
            for k in range(samples):
                for line in token_lines(s, arrays[s.name][:, k], more=more):
                    file.write(line.encode("ascii"))
                file.write(mark(s).encode("ascii"))
    words = [f"+stall={stall}", f"+steps={steps + more}", f"+samples={samples}"]
    with create_file(place / "out.txt") as file:
        run_to_end([*program, *words], folder, _limit(plan, steps * samples), stdout=file)
    return _read(plan, read_regular(place / "out.txt").decode("ascii", "replace"), steps, samples)


def _limit(plan: Circuit, steps: int) -> float:
    """Seconds that a simulation may take: every source sends all it has in each time step, and more."""
    most = sum(np.prod(w.source.shape) * w.most_hits for c in plan.cores for w in c.walks)
    words = sum(c.stream.layout.words * (c.slots + 1) + c.population.size for c in plan.cores)
    return START_S + 8 * steps * float(most + words) / SPEED


def _read(plan: Circuit, text: str, steps: int, samples: int) -> dict[Key, Array]:
    """What cores have printed, sample by sample."""
    parts = text.split("reset\n")
    if len(parts) != samples + 1 or "PASS" not in parts[-1]:
        shown = parts[-1][-200:].strip()
        raise ModelError.of("circuit", f"its simulation ended too early: {shown}", "", "please report it")
    by_sample = []
    for part in parts[:-1]:
        lines: dict[str, list[str]] = {c.id: [] for c in plan.cores}
        for line in part.splitlines():
            core, _, word = line.partition(" ")
            if core in lines:
                lines[core].append(word)
        by_sample.append({c.id: traced(c, lines[c.id], steps) for c in plan.cores})
    return {
        (c.population.name, v): np.stack([found[c.id][v] for found in by_sample], axis=1)
        for c in plan.cores
        for v in by_sample[0][c.id]
    }


# -- simulators ----------------------------------------------------------------------------------------------------

BUILD_S = 600.0


def find_simulator(name: str = "") -> str:
    """``verilator`` or ``icarus``: the one that is named, else the first that is there.

    Raises:
        ToolMissing: it is absent.
    """
    programs = {"verilator": "verilator", "icarus": "iverilog"}
    for known in [name] if name else programs:
        if shutil.which(programs[known]) is not None:
            return known
    hint = "install Verilator (Debian: apt install verilator), or Icarus Verilog (apt install iverilog)"
    raise ToolMissing.of("emitter 'verilog'", "no simulator of Verilog on this machine", "a circuit is simulated", hint)


def _verilator(folder: Path) -> list[str]:
    _build(["verilator", "--cc", "--exe", "-O3", "-DNB_TRACE", "-Wno-fatal", "-Wno-lint", "-Wno-style", "--top-module",
            "testbench", "-Mdir", "obj", "main.cpp", *FILES], folder)  # fmt: skip
    _build(["make", "-C", "obj", "-f", "Vtestbench.mk", "OPT_FAST=-O1", "OPT_SLOW=-O0"], folder)
    return ["obj/Vtestbench"]


def _icarus(folder: Path) -> list[str]:
    _build(["iverilog", "-g2005", "-DNB_TRACE", "-o", "circuit.vvp", "clock.v", *FILES], folder)
    return ["vvp", "-n", "circuit.vvp"]


_BUILDERS = {"verilator": _verilator, "icarus": _icarus}


def _build(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError.of("circuit", f"was not built within {BUILD_S:.0f} s", "", "emit a smaller network") from None
    if done.returncode != 0:
        log = (done.stdout + done.stderr).decode("utf-8", "replace")[-2000:]
        shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in log)
        raise ModelError.of("circuit", f"{command[0]} refused it:\n{shown}", log=shown)
