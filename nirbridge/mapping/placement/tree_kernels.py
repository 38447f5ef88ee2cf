"""Parts of a network on cores, their exact multicast trees and link loads, compiled (numba, extra ``fast``).

Parts are whole blocks, or the slices of blocks; all parts on one core are its block. ``part_kernels`` moves them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nirbridge.mapping.placement.neuron_kernels import compiled

NEURONS, WORDS, INPUTS, OUTPUTS = range(4)
"""Rows of ``used`` and ``most``."""
TOTAL, LOWEST, PEAK = range(3)
"""Places of ``tally``."""


class TreeBoard(NamedTuple):
    """Parts on sites, and nets between them (see ``Traffic``); the host is part -1, at the last place of ``x, y``.

    ``size`` [nets]: neurons of a net. ``fed[fed_ptr[p]:fed_ptr[p + 1]]``: nets with a target in part p; ``nets`` those
    with its neurons as the source as well. ``movable`` lists the parts that may move. Per part ``x, y`` (its tile),
    ``site``, ``needs`` [2, parts] (neurons, and most words), ``kind`` (parts that fill a core alike), ``profile``.
    The parts of a site are a list: ``first`` [sites], ``behind`` and ``ahead`` [parts] (-1: none). Sites of
    ``sites_of[tile_start[t]:tile_start[t + 1]]``, of tile t = ``grid[x, y]`` (-1: none), may be used; others are
    pinned. ``links`` [nets] are those of each tree, ``spread`` its cores with targets, ``loads`` [columns, rows, 4] the
    spikes on each directed link, ``used`` [4, sites] and ``most`` [4] what cores hold and may hold, ``tally`` the
    change in cost so far, the least of it, and the load of the busiest link.
    Scratch: ``mark, seen, changed, before, spread_before`` [nets], ``on_site`` [sites], ``clock`` [2], ``column, low,
    high`` [columns], and ``moves`` [3, parts]: parts of a proposal, from where, to where.
    """

    source: Any
    rate: Any
    size: Any
    ptr: Any
    targets: Any
    net_ptr: Any
    nets: Any
    fed_ptr: Any
    fed: Any
    movable: Any
    needs: Any
    kind: Any
    profile: Any
    x: Any
    y: Any
    site: Any
    first: Any
    behind: Any
    ahead: Any
    site_x: Any
    site_y: Any
    grid: Any
    tile_start: Any
    sites_of: Any
    links: Any
    spread: Any
    loads: Any
    used: Any
    most: Any
    tally: Any
    mark: Any
    seen: Any
    changed: Any
    before: Any
    spread_before: Any
    on_site: Any
    clock: Any
    column: Any
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
    own_x, own_y = b.x[b.source[net]], b.y[b.source[net]]
    first, last, links = own_x, own_x, 0
    b.clock[1] += 1
    for k in range(b.ptr[net], b.ptr[net + 1]):
        x, y = b.x[b.targets[k]], b.y[b.targets[k]]
        if b.column[x] != b.clock[1]:
            b.column[x] = b.clock[1]
            b.low[x] = b.high[x] = own_y
            first, last = min(first, x), max(last, x)
        if y < b.low[x]:
            links += b.low[x] - y
            b.low[x] = y
        elif y > b.high[x]:
            links += y - b.high[x]
            b.high[x] = y
    return links + last - first


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
def shift(b, count, back) -> None:
    """Give the parts of ``moves`` the tiles that they go to, or came from; their cores stay as they are."""
    row = 1 if back else 2
    for k in range(count):
        b.x[b.moves[0, k]] = b.site_x[b.moves[row, k]]
        b.y[b.moves[0, k]] = b.site_y[b.moves[row, k]]


@compiled
def settle(b, count, back) -> None:
    """Take the parts of ``moves`` out of the lists of their cores and into those they go to, or the reverse."""
    row = 1 if back else 2
    for k in range(count):
        part = b.moves[0, k]
        ahead, behind = b.ahead[part], b.behind[part]
        if ahead >= 0:
            b.behind[ahead] = behind
        else:
            b.first[b.site[part]] = behind
        if behind >= 0:
            b.ahead[behind] = ahead
    for k in range(count):
        enter(b, b.moves[0, k], b.moves[row, k])


@compiled
def enter(b, part, site) -> None:
    """Set a part at the head of the list of a core."""
    head = b.first[site]
    b.site[part], b.first[site] = site, part
    b.ahead[part], b.behind[part] = -1, head
    if head >= 0:
        b.ahead[head] = part


@compiled
def cores_of(b, net) -> int:
    """Cores with targets of a net."""
    b.clock[0] += 1
    count = 0
    for k in range(b.ptr[net], b.ptr[net + 1]):
        site = b.site[b.targets[k]]
        if b.on_site[site] != b.clock[0]:
            b.on_site[site] = b.clock[0]
            count += 1
    return count


@compiled
def inputs_of(b, site) -> int:
    """Neurons with targets on a core."""
    b.clock[0] += 1
    count, part = 0, b.first[site]
    while part >= 0:
        for k in range(b.fed_ptr[part], b.fed_ptr[part + 1]):
            net = b.fed[k]
            if b.seen[net] != b.clock[0]:
                b.seen[net] = b.clock[0]
                count += b.size[net]
        part = b.behind[part]
    return count


@compiled
def spread_outputs(b, net, sign) -> None:
    """Add the output axons of a net's neurons to their core, or take them off (``sign`` -1)."""
    if b.source[net] >= 0:
        b.used[OUTPUTS, b.site[b.source[net]]] += sign * b.size[net] * b.spread[net]


@compiled
def fill(b) -> None:
    """All that follows from where the parts are, anew; ``site``, ``x`` and ``y`` are set."""
    for part in range(b.site.shape[0]):
        enter(b, part, b.site[part])
        for row in range(2):
            b.used[row, b.site[part]] += b.needs[row, part]
    for net in range(b.source.shape[0]):
        b.links[net] = links_of(b, net)
        load(b, net, b.rate[net])
        b.spread[net] = cores_of(b, net)
        spread_outputs(b, net, 1)
    for site in range(b.first.shape[0]):
        b.used[INPUTS, site] = inputs_of(b, site)
    b.tally[PEAK] = busiest(b)


@compiled
def retree(b, part, stamp, count) -> Any:
    """(change, nets): rates times links of the trees of a part that ``stamp`` has not marked, brought up to date."""
    change = 0.0
    for k in range(b.net_ptr[part], b.net_ptr[part + 1]):
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
def reload(b, moves, count, back) -> None:
    """Take the changed nets off the links as they were before the moves and put them on as they are, or the reverse.

    The parts stay where they are after the moves. ``back``: the reverse.
    """
    sign = -1.0 if back else 1.0
    for k in range(count):
        load(b, b.changed[k], sign * b.rate[b.changed[k]])
    shift(b, moves, True)
    for k in range(count):
        load(b, b.changed[k], -sign * b.rate[b.changed[k]])
    shift(b, moves, False)
