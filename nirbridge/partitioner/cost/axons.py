"""The axon table of a partition (source neurons grouped by sets of target blocks), and the exact use of each block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType

import numpy as np
from scipy import sparse

from nirbridge._types import Box
from nirbridge.arrays import Array, freeze
from nirbridge.chips.model import SYNAPSE_KINDS, SynapseKind
from nirbridge.partitioner.cost.axis import Axis, axis_from_matrix
from nirbridge.partitioner.cost.connectivity import (
    AllToAll,
    Patterns,
    Separable,
    axis_lists,
    range_patterns,
    source_marks,
)
from nirbridge.partitioner.cost.resources import profile_counts, run_words
from nirbridge.partitioner.cost.sizing import (
    CostModel,
    IncomingProjection,
    box_size,
    cost_model,
    numbering_axes,
)
from nirbridge.partitioner.model import Slice

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class AxonTable:
    """Source neurons grouped by (source population or port, source block, set of target blocks).

    Per group g: ``source_name[g]`` indexes ``names``; ``source_block[g]`` is a block id or ``HOST``; ``neurons[g]``
    distinct source neurons; ``spikes_per_step[g]`` their summed rate. Its target blocks, ascending, are
    ``targets[target_ptr[g]:target_ptr[g + 1]]`` (the own block included where it has targets there), with, per entry,
    ``synapses`` (all synapses of the group's neurons in that block) and ``synaptic_ops_per_step`` (each synapse times
    the rate of its source). ``ops_by_kind``: the same operations by kind of synapse; empty: all are of dense rows.
    Every group has at least one target. Groups are in a fixed order.
    """

    names: tuple[str, ...]
    source_name: Array
    source_block: Array
    neurons: Array
    spikes_per_step: Array
    target_ptr: Array
    targets: Array
    synapses: Array
    synaptic_ops_per_step: Array
    ops_by_kind: Mapping[SynapseKind, Array] = field(default_factory=lambda: MappingProxyType({}))


Blocks = Sequence[tuple[Slice, ...]]
Rates = Mapping[str, Array]
_Part = tuple[int, Array, Array, SynapseKind]
"""Sources of one projection into a slice: number of the block, sources, synapses of each, kind."""


@dataclass(frozen=True, slots=True, eq=False)
class AxonEntries:
    """One entry per (source neuron or host element, block with targets of it), by source population or port.

    ``neuron`` flat index, ``block`` target block, ``synapses`` targets there; sorted by neuron, then block. ``owner``
    is the block of every neuron of the population (``HOST`` throughout for a port). ``by_kind``: the synapses of each
    entry by kind, for the kinds that occur.
    """

    name: str
    neuron: Array
    block: Array
    synapses: Array
    owner: Array
    by_kind: Mapping[SynapseKind, Array]


def axon_entries(sizes: CostModel, blocks: Blocks) -> Iterator[AxonEntries]:
    """The entries of every source, input ports first, each in network order."""
    network = sizes.network
    by_source: dict[str, list[tuple[int, Slice, IncomingProjection]]] = {}
    for number, slices in enumerate(blocks):
        for piece in slices:
            for edge in sizes.incoming[piece.population]:
                by_source.setdefault(edge.source, []).append((number, piece, edge))
    owners = owner_blocks(sizes, blocks)
    for name, size in [(p.name, p.size) for p in (*network.inputs, *network.populations)]:
        if name in by_source:
            owner = owners[name] if name in owners else np.full(size, HOST, np.int32)
            # listed one source at a time: the lists of a network of millions of neurons take gigabytes
            yield _entries(name, [_part(sizes, *link) for link in by_source[name]], owner, len(blocks))


def _part(sizes: CostModel, number: int, piece: Slice, edge: IncomingProjection) -> _Part:
    index, count = sizes.sources(piece.population, edge, piece.box)
    return number, index.astype(np.int32), count.astype(np.int32), synapse_kind(edge)


def synapse_kind(edge: IncomingProjection) -> SynapseKind:
    """How a core stores a projection: full rows, lists of targets, or kernels that axons share."""
    if edge.shares:
        return "convolution"
    return "dense" if isinstance(edge.form, AllToAll) else "sparse"


def _entries(name: str, parts: list[_Part], owner: Array, blocks: int) -> AxonEntries:
    """Sorted by neuron and block, the synapses of several projections and slices added, by counting sort."""
    if len(parts) == 1:  # sorted already
        block, index, count, kind = parts[0]
        synapses = count.astype(np.int64)
        return AxonEntries(name, index.astype(np.int64), np.full(len(index), block), synapses, owner, {kind: synapses})
    table = _counts(parts, len(owner), blocks)
    neuron = np.repeat(np.arange(len(owner), dtype=np.int64), np.diff(table.indptr))
    block, synapses = table.indices.astype(np.int64), table.data.astype(np.int64)
    kinds: list[SynapseKind] = [kind for kind in SYNAPSE_KINDS if any(part[3] == kind for part in parts)]
    by_kind: dict[SynapseKind, Array] = dict.fromkeys(kinds, synapses)
    if len(kinds) > 1:
        keys = neuron * blocks + block
        for kind in kinds:
            own = _counts([part for part in parts if part[3] == kind], len(owner), blocks)
            source = np.repeat(np.arange(len(owner), dtype=np.int64), np.diff(own.indptr))
            by_kind[kind] = np.zeros(len(keys), np.int64)
            by_kind[kind][np.searchsorted(keys, source * blocks + own.indices)] = own.data
    return AxonEntries(name, neuron, block, synapses, owner, by_kind)


def _counts(parts: list[_Part], sources: int, blocks: int) -> sparse.csr_array:
    """[sources, blocks] synapses of each pair; pairs without synapses have no entry."""
    block = np.repeat(np.array([p[0] for p in parts], np.int32), [len(p[1]) for p in parts])
    neuron, count = (np.concatenate([p[k] for p in parts]) for k in (1, 2))
    table = sparse.coo_array((count, (neuron, block)), shape=(sources, blocks)).tocsr()
    table.sort_indices()
    return table


def owner_blocks(sizes: CostModel, blocks: Blocks) -> dict[str, Array]:
    """The block of every neuron, flat, by population; -1 where no slice holds it."""
    owners = {name: np.full(shape, HOST, np.int32) for name, shape in sizes.shapes.items()}
    for number, slices in enumerate(blocks):
        for piece in slices:
            owners[piece.population][tuple(slice(a, b) for a, b in piece.box)] = number
    return {name: owner.ravel() for name, owner in owners.items()}


def axon_table(sizes: CostModel, blocks: Blocks, rates: Rates) -> AxonTable:
    """The table of a partition. ``rates``: spikes per time step by population or port name, scalar or of its shape."""
    names = tuple(p.name for p in (*sizes.network.inputs, *sizes.network.populations))
    numbers = {name: number for number, name in enumerate(names)}
    marks = np.random.default_rng(0).integers(1, 2**62, size=len(blocks), dtype=np.uint64)
    columns: dict[str, list[Array]] = {key: [] for key in ("name", "source", "neurons", "spikes", "length")}
    flat: dict[str, list[Array]] = {key: [] for key in ("targets", "synapses", "ops", *SYNAPSE_KINDS)}
    for entry in axon_entries(sizes, blocks):
        rate = np.broadcast_to(np.asarray(rates[entry.name], float).ravel(), entry.owner.shape)
        group = _group(entry, marks)
        count = int(group.max()) + 1 if len(group) else 0
        members = np.flatnonzero(group >= 0)
        of_member = group[members]
        first = _first_members(group, members, count)
        length, targets, inverse = _targets(entry, group, first)
        columns["name"].append(np.full(count, numbers[entry.name]))
        columns["neurons"].append(np.bincount(of_member, minlength=count))
        columns["spikes"].append(np.bincount(of_member, weights=rate[members], minlength=count))
        columns["source"].append(entry.owner[first])
        columns["length"].append(length)
        flat["targets"].append(targets)
        flat["synapses"].append(np.bincount(inverse, weights=entry.synapses).astype(np.int64))
        for kind, ops in _ops(entry, inverse, rate).items():
            flat[kind].append(ops)
    return AxonTable(
        names,
        _join(columns["name"], np.int64),
        _join(columns["source"], np.int64),
        _join(columns["neurons"], np.int64),
        _join(columns["spikes"], np.float64),
        freeze(np.concatenate(([0], np.cumsum(_join(columns["length"], np.int64)))).astype(np.int64)),
        _join(flat["targets"], np.int64),
        _join(flat["synapses"], np.int64),
        _join(flat["ops"], np.float64),
        MappingProxyType({kind: _join(flat[kind], np.float64) for kind in SYNAPSE_KINDS}),
    )


def _join(parts: list[Array], dtype: type) -> Array:
    if parts and all(part.strides == (0,) and part[:1].sum() == 0 for part in parts):
        return np.broadcast_to(np.zeros((), dtype), sum(map(len, parts)))  # operations of a kind that there is not
    joined = np.concatenate(parts, dtype=dtype) if parts else np.zeros(0, dtype)
    joined.flags.writeable = False  # an array of its own: no copy, as ``freeze`` makes one
    return joined


def spikes_per_block(sizes: CostModel, blocks: Blocks, rates: Rates) -> Array:
    """Spikes per step of the neurons of each block, with targets or without, float64 [blocks]."""
    total = np.zeros(len(blocks))
    for name, owner in owner_blocks(sizes, blocks).items():
        rate = np.broadcast_to(np.asarray(rates[name], float).ravel(), owner.shape)
        held = owner != HOST
        total += np.bincount(owner[held], rate[held], len(blocks))
    return total


def _first_members(group: Array, members: Array, count: int) -> Array:
    """The first neuron of each group."""
    first = np.zeros(count, np.int64)
    first[group[members[::-1]]] = members[::-1]  # of several the last one stays
    return first


def _targets(entry: AxonEntries, group: Array, first: Array) -> tuple[Array, Array, Array]:
    """Per group the number of its target blocks; these, group by group; the place among them of each entry.

    The neurons of a group have the same target blocks: those of its first neuron are those of all.
    """
    degree = np.bincount(entry.neuron, minlength=len(group))
    begin = np.cumsum(degree) - degree
    length = degree[first]
    end = np.cumsum(length)
    targets = entry.block[np.repeat(begin[first] - (end - length), length) + np.arange(length.sum())]
    shift = np.zeros(len(group), np.int64)
    has_targets = group >= 0
    shift[has_targets] = (end - length)[group[has_targets]] - begin[has_targets]
    return length, targets, np.arange(len(entry.neuron)) + np.repeat(shift, degree)


def _ops(entry: AxonEntries, inverse: Array, rate: Array) -> dict[str, Array]:
    """Operations per step of each entry of the table: of every kind together ("ops"), and by kind."""
    ops = np.bincount(inverse, weights=entry.synapses * rate[entry.neuron])
    by_kind: dict[str, Array] = {"ops": ops}
    for kind in SYNAPSE_KINDS:
        if kind not in entry.by_kind:
            by_kind[kind] = np.broadcast_to(np.float64(0), len(ops))
        elif len(entry.by_kind) == 1:
            by_kind[kind] = ops
        else:
            by_kind[kind] = np.bincount(inverse, weights=entry.by_kind[kind] * rate[entry.neuron])
    return by_kind


def _group(entry: AxonEntries, marks: Array) -> Array:
    """Per neuron of the source (flat) the number of its group; -1 for neurons without targets.

    ``marks``: a random number for each block.
    """
    first = np.flatnonzero(np.diff(entry.neuron, prepend=-1))
    members = entry.neuron[first]
    code = np.add.reduceat(marks[entry.block], first) if len(first) else np.zeros(0, np.uint64)
    # owners differ by an odd factor: one number tells groups apart as the pair would, but for a chance of 2**-64
    code = (code ^ (code >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    code += (entry.owner[members] + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    # groups are numbered in the order of their first neuron, so that the table does not depend on the marks
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = np.full(len(entry.owner), -1, np.int64)
    group[members] = rank[inverse.ravel()]
    return group


# -- usage ---------------------------------------------------------------------------------------------------------
# Exact resource use of each block: sources and profiles shared by its slices count once.


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


# -- interleaved ---------------------------------------------------------------------------------------------------
# Words of a core that holds some rows of a feature map, every second or third one for example, in closed form.
#
# Where a chip stores like kernels once, sources of a 3 x 3 kernel have lists of three lengths along an axis: of whole
# kernels, and of kernels that a border of the map or the end of a slice truncates. A slice of few rows stores mostly
# truncated kernels. A core that holds every second row, from one border to the other, has sources that reach one or two
# of its rows, and only the two borders truncate. Rows that do not touch follow each other in the numbering of the core,
# so the rows form an axis with fewer outputs, which has patterns as any other.


ROWS = 1
"""The slowest axis in the numbering of a slice."""


def row_patterns(axis: Axis, rows: Array) -> Patterns:
    """The patterns (``CostModel.axis_patterns``) of an axis of which a core holds the outputs ``rows``, ascending."""
    if axis.full:
        return range_patterns(axis, None, 0, len(rows))
    kept = np.isin(axis.outs, rows)
    inputs = np.repeat(np.arange(axis.n_in), np.diff(axis.indptr))[kept]
    places = np.searchsorted(rows, axis.outs[kept])
    chosen = sparse.csr_array((axis.taps[kept], (places, inputs)), shape=(len(rows), axis.n_in))
    own = axis_from_matrix(chosen)
    return range_patterns(own, axis_lists(own), 0, len(rows))


def words_of_rows(
    sizes: CostModel, edge: IncomingProjection, box: Box, rows: Sequence[int], patterns: Patterns | None = None
) -> int:
    """Words of one separable projection into the ``rows`` of a box (whose own range of rows does not count).

    ``patterns``: ``row_patterns`` of these rows, where they are known.
    """
    form = edge.form
    assert isinstance(form, Separable), "rows are an axis of a window"
    order = numbering_axes(form.target_shape)[::-1]
    of_rows = row_patterns(form.axes[ROWS], np.asarray(rows)) if patterns is None else patterns
    by_axis = tuple(of_rows if a == ROWS else sizes.axis_patterns(form.axes[a], *box[a]) for a in order)
    widths = tuple(len(rows) if a == ROWS else box[a][1] - box[a][0] for a in order)
    return sizes.pattern_words(edge, order, by_axis, widths)


def rows_of(boxes: Sequence[Box]) -> tuple[int, ...] | None:
    """The rows of boxes that are equal on all other axes, in ascending order without overlap; None: they are not so."""
    first, rows = boxes[0], []
    if len(first) < 2:
        return None
    for box in boxes:
        if box[:ROWS] != first[:ROWS] or box[ROWS + 1 :] != first[ROWS + 1 :]:
            return None
        if rows and box[ROWS][0] <= rows[-1]:
            return None
        rows += range(*box[ROWS])
    return tuple(rows)
