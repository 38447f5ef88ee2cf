"""Network D as a C++ program of brian2, built in a separate environment (it needs numpy below 2).

Run as a script by that environment's interpreter it writes the program; the class here builds and runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# brian2's own, but for the two that keep every product and sum as it is written: so that spikes can be compared.
FLAGS = "-w -O3 -ffast-math -fno-finite-math-only -fno-associative-math -ffp-contract=off -march=native -std=c++11"


@dataclass(frozen=True, slots=True)
class Brian2:
    """A built program; its folder is removed when the last reference goes."""

    folder: Any

    @classmethod
    def build(cls, net: Any, python: str) -> Brian2:
        """Generates and compiles the program for net D.

        Raises:
            RuntimeError: the environment cannot; its words are in the message.
        """
        folder = tempfile.TemporaryDirectory()
        where = Path(folder.name)
        np.savez(where / "net.npz", steps=net.steps, **net.weights)
        done = subprocess.run([python, __file__, folder.name], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"brian2 did not build: {done.stderr[-2000:]}")
        return cls(folder)

    def run(self) -> float:
        """Seconds that the program says its loop over the steps took."""
        code = Path(self.folder.name) / "code"
        subprocess.run([str(code / "main")], cwd=code, check=True, capture_output=True)
        return float((code / "results" / "last_run_info.txt").read_text().split()[0])

    def spikes(self, shape: tuple[int, int]) -> Any:
        """Spikes of the last run, ``[steps, neurons]`` uint8."""
        found = np.zeros(shape, np.uint8)
        results = Path(self.folder.name) / "code" / "results"
        (times,) = results.glob("_dynamic_array_spikemonitor_t*")
        (who,) = (p for p in results.glob("_dynamic_array_spikemonitor_i*"))
        steps = np.rint(np.fromfile(times, np.float64) / 1e-3).astype(np.int64)
        found[steps, np.fromfile(who, np.int32)] = 1
        return found


def write_program(folder: str) -> None:
    """The model of net D: x gathers the spikes of the step before, v decays, x and the drive are added."""
    import brian2 as b

    data = np.load(Path(folder) / "net.npz")
    b.prefs.core.default_float_dtype = np.float32
    b.prefs.codegen.cpp.extra_compile_args_gcc = FLAGS.split()
    b.set_device("cpp_standalone", build_on_run=False)
    b.defaultclock.dt = 1 * b.ms
    size = len(data["drive"])
    cells = b.NeuronGroup(
        size, "v : 1\nx : 1\ndrive : 1 (constant)\ndecay : 1 (constant, shared)", threshold="v > 1", reset="v = 0"
    )
    cells.run_regularly("v = decay * v + x + drive\nx = 0", dt=1 * b.ms)
    cells.v, cells.drive, cells.decay = data["start"], data["drive"], 0.96875
    synapses = b.Synapses(cells, cells, "w : 1 (constant)", on_pre="x_post += w")
    synapses.connect(i=data["indices"], j=np.repeat(np.arange(size), np.diff(data["indptr"])))
    synapses.w = data["data"]
    monitor = b.SpikeMonitor(cells)
    network = b.Network(cells, synapses, monitor)
    network.run(int(data["steps"]) * b.ms)
    b.device.build(directory=os.path.join(folder, "code"), compile=True, run=False)


if __name__ == "__main__":
    write_program(sys.argv[1])
