"""Bounds on the distance of the fixed-point membrane from the reference's, while both fire alike.

With S integers per real v, real decays ``a`` (of v) and ``b`` (of the current) and the integers' ``A`` and ``B``, both
parts of 4096, one step of a neuron adds at most (all in integers; ``e_u`` and ``e_v`` are the distances)::

    e_u' = b e_u + |B - b| |u| + cut_u + sum over arriving spikes of 64 * 2**exponent * |integer weight - exact weight|
    e_v' = a e_v + |A - a| |v| + cut_v + |integer bias - exact bias| + e_u'
    e_v  = max(e_v', |integer floor - exact floor|)

``cut`` is 1 where a decay cuts towards zero, 0 where it keeps all or nothing. Both start at most half a unit off. A
spike of both resets: to a value, then ``e_v`` is 0; by an amount, then what its rounding lost is added (of an
adaptation in the reset that of b, too). A graded input
adds half a unit of itself times each weight. Roundings of the reference's own floats are counted too, so that tests
need no tolerance. ``u`` and ``v`` are the integers' own. The equations hold up to the first spike that
differs, of the population or of its sources, and until v saturates
(``AccumulatorBounds.v_steps``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, quoted
from nirbridge.network.apply import apply
from nirbridge.network.model import Network
from nirbridge.quantization.folding import FoldedPopulation, fold_population
from nirbridge.quantization.formats import DECAY_ONE, INPUT_SHIFT
from nirbridge.quantization.model import (
    AccumulatorBounds,
    FixedPopulation,
    FixedProjection,
    IntegerOperator,
    QuantizedNetwork,
    VBound,
)
from nirbridge.quantization.operators import gained_operator, weights_of, with_weights

Arrays = Mapping[tuple[str, str], Array]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class RoundingLoss:
    """Rounding errors of a population: flat float64 arrays over its neurons (or ``()``), in integers of v.

    ``u_decay`` and ``v_decay`` are ``|B - b|`` and ``|A - a|``, ``keeps_u`` and ``keeps_v`` the real ``b`` and ``a``,
    ``far`` what is added to v and u before the reference computes with them (it makes floats coarser).
    """

    keeps_u: Array
    keeps_v: Array
    u_decay: Array
    v_decay: Array
    cut_u: Array
    cut_v: Array
    bias: Array
    amount: Array
    floor: Array
    far: Array


@dataclass(frozen=True, slots=True, eq=False)
class WeightLoss:
    """Rounding errors of a projection: ``errors`` in integers of v per spike; ``sizes`` those of the weights.

    ``worth``: the real value of integer 1 of a graded input; None for spikes.
    """

    projection: FixedProjection
    errors: IntegerOperator
    sizes: IntegerOperator
    worth: float | None


def rounding_loss(folded: FoldedPopulation, made: FixedPopulation) -> RoundingLoss:
    """Rounding errors of a population's own parameters."""
    n, scale = made.neuron, made.neuron.scale

    def flat(values: Any) -> Array:
        return np.broadcast_to(np.asarray(values, np.float64), made.shape).reshape(made.size)

    kept_u, kept_v = (DECAY_ONE - 1 - n.du) / DECAY_ONE, (DECAY_ONE - n.dv) / DECAY_ONE
    current = folded.neuron.g_mem * (np.abs(folded.neuron.i_init) + np.abs(folded.steady))
    return RoundingLoss(
        keeps_u=flat(folded.a_syn),
        keeps_v=flat(folded.a_mem),
        u_decay=flat(np.abs(kept_u - folded.a_syn)),
        v_decay=flat(np.abs(kept_v - folded.a_mem)),
        cut_u=flat((kept_u > 0) & (kept_u < 1)),
        cut_v=flat((kept_v > 0) & (kept_v < 1)),
        bias=flat(np.abs(n.bias - folded.bias * scale)),
        amount=flat(np.abs(n.reset_amount - folded.amount * scale) + adaptation_loss(folded, made, in_reset=True)),
        floor=flat(0.0 if n.v_min is None or folded.v_min is None else np.abs(n.v_min - folded.v_min * scale)),
        far=flat((np.abs(folded.offset) + np.abs(current) + np.abs(folded.bias)) * scale),
    )


def adaptation_loss(folded: FoldedPopulation, made: FixedPopulation, *, in_reset: bool = False) -> Array:
    """Bound of ``|b - real b|`` in integers while both fire alike, of any time step; 0 without an adaptation.

    ``e_b' = a e_b + |A - a| |b| + cut + |integer jump - exact jump| * spikes``; ``in_reset``: what a spike subtracts.
    """
    real, n, scale = folded.neuron.adaptation, made.neuron, made.neuron.scale
    if real is None or n.adaptation is None or (in_reset and not real.in_reset):
        return np.zeros(())
    kept, most = n.adaptation.decay / DECAY_ONE, np.maximum(*map(np.abs, n.adaptation.reach(n.max_spikes, DECAY_ONE)))
    step = np.abs(kept - real.decay) * most + ((kept > 0) & (kept < 1))
    step = step + np.abs(n.adaptation.jump - real.jump * scale) * n.max_spikes
    gone, start = 1.0 - real.decay, np.abs(n.adaptation.init - real.init * scale)
    still = np.where(step > 0, np.inf, 0.0)
    return np.maximum(start, np.where(gone > 0, step / np.where(gone > 0, gone, 1.0), still))


def weight_loss(p: FixedProjection, exact: IntegerOperator, worth: float | None) -> WeightLoss:
    """Rounding errors of the weights of a projection; ``exact``: the real ones, with the gain of the neurons."""
    unit = float(1 << INPUT_SHIFT) * 2.0**p.weight_exp
    off = np.abs(weights_of(p.operator) - weights_of(exact) * p.scale) * unit
    sizes = np.abs(weights_of(exact)) * p.scale * unit
    return WeightLoss(p, with_weights(exact, off), with_weights(exact, sizes), worth)


def report_bound(
    lost: RoundingLoss, weights: Sequence[WeightLoss], most: Sequence[int], bounds: AccumulatorBounds, scale: float
) -> VBound:
    """The bound of a population for a report, in real units of v: for the worst neuron, input and state.

    ``most``: the largest value that the source of each projection sends.
    """
    summed, largest = np.zeros_like(lost.bias), 0.0
    for loss, values in zip(weights, most, strict=True):
        everything = np.full((1, 1, math.prod(loss.errors.input_shape)), float(values))
        summed = summed + _arrived(loss, everything)[0, 0]
        largest = max(largest, float(weights_of(loss.errors).max(initial=0.0)))
    u, v = (float(max(map(abs, x))) for x in (bounds.u, bounds.v))
    own_u, own_v = lost.u_decay * u + lost.cut_u, lost.v_decay * v + lost.cut_v
    step = (own_u + summed) / (1.0 - lost.keeps_u) + own_v + lost.bias + lost.amount + lost.floor
    leak = 1.0 - lost.keeps_v
    limit = float((step / np.where(leak > 0, leak, 1.0)).max(initial=0.0)) / scale if bool(np.all(leak > 0)) else None

    def worst(values: Array) -> float:
        return float(values.max(initial=0.0)) / scale

    return VBound(
        weight=largest / scale,
        weights=worst(summed),
        u_decay=worst(lost.u_decay * u),
        v_decay=worst(lost.v_decay * v),
        cuts=worst(lost.cut_u + lost.cut_v),
        bias=worst(lost.bias),
        reset=worst(lost.amount + lost.floor),
        start=0.5 / scale,
        per_step=worst(step),
        limit=limit,
    )


def v_bounds(quantized: QuantizedNetwork, arrays: Arrays, *, eps: float = EPS) -> dict[str, Array]:
    """The bound of ``|v - reference|`` of every population in every time step of a run, from its integer states.

    Args:
        quantized: with the network that it came from.
        arrays: what ``simulate_fixed`` recorded from step 0 on: ``s`` of inputs and firing populations, ``u`` and ``v``
            of populations, ``[steps, *shape]`` or ``[steps, batch, *shape]``.
        eps: of the type that the reference computes with.

    Returns:
        population -> float64 of the recording's shape, in the reference's units of v; infinite before the population's
        first reference step (``latency``).

    Raises:
        UsageError: a network loaded from a file, which has no real numbers to compare with.
    """
    if quantized.network is None:
        step = "quantize the model again in this run"
        raise UsageError.of("bounds of the distance", "the real weights are not in a .q.npz file", "", step)
    return {p.name: _bound_of(quantized, quantized.network, p, arrays, eps) for p in quantized.populations}


def _bound_of(q: QuantizedNetwork, network: Network, p: FixedPopulation, arrays: Arrays, eps: float) -> Array:
    late = 0 if q.early else q.latency.get(p.name, 0)
    folded = fold_population(network, network.population(p.name), late)
    lost, (v, u) = rounding_loss(folded, p), (_flat(arrays, p.name, p.shape, x) for x in "vu")
    weights = [_lost_weights(q, network, folded, x) for x in q.projections if x.target == p.name]
    shapes = {x.name: x.shape for x in (*q.inputs, *q.populations)}
    added, size, fan_in = np.zeros(v.shape), np.abs(u) + np.abs(v) + np.abs(p.neuron.bias).max() + lost.far, 16
    for loss in weights:
        name = loss.projection.source
        sent = _delayed(_flat(arrays, name, shapes[name], "s"), loss)
        added += _arrived(loss, sent)
        size = size + apply(loss.sizes, np.abs(sent).reshape(-1, *loss.sizes.input_shape)).reshape(v.shape)
        fan_in += sent.shape[2]
    floats = eps * fan_in * size
    fired = _flat(arrays, p.name, p.shape, "s") if p.neuron.fires else None
    starts = initial_offsets(p, folded) if q.early else (np.asarray(0.5), np.asarray(0.5))
    bound = _carried(p, lost, (late, *starts), (v, u, fired), added, floats)
    return (bound / float(p.neuron.scale)).reshape(arrays[p.name, "v"].shape)


def _lost_weights(q: QuantizedNetwork, network: Network, folded: FoldedPopulation, p: FixedProjection) -> WeightLoss:
    worth = next((x.scale for x in q.inputs if x.name == p.source and x.graded), None)
    gain = np.asarray(folded.gain * (1.0 if worth is None else worth))
    return weight_loss(p, gained_operator(network.projections[p.index].operator, gain), worth)


def initial_offsets(p: FixedPopulation, folded: FoldedPopulation) -> tuple[Array, Array]:
    """Distance of u and v from the real initial state at hardware time step 0, in integers, at least half a unit.

    Before its first time step a population runs from an initial state that was solved backwards in integers; only at
    that time step is it within half a unit.
    """
    n, scale = p.neuron, float(p.neuron.scale)
    pairs = ((n.u_init, folded.i_start), (n.v_init, folded.v_start))
    u, v = (np.maximum(np.abs(whole - real * scale), 0.5) for whole, real in pairs)
    return u, v


def _carried(
    p: FixedPopulation,
    lost: RoundingLoss,
    since: tuple[int, Array, Array],
    run: tuple[Array, Array, Array | None],
    added: Array,
    floats: Array,
) -> Array:
    """The recursion of the module docstring. ``since``: its first time step, and the errors of u and v before it."""
    (late, *off), (v, u, fired), each = since, run, (1, math.prod(p.shape))
    e_u, e_v = (np.broadcast_to(np.broadcast_to(x, p.shape).reshape(each), v.shape[1:]) for x in off)
    bound = np.full(v.shape, np.inf)
    starts = [np.abs(np.broadcast_to(x, p.shape).reshape(-1)) for x in (p.neuron.v_init, p.neuron.u_init)]
    hold = np.broadcast_to(p.neuron.refractory_steps, p.shape).reshape(-1)
    refractory = np.zeros(v.shape[1:], np.int64)
    for t in range(late, len(v)):
        before_v, before_u = (np.abs(v[t - 1]), np.abs(u[t - 1])) if t else starts
        e_u = lost.keeps_u * e_u + lost.u_decay * before_u + lost.cut_u + added[t] + floats[t]
        e_v = lost.keeps_v * e_v + lost.v_decay * before_v + lost.cut_v + lost.bias + e_u + floats[t]
        if fired is not None:
            if p.neuron.reset == "subtract":
                e_v = e_v + fired[t] * lost.amount
            at_rest = (refractory > 0) | ((fired[t] > 0) & (p.neuron.reset == "zero"))
            e_v = np.where(at_rest, 0.0, e_v)
            refractory = np.where(fired[t] > 0, hold, np.maximum(refractory - 1, 0))
            e_v = np.maximum(e_v, lost.floor)
        bound[t] = e_v + floats[t]
    return bound


def _flat(arrays: Arrays, name: str, shape: tuple[int, ...], variable: str) -> Array:
    """A recording as float64 ``[steps, batch, neurons]``. Raises UsageError where it is missing."""
    if (name, variable) not in arrays:
        raise UsageError.of(f"bounds of the distance, {quoted(name)}", f"{variable} was not recorded", "", "record it")
    array = arrays[name, variable]
    batch = array.shape[1] if array.ndim == 2 + len(shape) else 1
    return array.reshape(len(array), batch, -1).astype(np.float64)


def _delayed(sent: Array, loss: WeightLoss) -> Array:
    """``sent`` as it arrives in each time step, in the units that the weights multiply."""
    values = sent if loss.worth is None else sent / loss.worth
    delays = np.broadcast_to(loss.projection.delay_steps.reshape(-1), values.shape[2:])
    late = np.zeros_like(values)
    for d in np.unique(delays).tolist():
        late[d:, :, delays == d] = values[: max(0, len(values) - d), :, delays == d]
    return late


def _arrived(loss: WeightLoss, sent: Array) -> Array:
    """Sum of the errors of the weights, ``[steps, batch, targets]``."""
    shape = (*sent.shape[:2], -1)
    items = np.abs(sent).reshape(-1, *loss.errors.input_shape)
    errors = apply(loss.errors, items)
    if loss.worth is not None:  # a value of the input is rounded to its integers, by half of one at most
        errors = errors + 0.5 * apply(loss.sizes, np.ones_like(items))
        errors = errors + 0.5 * apply(loss.errors, np.ones_like(items))
    if loss.projection.weight_exp < 0:
        errors = errors + (1 << INPUT_SHIFT)
    return errors.reshape(shape)
