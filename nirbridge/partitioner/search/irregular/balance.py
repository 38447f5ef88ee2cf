"""Repair of overfull cores: chains of moves between neighbouring cores, then moves to any core."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import compiled, loop, uncounted
from nirbridge.partitioner.search.irregular.moves import (
    AXONS,
    OUT,
    SIZE,
    WORDS,
    Nets,
    _near,
    gains_to,
    move,
    neighbours,
)

BATCHES = 8
"""Shares that a core gives its neighbour one after the other; before each, the neurons that lose least are found."""
TRIES = 8
"""Cores that are tried for a neuron: whether it fits is known where it has been moved."""


def even_out(x: Nets, room: Array) -> None:
    """Move neurons from cores with too many along the shortest chains of neighbouring cores to those with room.

    ``room``: neurons that each core has room for; negative: has too many. Each core of a chain gives the next one as
    many neurons as it takes, those that lose least.
    """
    joint = np.zeros((x.use.shape[1],) * 2, np.int64)
    compiled(neighbours)(x, joint)
    joint += joint.T
    room = room.copy()
    flow = _flows(joint, -room)
    left = {pair: n for pair, n in flow.items() if n > 0}
    while left:
        # a core gives only what it has to: those with most room first
        for own, to in sorted(left, key=lambda pair: (-int(room[pair[1]]), pair)):
            many = min(left[own, to], int(room[to]), int(x.use[SIZE, own]))
            if many <= 0:
                continue
            many = min(many, -(-flow[own, to] // BATCHES))
            members = np.flatnonzero(x.part == own)
            gains = compiled(gains_to)(x, members, own, to)
            for v in members[np.argsort(-gains, kind="stable")[:many]].tolist():
                compiled(move)(x, v, to)
            room[own] += many
            room[to] -= many
            left[own, to] -= many
            if not left[own, to]:
                del left[own, to]
            break
        else:
            return


def room_of(x: Nets, cap: Array) -> Array:
    """Neurons that each core has room for, by the scarcest limit and a mean neuron; negative: has too many."""
    per_neuron = np.maximum(x.use.sum(axis=1) / len(x.part), 1e-9)
    left = (cap - x.use.T) / per_neuron
    return np.floor(np.minimum(left.min(axis=1), len(x.part))).astype(np.int64)


def _flows(joint: Array, over: Array) -> dict[tuple[int, int], int]:
    """How many neurons each core passes on to each neighbour, so that none has too many."""
    flow: dict[tuple[int, int], int] = {}
    over = over.copy()
    order = np.argsort(-joint, axis=1, kind="stable")
    near = [[int(b) for b in order[a] if joint[a, b]] for a in range(len(joint))]
    while (over > 0).any():
        path = _path(near, over)
        if path is None:
            break
        many = int(min(over[path[0]], -over[path[-1]]))
        for pair in pairwise(path):
            flow[pair] = flow.get(pair, 0) + many
        over[path[0]] -= many
        over[path[-1]] += many
    return {(a, b): n - flow.get((b, a), 0) for (a, b), n in flow.items()}


def _path(near: list[list[int]], over: Array) -> list[int] | None:
    """The shortest way from a core with too many neurons to one with room."""
    before = {int(a): -1 for a in np.flatnonzero(over > 0)}
    queue = deque(before)
    while queue:
        a = queue.popleft()
        if over[a] < 0:
            path = [a]
            while before[path[-1]] >= 0:
                path.append(before[path[-1]])
            return path[::-1]
        for b in near[a]:
            if b not in before:
                before[b] = a
                queue.append(b)
    return None


@loop
def shed(x, core, order) -> bool:
    """Move neurons out of a core that is over a limit, those that lose least first; True: it is no longer."""
    cores = x.use.shape[1]
    sums, seen = np.zeros(-(-cores // 64) * 64, np.int32), np.empty(cores, np.int64)
    for eighths in (0, 1, 2, 4, 8):  # destination cores that a move may add, as a share of the neuron's nets
        for v in order:
            if x.part[v] == core:
                if is_within(x, core):
                    return True
                _move_out(x, v, eighths, sums, seen, True)
    return is_within(x, core)


@loop
def empty(x, core, order) -> bool:
    """Move all neurons of a core to others that are in use; False: some found no room, and all are back."""
    cores = x.use.shape[1]
    sums, seen = np.zeros(-(-cores // 64) * 64, np.int32), np.empty(cores, np.int64)
    gone = np.empty(x.use[SIZE, core], np.int64)
    many = 0
    for v in order:
        if x.part[v] == core:
            if not _move_out(x, v, 8, sums, seen, False):
                for k in range(many):
                    move(x, gone[k], core)
                return False
            gone[many] = v
            many += 1
    return True


@uncounted
def _move_out(x, v, eighths, sums, seen, new):
    """Move a neuron to the core with room of most of its nets, if so few eighths of them get one more core.

    ``new``: empty cores count, too. False: it stays.
    """
    own, nets = x.part[v], x.start[v + 1] - x.start[v]
    _near(x, v, sums, seen)
    least = sums[own] - (eighths * nets) // 8
    fits = False
    for _ in range(TRIES):
        best = _roomiest(x, v, nets, least, sums, new)
        if best < 0:
            break
        fits = move(x, v, best)
        if fits:
            break
        move(x, v, own)
        sums[best] = -1
    sums[:] = 0
    return fits


@uncounted
def _roomiest(x, v, nets, least, sums, new):
    """The core of most nets of v, at least ``least``, that has room; -1: none."""
    best, most = -1, max(least, 0) - 1
    for to in range(x.use.shape[1]):
        if to == x.part[v] or sums[to] <= most or (x.use[SIZE, to] == 0 and not new):
            continue
        room = x.use[SIZE, to] < x.cap[SIZE] and x.use[AXONS, to] + nets - sums[to] <= x.cap[AXONS]
        room = room and x.use[WORDS, to] + nets - sums[to] <= x.cap[WORDS]  # a word for each new net, at least
        if room and x.use[OUT, to] + x.slots[v] <= x.cap[OUT]:
            best, most = to, sums[to]
    return best


@uncounted
def is_within(x, core) -> bool:
    """True if a core is within every limit."""
    within = True
    for row in range(4):
        within = within and x.use[row, core] <= x.cap[row]
    return within
