"""Compiles an emitted C program with a driver that moves arrays in and out, and runs it with a time limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.c.main_file import synaptic_operations
from nirbridge.emitters.c.plan import CPlan, Neurons
from nirbridge.emitters.c.planning import c_plan
from nirbridge.emitters.c.render import input_type
from nirbridge.emitters.c.runtime.driver import driver_text, kept_arrays, numpy_type
from nirbridge.emitters.c.runtime.toolchain import FLAGS, compile_program, find_compiler
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.own_time import compile_time
from nirbridge.errors import ModelError
from nirbridge.files.atomic import create_file, write_new
from nirbridge.files.regular import open_file
from nirbridge.files.scratch import temporary_folder
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import (
    fixed_channels,
    fixed_meta,
    integer_inputs,
    signature_network,
)
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording

START_S = 120.0
OPERATION_S = 2e-8
"""Longest time of a run: a start, and some fifty times what an operation takes."""


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a program on inputs; nothing remains of it.

    Args:
        artifact: an emitted program; its own files are compiled.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate_fixed``.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: no compiler, or wrong inputs or records.
        ModelError: it cannot be compiled, fails, or does not end in time.
    """
    compiler = find_compiler()
    with temporary_folder("c") as scratch:
        folder = Path(scratch) / "program"
        write_artifact(artifact, folder)
        quantized = read_quantized(folder / "network.q.npz", max_bytes=sys.maxsize)
        channels = fixed_channels(quantized, signature_network(quantized), record)
        arrays, batched = integer_inputs(quantized, inputs, steps)
        length, samples = next(iter(arrays.values())).shape[:2]
        requested = required_variables(channels)
        run = _Run(c_plan(quantized), folder, length, samples)
        progress("compile", 0.0)
        found = run.recorded(arrays, needed_arrays(quantized, requested), compiler)
        progress("run", 1.0)
    recorder = ChannelRecorder(channels, 0, length, samples)
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend="c"))


class _Run:
    """One compiled run: its plan, its folder, and the shape of its inputs."""

    def __init__(self, plan: CPlan, folder: Path, steps: int, samples: int) -> None:
        self.plan, self.folder, self.steps, self.samples = plan, folder, steps, samples

    def recorded(self, inputs: Mapping[str, Array], keys: set[Key], compiler: Sequence[str]) -> dict[Key, Array]:
        """The arrays of the run, flat over neurons: ``[steps, samples, neurons]``."""
        kept = kept_arrays(self.plan, keys)
        write_new(self.folder / "driver.c", driver_text(self.plan, kept).encode("ascii"))
        flags = (*FLAGS, "-DNB_TRACE")
        with compile_time():
            program = compile_program(self.folder, ("driver.c", "model.c"), "driver", flags, compiler)
        self._write_inputs(inputs)
        self._execute(program)
        return self._read(kept)

    def _write_inputs(self, inputs: Mapping[str, Array]) -> None:
        with create_file(self.folder / "in.bin") as file:
            typed = [
                inputs[port.name].reshape(self.steps, self.samples, -1).astype(numpy_type(input_type(source)))
                for port, source in zip(self.plan.quantized.inputs, self.plan.inputs, strict=True)
            ]
            for sample in range(self.samples):
                for step in range(self.steps):
                    for values in typed:
                        file.write(values[step, sample].tobytes())

    def _execute(self, program: Path) -> None:
        seconds = START_S + OPERATION_S * self._operations() * self.steps * self.samples
        command = [str(program), str(self.samples), str(self.steps)]
        with open_file(self.folder / "in.bin") as source, create_file(self.folder / "out.bin") as target:
            run_to_end(command, self.folder, seconds, stdin=source, stdout=target)

    def _operations(self) -> int:
        synaptic = sum(synaptic_operations(s.projection.operator) for s in self.plan.synapses)
        return synaptic + 10 * sum(n.source.size for n in self.plan.neurons)

    def _read(self, kept: Sequence[tuple[Neurons, str]]) -> dict[Key, Array]:
        fields = [(f"{n.id}_{v}", numpy_type(n.kind), (n.source.size,)) for n, v in kept]
        if not fields:
            return {}
        with open_file(self.folder / "out.bin") as file:
            rows = np.fromfile(file, np.dtype(fields))
        if len(rows) != self.steps * self.samples:
            raise ModelError.of("program", f"wrote {len(rows)} of {self.steps * self.samples} time steps")
        by_step = rows.reshape(self.samples, self.steps).T
        return {(n.population.name, v): by_step[f"{n.id}_{v}"].astype(np.int64) for n, v in kept}
