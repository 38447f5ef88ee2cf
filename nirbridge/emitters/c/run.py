"""Compiles an emitted C program with a driver that moves arrays in and out, and runs it with a time limit."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document, write_artifact
from nirbridge.emitters.c.options import COptions, recorded_options
from nirbridge.emitters.c.plan import FLOAT, c_plan
from nirbridge.emitters.c.render import input_type
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.own_time import compile_time
from nirbridge.emitters.ports import NETWORK, PROGRAM
from nirbridge.emitters.program_runs import Ran, quantized_of, record_program
from nirbridge.errors import FileError, ModelError, ToolMissing, UsageError, quoted
from nirbridge.files.atomic import create_file, write_new
from nirbridge.files.regular import open_file
from nirbridge.files.scratch import temporary_folder
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
    options = recorded_options(artifact)
    started = partial(_Run, artifact, options, compiler, progress)
    if options.in_reals:
        return record_program(artifact, inputs, steps, record, partial(_of_reals, started))
    quantized = quantized_of(artifact.files[NETWORK])
    channels = fixed_channels(quantized, signature_network(quantized), record)
    arrays, batched = integer_inputs(quantized, inputs, steps)
    length, samples = next(iter(arrays.values())).shape[:2]
    requested = required_variables(channels)
    plan, keys = c_plan(quantized, hops=options.hops), needed_arrays(quantized, requested)
    quantized = plan.quantized
    ports = {p.name: Field(f"in.{s.id}", input_type(s)) for p, s in zip(quantized.inputs, plan.inputs, strict=True)}
    fields = {
        (n.population.name, v): Field(f"model.{n.id}_{v}", n.kind, n.source.size)
        for n in plan.neurons
        for v in n.step.variables
        if (n.population.name, v) in keys
    }
    found = started(length, samples).recorded(arrays, ports, fields)
    recorder = ChannelRecorder(channels, 0, length, samples)
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend="c"))


class Field(NamedTuple):
    """An array of a program: its text in C, the type of its elements, and their number where it is recorded."""

    text: str
    type: str
    size: int = 0


def _of_reals(started: Callable[..., _Run], facts: Any, values: Mapping[str, Array], keys: set[Key], steps: int) -> Ran:
    """A run in float32, from what ``program.json`` says."""
    ports = {p["name"]: Field(f"in.{_word(p['id'])}", FLOAT) for p in facts["inputs"]}
    sizes = {x["name"]: math.prod(x["shape"]) for x in (*facts["nodes"], *facts["outputs"])}
    variables = {(n["name"], v): _word(field) for n in facts["nodes"] for v, field in n["variables"].items()}
    fields = {key: Field(f"model.{variables[key]}", FLOAT, sizes[key[0]]) for key in sorted(keys)}
    kinds = {name: Field(f"model.{_word(text)}", _word(kind), sizes[name]) for name, (text, kind) in
             facts["fields"].items()}  # fmt: skip
    shapes = {p["name"]: tuple(p["shape"]) for p in facts["outputs"]}
    outputs = {(name, OUTPUT): field for name, field in kinds.items()}
    samples = next(iter(values.values())).shape[1] if values else 1
    found = started(steps, samples).recorded(values, ports, {**fields, **outputs})
    given = {name: found.pop((name, OUTPUT)).reshape(steps, samples, *shapes[name]) for name in kinds}
    return found, given


OUTPUT = "out"
"""In place of a variable: the value of an output."""


def _word(text: str) -> str:
    """A name of a field or a type, as ``emit`` writes them. Raises FileError."""
    if re.fullmatch(r"(out\.)?[a-z][a-z0-9_]*", text) is None:
        raise FileError.of("program", f"a field {quoted(text)} in its {PROGRAM}", "", "emit the program again")
    return text


@dataclass(frozen=True, slots=True)
class _Run:
    """One compiled run of a program: its names, and the shape of its inputs."""

    artifact: Artifact
    options: COptions
    compiler: Sequence[str]
    progress: Progress
    steps: int
    samples: int

    def recorded(
        self, inputs: Mapping[str, Array], ports: Mapping[str, Field], fields: Mapping[Key, Field]
    ) -> dict[Key, Array]:
        """The arrays of the run, flat over neurons: ``[steps, samples, neurons]``; integers as int64."""
        with temporary_folder("c") as scratch:
            folder, place = Path(scratch) / "program", self.options.folder
            write_artifact(self.artifact, folder)
            write_new(folder / "driver.c", driver_text(ports, fields, self.options).encode("ascii"))
            flags = (*FLAGS, self.options.renamed("-DNB_TRACE"), *([f"-I{place}"] if place else []))
            sources = ("driver.c", f"{place}{self.options.stem}.c")
            self.progress("compile", 0.0)
            with compile_time():
                program = compile_program(folder, sources, "driver", flags, self.compiler)
            self._write_inputs(folder, [inputs[name].astype(numpy_type(f.type)) for name, f in ports.items()])
            self._execute(folder, program)
            found = self._read(folder, fields)
            self.progress("run", 1.0)
        return found

    def _write_inputs(self, folder: Path, arrays: Sequence[Array]) -> None:
        with create_file(folder / "in.bin") as file:
            typed = [a.reshape(self.steps, self.samples, -1) for a in arrays]
            for sample in range(self.samples):
                for step in range(self.steps):
                    for values in typed:
                        file.write(values[step, sample].tobytes())

    def _execute(self, folder: Path, program: Path) -> None:
        about = read_document(self.artifact, MANIFEST, {"costs": dict[str, dict[str, int]]})
        operations = about["costs"]["operations_per_step"]
        count = operations["synaptic_most"] + 10 * operations["neuron_updates"]
        seconds = START_S + OPERATION_S * count * self.steps * self.samples
        command = [str(program), str(self.samples), str(self.steps)]
        with open_file(folder / "in.bin") as source, create_file(folder / "out.bin") as target:
            run_to_end(command, folder, seconds, stdin=source, stdout=target)

    def _read(self, folder: Path, fields: Mapping[Key, Field]) -> dict[Key, Array]:
        types = [(f"f{k}", numpy_type(f.type), (f.size,)) for k, f in enumerate(fields.values())]
        if not types:
            return {}
        with open_file(folder / "out.bin") as file:
            rows = np.fromfile(file, np.dtype(types))
        if len(rows) != self.steps * self.samples:
            raise ModelError.of("program", f"wrote {len(rows)} of {self.steps * self.samples} time steps")
        by_step = rows.reshape(self.samples, self.steps).T
        found = {key: by_step[f"f{k}"] for k, key in enumerate(fields)}
        return {key: a if fields[key].type == FLOAT else a.astype(np.int64) for key, a in found.items()}


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


def driver_text(ports: Mapping[str, Field], fields: Mapping[Key, Field], options: COptions) -> str:
    """The file ``driver.c``."""
    read = [_checked("fread", f.text, "stdin") for f in ports.values()]
    write = [_checked("fwrite", f.text, "stdout") for f in fields.values()]
    text = options.renamed(_TEXT)
    return text.replace("@READ@", "\n".join(read)).replace("@WRITE@", "\n".join(write))


def _checked(function: str, array: str, stream: str) -> str:
    return f"{_INDENT}if ({function}({array}, sizeof {array}, 1, {stream}) != 1)\n{_INDENT}    return 3;"


def numpy_type(kind: str) -> str:
    """The numpy type of a C type, in the order of bytes of this machine."""
    return "float32" if kind == FLOAT else kind.removesuffix("_t")


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
