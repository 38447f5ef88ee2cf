"""Compiled annealing of neurons on cores (numba): exact multicast trees, every limit of a core kept.

All sums are brought up to date by the neuron that moves: its own tree starts elsewhere, and those of its sources reach
another core. Random numbers are drawn here (xorshift64*), so that a seed gives the same moves with any version.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nirbridge.partitioner.search.irregular.jit import uncounted

NEURONS, INPUTS, OUTPUTS, WORDS, DECAYS, THRESHOLDS = range(6)
"""Rows of ``NeuronBoard.used`` and ``limits``."""
UNLIMITED = 2**62
ON_HOST, IN_FLIGHT = -2, -1
"""Cores of host inputs, and of a neuron that moves."""


class NeuronBoard(NamedTuple):
    """Neurons on cores. Points are neurons, then host inputs; ``c`` cores, ``t`` tiles, ``w`` columns of tiles.

    ``fed`` lists the sources of each neuron, ``feeds`` the targets of each point (``*_start``: where each row begins).
    ``counts`` [points, c] and ``tile_counts`` [points, t]: targets of a point there; ``rows`` [points, w]: the rows of
    each column with targets, as bits. ``spread`` [points]: cores with targets; ``hops`` [points]: links of its tree.
    ``x, y`` [points]: tile of the point. ``members`` [c, slots] and ``place`` [points]: the neurons of each core.
    ``ends`` [2, 256]: lowest and highest bit of a byte. ``undo``: points whose trees changed, and their links before.
    ``lists`` [synapses] and ``words_of`` [tables, n]: synapse list and most words of n targets, if words are limited.
    """

    fed_start: Any
    fed: Any
    feeds_start: Any
    feeds: Any
    rate: Any
    core: Any
    x: Any
    y: Any
    core_tile: Any
    tile_x: Any
    tile_y: Any
    counts: Any
    tile_counts: Any
    rows: Any
    spread: Any
    hops: Any
    members: Any
    place: Any
    lists_start: Any
    lists: Any
    list_table: Any
    list_counts: Any
    words_of: Any
    decay: Any
    threshold: Any
    decay_counts: Any
    threshold_counts: Any
    used: Any
    limits: Any
    ends: Any
    undo: Any


@uncounted
def drawn(state) -> Any:
    """The next 64 random bits (xorshift64*, Vigna 2016)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@uncounted
def below(state, n) -> Any:
    """A random whole number from 0 to n - 1."""
    return np.int64((drawn(state) >> np.uint64(33)) % np.uint64(n))


@uncounted
def span_of(ends, bits, own) -> Any:
    """Links of one column: from its lowest to its highest row with targets, the source's row ``own`` included."""
    low = high = own
    row = 0
    while bits:
        part = bits & np.uint64(0xFF)
        if part:
            low, high = min(low, row + ends[0, part]), max(high, row + ends[1, part])
        bits >>= np.uint64(8)
        row += 8
    return high - low


@uncounted
def tree_of(b, point) -> Any:
    """Links of the multicast tree of a point."""
    left = right = b.x[point]
    total = 0
    for column in range(b.rows.shape[1]):
        bits = b.rows[point, column]
        if bits:
            left, right = min(left, column), max(right, column)
            total += span_of(b.ends, bits, b.y[point])
    return total + right - left


@uncounted
def count_target(b, source, core, by) -> None:
    """One target more (``by`` 1) or less (-1) of a source in a core."""
    before = b.counts[source, core]
    b.counts[source, core] = before + by
    if (before == 0) if by > 0 else (before == 1):
        b.used[INPUTS, core] += by
        b.spread[source] += by
        if b.core[source] >= 0:
            b.used[OUTPUTS, b.core[source]] += by
    tile = b.core_tile[core]
    before = b.tile_counts[source, tile]
    b.tile_counts[source, tile] = before + by
    if (before == 0) if by > 0 else (before == 1):
        b.rows[source, b.tile_x[tile]] ^= np.uint64(1) << np.uint64(b.tile_y[tile])


@uncounted
def count_neuron(b, neuron, core, by) -> None:
    """All that a neuron brings to a core, or takes away, but its own output axons."""
    b.used[NEURONS, core] += by
    for k in range(b.fed_start[neuron], b.fed_start[neuron + 1]):
        count_target(b, b.fed[k], core, by)
    for k in range(b.lists_start[neuron], b.lists_start[neuron + 1]):
        own = b.lists[k]
        table, n = b.list_table[own], b.list_counts[own, core]
        b.list_counts[own, core] = n + by
        b.used[WORDS, core] += b.words_of[table, n + by] - b.words_of[table, n]
    kind = b.decay[neuron]
    b.decay_counts[core, kind] += by
    if b.decay_counts[core, kind] == (1 if by > 0 else 0):
        b.used[DECAYS, core] += by
    kind = b.threshold[neuron]
    if kind >= 0:
        b.threshold_counts[core, kind] += by
        if b.threshold_counts[core, kind] == (1 if by > 0 else 0):
            b.used[THRESHOLDS, core] += by


@uncounted
def put(b, neuron, core) -> None:
    """Move a neuron to a core; the trees are not brought up to date."""
    here, slot = b.core[neuron], b.place[neuron]
    if here >= 0:
        b.used[OUTPUTS, here] -= b.spread[neuron]
        b.core[neuron] = IN_FLIGHT
        count_neuron(b, neuron, here, -1)
        last = b.members[here, b.used[NEURONS, here]]
        b.members[here, slot] = last
        b.place[last] = slot
    slot = b.used[NEURONS, core]
    count_neuron(b, neuron, core, 1)
    b.core[neuron] = core
    b.used[OUTPUTS, core] += b.spread[neuron]
    b.members[core, slot] = neuron
    b.place[neuron] = slot
    b.x[neuron], b.y[neuron] = b.tile_x[b.core_tile[core]], b.tile_y[b.core_tile[core]]


@uncounted
def retree(b, neuron, changed) -> Any:
    """Bring the trees that a moved neuron touches up to date: the change of spikes times links, and of how many trees.

    ``changed`` trees are noted in ``undo`` already.
    """
    change = 0.0
    first = b.fed_start[neuron]
    for k in range(first - 1, b.fed_start[neuron + 1]):
        point = neuron if k < first else b.fed[k]
        if b.rate[point] > 0.0:
            hops = tree_of(b, point)
            if hops != b.hops[point]:
                change += b.rate[point] * (hops - b.hops[point])
                b.undo[0, changed], b.undo[1, changed] = point, b.hops[point]
                changed += 1
                b.hops[point] = hops
    return change, changed


@uncounted
def is_legal(b, core) -> bool:
    """True if a core is within every limit."""
    for resource in range(b.used.shape[0]):  # noqa: SIM110 (compiled code has no generators)
        if b.used[resource, core] > b.limits[resource]:
            return False
    return True


@uncounted
def keeps_limits(b, neuron, here, core) -> bool:
    """True if both cores of a move, and those whose neurons send to it, are within their limits."""
    if not (is_legal(b, core) and is_legal(b, here)):
        return False
    if b.limits[OUTPUTS] < UNLIMITED:
        for k in range(b.fed_start[neuron], b.fed_start[neuron + 1]):
            source = b.core[b.fed[k]]
            if source >= 0 and b.used[OUTPUTS, source] > b.limits[OUTPUTS]:
                return False
    return True


@uncounted
def proposed_core(b, neuron, state) -> Any:
    """A core for a neuron: that of one of its sources or targets, half of the time, or any."""
    fed = b.fed_start[neuron + 1] - b.fed_start[neuron]
    both = fed + b.feeds_start[neuron + 1] - b.feeds_start[neuron]
    if both > 0 and drawn(state) & np.uint64(1):
        k = below(state, both)
        other = b.fed[b.fed_start[neuron] + k] if k < fed else b.feeds[b.feeds_start[neuron] + k - fed]
        if b.core[other] >= 0:
            return b.core[other]
    return below(state, b.used.shape[1])


@uncounted
def anneal(b, state, neurons, steps, hot, cold) -> float:
    """``steps`` proposals at a temperature that falls geometrically; the change of spikes times links."""
    total = 0.0
    for step in range(steps):
        neuron = below(state, neurons)
        here, core = b.core[neuron], proposed_core(b, neuron, state)
        if core == here:
            continue
        partner = -1
        n = b.used[NEURONS, core]
        if n > 0 and (n >= b.limits[NEURONS] or drawn(state) & np.uint64(1)):
            partner = b.members[core, below(state, n)]
        put(b, neuron, core)
        if partner >= 0:
            put(b, partner, here)
        if keeps_limits(b, neuron, here, core) and (partner < 0 or keeps_limits(b, partner, here, core)):
            change, changed = retree(b, neuron, 0)
            if partner >= 0:
                more, changed = retree(b, partner, changed)
                change += more
            heat = hot * (cold / hot) ** (step / steps)
            chance = np.float64(drawn(state) >> np.uint64(11)) / 9007199254740992.0
            if change <= 0.0 or chance < math.exp(-change / heat):
                total += change
                continue
            for k in range(changed - 1, -1, -1):
                b.hops[b.undo[0, k]] = b.undo[1, k]
        if partner >= 0:
            put(b, partner, core)
        put(b, neuron, here)
    return total


@uncounted
def fill(b, owner) -> None:
    """Put every neuron on its core, and count the trees."""
    for neuron in range(owner.shape[0]):
        put(b, neuron, owner[neuron])
    for point in range(b.hops.shape[0]):
        b.hops[point] = tree_of(b, point)
