"""Map the suite with every method, baseline and rival rule, side by side; print a table and write JSON.

python -m benchmarks.mapping [--chip loihi1] [--only NAME] [--sizes small,large] [--methods …] [-o FILE.json]
python -m benchmarks.mapping --hops 3
python -m benchmarks.mapping --ablate [--jobs 2] [--only CLASS]
python -m benchmarks.mapping --reservoirs 10000,100000 [--efforts default,max] [-o FILE.json]
python -m benchmarks.mapping --generated 300 [--first 0] [--methods cp-sat,next-fit,…]

``mapping_page`` makes docs/benchmarks.md of the JSON files.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import nir
from rich.console import Console
from rich.table import Table

from benchmarks import nets
from benchmarks.ablation import ablated
from benchmarks.baselines import BASELINES
from benchmarks.cortical import hops_table
from benchmarks.mapping_page import Result, sums, table
from benchmarks.reservoirs import HEADS, reservoir_results
from benchmarks.rivals import RIVALS
from benchmarks.rivals.accounting import Accounts, too_many_synapses
from benchmarks.rivals.maps import mapped
from benchmarks.rivals.networks import case
from nirbridge.chips import Chip, read_chip
from nirbridge.errors import NirbridgeError
from nirbridge.mapping.model import MapCosts
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES, Partition
from nirbridge.pipeline import MapOptions, map_network
from nirbridge.pipeline.fit import prepare_network

METHODS = ("sequential", "packed", "cp-sat")
DVS_FILE = Path("build/dvs_gesture.nir")


@dataclass(frozen=True, slots=True)
class Work:
    """A network to map, as it will run on ``chip``."""

    name: str
    network: Network
    chip: Chip
    chips: int = 1
    known: int | None = None


def suite(sizes: set[str], only: str, chip: Chip) -> Iterator[Work]:
    """The chosen networks; DVS-Gesture from its file where that was built."""
    for entry in nets.SUITE:
        if entry.size in sizes and only in entry.name:
            from_file = entry.name == "dvs-gesture" and DVS_FILE.exists()
            network = from_nir(nir.read(DVS_FILE) if from_file else entry.build())
            chips = min(entry.chips, chip.mesh.chips_max)
            ready = prepare_network(network, chip, MapOptions(chips=chips)).network
            yield Work(entry.name, ready, chip, chips, entry.cores_known)


def generated(first: int, count: int) -> Iterator[Work]:
    """Networks of the generator, each with its chip."""
    for seed in range(first, first + count):
        own = case(seed)
        yield Work(f"{seed} ({', '.join(own.tight)})", own.network, own.chip)


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


def with_costs(result: Result, costs: MapCosts) -> Result:
    """The result with the traffic of its map."""
    hops, load = costs.multicast_hops_per_step, costs.max_link_load_spikes_per_step
    bound = round(costs.traffic_lower_bound, 2)
    return replace(result, hops=round(hops, 2), hops_bound=bound, link_load=round(load, 3))


def by_nirbridge(work: Work, method: str, seed: int) -> Result:
    empty = Result(work.name, work.network.neurons, method, None, work.known)
    facts = {"retime": "never", "relays": False, "placement_only": True, "bound": "tight"}
    options = MapOptions(method=method, seed=seed, chips=work.chips, **facts)
    try:
        found = map_network(work.network, work.chip, options)
    except NirbridgeError as error:
        return replace(empty, note=str(error).splitlines()[0])
    report = found.partition.report
    result = replace(
        empty,
        cores=report.cores,
        bound_any=report.cores_lower_bound,
        bound_sliced=report.cores_lower_bound_sliced,
        status=report.status,
        fullest=fullest(found.partition, work.chip),
    )
    return with_costs(result, found.costs)


def by_baseline(work: Work, rule: str, seed: int) -> Result:
    del seed
    outcome = BASELINES[rule](work.network, work.chip)
    return Result(work.name, work.network.neurons, rule, outcome.cores, work.known, note=outcome.reason)


def by_rival(work: Work, rule: str, seed: int) -> Result:
    del seed
    empty = Result(work.name, work.network.neurons, rule, None, work.known)
    if too_many_synapses(work.network):
        return replace(empty, note="too many synapses to be listed one by one")
    accounts = Accounts(work.network, work.chip)
    cores = RIVALS[rule](accounts)
    if cores is None:
        return replace(empty, note="no legal map found")
    result = replace(empty, cores=len(cores))
    if len(cores) > work.chip.mesh.cores * work.chips:
        return replace(result, note="more cores than there are")
    return with_costs(result, mapped(accounts, cores, rule, work.chips).costs)


def measured(work: Work, method: str, seed: int) -> Result:
    """One method on one network, in this process: its CPU time and the peak of the memory."""
    by: dict[str, Callable[[Work, str, int], Result]] = {
        **dict.fromkeys(METHODS, by_nirbridge),
        **dict.fromkeys(BASELINES, by_baseline),
        **dict.fromkeys(RIVALS, by_rival),
    }
    start = time.process_time()
    result = by[method](work, method, seed)
    cpu_s = time.process_time() - start
    return replace(result, cpu_s=cpu_s, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def alone(work: Work, method: str, seed: int) -> Result:
    """``measured`` in a process of its own, so that the memory is that of one method on one network."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: there.send(measured(work, method, seed)))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return Result(work.name, work.network.neurons, method, None, work.known, note="the process was killed")
    finally:
        child.join()


def show(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table."""
    shown = Table(*heads)
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)


def write(path: Path, document: dict[str, object]) -> None:
    """Write a document as JSON; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", default="loihi1")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--sizes", default="small", help="small, large, huge; comma separated")
    parser.add_argument(
        "--generated", type=int, default=0, help="number of networks of the generator, in place of the suite"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed of the generator")
    parser.add_argument("--methods", default=",".join((*METHODS, *BASELINES, *RIVALS)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/mapping.json"))
    parser.add_argument("--hops", type=int, default=0, help="seeds of the small cortical networks: their hops alone")
    parser.add_argument("--reservoirs", default="", help="sizes of sparse reservoirs: their connectivity alone")
    parser.add_argument("--efforts", default="default", help="efforts of --reservoirs; comma separated")
    parser.add_argument("--ablate", action="store_true", help="leave out each search, stage and bound in turn")
    parser.add_argument("--jobs", type=int, default=1, help="processes of --ablate")
    options = parser.parse_args()
    if options.ablate:
        heads, rows = ablated(options.jobs, options.only, lambda done: print(done, file=sys.stderr))
        show(heads, rows)
        write(options.output, {"title": "What each search, stage and bound decides", "heads": heads, "rows": rows})
        return 0
    if options.hops:
        heads, rows = hops_table(options.hops)
        show(heads, rows)
        title = f"Hops of the cortical microcircuit per second, means of {options.hops} seeds"
        write(options.output, {"title": title, "heads": heads, "rows": rows})
        return 0
    if options.reservoirs:
        sizes, efforts = map(int, options.reservoirs.split(",")), tuple(options.efforts.split(","))
        found = []
        for result in (result for size in sizes for result in reservoir_results(size, efforts, options.seed)):
            found.append(result)
            print(" | ".join(result.row()), file=sys.stderr)
        show(HEADS, [result.row() for result in found])
        write(options.output, {"seed": options.seed, "reservoirs": [asdict(result) for result in found]})
        return 0
    chip, methods = read_chip(options.chip), options.methods.split(",")
    if unknown := sorted(set(methods) - {*METHODS, *BASELINES, *RIVALS}):
        parser.error(f"unknown methods {unknown}; there are {[*METHODS, *BASELINES, *RIVALS]}")
    works = suite(set(options.sizes.split(",")), options.only, chip)
    if options.generated:
        works = generated(options.first, options.generated)
    results: list[Result] = []
    for work in works:
        for method in methods:
            results.append(alone(work, method, options.seed))
            print(f"{work.name}: {method}: {results[-1].cores}", file=sys.stderr)
    for heads, rows in (table(results), *([sums(results)] if options.generated else [])):
        show(heads, rows)
    write(options.output, {"chip": chip.name, "seed": options.seed, "results": [asdict(r) for r in results]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
