"""Two threads against one: nets A and B of ``sim_nets`` with many samples, wall time in pairs, equal bits demanded.

What the machine itself allows at that moment stands beside it: the same kernels on half of the samples, alone and
beside a second process that does the same. Where that ratio is not near 2, others use the cores, and the ratio of the
threads says nothing.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import sim_nets
from nirbridge.arrays import Array

CASES = {"A": (128, 0.1), "B": (32, 0.02)}
"""Samples and input density."""


class Pair(NamedTuple):
    """Milliseconds of runs; ``ratios``: one thread over two, run after run."""

    one_ms: float
    two_ms: float
    ratios: tuple[float, ...]
    machine: float


def table(rounds: int) -> str:
    """A row per net."""
    lines = [
        "| net, samples | one thread | two threads | ratio, best | median | machine |",
        "|---|---|---|---|---|---|",
    ]
    for name, (batch, density) in CASES.items():
        net = getattr(sim_nets, f"net_{name.lower()}")()
        spikes = (sim_nets.moving_blob if name == "B" else sim_nets.bernoulli)(net, density, batch)
        p = measure(net, spikes, rounds)
        best, median = p.one_ms / p.two_ms, statistics.median(p.ratios)
        times = f"{p.one_ms:.1f} ms | {p.two_ms:.1f} ms"
        lines.append(f"| {name}, {batch} | {times} | **{best:.2f}x** | {median:.2f}x | {p.machine:.2f}x |")
    return "\n".join(lines)


def measure(net: sim_nets.Net, spikes: Array, rounds: int) -> Pair:
    """Runs in pairs, after one of each to warm up.

    Raises:
        AssertionError: two threads give other bits than one.
    """
    from nirbridge.simulators.simulate import prepare_simulator

    simulator = prepare_simulator(net.network)
    a, b = (simulator.run(spikes, threads=n).recording.arrays for n in (1, 2))
    assert all(np.array_equal(a[key], b[key]) for key in a)
    pairs = [
        (_seconds(lambda: simulator.run(spikes)), _seconds(lambda: simulator.run(spikes, threads=2)))
        for _ in range(rounds)
    ]
    ratios = tuple(one / two for one, two in pairs)
    half = np.ascontiguousarray(spikes[:, : spikes.shape[1] // 2])
    machine = _machine(lambda: simulator.run(half), rounds)
    return Pair(1e3 * min(one for one, _ in pairs), 1e3 * min(two for _, two in pairs), ratios, machine)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _machine(run: Callable[[], object], rounds: int) -> float:
    """How much two processes do in the time of one: 2 where each has a core to itself."""
    run()
    alone = statistics.median(_seconds(run) for _ in range(rounds))
    child = os.fork()
    beside = statistics.median(_seconds(run) for _ in range(rounds))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return 2 * alone / beside
