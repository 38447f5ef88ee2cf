"""Moves of slices between the cores of a placed map, weighed by the exact multicast trees that they change.

A partition has few kinds of slices, and the search for few cores does not care which slice of a kind lies on which
core. So slices of the same kind change places, any slice goes where there is room for it, and whole blocks move, all in
one annealing (``part_kernels``). Every state that is accepted is within all limits of the chip: neurons, axons in and
out by exact counts, words by an upper bound (each slice stored by itself), profiles by those of the slices that are
there already. The outcome is counted exactly again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.model import CoreId
from nirbridge.mapping.placement.neuron_moves import Moved
from nirbridge.mapping.placement.tree_moves import PartNeeds, Parts, Runs, Sites, TreeBudget, rows_of, runs_and_steps
from nirbridge.mapping.route import tiles_of
from nirbridge.mapping.traffic import Traffic
from nirbridge.partitioner.cost.axons import HOST, AxonTable, Blocks, axon_table
from nirbridge.partitioner.cost.resources import distinct_profiles, limits, numbers_in, profile_ids
from nirbridge.partitioner.cost.sizing import CostModel, box_size
from nirbridge.partitioner.model import Slice

PARTS_MAX = 20_000
"""Partitions into more slices are left as they are."""
HOT, WARM, COLD = 1.0, 0.25, 0.05
"""Temperatures in mean hops of a slice: at the start of a run, of one that keeps most of its start, and at the end."""
STEPS_LEAST = 50
"""Steps a slice of a run of the second pair; none is made with less."""
STEPS_HOT = 500
"""Runs of fewer steps a slice are warm."""
SHORTER = 5
"""How much shorter the runs of the first pair are."""
GAIN, FEW, SMALL = 0.1, 16, 1_000
"""A second pair is made where the first takes off this part of the hops, with more than ``FEW`` blocks and ``SMALL``
neurons: up to there one pair finds most, and objective ``traffic`` moves neurons after it."""
CHUNKS = 40
UNLIMITED = 2**62


EFFORTS: Mapping[str, TreeBudget] = {
    "fast": TreeBudget(1, 2_000, 30_000_000, small=(50, 125_000)),
    "default": TreeBudget(1, 5_000, 90_000_000, 1_250, 300_000_000, small=(100, 250_000)),
    "max": TreeBudget(1, 200_000, 6_000_000_000),
}
"""Of one run of the second pair."""


def move_slices(
    sizes: CostModel,
    blocks: Blocks,
    cores: tuple[CoreId, ...],
    rates: Mapping[str, Array],
    usable: Sequence[CoreId],
    *,
    new_cores: bool = False,
    fixed: Collection[int] = (),
    seed: int = 0,
    effort: str = "default",
    progress: Progress = no_progress,
) -> Moved | None:
    """The best partition and placement found from a placed one; None: none is better, or nothing can move.

    Args:
        sizes: the network as the cores store it.
        blocks: slices of each block of the start.
        cores: the core of each block.
        rates: spikes per time step by population or input.
        usable: the cores that may be used, those of the start among them.
        new_cores: slices may go to cores that hold none.
        fixed: blocks that stay as they are, on their cores.
        seed: of the random choices.
        effort: ``fast``, ``default`` or ``max``.
        progress: called with a stage and the fraction of it that is done.
    """
    if not len(blocks) < sum(map(len, blocks)) <= PARTS_MAX:
        return None
    cut = cut_slices(sizes, blocks, fixed, PARTS_MAX)
    slices, of_block = cut.slices, np.array(cut.block, np.int64)
    table = axon_table(sizes, [(s,) for s in slices], rates)
    nets = _nets(table, len(slices))
    movable = np.flatnonzero(~np.isin(of_block, list(fixed)))
    pinned = [cores[b] for b in sorted(fixed)]
    taken = set(pinned)
    free = [core for core in usable if core not in taken]
    sites = Sites.of(free, sizes.chip)
    runs = runs_and_steps(len(movable), nets, sites, EFFORTS[effort], STEPS_LEAST, len(slices) / len(blocks))
    if runs.count == 0:
        return None
    place = {core: k for k, core in enumerate((*free, *pinned))}
    site = np.array([place[core] for core in cores], np.int64)[of_block]
    parts = _parts(sizes, slices, table, nets, movable, site)
    board = _Board(parts, sites, tiles_of(pinned, sizes.chip))
    runs.announce(progress)
    is_small = runs.is_small or len(blocks) <= FEW or int(parts.needs.needs[0].sum()) <= SMALL
    best = _Runs(board, runs, seed, new_cores, progress).best(1 if is_small else 2)
    return None if best is None else _as_moved(sizes, cut.on_cores(best), (*free, *pinned))


def _nets(table: AxonTable, parts: int) -> Traffic:
    """Every group of neurons as a net, those without spikes and targets in the own part included: they take axons."""
    source, ptr, targets = table.source_block, table.target_ptr, table.targets
    net = np.repeat(np.arange(len(source)), np.diff(ptr))
    on_chip = np.flatnonzero(source != HOST)
    touched = np.unique(np.concatenate((targets, source[on_chip])) * len(source) + np.concatenate((net, on_chip)))
    starts, nets = rows_of(touched // max(len(source), 1), touched % max(len(source), 1), parts)
    return Traffic(parts, np.asarray(source, np.int64), np.array(table.spikes_per_step), ptr, targets, starts, nets)


def _parts(
    sizes: CostModel, slices: list[Slice], table: AxonTable, nets: Traffic, movable: Array, site: Array
) -> Parts:
    chip = sizes.chip
    limit = limits(chip)
    names = ("neurons", "synapse_words", "input_axons", "output_axons")
    most = np.array([UNLIMITED if limit[name] is None else limit[name] for name in names], np.int64)
    words = [0 if limit["synapse_words"] is None else sizes.cost(s.population, s.box).synapse_words for s in slices]
    profile = _numbered([_profiles(sizes, s) for s in slices]) if _has_profiles(sizes) else np.zeros_like(site)
    kind = _numbered([(s.population, *(b - a for a, b in s.box)) for s in slices])
    needs = np.array([[box_size(s.box) for s in slices], words], np.int64)
    return Parts(nets, movable, site, PartNeeds(np.array(table.neurons, np.int64), needs, kind, profile, most))


def _numbered(keys: Sequence[object]) -> Array:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _has_profiles(sizes: CostModel) -> bool:
    """True where a core may be too small for all profiles of the network."""
    limit, (decays, thresholds) = limits(sizes.chip), distinct_profiles(sizes.network)
    most = (limit["decay_profiles"], limit["threshold_profiles"])
    return any(m is not None and found > m for m, found in zip(most, (decays, thresholds), strict=True))


def _profiles(sizes: CostModel, piece: Slice) -> tuple[object, ...]:
    """The profiles of the neurons of a slice, as a key."""
    population = sizes.populations[piece.population]
    ids = profile_ids(population.neuron, population.shape)
    decays = tuple(ids.decay_values[i] for i in numbers_in(ids.decay, piece.box))
    if not ids.threshold_values:
        return decays, ()
    return decays, tuple(ids.threshold_values[i] for i in numbers_in(ids.threshold, piece.box))


@dataclass(frozen=True, slots=True, eq=False)
class _Board:
    """Slices, the sites that they may use, and column and row of the tiles of those that are pinned."""

    parts: Parts
    sites: Sites
    pinned: tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Annealing from one start. ``runs``: of those of the second pair, or, where they are small, of the first."""

    board: _Board
    runs: Runs
    seed: int
    new_cores: bool
    progress: Progress

    def best(self, pairs: int) -> Array | None:
        """The site of each slice in the best state of all runs; None where none is better than the start.

        Each begins at the best state so far. The first pair is a short hot run and a warm one: where these find little,
        slices are where they should be. Long hot runs end up to 10 % apart, so the second pair is two of them.
        """
        movable, best, least = len(self.board.parts.movable), self.board.parts.site, 0.0
        hops = self._trees(best)[1]
        short = self.runs.steps // (1 if self.runs.is_small else SHORTER)
        for run, steps in enumerate((*[short] * 2, *[self.runs.steps] * 2)[: 2 * pairs]):
            if run == 2 and least > -GAIN * hops:
                break
            heat = HOT if run != 1 and steps >= STEPS_HOT * movable else WARM
            tell: Progress = lambda stage, done, run=run: self.progress(stage, (run + (done or 0.0)) / (2 * pairs))  # noqa: E731
            change, found = self._annealed(run, best, steps, heat, tell)
            if change < 0.0:
                least, best = least + change, found
        return best if least < 0.0 else None

    def _trees(self, site: Array) -> tuple[Any, float]:
        """The compiled board with the slices on some sites, and its hops."""
        trees = replace(self.board.parts, site=site).on(self.board.sites, *self.board.pinned, self.runs)
        return trees, float(weighted_sum(self.board.parts.nets.rate, trees.links))

    def _annealed(self, run: int, site: Array, steps: int, heat: float, progress: Progress) -> tuple[float, Array]:
        """The change in cost that one run finds from ``site``, and the sites after it."""
        from nirbridge.mapping.placement import part_kernels as kernels

        (trees, hops), found = self._trees(site), site.copy()
        if hops <= 0.0:
            return 0.0, site
        unit = hops / len(self.board.parts.movable)
        moving = kernels.NEW_CORES if self.new_cores else kernels.SLICES
        state = np.array([np.random.default_rng([self.seed, run]).integers(1, 2**63)], np.uint64)
        heats = unit * np.geomspace(heat, COLD, CHUNKS + 1)
        for k in range(CHUNKS):
            self.runs.code(kernels.anneal)(trees, moving, state, steps // CHUNKS, heats[k], heats[k + 1], found)
            progress("move slices", (k + 1) / CHUNKS)
        return float(trees.tally[kernels.LOWEST]), found


def _as_moved(sizes: CostModel, members: Mapping[int, list[Slice]], cores: tuple[CoreId, ...]) -> Moved:
    """Blocks in the order of the first slice of each, their slices by population.

    Those of one population stay in the order that they had: lists that run on from one into the next still do.
    """
    order = {name: k for k, name in enumerate(sizes.shapes)}
    blocks = (tuple(sorted(own, key=lambda s: order[s.population])) for own in members.values())
    return Moved(tuple(blocks), tuple(cores[own] for own in members))


# -- slice cuts ----------------------------------------------------------------------------------------------------
# Slices cut in parts before they move: a core full of one slice can exchange nothing, and of two only all of either.
#
# The largest slices are cut in two, and their halves again, until there are as many as the search moves well. Neurons
# of one channel have the more sources and targets in common the nearer they are, so slices are cut across the longest
# side that adds few words, and across channels only where there is no other.

PARTS_OF_BLOCK = 6
"""Parts for each block on average, up to which slices are cut: hops are least at 5 to 8, and 8 take twice the time."""
FULL = 0.95
"""Only slices alone on their core are cut where cores use more of their words: parts find no room (decision 0037)."""
WORDS_MORE = 1.1
"""A slice is not cut where its halves take more than this many times its words; nor is a half of it."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceTree:
    """A slice of a block, whole or cut in two ``halves``."""

    whole: Slice
    halves: tuple[SliceTree, ...] = ()

    def leaves(self) -> Iterator[Slice]:
        """The parts that are not cut, in order."""
        if not self.halves:
            yield self.whole
        for half in self.halves:
            yield from half.leaves()

    def on_cores(self, sites: Iterator[int]) -> Iterator[tuple[int, Slice]]:
        """Slices with their sites, given those of the leaves; halves that stayed together are one slice again."""
        if not self.halves:
            yield next(sites), self.whole
            return
        found = [own for half in self.halves for own in half.on_cores(sites)]
        is_together = len(found) == len(self.halves) and len({site for site, _ in found}) == 1  # both halves are whole
        yield from [(found[0][0], self.whole)] if is_together else found


@dataclass(frozen=True, slots=True, eq=False)
class CutSlices:
    """The ``trees`` of all blocks; ``slices``: their parts in order, ``block``: those of the parts."""

    trees: list[SliceTree]
    slices: list[Slice]
    block: list[int]

    def on_cores(self, site: Array) -> dict[int, list[Slice]]:
        """The slices of each site, in their order here; those cut in parts that stayed together are whole again."""
        found, sites = dict[int, list[Slice]](), iter(site.tolist())
        for tree in self.trees:
            for own, part in tree.on_cores(sites):
                found.setdefault(own, []).append(part)
        return found


def cut_slices(sizes: CostModel, blocks: Blocks, fixed: Collection[int], most: int) -> CutSlices:
    """The slices of all blocks; those that are alone on a core, and the largest, cut, but for ``fixed`` blocks.

    Slices that share their core are cut while there are fewer than ``most`` parts.
    """
    wholes = [(number, own) for number, block in enumerate(blocks) for own in block]
    found, of_block = [own for _, own in wholes], [number for number, _ in wholes]
    words = [_words(sizes, block) for block in blocks]
    limit = limits(sizes.chip)["synapse_words"]
    halves: dict[int, tuple[int, int]] = {}
    parts = _most_parts(words, limit, most) - len(wholes)
    # those alone first, then the largest; equal ones in their order
    queue = [(len(blocks[b]) > 1, -box_size(own.box), k) for k, (b, own) in enumerate(wholes) if b not in fixed]
    heapq.heapify(queue)
    while queue and (parts > 0 or not queue[0][0]):
        *_, k = heapq.heappop(queue)
        own, least = words[of_block[k]], _words(sizes, (found[k],))
        cut = _halves(sizes, found[k], least, None if limit is None else limit - own + least)
        if len(cut) < 2:
            continue
        words[of_block[k]] += _words(sizes, cut) - least
        halves[k] = (len(found), len(found) + 1)
        for half in cut:
            heapq.heappush(queue, (True, -box_size(half.box), len(found)))
            found.append(half)
            of_block.append(of_block[k])
        parts -= 1

    def tree(k: int) -> SliceTree:
        return SliceTree(found[k], tuple(tree(half) for half in halves.get(k, ())))

    trees = [tree(k) for k in range(len(wholes))]
    leaves = [list(own.leaves()) for own in trees]
    block = [number for (number, _), own in zip(wholes, leaves, strict=True) for _ in own]
    return CutSlices(trees, [part for own in leaves for part in own], block)


def _most_parts(words: list[int], limit: int | None, most: int) -> int:
    """Parts up to which slices that share their core are cut, given the words of each block and the most of a core."""
    is_full = limit is not None and sum(words) > FULL * limit * len(words)
    return 0 if is_full else min(PARTS_OF_BLOCK * len(words), most)


def _words(sizes: CostModel, slices: Iterable[Slice]) -> int:
    """Words of slices, each stored by itself."""
    return sum(sizes.cost(s.population, s.box).synapse_words for s in slices)


def _halves(sizes: CostModel, whole: Slice, least: int, room: int | None) -> tuple[Slice, ...]:
    """Two halves across the longest side but the channels, or the slice where no two take about its ``least`` words.

    Two that take fewer are no good either: halves that meet again have to fit. ``room``: the most words that they may
    take, so that their core is not too full for any exchange; None: words are not limited.
    """
    cuts = [cut for axis in range(len(whole.box)) if len(cut := _cut(whole, axis)) > 1]
    if room is not None:
        cuts = [cut for cut in cuts if least <= _words(sizes, cut) <= min(room, int(WORDS_MORE * least))]
    return min(cuts, key=lambda cut: _nearness(whole, cut), default=(whole,))


def _nearness(whole: Slice, cut: tuple[Slice, ...]) -> int:
    """Less for a cut across a longer side; a cut of channels comes last."""
    axis = next(k for k, (own, half) in enumerate(zip(whole.box, cut[0].box, strict=True)) if own != half)
    low, high = whole.box[axis]
    return low - high if axis > 0 or len(whole.box) == 1 else 0


def _cut(whole: Slice, axis: int) -> tuple[Slice, ...]:
    """The halves along an axis; the slice where it is one wide."""
    low, high = whole.box[axis]
    before, after = whole.box[:axis], whole.box[axis + 1 :]
    if high - low < 2:
        return (whole,)
    ranges = ((low, (low + high) // 2), ((low + high) // 2, high))
    return tuple(Slice(whole.population, (*before, own, *after)) for own in ranges)
