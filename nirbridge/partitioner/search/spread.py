"""Lower bounds on the spread of populations, axons and words over cores, from the least use of one core.

``held``: the most neurons of a population that one core can hold. A source with d targets in a population sends to at
least ``d / held`` cores; and n neurons in a core have at least A(n) sources, so a population of N neurons has at least
``N * min A(n) / n`` pairs of a source and a core. Each pair takes one input axon in that core and, if the source is a
neuron, one output axon in the core of the source. Words are added up in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeGuard

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseFormat
from nirbridge.network.operators import Chain, Conv, Sparse, SumPool
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import AllToAll, Connectivity, Explicit, Separable, out_degrees
from nirbridge.partitioner.cost.resources import least_list_words, synapse_bits
from nirbridge.partitioner.cost.sizing import CostModel, IncomingProjection
from nirbridge.partitioner.search.windows import axis_sizes, least_listed, least_sources, least_weights

ROUNDS_MAX = 8
"""Rounds in which output axons shrink what a core holds, and that adds output axons; each is a proof by itself."""
SOURCES_MAX = 2**21
"""Larger sources are not looked at one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Lower bounds for any map.

    Per population: the most neurons ``held`` by one core, and the fewest ``cores``. Per source: the fewest ``pairs`` of
    one of its neurons and a core with targets of it. The fewest ``words`` of all cores together.
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


# -- curves --------------------------------------------------------------------------------------------------------
# The least use of one core by any n neurons of a population: input axons and words, wherever the neurons lie.
#
# A curve is taken over a part of the population (``Support``): all neurons, or only those whose windows are whole,
# since a few neurons at a padded border need fewer sources and would set the least use of all. Neurons outside the part
# count nothing, which can only lower a bound.

LENGTH_MAX = 8_192
"""Neurons of one core up to which curves are drawn: no chip described so far holds more of a population with axons."""
RATIO_MAX = 4_096
"""List lengths that are tried for the least words per target, where runs have no longest length."""

Support = tuple[Array, ...]
"""Outputs along each axis whose product is the part of a population that a curve is about."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The least ``axons``, by source, and ``words`` of a core with n neurons, n from 0, of ``total`` in a part."""

    total: int
    axons: dict[str, Array]
    words: Array

    @property
    def all_axons(self) -> Array:
        """Input axons from all sources."""
        return sum(self.axons.values(), np.zeros(len(self.words), np.int64))


@dataclass(frozen=True, slots=True)
class ListRates:
    """Words of a list of d targets: at least ``per_target * d``, and at least ``fixed + each * d``."""

    per_target: Fraction
    fixed: Fraction
    each: Fraction


def list_rates(fmt: SynapseFormat, bits: int, longest_list: int, *, delayed: bool) -> ListRates:
    """The two lower lines of the words of lists of 1 to ``longest_list`` targets, in however many runs."""
    each = Fraction(synapse_bits(fmt, bits, delayed=delayed), fmt.word_bits)
    longest = min(longest_list, fmt.run_targets_max or longest_list)
    if longest > RATIO_MAX:
        return ListRates(each, Fraction(fmt.run_header_bits, fmt.word_bits), each)
    # one run of each length; lists of more runs lie above the same lines, since each of their runs does
    words = [math.ceil(each * m + Fraction(fmt.run_header_bits, fmt.word_bits)) for m in range(1, longest + 1)]
    pairs = list(enumerate(words, start=1))
    least = min((Fraction(w, m) for m, w in pairs), default=each)
    return ListRates(least, min((w - each * m for m, w in pairs), default=Fraction(0)), each)


def supports(sizes: CostModel, name: str) -> list[Support]:
    """All neurons; and along each spatial axis, those whose windows are whole, where some are not."""
    shape = sizes.shapes[name]
    everything = tuple(np.arange(n) for n in shape)
    forms = [e.form for e in sizes.incoming[name]]
    windows = [f for f in forms if isinstance(f, Separable) and len(f.axes) == len(shape)]
    if len(shape) < 2 or not windows:
        return [everything]
    whole = [everything[0]]
    for place in range(1, len(shape)):
        inside = np.ones(shape[place], bool)
        for form in windows:
            reach = axis_sizes(form.axes[place])
            inside &= reach == reach.max()
        whole.append(np.flatnonzero(inside))
    choices = [(a,) if len(w) in (0, len(a)) else (a, w) for a, w in zip(everything, whole, strict=True)]
    return [tuple(c) for c in product(*choices)]


def curve(sizes: CostModel, name: str, support: Support, longest: int) -> Curve:
    """The curve of one population over a support, for at most ``longest`` neurons in a core."""
    total = math.prod(len(s) for s in support)
    most = min(total, longest)
    axons: dict[str, Array] = {}
    words = np.zeros(most + 1, np.int64)
    for edge in sizes.incoming[name]:
        own = _axons(sizes, name, edge, support, most)
        # distinct sources of two projections from one population are no fewer than those of one of them
        axons[edge.source] = np.maximum(axons[edge.source], own) if edge.source in axons else own
        if sizes.chip.synapses.words is not None:
            words = words + _words_of(sizes, name, edge, support, own)
    return Curve(total, axons, words)


def _flat(sizes: CostModel, name: str, support: Support) -> Array:
    return np.ravel_multi_index(np.ix_(*support), sizes.shapes[name]).ravel()


def _axons(sizes: CostModel, name: str, edge: IncomingProjection, support: Support, most: int) -> Array:
    form, core = edge.form, sizes.chip.core
    if core.input_axons is None and core.output_axons is None:
        return np.zeros(most + 1, np.int64)
    if isinstance(form, AllToAll):
        return np.concatenate(([0], np.full(most, int(form.touched.sum()), np.int64)))
    if isinstance(form, Separable):
        return least_sources(form, support, most)
    return least_listed(form, _flat(sizes, name, support), most)


def _words_of(sizes: CostModel, name: str, edge: IncomingProjection, support: Support, axons: Array) -> Array:
    """Least words of n neurons from one projection."""
    form, fmt, bits, n = edge.form, sizes.chip.synapses, sizes.weight_bits, np.arange(len(axons))
    if isinstance(form, AllToAll):
        return int(form.touched.sum()) * least_list_words(n, fmt, bits, delayed=edge.delayed)
    if may_be_copies(sizes, edge):
        return _kernel_words(sizes, edge, form, support, n) if is_shared(form, edge) else np.zeros_like(axons)
    synapses = np.concatenate(([0], np.cumsum(_fan_ins(sizes, name, form, support)[: len(n) - 1])))
    rates = list_rates(fmt, bits, len(n) - 1, delayed=edge.delayed)
    return np.maximum(_times(rates.per_target, synapses), _times_two(rates.fixed, axons, rates.each, synapses))


def _times(rate: Fraction, counts: Array) -> Array:
    return -(-(counts * rate.numerator) // rate.denominator)


def _times_two(a: Fraction, x: Array, b: Fraction, y: Array) -> Array:
    common = math.lcm(a.denominator, b.denominator)
    return -(-(x * int(a * common) + y * int(b * common)) // common)


def _fan_ins(sizes: CostModel, name: str, form: Separable | Explicit, support: Support) -> Array:
    """Fan-ins of the neurons of a support, ascending."""
    if isinstance(form, Explicit):
        return np.sort(np.diff(form.indptr)[_flat(sizes, name, support)])
    by_axis = [axis_sizes(axis)[s] for axis, s in zip(form.axes, support, strict=True)]
    total = by_axis[0]
    for sizes_along in by_axis[1:]:
        total = np.multiply.outer(total, sizes_along).ravel()
    return np.sort(total)


def _kernel_words(sizes: CostModel, edge: IncomingProjection, form: Separable, support: Support, n: Array) -> Array:
    """Each kernel of an output channel that has a neuron in the core is stored there at least once."""
    fmt, bits = sizes.chip.synapses, sizes.weight_bits
    pixels = math.prod(len(s) for s in support[1:])
    channels = -(-n // pixels)
    by_axis = [int(distinct_taps(a)[s].min()) for a, s in zip(form.axes[1:], support[1:], strict=True)]
    taps = _kernel_taps(sizes, edge, by_axis)
    first = form.axes[0]
    if first.full:
        return int(first.touched.sum()) * least_list_words(channels * taps, fmt, bits, delayed=edge.delayed)
    kernels = np.concatenate(([0], np.cumsum(np.sort(axis_sizes(first)[support[0]]))))
    longest = int(np.diff(first.indptr).max(initial=1)) * taps
    rate = list_rates(fmt, bits, max(longest, 1), delayed=edge.delayed).per_target
    return _times(rate, taps * kernels[channels])


def distinct_taps(axis: Axis) -> Array:
    """Different weights along an axis into each output: int64 [n_out]."""
    if axis.full:
        return np.ones(axis.n_out, np.int64)
    pairs = np.unique(np.stack([axis.outs, axis.taps]), axis=1)
    return np.bincount(pairs[0], minlength=axis.n_out)


def _kernel_taps(sizes: CostModel, edge: IncomingProjection, by_axis: list[int]) -> int:
    """Different weights of a kernel, from those along each axis.

    In a chain of windows a weight is a sum over paths, and two sums that differ along both axes can be the same.
    """
    operator = sizes.network.projections[edge.index].operator
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    windows = sum(isinstance(part, Conv | SumPool) for part in parts)
    return math.prod(by_axis) if windows == 1 or 0 in by_axis else max(by_axis)


def may_be_copies(sizes: CostModel, edge: IncomingProjection) -> bool:
    """True where lists may be stored once for several sources; an entry of a sparse matrix equals only itself."""
    operator = sizes.network.projections[edge.index].operator
    return sizes.chip.synapses.shared_kernels and not isinstance(operator, Sparse)


def is_shared(form: Connectivity, edge: IncomingProjection) -> TypeGuard[Separable]:
    """True where the words of shared kernels are known.

    Of other lists (flat, scaled) any may be alike, so they bound nothing.
    """
    return edge.shares and isinstance(form, Separable) and len(form.axes) > 1


def kernel_words_once(sizes: CostModel, edge: IncomingProjection, form: Separable) -> int:
    """Words of a projection whose kernels are shared: each weight is stored at least once in some core.

    Kernels that the border of a map truncates are stored beside whole ones.
    """
    fmt, bits, first = sizes.chip.synapses, sizes.weight_bits, form.axes[0]
    taps = _kernel_taps(sizes, edge, [1 if a.full else len(np.unique(a.taps)) for a in form.axes[1:]])
    weights = max(Fraction(taps), _truncated(sizes, edge, form))
    outs = -(-first.counts(0, first.n_out) * weights.numerator // weights.denominator)
    return int(least_list_words(outs, fmt, bits, delayed=edge.delayed).sum())


def _truncated(sizes: CostModel, edge: IncomingProjection, form: Separable) -> Fraction:
    """Weights that any map stores of the kernel of two channels, with truncated copies; 0 unless it is one window."""
    operator = sizes.network.projections[edge.index].operator
    return least_weights(form.axes[1:]) if isinstance(operator, Conv) else Fraction(0)
