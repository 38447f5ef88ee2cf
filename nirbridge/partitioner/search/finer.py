"""Finer slice patterns: column generation fixes most cores, and balanced fillings complete the rest.

Patterns consist of whole pieces, and the remaining pieces rarely fill the last cores. They are therefore joined to
stretches again, which fillings cut between any two neurons. Pieces are charged with the average output axons of their
neurons in an existing map; cores that then exceed their output axons are filled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.sizing import CostModel, numbering_axes
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search import column_generation as master
from nirbridge.partitioner.search.balancing import completed
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.filling import Part, StretchCosts, Way, core_slots, way_of
from nirbridge.partitioner.search.interruption import kept, solve, solver_for
from nirbridge.partitioner.search.layouts import Layout
from nirbridge.partitioner.search.methods import (
    SLACKS,
    SearchResult,
    assigned,
    certain_columns,
    few_layouts,
    is_within,
)
from nirbridge.partitioner.search.slicing import Tilings

NEURONS_MAX = 300_000
"""Networks up to this size are searched: each try looks at all cores."""
FREE_CORES = (1, 2, 3, 4, 6, 8)
"""Numbers of cores that are tried to be filled to the neuron; all others are settled."""
TRIES = 20
"""How many times few cores are filled anew after each."""
WORK = 40_000_000
"""Work of one filling (``ways.COST_WORK``)."""


def finer_cores(
    sizes: CostModel,
    cap: Array,
    outcome: SearchResult,
    tilings: Tilings,
    least: Mapping[str, int],
    budget: master.SearchBudget,
    seed: int,
    progress: Progress,
) -> SearchResult:
    """Fewer cores than ``outcome`` by finer pieces, charged with the output axons that neurons have on average.

    These charges hold for no other map: they prove nothing. ``least`` are output axons that any map needs.
    """
    if sizes.network.neurons > NEURONS_MAX:
        return outcome
    slots = {name: int(np.ceil(own.mean())) for name, own in core_slots(sizes, outcome.blocks).items()}
    problem, choices = _problem(sizes, slots, tilings, cap)
    if problem is None:
        return outcome
    progress(f"finer patterns: {len(outcome.blocks)} cores, at least {outcome.sliced_bound}", None)
    blocks, spent = _completed(sizes, cap, problem, choices, outcome, budget, seed)
    bound = outcome.sliced_bound
    if len(blocks) < len(outcome.blocks):
        # that bound was one of coarser pieces
        relaxed, _ = _problem(sizes, least, tilings, cap)
        cores = 0.0 if relaxed is None else max(master.resource_bounds(relaxed).values())
        bound = min(bound, int(np.ceil(cores - master.TOLERANCE)))
    return SearchResult(blocks, min(bound, len(blocks)), outcome.spent + spent)


def _problem(
    sizes: CostModel, slots: Mapping[str, int], tilings: Tilings, cap: Array
) -> tuple[master.MasterProblem | None, tuple[Layout, ...]]:
    """Fine layouts whose neurons take ``slots`` output axons each, and their problem; None: too many classes."""
    by_neuron = {name: np.full(shape, slots[name], np.int64) for name, shape in sizes.shapes.items()}
    choices, classes = few_layouts(sizes, by_neuron, tilings, cap, fine=True)
    if not len(classes):
        return None, ()
    return master.master_problem(choices, classes, cap, certain_columns(sizes)), choices


def _completed(
    sizes: CostModel,
    cap: Array,
    problem: master.MasterProblem,
    choices: tuple[Layout, ...],
    outcome: SearchResult,
    budget: master.SearchBudget,
    seed: int,
) -> tuple[Blocks, float]:
    """The fewest cores over ``FREE_CORES``, those of ``outcome`` where these are not fewer; and the time spent."""
    best, start = outcome.blocks, np.eye(len(problem.vectors), dtype=np.int64)
    enough, nothing = outcome.sliced_bound - SLACKS[0], np.zeros(len(problem.vectors), np.int64)
    # no certificate is looked for above the cores that are known
    generated = kept(best, master.generate, problem, start, nothing, budget, len(best), seed, enough)
    spent = generated.spent
    if generated.linear > len(best) - 1 + master.TOLERANCE or generated.work > budget.linear_time:
        return best, spent
    cores = int(np.ceil(generated.linear - master.TOLERANCE))
    for free in FREE_CORES:
        contents, time = kept(best, settled_contents, problem, generated, cores, free, budget, seed)
        spent += time
        if contents is None:
            break
        found = kept(best, filled_up, sizes, cap, *assigned(sizes, choices, *contents), cores, seed)
        if found is not None and len(found) < len(best) and is_within(sizes, found):
            best = found
        if len(best) <= cores or len(contents[0]) < cores - free:
            break  # with more free cores as many would be settled
    return best, spent


def remaining_arcs(
    problem: master.MasterProblem, settled: Sequence[Array], budget: master.SearchBudget, seed: int
) -> tuple[Array | None, float]:
    """Integer arcs that leave least beside the settled cores, by shares of neurons and words; and the time spent."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    demand, supply = problem.demand.tocsr(), np.array(settled, np.int64).sum(axis=0)
    arcs = [model.new_int_var(0, 10_000, "") for _ in range(problem.arcs)]
    shares = (problem.vectors / np.maximum(problem.cap, 1))[:, [0, 2]].max(axis=1)
    weights = np.maximum((shares * master.WEIGHT_SCALE).astype(np.int64), 1).tolist()
    left = [model.new_int_var(0, master.PIECES_MAX, "") for _ in weights]
    for number, rest in enumerate(left):
        cut = demand.indices[demand.indptr[number] : demand.indptr[number + 1]]
        model.add(rest >= sum(arcs[a] for a in cut) - int(supply[number]))
    master.add_rows(model, problem.equal, problem.equal_rhs, arcs, cover=False)
    master.add_rows(model, problem.cover, problem.cover_rhs, arcs, cover=True)
    model.minimize(sum(w * rest for w, rest in zip(weights, left, strict=True)))
    solver = solver_for(budget.finish_time, seed)
    status = solve(solver, model)
    spent = solver.response_proto.deterministic_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, spent
    return np.array([solver.value(a) for a in arcs], np.int64), spent


def settled_contents(
    problem: master.MasterProblem,
    generated: master.GeneratedPatterns,
    cores: int,
    free: int,
    budget: master.SearchBudget,
    seed: int,
) -> tuple[tuple[Array, Array] | None, float]:
    """Patterns of all but ``free`` of ``cores`` and integer arcs, or None; and the time spent."""
    settled, spent = master.settle(problem, generated, cores, replace(budget, free_cores=free), seed)
    if not settled:
        return None, spent
    arcs, time = remaining_arcs(problem, settled, budget, seed)
    return None if arcs is None else (np.array(settled), arcs), spent + time


def filled_up(
    sizes: CostModel, cap: Array, blocks: Blocks, rest: Sequence[Slice], enough: int, seed: int
) -> Blocks | None:
    """The blocks, and the rest in further cores, with too many output axons repaired. None: nothing legal."""
    costs = StretchCosts(sizes, cap, Work(WORK))
    ways: dict[tuple[str, tuple[int, int]], Way] = {}
    contents = []
    for block in (*blocks, tuple(rest)):
        parts: list[Part] = []
        for piece in block:
            own = _parts(costs, ways, piece)
            if own is None:
                return None
            parts += own
        contents.append(tuple(parts))
    return completed(costs, list(ways.values()), contents[:-1], contents[-1], enough, TRIES, seed)


def _parts(costs: StretchCosts, ways: dict[tuple[str, tuple[int, int]], Way], piece: Slice) -> list[Part] | None:
    """A slice as places of the way of its channels, row by row; None: a neuron fits no core."""
    shape, box = costs.sizes.shapes[piece.population], piece.box
    channels = box[0] if len(shape) > 1 else (0, 1)
    key = (piece.population, channels)
    if key not in ways:
        way = way_of(costs, piece.population, numbering_axes(shape), channels)
        if way is None:
            return None
        ways[key] = way
    way = ways[key]
    if len(shape) == 1:
        return [(way, *box[0])]
    places = np.arange(way.size).reshape(way.lengths)
    by_axis = [box[axis] if axis else (0, channels[1] - channels[0]) for axis in way.axes]
    lines = places[tuple(slice(a, b) for a, b in by_axis[:-2])].reshape(-1, *way.lengths[-2:])
    (low, high) = by_axis[-2]
    return [(way, int(line[low, 0]), int(line[high - 1, -1]) + 1) for line in lines]
