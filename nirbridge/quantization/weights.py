"""Rounding of real weights to the grid of a width: grid, factor, exponent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.quantization.formats import WeightGrid, grid_of
from nirbridge.quantization.model import SignMode

SINGLE = 1e-6
"""Tolerance of a grid, as a share of its end, for weights that came through single precision."""


@dataclass(frozen=True, slots=True)
class WeightRange:
    """The real weights of a projection: width, sign mode, least and greatest weight that is not clipped."""

    bits: int
    mode: SignMode
    low: float
    high: float

    @property
    def grid(self) -> WeightGrid:
        """The grid that they are rounded to."""
        return grid_of(self.bits, self.mode)

    @property
    def unit(self) -> float:
        """The real weight of integer 1 where the range fills the grid; 0 where all weights are 0."""
        grid = self.grid
        units = [self.high / grid.high] if grid.high else []
        return max([*units, self.low / grid.low if grid.low else 0.0], default=0.0)


def weight_range(weights: Array, bits: int, clip: float = 1.0) -> WeightRange:
    """The range of real weights; ``clip`` keeps this share of it (weights beyond are clipped)."""
    low, high = float(min(weights.min(initial=0.0), 0.0)), float(max(weights.max(initial=0.0), 0.0))
    mode: SignMode = "excitatory" if low == 0.0 else "inhibitory" if high == 0.0 else "mixed"
    return WeightRange(bits, mode, low * clip, high * clip)


def round_to_grid(weights: Array, factor: object, grid: WeightGrid) -> Array:
    """``weights * factor`` rounded to the nearest multiple of the grid's step (halves to the even), clipped; int64."""
    nearest = np.rint(weights * np.asarray(factor) / grid.step) * grid.step
    return freeze(np.clip(nearest, grid.low, grid.high).astype(np.int64))


def exponent_for(factor: float, unit: float) -> int:
    """The least exponent of 0 or more with which ``weights * factor / 2**exponent`` fits the grid."""
    if unit <= 0.0:
        return 0
    return max(0, math.ceil(math.log2(factor * unit) - SINGLE))


def quantum(values: Array, levels: int) -> float | None:
    """The largest q such that all values are whole multiples of it, at most ``levels`` of them; None: there is none.

    Values may be integers times a scale in single precision: a multiple is met within 1e-6 of the largest value.
    """
    sizes = np.unique(np.abs(values[values != 0]))
    if not len(sizes):
        return None
    top, q = float(sizes[-1]), float(sizes[0])
    floor = top / levels * (1 - 1e-6)
    for size in sizes[1:].tolist():
        q = _common(size, q, top * SINGLE)
        if q < floor:
            return None
    q = top / round(top / q)
    return q if q >= floor and bool(np.all(np.abs(values / q - np.rint(values / q)) * q <= top * SINGLE)) else None


def _common(a: float, b: float, tolerance: float) -> float:
    """Greatest common divisor of two positive numbers, up to a tolerance."""
    while b > tolerance:
        a, b = b, abs(a - round(a / b) * b)
    return a
