"""Time steps per second of the fixed-point simulator and of Lava on the same quantized networks, asserted equal.

python -m benchmarks.lava [--sizes 100,1000,10000] [--firing rare,some,much] [--steps 1000] [-o FILE.json]

Two layers of N neurons: dense up to 1,000 neurons, sparse with 100 synapses per neuron above. Firing: 'rare' has input
spikes at 5 % and high thresholds, 'some' 15 % and lower ones, 'much' 50 % and thresholds that about half of the neurons
reach in a time step; the table gives the measured rates. Both run the same integers on the same input; spikes of both
layers are recorded and compared, u and v in another run of 30 time steps. Lava's time is wall clock from its first to
its last time step as recorded (start and end of its processes do not count), which favours it; the simulator's is wall
clock of the whole call, over 100 time steps. Both are the fastest of several runs, to reduce the influence of other
work on the machine. Further columns give the simulator's speed per second of CPU time, and with its preparation. Lava's
processes and the simulator never run at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.runtime.run import run_program
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense, Identity, Sparse
from nirbridge.quantization.model import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.simulate import Probe

FIRING = {"rare": (0.05, 1.0), "some": (0.15, 0.5), "much": (0.5, 0.01)}
"""Input spikes per step and element, and the threshold as a share of the highest."""
DENSE_MAX = 1000
FAN_IN = 100
ROUNDS = 50
SHORT = 100
LAVA_RUNS = 3


@dataclass(frozen=True)
class Row:
    size: int
    firing: str
    steps: int
    spikes_per_neuron_step: float
    lava_steps_per_s: float
    fixed_steps_per_s: float
    fixed_steps_per_cpu_s: float
    fixed_whole_steps_per_s: float

    @property
    def ratio(self) -> float:
        return self.fixed_steps_per_s / self.lava_steps_per_s


def integers(value: object) -> Array:
    return freeze(np.asarray(value, np.int64))


def network(size: int, share: float = 1.0, seed: int = 0) -> QuantizedNetwork:
    rng = np.random.default_rng(seed)
    fan_in = min(size, FAN_IN) if size > DENSE_MAX else size
    above = 64 * round(100 * np.sqrt(fan_in * 0.05) * share)
    n = FixedNeuron(
        du=integers(4095),
        dv=integers(400),
        bias_mant=integers(0),
        refractory_steps=integers(0),
        reset_amount=integers(0),
        spike_size=integers(1),
        v_init=integers(0),
        u_init=integers(0),
        bias_exp=0,
        fires_above=integers(above),
        reset="zero",
        max_spikes=1,
        scale=freeze(np.float64(64)),
        v_offset=freeze(np.float64(0)),
    )
    layers = tuple(FixedPopulation(name, (size,), n, "lif") for name in ("a", "b"))
    edges = tuple(
        FixedProjection(source, target, operator(rng, size), 8) for source, target in (("in", "a"), ("a", "b"))
    )
    return QuantizedNetwork(
        chip="loihi2",
        dt=1e-3,
        populations=layers,
        projections=edges,
        inputs=(FixedInput("in", (size,)),),
        outputs=(Port("out", (size,)),),
        reads=(Projection("b", "out", Identity((size,))),),
        latency=MappingProxyType({"out": 2}),
        formats=MappingProxyType({}),
    )


def operator(rng: np.random.Generator, size: int) -> Dense | Sparse:
    if size <= DENSE_MAX:
        return Dense(integers(2 * rng.integers(-20, 21, (size, size))))
    columns = np.concatenate([np.sort(rng.choice(size, FAN_IN, replace=False)) for _ in range(size)])
    indptr = np.arange(0, size * FAN_IN + 1, FAN_IN)
    weights = 2 * rng.integers(-20, 21, size * FAN_IN)
    return Sparse(integers(indptr), integers(columns), integers(weights), (size,), (size,))


class Clock:
    """Progress of a run: when which step was done."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def __call__(self, stage: str, done: float | None) -> None:
        if done and (not self.seen or done > self.seen[-1][1]):
            self.seen.append((time.perf_counter(), done))

    def steps_per_s(self, steps: int) -> float:
        (start, first), (end, last) = self.seen[0], self.seen[-1]
        return (last - first) * steps / (end - start)


def fixed(q: QuantizedNetwork, inputs: Mapping[str, Array], steps: int) -> tuple[float, float, float]:
    """Steps per second of a run alone (the fastest of some), per second of its own CPU time, and with preparation."""
    start = time.perf_counter()
    made = FixedSimulator(q)
    records = [Probe("a", ("s",)), Probe("b", ("s",))]
    made.run(inputs, record=records)
    whole, runs, cpu = steps / (time.perf_counter() - start), [], []
    short = min(steps, SHORT)
    part = {name: values[:short] for name, values in inputs.items()}
    for _ in range(ROUNDS):
        start, used = time.perf_counter(), time.process_time()
        made.run(part, record=records)
        runs.append(short / (time.perf_counter() - start))
        cpu.append(short / (time.process_time() - used))
    return max(runs), max(cpu), whole


def measure(size: int, firing: str, steps: int) -> Row:
    given_rate, share = FIRING[firing]
    q, rng = network(size, share), np.random.default_rng(1)
    inputs = {"in": (rng.random((steps, size)) < given_rate).astype(np.uint8)}
    few = {"in": inputs["in"][:30]}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        write_artifact(emit(q), program)
        exact = run_program(program, few, record=["*:s,u,v"])
        clocks = [Clock() for _ in range(LAVA_RUNS)]
        long = [run_program(program, inputs, record=["*:s"], progress=clock) for clock in clocks][-1]
    simulator = FixedSimulator(q)
    records = [Probe(name, ("s", "u", "v")) for name in ("a", "b")]
    spikes = [Probe(name, ("s",)) for name in ("a", "b")]
    for ran, given, wanted in ((exact, few, records), (long, inputs, spikes)):
        expected = simulator.run(given, record=wanted).recording.arrays
        assert all(np.array_equal(ran.arrays[key], values) for key, values in expected.items()), "not equal"
    rate = float(np.mean([long.arrays[name, "s"].mean() for name in ("a", "b")]))
    alone, cpu, whole = fixed(q, inputs, steps)
    return Row(size, firing, steps, rate, max(clock.steps_per_s(steps) for clock in clocks), alone, cpu, whole)


def said(row: Row) -> str:
    lava, alone, whole = row.lava_steps_per_s, row.fixed_steps_per_s, row.fixed_whole_steps_per_s
    first = f"{row.size:6,} {row.firing:6} {row.spikes_per_neuron_step:6.3f}"
    own = f"{lava:13.1f} {alone:15.0f} {row.fixed_steps_per_cpu_s:10.0f}"
    return f"{first} {own} {whole:18.0f} {row.ratio:7.0f}   s, u, v"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--firing", default=",".join(FIRING))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    rows = []
    print("2 x N firing   rate    Lava steps/s   fixed steps/s  per CPU s   with preparation   ratio   equal")
    for size in map(int, options.sizes.split(",")):
        for firing in options.firing.split(","):
            rows.append(measure(size, firing, options.steps))
            print(said(rows[-1]), flush=True)
    if options.output:
        facts = {"cpus": os.cpu_count(), "python": sys.version.split()[0], "rows": [asdict(r) for r in rows]}
        Path(options.output).write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
