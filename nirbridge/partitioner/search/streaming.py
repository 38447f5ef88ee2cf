"""Streaming next-fit: neurons in a fixed order, each core filled to the last neuron that fits by its exact use.

A stretch of a population in the order of numbering (row, column, channel), or in another order of its axes, is at most
five boxes: an end of a pixel, an end of a row, whole rows, and the same at the other end. Cores filled this way waste
nothing where neurons bind, which boxes of one kind cannot reach on deep networks. Populations whose neurons take many
words and those whose neurons take few are filled together from both ends of their order by words per neuron.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.axons import Blocks, block_sources, block_words, count_sources
from nirbridge.partitioner.cost.resources import profile_counts
from nirbridge.partitioner.cost.sizing import CostModel, box_size, numbering_axes
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.clusters import Work
from nirbridge.partitioner.search.slicing import UNLIMITED, Queue, in_core_order

WORD_SYNAPSES = 4
"""About the synapses of a word."""
ROUNDS = 5
"""Rounds in which the output axons of one filling are charged to the neurons of the next one."""


def streamed(sizes: CostModel, cap: Array, groups: Mapping[str, int], enough: int, work: int) -> Blocks | None:
    """The better of two fillings; stops at ``enough`` cores. None: none is legal.

    Both take neurons from the last population to the first, so that the output axons of a source are known when its
    core is filled; the second one those of most and of fewest words per neuron in turn, so that both limits are met.
    ``work``: synapses that are listed for exact words; afterwards a core is full where the sums of its slices are.
    """
    best: Blocks | None = None
    left = Work(work)
    for both_ends in (False, True):
        found = _fill_legally(sizes, cap, groups, left, both_ends=both_ends)
        if found is not None and (best is None or len(found) < len(best)):
            best = found
        if best is not None and len(best) <= enough:
            break
    return best


@dataclass(slots=True, eq=False)
class _Filling:
    """A filling in progress. ``slots``: output axons of each neuron, by population, to the cores that are filled.

    ``charged`` is what a core pays for its neurons: ``slots`` themselves while they grow, or those of a filling before.
    """

    sizes: CostModel
    cap: Array
    work: Work
    queues: list[Queue]
    slots: dict[str, Array]
    charged: dict[str, Array]
    cores: list[tuple[Slice, ...]] = field(default_factory=list)


def _fill_legally(
    sizes: CostModel, cap: Array, groups: Mapping[str, int], work: Work, *, both_ends: bool
) -> Blocks | None:
    """Fill; where output axons are over the limit, fill again with those of the filling before, some rounds."""
    charged: dict[str, Array] | None = None
    for _ in range(ROUNDS):
        slots = {name: np.zeros(shape, np.int64) for name, shape in sizes.shapes.items()}
        filling = _Filling(sizes, cap, work, _queues(sizes, groups, both_ends=both_ends), slots, charged or slots)
        if not _fill(filling):
            return None
        if cap[5] >= UNLIMITED or max(_charge(slots, core) for core in filling.cores) <= int(cap[5]):
            return tuple(filling.cores)
        # never less than before, so that the rounds settle
        charged = slots if charged is None else {name: np.maximum(charged[name], n) for name, n in slots.items()}
    return None


def _queues(sizes: CostModel, groups: Mapping[str, int], *, both_ends: bool) -> list[Queue]:
    """The populations in the order in which they are filled."""
    queues = []
    for name, shape in sizes.shapes.items():
        axes = numbering_axes(shape)
        lengths = tuple(shape[a] for a in axes)
        words = _words_per_neuron(sizes, name) if both_ends else 0.0
        queues.append(Queue(name, axes, lengths, groups.get(name, 0), words, math.prod(shape)))
    queues.reverse()
    return sorted(queues, key=lambda q: (q.group, -q.words))


def _words_per_neuron(sizes: CostModel, population: str) -> float:
    """About what a neuron takes: the words of a middle row (or of all of a flat population), per neuron."""
    shape = sizes.shapes[population]
    box = tuple((0, n) for n in shape)
    if len(shape) > 1:
        box = (box[0], (shape[1] // 2, shape[1] // 2 + 1), *box[2:])
    cost = sizes.cost(population, box)
    return cost.synapse_words / cost.neurons


def _fill(filling: _Filling) -> bool:
    """Fill cores until nothing is left; False: a neuron fits no core."""
    queues = filling.queues
    while queues:
        group, content = queues[0].group, ()
        mixed = _share_of_heavy(filling)
        if mixed:
            content = _take(filling, queues[0], mixed, content)
            content = _take_all(filling, -1, group, content)
        content = _take_all(filling, 0, group, content)
        if not content:
            return False
        names = tuple(filling.sizes.shapes)
        filling.cores.append(in_core_order(list(content), names))
        if filling.cap[5] < UNLIMITED:
            for name, index in block_sources(filling.sizes, filling.cores[-1]).items():
                if name in filling.slots:
                    filling.slots[name].reshape(-1)[index] += 1
    return True


def _share_of_heavy(filling: _Filling) -> int:
    """How many neurons of the first queue meet both limits together with neurons of the last one; 0: none."""
    first, last = filling.queues[0], filling.queues[-1]
    neurons, words = int(filling.cap[0]), int(filling.cap[2])
    if first.group != last.group or not first.words * neurons > words > last.words * neurons:
        return 0
    return max(int((words - last.words * neurons) / (first.words - last.words)), 1)


def _take_all(filling: _Filling, at: int, group: int, content: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """The content with all that fits from the queues at one end; queues that are used up leave the filling."""
    queues = filling.queues
    while queues and queues[at].group == group:
        content = _take(filling, queues[at], UNLIMITED, content)
        if queues[at].stop:
            break
        queues.pop(at)
    return content


def _take(filling: _Filling, queue: Queue, most: int, content: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """The content with as many of the next neurons of a queue as fit, up to ``most``."""
    room = min(most, int(filling.cap[0]) - sum(box_size(s.box) for s in content))

    def misfits(count: int, *, exact: bool = False) -> bool:
        return not _fits(filling, (*content, *queue.slices(count)), exact=exact)

    most = min(room, queue.stop)
    counts = range(1, most + 1)
    fitting = most if most and not misfits(most) else bisect_left(counts[:-1], True, key=misfits)
    fitting = _exactly(most, fitting, lambda count: misfits(count, exact=True))
    content = (*content, *queue.slices(fitting))
    queue.stop -= fitting
    return content


def _exactly(most: int, fitting: int, misfits: Callable[[int], bool]) -> int:
    """How many of ``most`` fit by the exact words: a few more than ``fitting``, which fit by sums."""
    step = 1
    while fitting < most and not misfits(min(fitting + step, most)):
        fitting, step = min(fitting + step, most), 2 * step
    return bisect_left(range(fitting + 1, min(fitting + step, most) + 1), True, key=misfits) + fitting


def _fits(filling: _Filling, content: tuple[Slice, ...], *, exact: bool) -> bool:
    """True if a core can hold the slices: sums first, and what they share only where the sums are over.

    Lists of several slices are short where these lie side by side, but to count them takes long: ``exact`` asks it.
    """
    sizes, cap = filling.sizes, filling.cap
    slices = in_core_order(list(content), tuple(sizes.shapes))
    cost = np.sum([sizes.cost(s.population, s.box) for s in slices], axis=0)
    if cost[0] > cap[0]:
        return False
    if np.any(cost[3:] > cap[3:5]):
        profiles = profile_counts(sizes.populations, ((s.population, s.box) for s in slices))
        if np.any(np.array(profiles) > cap[3:5]):
            return False
    if cap[5] < UNLIMITED:
        out = _charge(filling.charged, slices)
        if out > cap[5] or (out + cost[0] > cap[5] and out + _own_axons(filling, slices) > cap[5]):
            return False
    if cost[1] > cap[1] and count_sources(sizes, slices) > cap[1]:
        return False
    if cost[2] <= cap[2]:
        return True
    if not exact or filling.work.left <= 0:
        return False
    filling.work.left -= int(cost[2]) * WORD_SYNAPSES
    return block_words(sizes, slices) <= int(cap[2])


def _charge(slots: Mapping[str, Array], slices: Sequence[Slice]) -> int:
    return sum(int(slots[s.population][tuple(slice(a, b) for a, b in s.box)].sum()) for s in slices)


def _own_axons(filling: _Filling, slices: Sequence[Slice]) -> int:
    """Output axons of the slices to their own core; 0 where what is charged has them already."""
    if filling.charged is not filling.slots:
        return 0
    total = 0
    for name, index in block_sources(filling.sizes, slices).items():
        if name in filling.sizes.shapes:
            held = np.zeros(filling.sizes.shapes[name], bool)
            for s in slices:
                if s.population == name:
                    held[tuple(slice(a, b) for a, b in s.box)] = True
            total += int(held.reshape(-1)[index].sum())
    return total
