"""What cores hold of single parts that move, and whether they may (``irregular.jit``)."""

from __future__ import annotations

from nirbridge.mapping.placement.tree_kernels import OUTPUTS, count_on_site, enter, spread_outputs
from nirbridge.partitioner.search.irregular.jit import inlined, uncounted


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
