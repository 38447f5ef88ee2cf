"""Exact model of tiny networks, neuron by neuron: CP-SAT decides over all maps, so its refutations are proofs.

Words are counted at the least that any order of the neurons could give (one dense list per source and
projection). Of a solution every order is tried; neurons that fit a core in none are kept apart, and the question is
asked again. A refutation holds for any order. (Runs that have to be full, kernels that are stored once, and more than
``ORDERED_MAX`` neurons of a population in a core are not refuted so: such a solution is checked in full.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks, block_words
from nirbridge.partitioner.cost.connectivity import explicit, synapses
from nirbridge.partitioner.cost.resources import axon_list_words, least_list_words, limits, profile_ids
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import RESOURCES, Slice
from nirbridge.partitioner.search.interruption import solve as run_solver
from nirbridge.partitioner.search.interruption import solver_for
from nirbridge.partitioner.search.slicing import in_core_order

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

    Grid = list[list[IntVar]]

NEURONS_MAX = 40
SYNAPSES_MAX = 1500
CORES_MAX = 12
ORDERED_MAX = 7
"""Neurons of one population in a core whose orders are all tried."""

SourceId = int | tuple[str, int]
"""A neuron by its number, a host input by port and element."""


@dataclass(frozen=True, slots=True)
class ExactResult:
    """``proved`` False means that the work limit came first. ``blocks`` None with ``proved``: no map exists."""

    blocks: Blocks | None
    proved: bool
    spent: float


@dataclass(frozen=True, slots=True, eq=False)
class TinyNetwork:
    """A network as lists: per projection its (source id, target neuron) pairs; ids number hosts and neurons."""

    neurons: tuple[tuple[str, int], ...]
    pairs: tuple[tuple[bool, tuple[tuple[SourceId, int], ...]], ...]


def is_tiny(sizes: CostModel, cores: int) -> bool:
    """True where the exact model is small enough to be worth building."""
    if sizes.network.neurons > NEURONS_MAX or min(cores, sizes.network.neurons) > CORES_MAX:
        return False
    return sum(synapses(e.form) for edges in sizes.incoming.values() for e in edges) <= SYNAPSES_MAX


def tiny_network(sizes: CostModel) -> TinyNetwork:
    """The lists of a tiny network."""
    neurons = tuple((name, i) for name, shape in sizes.shapes.items() for i in range(math.prod(shape)))
    index = {key: i for i, key in enumerate(neurons)}
    pairs = []
    for name, edges in sizes.incoming.items():
        for edge in edges:
            lists = explicit(edge.form, name)
            rows = np.repeat(np.arange(len(lists.indptr) - 1), np.diff(lists.indptr)).tolist()
            keys = [(edge.source, source) for source in lists.sources.tolist()]
            listed = tuple((index.get(key, key), index[name, row]) for key, row in zip(keys, rows, strict=True))
            pairs.append((edge.delayed, listed))
    return TinyNetwork(neurons, tuple(pairs))


def solve_exactly(
    sizes: CostModel,
    cores: int,
    seed: int,
    time: float,
    without: Collection[str] = (),
    groups: Mapping[str, int] | None = None,
) -> ExactResult:
    """A map onto at most ``cores`` cores, or the proof that there is none; ``without`` names limits to leave out."""
    from ortools.sat.python import cp_model

    lists = tiny_network(sizes)
    cores = min(cores, len(lists.neurons))
    most = {r: n for r, n in limits(sizes.chip).items() if n is not None and r not in without}
    model, on = _model(sizes, lists, cores, most, groups or {})
    spent = 0.0
    while True:
        solver = solver_for(time - spent, seed)
        status = run_solver(solver, model)
        spent += solver.response_proto.deterministic_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return ExactResult(None, status == cp_model.INFEASIBLE, spent)
        where = [next(c for c in range(cores) if solver.value(row[c])) for row in on]
        blocks, apart = _in_order(sizes, lists, where, most.get("synapse_words"))
        if not apart or spent >= time:
            return ExactResult(blocks, not apart, spent)
        for members in apart:
            for c in range(cores):
                model.add_bool_or([on[n][c].negated() for n in members])


def _model(
    sizes: CostModel, lists: TinyNetwork, cores: int, most: Mapping[str, int], groups: Mapping[str, int]
) -> tuple[CpModel, Grid]:
    """All limits but the order of the neurons in a core; ``on[n][c]``: neuron n is in core c."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    on = [[model.new_bool_var("") for _ in range(cores)] for _ in lists.neurons]
    for n, row in enumerate(on):
        model.add_exactly_one(row)
        for c in range(n + 1, cores):
            # cores are alike: neuron n needs none beyond the first n + 1
            model.add(row[c] == 0)
    if "neurons" in most:
        for c in range(cores):
            model.add(sum(row[c] for row in on) <= most["neurons"])
    reached = _axons(model, lists, on, cores, most)
    _outputs(model, reached, on, cores, most)
    _words(model, sizes, lists, on, cores, most)
    _profiles(model, sizes, lists, on, cores, most)
    _keep_apart(model, lists, on, cores, groups)
    return model, on


def _axons(
    model: CpModel, lists: TinyNetwork, on: Grid, cores: int, most: Mapping[str, int]
) -> dict[SourceId, list[IntVar]]:
    """reached[source][c]: the source has a target in core c."""
    targets: dict[SourceId, set[int]] = {}
    for _, pairs in lists.pairs:
        for source, target in pairs:
            targets.setdefault(source, set()).add(target)
    reached: dict[SourceId, list[IntVar]] = {}
    for source in sorted(targets, key=str):
        row = [model.new_bool_var("") for _ in range(cores)]
        for c in range(cores):
            for target in sorted(targets[source]):
                model.add_implication(on[target][c], row[c])
        reached[source] = row
    if "input_axons" in most:
        for c in range(cores):
            model.add(sum(row[c] for row in reached.values()) <= most["input_axons"])
    return reached


def _outputs(
    model: CpModel, reached: Mapping[SourceId, list[IntVar]], on: Grid, cores: int, most: Mapping[str, int]
) -> None:
    if "output_axons" not in most:
        return
    for c in range(cores):
        sent = []
        for source, row in reached.items():
            if isinstance(source, int):
                for d in range(cores):
                    both = model.new_bool_var("")
                    model.add_bool_or([on[source][c].negated(), row[d].negated(), both])
                    sent.append(both)
        model.add(sum(sent) <= most["output_axons"])


def _words(model: CpModel, sizes: CostModel, lists: TinyNetwork, on: Grid, cores: int, most: Mapping[str, int]) -> None:
    if "synapse_words" not in most or sizes.chip.synapses.shared_kernels:
        return
    fmt, bits = sizes.chip.synapses, sizes.weight_bits
    for c in range(cores):
        total = []
        for delayed, pairs in lists.pairs:
            by_source: dict[SourceId, list[int]] = {}
            for source, target in pairs:
                by_source.setdefault(source, []).append(target)
            for targets in by_source.values():
                table = least_list_words(np.arange(len(targets) + 1), fmt, bits, delayed=delayed)
                words = model.new_int_var(0, int(table[-1]), "")
                model.add_element(sum(on[t][c] for t in targets), table.tolist(), words)
                total.append(words)
        model.add(sum(total) <= most["synapse_words"])


def _profiles(
    model: CpModel, sizes: CostModel, lists: TinyNetwork, on: Grid, cores: int, most: Mapping[str, int]
) -> None:
    for resource in ("decay_profiles", "threshold_profiles"):
        if resource not in most:
            continue
        kinds = [_kind(sizes, name, i, resource) for name, i in lists.neurons]
        values = sorted({k for k in kinds if k is not None})
        if len(values) <= most[resource]:
            continue
        for c in range(cores):
            used = {k: model.new_bool_var("") for k in values}
            for row, kind in zip(on, kinds, strict=True):
                if kind is not None:
                    model.add_implication(row[c], used[kind])
            model.add(sum(used.values()) <= most[resource])


def _kind(sizes: CostModel, name: str, neuron: int, resource: str) -> tuple[float, ...] | None:
    ids = profile_ids(sizes.network.population(name).neuron, sizes.shapes[name])
    if resource == "decay_profiles":
        return ids.decay_values[int(np.asarray(ids.decay).ravel()[neuron])]
    if not ids.threshold_values:
        return None
    return (ids.threshold_values[int(np.asarray(ids.threshold).ravel()[neuron])],)


def _keep_apart(model: CpModel, lists: TinyNetwork, on: Grid, cores: int, groups: Mapping[str, int]) -> None:
    """Neurons of different groups never share a core."""
    number = [groups.get(name, 0) for name, _ in lists.neurons]
    if len(set(number)) < 2:
        return
    for c in range(cores):
        of = {g: model.new_bool_var("") for g in sorted(set(number))}
        model.add_at_most_one(of.values())
        for row, g in zip(on, number, strict=True):
            model.add_implication(row[c], of[g])


def _in_order(
    sizes: CostModel, lists: TinyNetwork, where: list[int], words: int | None
) -> tuple[Blocks, list[list[int]]]:
    """The blocks of a solution, and the neurons of each core that fit there in no order (none: as far as is known)."""
    blocks, apart = [], []
    for core in sorted(set(where)):
        members = [n for n, c in enumerate(where) if c == core]
        natural = in_core_order([_slice(sizes, *lists.neurons[n]) for n in members], tuple(sizes.shapes))
        blocks.append(natural)
        fmt = sizes.chip.synapses
        if words is None or block_words(sizes, natural) <= words or fmt.shared_kernels or not fmt.run_free:
            continue
        own = {name: [i for n in members for p, i in [lists.neurons[n]] if p == name] for name in sizes.shapes}
        if max(map(len, own.values())) > ORDERED_MAX:
            continue
        orders = {name: best_order(sizes, name, neurons) for name, neurons in own.items() if neurons}
        if sum(least for _, least in orders.values()) > words:
            apart.append(members)
        blocks[-1] = tuple(_slice(sizes, name, i) for name, (order, _) in orders.items() for i in order)
    return tuple(blocks), apart


def _slice(sizes: CostModel, name: str, neuron: int) -> Slice:
    """One neuron."""
    place: Array = np.array(np.unravel_index(neuron, sizes.shapes[name]))
    return Slice(name, tuple((int(p), int(p) + 1) for p in place))


def ruling_out_limits(sizes: CostModel, cores: int, seed: int, time: float) -> tuple[str, ...]:
    """A minimal set of limits that alone rule out every map: each was shown to be needed by leaving it out."""
    needed = [r for r in RESOURCES if limits(sizes.chip)[r] is not None]
    for resource in tuple(needed):
        rest = [r for r in needed if r != resource]
        left_out = [r for r in RESOURCES if r not in rest]
        answer = solve_exactly(sizes, cores, seed, time, without=left_out)
        if answer.proved and answer.blocks is None:
            needed = rest
    return tuple(needed)


# -- orders of a core --------------------------------------------------------------------------------------------------


def best_order(sizes: CostModel, population: str, neurons: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The first order of fewest words of at most ``ORDERED_MAX`` neurons (flat indices) of a population.

    Neurons of other populations between them would only lengthen their lists. Kernels that are stored once are not
    known here.
    """
    orders = _orders(len(neurons))
    words = np.zeros(len(orders), np.int64)
    bit = 1 << np.arange(len(neurons))
    for edge in sizes.incoming[population]:
        form = explicit(edge.form, population)
        pairs = [(form.sources[form.indptr[n] : form.indptr[n + 1]], b) for n, b in zip(neurons, bit, strict=True)]
        held = np.zeros(form.n_sources, np.int64)
        for sources, b in pairs:
            held[sources] |= b
        masks, counts = np.unique(held[held > 0], return_counts=True)
        table = _table(sizes, len(neurons), delayed=edge.delayed, fills=edge.fills)
        for mask, count in zip(masks, counts, strict=True):
            # bit k of a pattern: the neuron at place k is a target
            pattern = ((mask >> orders & 1) << np.arange(len(neurons))).sum(axis=1)
            words += count * table[pattern]
    best = int(np.argmin(words))
    return tuple(neurons[i] for i in orders[best]), int(words[best])


@lru_cache(maxsize=ORDERED_MAX + 1)
def _orders(n: int) -> Array:
    return np.array(list(permutations(range(n))), np.int64).reshape(-1, n)


def _table(sizes: CostModel, n: int, *, delayed: bool, fills: bool) -> Array:
    """Words of a list by its pattern of places, bit k for place k."""
    pattern = np.arange(1 << n)
    axon, place = np.nonzero(pattern[:, None] >> np.arange(n) & 1)
    table = np.zeros(1 << n, np.int64)
    how = {"delayed": delayed, "filled": fills}
    ids, words = axon_list_words(axon, place, sizes.chip.synapses, sizes.weight_bits, **how)
    table[ids] = words
    return table
