"""Emitted C programs in folders, compiled for this machine and for others."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.c.emit import C
from nirbridge.network.operators import Dense
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe
from tests.emitters.hand_made import (
    dense,
    ints,
    neuron,
    population,
    projection,
    quantized,
    random_network,
    together,
)
from tests.tools import needs

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wpedantic", "-Wshadow", "-Wsign-conversion")
ALL = [Probe("*", ("s", "u", "v"))]
M4 = ("-mcpu=cortex-m4", "-mthumb", "-Os")
BOARD = Path(__file__).with_name("cortex_m4")
LINK = ("-nostartfiles", "--specs=rdimon.specs", "-T", str(BOARD / "mps2.ld"))
"""A program without an operating system, with ``BOARD / "start.c"``."""


def whole(q: QuantizedNetwork) -> QuantizedNetwork:
    """A network made by hand with a latency for every node, as files need it."""
    nodes = (*q.inputs, *q.populations, *q.outputs)
    return replace(q, latency=MappingProxyType({node.name: 0 for node in nodes}))


def random_networks(seeds: Sequence[int]) -> QuantizedNetwork:
    """Several random networks as one."""
    return whole(together([random_network(seed, f"n{seed} ") for seed in seeds]))


def wide_matrices() -> QuantizedNetwork:
    """Rows of 130 targets that are added in groups: weights of 8 and 16 bits, two scales in a sum, sums of 64 bits."""
    rng = np.random.default_rng(7)
    wide = replace(neuron(du=100, dv=3, fires_above=1 << 36), u_bits=40, v_bits=41)
    soft = neuron(reset="subtract", reset_amount=9000, fires_above=9000)
    bytes_, words = Dense(ints(rng.integers(0, 256, (130, 60)))), dense(rng, 130, 60)
    edges = [
        projection("in", "plain", words, weight_exp=1),
        projection("plain", "plain", dense(rng, 130, 130, 9), delay_steps=3),
        projection("in", "large", bytes_, sign_mode="excitatory"),
        projection("plain", "large", dense(rng, 130, 130), delay_steps=np.arange(130) % 4 + 1),
        projection("large", "huge", replace(words, weight=ints(2 * rng.integers(-40, 128, (130, 130)))), weight_exp=15),
    ]
    cells = [population("plain", (130,), soft), population("large", (130,), neuron(fires_above=1 << 18))]
    cells += [population("huge", (130,), wide)]
    return whole(quantized([FixedInput("in", (60,))], cells, edges, ["plain", "large", "huge"]))


def random_inputs(q: QuantizedNetwork, steps: int, samples: int = 2, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found = {}
    for port in q.inputs:
        shape = (steps, samples, *port.shape)
        values = rng.integers(-port.value_max, port.value_max + 1, shape) * port.scale
        found[port.name] = values if port.graded else (rng.random(shape) < 0.3).astype(np.uint8)
    return found


def assert_equal_to_fixed(
    q: QuantizedNetwork, inputs: Any, record: list[Probe] | None = ALL, steps: int | None = None
) -> dict[Any, Array]:
    """Every recorded array of the compiled program is that of the fixed-point simulator, in every bit."""
    fixed = simulate_fixed(q, inputs, record=record, steps=steps).recording.arrays
    found = C.run(C.emit(q), inputs, record=record, steps=steps).arrays
    assert set(found) == set(fixed)
    for key, array in fixed.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array), key
    return dict(fixed)


def written(q: QuantizedNetwork, folder: Path) -> Path:
    write_artifact(C.emit(q), folder)
    return folder


def as_text(q: QuantizedNetwork, inputs: dict[str, Array], sample: int = 0) -> str:
    """Inputs as lines of ``main.c``."""
    joined = [np.asarray(inputs[p.name])[:, sample].reshape(len(inputs[p.name]), -1) / p.scale for p in q.inputs]
    lines = []
    for row in np.concatenate(joined, axis=1).round().astype(int):
        lines.append(" ".join(f"{i}" if row[i] == 1 else f"{i}:{row[i]}" for i in np.nonzero(row)[0]))
    return "\n".join(lines) + "\n"


def expected_text(q: QuantizedNetwork, inputs: dict[str, Array], sample: int = 0) -> str:
    """The lines that ``main.c`` prints, from the fixed-point simulator."""
    read = {r.source for r in q.reads}
    shown = [p for p in q.populations if p.name in read]
    probes = [Probe(p.name, ("s" if p.neuron.fires else "v",)) for p in shown]
    one = {name: values[:, sample] for name, values in inputs.items()}
    arrays = simulate_fixed(q, one, record=probes).recording.arrays
    parts = [arrays[p.name, "s" if p.neuron.fires else "v"].astype(np.int64) for p in shown]
    rows = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    binary = np.concatenate([np.full(p.size, p.neuron.fires and p.neuron.max_spikes == 1) for p in shown])
    return "".join(
        " ".join(f"{i}" if binary[i] else f"{i}:{row[i]}" for i in np.nonzero(row)[0]) + "\n" for row in rows
    )


def run(command: Sequence[str | Path], folder: Path, text: str = "") -> str:
    """The output of a command, which has to succeed."""
    done = subprocess.run(list(map(str, command)), cwd=folder, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def run_on_m4(program: str, folder: Path, text: str = "", options: Sequence[str] = ()) -> str:
    """The output of a program on a Cortex-M4 in QEMU; semihosting carries its files."""
    machine = ["-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none", *options]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    return run([needs("qemu-arm"), *machine, *semihosting, "-kernel", program], folder, text)
