r"""Spike counts of integrate-and-fire neurons, what they are bound to be, and where the potential starts.

**The bound.** A neuron of threshold 1 starts at v0, adds its input x[t], fires once where the sum exceeds 1 and then
loses 1. Let S[t] be the sum of its inputs and n[t] its number of spikes after t steps. If ``|S[t] - t*s| <= F`` at
every t, then with r = min(max(s, 0), 1), at every t::

    |n[t] - t*r| <= max(|v0|, |1 - v0|) + F

*Not too many.* At the last spike, at step k <= t, the potential v0 + S[k] - (n[t] - 1) exceeded 1, so
n[t] < v0 + S[k] <= v0 + k*s + F, which is at most v0 + t*s + F for s >= 0 and v0 + F for s < 0; and n[t] <= t.
*Not too few.* At the last step k <= t without a spike (if there is none, n[t] = t), v0 + S[k] - n[k] <= 1, so
n[t] = n[k] + t - k >= v0 - 1 + k*s - F + t - k, which is at least t*min(s, 1) - (1 - v0) - F.

So at a constant input (F = 0) and v0 = 1/2 the count is t*r rounded to a neighbour: |n[t] - t*r| <= 1/2. Further on,
F is the sum of |weight| times the bound of each source, which gives every population a bound E that does not depend
on the number of steps: after T steps, rates are E/T off at most (``Layer.bound_spikes``).

**Where the potential starts.** At half the threshold rounding is fair as long as the input is constant. Behind other
spiking neurons it is not: spikes that an early surplus has set off are not taken back, so that counts come out too
high, by an amount that settles after a few steps. ``fair_start`` lowers the start by the mean surplus measured.
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array, freeze

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


def fair_start(drive: Array, wanted: Array, *, per_channel: bool) -> Array:
    """Start potentials for which the mean count over the samples is that of ``wanted [samples, *shape]``.

    Args:
        drive: input of each step, ``[steps, samples, *shape]``, in thresholds.
        wanted: counts that the activations ask for, fractions and all.
        per_channel: one start for each element of the first axis, else one for the population.

    Returns:
        Shape ``(channels, 1, …)`` or ``()``, float64 on a grid of 1/1024.
    """
    axes = (0, *range(2, wanted.ndim)) if per_channel else tuple(range(wanted.ndim))
    start = np.full((wanted.shape[1], *(1,) * (wanted.ndim - 2)) if per_channel else (), HALF)
    for _ in range(ROUNDS):
        surplus = np.mean(count_spikes(drive, start) - wanted, axis=axes, dtype=np.float64)
        start = np.clip(start - surplus.reshape(start.shape), HALF - FARTHEST, HALF + FARTHEST)
    return freeze(np.round(start * 1024) / 1024)
