"""The program of snn-mlir, timed as other programs in C: its function in a loop of ours, warm.

The package writes the network as MLIR, and compiles it with its own tools; see "snn-mlir" in docs/programs.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path

import nir
import numpy as np

import nirbridge as nb
from benchmarks.programs_nets import Case
from nirbridge.arrays import Array
from nirbridge.errors import ExportWarning

TURN_S = 0.1
"""CPU time of a turn, at least one run."""
UNLOWERED = "memref.subview"
"""Left by the package's list of passes where a convolution is padded."""
FURTHER_PASS = "-expand-strided-metadata"

LOOP = """int main(int count, char **words)
{
    const double limit = count > 1 ? atof(words[1]) : 0.0;
    long runs = 0;
    clock_t start;
    if (fread(in, sizeof in, 1, stdin) != 1)
        return 3;
    once();
    if (limit <= 0.0)
        return fwrite(out, sizeof out, 1, stdout) != 1;
    start = clock();
    do {
        once();
        ++runs;
    } while ((double)(clock() - start) / CLOCKS_PER_SEC < limit);
    printf("%.9g", (double)(clock() - start) / CLOCKS_PER_SEC / (double)runs / @STEPS@.0);
    return 0;
}
"""
"""Runs ``once`` on the input that it reads, and writes the output; with an argument the seconds per time step."""

_DRIVER = (
    """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static float in[@STEPS@][@INPUT@];
static float out[@STEPS@][@OUTPUT@];
@BUFFERS@
extern void _mlir_ciface_snn_forward_step(@TYPES@);
static void once(void)
{
@RESETS@
    for (long t = 0; t < @STEPS@; ++t) {
        d0.allocated = d0.aligned = in[t];
        d@LAST@.allocated = d@LAST@.aligned = out[t];
        _mlir_ciface_snn_forward_step(@ARGUMENTS@);
    }
}
"""
    + LOOP
)


class Absent(Exception):
    """A program that cannot be had here, or that does not take the network; the message says which."""


class SnnMlirProgram:
    """The object file that the package snn-mlir of another interpreter makes of the network, in float32."""

    def __init__(self, folder: Path, python: str | None, case: Case, expected: Array) -> None:
        if python is None:
            raise Absent("absent: see below")
        self.folder, self.spikes, self.expected = folder, case.spikes, expected
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExportWarning)  # the results are compared below
            nb.save(case.network if case.file is None else nir.read(case.file), self.folder / "network.nir")
        np.save(self.folder / "input.npy", case.spikes.reshape(len(case.spikes), -1).astype(np.int64))
        message = self._compiled(python, {})
        if UNLOWERED in message:
            message = self._compiled(python, {"MLIR_DIR": str(tools_with_further_pass(self.folder))})
        if message:
            raise Absent(message[:300])
        (self.folder / "bench.c").write_text(driver(self.folder / "build" / "network.mlir", len(case.spikes)))
        command = ["cc", "-O2", "-o", "bench", "bench.c", "build/network.o", "-lm"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def _compiled(self, python: str, variables: dict[str, str]) -> str:
        """The message of a failure, or an empty text."""
        command = [python, "-m", "snn_mlir", "run", str(self.folder)]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        return "" if done.returncode == 0 else " ".join(done.stderr.split())

    def _output(self, limit: float) -> bytes:
        given = np.ascontiguousarray(self.spikes, np.float32).tobytes()
        command = ["./bench", str(limit)]
        return subprocess.run(command, cwd=self.folder, input=given, stdout=subprocess.PIPE, check=True).stdout

    def differing(self) -> int:
        """Values of the output that are not those of the reference."""
        return int((np.frombuffer(self._output(0), np.float32) != self.expected.reshape(-1)).sum())

    def turn(self) -> float:
        """Seconds per time step."""
        return float(self._output(TURN_S))


def tools_with_further_pass(folder: Path) -> Path:
    """A folder for ``MLIR_DIR`` whose ``mlir-opt`` runs ``FURTHER_PASS`` before the loops are lowered."""
    place = os.environ.get("MLIR_DIR")
    found = {
        tool: str(Path(place, "../../../bin", tool).resolve()) if place else shutil.which(tool)
        for tool in ("mlir-opt", "mlir-translate", "llc")
    }
    cmake, programs = folder / "llvm/lib/cmake/mlir", folder / "llvm/bin"
    cmake.mkdir(parents=True)
    programs.mkdir()
    for tool, path in found.items():
        script = f'exec {shlex.quote(str(path))} "$@"\n'
        if tool == "mlir-opt":
            insert = f'for a; do shift; [ "$a" = -lower-affine ] && set -- "$@" {FURTHER_PASS}; set -- "$@" "$a"; done'
            script = f"{insert}\n{script}"
        (programs / tool).write_text(f"#!/bin/sh\n{script}")
        (programs / tool).chmod(0o755)
    return cmake


def driver(module: Path, steps: int) -> str:
    """A loop in C that calls the function of ``module`` with its arguments: input, states, output."""
    text = module.read_text()
    head = text[text.index("func.func") : text.index("attributes")]
    shapes = [tuple(map(int, dims.split("x")[:-1])) for dims in re.findall(r"memref<((?:\d+x)+)f32>", head)]
    last = len(shapes) - 1
    sizes = [int(np.prod(shape)) for shape in shapes]
    states = range(1, last)
    buffers = [f"static float b{k}[{sizes[k]}];" for k in states]
    buffers += [_descriptor(k, shape, "0" if k in (0, last) else f"b{k}") for k, shape in enumerate(shapes)]
    parts = {
        "STEPS": str(steps),
        "INPUT": str(sizes[0]),
        "OUTPUT": str(sizes[last]),
        "BUFFERS": "\n".join(buffers),
        "TYPES": ", ".join(f"struct m{k} *" for k in range(len(shapes))),
        "RESETS": "\n".join(f"    memset(b{k}, 0, sizeof b{k});" for k in states),
        "LAST": str(last),
        "ARGUMENTS": ", ".join(f"&d{k}" for k in range(len(shapes))),
    }
    filled = _DRIVER
    for name, part in parts.items():
        filled = filled.replace(f"@{name}@", part)
    return filled


def _descriptor(k: int, shape: tuple[int, ...], buffer: str) -> str:
    """MLIR's descriptor of a contiguous array, as a structure of C."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    fields = f"float *allocated, *aligned; int64_t offset, sizes[{len(shape)}], strides[{len(shape)}];"
    numbers = f"{{{', '.join(map(str, shape))}}}, {{{', '.join(map(str, strides))}}}"
    return f"static struct m{k} {{ {fields} }} d{k} = {{{buffer}, {buffer}, 0, {numbers}}};"
