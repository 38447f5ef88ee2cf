"""Compiled annealing of blocks and slices on cores by exact multicast trees (numba).

A proposal moves a block to another tile or swaps it with one there, swaps two tiles, or takes single parts from core to
core. The links of all trees that it changes are weighed first; trees and link loads are brought up to date where these
leave a chance. Random numbers are those of ``neuron_kernels``, so that a seed gives the same moves with any version.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.mapping.placement.neuron_kernels import below, drawn
from nirbridge.mapping.placement.tree_kernels import (
    LOWEST,
    OUTPUTS,
    PEAK,
    TOTAL,
    busiest,
    count_on_site,
    enter,
    relief,
    set_peak,
    spread_outputs,
    turn,
    weigh,
)
from nirbridge.partitioner.search.irregular.jit import inlined, uncounted

REACH = 1
"""Parts are moved to the tile of a partner or to one at most as far in each direction."""
TILE_SWAPS = 8
"""One proposal for whole blocks in as many swaps two tiles."""
HOPE = 0.1
"""The busiest link is looked at where a move takes at most this share of its load in hops beyond what is allowed."""
OF_PARTS, OF_ALIKE = 7, 4
"""Of ten proposals so many take single parts, where these may move; of ten of these so many swap two of one kind."""
BLOCKS, SLICES, NEW_CORES = range(3)
"""Kinds of annealing: blocks alone; also single parts between cores in use; also single parts to free cores."""
PARTS, BLOCK, TILE = range(3)
"""Kinds of proposals, by the unit that moves."""


@inlined
def trade(b, here, there) -> None:
    """Swap the blocks of two sites; what their cores use goes with them."""
    b.first[here], b.first[there] = b.first[there], b.first[here]
    for site in (here, there):
        part = b.first[site]
        while part >= 0:
            b.site[part] = site
            part = b.following[part]
    for row in range(4):
        b.used[row, here], b.used[row, there] = b.used[row, there], b.used[row, here]
    for k in range(b.clock[1]):
        net = b.touched[k]
        b.on_site[net, here], b.on_site[net, there] = b.on_site[net, there], b.on_site[net, here]


@uncounted
def trade_all(b, what) -> None:
    """Make a proposal of whole blocks: of one and what is on its new core, or of two tiles."""
    here, there = b.moves[1, 0], b.moves[2, 0]
    if what == BLOCK:
        trade(b, here, there)
        return
    one, other = tile_of(b, here), tile_of(b, there)
    for k in range(b.tile_start[one + 1] - b.tile_start[one]):
        trade(b, b.sites_of[b.tile_start[one] + k], b.sites_of[b.tile_start[other] + k])


@inlined
def tile_of(b, site) -> int:
    """The tile of a site."""
    return b.grid[b.site_x[site], b.site_y[site]]


@inlined
def proposed_site(b, part, state) -> int:
    """A site near a partner of the part in some net, three times of four, or any."""
    nets = b.net_ptr[part + 1] - b.net_ptr[part]
    if nets == 0 or below(state, 4) == 0:
        return below(state, b.sites_of.shape[0])  # sites that may be used come first
    net = b.nets[b.net_ptr[part] + below(state, nets)]
    k = below(state, b.ptr[net + 1] - b.ptr[net] + 1)
    partner = b.source[net] if k == 0 else b.targets[b.ptr[net] + k - 1]
    x = b.x[partner] + below(state, 2 * REACH + 1) - REACH
    y = b.y[partner] + below(state, 2 * REACH + 1) - REACH
    if x < 0 or y < 0 or x >= b.grid.shape[0] or y >= b.grid.shape[1] or b.grid[x, y] < 0:
        return b.site[part]
    start, stop = b.tile_start[b.grid[x, y]], b.tile_start[b.grid[x, y] + 1]
    return b.sites_of[start + below(state, stop - start)]


@inlined
def note(b, count, here, there) -> int:
    """Write down the moves of all parts of a site; an empty one has none."""
    part = b.first[here]
    while part >= 0:
        b.moves[0, count], b.moves[1, count], b.moves[2, count] = part, here, there
        count += 1
        part = b.following[part]
    return count


@uncounted
def propose_blocks(b, here, there, state) -> Any:
    """(moves, what they move) of two sites that swap their blocks, or of their tiles that do."""
    if below(state, TILE_SWAPS) > 0:
        return note(b, note(b, 0, here, there), there, here), BLOCK
    one, other = tile_of(b, here), tile_of(b, there)
    size, count = b.tile_start[one + 1] - b.tile_start[one], 0
    if size != b.tile_start[other + 1] - b.tile_start[other]:
        return 0, TILE
    for k in range(size):
        here, there = b.sites_of[b.tile_start[one] + k], b.sites_of[b.tile_start[other] + k]
        count = note(b, note(b, count, here, there), there, here)
    return count, TILE


@inlined
def alike_on_tile(b, part, tile, state) -> int:
    """A part of the same kind on a tile; -1: there is none."""
    found, count = -1, 0
    for k in range(b.tile_start[tile], b.tile_start[tile + 1]):
        other = b.first[b.sites_of[k]]
        while other >= 0:
            if b.kind[other] == b.kind[part]:
                count += 1
                if below(state, count) == 0:
                    found = other
            other = b.following[other]
    return found


@inlined
def offer(count, pick, state, one, other) -> Any:
    """(count, pick) after one more set of parts that may be taken in return; each has the same chance."""
    if below(state, count + 1) == 0:
        pick = (one, other)
    return count + 1, pick


@inlined
def fitting_return(b, part, there, state) -> Any:
    """(sets, (one, other)): up to two parts of a core that fit in exchange for a part (-1: none), any of those sets."""
    here, count, pick = b.site[part], 0, (-1, -1)
    most, least = limits_of_return(b, part, here, there)
    if takes(b, there, part, -1):
        count, pick = offer(count, pick, state, -1, -1)
    one = b.first[there]
    while one >= 0:
        if b.profile[one] == b.profile[part] or (takes(b, there, part, one) and takes(b, here, one, part)):
            if fits(b, one, -1, least, most):
                count, pick = offer(count, pick, state, one, -1)
            other = b.following[one]
            while other >= 0 and b.profile[one] == b.profile[part]:
                if b.profile[other] == b.profile[part] and fits(b, one, other, least, most):
                    count, pick = offer(count, pick, state, one, other)
                other = b.following[other]
        one = b.following[one]
    return count, pick


@inlined
def limits_of_return(b, part, here, there) -> Any:
    """(most, least) neurons and words that come in exchange for a part: all that fits here, what is too much there."""
    most = (b.most[0] - b.used[0, here] + b.needs[0, part], b.most[1] - b.used[1, here] + b.needs[1, part])
    least = (b.used[0, there] + b.needs[0, part] - b.most[0], b.used[1, there] + b.needs[1, part] - b.most[1])
    return most, least


@inlined
def fits(b, one, other, least, most) -> bool:
    """True where one or two parts are within both limits."""
    for row in range(2):
        total = b.needs[row, one] + (0 if other < 0 else b.needs[row, other])
        if total > most[row] or total < least[row]:
            return False
    return True


@uncounted
def propose_parts(b, part, there, moving, state) -> int:
    """The number of moves of a part to another core, perhaps for one or two that take its place; 0: no room."""
    here, one, other = b.site[part], -1, -1
    if below(state, 10) < OF_ALIKE:
        one = alike_on_tile(b, part, tile_of(b, there), state)
        if one < 0:
            return 0
        there = b.site[one]
        if not takes(b, there, part, one) or not takes(b, here, one, part):
            return 0
    elif b.first[there] < 0:
        if moving < NEW_CORES or not takes(b, there, part, -1):
            return 0
    else:
        sets, (one, other) = fitting_return(b, part, there, state)
        if sets == 0:
            return 0
    b.moves[0, 0], b.moves[1, 0], b.moves[2, 0] = part, here, there
    count = 1
    for back in (one, other):
        if back >= 0:
            b.moves[0, count], b.moves[1, count], b.moves[2, count] = back, there, here
            count += 1
    return count


@inlined
def propose(b, moving, state) -> Any:
    """(moves, what they move) of a new proposal; no moves where it would change nothing."""
    part = b.movable[below(state, b.movable.shape[0])]
    here, there = b.site[part], proposed_site(b, part, state)
    if tile_of(b, here) == tile_of(b, there):
        return 0, BLOCK
    if moving > BLOCKS and below(state, 10) < OF_PARTS:
        return propose_parts(b, part, there, moving, state), PARTS
    return propose_blocks(b, here, there, state)


@inlined
def accept(b, moves, what, count, change, slack) -> bool:
    """Make the moves if limits hold and the cost rises by at most ``slack``."""
    if change - HOPE * b.tally[PEAK] > slack or change - relief(b, count) > slack:
        return False
    if what == PARTS:
        regroup(b, moves, False)
        if not is_legal(b):
            regroup(b, moves, True)
            return False
    turn(b, moves, count, False)
    peak, link = busiest(b)
    rise = change + peak - b.tally[PEAK]
    if rise > slack:
        turn(b, moves, count, True)
        if what == PARTS:
            regroup(b, moves, True)
        return False
    if what != PARTS:
        trade_all(b, what)
    b.tally[TOTAL] += rise
    set_peak(b, peak, link)
    return True


@uncounted
def anneal(b, moving, state, steps, hot, cold, best) -> None:
    """``steps`` proposals at a temperature that falls geometrically; ``best`` [parts]: the sites of least cost.

    The cost is hops plus the load of the busiest link. ``tally`` has its change since the board was filled.
    """
    for step in range(steps):
        moves, what = propose(b, moving, state)
        if moves == 0:
            continue
        change, count = weigh(b, moves)
        chance = (np.float64(drawn(state) >> np.uint64(11)) + 1.0) / 9007199254740993.0
        slack = -math.log(chance) * hot * (cold / hot) ** (step / steps)
        if accept(b, moves, what, count, change, slack) and b.tally[TOTAL] < b.tally[LOWEST] - 1e-9 * hot:
            b.tally[LOWEST] = b.tally[TOTAL]
            for k in range(b.site.shape[0]):
                best[k] = b.site[k]


# -- limit kernels -------------------------------------------------------------------------------------------------
# What cores hold of single parts that move, and whether they may (``irregular.jit``).


@inlined
def need(b, part, sign) -> None:
    """Add what a part takes of its core by itself, or take it off."""
    for row in range(2):
        b.used[row, b.site[part]] += sign * b.needs[row, part]


@inlined
def settle(b, count, back) -> None:
    """Take the parts of ``moves`` out of the lists of their cores and into those they go to, or the reverse."""
    row = 1 if back else 2
    for k in range(count):
        part = b.moves[0, k]
        previous, following = b.previous[part], b.following[part]
        if previous >= 0:
            b.following[previous] = following
        else:
            b.first[b.site[part]] = following
        if following >= 0:
            b.previous[following] = previous
    for k in range(count):
        enter(b, b.moves[0, k], b.moves[row, k])


@uncounted
def regroup(b, moves, back) -> None:
    """Move the parts of ``moves`` to their cores, or back, with all that the cores use."""
    for k in range(b.clock[1]):
        spread_outputs(b, b.touched[k], -1)
    for k in range(moves):
        need(b, b.moves[0, k], -1)
    settle(b, moves, back)
    for k in range(moves):
        need(b, b.moves[0, k], 1)
    for k in range(b.clock[1]):
        net = b.touched[k]
        many = -b.shift[net] if back else b.shift[net]
        if many != 0:
            count_on_site(b, net, b.moves[1, 0], -many)
            count_on_site(b, net, b.moves[2, 0], many)
        spread_outputs(b, net, 1)


@inlined
def is_legal(b) -> bool:
    """True where both cores of a proposal, and those of the sources of the nets it touches, keep their limits."""
    for row in range(1, 3):
        for resource in range(4):
            if b.used[resource, b.moves[row, 0]] > b.most[resource]:
                return False
    for k in range(b.clock[1]):
        source = b.source[b.touched[k]]
        if source >= 0 and b.used[OUTPUTS, b.site[source]] > b.most[OUTPUTS]:
            return False
    return True


@inlined
def takes(b, site, part, leaving) -> bool:
    """True where a core has neurons, words and a profile for a part, without another that leaves (-1: none)."""
    for row in range(2):
        left = 0 if leaving < 0 else b.needs[row, leaving]
        if b.used[row, site] + b.needs[row, part] - left > b.most[row]:
            return False
    if leaving >= 0 and b.profile[leaving] == b.profile[part]:
        return True
    other = b.first[site]
    if other < 0:
        return True
    while other >= 0:
        if other != leaving and b.profile[other] == b.profile[part]:
            return True
        other = b.following[other]
    return False
