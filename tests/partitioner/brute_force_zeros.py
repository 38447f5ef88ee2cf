"""The fewest cores of a tiny network with zeros: all groupings, orders and encodings; no code of the search.

A source needs an axon in a core with a weight other than 0 from it, and a list there: stretches of such targets cut
into runs, a sparse run, or a run over everything from the first to the last.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Dense, Operator, Sparse
from tests.mapping.hand_made import network_of
from tests.partitioner.brute_force import Neuron, groupings, kinds, synapses
from tests.partitioner.cases import chip, neuron

RUNS: dict[str, Any] = {"run_free": True, "shared_kernels": False}


def random_case(seed: int) -> tuple[Network, Chip]:
    """3 to 7 neurons in one to three populations, weights 0 or far from it; a chip with tight limits."""
    rng = np.random.default_rng(seed)
    total, many = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    cuts = sorted(rng.choice(np.arange(1, total), size=min(many, total) - 1, replace=False).tolist())
    sizes = np.diff([0, *cuts, total]).tolist()
    names = [f"p{i}" for i in range(len(sizes))]
    shapes = dict(zip(names, sizes, strict=True)) | {"in": int(rng.integers(1, 7))}
    density = float(rng.choice([0.3, 0.5, 0.7, 0.9]))
    kinds_of = rng.choice([0.5, 0.75, 0.9], size=total), rng.choice([1.0, 2.0], size=total)
    first = np.cumsum([0, *sizes])
    populations = [
        Population(n, (m,), neuron("LIF", a_mem=kinds_of[0][a : a + m], theta=kinds_of[1][a : a + m]))
        for n, m, a in zip(names, sizes, first, strict=False)
    ]
    ways = [("in", names[0]), *((a, b) for a in ("in", *names) for b in names if rng.random() < 0.4)]
    projections = []
    for a, b in dict.fromkeys(ways):
        weight = rng.choice([-1.0, -0.5, 0.5, 1.0], size=(shapes[b], shapes[a]))
        weight[rng.random(weight.shape) >= density] = 0.0
        is_back = a in names and names.index(a) >= names.index(b)
        delay = np.array(1 + int(rng.random() < 0.3)) if is_back else np.array(0)
        projections.append(Projection(a, b, _either(rng, weight), delay_steps=delay, is_back=is_back))
    network = network_of(populations, projections, [Port("in", (shapes["in"],))])
    return network, _tight(rng, network)


def _either(rng: np.random.Generator, weight: np.ndarray) -> Operator:
    """A matrix, or lists that name some zeros."""
    if rng.random() < 0.7:
        return Dense(weight)
    listed = (weight != 0) | (rng.random(weight.shape) < 0.3)
    indptr = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    row, column = np.nonzero(listed)
    return Sparse(indptr, column, weight[row, column], weight.shape[1:], weight.shape[:1])


def _tight(rng: np.random.Generator, network: Network) -> Chip:
    widest = max(len(s) for s in synapses(network).values())
    core = {
        "neurons": int(rng.integers(2, 8)),
        "input_axons": int(rng.integers(max(widest, 1), 2 * widest + 3)) if rng.random() < 0.5 else 4096,
        "output_axons": int(rng.integers(2, 12)) if rng.random() < 0.4 else 4096,
        "decay_profiles": int(rng.integers(1, 4)) if rng.random() < 0.4 else 32,
        "threshold_profiles": int(rng.integers(1, 3)) if rng.random() < 0.4 else 8,
    }
    return chip(
        core=core,
        **RUNS,
        word_bits=int(rng.choice([8, 16, 24])),
        words=int(rng.integers(4, 30)),
        run_targets_max=int(rng.integers(1, 8)),
        run_header_bits=int(rng.choice([0, 4, 8, 16])),
        index_bits=None if rng.random() < 0.5 else int(rng.integers(1, 9)),
    )


class Fewest:
    """The fewest cores of one network on one chip."""

    def __init__(self, network: Network, on: Chip) -> None:
        self._network, self._chip = _without_zeros(network), on
        self._sources, self._kinds = synapses(self._network), kinds(self._network, self._chip)
        # the words of n targets in one stretch, by trying every first run
        self._stretch = lru_cache(None)(self._stretch_words)
        self._words = lru_cache(None)(self._least_words)

    def cores(self, most: int) -> int | None:
        """The fewest, up to ``most``; None: more."""
        neurons = [(p.name, i) for p in self._network.populations for i in range(p.size)]
        return min((len(g) for g in groupings(neurons, most) if self._is_legal(g)), default=None)

    def _is_legal(self, grouping: list[list[Neuron]]) -> bool:
        core = self._chip.core
        owner = {n: c for c, members in enumerate(grouping) for n in members}
        reached = [set().union(*(self._sources[n] for n in members)) for members in grouping]
        sent = [0] * len(grouping)
        for source in itertools.chain(*reached):
            if source in owner:
                sent[owner[source]] += 1
        for members, axons, out in zip(grouping, reached, sent, strict=True):
            used = (
                (len(members), core.neurons),
                (len(axons), core.input_axons),
                (out, core.output_axons),
                (len({self._kinds[n][0] for n in members}), core.decay_profiles),
                (len({self._kinds[n][1] for n in members}), core.threshold_profiles),
                (self._words(tuple(members)), self._chip.synapses.words),
            )
            if any(limit is not None and use > limit for use, limit in used):
                return False
        return True

    def _least_words(self, members: tuple[Neuron, ...]) -> int:
        """Over all orders; neurons of other populations between those of one only lengthen its lists."""
        total = 0
        for p in self._network.populations:
            own = [i for name, i in members if name == p.name]
            into = [q for q in self._network.projections if q.target == p.name]
            if own and into:
                total += min(
                    sum(self._listed(q, order) for q in into)
                    for order in itertools.permutations(own)
                    if order[0] <= order[-1]  # a list read backwards takes the same words
                )
        return total

    def _listed(self, projection: Projection, order: tuple[int, ...]) -> int:
        delayed = projection.max_delay_steps > (1 if projection.is_back else 0)
        rows = matrix(projection.operator).toarray()[list(order)] != 0
        return sum(self._one(tuple(column.tolist()), delayed) for column in rows.T)

    def _one(self, present: tuple[bool, ...], delayed: bool) -> int:
        at = [i for i, there in enumerate(present) if there]
        if not at:
            return 0
        stretches = [len(list(same)) for there, same in itertools.groupby(present) if there]
        options = [sum(self._stretch(n, delayed) for n in stretches), self._stretch(at[-1] - at[0] + 1, delayed)]
        index = self._chip.synapses.index_bits
        if index is not None:
            options.append(self._stretch(len(at), delayed, index))
        return min(options)

    def _stretch_words(self, n: int, delayed: bool, index: int = 0) -> int:
        fmt = self._chip.synapses
        each = fmt.weight_bits_default + (fmt.delay_bits if delayed else 0) + index
        longest = fmt.run_targets_max or n
        return min(
            math.ceil((m * each + fmt.run_header_bits) / fmt.word_bits)
            + (self._stretch(n - m, delayed, index) if n > m else 0)
            for m in range(1, min(n, longest) + 1)
        )


def _without_zeros(network: Network) -> Network:
    """Lists of the weights other than 0."""
    projections = []
    for p in network.projections:
        rows = matrix(p.operator).tocsr()
        rows.eliminate_zeros()
        lists = Sparse(rows.indptr, rows.indices, rows.data, p.operator.input_shape, p.operator.output_shape)
        projections.append(Projection(p.source, p.target, lists, delay_steps=p.delay_steps, is_back=p.is_back))
    return network_of(list(network.populations), projections, list(network.inputs))
