"""Proposals that move parts between two tiles: links of the trees that they change, and the changes (compiled).

Numba. A proposal that is weighed leaves the board as it was.
"""

from __future__ import annotations

from typing import Any

from nirbridge.mapping.placement.tree_kernels import is_on, leave, links_of, load, reach
from nirbridge.partitioner.search.irregular.jit import inlined, uncounted


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
