"""Choice of scales: integers per real unit, one scale per population, one exponent per projection.

With S the integer v per real v, a real weight becomes ``weight * S / 64`` in ``a_in``, a threshold ``theta * S``. S is

* as large as fills the grid of the projection with the smallest weights; others get exponents (powers of two);
* with several projections, the one within the octave below with which all weights together are rounded the least;
* then doubled, with all exponents, while what is lost to whole thresholds and truncated decays is more than 1/512 of
  the threshold (of the largest weight, for a readout), the limits allow it and v keeps room;
* cut to what the limits allow: threshold, bias, and the worst input for ``a_in``, ``u`` and ``v``.

Where all weights are whole multiples of one number (with few levels), S is one that makes each a whole number exactly.
S is 1 for a population that is in a chip's integers already (a network of lava-dl): it keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.chips.model import NumberFormats
from nirbridge.network.apply import apply
from nirbridge.quantization.folding import FoldedPopulation
from nirbridge.quantization.formats import DECAY_ONE, INPUT_SHIFT, bias_max, signed_max, threshold_max
from nirbridge.quantization.model import IntegerOperator
from nirbridge.quantization.operators import weights_of, with_weights
from nirbridge.quantization.overflow import OutputRange, operator_bounds
from nirbridge.quantization.weights import SINGLE, WeightRange, exponent_for, quantum, round_to_grid

LOST = 1 / 512
"""Share of a threshold that rounding may cost before a larger scale is chosen."""
TRIED = 32
"""Scales tried within an octave; below it the same integers recur with other exponents."""
SAMPLED = 1 << 16
"""Weights of a projection that are sampled for that, evenly spaced."""
ROOM = 32
"""Doubling leaves v room for this many thresholds below 0 (8 times as many largest weights of a readout)."""
_UNIT = 1 << INPUT_SHIFT


@dataclass(frozen=True, slots=True, eq=False)
class IncomingOperator:
    """A projection as one real operator with the gain of its target, and the range of its source."""

    index: int
    operator: IntegerOperator
    range: WeightRange
    sent: OutputRange


@dataclass(frozen=True, slots=True)
class InputRange:
    """Largest real input of a time step, up and down, over all neurons; ``proved``: from the weights."""

    high: float
    low: float
    proved: bool


@dataclass(frozen=True, slots=True)
class PopulationScale:
    """The scale of a population, what limits it, and whether all weights are exact."""

    value: float
    limited_by: str
    exact: bool


def input_range(incoming: Sequence[IncomingOperator], size: int) -> InputRange:
    """The worst input of a time step, from the weights."""
    high, low = np.zeros(size), np.zeros(size)
    for arriving in incoming:
        least, greatest = operator_bounds(arriving.operator, arriving.sent)
        high, low = high + greatest, low + least
    return InputRange(float(high.max(initial=0.0)), float(-low.min(initial=0.0)), True)


def scale_for(
    folded: FoldedPopulation,
    incoming: Sequence[IncomingOperator],
    reach: InputRange,
    numbers: NumberFormats,
    run_steps: int | None,
    requested: float | None = None,
) -> PopulationScale:
    """The scale of a population (see the module docstring); ``requested``: this one, or the largest legal one."""
    limit, why = min(_limits(folded, reach, numbers, run_steps), default=(math.inf, ""))
    if requested is not None:
        return (
            PopulationScale(requested, "the requested scale", False)
            if requested <= limit
            else PopulationScale(limit, why, False)
        )
    units = [arriving.range.unit for arriving in incoming if arriving.range.unit > 0]
    if not units:
        return PopulationScale(_without_weights(limit), why, True)
    if limit >= 1.0 and _is_whole(folded, incoming):
        return PopulationScale(1.0, "integers of the chip", True)
    exact = _exact(folded, incoming, limit)
    top = min(limit, _UNIT * 2.0**numbers.weight_exp_max / max(units))
    roomy = min(top, _roomy(folded, incoming, reach, signed_max(numbers.v_bits)))
    if exact is not None:
        return PopulationScale(_doubled(exact, roomy, folded, incoming), "weights on a grid", True)
    full = _UNIT / min(units)
    if full > top:
        reason = why if top == limit else "the largest exponent of weights"
        return PopulationScale(_least_rounding(top, incoming), reason, False)
    best = _least_rounding(full, incoming)
    return PopulationScale(_doubled(best, roomy, folded, incoming), "the range of the weights", False)


def exponents(scale: float, incoming: Sequence[IncomingOperator]) -> list[int]:
    """The exponent of each projection at a scale."""
    return [exponent_for(scale / _UNIT, arriving.range.unit) for arriving in incoming]


def _least_rounding(top: float, incoming: Sequence[IncomingOperator]) -> float:
    """The scale within the octave up to ``top`` that rounds weights the least; ``top`` for a single projection.

    Minimises the sum of squared errors of all synapses, as if all sources sent alike and independently; graded
    ones count with their largest value. Of equal scales the largest is taken.
    """
    samples = [_sample(arriving) for arriving in incoming if arriving.range.unit > 0]
    if len(samples) < 2:
        return top
    tried = [top * 2.0 ** (-k / TRIED) for k in range(TRIED)]
    return min(tried, key=lambda scale: (sum(s.error(scale) for s in samples), -scale))


@dataclass(frozen=True, slots=True, eq=False)
class _WeightSample:
    """Some real weights of a projection, and how much the square of an error of one of them counts."""

    weights: Array
    range: WeightRange
    count: float

    def error(self, scale: float) -> float:
        """Infinite where all weights of the projection become 0, which is refused later."""
        factor = scale / _UNIT / 2.0 ** exponent_for(scale / _UNIT, self.range.unit)
        if not np.any(round_to_grid(np.array([self.range.low, self.range.high]), factor, self.range.grid)):
            return math.inf
        lost = round_to_grid(self.weights, factor, self.range.grid) / factor - self.weights
        return self.count * float(weighted_sum(lost, lost))


def _sample(arriving: IncomingOperator) -> _WeightSample:
    weights = weights_of(arriving.operator).reshape(-1)
    some = weights[:: max(1, -(-weights.size // SAMPLED))]
    ones = with_weights(arriving.operator, np.ones(weights_of(arriving.operator).shape))
    synapses = float(apply(ones, np.ones(arriving.operator.input_shape)).sum())
    sent = float(arriving.sent.low) if arriving.sent.low < 0 else 1.0  # its square counts
    return _WeightSample(some, arriving.range, synapses / some.size * sent**2)


def _limits(
    f: FoldedPopulation, reach: InputRange, numbers: NumberFormats, run_steps: int | None
) -> list[tuple[float, str]]:
    """(largest scale, limit that it comes from) of everything that has a limit."""
    worst, v_last, u_last = max(reach.high, reach.low), signed_max(numbers.v_bits), signed_max(numbers.u_bits)
    gone = float(np.min(np.maximum(1.0 - f.a_syn, 1 / DECAY_ONE)))
    bias = float(np.max(np.abs(f.bias)))
    theta = 0.0 if f.theta is None else float(np.max(np.abs(f.theta)))
    above = theta + reach.high / gone + bias if f.neuron.reset == "subtract" and f.theta is not None else theta
    sizes = [
        (theta, threshold_max(numbers), "the widest threshold"),
        (worst, signed_max(numbers.a_in_bits) * _UNIT, "the worst input of a step (a_in)"),
        (worst / gone, u_last, "the worst input over time (u)"),
        (bias, bias_max(numbers), "the widest bias"),
        (max(above, float(np.max(np.abs(f.v_start)))), v_last, "the widest membrane (v)"),
        (float(np.max(np.abs(f.i_start))), u_last, "the widest current (u)"),
        (float(np.max(np.abs(f.amount))) if f.neuron.reset == "subtract" else 0.0, v_last, "the widest reset"),
    ]
    if run_steps is not None:
        sizes.append(
            (_depth(f, worst / gone + bias, run_steps), v_last, f"v over {run_steps} steps of the worst input")
        )
    return [(last / size, why) for size, last, why in sizes if size > 0]


def _depth(f: FoldedPopulation, drive: float, steps: int) -> float:
    """Largest distance of v from 0 within ``steps`` time steps."""
    a = float(np.max(f.a_mem))
    return drive * (steps if a == 1.0 else min(float(steps), 1.0 / (1.0 - a))) + float(np.max(np.abs(f.v_start)))


def _without_weights(limit: float) -> float:
    """Scale of a population without input: as fine as the limits allow, rounded down to a power of two."""
    return 2.0 ** math.floor(math.log2(limit)) if math.isfinite(limit) else float(_UNIT)


def _roomy(f: FoldedPopulation, incoming: Sequence[IncomingOperator], reach: InputRange, last: int) -> float:
    """The scale up to which doubling leaves v room: for the worst input, or for ``ROOM`` times its working size."""
    gone = float(np.min(np.maximum(1.0 - f.a_syn, 1 / DECAY_ONE)))
    leak = float(np.min(np.maximum(1.0 - f.a_mem, 1 / DECAY_ONE)))
    worst = (max(reach.high, reach.low) / gone + float(np.max(np.abs(f.bias)))) / leak
    size = _working_size(f, incoming)
    return last / max(size, min(worst, ROOM * size * (8 if f.theta is None else 1)))


def _working_size(f: FoldedPopulation, incoming: Sequence[IncomingOperator]) -> float:
    """The threshold; the largest weight of a readout."""
    typical = max(max(abs(arriving.range.low), arriving.range.high) for arriving in incoming)
    return typical if f.theta is None else float(np.max(np.abs(f.theta))) or typical


def _doubled(scale: float, top: float, f: FoldedPopulation, incoming: Sequence[IncomingOperator]) -> float:
    size = _working_size(f, incoming)
    leak = float(np.min(np.where(f.a_mem < 1.0, 1.0 - f.a_mem, 1.0)))
    fade = float(np.min(np.where((f.a_syn > 0) & (f.a_syn < 1.0), 1.0 - f.a_syn, 1.0)))
    lost = _UNIT / 2 + (1.0 if leak < 1.0 else 0.0) / leak + (1.0 if fade < 1.0 else 0.0) / (fade * leak)
    while lost > LOST * size * scale and 2.0 * scale <= top:
        scale *= 2.0
    return scale


def _is_whole(f: FoldedPopulation, incoming: Sequence[IncomingOperator]) -> bool:
    """True for a population in a chip's integers already: at scale 1 nothing of it is rounded."""
    constants = (f.bias, f.v_start, f.i_start, f.amount, *([] if f.theta is None else [f.theta]))
    decays = (f.a_mem * DECAY_ONE, f.a_syn * DECAY_ONE)
    return all(map(_are_whole, (*constants, *decays))) and all(
        np.array_equal(round_to_grid(weights, factor, arriving.range.grid), weights * factor)
        for arriving, exponent in zip(incoming, exponents(1.0, incoming), strict=True)
        for weights, factor in ((weights_of(arriving.operator), 1 / _UNIT / 2.0**exponent),)
    )


def _exact(f: FoldedPopulation, incoming: Sequence[IncomingOperator], limit: float) -> float | None:
    """A scale with which every weight is a whole number of grid steps, with exponents 0; None: there is none.

    Without decay one is preferred with which threshold, bias, reset and start are whole numbers of 64, too.
    """
    step = max(arriving.range.grid.step for arriving in incoming)
    values = np.concatenate([weights_of(arriving.operator).reshape(-1) for arriving in incoming])
    q = quantum(values, 256 // step)
    if q is None:
        return None
    room = min(1.0 / arriving.range.unit for arriving in incoming if arriving.range.unit > 0)
    times = math.floor(min(room * q / step * (1 + SINGLE), limit / _UNIT * q / step + 1e-9))
    if times < 1:
        return None
    parts = _parts(f, q / step, times)
    return times // parts * parts * step / q * _UNIT


def _parts(f: FoldedPopulation, unit: float, most_parts: int) -> int:
    """Into how many parts ``unit`` is cut at least, so that the constants of a neuron without decay are whole."""
    if bool(np.any(f.a_mem != 1.0)) or bool(np.any(f.a_syn != 0.0)):
        return 1
    theta = [] if f.theta is None else [f.theta]
    reals = np.concatenate([np.ravel(x) for x in (*theta, f.bias, f.v_start, f.amount)])
    constants = np.unique(reals) / unit
    for parts in range(1, most_parts + 1):
        if _are_whole(constants * parts):
            return parts
    return 1


def _are_whole(values: Array) -> bool:
    return bool(np.all(np.abs(values - np.rint(values)) <= 1e-9 * np.maximum(np.abs(values), 1.0)))
