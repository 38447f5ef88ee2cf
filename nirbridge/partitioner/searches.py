"""Options of a partition, and the searches for few cores: their order, one signature, and work budgets per effort.

``python -m benchmarks.mapping --ablate`` omits each search in turn and prints a table of the classes of networks that
it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.errors import UsageError, did_you_mean
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.search.balancing import BalanceBudget, balanced, nearer
from nirbridge.partitioner.search.bounds import least_cores, least_slots
from nirbridge.partitioner.search.clusters import clustered
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.finer import finer_cores
from nirbridge.partitioner.search.interleaved import interleaved_cores
from nirbridge.partitioner.search.methods import SearchResult, fewest_cores
from nirbridge.partitioner.search.regrown import RegrowBudget, regrown
from nirbridge.partitioner.search.slicing import Tilings
from nirbridge.partitioner.search.streaming import streamed
from nirbridge.partitioner.search.tiling import axons_bind, tiled

M = 1_000_000


@dataclass(frozen=True, slots=True)
class Effort:
    """Work budgets of the searches, counted in the items that each examines, never in seconds.

    ``streams``, ``clusters``: synapses listed (``cores.Work``); ``filled``, ``near``: of balanced fillings, the second
    for populations near each other; ``patterns``: None leaves them out; ``interleaved``: of its patterns.
    """

    streams: int
    filled: BalanceBudget
    near: BalanceBudget | None
    clusters: int
    regrown: RegrowBudget | None
    patterns: SearchBudget | None
    interleaved: SearchBudget


QUICK_PATTERNS = SearchBudget(rounds=60, finish_time=0.4, total_time=1.0, linear_time=5.0)
LONG_PATTERNS = SearchBudget(
    1500, 200, price_time=0.1, try_time=5.0, finish_time=60.0, total_time=300.0, linear_time=300.0, free_cores=5
)
EFFORTS: Mapping[str, Effort] = {
    "fast": Effort(4 * M, BalanceBudget(10 * M, 0), None, 4 * M, None, None, QUICK_PATTERNS),
    "default": Effort(
        40 * M,
        BalanceBudget(100 * M, 20, of_neuron=250),
        BalanceBudget(50 * M, 10),
        15 * M,
        RegrowBudget(10 * M, 300, 100),
        None,
        SearchBudget(),
    ),
    "max": Effort(
        60 * M,
        BalanceBudget(4_000 * M, 1_000),
        BalanceBudget(400 * M, 150),
        60 * M,
        RegrowBudget(1_000 * M, 10_000, 2_000),
        LONG_PATTERNS,
        LONG_PATTERNS,
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A network on a chip: ``cap`` [6] of a core, ``lower`` bound on the cores of any map, slices of ``sequential``."""

    sizes: CostModel
    cap: Array
    groups: Mapping[str, int]
    lower: int
    available: int
    tilings: Tilings
    effort: Effort
    seed: int
    progress: Progress


Search = Callable[[Problem, SearchResult | None], SearchResult | Blocks | None]
"""The best so far -> blocks of fewer cores, if any; their use is yet to be counted in full."""


def _tiled(p: Problem, best: SearchResult | None) -> Blocks | None:
    blocks = None if best is None else best.blocks
    return tiled(p.sizes, p.cap, p.groups, p.lower) if axons_bind(p.sizes, p.cap, blocks) else None


def _regrown(p: Problem, best: SearchResult | None) -> Blocks | None:
    if best is None or p.effort.regrown is None:
        return None
    return regrown(p.sizes, p.cap, p.groups, best.blocks, p.lower, p.effort.regrown, p.seed)


def _interleaved(p: Problem, best: SearchResult | None) -> Blocks | None:
    most = p.available + 1 if best is None else len(best.blocks)
    return None if p.groups else interleaved_cores(p.sizes, p.cap, p.lower, most, p.effort.interleaved, p.seed)


def _patterns(p: Problem, best: SearchResult | None) -> SearchResult | None:
    if best is None or p.effort.patterns is None or not p.tilings or p.groups:
        return None
    slots = least_slots(p.sizes, least_cores(p.sizes, p.cap))
    given = (p.effort.patterns, p.seed, p.progress)
    found = fewest_cores(p.sizes, p.cap, best.blocks, p.tilings, slots, p.lower, *given)
    if len(found.blocks) <= found.sliced_bound:
        return found
    return finer_cores(p.sizes, p.cap, found, p.tilings, slots, *given)


SEARCHES: dict[str, Search] = {
    "streams": lambda p, best: streamed(p.sizes, p.cap, p.groups, p.lower, p.effort.streams),
    "filled": lambda p, best: balanced(p.sizes, p.cap, p.groups, p.lower, p.effort.filled, p.seed),
    "rectangles": _tiled,
    "clusters": lambda p, best: clustered(p.sizes, p.cap, p.groups, p.lower, p.effort.clusters),
    "regrown": _regrown,
    "interleaved": _interleaved,
    "patterns": _patterns,
}
"""In the order in which they are tried, until the cores meet the bound."""


def nearer_populations(p: Problem, blocks: Blocks, by: str) -> Blocks | None:
    """A filling with as many cores as ``blocks``, shared by populations near each other.

    None if ``by`` is another search, or no such filling was found.
    """
    if by != "filled" or p.effort.near is None:
        return None
    return nearer(p.sizes, p.cap, p.groups, blocks, p.effort.near, p.seed)


# -- options -------------------------------------------------------------------------------------------------------
# Options of ``partition``, and the check of those that a chip or a method limits.


METHODS = ("sequential", "packed", "cp-sat")


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """Options of ``partition``. ``groups``: populations of different numbers never share a core (0 where not named).

    ``keep_best``: Ctrl-C during the search gives the best partition so far, marked ``interrupted`` in its report; by
    default, and while there is none, it raises KeyboardInterrupt.
    ``spread``: `sequential` fills 1/spread of the neurons and words of a core, so that the load is spread.
    """

    method: str = "cp-sat"
    weight_bits: int | None = None
    chips: int = 1
    effort: str = "default"
    seed: int = 0
    spread: int = 1
    groups: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    keep_best: bool = False
    progress: Progress = no_progress


def checked_bits(chip: Chip, options: PartitionOptions) -> int:
    """The weight bits of the options, or the chip's default. Raises UsageError for these and for other options."""
    bits = chip.synapses.weight_bits_default if options.weight_bits is None else options.weight_bits
    if bits not in chip.synapses.weight_bits:
        legal = ", ".join(str(b) for b in chip.synapses.weight_bits)
        raise UsageError.of("--bits", f"{bits}", f"{chip.name} stores {legal}", "choose one of these")
    for option, value, names in (("--method", options.method, METHODS), ("--effort", options.effort, EFFORTS)):
        if value not in names:
            hint = did_you_mean(value, names) or "choose one of these"
            raise UsageError.of(option, value, f"there are {', '.join(names)}", hint)
    if not 1 <= options.chips <= chip.mesh.chips_max:
        limit = f"a board of {chip.name} has 1 to {chip.mesh.chips_max:,}"
        raise UsageError.of("--chips", f"{options.chips}", limit, "choose a number in that range")
    return bits
