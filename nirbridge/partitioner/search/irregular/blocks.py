"""Cores of any neurons as blocks: an order of each population, and ranges of it as slices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks, resource_use
from nirbridge.partitioner.cost.connectivity import Explicit, synapses
from nirbridge.partitioner.cost.neurons import total_synapses
from nirbridge.partitioner.cost.resources import exceeded, limits
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.ordering import Orders, ordered_network
from nirbridge.partitioner.search.interruption import finished

NEURONS_MIN = 500
"""Smaller networks of short lists are searched neuron by neuron (``clusters``), which knows every limit."""
THICK = 12
"""Lists of at least one target in this number are first taken to lie together in each core."""
NEURONS_LARGE, SYNAPSES_LARGE = 20_000, 1_000_000
"""Above these sizes the other searches take too long for an irregular network."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderedBlocks:
    """Blocks of a network in ``orders``, the cost model of that network, and ``used``, every resource of each block.

    ``is_final``: no other search is tried; ``interrupted``: Ctrl-C ended this one.
    """

    sizes: CostModel
    blocks: Blocks
    orders: Orders
    used: tuple[Mapping[str, int], ...]
    is_final: bool
    interrupted: bool = False


def ordered_blocks(
    sizes: CostModel,
    cap: Array,
    groups: Mapping[str, int],
    lower: int,
    effort: str,
    seed: int,
    *,
    keep_best: bool = False,
    progress: Progress = no_progress,
) -> OrderedBlocks | None:
    """Blocks of an irregular network; None: it is regular, or small with short lists, or no legal blocks were found.

    ``keep_best``: Ctrl-C gives the best blocks so far, where there are any.
    """
    thick = _is_thick(sizes)
    if sizes.network.neurons < NEURONS_MIN and not thick:
        return None
    if groups or not _is_irregular(sizes):
        return None
    from nirbridge.partitioner.search.irregular.model import model_of
    from nirbridge.partitioner.search.irregular.search import irregular_cores

    for together in (True, False) if thick else (False,):
        part, interrupted = None, False
        model = model_of(sizes, cap, together=together)
        try:
            for better in irregular_cores(model, lower, effort, seed, progress) if model is not None else ():
                part = better
        except KeyboardInterrupt:
            if part is None or not keep_best:
                raise
            interrupted = True
        if part is None:
            continue
        assert model is not None, "there are parts of a model alone"
        rank = _ranks(model.start, model.nets, part) if together else np.arange(len(part))
        found, again = finished(keep_best, _ordered, sizes, part, rank)
        if found is None:
            continue
        ordered, blocks, orders, used = found
        ended = interrupted or again
        is_large = sizes.network.neurons > NEURONS_LARGE or total_synapses(sizes) > SYNAPSES_LARGE
        return OrderedBlocks(ordered, blocks, orders, used, is_large or len(blocks) <= lower or ended, ended)
    return None


def _ranks(start: Array, nets: Array, part: Array) -> Array:
    """Places of all neurons, in which those of like sources in a core are next to each other."""
    rank = np.empty(len(part), np.int64)
    for core in range(int(part.max()) + 1):
        members = np.flatnonzero(part == core)
        counts = start[members + 1] - start[members]
        first = np.concatenate(([0], np.cumsum(counts)))
        own = nets[np.arange(first[-1]) + np.repeat(start[members] - first[:-1], counts)]
        rank[members[by_likeness(first, own)]] = members
    return rank


def _ordered(
    sizes: CostModel, part: Array, rank: Array
) -> tuple[CostModel, Blocks, Orders, tuple[Mapping[str, int], ...]] | None:
    """The network in the order of its cores, its blocks and their use; None: they are not within the limits."""
    orders, blocks = _in_order(sizes, part, rank)
    ordered = cost_model(ordered_network(sizes.network, orders), sizes.chip, sizes.weight_bits)
    used, limit = resource_use(ordered, blocks), limits(sizes.chip)
    return None if any(exceeded(own, limit) for own in used) else (ordered, blocks, orders, used)


def _is_thick(sizes: CostModel) -> bool:
    """True where lists are so long that those of one core, with the gaps filled, may lie together."""
    edges = [edge.form for own in sizes.incoming.values() for edge in own if edge.fills]
    lists = [form for form in edges if isinstance(form, Explicit) and len(form.sources)]
    return any(len(f.sources) * THICK >= len(np.unique(f.sources)) * (len(f.indptr) - 1) for f in lists)


def _is_irregular(sizes: CostModel) -> bool:
    """True where populations are lines of neurons and at least half of the synapses follow no pattern."""
    forms = [e.form for edges in sizes.incoming.values() for e in edges]
    listed = sum(synapses(form) for form in forms if isinstance(form, Explicit))
    return all(len(shape) == 1 for shape in sizes.shapes.values()) and 2 * listed >= sum(map(synapses, forms)) > 0


def _in_order(sizes: CostModel, part: Array, rank: Array) -> tuple[Orders, Blocks]:
    """The order of each population (none where the neurons of every core are a range already), and the blocks.

    ``rank``: of the neurons of a core, the order in which they stand.
    """
    orders: dict[str, tuple[int, ...]] = {}
    slices: list[list[Slice]] = [[] for _ in range(int(part.max()) + 1)]
    first = 0
    for name, shape in sizes.shapes.items():
        size = math.prod(shape)
        own = part[first : first + size]
        order = np.lexsort((rank[first : first + size], own))
        if not np.array_equal(order, np.arange(size)):
            orders[name] = tuple(order.tolist())
        cuts = np.flatnonzero(np.diff(own[order])) + 1
        for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), size], strict=True):
            slices[int(own[order[a]])].append(Slice(name, ((a, b),)))
        first += size
    return orders, tuple(tuple(core) for core in slices)


# -- alike ---------------------------------------------------------------------------------------------------------
# Neurons of like sources next to each other, so that the lists of a core have few gaps.

NEURONS_MAX = 4096
"""More neurons stay in their order: each is compared with each."""


def by_likeness(start: Array, sources: Array) -> Array:
    """An order of neurons, the leaves of a tree of average linkage over the Jaccard distances of their sources.

    Neuron ``i`` has the distinct ``sources[start[i]:start[i + 1]]``. Returns a permutation (int64).
    """
    neurons = len(start) - 1
    if not 2 < neurons <= NEURONS_MAX:
        return np.arange(neurons)
    ones = np.ones(len(sources), np.float32)
    rows = sparse.csr_array((ones, sources, start), shape=(neurons, int(sources.max(initial=-1)) + 1))
    common = np.asarray((rows @ rows.T).todense(), np.float64)
    degree = np.diff(start)
    union = degree[:, None] + degree[None, :] - common
    distance = 1.0 - np.divide(common, union, out=np.ones_like(common), where=union > 0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")), np.int64)
