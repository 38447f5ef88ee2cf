"""Fewest cores by column generation over slice classes, with a certificate and an integer finish.

A pattern is the content of one core, as a count per piece class. The linear master problem chooses patterns and layouts
so that the pieces supplied cover the pieces cut; a knapsack prices new patterns. With integer weights per class, T the
least weight of any layout and Z a proved upper bound on the weight of one core, at least T/Z cores are needed: a bound
in exact integers, which one solve can check again (docs/partitioning.md, Proofs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.search.interruption import linear_work, solve, solver_for
from nirbridge.partitioner.search.layouts import Layout

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar
    from scipy.sparse import csr_array

WEIGHT_SCALE = 2_000_000
"""Largest integer weight of a class in pricing and certificates."""
TOLERANCE = 1e-6
PIECES_MAX = 2**20
"""No core holds more pieces than this: there are no larger populations in the pattern search."""
FREE_MAX = 12
"""The exact finish fills at most this many cores: it stalls on more, since cores are alike."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """Deterministic limits of the search.

    Pricing rounds at the root and after each settled core, CP-SAT deterministic time for a price, for one try of
    the finish, for one dive and for all, and how many cores the finish is free to fill. A price within ``price_gap``
    of the best will do (certificates use the proved bound); pricing ends at a gain of ``gap``. ``linear_time`` bounds
    the linear programs of one run of pricing and of one dive, counted by ``linear_work``.
    """

    rounds: int = 150
    dive_rounds: int = 40
    gap: float = 1e-3
    price_gap: float = 0.01
    price_time: float = 0.02
    try_time: float = 0.4
    finish_time: float = 1.2
    total_time: float = 4.0
    linear_time: float = 20.0
    free_cores: int = 3
    give_back: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedPatterns:
    """Patterns ``[patterns, classes]`` and their use, the certificate, the LP value, the work spent.

    ``spent`` is the deterministic time of CP-SAT, ``work`` that of the linear programs (``linear_work``).
    """

    patterns: Array
    use: Array
    bound: int
    certificate: float
    linear: float
    spent: float
    work: float


@dataclass(frozen=True, slots=True, eq=False)
class MasterProblem:
    """Layouts and classes as matrices: ``demand [classes, arcs]``, ``flow @ arcs (== or >=) rhs``.

    ``vectors`` are what patterns must fit; ``certain`` the part of them that adds up exactly, which alone counts in
    bounds (pieces of one core may share input axons and profiles, so their sums prove nothing).
    """

    demand: csr_array
    equal: csr_array
    equal_rhs: Array
    cover: csr_array
    cover_rhs: Array
    vectors: Array
    certain: Array
    cap: Array

    @property
    def arcs(self) -> int:
        """Number of arcs of all layouts."""
        return cast(tuple[int, int], self.demand.shape)[1]


def master_problem(layouts: tuple[Layout, ...], vectors: Array, cap: Array, certain: tuple[int, ...]) -> MasterProblem:
    """The matrices of the layouts; arcs of all layouts one after the other.

    ``vectors``: costs of the slice classes; ``certain``: columns of them that bounds use.
    """
    from scipy import sparse

    arcs = sum(len(layout.arcs) for layout in layouts)
    demand: list[tuple[int, int]] = []
    rows: dict[bool, list[tuple[tuple[int, int], ...]]] = {False: [], True: []}
    rhs: dict[bool, list[int]] = {False: [], True: []}
    base = 0
    for layout in layouts:
        demand += [(arc.cost_class, base + i) for i, arc in enumerate(layout.arcs) if arc.cost_class >= 0]
        for row in layout.rows:
            rows[row.cover].append(tuple((base + i, c) for i, c in row.terms))
            rhs[row.cover].append(row.rhs)
        base += len(layout.arcs)

    def matrix(lines: list[tuple[tuple[int, int], ...]]) -> sparse.csr_array:
        entries = [(r, i, c) for r, line in enumerate(lines) for i, c in line]
        if not entries:
            return sparse.csr_array((len(lines), arcs))
        r, i, c = (np.array(x) for x in zip(*entries, strict=True))
        return sparse.csr_array((c.astype(float), (r, i)), shape=(len(lines), arcs))

    number, arc = (np.array(x) for x in zip(*demand, strict=True))
    demanded = sparse.csr_array((np.ones(len(arc)), (number, arc)), shape=(len(vectors), arcs))
    return MasterProblem(
        demanded,
        matrix(rows[False]),
        np.array(rhs[False], float),
        matrix(rows[True]),
        np.array(rhs[True], float),
        vectors,
        np.where(np.isin(np.arange(len(cap)), certain), vectors, 0),
        cap,
    )


def resource_bounds(problem: MasterProblem) -> dict[int, float]:
    """Cores needed for each resource alone: its least total over all layouts, in cores. By resource number."""
    limited = np.flatnonzero(problem.certain.sum(axis=0) > 0).tolist()
    return {r: least_weight(problem, problem.certain[:, r]) / int(problem.cap[r]) for r in limited}


def generate(
    problem: MasterProblem, start: Array, fixed: Array, budget: SearchBudget, lower: int, seed: int, enough: float = 0.0
) -> GeneratedPatterns:
    """Patterns that make the linear master (nearly) optimal, and the best certificate met on the way.

    Stops early once the value is at most ``enough``.

    ``start: [patterns, classes]`` must cover some layout beside ``fixed: [classes]``, the pieces that cores already
    settled supply. A certificate is only looked for while nothing is fixed. Stops when no pattern gains, or the
    certificate proves the rounded-up value and the value is near its end.
    """
    patterns, best, certificate, spent = start, lower, 0.0, 0.0
    linear, duals, use, work = _master(problem, patterns, fixed)
    if not np.isfinite(linear):
        # no choice of the layouts fits: more patterns change nothing
        return GeneratedPatterns(patterns, use, best, certificate, linear, spent, work)
    closely = replace(budget, price_gap=0.0, price_time=10 * budget.price_time)
    for _ in range(budget.rounds):
        if linear <= enough or work > budget.linear_time:
            break
        weights = np.floor(duals / max(float(duals.max()), TOLERANCE) * WEIGHT_SCALE).astype(np.int64)
        pattern, most, time = price(problem.vectors, weights, problem.cap, budget, seed)
        spent += time
        if pattern is None or _is_known(pattern, patterns, duals):
            # a rough price may miss what still gains: look closely once before giving up
            pattern, most, time = price(problem.vectors, weights, problem.cap, closely, seed)
            spent += time
        if pattern is None or float(weighted_sum(pattern, duals)) <= TOLERANCE:
            break
        gain = float(weighted_sum(pattern, duals))
        if not fixed.any() and most > 0 and np.ceil(linear / gain - TOLERANCE) > best:
            if not np.array_equal(problem.certain, problem.vectors):
                _, most, time = price(problem.certain, weights, problem.cap, budget, seed)
                spent += time
            if most > 0:
                certificate = max(certificate, least_weight(problem, weights) / most)
            best = max(best, int(np.ceil(certificate - TOLERANCE)))
        if gain <= 1 + budget.gap or _is_known(pattern, patterns, duals):
            break
        patterns = np.vstack([patterns, pattern])
        linear, duals, use, more = _master(problem, patterns, fixed)
        work += more
    return GeneratedPatterns(patterns, use, best, certificate, linear, spent, work)


def _is_known(pattern: Array, patterns: Array, duals: Array) -> bool:
    """True if a pattern cannot improve the master: it is in it already, or its reduced cost is not negative."""
    return float(weighted_sum(pattern, duals)) <= 1 + TOLERANCE or bool((patterns == pattern).all(axis=1).any())


def dive(
    problem: MasterProblem, generated: GeneratedPatterns, cores: int, budget: SearchBudget, seed: int
) -> tuple[tuple[Array, Array] | None, float]:
    """Settle cores one after the other as the linear master would have them, then finish the last few exactly.

    After each settled pattern the master is priced anew, so that the rest can adapt. Returns (patterns per core,
    arcs) with at most ``cores`` cores, or None, and the deterministic time spent.
    """
    settled, spent = settle(problem, generated, cores, budget, seed)
    while cores - len(settled) <= FREE_MAX:
        result, time = finish_cores(problem, settled, cores, budget, seed)
        spent += time
        if result is not None or not settled or spent > budget.finish_time:
            return result, spent
        settled = settled[: -budget.give_back]
    return None, spent


def settle(
    problem: MasterProblem, generated: GeneratedPatterns, cores: int, budget: SearchBudget, seed: int
) -> tuple[list[Array], float]:
    """Patterns of all but ``budget.free_cores`` of ``cores``, or of fewer where the rest would not fit, and the time.

    The patterns that the linear master uses, priced anew after each that is settled.
    """
    settled: list[Array] = []
    patterns, use, spent, work = generated.patterns, generated.use, 0.0, 0.0
    small = replace(budget, rounds=budget.dive_rounds)
    while len(settled) < cores - budget.free_cores and work <= budget.linear_time:
        room = cores - budget.free_cores - len(settled)
        chosen = _to_settle(patterns, use, room)
        if not chosen:
            break
        settled += [patterns[p] for p in chosen]
        fixed = np.sum(settled, axis=0)
        # priced only as far as it takes for the rest to fit into the cores that are left
        step = generate(problem, patterns, fixed, small, 0, seed, cores - len(settled) - TOLERANCE)
        spent, work = spent + step.spent, work + step.work
        patterns, use = step.patterns, step.use
        if step.linear + len(settled) > cores + TOLERANCE:
            # the settled cores cannot be completed any more: give the last ones back
            settled = settled[: -budget.give_back]
            break
    return settled, spent


def _to_settle(patterns: Array, use: Array, room: int) -> list[int]:
    """Whole uses of patterns first; without any, the one of the largest fraction."""
    whole = [p for p, x in enumerate(use) for _ in range(int(x + TOLERANCE))]
    if whole:
        return whole[:room]
    best = int(np.argmax(use))
    return [best] if use[best] > TOLERANCE else []


def _master(problem: MasterProblem, patterns: Array, fixed: Array) -> tuple[float, Array, Array, float]:
    """Value of the linear master, the price of a piece of each class (>= 0), the use of each pattern, and the work."""
    from scipy import sparse
    from scipy.optimize import linprog

    n, arcs = len(patterns), problem.arcs
    supply = sparse.hstack([sparse.csr_array(-patterns.T.astype(float)), problem.demand])
    cover = sparse.hstack([sparse.csr_array((len(problem.cover_rhs), n)), -problem.cover])
    equal = sparse.hstack([sparse.csr_array((len(problem.equal_rhs), n)), problem.equal])
    result = linprog(
        np.concatenate((np.ones(n), np.zeros(arcs))),
        A_ub=sparse.vstack([supply, cover]).tocsc(),
        b_ub=np.concatenate((fixed.astype(float), -problem.cover_rhs)),
        A_eq=equal.tocsc() if len(problem.equal_rhs) else None,
        b_eq=problem.equal_rhs if len(problem.equal_rhs) else None,
        method="highs",
    )
    work = linear_work(supply.nnz + cover.nnz + equal.nnz, int(result.nit))
    if result.status != 0:
        return float("inf"), np.ones(len(problem.vectors)), np.zeros(n), work
    prices = np.maximum(-result.ineqlin.marginals[: len(problem.vectors)], 0.0)
    return float(result.fun), prices, result.x[:n], work


def least_weight(problem: MasterProblem, weights: Array) -> float:
    """A lower bound on the weight of any layout (exact up to rounding: the layouts are flows and covers)."""
    from scipy.optimize import linprog

    cost = problem.demand.T @ weights.astype(float)
    result = linprog(
        cost,
        A_ub=-problem.cover.tocsc() if len(problem.cover_rhs) else None,
        b_ub=-problem.cover_rhs if len(problem.cover_rhs) else None,
        A_eq=problem.equal.tocsc() if len(problem.equal_rhs) else None,
        b_eq=problem.equal_rhs if len(problem.equal_rhs) else None,
        method="highs",
    )
    return float(result.fun) * (1 - 1e-9) if result.status == 0 else 0.0


def price(
    vectors: Array, weights: Array, cap: Array, budget: SearchBudget, seed: int
) -> tuple[Array | None, float, float]:
    """The heaviest pattern of one core, a proved upper bound on any pattern's weight, and the time spent."""
    from ortools.sat.python import cp_model

    useful = np.flatnonzero(weights > 0)
    if not len(useful):
        return None, 0.0, 0.0
    model = cp_model.CpModel()
    limited = np.flatnonzero(vectors[useful].sum(axis=0) > 0)
    most = class_multiplicity(vectors, cap)
    count = [model.new_int_var(0, int(most[c]), "") for c in useful]
    for r in limited:
        model.add(sum(int(vectors[c, r]) * n for c, n in zip(useful, count, strict=True)) <= int(cap[r]))
    model.maximize(sum(int(weights[c]) * n for c, n in zip(useful, count, strict=True)))
    solver = solver_for(budget.price_time, seed)
    solver.parameters.relative_gap_limit = budget.price_gap
    status = solve(solver, model)
    bound = float(solver.best_objective_bound)
    spent = solver.response_proto.deterministic_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bound, spent
    pattern = np.zeros(len(vectors), np.int64)
    pattern[useful] = [solver.value(n) for n in count]
    return pattern, bound, spent


def class_multiplicity(vectors: Array, cap: Array) -> Array:
    """Number of times that each class fits an empty core."""
    times = np.where(vectors > 0, cap // np.maximum(vectors, 1), PIECES_MAX)
    return np.minimum(times.min(axis=1), PIECES_MAX)


def finish_cores(
    problem: MasterProblem, settled: list[Array], cores: int, budget: SearchBudget, seed: int
) -> tuple[tuple[Array, Array] | None, float]:
    """Integer arcs, with the settled cores and the rest of ``cores`` free to hold any mixture; None: none found."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    demand = problem.demand.tocsr()
    arcs = [model.new_int_var(0, 10_000, "") for _ in range(problem.arcs)]
    most = class_multiplicity(problem.vectors, problem.cap)
    mixed = [[model.new_int_var(0, int(min(m, 4096)), "") for m in most] for _ in range(cores - len(settled))]
    for counts in mixed:
        for r in np.flatnonzero(problem.vectors.sum(axis=0) > 0):
            model.add(
                sum(int(v) * n for v, n in zip(problem.vectors[:, r], counts, strict=True) if v) <= int(problem.cap[r])
            )
    fixed = np.sum(settled, axis=0) if settled else np.zeros(len(problem.vectors), np.int64)
    for c in range(len(problem.vectors)):
        cut = demand.indices[demand.indptr[c] : demand.indptr[c + 1]]
        model.add(int(fixed[c]) + sum(m[c] for m in mixed) >= sum(arcs[a] for a in cut))
    add_rows(model, problem.equal, problem.equal_rhs, arcs, cover=False)
    add_rows(model, problem.cover, problem.cover_rhs, arcs, cover=True)
    solver = solver_for(budget.try_time, seed)
    status = solve(solver, model)
    spent = solver.response_proto.deterministic_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, spent
    contents = [*settled, *(np.array([solver.value(n) for n in counts], np.int64) for counts in mixed)]
    return (np.array(contents, np.int64), np.array([solver.value(a) for a in arcs], np.int64)), spent


def add_rows(model: CpModel, matrix: csr_array, rhs: Array, arcs: Sequence[IntVar], *, cover: bool) -> None:
    """The rows of the layouts as constraints over integer arcs."""
    rows = matrix.tocsr()
    for r in range(len(rhs)):
        span = slice(rows.indptr[r], rows.indptr[r + 1])
        total = sum(int(c) * arcs[i] for i, c in zip(rows.indices[span], rows.data[span], strict=True))
        model.add(total >= int(rhs[r]) if cover else total == int(rhs[r]))
