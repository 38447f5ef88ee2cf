"""The activation that a spike in every time step stands for, chosen on the user's data.

With scale s and T steps, a rectifier's value a is sent as ``min(round(a * T / s), T)`` spikes that count ``s / T`` each
(see ``count_spikes``): a small scale clips, a large one rounds coarsely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nirbridge.arrays import Array, freeze

ScaleChoice = float | Literal["max", "least-error"]
SEARCHED = 2_000_000
"""Most activations of a population that the search for the least error looks at (evenly spaced ones)."""
SEARCHED_IN_ALL = 5_000_000
"""The same over all populations."""
SHARES = np.linspace(0.25, 1.0, 46)
"""Shares of the largest activation that are tried as scale."""
SMALLEST = 1 / 64
"""Smallest scale of a channel as a share of the population's largest: weaker ones would clip all that is new."""


@dataclass(frozen=True, slots=True)
class ScaleOptions:
    """Choice of scales: a percentile (0 to 100), the maximum, or the least mean squared error at ``steps``.

    ``searched``: the most activations of a population that the search for the least error looks at.
    """

    choice: ScaleChoice
    steps: int
    per_channel: bool
    searched: int = SEARCHED


def choose_scale(values: Array, ceiling: float, options: ScaleOptions) -> Array:
    """Scales of a population from its activations ``[samples, *shape]``: shape ``(channels, 1, …)`` or ``()``.

    A channel is an element of the first axis. Channels that stayed 0 get the population's largest scale, and a
    population that stayed 0 gets 1. No scale is above ``ceiling``.
    """
    rows = _rows(values, options.per_channel)
    scales = _statistic(rows, options)
    largest = float(scales.max(initial=0.0))
    if largest <= 0.0:
        largest = 1.0
    scales = np.where(scales > 0, np.maximum(scales, SMALLEST * largest), largest)
    scales = np.minimum(scales, ceiling)
    if not options.per_channel:
        return freeze(scales[0], np.float64)
    return freeze(scales.reshape(-1, *(1,) * (values.ndim - 2)), np.float64)


def _rows(values: Array, per_channel: bool) -> Array:
    """``[channels, activations]``, one row where the whole population shares a scale."""
    return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1) if per_channel else values.reshape(1, -1)


def _statistic(rows: Array, options: ScaleOptions) -> Array:
    if options.choice == "max":
        return rows.max(axis=1).astype(np.float64)
    if options.choice == "least-error":
        return _least_error(rows, options)
    return np.percentile(rows, options.choice, axis=1).astype(np.float64)


def _least_error(rows: Array, options: ScaleOptions) -> Array:
    steps, every = options.steps, max(1, rows.size // options.searched)
    sample, top = rows[:, ::every], rows.max(axis=1).astype(np.float64)
    best, least = top.copy(), np.full(len(top), np.inf)
    sample = np.ascontiguousarray(sample)
    work = np.empty_like(sample)
    for share in SHARES:
        scale = np.maximum(share * top, 1e-30).astype(np.float32)[:, None]
        np.rint(np.multiply(sample, steps / scale, out=work), out=work)
        np.clip(work, 0, steps, out=work)
        work *= scale / steps
        work -= sample
        error = np.mean(np.square(work, out=work), axis=1)
        better = error < least
        best, least = np.where(better, share * top, best), np.where(better, error, least)
    return best


def clipped_share(values: Array, scale: Array) -> float:
    """Share of the positive activations that lie above their scale."""
    positive = int(np.count_nonzero(values > 0))
    return int(np.count_nonzero(values > scale * (1 + 1e-6))) / positive if positive else 0.0
