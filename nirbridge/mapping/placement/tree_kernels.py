"""Exact multicast trees and link loads of parts on cores, kept up to date (compiled, numba).

A part is a whole block or one slice of it; the parts on one core form its block. ``part_kernels`` moves them.
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


# -- move kernels --------------------------------------------------------------------------------------------------
# Proposals that move parts between two tiles: links of the trees that they change, and the changes (compiled).
#
# Numba. A proposal that is weighed leaves the board as it was.


@inlined
def shift(b, count, back) -> None:
    """Give the parts of ``moves`` the tiles that they go to, or came from; their cores stay as they are."""
    row = 1 if back else 2
    for k in range(count):
        b.x[b.moves[0, k]] = b.site_x[b.moves[row, k]]
        b.y[b.moves[0, k]] = b.site_y[b.moves[row, k]]


@inlined
def touch(b, net, count) -> int:
    """Note that a proposal moves the source or a target of a net; how many it touches so far."""
    if b.mark[net] == b.clock[0]:
        return count
    b.mark[net] = b.clock[0]
    b.shift[net] = 0
    b.touched[count] = net
    return count + 1


@inlined
def touch_all(b, moves) -> None:
    """The nets of shifted parts, and how many targets of each come to the tile of the first move from the other."""
    x, y, count = b.site_x[b.moves[1, 0]], b.site_y[b.moves[1, 0]], 0
    for k in range(moves):
        part, start = b.moves[0, k], b.moves[1, k]
        by = 1 if b.site_x[start] == x and b.site_y[start] == y else -1
        for i in range(b.fed_ptr[part], b.fed_ptr[part + 1]):
            count = touch(b, b.fed[i], count)
            b.shift[b.fed[i]] += by
        for i in range(b.own_ptr[part], b.own_ptr[part + 1]):
            count = touch(b, b.own[i], count)
            b.away[b.own[i]] = b.clock[0]
    b.clock[1] = count


@inlined
def carry(b, net, one, other, back) -> None:
    """Count the moved targets of a net on the tile of another site, or again on that where they were."""
    many = -b.shift[net] if back else b.shift[net]
    if many < 0:
        one, other, many = other, one, -many
    x, y = b.site_x[other], b.site_y[other]
    b.on_tile[net, x, y] += many
    if b.on_tile[net, x, y] == many:
        reach(b, net, x, y)
    x, y = b.site_x[one], b.site_y[one]
    b.on_tile[net, x, y] -= many
    if b.on_tile[net, x, y] == 0:
        leave(b, net, x, y)


@inlined
def without(b, net, x, y, low, high, kept) -> Any:
    """The first and last row of a column, ``low`` and ``high``, without row y; row ``kept`` has targets, too."""
    while low == y or (low != kept and b.on_tile[net, x, low] == 0):
        low += 1
    while high == y or (high != kept and b.on_tile[net, x, high] == 0):
        high -= 1
    return low, high


@inlined
def links_with_targets(b, net, one, other) -> int:
    """Links of a net's tree after a proposal that moves some of its targets, but not its source."""
    many = b.shift[net]
    if many < 0:
        one, other, many = other, one, -many
    goes = b.on_tile[net, b.site_x[one], b.site_y[one]] == many
    comes = b.on_tile[net, b.site_x[other], b.site_y[other]] == 0
    if not (goes or comes):
        return b.links[net]
    if b.site_x[one] == b.site_x[other]:
        return b.links[net] + links_within(b, net, one, other, goes, comes)
    x = b.x[b.source[net]]
    more, left, right = links_to(b, net, other, comes)
    less, left, right = links_from(b, net, one, goes, left, right, b.site_x[other])
    row = max(right, x) - min(left, x) - max(b.right[net], x) + min(b.left[net], x)
    return b.links[net] + more - less + row


@inlined
def links_within(b, net, one, other, goes, comes) -> int:
    """Links more of a net's tree after some of its targets go from tile to tile of one column."""
    x, y, own_y = b.site_x[one], b.site_y[other], b.y[b.source[net]]
    low, high = b.low[net, x], b.high[net, x]
    links = max(high, own_y) - min(low, own_y)
    if comes:
        low, high = min(low, y), max(high, y)
    if goes:
        low, high = without(b, net, x, b.site_y[one], low, high, y)
    return max(high, own_y) - min(low, own_y) - links


@inlined
def links_to(b, net, site, comes) -> Any:
    """(links more in the column of a site, first and last column) of a net whose targets come to its tile."""
    x, y, own_y, left, right = b.site_x[site], b.site_y[site], b.y[b.source[net]], b.left[net], b.right[net]
    if not comes:
        return 0, left, right
    low, high = b.low[net, x], b.high[net, x]
    if low > high:
        return abs(y - own_y), min(left, x), max(right, x)
    return max(high, y, own_y) - min(low, y, own_y) - max(high, own_y) + min(low, own_y), left, right


@inlined
def links_from(b, net, site, goes, left, right, kept) -> Any:
    """(links less in the column of a site, first and last column) of a net whose last targets leave its tile.

    ``left, right``: these columns with those targets; column ``kept`` has others.
    """
    x, own_y = b.site_x[site], b.y[b.source[net]]
    if not goes:
        return 0, left, right
    low, high = b.low[net, x], b.high[net, x]
    links = max(high, own_y) - min(low, own_y)
    if low < high:
        low, high = without(b, net, x, b.site_y[site], low, high, -1)
        return links - max(high, own_y) + min(low, own_y), left, right
    while left == x or (left != kept and b.low[net, left] > b.high[net, left]):
        left += 1
    while right == x or (right != kept and b.low[net, right] > b.high[net, right]):
        right -= 1
    return links, left, right


@inlined
def links_with_source(b, net, one, other) -> int:
    """Links of a net's tree after a proposal that moves its source, and perhaps targets."""
    site = b.site[b.source[net]]
    site = other if b.site_x[site] == b.site_x[one] and b.site_y[site] == b.site_y[one] else one
    if b.shift[net] == 0:
        return links_of(b, net, b.site_x[site], b.site_y[site])
    carry(b, net, one, other, False)
    links = links_of(b, net, b.site_x[site], b.site_y[site])
    carry(b, net, one, other, True)
    return links


@inlined
def weigh(b, moves) -> Any:
    """(change, trees): rates times links after a proposal, less those now, and how many trees may be others."""
    b.clock[0] += 1
    touch_all(b, moves)
    one, other, change, count = b.moves[1, 0], b.moves[2, 0], 0.0, 0
    for k in range(b.clock[1]):
        net = b.touched[k]
        if b.away[net] == b.clock[0]:
            after = links_with_source(b, net, one, other)
        elif b.shift[net] != 0:
            after = links_with_targets(b, net, one, other)
        else:
            continue
        b.changed[count], b.after[count] = net, after
        change += b.rate[net] * (after - b.links[net])
        count += 1
    return change, count


@inlined
def relief(b, count) -> float:
    """The most that the load of the busiest link may fall if ``count`` changed trees are others."""
    x, y, way, most = b.peak[0], b.peak[1], b.peak[2], 0.0
    for k in range(count):
        if is_on(b, b.changed[k], x, y, way):
            most += b.rate[b.changed[k]]
    return most


@uncounted
def turn(b, moves, count, back) -> None:
    """Make a proposal: tiles of its parts, counts of targets by tile, trees and loads; or take it back."""
    for k in range(count):
        load(b, b.changed[k], -b.rate[b.changed[k]])
    shift(b, moves, back)
    for k in range(count):
        net = b.changed[k]
        if b.shift[net] != 0:
            carry(b, net, b.moves[1, 0], b.moves[2, 0], back)
        b.links[net], b.after[k] = b.after[k], b.links[net]
        load(b, net, b.rate[net])
