"""Nets between blocks for placement: the targets of each block's spikes, and their rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import HOST, AxonTable

PAIRS_COUNTED = 4
"""Pairs of blocks are counted, not sorted, where there are at most as many times as many as entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Nets between blocks: the groups of an axon table that take links, merged where source and targets agree.

    Per net: ``source`` (a block or ``HOST``), ``rate`` (spikes per step), targets ``targets[ptr[g]:ptr[g + 1]]``
    (ascending, never the source). Nets without spikes and targets on the own core are left out. ``net_ptr, nets``:
    the nets that touch a block, as source or target, ascending.
    """

    blocks: int
    source: Array
    rate: Array
    ptr: Array
    targets: Array
    net_ptr: Array
    nets: Array

    @property
    def degrees(self) -> Array:
        """Number of targets of each net."""
        return np.diff(self.ptr)

    def entry_nets(self) -> Array:
        """The net of each entry of ``targets``."""
        return np.repeat(np.arange(len(self.source), dtype=np.int64), self.degrees)


def traffic(axons: AxonTable, blocks: int) -> Traffic:
    """The nets of an axon table over ``blocks`` blocks."""
    rates = np.asarray(axons.spikes_per_step, dtype=np.float64)
    group = np.repeat(np.arange(len(rates), dtype=np.int64), np.diff(axons.target_ptr))
    source, targets = np.asarray(axons.source_block, np.int64), np.asarray(axons.targets, np.int64)
    away = (targets != source[group]) & (rates[group] > 0)
    group, targets = group[away], targets[away]
    degrees = np.bincount(group, minlength=len(rates))
    ptr = np.concatenate(([0], np.cumsum(degrees)))
    used = np.flatnonzero(degrees)
    first, of = alike(source[used], ptr, targets, used)
    rate = np.bincount(of, rates[used], len(first))
    source, (entries, counts) = source[used[first]], gather(ptr, used[first])
    ptr, targets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64), targets[entries]
    net_ptr, nets = _incidence(source, ptr, targets, blocks)
    return Traffic(blocks, source, rate, ptr, targets, net_ptr, nets)


def alike(source: Array, ptr: Array, targets: Array, used: Array) -> tuple[Array, Array]:
    """Groups ``used`` of one source and the same targets: the place of the first of each, and the number of each group.

    Lists of one length are compared as rows of bytes.
    """
    degrees = ptr[used + 1] - ptr[used]
    like = np.arange(len(used))
    for degree in np.unique(degrees).tolist():
        own = np.flatnonzero(degrees == degree)
        rows = np.empty((len(own), degree + 1), np.int32)
        rows[:, 0] = source[own]
        rows[:, 1:] = targets[gather(ptr, used[own])[0]].reshape(len(own), degree)
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, of = np.unique(whole, return_index=True, return_inverse=True)
        like[own] = own[first[of.reshape(-1)]]
    first = np.flatnonzero(like == np.arange(len(used)))
    number = np.cumsum(like == np.arange(len(used))) - 1
    return first, number[like]


def _incidence(source: Array, ptr: Array, targets: Array, blocks: int) -> tuple[Array, Array]:
    net = np.arange(len(source), dtype=np.int64)
    on_chip = source != HOST
    block = np.concatenate((targets, source[on_chip]))
    of = np.concatenate((np.repeat(net, np.diff(ptr)), net[on_chip]))
    counts = np.bincount(block, minlength=blocks)
    # a net has a block once: the two packed in one number are sorted plainly
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), np.sort(block * len(source) + of) % max(
        len(net), 1
    )


def gather(ptr: Array, rows: Array) -> tuple[Array, Array]:
    """Positions of all entries of ``rows`` of a compressed list, and how many each row has."""
    counts = ptr[rows + 1] - ptr[rows]
    ends = np.cumsum(counts)
    shift = np.repeat(ptr[rows] - (ends - counts), counts)
    return shift + np.arange(len(shift), dtype=np.int64), counts


def distinct_pairs(keys: Array, blocks: int) -> tuple[Array, Array]:
    """The distinct ones of numbers below ``blocks`` squared, ascending, and the place of each number among them."""
    if blocks * blocks > PAIRS_COUNTED * max(len(keys), 1):
        keys, index = np.unique(keys, return_inverse=True)
        return keys, index.reshape(-1)
    is_there = np.bincount(keys, minlength=blocks * blocks) > 0
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[keys]


@dataclass(frozen=True, slots=True, eq=False)
class PairwisePulls:
    """The pairwise stand-in for the nets: block a and b pull on each other with a symmetric weight.

    Compressed rows ``ptr, others, weights`` (ascending, no diagonal); ``host`` [blocks] is the pull to the host's tile.
    """

    ptr: Array
    others: Array
    weights: Array
    host: Array

    def row(self, block: int) -> tuple[Array, Array]:
        """The blocks that pull on ``block``, and how strongly."""
        span = slice(self.ptr[block], self.ptr[block + 1])
        return self.others[span], self.weights[span]


def pairwise_pulls(nets: Traffic) -> PairwisePulls:
    """Each target of a net with k targets pulls on its source with rate / sqrt(k).

    A path to one of k targets is shared with the others, the more the more there are: between a link of its own
    (weight 1) and a k-th of a link.
    """
    weight = np.repeat(nets.rate / np.sqrt(nets.degrees), nets.degrees)
    source = np.repeat(nets.source, nets.degrees)
    from_host = source == HOST
    host = np.bincount(nets.targets[from_host], weight[from_host], nets.blocks).astype(np.float64)
    a, b, w = source[~from_host], nets.targets[~from_host], weight[~from_host]
    keys, index = distinct_pairs(np.concatenate((a * nets.blocks + b, b * nets.blocks + a)), nets.blocks)
    total = np.bincount(index, np.concatenate((w, w)), len(keys)).astype(np.float64)
    rows = np.bincount(keys // max(nets.blocks, 1), minlength=nets.blocks)
    ptr = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
    return PairwisePulls(ptr, keys % max(nets.blocks, 1), total, host)
