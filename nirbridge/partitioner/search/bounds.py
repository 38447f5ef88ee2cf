"""Lower bounds on the cores of any map, each proved by one kind of argument.

``neurons``: a total over capacity. ``input_axons``, ``output_axons``: pairs of a source and a core that holds targets
of it, since n neurons have at least a known number of sources (``spread``). ``synapse_words``: a source needs at least
the words of one list of all its targets wherever they lie, since splitting a list over cores is a special case of
splitting it into runs; a kernel that is shared is stored in every core that holds a neuron of its channel.
``population``: cores that one population alone must occupy. ``patterns``: dense layers, where any n
neurons cost ``sources * W(n)`` words, so the best fillings of a core can be enumerated by pricing; the
certificate of ``master`` is then a bound over all maps. ``decay_profiles``, ``threshold_profiles``: every profile lies
in some core. ``conflicts``: neurons of which no two have few enough sources for one core. (Partitioning text, sections
2 and 4.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import AllToAll
from nirbridge.partitioner.cost.neurons import NeuronLists, neuron_lists, total_synapses
from nirbridge.partitioner.cost.resources import least_list_words
from nirbridge.partitioner.cost.sizing import CostModel, distinct_profiles, total_out_degrees
from nirbridge.partitioner.search.column_generation import SearchBudget, class_multiplicity, generate, master_problem
from nirbridge.partitioner.search.layouts import ClassTable, Layout, LayoutArc, LayoutRow, class_number, class_vectors
from nirbridge.partitioner.search.slicing import UNLIMITED
from nirbridge.partitioner.search.spread import Spread, least_spread

COLUMNS = MappingProxyType(
    {
        "decay_profiles": 3,
        "threshold_profiles": 4,
        "input_axons": 1,
        "output_axons": 5,
        "neurons": 0,
        "synapse_words": 2,
    }
)
"""Limits that bounds rest on, and their columns in a packing vector, in the order in which they are left out."""
BREAKS_MAX = 400
"""Lengths enumerated per dense population; above, its neurons are counted one by one without words."""


def any_map_bounds(sizes: CostModel, cap: Array, seed: int) -> dict[str, int]:
    """Lower bounds on the cores of any map, by name; the largest is the bound."""
    total = sizes.network.neurons
    needed = least_cores(sizes, cap)
    slots = least_slots(sizes, needed)
    bounds = {"neurons": _ceil(total, int(cap[0])), "population": max(needed.values(), default=1)}
    if cap[5] < UNLIMITED:
        out = sum(slots[name] * math.prod(shape) for name, shape in sizes.shapes.items())
        bounds["output_axons"] = _ceil(out, int(cap[5]))
    if cap[2] < UNLIMITED and not sizes.chip.synapses.shared_kernels:
        bounds["synapse_words"] = _ceil(least_words(sizes), int(cap[2]))
    for name, value in _spread_bounds(least_spread(sizes, cap), sizes, cap).items():
        if value > bounds.get(name, max(bounds.values())):
            bounds[name] = value
    if max(bounds.values()) > 1 and any(_dense_sources(sizes, name) for name in sizes.shapes):
        bounds["patterns"] = _pattern_bound(sizes, slots, cap, seed, max(bounds.values()))
    bounds |= profile_bounds(sizes, cap)
    conflicts = conflict_bound(sizes, int(cap[1]))
    if conflicts > max(bounds.values()):
        bounds["conflicts"] = conflicts
    return {name: max(value, 1) for name, value in bounds.items()}


def _spread_bounds(spread: Spread, sizes: CostModel, cap: Array) -> dict[str, int]:
    """Totals of what populations take at least, wherever their neurons lie."""
    sent = sum(count for source, count in spread.pairs.items() if source in sizes.shapes)
    return {
        "input_axons": _ceil(sum(spread.pairs.values()), int(cap[1])),
        "output_axons": _ceil(sent, int(cap[5])),
        "population": max(spread.cores.values(), default=1),
        "synapse_words": _ceil(spread.words, int(cap[2])),
    }


def bounding_limits(sizes: CostModel, cap: Array, seed: int, available: int) -> tuple[str, ...]:
    """A minimal set of limits that alone put the bound above ``available``: with one fewer they do not."""
    needed = dict(COLUMNS)
    relaxed = cap.copy()
    for name, column in COLUMNS.items():
        without = relaxed.copy()
        without[column] = UNLIMITED
        if max(any_map_bounds(sizes, without, seed).values()) > available:
            relaxed = without
            del needed[name]
    return tuple(needed)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def least_words(sizes: CostModel) -> int:
    """Least words of all lists: every source's targets in one dense list without delays."""
    fmt, bits = sizes.chip.synapses, sizes.weight_bits
    return sum(int(least_list_words(n, fmt, bits).sum()) for n in total_out_degrees(sizes).values())


def _dense_sources(sizes: CostModel, name: str) -> int:
    """Sources that reach every neuron of a population (distinct, over its dense projections)."""
    largest: dict[str, int] = {}
    for edge in sizes.incoming[name]:
        if isinstance(edge.form, AllToAll):
            largest[edge.source] = max(largest.get(edge.source, 0), int(edge.form.touched.sum()))
    return sum(largest.values())


def _dense_words(sizes: CostModel, name: str, n: Array) -> Array:
    """Least words of n neurons of a population in one core, from its dense projections (int64)."""
    if sizes.chip.synapses.words is None:
        return np.zeros(len(n), np.int64)
    return _dense_sources(sizes, name) * least_list_words(n, sizes.chip.synapses, sizes.weight_bits)


def least_slots(sizes: CostModel, needed: Mapping[str, int]) -> dict[str, int]:
    """Output axons that every neuron of a population needs in any map: one per core of each dense target."""
    return {
        name: max(
            (needed[t] for t, edge in edges if isinstance(edge.form, AllToAll) and edge.form.touched.all()), default=0
        )
        for name, edges in sizes.outgoing.items()
    }


def least_cores(sizes: CostModel, cap: Array) -> dict[str, int]:
    """Cores that each population must occupy in any map; grows to a fixpoint, since targets add output axons."""
    needed = dict.fromkeys(sizes.shapes, 1)
    while True:
        slots = least_slots(sizes, needed)
        grown = {name: max(needed[name], _least_cores(sizes, name, slots[name], cap)) for name in needed}
        if grown == needed:
            return needed
        needed = grown


def _least_cores(sizes: CostModel, name: str, slots: int, cap: Array) -> int:
    total = math.prod(sizes.shapes[name])
    per_core = min(total, int(cap[0]))
    if slots:
        per_core = min(per_core, int(cap[5]) // slots)
    if per_core and cap[2] < UNLIMITED and _dense_sources(sizes, name):
        words = _dense_words(sizes, name, np.arange(1, per_core + 1))
        per_core = int(np.searchsorted(words, int(cap[2]), side="right"))
    return _ceil(total, per_core) if per_core else total


def _pattern_bound(sizes: CostModel, slots: Mapping[str, int], cap: Array, seed: int, lower: int) -> int:
    """The certificate of column generation over the minimum cost of n neurons of each population."""
    table: ClassTable = {}
    sources_alone = _sources_of_one_target(sizes)
    layouts = tuple(_relaxed(sizes, name, slots[name], cap, table, sources_alone) for name in sorted(sizes.shapes))
    if any(not layout.arcs for layout in layouts):
        return lower
    vectors = class_vectors(table)
    most = class_multiplicity(vectors, cap)
    if _unmixed(layouts, most) <= lower:
        return lower
    problem = master_problem(layouts, vectors, cap, tuple(range(len(cap))))
    budget = SearchBudget(rounds=200, gap=1e-9, price_gap=0.0, price_time=0.3)
    start, none = np.diag(most).astype(np.int64), np.zeros(len(vectors), np.int64)
    # the value only falls, and no certificate is above it
    return generate(problem, start, none, budget, lower, seed, enough=lower).bound


def _unmixed(layouts: tuple[Layout, ...], most: Array) -> float:
    """The value of the linear master where each pattern has pieces of one class: no certificate is above it.

    ``most``: pieces of each class that a core holds.
    """
    rows = [(layout.arcs, row) for layout in layouts for row in layout.rows]
    return math.fsum(
        min(row.rhs / (covered * int(most[arcs[arc].cost_class])) for arc, covered in row.terms) for arcs, row in rows
    )


def _sources_of_one_target(sizes: CostModel) -> frozenset[str]:
    """Sources that feed one population only: their axons are not shared by populations in a core."""
    fed = {(edge.source, name) for name, edges in sizes.incoming.items() for edge in edges}
    targets = Counter(source for source, _ in fed)
    return frozenset(source for source, count in targets.items() if count == 1)


def _relaxed(sizes: CostModel, name: str, slots: int, cap: Array, table: ClassTable, alone: frozenset[str]) -> Layout:
    """Ranges that end where words grow. Each costs what its shortest length would, and covers what its longest does."""
    total = math.prod(sizes.shapes[name])
    longest = min(total, int(cap[0]))
    words = _dense_words(sizes, name, np.arange(1, longest + 1))
    words = words[: max(1, int(np.searchsorted(words, int(cap[2]), side="right")))]  # no longer range fits in a core
    ends = [*(np.flatnonzero(np.diff(words)) + 1).tolist(), len(words)]
    if len(ends) > BREAKS_MAX or not words.any():
        ends = [1]
    axons = sum(
        int(e.form.touched.sum())
        for e in sizes.incoming[name]
        if isinstance(e.form, AllToAll) and e.source in alone and len(ends) > 1
    )
    arcs, terms, previous = [], [], 0
    for end in ends:
        least = previous + 1
        least_words = int(words[end - 1]) if len(ends) > 1 else 0
        cost = np.array([least, axons, least_words, 0, 0, least * slots], np.int64)
        previous = end
        if np.all(cost <= cap):
            terms.append((len(arcs), end))
            arcs.append(LayoutArc(class_number(table, name, cost), (end,)))
    return Layout(name, "flat", tuple(arcs), (LayoutRow(tuple(terms), total, cover=True),))


# -- conflicts -----------------------------------------------------------------------------------------------------
# Lower bounds on cores from what neurons do not share: their profiles, and their sources.

NEURONS_MAX = 1_500
SYNAPSES_MAX = 500_000
"""Networks up to these sizes are compared neuron by neuron."""
STARTS = 12
"""Neurons from which a set of conflicting ones is grown."""


def profile_bounds(sizes: CostModel, cap: Array) -> dict[str, int]:
    """Cores for the distinct profiles, where a core cannot hold all: each is in some core."""
    decays, thresholds = distinct_profiles(sizes.network)
    counts = {"decay_profiles": (decays, int(cap[3])), "threshold_profiles": (thresholds, int(cap[4]))}
    return {name: -(-kinds // most) for name, (kinds, most) in counts.items() if kinds > most}


def conflict_bound(sizes: CostModel, input_axons: int) -> int:
    """The size of a set of neurons of which no two fit one core: together they have too many sources."""
    sources = sum(point.size for point in (*sizes.network.populations, *sizes.network.inputs))
    if input_axons >= min(sources, UNLIMITED):
        return 1
    if sizes.network.neurons > NEURONS_MAX or total_synapses(sizes) > SYNAPSES_MAX:
        return 1
    lists = neuron_lists(sizes)
    if 2 * int(lists.fan_in.max(initial=0)) <= input_axons:
        return 1
    return _clique(_conflicts(lists, input_axons))


def _conflicts(lists: NeuronLists, input_axons: int) -> Array:
    """[neurons, neurons], True where two neurons have more distinct sources than a core has input axons."""
    ones = np.ones(len(lists.fed.values), np.int64)
    fed = sparse.csr_array((ones, lists.fed.values, lists.fed.start), shape=(lists.neurons, lists.points))
    common = sparse.csr_array(fed @ fed.T).toarray()
    distinct = lists.fan_in[:, None] + lists.fan_in - common
    np.fill_diagonal(distinct, 0)
    return distinct > input_axons


def _clique(conflict: Array) -> int:
    """The largest of some sets that conflict pairwise: each grows by the neuron with most conflicts in what is left."""
    best, numbers = 1, conflict.astype(np.float32)
    for start in np.argsort(-conflict.sum(axis=1), kind="stable")[:STARTS].tolist():
        left, size = conflict[start].copy(), 1
        while left.any():
            chosen = int(np.argmax(np.where(left, numbers @ left, -1)))
            left &= conflict[chosen]
            size += 1
        best = max(best, size)
    return best
