"""Results of ``mapping`` as tables, and as the text of docs/benchmarks.md.

python -m benchmarks.mapping_page build/suite.json build/generated*.json build/reservoirs*.json -o docs/benchmarks.md
[--held-out 300,400]

Runs of parts of the suite (`--only`) and of the generator (`--first`) are joined; of two results of one method on one
network the later file's counts. Networks of the generator from the seed `--held-out` on get a table of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import chains
from benchmarks.reservoirs import FAN_IN, HEADS, ReservoirResult

GENERATED = re.compile(r"\d+ \(")
"""Names of networks of the generator: a seed, and the resources that are tight."""
Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The heads of the columns, and the rows."""

INTRO = """# Benchmarks of mapping

This page is written by `python -m benchmarks.mapping_page` from the JSON files of `python -m benchmarks.mapping`
([how](../benchmarks/README.md)). `sequential`, `packed` and `cp-sat` are nirbridge's methods; the other rows are rules
to compare with, each stated at the head of its file in `benchmarks/rivals` or `benchmarks/baselines.py`. Cores and
bounds are exact and repeat; CPU seconds and the peak of the memory (of a process for each row) are of one run of a
shared machine. Hops, the proved `bound` on hops of any placement of the same blocks, and link load are spikes per time
step at 0.02 spikes per neuron and time step. `gap` is the optimality gap: cores over the lower bound for any map. In
sums over networks, `cores`, `bounds` and `fewest` (the fewest cores of any row) are those of the networks on which the
row has a map, and `not the fewest` counts the networks on which another row has fewer cores, or a map where this one
has none. Every map of nirbridge here has passed the independent checker.
"""
LIMITS = """
## Where the mapper falls short

* *Chips that store like kernels once.* A 3 x 3 kernel on 4 x 4 pixels takes 49 weights in any map. Lists of 7 channels
  would fill their words, but take 49 words for each of VGG11's 512 input channels, where a core has 48. Of more than 16
  pixels the bound counts a corner: 25 weights, where whole maps store 49. A dense layer with 9,216 sources (AlexNet)
  fills 75 % of a core with 14 neurons ([decision 34](decisions/0034-interleaved-rows.md)). Fewer cores take more hops
  there: the maps of VGG11 and AlexNet with 360 and 720 cores had 58,356 and 595,697.
* *Lists on loihi1.* Mixed networks and PilotNet need more words than the bound counts: a list of 62 targets fills its
  words, one of 63 does not, and windows are cut between cores ([decision 29](decisions/0029-ragged-columns.md)).
  Neither better maps nor better bounds are known.
* *Reservoirs of uniform random sources* have no parts to find; their bound counts neurons and words alone.
* *Size.* Above 300,000 neurons finer patterns are left out.
"""
RESERVOIRS = f"""
## Sparse reservoirs

Shuffled neurons, each with {FAN_IN} sources (near on a ring, near on a grid, or uniform random) and one host input,
weights as lists. Connectivity is the sum over neurons of (cores with targets - 1). METIS cuts the same graph into as
many parts as the map has cores; its parts know no limit of the chip but their size.

"""
CHAINS = """
## Chains of convolutions on loihi1

Random chains of 2 to 8 convolutions (`benchmarks/chains.py`) that fit on one chip, or need two: multicast hops of the
map in units of `traffic_lower_bound`, the proved bound on hops for any placement of its blocks, which is recomputed for
each map. In parentheses the chain that is farthest from its bound; `mixed-8` to `mixed-64` are in every run that has
room for them.

"""


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one network; None where it does not apply. ``peak_mb`` is that of a process of its own."""

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
    hops: float | None = None
    link_load: float | None = None
    hops_bound: float | None = None
    peak_mb: int = 0


def gap(cores: int | None, bound: int | None) -> str:
    """Cores over a lower bound: ``0 %`` where the map is optimal."""
    return "-" if cores is None or not bound else f"{cores / bound - 1:.0%}"


def table(results: Sequence[Result]) -> Rows:
    """Every row of every network."""
    heads = ("network", "neurons", "method", "cores", "any-map", "sliced", "gap", "hops", "bound", "link")
    rows, previous = [], ""
    bounds = {r.network: r.bound_any for r in results if r.bound_any}
    for r in results:
        head = ("", "") if r.network == previous else (r.network, f"{r.neurons:,}")
        numbers = ["-" if n is None else f"{n:,}" for n in (r.cores, r.bound_any, r.bound_sliced)]
        traffic = ["-" if x is None else f"{x:,.2f}" for x in (r.hops, r.hops_bound, r.link_load)]
        last = (r.status, r.fullest, f"{r.cpu_s:.2f}", f"{r.peak_mb:,}", r.note)
        rows.append((*head, r.method, *numbers, gap(r.cores, bounds.get(r.network)), *traffic, *last))
        previous = r.network
    return (*heads, "status", "fullest", "CPU s", "MB", "note"), rows


def sums(results: Sequence[Result]) -> Rows:
    """One row per method: its cores over all networks, on those where it finds a map, and where it is beaten."""
    networks = list(dict.fromkeys(r.network for r in results))
    by = {(r.network, r.method): r for r in results}
    fewest = {n: min((r.cores for r in results if r.network == n and r.cores), default=None) for n in networks}
    rows = []
    for method in dict.fromkeys(r.method for r in results):
        own = [by[n, method] for n in networks if (n, method) in by]
        found = [r for r in own if r.cores is not None]
        bounds = sum(r.bound_any or 0 for r in found)
        beaten = sum(r.cores != fewest[r.network] for r in own)
        least = sum(fewest[r.network] or 0 for r in found)
        cells = (len(own), len(own) - len(found), sum(r.cores or 0 for r in found), bounds, least, beaten)
        rows.append((method, *(f"{n:,}" for n in cells), f"{sum(r.cpu_s for r in own):.1f}"))
    fields = ("method", "networks", "without a map", "cores", "bounds", "fewest", "not the fewest", "CPU s")
    return fields, rows


def markdown(rows: Rows) -> str:
    """A table as Markdown."""
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1]]
    return "".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |\n" for line in lines)


def page(runs: Sequence[Sequence[Result]], others: Sequence[tuple[str, Rows]] = ()) -> str:
    """The text of the page: a table per run, of many networks only the sums; then ``others``, by title."""
    parts = [INTRO]
    for results in runs:
        many = all(GENERATED.match(r.network) for r in results)
        seeds = sorted(int(r.network.split()[0]) for r in results) if many else []
        heading = f"Generated networks, seeds {seeds[0]} to {seeds[-1]}" if many else "Published and layered networks"
        parts.append(f"\n## {heading}\n\n{markdown(sums(results) if many else table(results))}")
        parts.append("" if many else f"\n{open_gaps(results)}\n")
    parts += [f"\n## {title}\n\n{markdown(rows)}" for title, rows in others]
    return "".join(parts)


def open_gaps(results: Sequence[Result]) -> str:
    """A sentence with the networks whose bound the map does not meet, the widest gap first."""
    own = [r for r in results if r.method == "cp-sat" and r.cores and r.bound_any and r.cores > r.bound_any]
    own.sort(key=lambda r: -(r.cores or 0) / (r.bound_any or 1))
    listed = ", ".join(f"{r.network} {gap(r.cores, r.bound_any)}" for r in own)
    return f"Not proved optimal among all maps: {listed}." if own else "All are optimal among all maps."


def results_of(document: dict[str, Any]) -> list[Result]:
    """The results of a file; networks on another chip than loihi1 are named with it."""
    chip = document.get("chip", "loihi1")
    found = [Result(**r) for r in document.get("results", ())]
    if chip == "loihi1":
        return found
    return [r if GENERATED.match(r.network) else replace(r, network=f"{r.network} on {chip}") for r in found]


def reservoirs(results: Sequence[ReservoirResult]) -> str:
    """The section of the reservoirs; nothing where there are none."""
    return RESERVOIRS + markdown((HEADS, [r.row() for r in results])) if results else ""


def chains_of(runs: Sequence[dict[str, Any]]) -> str:
    """The section of the chains of convolutions; nothing where there are none."""
    return CHAINS + markdown((chains.HEADS, [chains.summary(run) for run in runs])) if runs else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument(
        "--held-out",
        default="",
        help="first seeds of networks that the search was not tried on before; comma separated",
    )
    options = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in options.files]
    results = list({(r.network, r.method): r for d in documents for r in results_of(d)}.values())
    drawn = [r for r in results if GENERATED.match(r.network)]
    ends = [0, *sorted(int(seed) for seed in options.held_out.split(",") if seed), 2**63]
    runs = [[r for r in results if GENERATED.match(r.network) is None]]
    for first, stop in pairwise(ends):
        runs.append([r for r in drawn if first <= int(r.network.split()[0]) < stop])
    sparse = [ReservoirResult(**r) for document in documents for r in document.get("reservoirs", [])]
    sparse = list({(r.kind, r.neurons, r.seed, r.chip, r.effort): r for r in sparse}.values())
    others = [(d["title"], (tuple(d["heads"]), [tuple(row) for row in d["rows"]])) for d in documents if "title" in d]
    text = page([run for run in runs if run], others) + chains_of([d["chains"] for d in documents if "chains" in d])
    text += reservoirs(sparse) + LIMITS
    options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
