"""Compiles an emitted C program with a driver that moves arrays in and out, and runs it with a time limit."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.c.costs import synaptic_operations
from nirbridge.emitters.c.options import COptions, recorded_options
from nirbridge.emitters.c.plan import CPlan, Neurons, c_plan
from nirbridge.emitters.c.render import input_type
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.own_time import compile_time
from nirbridge.errors import ModelError, ToolMissing, UsageError, quoted
from nirbridge.files.atomic import create_file, write_new
from nirbridge.files.regular import open_file
from nirbridge.files.scratch import temporary_folder
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
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
        options = recorded_options(artifact)
        quantized = read_quantized(folder / "network.q.npz", max_bytes=sys.maxsize)
        channels = fixed_channels(quantized, signature_network(quantized), record)
        arrays, batched = integer_inputs(quantized, inputs, steps)
        length, samples = next(iter(arrays.values())).shape[:2]
        requested = required_variables(channels)
        run = _Run(c_plan(quantized), options, folder, length, samples)
        progress("compile", 0.0)
        found = run.recorded(arrays, needed_arrays(quantized, requested), compiler)
        progress("run", 1.0)
    recorder = ChannelRecorder(channels, 0, length, samples)
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend="c"))


class _Run:
    """One compiled run: its plan, its names, its folder, and the shape of its inputs."""

    def __init__(self, plan: CPlan, options: COptions, folder: Path, steps: int, samples: int) -> None:
        self.plan, self.options, self.folder, self.steps, self.samples = plan, options, folder, steps, samples

    def recorded(self, inputs: Mapping[str, Array], keys: set[Key], compiler: Sequence[str]) -> dict[Key, Array]:
        """The arrays of the run, flat over neurons: ``[steps, samples, neurons]``."""
        kept = kept_arrays(self.plan, keys)
        write_new(self.folder / "driver.c", driver_text(self.plan, kept, self.options).encode("ascii"))
        place = self.options.folder
        flags = (*FLAGS, self.options.renamed("-DNB_TRACE"), *([f"-I{place}"] if place else []))
        sources = ("driver.c", f"{place}{self.options.stem}.c")
        with compile_time():
            program = compile_program(self.folder, sources, "driver", flags, compiler)
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
        synaptic = sum(synaptic_operations(s.operator) for s in self.plan.synapses)
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


# -- driver --------------------------------------------------------------------------------------------------------
# The program that a run compiles beside the emitted files: arrays in, arrays out, as bytes.

_TEXT = """/* Reads the inputs of every time step as bytes, and writes the recorded arrays.
   The line on stderr has the time of nb_step alone, without reading and writing. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "@STEM@.h"

static nb_model model;
static nb_inputs in;

static double now(void)
{
    struct timespec moment = {0, 0};

    clock_gettime(CLOCK_MONOTONIC, &moment);
    return (double)moment.tv_sec + 1e-9 * (double)moment.tv_nsec;
}

int main(int count, char **words)
{
    const long samples = count > 2 ? atol(words[1]) : 1, steps = count > 2 ? atol(words[2]) : 0;
    double seconds = 0.0;

    for (long k = 0; k < samples; ++k) {
        nb_reset(&model);
        for (long t = 0; t < steps; ++t) {
@READ@
            const double start = now();
            nb_step(&model, &in);
            seconds += now() - start;
@WRITE@
        }
    }
    fprintf(stderr, "time steps took %.9f s\\n", seconds);
    return fflush(stdout) != 0;
}
"""
_INDENT = " " * 12


def kept_arrays(plan: CPlan, keys: Collection[Key]) -> list[tuple[Neurons, str]]:
    """(population, variable) of the requested arrays, in a fixed order."""
    return [(n, v) for n in plan.neurons for v in n.step.variables if (n.population.name, v) in keys]


def driver_text(plan: CPlan, kept: Sequence[tuple[Neurons, str]], options: COptions) -> str:
    """The file ``driver.c``."""
    read = [_checked("fread", f"in.{source.id}", "stdin") for source in plan.inputs]
    write = [_checked("fwrite", f"model.{n.id}_{variable}", "stdout") for n, variable in kept]
    text = options.renamed(_TEXT.replace("@STEM@", options.stem))
    return text.replace("@READ@", "\n".join(read)).replace("@WRITE@", "\n".join(write))


def _checked(function: str, array: str, stream: str) -> str:
    return f"{_INDENT}if ({function}({array}, sizeof {array}, 1, {stream}) != 1)\n{_INDENT}    return 3;"


def numpy_type(kind: str) -> str:
    """The numpy type of a C type, in the order of bytes of this machine."""
    return kind.removesuffix("_t")


# -- toolchain -----------------------------------------------------------------------------------------------------

NAMES = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3")
COMPILE_S = 300.0
_LOG = 4000


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: ``$CC``, else cc, gcc or clang, else that of the package ziglang.

    Raises:
        ToolMissing: there is none.
        UsageError: ``$CC`` names none.
    """
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        if shutil.which(named[0]) is None:
            hint = "correct or unset the variable CC, which names it"
            raise UsageError.of(f"compiler {quoted(named[0])}", "is not on this machine", "", hint)
        return tuple(named)
    for name in NAMES:
        if shutil.which(name) is not None:
            return (name,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    hint = "install gcc (Debian: apt install gcc libc6-dev), or: pip install ziglang"
    raise ToolMissing.of("emitter 'c'", "no C compiler on this machine", "programs of C are compiled to be run", hint)


def compile_program(
    folder: Path, sources: Sequence[str], out: str, flags: Sequence[str] = FLAGS, compiler: Sequence[str] | None = None
) -> Path:
    """Compiles files of a folder; returns the program.

    Raises:
        UsageError: no compiler.
        ModelError: the compiler refuses the files; its messages are in ``log``.
    """
    command = [*(compiler or find_compiler()), *flags, "-o", out, *sources]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=COMPILE_S, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError.of(
            "program", f"was not compiled within {COMPILE_S:.0f} s", "", "emit a smaller network"
        ) from None
    if done.returncode != 0:
        log = done.stderr.decode("utf-8", "replace")[:_LOG].strip()
        shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in log)
        raise ModelError.of("program", f"the compiler refused it:\n{shown}", "", "", log=shown)
    return folder / out
