"""Parts of a network on cores, their exact multicast trees and link loads, compiled (numba).

Parts are whole blocks, or the slices of blocks; all parts on one core are its block. ``part_kernels`` moves them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nirbridge.partitioner.search.irregular.jit import inlined, uncounted

NEURONS, WORDS, INPUTS, OUTPUTS = range(4)
"""Rows of ``used`` and ``most``."""
TOTAL, LOWEST, PEAK = range(3)
"""Places of ``tally``."""


class TreeBoard(NamedTuple):
    """Parts on sites, and nets between them (see ``Traffic``); the host is part -1, at the last place of ``x, y``.

    ``size`` [nets]: neurons of a net. ``fed[fed_ptr[p]:fed_ptr[p + 1]]``: nets with a target in part p; ``own`` those
    with its neurons as the source; ``nets`` both. ``movable`` lists the parts that may move. Per part ``x, y`` (its
    tile), ``site``, ``needs`` [2, parts] (neurons, and most words), ``kind`` (parts that fill a core alike),
    ``profile``. The parts of a site are a list: ``first`` [sites], ``following`` and ``previous`` [parts] (-1: none).
    Sites of ``sites_of[tile_start[t]:tile_start[t + 1]]``, of tile t = ``grid[x, y]`` (-1: none), may be used; others
    are pinned.
    Targets of each net are counted by tile, ``on_tile`` [nets, columns, rows], and by core, ``on_site`` [nets, sites];
    ``low, high`` [nets, columns] are the rows of its first and last targets of a column (none: low above high) and
    ``left, right`` [nets] the columns of the first and last. ``links`` [nets] are those of each tree, ``spread`` its
    cores with targets, ``loads`` [columns, rows, 4] the spikes on each directed link, ``used`` [4, sites] and ``most``
    [4] what cores hold and may hold, ``tally`` the change in cost so far, the least of it, and the load of the busiest
    link, ``peak`` that link (column, row, direction).
    Of a proposal: ``moves`` [3, parts] (parts, from where, to where); ``touched`` nets, ``clock[1]`` of them, whose
    source or targets move, ``shift`` [nets] of their targets from the tile of its first move to that of the other;
    ``changed`` nets, whose trees may differ, and their links ``after`` it. ``mark, away`` [nets] are the proposals,
    ``clock[0]``, that touched a net last, and that moved its source.
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
    own_ptr: Any
    own: Any
    movable: Any
    needs: Any
    kind: Any
    profile: Any
    x: Any
    y: Any
    site: Any
    first: Any
    following: Any
    previous: Any
    site_x: Any
    site_y: Any
    grid: Any
    tile_start: Any
    sites_of: Any
    on_tile: Any
    on_site: Any
    low: Any
    high: Any
    left: Any
    right: Any
    links: Any
    spread: Any
    loads: Any
    used: Any
    most: Any
    tally: Any
    peak: Any
    mark: Any
    away: Any
    touched: Any
    shift: Any
    changed: Any
    after: Any
    clock: Any
    moves: Any


@inlined
def reach(b, net, x, y) -> None:
    """The first target of a net on a tile."""
    if b.low[net, x] > b.high[net, x]:
        b.low[net, x] = b.high[net, x] = y
        b.left[net] = min(b.left[net], x)
        b.right[net] = max(b.right[net], x)
    else:
        b.low[net, x] = min(b.low[net, x], y)
        b.high[net, x] = max(b.high[net, x], y)


@inlined
def leave(b, net, x, y) -> None:
    """No target of a net is on a tile any more; others are elsewhere."""
    if b.low[net, x] < b.high[net, x]:
        while b.on_tile[net, x, b.low[net, x]] == 0:
            b.low[net, x] += 1
        while b.on_tile[net, x, b.high[net, x]] == 0:
            b.high[net, x] -= 1
        return
    b.low[net, x], b.high[net, x] = 1, 0
    while b.low[net, b.left[net]] > b.high[net, b.left[net]]:
        b.left[net] += 1
    while b.low[net, b.right[net]] > b.high[net, b.right[net]]:
        b.right[net] -= 1


@inlined
def links_of(b, net, x, y) -> int:
    """Links of a net's tree from a tile: along its row, then along the column of each target."""
    links = max(b.right[net], x) - min(b.left[net], x)
    for column in range(b.left[net], b.right[net] + 1):
        if b.low[net, column] <= b.high[net, column]:
            links += max(b.high[net, column], y) - min(b.low[net, column], y)
    return links


@inlined
def load(b, net, rate) -> None:
    """Add ``rate`` to every link of a net's tree, each in its direction."""
    own_x, own_y = b.x[b.source[net]], b.y[b.source[net]]
    for x in range(min(b.left[net], own_x), max(b.right[net], own_x)):
        b.loads[x + (x < own_x), own_y, int(x < own_x)] += rate
    for x in range(b.left[net], b.right[net] + 1):
        if b.low[net, x] <= b.high[net, x]:
            for y in range(min(b.low[net, x], own_y), max(b.high[net, x], own_y)):
                b.loads[x, y + (y < own_y), 2 + int(y < own_y)] += rate


@inlined
def is_on(b, net, x, y, way) -> bool:
    """True where a net's tree has the link that leaves a tile that way: along x (0: up, 1: down) or y (2, 3)."""
    own_x, own_y, left, right = b.x[b.source[net]], b.y[b.source[net]], b.left[net], b.right[net]
    if way < 2:
        return own_y == y and (own_x <= x < right if way == 0 else left < x <= own_x)
    low, high = b.low[net, x], b.high[net, x]
    return low <= high and (own_y <= y < high if way == 2 else low < y <= own_y)


@inlined
def busiest(b) -> Any:
    """(load, (column, row, direction)) of the busiest link."""
    most, link = 0.0, (0, 0, 0)
    for x in range(b.loads.shape[0]):
        for y in range(b.loads.shape[1]):
            for way in range(4):
                if b.loads[x, y, way] > most:
                    most, link = b.loads[x, y, way], (x, y, way)
    return most, link


@inlined
def set_peak(b, most, link) -> None:
    """Note the busiest link and its load."""
    b.tally[PEAK] = most
    b.peak[0], b.peak[1], b.peak[2] = link


@inlined
def enter(b, part, site) -> None:
    """Set a part at the head of the list of a core."""
    head = b.first[site]
    b.site[part], b.first[site] = site, part
    b.previous[part], b.following[part] = -1, head
    if head >= 0:
        b.previous[head] = part


@inlined
def spread_outputs(b, net, sign) -> None:
    """Add the output axons of a net's neurons to their core, or take them off (``sign`` -1)."""
    if b.source[net] >= 0:
        b.used[OUTPUTS, b.site[b.source[net]]] += sign * b.size[net] * b.spread[net]


@uncounted
def fill(b) -> None:
    """All that follows from where the parts are, anew; ``site``, ``x`` and ``y`` are set."""
    for part in range(b.site.shape[0]):
        enter(b, part, b.site[part])
        for row in range(2):
            b.used[row, b.site[part]] += b.needs[row, part]
    for net in range(b.source.shape[0]):
        for k in range(b.ptr[net], b.ptr[net + 1]):
            place_target(b, net, b.targets[k])
        b.links[net] = links_of(b, net, b.x[b.source[net]], b.y[b.source[net]])
        load(b, net, b.rate[net])
        spread_outputs(b, net, 1)
    most, link = busiest(b)
    set_peak(b, most, link)


@inlined
def place_target(b, net, part) -> None:
    """Count a target of a net on the core and the tile of its part."""
    x, y, site = b.x[part], b.y[part], b.site[part]
    b.on_tile[net, x, y] += 1
    if b.on_tile[net, x, y] == 1:
        reach(b, net, x, y)
    count_on_site(b, net, site, 1)


@inlined
def count_on_site(b, net, site, more) -> None:
    """Count more targets of a net on a core, or fewer; its neurons are inputs of the core where it has any."""
    before = b.on_site[net, site]
    b.on_site[net, site] = before + more
    if (before == 0) != (before + more == 0):
        by = 1 if before == 0 else -1
        b.spread[net] += by
        b.used[INPUTS, site] += by * b.size[net]
