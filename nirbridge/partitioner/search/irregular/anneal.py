"""Annealing of neurons between cores: moves that cost destination cores are made too, ever more rarely.

A sweep takes the neurons one by one. Each chooses among its own core and those of its nets that have room, with
probability ~ exp(nets there / temperature) (a heat bath, by Gumbel noise). Cores may be over their limits for a while:
what is over costs, ever more from sweep to sweep.
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.search.irregular.jit import compiled, inlined, loop, uncounted
from nirbridge.partitioner.search.irregular.moves import AXONS, OUT, SIZE, WORDS, Nets, _near, move, words_fit

HOT, WARM, COLD = 1.0, 0.6, 0.2
"""Temperatures of the first sweep, of the first of later ones and of the last sweep, in destination cores."""
LIGHT, HEAVY = 0.02, 0.4
"""Destination cores that a neuron over the limit counts as, in the first and the last sweep."""
NOISE = 1 << 17
"""Random numbers of a sweep; neurons take them in turn."""


def cooled(first: float, last: float, share: float) -> float:
    """The value at a share of the way from the first to the last, by equal factors."""
    return float(first * (last / first) ** share)


def sweep(x: Nets, limit: Array, heat: float, weight: float, rng: np.random.Generator) -> None:
    """Every neuron chooses its core once, in a random order; ``weight``: of a neuron over ``limit``."""
    noise = rng.gumbel(size=NOISE) * heat
    per_neuron = np.maximum(x.use.sum(axis=1) / len(x.part), 1e-9)
    compiled(_sweep)(x, rng.permutation(len(x.part)), noise, limit.astype(np.float64), per_neuron, weight)


@loop
def _sweep(x, order, noise, limit, per_neuron, weight):
    cores = x.use.shape[1]
    sums, seen = np.zeros(-(-cores // 64) * 64, np.int32), np.empty(cores, np.int64)
    excess = np.empty(cores)
    for core in range(cores):
        excess[core] = _excess(x, core, limit, per_neuron)
    part, at = x.part, 0
    for v in order:
        if _is_inner(x, v):
            continue
        found = _near(x, v, sums, seen)
        if at + found >= len(noise):
            at = 0
        best = _drawn(x, v, sums, seen, found, noise[at:], excess, weight)
        at += found + 1
        for k in range(found):
            sums[seen[k]] = 0
        own = part[v]
        if best != own and words_fit(x, v, best):
            if not move(x, v, best):
                move(x, v, own)
                continue
            excess[own] = _excess(x, own, limit, per_neuron)
            excess[best] = _excess(x, best, limit, per_neuron)


@inlined
def _is_inner(x, v):
    """True where all nets of a neuron have their targets in one core."""
    nets, length = x.nets, x.length
    inner = True
    for k in range(x.start[v], x.start[v + 1]):
        inner = inner and length[nets[k]] <= 1
    return inner


@inlined
def _drawn(x, v, sums, seen, found, noise, excess, weight):
    """The core that a neuron draws; its own one where no other has room."""
    own, nets, use, cap, out = x.part[v], x.start[v + 1] - x.start[v], x.use, x.cap, x.slots[v]
    best, top = own, sums[own] - weight * max(excess[own], 0.0) + noise[found]
    for k in range(found):
        core = seen[k]
        value = sums[core] - weight * max(excess[core] + 1.0, 0.0) + noise[k]
        if core != own and value > top and use[SIZE, core] < cap[SIZE]:
            new = nets - sums[core]  # nets that come: an axon each, and a word at least
            room = use[AXONS, core] + new <= cap[AXONS] and use[WORDS, core] + new <= cap[WORDS]
            if room and use[OUT, core] + out <= cap[OUT]:
                best, top = core, value
    return best


@uncounted
def _excess(x, core, limit, per_neuron):
    """By how many neurons a core is over its limits; negative: how many it has room for."""
    most = -1e18
    for row in range(4):
        most = max(most, (x.use[row, core] - limit[row]) / per_neuron[row])
    return most
