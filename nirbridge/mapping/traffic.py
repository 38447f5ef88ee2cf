"""Nets between blocks for placement: the targets of each block's spikes, and their rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import HOST, AxonTable


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
    merged: dict[tuple[int, bytes], float] = {}
    for g in np.flatnonzero(np.asarray(axons.spikes_per_step) > 0):
        source = int(axons.source_block[g])
        targets = np.asarray(axons.targets[axons.target_ptr[g] : axons.target_ptr[g + 1]], dtype=np.int64)
        targets = targets[targets != source]
        if len(targets):
            key = (source, targets.tobytes())
            merged[key] = merged.get(key, 0.0) + float(axons.spikes_per_step[g])
    lists = [np.frombuffer(key[1], dtype=np.int64) for key in merged]
    source = np.array([key[0] for key in merged], dtype=np.int64)
    ptr = np.concatenate(([0], np.cumsum([len(t) for t in lists]))).astype(np.int64)
    targets = np.concatenate(lists) if lists else np.zeros(0, np.int64)
    net_ptr, nets = _incidence(source, ptr, targets, blocks)
    return Traffic(blocks, source, np.array(list(merged.values())), ptr, targets, net_ptr, nets)


def _incidence(source: Array, ptr: Array, targets: Array, blocks: int) -> tuple[Array, Array]:
    net = np.arange(len(source), dtype=np.int64)
    on_chip = source != HOST
    block = np.concatenate((targets, source[on_chip]))
    of = np.concatenate((np.repeat(net, np.diff(ptr)), net[on_chip]))
    order = np.lexsort((of, block))
    counts = np.bincount(block, minlength=blocks)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), of[order]


def gather(ptr: Array, rows: Array) -> tuple[Array, Array]:
    """Positions of all entries of ``rows`` of a compressed list, and how many each row has."""
    counts = ptr[rows + 1] - ptr[rows]
    ends = np.cumsum(counts)
    shift = np.repeat(ptr[rows] - (ends - counts), counts)
    return shift + np.arange(len(shift), dtype=np.int64), counts


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
    keys, index = np.unique(np.concatenate((a * nets.blocks + b, b * nets.blocks + a)), return_inverse=True)
    total = np.bincount(index, np.concatenate((w, w)), len(keys)).astype(np.float64)
    rows = np.bincount(keys // max(nets.blocks, 1), minlength=nets.blocks)
    ptr = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
    return PairwisePulls(ptr, keys % max(nets.blocks, 1), total, host)
