"""Map the suite with every method and every baseline rule, side by side; print a table and write JSON.

python -m benchmarks.mapping [--chip loihi1] [--only NAME] [--sizes small,large] [--methods …] [-o FILE.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import nir
from rich.console import Console
from rich.table import Table

from benchmarks import nets
from benchmarks.baselines import BASELINES
from nirbridge.chips import Chip, read_chip
from nirbridge.errors import NirbridgeError
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES, Partition
from nirbridge.pipeline import MapOptions, map_network

METHODS = ("sequential", "packed", "cp-sat")
DVS_FILE = Path("build/dvs_gesture.nir")


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one network; None where it does not apply."""

    network: str
    neurons: int
    method: str
    cores: int | None
    known: int | None
    bound_any: int | None = None
    bound_sliced: int | None = None
    status: str = ""
    fullest: str = ""
    cpu_s: float = 0.0
    note: str = ""


def entries(sizes: set[str], only: str) -> Iterator[tuple[nets.Entry, Callable[[], nir.NIRGraph]]]:
    """The chosen networks; DVS-Gesture from its file where that was built."""
    for entry in nets.SUITE:
        if entry.size in sizes and only in entry.name:
            from_file = entry.name == "dvs-gesture" and DVS_FILE.exists()
            yield entry, (lambda: nir.read(DVS_FILE)) if from_file else entry.build


def fullest(partition: Partition, chip: Chip) -> str:
    """The resource of which most is used over all cores in use: ``synapse_words 97 %``."""
    most = limits(chip)
    shares = []
    for name in RESOURCES:
        limit = most[name]
        if limit:
            used = sum(block.used.get(name, 0) for block in partition.blocks)
            shares.append((used / limit / len(partition.blocks), name))
    if not shares:
        return ""
    share, name = max(shares)
    return f"{name} {share:.0%}"


def by_nirbridge(entry: nets.Entry, network: Network, chip: Chip, method: str, seed: int) -> Result:
    start = time.process_time()
    try:
        partition = map_network(network, chip, MapOptions(method=method, seed=seed, chips=entry.chips)).partition
    except NirbridgeError as error:
        cpu_s = time.process_time() - start
        note = str(error).splitlines()[0]
        return Result(entry.name, entry.neurons, method, None, entry.cores_known, cpu_s=cpu_s, note=note)
    cpu_s = time.process_time() - start
    report = partition.report
    return Result(
        entry.name,
        entry.neurons,
        method,
        report.cores,
        entry.cores_known,
        report.cores_lower_bound,
        report.cores_lower_bound_sliced,
        report.status,
        fullest(partition, chip),
        cpu_s,
    )


def by_rule(entry: nets.Entry, network: Network, chip: Chip, rule: str) -> Result:
    start = time.process_time()
    outcome = BASELINES[rule](network, chip)
    cpu_s = time.process_time() - start
    return Result(entry.name, entry.neurons, rule, outcome.cores, entry.cores_known, cpu_s=cpu_s, note=outcome.reason)


def show(results: list[Result]) -> Table:
    table = Table("network", "neurons", "method", "cores", "any-map", "sliced", "status", "fullest", "CPU s", "note")
    previous = ""
    for r in results:
        head = ("", "") if r.network == previous else (r.network, f"{r.neurons:,}")
        numbers = ["-" if n is None else f"{n:,}" for n in (r.cores, r.bound_any, r.bound_sliced)]
        table.add_row(*head, r.method, *numbers, r.status, r.fullest, f"{r.cpu_s:.2f}", r.note)
        previous = r.network
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", default="loihi1")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--sizes", default="small", help="small, large, huge; comma separated")
    parser.add_argument("--methods", default=",".join((*METHODS, *BASELINES)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/mapping.json"))
    options = parser.parse_args()
    chip, methods = read_chip(options.chip), options.methods.split(",")
    if unknown := sorted(set(methods) - {*METHODS, *BASELINES}):
        parser.error(f"unknown methods {unknown}; there are {[*METHODS, *BASELINES]}")
    results: list[Result] = []
    for entry, build in entries(set(options.sizes.split(",")), options.only):
        network = from_nir(build())
        for method in methods:
            if method in BASELINES:
                results.append(by_rule(entry, network, chip, method))
            else:
                results.append(by_nirbridge(entry, network, chip, method, options.seed))
            print(f"{entry.name}: {method}: {results[-1].cores}", file=sys.stderr)
    Console().print(show(results))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    document = {"chip": chip.name, "seed": options.seed, "results": [asdict(r) for r in results]}
    options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
