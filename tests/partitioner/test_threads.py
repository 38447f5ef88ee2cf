"""The same seed gives the same map on one thread and on two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAPS = """
import json
import numpy as np
from benchmarks.reservoirs import reservoir, sources
from benchmarks.rivals.networks import case
from nirbridge.chips import read_chip
from nirbridge.partitioner import PartitionOptions, partition
from tests.partitioner.cases import chip, random_network

works = [(own.network, own.chip) for own in map(case, {seeds})]
tight = chip(core={{"neurons": 9, "input_axons": 60, "output_axons": 120}}, words=120)
works += [(random_network(np.random.default_rng(seed), windows=True), tight) for seed in range(13)]
works.append((reservoir(sources("ring", 600)), read_chip("loihi1")))
found = []
for network, on in works:
    part = partition(network, on, PartitionOptions(seed=3))
    blocks = [[(s.population, s.box) for s in block.slices] for block in part.blocks]
    orders = {{name: list(order) for name, order in part.orders.items()}}
    found.append([part.report.deterministic_time, blocks, orders])
print(json.dumps(found))
"""
SEEDS = (2, 5, 10, 21, 25, 29)
"""Networks of the generator that take less than a second each."""
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def maps(threads: int) -> list[object]:
    """The partitions that a process on a number of processors and threads makes."""
    processors = sorted(os.sched_getaffinity(0))[:threads]
    environment = os.environ | dict.fromkeys(LIMITS, str(threads)) | {"PYTHONHASHSEED": str(threads)}
    command = f"import os; os.sched_setaffinity(0, {processors})\n" + MAPS.format(seeds=SEEDS)
    run = subprocess.run([sys.executable, "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_maps_are_the_same_on_one_thread_and_on_two() -> None:
    one, two = maps(1), maps(2)
    assert len(one) == len(SEEDS) + 14
    assert [n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b] == []
