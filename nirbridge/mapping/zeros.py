"""Synapses that a map, saved or not, leaves out because their integers are 0: where lists or a crossbar are stored.

Decided on the integers that the cores hold (on the real weights, where nothing runs the map). Kernels of windows stay
whole, and so do large projections in which few weights are 0: their zeros are synapses like the others. What a core
stores of a list (runs, or all from its first target to its last, zeros in between) is counted core by core
(``partitioner.cost.resources``). The weights of the network are not changed: only the structure that is counted
(``MappedNetwork.stored_network``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.chips import Chip, SynapseFormat, chip_from_dict
from nirbridge.errors import Diagnostic, NirbridgeError, counted, quoted
from nirbridge.mapping.integers import default_integers
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.mapping.synapses import describe_operator, synapse_count
from nirbridge.network import Network, Projection, matrix
from nirbridge.network.compose import part_weights, parts_of, whole_rows
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.resources import delay_on_chip_steps, fills_gaps, words_in_order
from nirbridge.passes.retiming.retime import without_hops
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

FEW = 16
"""A dense projection keeps its zeros, and its closed form, where fewer than one weight in this number is 0 …"""
SMALL = 64
"""… except in projections of at most this number of synapses."""
LISTED_MAX = 30_000_000
"""Projections with more synapses stay whole: the search lists no more."""
MATRIX_MAX = 5_000_000
LATENCY_MAX = 100_000
"""A file that states more is wrong, and states are stepped back by the latency."""
SCREENED_ABOVE = 1_000_000
"""Larger projections are quantized for their zeros only where many weights are small."""


@dataclass(frozen=True, slots=True)
class MapFacts:
    """The facts of a map that decide its integers; ``runs``: False where nothing runs it."""

    weight_bits: int
    latency: Mapping[str, int] | None = None
    early_spikes: tuple[str, ...] = ()
    runs: bool = True


def stored_operators(
    network: Network, chip: Chip, facts: MapFacts, integers: QuantizedNetwork | None = None
) -> dict[int, Operator]:
    """Index of each projection that is stored without its zeros, and the synapses that are stored.

    ``integers``: those that will run; None: those that ``mapping.integers.integers_of`` gives.
    """
    populations = {p.name for p in network.populations}
    fmt, bits = chip.synapses, facts.weight_bits
    if bits not in fmt.weight_bits:
        return {}
    asked = [
        k
        for k, p in enumerate(network.projections)
        if p.target in populations
        and may_be_cut(p.operator, fmt)
        and (integers is not None or may_hold_zeros(p.operator, bits))
    ]
    if not asked:
        return {}
    if integers is None and facts.runs:
        integers = _integers(network, chip, facts)
    held = {} if integers is None else {p.index: p for p in integers.projections}
    stored = {}
    for k in asked:
        operator = stored_of(network.projections[k], held.get(k), fmt, bits)
        if operator is not None:
            stored[k] = operator
    return stored


def _integers(network: Network, chip: Chip, facts: MapFacts) -> QuantizedNetwork | None:
    """The integers of the map; None where the chip has none for the network, so that the real weights count."""
    if max((facts.latency or {}).values(), default=0) > LATENCY_MAX:
        return None
    try:
        return default_integers(network, chip, facts.weight_bits, facts.latency, facts.early_spikes)
    except NirbridgeError:
        return None


def may_be_cut(operator: Operator, fmt: SynapseFormat) -> bool:
    """True if the synapses of an operator are stored one by one: windows keep their kernels, if not half are zeros."""
    parts = [part for part in parts_of(operator) if not isinstance(part, Identity | Reshape)]
    if any(isinstance(part, Dense | Sparse) for part in parts):
        return True
    if len(parts) != 1 or isinstance(parts[0], SumPool):
        return False
    part = parts[0]
    if isinstance(part, Conv):
        return not fmt.shared_kernels and 2 * int(np.count_nonzero(part.weight)) <= part.weight.size
    return isinstance(part, Scale)


def may_hold_zeros(operator: Operator, weight_bits: int) -> bool:
    """False where a look at the real weights shows that hardly any zero can be left out."""
    weights = [w for part in parts_of(operator) if (w := part_weights(part)) is not None]
    if any(_is_shape_alone(w) for w in weights):
        return False
    small = [int(np.count_nonzero(np.abs(w) <= _rounds_to_zero(w, weight_bits))) for w in weights]
    return any(n and (w.size <= SCREENED_ABOVE or n * FEW >= w.size) for n, w in zip(small, weights, strict=True))


def _is_shape_alone(weights: Array) -> bool:
    """Weights of a shape without values: one element in memory."""
    return weights.size > 1 and not any(weights.strides)


def _rounds_to_zero(weights: Array, bits: int) -> float:
    """Weights up to this size are 0 where the largest fills a grid of steps of 2."""
    return 1.01 * float(np.abs(weights).max(initial=0.0)) / max(2 ** (bits - 1) - 1, 1)


def stored_of(
    projection: Projection, held: FixedProjection | None, fmt: SynapseFormat, weight_bits: int
) -> Operator | None:
    """The synapses of one projection that are stored; None: all of its structure. ``held``: its integers."""
    operator = projection.operator
    weighted = operator if held is None else held.operator
    lists = _lists(weighted)
    if lists is None:
        return None
    if isinstance(weighted, Dense) and (lists.whole == len(lists.source) or (fmt.words is not None and lists.are_few)):
        if not len(lists.source):
            return _pattern(operator, lists.target, lists.source)
        used = np.flatnonzero(lists.used)
        return None if lists.used.all() else whole_rows(used, operator.input_shape, operator.output_shape)
    if fmt.words is not None and lists.are_few:
        return None
    if len(lists.source) > LISTED_MAX:
        return None
    stored = _pattern(operator, lists.target, lists.source)
    if fmt.words is None or fills_gaps(operator):
        return stored
    count = partial(_words, fmt=fmt, bits=weight_bits, delayed=delay_on_chip_steps(projection) > 0)
    return stored if count(stored) < count(operator) else None


def _words(operator: Operator, fmt: SynapseFormat, bits: int, *, delayed: bool) -> int:
    """Words of the lists of an operator in one core."""
    table = matrix(operator, LISTED_MAX)
    how = {"delayed": delayed, "filled": fills_gaps(operator)}
    return words_in_order(table.indptr, table.indices, operator.output_shape, fmt, bits, **how)


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """Synapses whose weight is not 0: flat ``source`` and ``target`` of each.

    ``used`` [sources]: it has one; ``whole``: all synapses of these sources.
    """

    source: Array
    target: Array
    used: Array
    whole: int

    @property
    def are_few(self) -> bool:
        """True if the synapses of used sources that are 0 are stored, because they are few."""
        return self.whole > SMALL and (self.whole - len(self.source)) * FEW < self.whole


def _lists(weighted: Operator) -> _Lists | None:
    """The lists of an operator; None: no weight is 0, or there are too many synapses to look at."""
    if isinstance(weighted, Dense):
        present = weighted.weight != 0
        source, target = np.nonzero(present.T)
        used = present.any(axis=0)
        return None if present.all() else _Lists(source, target, used, len(present) * int(used.sum()))
    try:
        table = weighted if isinstance(weighted, Sparse) else matrix(weighted, MATRIX_MAX)
    except NirbridgeError:
        return None
    present = np.asarray(table.data) != 0
    if present.all():
        return None
    target, source = np.repeat(np.arange(len(table.indptr) - 1), np.diff(table.indptr)), np.asarray(table.indices)
    used = np.zeros(math.prod(weighted.input_shape), bool)
    used[source[present]] = True
    return _Lists(source[present].astype(np.int64), target[present], used, int(used[source].sum()))


def _pattern(operator: Operator, target: Array, source: Array) -> Sparse:
    """A structure without weights."""
    order = np.lexsort((source, target))
    counts = np.bincount(target, minlength=math.prod(operator.output_shape))
    indptr = np.concatenate(([0], np.cumsum(counts)))
    ones = freeze(np.broadcast_to(np.float64(1), source.shape))
    shapes = operator.input_shape, operator.output_shape
    return Sparse(freeze(indptr, np.int64), freeze(source[order], np.int64), ones, *shapes)


def left_out_note(network: Network, stored: Mapping[int, Operator]) -> str:
    """How many synapses are not stored, as a note of the map."""
    every = sum(synapse_count(network.projections[k].operator) for k in stored)
    gone = every - sum(synapse_count(operator) for operator in stored.values())
    return f"{gone:,} of {every:,} weights are 0 in the chip's integers and take no synapse (--keep-zeros stores them)"


def lost_weights(network: Network, stored: Mapping[int, Operator], integers: QuantizedNetwork | None) -> dict[int, int]:
    """Weights that are not 0 and have no synapse, by the index of their projection; none: the map holds them all.

    ``integers``: those that run; None: the real weights count.
    """
    held = {} if integers is None else {p.index: p.operator for p in integers.projections}
    lost = {k: _missing(operator, held.get(k, network.projections[k].operator)) for k, operator in stored.items()}
    return {k: missing for k, missing in lost.items() if missing}


def _missing(stored: Operator, weighted: Operator) -> int:
    """Weights other than 0 outside the stored structure."""
    pattern = stored.parts[0] if isinstance(stored, Chain) else stored
    assert isinstance(pattern, Sparse), "zeros are left out of lists, or of whole sources"
    if isinstance(weighted, Dense):
        present = weighted.weight != 0
        if isinstance(stored, Chain):
            held = present[:, pattern.indices]
        else:
            held = present[np.repeat(np.arange(len(pattern.indptr) - 1), np.diff(pattern.indptr)), pattern.indices]
        return int(np.count_nonzero(present)) - int(np.count_nonzero(held))
    table: Any = matrix(weighted, LISTED_MAX)
    held = table.multiply(matrix(pattern, LISTED_MAX))
    return int(table.count_nonzero() - held.count_nonzero())


# -- saved zeros ---------------------------------------------------------------------------------------------------
# Zeros left out of a saved map: the synapses that remain, and a check that integers match them.


def stored_of_record(
    record: MapRecord, network: Network, chip: Chip, integers: QuantizedNetwork | None = None
) -> dict[int, Operator]:
    """The synapses that the cores of a saved map hold of the projections whose zeros it leaves out.

    ``network``: what was mapped. Decided anew on its integers, or those given; the checker compares the outcome with
    the file's.
    """
    marked = {k for k, p in enumerate(record.projections) if p.zeros is not None}
    if not marked:
        return {}
    facts = MapFacts(record.weight_bits, record.latency, record.early_spikes, not record.placement_only)
    return {k: v for k, v in stored_operators(network, chip, facts, integers).items() if k in marked}


def unstored_problems(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    """Weights of these integers that are not 0 where the map left out a zero."""
    marked = [k for k, p in enumerate(record.projections) if p.zeros is not None]
    if not marked:
        return
    network, stored = quantized.network, {}
    if network is not None:
        whole = replace(record, latency=quantized.latency, early_spikes=quantized.early)
        made_of = partial(stored_of_record, whole, without_hops(network), chip_from_dict(record.chip))
        stored = made_of()
        if unlike := _unlike(record, marked, stored):
            # a map that was made for these integers left out their zeros
            stored |= {k: v for k, v in made_of(integers=quantized).items() if k in unlike}
    lost = {} if network is None else lost_weights(network, stored, quantized)
    unlike = _unlike(record, marked, stored)
    for k in marked:
        p, known = record.projections[k], k not in unlike
        if known and k not in lost:
            continue
        found = f"has {counted(lost[k], 'weight')} that the map left out as 0" if known else "has zeros left out"
        limit = "" if known else "the map does not tell which of these integers it left out"
        hint = "map the model with --keep-zeros"
        yield Diagnostic(f"projection {quoted(p.source)} -> {quoted(p.target)}", found, limit, hint)


def _unlike(record: MapRecord, marked: list[int], stored: Mapping[int, Operator]) -> list[int]:
    """Projections whose stored synapses are not those of the map."""
    return [k for k in marked if k not in stored or describe_operator(stored[k]) != record.projections[k].operator]
