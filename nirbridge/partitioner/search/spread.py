"""How far populations, axons and words must spread over cores in any map, from the least use of one core.

``held``: the most neurons of a population that one core can hold. A source with d targets in a population then sends to
at least ``d / held`` cores; and n neurons in a core have at least A(n) sources, so a population of N neurons has at
least ``N * min A(n) / n`` pairs of a source and a core. Every pair takes one input axon in that core and, where the
source is a neuron, one output axon in the core of the source. Words are added up in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.partitioner.cost.connectivity import AllToAll, Connectivity, Explicit, Separable, out_degrees
from nirbridge.partitioner.cost.resources import least_list_words
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection
from nirbridge.partitioner.search.curves import (
    LENGTH_MAX,
    Curve,
    curve,
    is_shared,
    kernel_words_once,
    may_be_copies,
    supports,
)

ROUNDS_MAX = 8
"""Rounds in which output axons shrink what a core holds, and that adds output axons; each is a proof by itself."""
SOURCES_MAX = 2**21
"""Larger sources are not looked at one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What holds for any map.

    By population the most neurons ``held`` by one core, and the fewest ``cores``; by source the fewest ``pairs`` of one
    of its neurons and a core with targets of it; the fewest ``words`` of all cores.
    """

    held: dict[str, int]
    cores: dict[str, int]
    pairs: dict[str, int]
    words: int


def least_spread(sizes: CostModel, cap: Array) -> Spread:
    """The least spread of a network over cores of the limits ``cap``."""
    curves = {name: _curves(sizes, name, cap) for name in sizes.shapes}
    slots = dict.fromkeys(sizes.shapes, 0)
    fits: dict[str, list[int]] = {}
    for _ in range(ROUNDS_MAX):
        fits = {name: _fits(own, slots[name], cap) for name, own in curves.items()}
        grown = {name: max(slots[name], _slots(sizes, name, fits)) for name in slots}
        if grown == slots:
            break
        slots = grown
    held = {name: own[0] for name, own in fits.items()}
    cores = {name: max(-(-c.total // f) for c, f in zip(curves[name], own, strict=True)) for name, own in fits.items()}
    pairs: dict[str, int] = {}
    for name, own in curves.items():
        for source, count in _pairs(own, fits[name]).items():
            pairs[source] = max(pairs.get(source, 0), count)
    for source, edges in _edges_by_source(sizes).items():
        if source in pairs:
            pairs[source] = max(pairs[source], _pairs_by_degree(edges, held, int(cap[0])))
    words = sum(_words(sizes, name, own, fits[name]) for name, own in curves.items())
    return Spread(held, cores, pairs, words)


def _curves(sizes: CostModel, name: str, cap: Array) -> list[Curve]:
    longest = min(int(cap[0]), math.prod(sizes.shapes[name]))
    if longest > LENGTH_MAX:
        return [Curve(math.prod(sizes.shapes[name]), {}, np.zeros(longest + 1, np.int64))]
    return [curve(sizes, name, support, longest) for support in supports(sizes, name)]


def _fits(curves: list[Curve], slots: int, cap: Array) -> list[int]:
    """The most neurons of each curve's part that fit one core (at least 1); the first is of the whole population."""
    fits: list[int] = []
    for own in curves:
        most = len(own.words) - 1
        for table, limit in ((own.all_axons, cap[1]), (own.words, cap[2])):
            most = min(most, int(np.searchsorted(table, limit, side="right")) - 1)
        if slots:
            most = min(most, int(cap[5]) // slots)
        fits.append(max(1, min([most, *fits[:1]])))
    return fits


def _slots(sizes: CostModel, name: str, fits: dict[str, list[int]]) -> int:
    """Output axons of every neuron of a population, at least: the cores of the targets in one population."""
    return max((-(-_least_degree(e.form) // fits[t][0]) for t, e in sizes.outgoing[name]), default=0)


def _least_degree(form: Connectivity) -> int:
    if isinstance(form, AllToAll):
        return math.prod(form.target_shape) if form.touched.all() else 0
    if isinstance(form, Explicit):
        return int(out_degrees(form).min(initial=0))
    return math.prod(int(a.counts(0, a.n_out).min(initial=0)) for a in form.axes)


def _pairs(curves: list[Curve], fits: list[int]) -> dict[str, int]:
    """Pairs of a source and a core of this population, by source."""
    found: dict[str, int] = {}
    for own, most in zip(curves, fits, strict=True):
        for source, table in own.axons.items():
            found[source] = max(found.get(source, 0), _least_total(own.total, table, most))
    return found


def _least_total(total: int, table: Array, most: int) -> int:
    """``total`` neurons in portions of 1 to ``most``, of which n take ``table[n]``: the least that all take."""
    n = np.arange(1, most + 1)
    return int((-(-(total * table[1 : most + 1]) // n)).min())


def _edges_by_source(sizes: CostModel) -> dict[str, list[tuple[str, IncomingProjection]]]:
    """The targets and projections of each population or port."""
    found: dict[str, list[tuple[str, IncomingProjection]]] = {}
    for name, edges in sizes.incoming.items():
        for edge in edges:
            found.setdefault(edge.source, []).append((name, edge))
    return found


def _pairs_by_degree(edges: list[tuple[str, IncomingProjection]], held: dict[str, int], neurons: int) -> int:
    """Pairs of the neurons of the source of ``edges`` with cores, from the number of targets of each."""
    by_target: dict[str, Array] = {}
    for name, edge in edges:
        degrees = _degrees(edge)
        by_target[name] = np.maximum(by_target[name], degrees) if name in by_target else degrees
    every = sum(by_target.values(), np.zeros(1, np.int64))
    cores = -(-every // neurons)
    for name, degrees in by_target.items():
        cores = np.maximum(cores, -(-degrees // held[name]))
    return int(cores.sum())


def _degrees(edge: IncomingProjection) -> Array:
    form = edge.form
    if isinstance(form, Separable) and math.prod(form.source_shape) > SOURCES_MAX:
        return np.zeros(1, np.int64)
    return out_degrees(form)


def _words(sizes: CostModel, name: str, curves: list[Curve], fits: list[int]) -> int:
    """Words of all projections into a population."""
    portions = max(_least_total(own.total, own.words, most) for own, most in zip(curves, fits, strict=True))
    return max(portions, sum(_edge_words(sizes, edge) for edge in sizes.incoming[name]))


def _edge_words(sizes: CostModel, edge: IncomingProjection) -> int:
    """Words of a projection if every source had one list: splitting it over cores is a special case of runs."""
    form = edge.form
    if may_be_copies(sizes, edge) and not isinstance(form, AllToAll):
        return kernel_words_once(sizes, edge, form) if is_shared(form, edge) else 0
    lists, counts = np.unique(out_degrees(edge.form), return_counts=True)
    return int(least_list_words(lists, sizes.chip.synapses, sizes.weight_bits, delayed=edge.delayed) @ counts)
