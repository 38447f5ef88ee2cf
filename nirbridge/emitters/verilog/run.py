"""Runs a circuit: its test bench in Verilator, or in Icarus Verilog where that is absent, prints all neurons."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.own_time import compile_time
from nirbridge.emitters.ports import NETWORK
from nirbridge.emitters.program_runs import quantized_of
from nirbridge.emitters.verilog.plan import LANES_MAX, Circuit, circuit
from nirbridge.emitters.verilog.tokens import mark, token_lines, traced
from nirbridge.errors import FileError, ModelError, ToolMissing, quoted
from nirbridge.files.atomic import create_file, write_new
from nirbridge.files.regular import read_own
from nirbridge.files.scratch import remove_folder, temporary_folder
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording

FILES, VECTORS = ("testbench.v", "net.v", "library.v"), "vectors"
SPEED = {"verilator": 2e5, "icarus": 5e2}
"""Clock cycles a second that a simulation computes at least, for its time limit."""
START_S = 600.0


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Simulates the circuit of a program on inputs; nothing remains of it.

    Args:
        artifact: an emitted program; its own files are simulated.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate_fixed``.
        progress: called with a stage and the completed fraction.

    Raises:
        ToolMissing: no simulator of Verilog.
        UsageError: wrong inputs or records.
        ModelError: it cannot be built, fails, or does not end in time.
    """
    progress("build", 0.0)
    with built(artifact) as circuit:
        progress("simulate", 0.5)
        recording = circuit.recording(inputs, steps=steps, record=record)
        progress("simulate", 1.0)
        return recording


@dataclass(frozen=True, slots=True)
class Simulation:
    """A circuit built in ``folder``; ``command`` runs its test bench, at least ``speed`` cycles a second."""

    plan: Circuit
    folder: Path
    command: Sequence[str]
    speed: float

    def recording(
        self,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        stall: int = 0,
    ) -> Recording:
        """What ``run_program`` returns; ``stall``: whether streams rest: 0 never, 1 at random, 2 for long."""
        quantized = self.plan.quantized
        channels = fixed_channels(quantized, signature_network(quantized), record)
        arrays, batched = integer_inputs(quantized, inputs, steps)
        length, samples = next(iter(arrays.values())).shape[:2]
        requested = required_variables(channels)
        (found, cycles), needed = self._variables(arrays, stall), needed_arrays(quantized, requested)
        kept = {key: found[key] for key in found.keys() & needed}
        recorder = ChannelRecorder(channels, 0, length, samples)
        recorder.take(recorded_arrays(quantized, requested, kept, arrays), length, np.asarray)
        meta = fixed_meta(quantized, length, 0, samples if batched else None, backend="verilog", cycles=cycles)
        return recorder.finish(batched, meta)

    def _variables(self, arrays: Mapping[str, Array], stall: int) -> tuple[dict[Key, Array], int]:
        """All variables of all populations, ``[steps, samples, neurons]``, and the clock cycles of all samples.

        Some empty time steps after the last let every core finish that one: an output waits for no core that is
        further ahead than there are cores.
        """
        steps, samples = next(iter(arrays.values())).shape[:2]
        more = len(self.plan.cores) + 1
        words = [f"+stall={stall}", f"+steps={steps + more}", f"+samples={samples}"]
        place = self.folder / VECTORS
        remove_folder(place)  # that of the run before
        place.mkdir()
        for s in self.plan.inputs:
            with create_file(place / f"{s.id}.hex") as file:
                for k in range(samples):
                    file.writelines(x.encode("ascii") for x in token_lines(s, arrays[s.name][:, k], more=more))
                    file.write(mark(s).encode("ascii"))
        with create_file(place / "out.txt") as file:
            run_to_end(
                [*self.command, *words],
                self.folder,
                START_S + _limit(self.plan, steps * samples) / self.speed,
                stdout=file,
            )
        text = read_own(place / "out.txt").decode("ascii", "replace")
        found = _read(self.plan, text, steps, samples)
        return found, int(text.rpartition("tokens in ")[2].split()[0])


@contextmanager
def built(artifact: Artifact, simulator: str = "") -> Iterator[Simulation]:
    """The circuit of a program, built once in a folder of its own.

    Args:
        artifact: an emitted program.
        simulator: "verilator" or "icarus"; default: the first that is there.
    """
    name, plan = find_simulator(simulator), planned(artifact)
    with temporary_folder("verilog") as scratch:
        folder = Path(scratch)
        for path, content in artifact.files.items():
            if path.endswith((".v", ".hex", ".cpp")) and "/" not in path:
                write_new(folder / path, content)
        with compile_time():
            command = _BUILDERS[name](folder)
        yield Simulation(plan, folder, command, SPEED[name])


def planned(artifact: Artifact) -> Circuit:
    """The circuit of a program: its integers with the lanes that its manifest states. Raises FileError."""
    quantized = quantized_of(artifact.files[NETWORK])
    stated = read_document(artifact, MANIFEST, {"lanes": dict[str, list[int]]})["lanes"]
    for p in quantized.populations:
        found = stated.get(p.name)
        if not (isinstance(found, list) and len(found) == 2 and all(0 < x <= LANES_MAX for x in found)):
            limit = f"two numbers from 1 to {LANES_MAX:,}"
            raise FileError.of(f"manifest.json, lanes of {quoted(p.name)}", f"{found}"[:80], limit, "emit it again")
    return circuit(quantized, {name: (sums, neurons) for name, (sums, neurons) in stated.items()})


def _limit(plan: Circuit, steps: int) -> float:
    """Clock cycles that a simulation may take: every source sends all it has in each time step, and streams rest."""
    most = sum(np.prod(w.source.shape) * w.most_hits for c in plan.cores for w in c.walks)
    words = sum(c.stream.layout.words * (c.slots + 1) + c.population.size for c in plan.cores)
    return 8 * steps * float(most + words)


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
        try:
            by_sample.append({c.id: traced(c, lines[c.id], steps) for c in plan.cores})
        except ValueError as error:
            raise FileError.of("net.v", f"has other lanes than manifest.json ({error})", "", "emit it again") from error
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
    _build(["iverilog", "-g2005", "-DNB_TRACE", "-s", "clock", "-o", "circuit.vvp", "clock.v", *FILES], folder)
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
