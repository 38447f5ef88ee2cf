"""The programs that are timed: each compares its result, and then gives seconds per time step as often as requested.

A program runs one sample (batch 1) over all time steps, warm: it was run before. Times are CPU seconds of one thread;
of Lava, whose neurons are processes, seconds of the clock.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.lava import Clock
from benchmarks.programs_nets import Case
from benchmarks.programs_snn_mlir import LOOP, TURN_S, SnnMlirProgram
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.c.emit import emit as emit_c
from nirbridge.emitters.c.plan import c_plan
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.simulate import prepare_simulator, simulate
from nirbridge.simulators.types import Probe, Recording

LAVA_STEPS = 1000
"""Its progress is read every 0.1 s; the input is repeated."""
C_MAKE, C_FASTEST = "C, as emitted", "C, gcc -O3 -march=native"
NUMBA, NUMBA_FLOAT = "nirbridge, integers", "nirbridge, float32"
ORT, ORT_FLOAT = "ONNX Runtime, integers", "ONNX Runtime, float32"
LAVA, SNN_MLIR = "Lava", "snn-mlir, float32"
FLAGS: Mapping[str, str | None] = {C_MAKE: None, C_FASTEST: "-O3 -march=native"}
"""Flags of the compiler; None: those of the emitted Makefile."""

_DRIVER = (
    """#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "model.h"
static nb_model model;
static nb_inputs in[@STEPS@];
static nb_outputs out[@STEPS@];
static void once(void)
{
    nb_reset(&model);
    for (long t = 0; t < @STEPS@; ++t) {
        nb_step(&model, &in[t]);
        out[t] = model.out;
    }
}
"""
    + LOOP
)


class Program(Protocol):
    """A program on one input."""

    def differing(self) -> int:
        """Values of the result that are not those of the simulator that it has to equal."""
        ...

    def turn(self) -> float:
        """Seconds per time step."""
        ...


@dataclass(frozen=True, slots=True)
class Called:
    """A function of this process that returns the output; ``expected`` has as many values."""

    run: Callable[[], Array]
    expected: Array
    steps: int

    def differing(self) -> int:
        """See ``Program``."""
        return int((np.asarray(self.run()).reshape(-1) != self.expected.reshape(-1)).sum())

    def turn(self) -> float:
        """See ``Program``."""
        runs, start = 0, time.process_time()
        while runs == 0 or time.process_time() - start < TURN_S:
            self.run()
            runs += 1
        return (time.process_time() - start) / runs / self.steps


class CProgram:
    """An emitted C program beside a loop that reads the clock of its own process."""

    def __init__(self, folder: Path, quantized: QuantizedNetwork, spikes: Array, flags: str | None) -> None:
        self.folder = folder / "program"
        write_artifact(emit_c(quantized), self.folder)
        self.quantized, self.spikes = quantized, spikes
        (self.folder / "bench.c").write_text(_DRIVER.replace("@STEPS@", str(len(spikes))), encoding="ascii")
        self.build(self.folder, flags)

    @staticmethod
    def build(folder: Path, flags: str | None) -> None:
        """Compiles the emitted files with ``flags`` (None: with those of their Makefile), and the loop."""
        words = [] if flags is None else ["CC=gcc", f"CFLAGS={flags}"]
        for command in (["make", "-s", "model.o", *words], ["cc", "-O2", "-o", "bench", "bench.c", "model.o"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def _output(self, limit: float) -> bytes:
        given = np.ascontiguousarray(self.spikes, np.uint8).tobytes()
        command = ["./bench", str(limit)]
        return subprocess.run(command, cwd=self.folder, input=given, stdout=subprocess.PIPE, check=True).stdout

    def differing(self) -> int:
        """See ``Program``: of all populations that outputs read."""
        shown = c_plan(self.quantized).shown
        fields = [(n.id, n.out_type.removesuffix("_t"), (n.source.size,)) for n in shown]
        rows = np.frombuffer(self._output(0), np.dtype(fields, align=True))
        probes = [Probe(n.population.name, ("s" if n.population.neuron.fires else "v",)) for n in shown]
        arrays = FixedSimulator(self.quantized).run(self.spikes, record=probes).recording.arrays
        wanted = [arrays[p.node, p.variables[0]].reshape(len(rows), -1) for p in probes]
        return sum(int((rows[n.id] != w).sum()) for n, w in zip(shown, wanted, strict=True))

    def turn(self) -> float:
        """See ``Program``."""
        return float(self._output(TURN_S))


class LavaProgram:
    """An emitted Lava program; a turn is a run of its processes, from its first time step to its last."""

    def __init__(self, folder: Path, quantized: QuantizedNetwork, spikes: Array) -> None:
        from nirbridge.emitters.lava.emit import emit

        self.folder = folder / "program"
        write_artifact(emit(quantized), self.folder)
        self.quantized = quantized
        self.spikes = np.resize(spikes, (LAVA_STEPS, *spikes.shape[1:]))
        self.seconds: list[float] = []

    def _recording(self) -> Recording:
        from nirbridge.emitters.lava.runtime.run import run_program

        clock = Clock()
        found = run_program(self.folder, {self.quantized.inputs[0].name: self.spikes}, progress=clock)
        self.seconds.append(1 / clock.steps_per_s(len(self.spikes)))
        return found

    def differing(self) -> int:
        """See ``Program``."""
        found = self._recording().arrays
        wanted = FixedSimulator(self.quantized).run(self.spikes).recording.arrays
        return sum(int((found[key] != array).sum()) for key, array in wanted.items())

    def turn(self) -> float:
        """See ``Program``: that of the run before, the first time."""
        if not self.seconds:
            self._recording()
        return self.seconds.pop(0)


def programs(
    case: Case, quantized: QuantizedNetwork, snn_mlir: str | None = None
) -> Iterator[tuple[str, Callable[[Path], Program]]]:
    """(name, function that builds it in a folder) of every program; ``snn_mlir``: an interpreter with this package."""
    spikes, steps = case.spikes, len(case.spikes)
    fixed = FixedSimulator(quantized)
    (integers,) = fixed.run(spikes).recording.arrays.values()
    (reals,) = simulate(case.network, spikes, backend="numpy").recording.arrays.values()
    for name, flags in FLAGS.items():
        yield name, lambda folder, flags=flags: CProgram(folder, quantized, spikes, flags)
    yield NUMBA, lambda _: Called(_ours(fixed, spikes), integers, steps)
    yield NUMBA_FLOAT, lambda _: Called(_ours(prepare_simulator(case.network), spikes), reals, steps)
    for name, build, model, expected in (
        (ORT, _onnxruntime, quantized, integers),
        (ORT_FLOAT, _onnxruntime, case.network, reals),
    ):
        yield name, lambda _, b=build, m=model, e=expected: Called(b(m, spikes), e, steps)
    yield LAVA, lambda folder: LavaProgram(folder, quantized, spikes)
    yield SNN_MLIR, lambda folder: SnnMlirProgram(folder, snn_mlir, case, reals)


def _ours(ready: Any, spikes: Array) -> Callable[[], Array]:
    def run() -> Array:
        (values,) = ready.run(spikes).recording.arrays.values()
        return values

    return run


def _model(model: Any, spikes: Array) -> tuple[bytes, Array]:
    """A model of ONNX and its input."""
    from nirbridge.emitters.onnx.emit import emit

    files = emit(model).files
    (port,) = json.loads(files["program.json"])["inputs"]
    return files["model.onnx"], spikes[:, None].astype(port["dtype"])


def _onnxruntime(model: Any, spikes: Array) -> Callable[[], Array]:
    import onnxruntime

    content, values = _model(model, spikes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, {"in0": values})[0])
