"""`partition`: blocks of a network for a chip with a proved bound, or the reasons why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from nirbridge.chips import Chip, cores_of
from nirbridge.errors import DoesNotFit, counted, instance_of
from nirbridge.network.compose import whole_rows
from nirbridge.network.model import Network, Projection, with_operators
from nirbridge.network.operators import Operator, Sparse
from nirbridge.partitioner import explain
from nirbridge.partitioner.cost.axons import Blocks, resource_use
from nirbridge.partitioner.cost.resources import delay_on_chip_steps, run_words, words_in_order
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Block, BlockId, Partition, SolveReport, Status
from nirbridge.partitioner.search import exact
from nirbridge.partitioner.search.bounds import any_map_bounds, bounding_limits, least_cores, least_words
from nirbridge.partitioner.search.clusters import clustered
from nirbridge.partitioner.search.interruption import finished, interrupted, keeping
from nirbridge.partitioner.search.irregular.blocks import NEURONS_MIN, OrderedBlocks, ordered_blocks
from nirbridge.partitioner.search.methods import SearchResult, is_within, packed, sequential
from nirbridge.partitioner.search.slicing import NoTiling, Tilings, capacity, shrunk_capacity
from nirbridge.partitioner.searches import (
    EFFORTS,
    SEARCHES,
    PartitionOptions,
    Problem,
    checked_bits,
    nearer_populations,
)

SEEDS_MORE = 8
"""Seeds that are tried with the effort ``max`` where the cores do not suffice."""
WORTH = 20
"""Lists are searched where they may save at least one word in this number of those that whole rows fill."""
Outcome = tuple[SearchResult | None, OrderedBlocks | None]
"""The blocks of fewest cores, and the orders that they are in, if any."""
EXACT_TIME = 4.0
"""Deterministic time of one question to the exact model of a tiny network."""


def partition(network: Network, chip: Chip, options: PartitionOptions | None = None) -> Partition:
    """Tile the populations and pack the slices into as few cores as possible, with a proved lower bound.

    Raises:
        DoesNotFit: no mapping exists, or none was found; `problems` says which, and what would fit.
        UsageError: an option that makes no sense.
    """
    settings = options or PartitionOptions()
    bits = checked_bits(chip, settings)
    sizes = cost_model(network, chip, bits)
    available = len(cores_of(chip, settings.chips))
    problems = [*explain.delay_problems(network, chip), *explain.oversized_neurons(sizes)]
    problems += explain.fan_out_problems(sizes)
    if not available:
        problems.append(explain.no_core_left(chip, settings.chips))
    DoesNotFit.raise_all(problems)
    cap = capacity(chip)
    settings.progress("bounds", None)
    bounds = any_map_bounds(sizes, cap, settings.seed)
    lower = max(bounds.values())
    if lower > min(available, network.neurons):
        raise DoesNotFit(_no_map(sizes, cap, settings, available, lower))
    settings.progress("first maps", None)
    outcome, ordered = _search_views(sizes, cap, bounds, available, settings)
    if outcome is None or len(outcome.blocks) > available:
        best = None if outcome is None else len(outcome.blocks)
        raise DoesNotFit(_refusal(sizes, settings, available, best, lower))
    model, used = (sizes, None) if ordered is None else (ordered.sizes, ordered.used)
    found, again = finished(settings.keep_best, _report, model, outcome, bounds, settings, used)
    found = replace(found, report=replace(found.report, interrupted=True)) if again else found
    return found if ordered is None else replace(found, orders=MappingProxyType(ordered.orders))


def _search_views(
    sizes: CostModel, cap: np.ndarray, bounds: dict[str, int], available: int, options: PartitionOptions
) -> Outcome:
    """The best of a search in the order of the model, and one for cores of any neurons where that may take fewer.

    The first is on whole rows where the lists are about as long. Large irregular networks are searched the other way.
    """
    is_tiny = exact.is_tiny(sizes, available)
    rows = None if is_tiny else with_whole_rows(sizes.network, sizes.chip, sizes.weight_bits)
    if is_tiny or (rows is None and sizes.network.neurons >= NEURONS_MIN):
        return _search(sizes, cap, bounds, available, options)
    whole = sizes if rows is None else cost_model(rows, sizes.chip, sizes.weight_bits)
    # what is proved of whole rows is not proved of lists
    first = _searched(whole, cap, bounds if rows is None else dict(bounds), available, options)
    lower = max(bounds.values())
    if first is not None and rows is not None:
        first = replace(first, sliced_bound=lower)
    if first is not None and (first.interrupted or options.method != "cp-sat" or len(first.blocks) <= lower):
        return first, None
    if first is not None and rows is not None:
        saved = least_words(whole) - least_words(sizes)
        if saved * WORTH < int(cap[2]) * len(first.blocks):
            return first, None
    lists = partial(_search_lists, sizes, cap, lower, options, clusters=rows is not None)
    return _fewer((first, None), lists, available, options)


def _search_lists(
    sizes: CostModel, cap: np.ndarray, lower: int, options: PartitionOptions, *, clusters: bool
) -> Outcome:
    """Cores of any neurons; ``clusters``: these were not tried yet on these lists."""
    settings = {"keep_best": options.keep_best, "progress": options.progress}
    ordered = ordered_blocks(sizes, cap, options.groups, lower, options.effort, options.seed, **settings)
    if ordered is not None:
        return SearchResult(ordered.blocks, lower, 0.0, ordered.interrupted), ordered
    blocks = clustered(sizes, cap, options.groups, lower, EFFORTS[options.effort].clusters) if clusters else None
    return (None if blocks is None or not is_within(sizes, blocks) else SearchResult(blocks, lower, 0.0)), None


def _search(
    sizes: CostModel, cap: np.ndarray, bounds: dict[str, int], available: int, options: PartitionOptions
) -> Outcome:
    """The blocks of fewest cores, and the orders that they are in, if any."""
    lower = max(bounds.values())
    ordered = None
    if options.method == "cp-sat":
        settings = {"keep_best": options.keep_best, "progress": options.progress}
        ordered = ordered_blocks(sizes, cap, options.groups, lower, options.effort, options.seed, **settings)
    outcome = None if ordered is None else SearchResult(ordered.blocks, lower, 0.0, ordered.interrupted)
    if ordered is not None and ordered.is_final:
        return outcome, ordered
    return _fewer(
        (outcome, ordered), lambda: (_searched(sizes, cap, bounds, available, options), None), available, options
    )


def _fewer(first: Outcome, search: Callable[[], Outcome], available: int, options: PartitionOptions) -> Outcome:
    """The outcome of another search if it has fewer cores, else the first; Ctrl-C in the search gives the first."""
    best, ordered = first
    try:
        other, other_ordered = search()
    except KeyboardInterrupt:
        if best is None or not options.keep_best or len(best.blocks) > available:
            raise
        return replace(best, interrupted=True), ordered
    if best is None or (other is not None and len(other.blocks) < len(best.blocks)):
        return other, other_ordered
    return replace(best, interrupted=other is not None and other.interrupted), ordered


def _searched(
    sizes: CostModel, cap: np.ndarray, bounds: dict[str, int], available: int, options: PartitionOptions
) -> SearchResult | None:
    """The result of all searches, or the best so far where Ctrl-C ends them."""
    lower = max(bounds.values())
    blocks: Blocks | None = None
    try:
        outcome, problem, name = _first(sizes, cap, lower, available, options)
        blocks = None if outcome is None else outcome.blocks
        if options.method != "cp-sat":
            return outcome
        if exact.is_tiny(sizes, available) and (blocks is None or len(blocks) > lower):
            return _exactly(sizes, outcome, bounds, available, options)
        outcome, name = _better(problem, outcome, name)
        if outcome is None:
            return None
        blocks = outcome.blocks
        with keeping(blocks):
            near = nearer_populations(problem, blocks, name)
        if near is not None and is_within(sizes, near):
            outcome = replace(outcome, blocks=near)
        if len(outcome.blocks) <= available or options.effort != "max":
            return outcome
        return _once_more(problem, outcome)
    except KeyboardInterrupt as error:
        best = interrupted(error, blocks).blocks
        if not options.keep_best or best is None or len(best) > available:
            raise
        return SearchResult(best, lower, 0.0, interrupted=True)


def _first(
    sizes: CostModel, cap: np.ndarray, lower: int, available: int, options: PartitionOptions
) -> tuple[SearchResult | None, Problem, str]:
    """The best map of the quick methods, the problem that the searches continue, and the method's name."""
    blocks: Blocks | None = None
    tilings: Tilings = {}
    with suppress(NoTiling):
        blocks, tilings = sequential(sizes, shrunk_capacity(cap, options.spread))
    if blocks is not None and options.method != "sequential":
        with keeping(blocks):
            blocks = packed(sizes, cap, tilings, options.groups, lower)
    given = (EFFORTS[options.effort], options.seed, options.progress)
    problem = Problem(sizes, cap, options.groups, lower, available, tilings, *given)
    return None if blocks is None else SearchResult(blocks, lower, 0.0), problem, "packed"


def _better(problem: Problem, best: SearchResult | None, name: str) -> tuple[SearchResult | None, str]:
    """The outcome of all searches, each from the best so far while that does not meet the bound, and which found it."""
    for own, search in SEARCHES.items():
        blocks = None if best is None else best.blocks
        if best is not None and len(best.blocks) <= max(problem.lower, best.sliced_bound):
            break
        cores = "no map yet" if blocks is None else counted(len(blocks), "core")
        problem.progress(f"{cores}; at least {problem.lower}: {own}", None)
        with keeping(blocks):
            found = search(problem, best)
        if isinstance(found, SearchResult):
            best, name = found, name if found.blocks is blocks else own
        elif found is not None and (blocks is None or len(found) < len(blocks)) and is_within(problem.sizes, found):
            best, name = SearchResult(found, problem.lower, 0.0), own
    return best, name


def _once_more(problem: Problem, outcome: SearchResult) -> SearchResult:
    """Too many cores, which is not proved to be needed: other seeds, until the cores suffice."""
    best, first = outcome, problem.seed
    for seed in range(first + 1, first + 1 + SEEDS_MORE):
        problem.progress(f"{len(best.blocks)} cores, {problem.available} wanted", None)
        again = replace(problem, lower=problem.available, seed=seed)
        found = SEARCHES["filled"](again, best)
        if isinstance(found, tuple) and len(found) < len(best.blocks) and is_within(problem.sizes, found):
            best = replace(best, blocks=found)
        if len(best.blocks) <= problem.available:
            break
    return best


def _no_map(
    sizes: CostModel, cap: np.ndarray, options: PartitionOptions, available: int, lower: int
) -> explain.Diagnostic:
    reasons = bounding_limits(sizes, cap, options.seed, min(available, sizes.network.neurons))
    by_population = least_cores(sizes, cap)
    return explain.too_many_cores(sizes.network, sizes.chip, options.chips, available, lower, reasons, by_population)


def _exactly(
    sizes: CostModel, outcome: SearchResult | None, bounds: dict[str, int], available: int, options: PartitionOptions
) -> SearchResult | None:
    """Ask the exact model for fewer cores, from the bound upwards; a refutation raises the bound."""
    lower, spent = max(bounds.values()), 0.0
    most = available if outcome is None else min(len(outcome.blocks) - 1, available)
    for cores in range(lower, most + 1):
        answer = exact.solve_exactly(sizes, cores, options.seed, EXACT_TIME, groups=dict(options.groups))
        spent += answer.spent
        if answer.blocks is not None and is_within(sizes, answer.blocks):
            return SearchResult(answer.blocks, max(lower, bounds.get("exact", 1)), spent)
        if answer.blocks is None and answer.proved and bounds.get("exact", lower) == cores:
            bounds["exact"] = cores + 1
    return None if outcome is None else SearchResult(outcome.blocks, max(bounds.values()), spent)


def _refusal(
    sizes: CostModel, options: PartitionOptions, available: int, best: int | None, lower: int
) -> explain.Diagnostic:
    if exact.is_tiny(sizes, available):
        answer = exact.solve_exactly(sizes, available, options.seed, EXACT_TIME)
        if answer.proved and answer.blocks is None:
            reasons = exact.ruling_out_limits(sizes, available, options.seed, EXACT_TIME)
            return explain.ruled_out(sizes.network, sizes.chip, available, reasons)
    return explain.not_found(sizes.network, sizes.chip, options, available, best, lower)


def _report(
    sizes: CostModel,
    outcome: SearchResult,
    bounds: Mapping[str, int],
    options: PartitionOptions,
    used: tuple[Mapping[str, int], ...] | None,
) -> Partition:
    """The partition of an outcome; ``used``: every resource of each block, where that is known."""
    import ortools
    import scipy

    cores, lower = len(outcome.blocks), max(bounds.values())
    sliced = max(min(outcome.sliced_bound, cores), lower)
    status: Status = "optimal" if cores == lower else "optimal-sliced" if cores == sliced else "feasible"
    report = SolveReport(
        method=options.method,
        status=status,
        cores=cores,
        cores_lower_bound=lower,
        cores_lower_bound_sliced=sliced,
        bounds=MappingProxyType(dict(sorted(bounds.items()))),
        binding=max(sorted(bounds), key=lambda k: bounds[k]),
        seed=options.seed,
        solver=f"OR-Tools {ortools.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}",
        deterministic_time=round(outcome.spent, 6),
        interrupted=outcome.interrupted,
    )
    uses = resource_use(sizes, outcome.blocks) if used is None else used
    blocks = tuple(
        Block(BlockId(i), slices, own) for i, (slices, own) in enumerate(zip(outcome.blocks, uses, strict=True))
    )
    return Partition(blocks, sizes.weight_bits, report)


# -- whole rows ----------------------------------------------------------------------------------------------------
# Lists that may as well be whole rows: a closed form for the search, whose maps the lists themselves then pay for.
#
# Where a source's list takes about the words of a whole row, zeros included, the rows of a projection are all alike,
# and the search for dense projections is quick. A map that it finds is legal for the lists: a list never takes more
# than the row, and a source without a target in a core takes no axon there.

SAVED_LEAST = 16
"""Lists that save at least one word in this number are no rows."""
THIN = 4
"""Lists of fewer than one target in this number are no rows either, without a count of their words."""


def with_whole_rows(network: Network, chip: Chip, weight_bits: int) -> Network | None:
    """The network with whole rows for its lists; None: no lists are as long."""
    if chip.synapses.words is None:
        return None
    populations = {p.name for p in network.populations}
    rows: dict[int, Operator] = {}
    for k, p in enumerate(network.projections):
        if p.target in populations and isinstance(p.operator, Sparse) and _as_long(p, p.operator, chip, weight_bits):
            rows[k] = whole_rows(np.unique(p.operator.indices), p.operator.input_shape, p.operator.output_shape)
    return with_operators(network, rows) if rows else None


def _as_long(p: Projection, lists: Sparse, chip: Chip, weight_bits: int) -> bool:
    """True if lists in the order of the model save hardly a word."""
    rows, sources = math.prod(lists.output_shape), len(np.unique(lists.indices))
    if not sources or THIN * len(lists.indices) < rows * sources:
        return False
    fmt, delayed = chip.synapses, delay_on_chip_steps(p) > 0
    how = {"delayed": delayed, "filled": True}
    words = words_in_order(lists.indptr, lists.indices, lists.output_shape, fmt, weight_bits, **how)
    whole = sources * run_words(rows, fmt, weight_bits, delayed=delayed)
    return (whole - words) * SAVED_LEAST < whole


# -- by name -------------------------------------------------------------------------------------------------------
# Every method of partitioning by its name, in the form that plugins have (``nirbridge.plugins.Partitioner``).


@dataclass(frozen=True, slots=True)
class Method:
    """``partition`` with one method, regardless of the method in its options."""

    name: str

    def __call__(self, network: Network, chip: Chip, options: PartitionOptions | None = None) -> Partition:
        """See ``partition``."""
        subject = f"partitioner '{self.name}'"
        model = instance_of(network, Network, f"network of {subject}")
        target = instance_of(chip, Chip, f"chip of {subject}")
        settings = (
            PartitionOptions() if options is None else instance_of(options, PartitionOptions, f"options of {subject}")
        )
        return partition(model, target, replace(settings, method=self.name))


SEQUENTIAL = Method("sequential")
PACKED = Method("packed")
CP_SAT = Method("cp-sat")
