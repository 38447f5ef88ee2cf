"""Moves of neurons between the cores of a placed map, weighed by the exact multicast trees that they change.

Where the network is small this places and partitions at once: every neuron may go to any core. Larger networks keep
their placement and give up little: the temperature starts low. Every state that is accepted is within all limits of the
chip (synaptic words by an upper bound, so that some moves are left out); the outcome is counted exactly again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.model import CoreId
from nirbridge.mapping.route import HOST_TILE, tiles_of
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.neurons import NeuronLists, neuron_lists, slices_of, total_synapses
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.cost.sizing import CostModel, box_size, flat_indices
from nirbridge.partitioner.search.irregular.jit import compiled

SYNAPSES_MAX = 5_000_000
CELLS_MAX = 40_000_000
"""Most points times cores: each has a count of targets."""
ROWS_MAX = 64
JOINT_STEPS_PER_NEURON = 1_000
"""With as many steps for each neuron the search may start hot, and place the whole network anew."""
HOT, WARM, COLD = 0.3, 0.02, 0.01
"""Temperatures in units of the mean cost of a neuron: at the start of a joint search, of another, and at the end."""
CHUNKS = 60


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """Work of a search in trees times columns, and its independent runs."""

    work: int
    runs: int


EFFORTS: Mapping[str, MoveBudget] = {
    "fast": MoveBudget(20_000_000, 1),
    "default": MoveBudget(400_000_000, 1),
    "max": MoveBudget(2_000_000_000, 4),
}


@dataclass(frozen=True, slots=True)
class Moved:
    """The outcome: the slices of each block and its core."""

    blocks: Blocks
    cores: tuple[CoreId, ...]


def move_neurons(
    sizes: CostModel,
    blocks: Blocks,
    cores: tuple[CoreId, ...],
    rates: Mapping[str, Array],
    usable: Sequence[CoreId],
    *,
    seed: int = 0,
    effort: str = "default",
    progress: Progress = no_progress,
) -> Moved | None:
    """The best partition and placement found from a placed one; None: none is better, or the network is too large.

    Args:
        sizes: the network as the cores store it.
        blocks: slices of each block of the start.
        cores: the core of each block.
        rates: spikes per time step by population or input.
        usable: the cores that may be used, those of the start among them.
        seed: of the random choices.
        effort: ``fast``, ``default`` or ``max``.
        progress: called with a stage and the fraction of it that is done.
    """
    most = limits(sizes.chip)["neurons"]
    largest = max((sum(box_size(s.box) for s in slices) for slices in blocks), default=0)
    if largest == 0 or (most is not None and largest > most):
        return None
    if total_synapses(sizes) > SYNAPSES_MAX:
        return None
    points = sum(p.size for p in (*sizes.network.populations, *sizes.network.inputs))
    sites = _sites(cores, usable, CELLS_MAX // max(points, 1), sizes)
    if len(sites) < len(cores):
        return None
    lists = neuron_lists(sizes)
    start = _owner(lists, blocks)
    setup = _Setup(lists, _point_rates(lists, rates), sites)
    found = _best(setup, start, EFFORTS[effort], seed, progress)
    return None if found is None else _as_moved(lists, found, sites)


def _sites(cores: tuple[CoreId, ...], usable: Sequence[CoreId], most: int, sizes: CostModel) -> tuple[CoreId, ...]:
    """The cores of the start, then free ones, the nearest to them first; none where the mesh has too many rows."""
    if sizes.chip.mesh.height_tiles > ROWS_MAX:
        return ()
    taken = set(cores)
    free = [core for core in usable if core not in taken]
    if free:
        x, y = tiles_of(cores, sizes.chip)
        free_x, free_y = tiles_of(free, sizes.chip)
        order = np.argsort(np.abs(free_x - np.median(x)) + np.abs(free_y - np.median(y)), kind="stable")
        free = [free[k] for k in order]
    more = max(min(most, 4 * len(cores)) - len(cores), 0)
    return (*cores, *free[:more])


def _numbers(lists: NeuronLists) -> dict[str, Array]:
    """The number of each flat index of every population and input."""
    network, numbers = lists.sizes.network, {}
    for point in (*network.populations, *network.inputs):
        rank = np.empty(point.size, np.int64)
        rank[flat_indices(point.shape, tuple((0, n) for n in point.shape))] = np.arange(point.size)
        numbers[point.name] = lists.first[point.name] + rank
    return numbers


def _point_rates(lists: NeuronLists, rates: Mapping[str, Array]) -> Array:
    found = np.zeros(lists.points)
    for name, numbers in _numbers(lists).items():
        found[numbers] = np.broadcast_to(np.asarray(rates[name], float).reshape(-1), numbers.shape)
    return found


def _owner(lists: NeuronLists, blocks: Blocks) -> Array:
    """The block of each neuron."""
    numbers, owner = _numbers(lists), np.full(lists.neurons, -1, np.int64)
    for block, slices in enumerate(blocks):
        for s in slices:
            owner[numbers[s.population][flat_indices(lists.sizes.shapes[s.population], s.box)]] = block
    return owner


@dataclass(frozen=True, slots=True, eq=False)
class _Setup:
    """A network, its rates and the cores that it may use."""

    lists: NeuronLists
    rates: Array
    sites: tuple[CoreId, ...]

    def board(self, owner: Array) -> Any:
        """The board with each neuron on its core; ``owner`` indexes the sites."""
        from nirbridge.mapping.placement import neuron_kernels as kernels

        lists, cores, points = self.lists, len(self.sites), self.lists.points
        tile_x, tile_y, core_tile, host = self._tiles()
        core = np.full(points, kernels.ON_HOST, np.int64)
        core[: lists.neurons] = kernels.IN_FLIGHT
        most = self._limits()
        slots = int(min(most[kernels.NEURONS], lists.neurons)) + 1
        kinds = self._kinds(most)
        arrays: tuple[Any, ...] = (
            *(lists.fed.start, lists.fed.values, lists.feeds.start, lists.feeds.values, self.rates, core),
            *(np.full(points, host[0], np.int64), np.full(points, host[1], np.int64)),
            *(core_tile, tile_x, tile_y),
            *(np.zeros((points, cores), np.int32), np.zeros((points, len(tile_x)), np.int32)),
            np.zeros((points, int(tile_x.max()) + 1), np.uint64),
            *np.zeros((2, points), np.int64),
            *(np.full((cores, slots), -1, np.int64), np.zeros(points, np.int64)),
            *self._synapse_lists(limited=bool(most[kernels.WORDS] < kernels.UNLIMITED)),
            *kinds,
            *(np.zeros((cores, int(k.max(initial=0)) + 1), np.int64) for k in kinds),
            *(np.zeros((6, cores), np.int64), most, _ends_of_bytes()),
            np.zeros((2, 2 * int(np.diff(lists.fed.start).max(initial=0)) + 2), np.int64),
        )
        board = kernels.NeuronBoard._make(arrays)
        compiled(kernels.fill)(board, owner)
        return board

    def _tiles(self) -> tuple[Array, Array, Array, tuple[int, int]]:
        """Column and row of each tile, from the first in use on; the tile of each core; where the host is."""
        x, y = tiles_of(self.sites, self.lists.sizes.chip)
        left, low = int(x.min()), int(y.min())
        tiles, core_tile = np.unique(np.stack((x - left, y - low), axis=1), axis=0, return_inverse=True)
        columns, rows = np.ascontiguousarray(tiles[:, 0]), np.ascontiguousarray(tiles[:, 1])
        return columns, rows, core_tile.reshape(-1).astype(np.int64), (HOST_TILE[0] - left, HOST_TILE[1] - low)

    def _limits(self) -> Array:
        from nirbridge.mapping.placement import neuron_kernels as kernels

        limit = limits(self.lists.sizes.chip)
        names = ("neurons", "input_axons", "output_axons", "synapse_words", "decay_profiles", "threshold_profiles")
        return np.array([kernels.UNLIMITED if limit[name] is None else limit[name] for name in names], np.int64)

    def _kinds(self, most: Array) -> tuple[Array, Array]:
        """Profiles of each neuron; all one where the chip does not limit them."""
        kinds = (self.lists.decay, self.lists.threshold)
        return tuple(k if limit < 2**61 else np.zeros_like(k) for k, limit in zip(kinds, most[4:], strict=True))  # type: ignore[return-value]

    def _synapse_lists(self, *, limited: bool) -> tuple[Array, ...]:
        """Start and lists of each neuron, table of each list, counts, and the most words of n targets by table."""
        lists, cores = self.lists, len(self.sites)
        if not limited:
            nothing = np.zeros(0, np.int64)
            start = np.zeros(lists.neurons + 1, np.int64)
            return start, nothing, nothing, np.zeros((0, cores), np.int32), np.zeros((1, 2), np.int64)
        longest = max((int(np.bincount(e.lists.values).max(initial=0)) for e in lists.edges), default=0)
        tables = np.stack([most for _, most in lists.word_tables(longest + 1)])
        target = np.concatenate([np.repeat(np.arange(lists.neurons), np.diff(e.lists.start)) for e in lists.edges])
        edge = np.repeat(np.arange(len(lists.edges)), [len(e.lists.values) for e in lists.edges])
        source = np.concatenate([e.lists.values for e in lists.edges])
        key, own = np.unique(edge * lists.points + source, return_inverse=True)
        order = np.argsort(target, kind="stable")
        start = np.concatenate(([0], np.cumsum(np.bincount(target, minlength=lists.neurons))))
        counts = np.zeros((len(key), cores), np.int32)
        return start, own.reshape(-1)[order].astype(np.int64), key // lists.points, counts, tables.astype(np.int64)


def _ends_of_bytes() -> Array:
    """Lowest and highest bit of each byte."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    return np.stack((bits.argmax(axis=1), 7 - bits[:, ::-1].argmax(axis=1))).astype(np.int64)


def _best(setup: _Setup, start: Array, budget: MoveBudget, seed: int, progress: Progress) -> Array | None:
    """The owners of least hops over all runs; None where no run is better than the start."""
    from nirbridge.mapping.placement import neuron_kernels as kernels

    board = setup.board(start)
    first = least = float(weighted_sum(board.rate, board.hops))
    best = start
    neurons, columns = len(start), board.rows.shape[1]
    trees = 2.0 + 2.0 * len(board.fed) / max(neurons, 1)
    steps = int(budget.work / trees / (columns + 4)) // budget.runs
    if least <= 0.0 or steps < CHUNKS:
        return None
    unit = least / neurons
    hot = HOT if steps >= JOINT_STEPS_PER_NEURON * neurons else WARM
    for run in range(budget.runs):
        board = setup.board(start) if run else board
        state = np.array([np.random.default_rng([seed, run]).integers(1, 2**63)], np.uint64)
        heats = unit * np.geomspace(hot, COLD, CHUNKS + 1)
        for k in range(CHUNKS):
            compiled(kernels.anneal)(board, state, neurons, steps // CHUNKS, heats[k], heats[k + 1])
            value = float(weighted_sum(board.rate, board.hops))
            if value < least * (1 - 1e-12):
                least, best = value, board.core[:neurons].copy()
            progress("move neurons", (run + (k + 1) / CHUNKS) / budget.runs)
    return best if least < first * (1 - 1e-12) else None


def _as_moved(lists: NeuronLists, owner: Array, sites: tuple[CoreId, ...]) -> Moved:
    used = np.unique(owner)
    members = [np.flatnonzero(owner == core) for core in used.tolist()]
    return Moved(tuple(slices_of(lists, own) for own in members), tuple(sites[core] for core in used.tolist()))
