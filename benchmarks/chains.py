"""Random chains of convolutions on loihi1: hops of the placement beside the proved lower bound on them.

``python -m benchmarks.chains --seeds 0:40 [--method cp-sat] [--chips 2] [-o FILE.json]`` prints a row for each chain
that fits on one chip, or needs all of ``--chips``, and the largest ratio at the end. ``mapping_page`` takes the file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nir
import numpy as np

from benchmarks.nets import Conv, Dense, Pool, feedforward, mixed
from nirbridge.chips import Chip, read_chip
from nirbridge.errors import DoesNotFit
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.pipeline import MapOptions, map_network

CHANNELS = (4, 8, 12, 16, 24, 32, 48, 64)
SIDE_LEAST = 5
"""Pictures stay at least as wide: smaller ones are neither pooled nor strided."""
CELLS_MOST = 40_000
"""Neurons of one layer; channels are halved until they fit."""
RATIO_MOST = 1.5
HEADS = ("seeds", "chips", "method", "chains", "cores", "mean ratio", "largest", "above 1.5", "CPU s")


def chain(seed: int) -> nir.NIRGraph:
    """2 to 8 convolutions on 8 to 34 pixels a side, some strided or pooled, with or without a dense readout."""
    rng = np.random.default_rng(seed)
    side, layers = int(rng.integers(8, 35)), []
    shape = (int(rng.integers(1, 4)), side, side)
    for _ in range(int(rng.integers(2, 9))):
        conv, side = _conv(rng, side)
        layers.append(conv)
        if side >= 2 * SIDE_LEAST and rng.random() < 0.2:
            layers.append(Pool())
            side //= 2
    if rng.random() < 0.5:
        layers.append(Dense(int(rng.integers(10, 101))))
    return feedforward(shape, layers)


def _conv(rng: np.random.Generator, side: int) -> tuple[Conv, int]:
    """A convolution of a picture of ``side`` pixels a side, and the side of its result."""
    channels, kernel = int(rng.choice(CHANNELS)), int(rng.choice((3, 5)))
    stride = 2 if side >= 2 * SIDE_LEAST and rng.random() < 0.25 else 1
    padding = kernel // 2 if side < SIDE_LEAST + kernel or rng.random() < 0.6 else 0
    side = (side + 2 * padding - kernel) // stride + 1
    while channels * side * side > CELLS_MOST:
        channels //= 2
    return Conv(channels, kernel, stride, padding), side


def networks(seeds: range) -> Iterator[tuple[str, Callable[[], nir.NIRGraph]]]:
    """Random chains, and those of the suite."""
    for seed in seeds:
        yield f"chain-{seed}", partial(chain, seed)
    for layers in (8, 16, 32, 64):
        yield f"mixed-{layers}", partial(mixed, layers)


@dataclass(frozen=True, slots=True)
class Row:
    """One mapped chain; ``seconds``: CPU time of the mapping, its bounds and the placement included."""

    name: str
    blocks: int
    hops: float
    bound: float
    seconds: float

    @property
    def ratio(self) -> float:
        """Hops in units of the bound; 1 where the placement takes none."""
        return 1.0 if self.hops == 0 else self.hops / self.bound if self.bound > 0 else float("inf")


def measure(name: str, graph: nir.NIRGraph, method: str = "packed", chips: int = 1) -> Row | None:
    """Map a chain on some loihi1 by some method of partitioning; None where it does not fit, or fits on fewer."""
    net, chip = from_nir(graph), read_chip("loihi1")
    if chips > 1 and _fits(net, chip, chips - 1):
        return None
    start = time.process_time()
    try:
        mapped = map_network(net, chip, MapOptions(method=method, chips=chips, placement_only=True, bound="tight"))
    except DoesNotFit:
        return None
    if len(mapped.cores) <= chip.mesh.cores * (chips - 1):
        return None
    costs, seconds = mapped.costs, time.process_time() - start
    return Row(name, len(mapped.cores), costs.multicast_hops_per_step, costs.traffic_lower_bound, seconds)


def _fits(net: Network, chip: Chip, chips: int) -> bool:
    """Whether the fastest method finds room for it on this many chips."""
    try:
        partition(net, chip, PartitionOptions(method="packed", chips=chips))
    except DoesNotFit:
        return False
    return True


def summary(run: dict[str, Any]) -> tuple[str, ...]:
    """The cells under ``HEADS`` of a file of this benchmark."""
    rows = [Row(**row) for row in run["rows"]]
    blocks, ratios = [row.blocks for row in rows], [row.ratio for row in rows]
    largest = max(rows, key=lambda row: row.ratio)
    counts = (f"{len(rows)}", f"{min(blocks)} to {max(blocks)}", f"{np.mean(ratios):.2f}")
    above = f"{sum(ratio > RATIO_MOST for ratio in ratios)}"
    name = (run["seeds"], f"{run['chips']}", run["method"])
    return *name, *counts, f"{largest.ratio:.2f} ({largest.name})", above, f"{sum(row.seconds for row in rows):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:40", metavar="FROM:TO", help="seeds of the random chains")
    parser.add_argument("--method", default="packed", help="of partitioning: packed, cp-sat, ...")
    parser.add_argument("--chips", type=int, default=1, help="chips of the board; chains that need fewer are left out")
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    options = parser.parse_args()
    first, last = (int(n) for n in options.seeds.split(":"))
    rows: list[Row] = []
    print(f"{'network':>10} {'blocks':>6} {'hops':>9} {'bound':>9} {'ratio':>6} {'CPU s':>6}")
    for name, build in networks(range(first, last)):
        row = measure(name, build(), options.method, options.chips)
        if row is None:
            print(f"{name:>10} does not fit{', or fits on fewer chips' if options.chips > 1 else ''}", flush=True)
            continue
        rows.append(row)
        line = f"{name:>10} {row.blocks:6} {row.hops:9.1f} {row.bound:9.1f} {row.ratio:6.3f} {row.seconds:6.1f}"
        print(line, flush=True)
    if options.output:
        run = {"seeds": f"{first} to {last - 1}", "chips": options.chips, "method": options.method}
        options.output.write_text(
            json.dumps({"chains": {**run, "rows": [asdict(row) for row in rows]}}, indent=1) + "\n"
        )
    above = sum(row.ratio > RATIO_MOST for row in rows)
    print(f"largest ratio {max(row.ratio for row in rows):.3f}; {above} of {len(rows)} above {RATIO_MOST}")


if __name__ == "__main__":
    main()
