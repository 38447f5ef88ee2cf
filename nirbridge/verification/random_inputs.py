"""Random inputs in the value range of the sample, and derived ones that make neurons fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError

DENSITY = 0.3
"""Share of ones where the sample has none (zeros that only state a shape)."""
GAINS = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Factors on the values; a louder one is taken where more neurons fire with it: untrained weights are small."""
LOUDER = 3.0
"""A further factor on derived inputs, so that some membranes pass their thresholds by far."""


def draw_values(sample: Array, shape: tuple[int, ...], seed: int, *, derived: bool, gain: float) -> Array:
    """Values as the sample has them: spikes of its density where it holds 0 and 1 alone, else draws of its values.

    ``derived``: uniform between its smallest and its largest value (0 and 1 for spikes) instead; in every time step and
    sample another share of the values, from a few to all, and another loudness, from 1 to above ``gain``: neurons fire
    that only some of the inputs excite, and membranes lie close to their thresholds as well as far above.
    Values are float32 numbers, so that every precision computes with the same ones.
    """
    source = np.random.default_rng(seed)
    flat = np.asarray(sample, np.float64).reshape(-1)
    is_binary = bool(np.all((flat == 0) | (flat == 1)))
    if derived:
        low, high = (0.0, 1.0) if is_binary else (float(flat.min()), float(flat.max()))
        each = (*shape[:2], *(1 for _ in shape[2:]))
        share, loudness = source.uniform(0, 1, each) ** 2, np.exp(source.uniform(0, np.log(LOUDER * gain), each))
        values = source.uniform(low, high, shape) * (source.random(shape) < share) * loudness / gain
    elif is_binary:
        share = float(flat.mean())
        values = (source.random(shape) < (share if 0 < share < 1 else DENSITY)).astype(np.float64)
    else:
        values = source.choice(flat, shape)
    return np.asarray(values * gain, np.float32).astype(np.float64)


def finite_samples(samples: Sequence[Any]) -> list[Array]:
    """The sample's tensors or arrays as finite float64 arrays; NaN and infinity count as 0. Raises UsageError."""
    try:
        arrays = [np.asarray(s.detach().cpu().numpy() if hasattr(s, "detach") else s, np.float64) for s in samples]
    except (TypeError, NotImplementedError, RuntimeError) as error:
        hint = "give a dense tensor with values, such as torch.zeros(shape)"
        raise UsageError.of("sample", f"its values cannot be read ({type(error).__name__})", "", hint) from None
    return [np.where(np.isfinite(a), a, 0.0) for a in arrays]
