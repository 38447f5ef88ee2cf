"""The cores of a rival as a mapped network, so that its hops and links are counted and the checker applies."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores
from nirbridge.arrays import Array
from nirbridge.chips import core_at
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.cost.axons import resource_use
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport
from nirbridge.pipeline import MapOptions
from nirbridge.pipeline.map import place_partition


def mapped(accounts: Accounts, cores: Cores, rule: str, chips: int = 1, *, place: bool = True) -> MappedNetwork:
    """The cores placed (or in order) and routed as the project does it; every stretch of neurons is a slice."""
    slices = tuple(tuple(slices_of(accounts, members)) for members in cores)
    used = resource_use(cost_model(accounts.network, accounts.chip, accounts.bits), slices)
    blocks = (Block(BlockId(i), own, u) for i, (own, u) in enumerate(zip(slices, used, strict=True)))
    report = SolveReport(rule, "feasible", len(cores), 1, 1, MappingProxyType({"none": 1}), "none", 0, "", 0.0)
    partition = Partition(tuple(blocks), accounts.bits, report)
    where = None if place else tuple(core_at(accounts.chip, i, 0) for i in range(len(cores)))
    placed = place_partition(accounts.network, accounts.chip, partition, MapOptions(chips=chips), where)
    return replace(placed, placement_only=True)


def slices_of(accounts: Accounts, members: Array) -> list[Slice]:
    """Neurons (ascending) as slices: ranges of flat populations, stretches of channels at a place of others."""
    found = []
    for p in accounts.network.populations:
        first = accounts.first[p.name]
        a, b = np.searchsorted(members, (first, first + p.size))
        inner = p.shape[0] if len(p.shape) > 1 else p.size
        own = members[a:b] - first
        cuts = np.flatnonzero((np.diff(own) != 1) | (own[1:] % inner == 0)) + 1
        for part in np.split(own, cuts) if len(own) else ():
            place = np.unravel_index(int(part[0]) // inner, p.shape[1:]) if len(p.shape) > 1 else ()
            start = int(part[0]) % inner
            box = ((start, start + len(part)), *((int(x), int(x) + 1) for x in place))
            found.append(Slice(p.name, box))
    return found
