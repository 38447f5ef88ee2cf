"""The spiking network of an ANN: scales merged into weights, start potentials, and a proved bound on spike counts.

All neurons have threshold 1, and one spike of a neuron stands for its scale.

**The bound.** A neuron of threshold 1 starts at v0, adds its input x[t], fires once where the sum exceeds 1 and then
loses 1. Let S[t] be the sum of its inputs and n[t] its number of spikes after t steps. If ``|S[t] - t*s| <= F`` at
every t, then with r = min(max(s, 0), 1), at every t::

    |n[t] - t*r| <= max(|v0|, |1 - v0|) + F

*Not too many.* At the last spike, at step k <= t, the potential v0 + S[k] - (n[t] - 1) exceeded 1, so
n[t] < v0 + S[k] <= v0 + k*s + F, which is at most v0 + t*s + F for s >= 0 and v0 + F for s < 0; and n[t] <= t.
*Not too few.* At the last step k <= t without a spike (if there is none, n[t] = t), v0 + S[k] - n[k] <= 1, so
n[t] = n[k] + t - k >= v0 - 1 + k*s - F + t - k, which is at least t*min(s, 1) - (1 - v0) - F.

So at a constant input (F = 0) and v0 = 1/2 the count is t*r rounded to a neighbour: |n[t] - t*r| <= 1/2. In later
layers F is the sum of |weight| times the bound of each source, which gives every population a bound E that does not
depend on the number of steps: after T steps, the error of a rate is at most E/T (``bound_spikes`` of the report).

**The start potential.** At half the threshold, rounding is unbiased as long as the input is constant. After other
spiking neurons it is not: spikes that an early surplus causes are not taken back, so that counts are too high, by an
amount that settles after a few time steps. ``fair_start`` lowers the start potential by the mean surplus measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network import Network, Neuron, Population, Projection, Timing, neuron
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

Weighted = Dense | Conv | Sparse


def rescale(operator: Operator, before: Array, after: Array) -> Operator:
    """``after * operator(before * x)``; ``before`` and ``after`` broadcast to the shapes of x and of the result.

    Computed in float64, then rounded once to float32. A factor that differs within a channel of a convolution or
    pool stays a ``Scale``.
    """
    first = Scale(freeze(np.broadcast_to(np.asarray(before, np.float64), operator.input_shape)))
    last = Scale(freeze(np.broadcast_to(np.asarray(after, np.float64), operator.output_shape)))
    inner = (first, *(_with_weights(p, partial(freeze, dtype=np.float64)) for p in parts_of(operator)), last)
    parts = _absorbed([p for p in inner if not isinstance(p, Identity)])
    folded, _ = compose(parts, [""] * len(parts), operator.input_shape)
    single = [_with_weights(p, partial(freeze, dtype=np.float32)) for p in parts_of(folded)]
    return compose(single, [""] * len(single), operator.input_shape)[0]


def _absorbed(chain: Sequence[Operator]) -> list[Operator]:
    """Merge every ``Scale`` into the weights before it, else into those after it, else keep it."""
    for position in (k for k, part in enumerate(chain) if isinstance(part, Scale)):
        merged = _into(chain, position, -1) or _into(chain, position, +1)
        if merged is not None:
            return _absorbed(merged)
    return list(chain)


def _into(parts: Sequence[Operator], position: int, step: int) -> list[Operator] | None:
    """The chain with the scale at ``position`` merged into the next weights in direction ``step``, or None."""
    here = parts[position]
    scale: Array | None = here.scale if isinstance(here, Scale) else None
    k = position + step
    while 0 <= k < len(parts) and scale is not None:
        part = parts[k]
        if isinstance(part, Scale):
            merged: Operator | None = Scale(freeze(part.scale * scale))
        else:
            merged = _weighted(part, scale, output=step < 0) if isinstance(part, Weighted) else None
        if merged is not None:
            out = [*parts[:k], merged, *parts[k + 1 :]]
            del out[position]
            return out
        scale = _through(part, scale, output=step < 0)
        k += step
    return None


def _through(part: Operator, scale: Array, *, output: bool) -> Array | None:
    """The scale on one side of a part that is equivalent to ``scale`` on the other, or None."""
    shape = part.input_shape if output else part.output_shape
    if isinstance(part, Reshape):
        return scale.reshape(shape)
    if not isinstance(part, SumPool):
        return None
    per_channel = channel_values(scale)
    return None if per_channel is None else np.broadcast_to(_on_channels(per_channel, len(shape)), shape)


def _on_channels(values: Array, axes: int) -> Array:
    return values.reshape(-1, *(1,) * (axes - 1))


def channel_values(scale: Array) -> Array | None:
    """One value per channel (axis 0) where the scale has no more than that, else None."""
    rows = scale.reshape(scale.shape[0], -1)
    return rows[:, 0] if bool(np.all(rows == rows[:, :1])) else None


def _weighted(part: Weighted, scale: Array, *, output: bool) -> Operator | None:
    if isinstance(part, Dense):
        factor = scale.reshape(-1, 1) if output else scale.reshape(1, -1)
        return Dense(part.weight * factor)
    if isinstance(part, Sparse):
        rows = np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
        return replace(part, data=part.data * scale.reshape(-1)[rows if output else part.indices])
    values = channel_values(scale)
    if values is None:
        return None
    if output:
        return replace(part, weight=part.weight * _on_channels(values, part.weight.ndim))
    group_inputs = part.weight.shape[1]
    group = np.arange(part.weight.shape[0]) // (part.weight.shape[0] // part.groups)
    per_weight = values[group[:, None] * group_inputs + np.arange(group_inputs)]
    return replace(part, weight=part.weight * per_weight.reshape(*per_weight.shape, *(1,) * len(part.kernel)))


def _with_weights(part: Operator, change: Callable[[Array], Array]) -> Operator:
    """The part with ``change`` applied to its weights; unchanged if it has none."""
    if isinstance(part, Scale):
        return Scale(change(part.scale))
    if isinstance(part, Dense | Conv):
        return replace(part, weight=change(part.weight))
    return replace(part, data=change(part.data)) if isinstance(part, Sparse) else part


def magnitude(operator: Operator) -> tuple[Operator, ...]:
    """The parts with the absolute values of their weights, for bounds."""
    return tuple(_with_weights(part, np.abs) for part in parts_of(operator))


HALF = 0.5
ROUNDS = 3
FARTHEST = 1.0
"""Start potentials stay within this distance of half the threshold."""


def count_spikes(drive: Array, start: Array, spikes: Array | None = None) -> Array:
    """Spikes of each neuron (threshold 1, soft reset) under ``drive [steps, samples, *shape]``; as the simulator does.

    ``start`` broadcasts to the shape; ``spikes`` (of the drive's shape), if given, is filled with 0 and 1.
    """
    potential = np.broadcast_to(np.asarray(start, drive.dtype), drive.shape[1:]).copy()
    counts = np.zeros(drive.shape[1:], np.float32)
    for t, x in enumerate(drive):
        potential += x
        fired = potential > 1.0
        potential -= fired
        counts += fired
        if spikes is not None:
            spikes[t] = fired
    return counts


def fair_start(drive: Array, counts: Array, *, per_channel: bool) -> Array:
    """Start potentials for which the mean count over the samples is that of ``counts [samples, *shape]``.

    Args:
        drive: input of each step, ``[steps, samples, *shape]``, in thresholds.
        counts: spike counts of the activations, fractions included.
        per_channel: one start for each element of the first axis, else one for the population.

    Returns:
        Shape ``(channels, 1, …)`` or ``()``, float64 on a grid of 1/1024.
    """
    axes = (0, *range(2, counts.ndim)) if per_channel else tuple(range(counts.ndim))
    start = np.full((counts.shape[1], *(1,) * (counts.ndim - 2)) if per_channel else (), HALF)
    for _ in range(ROUNDS):
        surplus = np.mean(count_spikes(drive, start) - counts, axis=axes, dtype=np.float64)
        start = np.clip(start - surplus.reshape(start.shape), HALF - FARTHEST, HALF + FARTHEST)
    return freeze(np.round(start * 1024) / 1024)


Readout = Literal["potential", "spikes"]


def spiking_network(ann: Network, scales: Mapping[str, Array], dt: float, readout: Readout) -> Network:
    """The spiking network of an ANN, every potential starting at half the threshold.

    ``scales``: by population, and by output where ``readout`` is ``spikes``. A source's scale goes into the weights
    after it, a target's divides the weights and constants before it, so that all thresholds are 1 and the
    branches of a sum arrive on one scale. Potentials of readouts are in the ANN's own units.
    """
    populations = [Population(p.name, p.shape, integrate_and_fire()) for p in ann.populations]
    projections = [_scaled(p, scales) for p in ann.projections]
    names = {p.name for p in (*ann.populations, *ann.inputs, *ann.outputs)}
    for port in ann.outputs:
        if readout == "spikes" and sends_plainly(ann, port.name) is not None:
            continue
        name = fresh_name(f"{port.name}_readout", names)
        names.add(name)
        summing = integrate_and_fire() if readout == "spikes" else neuron("I", theta=None, reset="none")
        populations.append(Population(name, port.shape, summing))
        projections = [replace(p, target=name) if p.target == port.name else p for p in projections]
        projections.append(Projection(name, port.name, Identity(port.shape)))
    timing = Timing(dt, "euler", "subtract", ">", "per-second")
    return replace(
        ann, dt=dt, timing=timing, populations=tuple(populations), projections=tuple(projections), assumed=()
    )


def integrate_and_fire(start: Array | float = HALF) -> Neuron:
    """An integrate-and-fire neuron of threshold 1 with soft reset, ``start`` its potential before the first step."""
    return neuron("IF", theta=1.0, reset="subtract", compare=">", v_init=start)


def _scaled(p: Projection, scales: Mapping[str, Array]) -> Projection:
    unit = np.ones(())
    source, target = scales.get(p.source, unit), 1.0 / scales.get(p.target, unit)
    bias = None if p.bias is None else freeze(p.bias * target, np.float64)
    operator = rescale(p.operator, source, target)
    return replace(p, operator=operator, bias=bias, nodes=())


def sends_plainly(ann: Network, output: str) -> str | None:
    """The population that an output passes on unchanged (in the same order), or None."""
    into = [p for p in ann.projections if p.target == output]
    populations = {p.name for p in ann.populations}
    if len(into) != 1 or into[0].bias is not None or into[0].source not in populations:
        return None
    return into[0].source if all(isinstance(q, Identity | Reshape) for q in parts_of(into[0].operator)) else None
