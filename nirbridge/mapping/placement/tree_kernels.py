"""Compiled annealing of blocks on cores by exact multicast trees and link loads (numba, extra ``fast``).

A proposal moves one block to another tile, swaps it with a block there, or swaps two tiles, and weighs the trees of all
nets of these blocks anew; link loads are brought up to date where the hops alone leave a chance. Random numbers are
those of ``neuron_kernels``, so that a seed gives the same moves with any version.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nirbridge.mapping.placement.neuron_kernels import below, compiled, drawn

REACH = 1
"""Blocks are moved to the tile of a partner or to one at most as far in each direction."""
TILE_SWAPS = 8
"""One proposal in as many swaps two tiles."""
HOPE = 0.1
"""The busiest link is looked at where a move takes at most this share of its load in hops beyond what is allowed."""


class TreeBoard(NamedTuple):
    """Blocks on sites, and nets between them (see ``Traffic``); the host is block -1, at the last place of ``x, y``.

    ``movable`` lists the blocks that may move. Per block ``x, y`` (its tile) and ``site``; per site ``block`` (-1:
    free), ``site_x, site_y``, and ``sites_of[tile_start[t]:tile_start[t + 1]]`` those of tile t = ``grid[x, y]`` (-1:
    none). ``links`` [nets] are those of each tree, ``loads`` [columns, rows, 4] the spikes on each directed link.
    Scratch: ``mark, changed, before`` [nets], ``low, high`` [columns], and ``moves`` [3, sites]: blocks of a proposal,
    from where, to where.
    """

    source: Any
    rate: Any
    ptr: Any
    targets: Any
    net_ptr: Any
    nets: Any
    movable: Any
    x: Any
    y: Any
    site: Any
    block: Any
    site_x: Any
    site_y: Any
    grid: Any
    tile_start: Any
    sites_of: Any
    links: Any
    loads: Any
    mark: Any
    changed: Any
    before: Any
    low: Any
    high: Any
    moves: Any


@compiled
def span(b, net) -> Any:
    """(first, last) column of a net's tree; ``low`` and ``high`` of these columns are its rows there."""
    own_x, own_y = b.x[b.source[net]], b.y[b.source[net]]
    first, last = own_x, own_x
    for k in range(b.ptr[net], b.ptr[net + 1]):
        x = b.x[b.targets[k]]
        first, last = min(first, x), max(last, x)
    for x in range(first, last + 1):
        b.low[x] = own_y
        b.high[x] = own_y
    for k in range(b.ptr[net], b.ptr[net + 1]):
        x, y = b.x[b.targets[k]], b.y[b.targets[k]]
        b.low[x] = min(b.low[x], y)
        b.high[x] = max(b.high[x], y)
    return first, last


@compiled
def links_of(b, net) -> int:
    """Links of a net's tree: along the row of its source, then along the column of each target."""
    first, last = span(b, net)
    links = last - first
    for x in range(first, last + 1):
        links += b.high[x] - b.low[x]
    return links


@compiled
def load(b, net, rate) -> None:
    """Add ``rate`` to every link of a net's tree, each in its direction."""
    first, last = span(b, net)
    own_x, own_y = b.x[b.source[net]], b.y[b.source[net]]
    for x in range(first, last):
        b.loads[x + (x < own_x), own_y, int(x < own_x)] += rate
    for x in range(first, last + 1):
        for y in range(b.low[x], b.high[x]):
            b.loads[x, y + (y < own_y), 2 + int(y < own_y)] += rate


@compiled
def busiest(b) -> float:
    """Load of the busiest link."""
    most = 0.0
    for value in b.loads.flat:
        most = max(most, value)
    return most


@compiled
def load_all(b) -> None:
    """Links and loads of every tree, anew."""
    for net in range(b.source.shape[0]):
        b.links[net] = links_of(b, net)
        load(b, net, b.rate[net])


@compiled
def put(b, block, site) -> None:
    """Set a block on a site."""
    b.site[block] = site
    b.block[site] = block
    b.x[block] = b.site_x[site]
    b.y[block] = b.site_y[site]


@compiled
def make(b, count, back) -> None:
    """Make the first ``count`` of ``moves`` at once, or take them back."""
    start, stop = (2, 1) if back else (1, 2)
    for k in range(count):
        b.block[b.moves[start, k]] = -1
    for k in range(count):
        put(b, b.moves[0, k], b.moves[stop, k])


@compiled
def retree(b, block, stamp, count) -> Any:
    """(change, nets): rates times links of the trees of a block that ``stamp`` has not marked, brought up to date."""
    change = 0.0
    for k in range(b.net_ptr[block], b.net_ptr[block + 1]):
        net = b.nets[k]
        if b.mark[net] == stamp:
            continue
        b.mark[net] = stamp
        b.changed[count] = net
        b.before[count] = b.links[net]
        count += 1
        b.links[net] = links_of(b, net)
        change += b.rate[net] * (b.links[net] - b.before[count - 1])
    return change, count


@compiled
def proposed_site(b, block, state) -> int:
    """A site near a partner of the block in some net, three times of four, or any."""
    nets = b.net_ptr[block + 1] - b.net_ptr[block]
    if nets == 0 or below(state, 4) == 0:
        return below(state, b.block.shape[0])
    net = b.nets[b.net_ptr[block] + below(state, nets)]
    k = below(state, b.ptr[net + 1] - b.ptr[net] + 1)
    partner = b.source[net] if k == 0 else b.targets[b.ptr[net] + k - 1]
    x = b.x[partner] + below(state, 2 * REACH + 1) - REACH
    y = b.y[partner] + below(state, 2 * REACH + 1) - REACH
    if x < 0 or y < 0 or x >= b.grid.shape[0] or y >= b.grid.shape[1] or b.grid[x, y] < 0:
        return b.site[block]
    start, stop = b.tile_start[b.grid[x, y]], b.tile_start[b.grid[x, y] + 1]
    return b.sites_of[start + below(state, stop - start)]


@compiled
def note(b, count, block, here, there) -> int:
    """Write down a move; a site without a block (-1) has none."""
    if block < 0:
        return count
    b.moves[0, count] = block
    b.moves[1, count] = here
    b.moves[2, count] = there
    return count + 1


@compiled
def propose(b, state) -> int:
    """The number of moves of a new proposal; 0 where it would change nothing."""
    block = b.movable[below(state, b.movable.shape[0])]
    here, there = b.site[block], proposed_site(b, block, state)
    one, other = b.grid[b.x[block], b.y[block]], b.grid[b.site_x[there], b.site_y[there]]
    if one == other:
        return 0
    if below(state, TILE_SWAPS) > 0:
        return note(b, note(b, 0, block, here, there), b.block[there], there, here)
    size, count = b.tile_start[one + 1] - b.tile_start[one], 0
    if size != b.tile_start[other + 1] - b.tile_start[other]:
        return 0
    for k in range(size):
        here, there = b.sites_of[b.tile_start[one] + k], b.sites_of[b.tile_start[other] + k]
        count = note(b, count, b.block[here], here, there)
        count = note(b, count, b.block[there], there, here)
    return count


@compiled
def reload(b, moves, count, back) -> None:
    """Take the changed nets off the links as they were before the moves and put them on as they are, or the reverse.

    The blocks stay where they are after the moves. ``back``: the reverse.
    """
    sign = -1.0 if back else 1.0
    for k in range(count):
        load(b, b.changed[k], sign * b.rate[b.changed[k]])
    make(b, moves, True)
    for k in range(count):
        load(b, b.changed[k], -sign * b.rate[b.changed[k]])
    make(b, moves, False)


@compiled
def anneal(b, state, steps, hot, cold, best) -> float:
    """``steps`` proposals at a temperature that falls geometrically; ``best`` [blocks]: the sites of least cost.

    The cost is hops plus the load of the busiest link. Returns its change from the first position to the best.
    """
    total, lowest, most = 0.0, 0.0, busiest(b)
    for step in range(steps):
        moves = propose(b, state)
        if moves == 0:
            continue
        make(b, moves, False)
        change, count = 0.0, 0
        for k in range(moves):
            more, count = retree(b, b.moves[0, k], step + 1, count)
            change += more
        chance = (np.float64(drawn(state) >> np.uint64(11)) + 1.0) / 9007199254740993.0
        slack = -math.log(chance) * hot * (cold / hot) ** (step / steps)
        if change - HOPE * most <= slack:
            reload(b, moves, count, False)
            peak = busiest(b)
            if change + peak - most <= slack:
                total, most = total + change + peak - most, peak
                if total < lowest - 1e-9 * hot:
                    lowest = total
                    for k in range(b.site.shape[0]):
                        best[k] = b.site[k]
                continue
            reload(b, moves, count, True)
        for k in range(count):
            b.links[b.changed[k]] = b.before[k]
        make(b, moves, True)
    return lowest
