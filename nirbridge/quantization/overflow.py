"""Bounds on the accumulators for every input, from the integers alone, in exact arithmetic.

* ``a_in``: per neuron the sum of its positive weights times the most that their sources send, and of its negative ones:
  a bound that some input reaches. A graded input of up to m counts ``|weight| * m`` both ways.
* ``u``: with a decay of k parts of 4096, ``|u| <= X`` stays so for ``X = ceil(64 * a_in * 4096 / k)``, since
  ``dec(X, k) <= X - X k / 4096``. A start beyond X only falls.
* ``v``: the same with ``u + b`` as its input, unless a spike takes it down: a neuron that fires above T and is reset to
  0 never carries more than max(T, 0) into a step. Without a decay and a floor v has no bound below: it saturates
  after some number of time steps, of which a lower bound is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import apply
from nirbridge.network.neurons import floored
from nirbridge.quantization.formats import DECAY_ONE, INPUT_SHIFT, signed_max
from nirbridge.quantization.model import (
    AccumulatorBounds,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    IntegerOperator,
    QuantizedNetwork,
)
from nirbridge.quantization.operators import weights_of, with_weights

Flat = Callable[[Array], Array]
_DEEP = np.asarray(-(1 << 62))
"""Below every v."""


@dataclass(frozen=True, slots=True)
class OutputRange:
    """Values that a source sends in one time step: from ``low`` to ``high``."""

    low: int
    high: int


def input_bounds(projection: FixedProjection, sent: OutputRange) -> tuple[Array, Array]:
    """(least, greatest) that the projection adds to ``a_in`` of each target in one time step: flat int64 arrays."""
    low, high = operator_bounds(projection.operator, sent)
    exponent = projection.weight_exp
    return (low << exponent, high << exponent) if exponent >= 0 else (low >> -exponent, high >> -exponent)


def operator_bounds(operator: IntegerOperator, sent: OutputRange) -> tuple[Array, Array]:
    """(least, greatest) output of each target in one time step: flat arrays of the weights' type."""
    weights = weights_of(operator)
    ones = np.ones(operator.input_shape, weights.dtype)
    positive = apply(with_weights(operator, np.maximum(weights, 0)), ones).reshape(-1)
    negative = apply(with_weights(operator, np.minimum(weights, 0)), ones).reshape(-1)
    return negative * sent.high + positive * sent.low, positive * sent.high + negative * sent.low


def bounds_of(population: FixedPopulation, a_low: Array, a_high: Array, *, proved: bool = True) -> AccumulatorBounds:
    """The bounds of a population from those of its ``a_in`` (flat arrays)."""
    n, size = population.neuron, population.size

    def flat(values: Array) -> Array:
        return np.broadcast_to(values, population.shape).reshape(size)

    u0, k = flat(n.u_init), flat(n.du) + 1
    u_high = np.maximum(_held(np.maximum(a_high, 0) << INPUT_SHIFT, k), u0)
    u_low = -np.maximum(_held(np.maximum(-a_low, 0) << INPUT_SHIFT, k), -u0)
    low, high = u_low + flat(n.bias), u_high + flat(n.bias)
    v_high, above = _highest(n, flat, high)
    v_low, below = _lowest(n, flat, low)
    steps = [s for s in (above, below) if s is not None]
    return AccumulatorBounds(
        a_in=(int(a_low.min(initial=0)), int(a_high.max(initial=0))),
        u=(int(u_low.min(initial=0)), int(u_high.max(initial=0))),
        v=(int(v_low.min(initial=0)), int(v_high.max(initial=0))),
        proved=proved,
        v_steps=min(steps) if steps else None,
    )


def _held(drive: Array, k: Array) -> Array:
    """The smallest X >= 0 at which a decay of k parts balances a drive of 0 or more: ``ceil(drive * 4096 / k)``."""
    return -(-drive * DECAY_ONE // k)


def _highest(n: FixedNeuron, at: Flat, drive: Array) -> tuple[Array, int | None]:
    """Largest v of any time step before the reset, and the time steps until it saturates (None: never)."""
    v0, dv, last = at(n.v_init), at(n.dv), signed_max(n.v_bits)
    v0 = np.maximum(v0, at(floored(n, _DEEP)))
    up, raised = np.maximum(drive, 0), at(raised_by(n)[1])
    if n.fires_above is not None and n.reset == "zero":
        carried = np.maximum(np.maximum(at(n.fires_above) + raised, 0), v0)
        return np.minimum(carried + up, last), None  # saturated, it fires as it would beyond
    if n.fires_above is not None and n.reset == "subtract" and _subtracts_enough(n, at, up):
        carried = np.maximum(np.maximum(at(n.fires_above), at(n.spike_size)) + raised, v0)
        return _limited(carried + up, v0, up, last)
    return _limited(
        np.where(dv > 0, np.maximum(_held(up, np.maximum(dv, 1)), v0), _unbounded(up, v0, last)), v0, up, last
    )


def _subtracts_enough(n: FixedNeuron, at: Flat, up: Array) -> bool:
    """True if the spikes of one time step always take v back to its threshold or below."""
    amount, threshold = at(n.reset_amount), at(np.asarray(n.fires_above))
    less, raised = map(at, raised_by(n))
    in_reset = n.adaptation is not None and n.adaptation.in_reset
    if n.max_spikes == 1:
        return bool(np.all(up <= (amount + less if in_reset else amount)))
    size = np.maximum(at(n.spike_size), 1)
    many = (np.maximum(threshold, size) + raised + up) // np.maximum(size + less, 1)
    return bool(np.all((amount >= size + (0 if in_reset else raised)) & (many <= n.max_spikes)))


def raised_by(n: FixedNeuron) -> tuple[Array, Array]:
    """The least and the greatest b that an adaptation adds to the threshold; 2**48 where nothing bounds it."""
    if n.adaptation is None:
        return np.zeros((), np.int64), np.zeros((), np.int64)
    low, high = (np.clip(x, -(2**48), 2**48) for x in n.adaptation.reach(n.max_spikes, DECAY_ONE))
    return np.floor(low).astype(np.int64), np.ceil(high).astype(np.int64)


def _lowest(n: FixedNeuron, at: Flat, drive: Array) -> tuple[Array, int | None]:
    """Smallest v of any time step, and the time steps until it saturates (None: never)."""
    v0, dv, last = at(n.v_init), at(n.dv), signed_max(n.v_bits)
    down = np.maximum(-drive, 0)
    start = -v0
    if n.fires_above is not None and n.reset == "subtract":
        less = 0 if n.adaptation is not None and n.adaptation.in_reset else at(raised_by(n)[0])
        start = np.maximum(start, (at(n.reset_amount) - at(n.spike_size) - less) * n.max_spikes)
    depth = np.where(dv > 0, np.maximum(_held(down, np.maximum(dv, 1)), start), _unbounded(down, start, last))
    # no time step begins below the floor, but for the first
    depth = np.minimum(depth, np.maximum(np.maximum(-at(floored(n, _DEEP)), -v0), 0) + down)
    lowest, steps = _limited(depth, start, down, last)
    return -lowest, steps


def _unbounded(drive: Array, start: Array, last: int) -> Array:
    return np.where(drive > 0, last + 1, np.maximum(start, 0))


def _limited(reach: Array, start: Array, drive: Array, last: int) -> tuple[Array, int | None]:
    over = reach > last
    if not bool(over.any()):
        return reach, None
    room = np.maximum(last - np.maximum(start, 0), 0)[over]
    return np.minimum(reach, last), max(1, int((room // np.maximum(drive[over], 1)).min()))


def output_ranges(populations: Sequence[FixedPopulation], inputs: Mapping[str, OutputRange]) -> dict[str, OutputRange]:
    """Range of every source before anything else is known: 0 to ``max_spikes`` of a neuron, v of a readout."""
    return {**inputs, **{p.name: _sent(p.neuron) for p in populations}}


def sent_ranges(quantized: QuantizedNetwork) -> dict[str, OutputRange]:
    """``output_ranges`` of a whole network."""
    inputs = {p.name: OutputRange(-p.value_max if p.graded else 0, p.value_max) for p in quantized.inputs}
    return output_ranges(quantized.populations, inputs)


def _sent(n: FixedNeuron) -> OutputRange:
    last = signed_max(n.v_bits)
    return OutputRange(0, n.max_spikes) if n.fires else OutputRange(-last, last)


def prove(quantized: QuantizedNetwork) -> dict[str, AccumulatorBounds]:
    """The bounds of every population of a quantized network, from its integers alone."""
    sent = sent_ranges(quantized)
    into: dict[str, list[FixedProjection]] = {p.name: [] for p in quantized.populations}
    for projection in quantized.projections:
        into[projection.target].append(projection)
    return {p.name: bounds_of(p, *total_input_range(into[p.name], sent, p.size)) for p in quantized.populations}


def largest_sum(quantized: QuantizedNetwork) -> int:
    """A bound of every sum of weighted inputs, also of those that are shifted to the right at the end."""
    sent = sent_ranges(quantized)
    totals = dict.fromkeys((p.name for p in quantized.populations), 0)
    for p in quantized.projections:
        low, high = operator_bounds(p.operator, sent[p.source])
        totals[p.target] += max(-int(low.min(initial=0)), int(high.max(initial=0))) << max(0, p.weight_exp)
    return max(totals.values(), default=0)


def total_input_range(
    projections: Sequence[FixedProjection], sent: Mapping[str, OutputRange], size: int
) -> tuple[Array, Array]:
    """(least, greatest) ``a_in`` of each of ``size`` targets in one step, over all projections into them."""
    low, high = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for projection in projections:
        less, more = input_bounds(projection, sent[projection.source])
        low, high = low + less, high + more
    return low, high
