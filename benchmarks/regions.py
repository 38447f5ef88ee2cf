"""``python -m benchmarks.regions NEURONS``: two reservoirs (rings) as two tasks of a Dask cluster, beside one task.

They share nothing but a chip. Two workers partition one each; the cores of both are joined, placed and checked.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from typing import Any

from distributed import LocalCluster

from benchmarks.reservoirs import reservoir, sources
from nirbridge.chips import read_chip
from nirbridge.mapping.checker.check import check_mapping
from nirbridge.network.model import Network
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.model import Block, BlockId, Partition, SolveReport
from nirbridge.pipeline import MapOptions
from nirbridge.pipeline.map import place_partition
from nirbridge.sweeps.tasks import run_tasks

CHIP, CHIPS = "halapoint", 16
Item = tuple[int, tuple[int, ...]]
"""Neurons of a reservoir, and the seed of each."""


def network_of(item: Item) -> Network:
    """One reservoir per seed, side by side."""
    parts = [(seed, reservoir(sources("ring", item[0], seed), seed)) for seed in item[1]]
    return replace(
        parts[0][1],
        populations=tuple(replace(p, name=f"{p.name}{k}") for k, x in parts for p in x.populations),
        inputs=tuple(replace(p, name=f"{p.name}{k}") for k, x in parts for p in x.inputs),
        projections=tuple(
            replace(p, source=f"{p.source}{k}", target=f"{p.target}{k}") for k, x in parts for p in x.projections
        ),
    )


def partition_region(item: Item) -> dict[str, Any]:
    """The task: a region is made where it is partitioned, so that no weights are sent; only cores come back."""
    network, start = network_of(item), time.process_time()
    p = partition(network, read_chip(CHIP), PartitionOptions(effort="fast", chips=CHIPS))
    cpu, rss = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"seeds {item[1]}: {len(p.blocks)} cores, {cpu:.1f} CPU s, peak {rss:.2f} GB")
    return {"cores": [(b.slices, dict(b.used)) for b in p.blocks], "orders": dict(p.orders)}


def run(items: list[Item]) -> list[dict[str, Any]]:
    """The regions, each on a worker of its own."""
    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None}
    workers: Any = LocalCluster(n_workers=len(items), **options)
    with workers as cluster:
        start, keys = time.perf_counter(), [str(item) for item in items]
        regions = dict(run_tasks(partition_region, items, keys=keys, scheduler=cluster.scheduler_address))
        print(f"{len(items)} workers: {time.perf_counter() - start:.1f} s")
    return [regions[k] for k in range(len(items))]


def place_joined(network: Network, regions: list[dict[str, Any]]) -> None:
    """The cores of all regions, numbered on, as one map that the checker accepts; nothing is proved of it."""
    start, cores = time.process_time(), [core for region in regions for core in region["cores"]]
    blocks, orders = (Block(BlockId(i), *core) for i, core in enumerate(cores)), [r["orders"] for r in regions]
    report = SolveReport("cp-sat", "feasible", len(cores), 1, 1, {"cores": 1}, "cores", 0, "", 0.0)
    joined = Partition(tuple(blocks), 8, report, {name: order for own in orders for name, order in own.items()})
    options = MapOptions(chips=CHIPS, placement_only=True)
    check_mapping(replace(place_partition(network, read_chip(CHIP), joined, options), placement_only=True))
    print(f"joined: {len(cores)} cores, placed and checked in {time.process_time() - start:.1f} CPU s")


if __name__ == "__main__":
    neurons = int(sys.argv[1])
    place_joined(network_of((neurons, (0, 1))), run([(neurons, (0,)), (neurons, (1,))]))
    run([(neurons, (0, 1))])
