"""What cores hold of single parts that move, and whether they may (compiled; numba, extra ``fast``)."""

from __future__ import annotations

from nirbridge.mapping.placement.neuron_kernels import compiled
from nirbridge.mapping.placement.tree_kernels import INPUTS, OUTPUTS, cores_of, inputs_of, settle, spread_outputs


@compiled
def need(b, part, sign) -> None:
    """Add what a part takes of its core by itself, or take it off."""
    for row in range(2):
        b.used[row, b.site[part]] += sign * b.needs[row, part]


@compiled
def regroup(b, moves, count, back) -> None:
    """Move the parts of ``moves`` to their cores, or back, with all that the cores use; ``count`` nets are changed."""
    for k in range(count):
        spread_outputs(b, b.changed[k], -1)
    for k in range(moves):
        need(b, b.moves[0, k], -1)
    settle(b, moves, back)
    for k in range(moves):
        need(b, b.moves[0, k], 1)
    for k in range(count):
        net = b.changed[k]
        if back:
            b.spread[net] = b.spread_before[k]
        else:
            b.spread_before[k] = b.spread[net]
            b.spread[net] = cores_of(b, net)
        spread_outputs(b, net, 1)
    for row in range(1, 3):
        b.used[INPUTS, b.moves[row, 0]] = inputs_of(b, b.moves[row, 0])


@compiled
def is_legal(b, count) -> bool:
    """True where both cores of a proposal, and those of the sources of ``count`` changed nets, keep their limits."""
    for row in range(1, 3):
        for resource in range(4):
            if b.used[resource, b.moves[row, 0]] > b.most[resource]:
                return False
    for k in range(count):
        source = b.source[b.changed[k]]
        if source >= 0 and b.used[OUTPUTS, b.site[source]] > b.most[OUTPUTS]:
            return False
    return True


@compiled
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
        other = b.behind[other]
    return False
