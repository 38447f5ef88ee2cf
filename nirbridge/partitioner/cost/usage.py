"""Exact resource use of each block: sources and profiles shared by its slices count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import HOST, Blocks, axon_entries
from nirbridge.partitioner.cost.connectivity import AllToAll, Separable, source_marks
from nirbridge.partitioner.cost.interleaved import rows_of, words_of_rows
from nirbridge.partitioner.cost.resources import profile_counts, run_words
from nirbridge.partitioner.cost.sizing import (
    CostModel,
    IncomingProjection,
    box_size,
    cost_model,
)
from nirbridge.partitioner.model import Slice


def resource_use(sizes: CostModel, blocks: Blocks) -> tuple[Mapping[str, int], ...]:
    """Use of every resource, block by block (names of ``partitioner.model.RESOURCES``).

    Exact, that of the checker.
    """
    inputs, outputs = np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64)
    for entry in axon_entries(sizes, blocks):
        inputs += np.bincount(entry.block, minlength=len(blocks))
        owner = entry.owner[entry.neuron]
        outputs += np.bincount(owner[owner != HOST], minlength=len(blocks))
    result = []
    for number, slices in enumerate(blocks):
        decays, thresholds = profile_counts(sizes.populations, ((s.population, s.box) for s in slices))
        used = {
            "neurons": sum(box_size(s.box) for s in slices),
            "input_axons": int(inputs[number]),
            "output_axons": int(outputs[number]),
            "synapse_words": block_words(sizes, slices),
            "decay_profiles": decays,
            "threshold_profiles": thresholds,
        }
        result.append(MappingProxyType(used))
    return tuple(result)


def block_sources(sizes: CostModel, slices: Sequence[Slice]) -> dict[str, Array]:
    """The sources of a core that holds these slices: flat indices, ascending, by population or port."""
    found: dict[str, list[Array]] = {}
    for piece in slices:
        for edge in sizes.incoming[piece.population]:
            found.setdefault(edge.source, []).append(sizes.sources(piece.population, edge, piece.box)[0])
    return {name: np.unique(np.concatenate(parts)) for name, parts in found.items()}


def count_sources(sizes: CostModel, slices: Sequence[Slice]) -> int:
    """How many sources ``block_sources`` finds, without listing them."""
    found: dict[str, Array] = {}
    for piece in slices:
        for edge in sizes.incoming[piece.population]:
            if edge.source not in found:
                found[edge.source] = source_marks(edge.form)
            sizes.mark_sources(piece.population, edge, piece.box, found[edge.source])
    return sum(int(np.count_nonzero(marks)) for marks in found.values())


def full_run_words(sizes: CostModel, blocks: Blocks) -> tuple[int, ...] | None:
    """Words of each block if every run but the last of a list were full, as tools in use fill them.

    None where the chip's runs are of that kind anyway, words are not limited, or like kernels are stored once.
    """
    fmt = sizes.chip.synapses
    if not fmt.run_free or fmt.run_targets_max is None or fmt.words is None or fmt.shared_kernels:
        return None
    full = replace(sizes.chip, synapses=replace(fmt, run_free=False))
    other = cost_model(sizes.network, full, sizes.weight_bits)
    return tuple(block_words(other, slices) for slices in blocks)


def block_words(sizes: CostModel, slices: Sequence[Slice]) -> int:
    """Words of the synapses of a core that holds these slices, in this order."""
    total = 0
    for population, group in groupby(slices, key=lambda s: s.population):
        members = tuple(group)
        for edge in sizes.incoming[population]:
            # the lists of a projection are stored whole, or all cut where a slice ends
            cut = sum(sizes.words(population, edge, s.box) for s in members)
            total += cut if len(members) == 1 else min(cut, _joint_words(sizes, population, edge, members))
    return total


def _joint_words(sizes: CostModel, population: str, edge: IncomingProjection, slices: tuple[Slice, ...]) -> int:
    """Several slices of one population: stretches of targets may run on from one slice into the next."""
    if isinstance(edge.form, AllToAll):
        targets = sum(box_size(s.box) for s in slices)
        words = run_words(targets, sizes.chip.synapses, sizes.weight_bits, delayed=edge.delayed)
        return int(edge.form.touched.sum()) * words
    boxes = [s.box for s in slices]
    rows = rows_of(boxes) if edge.shares and isinstance(edge.form, Separable) else None
    if rows is not None:
        return words_of_rows(sizes, edge, boxes[0], rows)
    return sizes.listed_words(population, edge, boxes)
