"""Number formats of a chip: limits of states, grids of weights."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from nirbridge.chips.model import Chip, NumberFormats
from nirbridge.errors import UsageError, quoted
from nirbridge.quantization.model import SignMode

DECAY_ONE = 4096
"""Decays are parts of this."""
INPUT_SHIFT = 6
"""``a_in`` is multiplied by 64 before it reaches the current; thresholds count in the same unit."""


@dataclass(frozen=True, slots=True)
class WeightGrid:
    """The weights that a width and a sign mode allow: multiples of ``step`` from ``low`` to ``high``."""

    step: int
    low: int
    high: int


def grid_of(weight_bits: int, sign_mode: SignMode) -> WeightGrid:
    """The grid of a width, as Lava 0.10.0 truncates weights: the ``8 - bits + mixed`` low bits are always 0."""
    step = 1 << (8 - weight_bits + (sign_mode == "mixed"))
    least = {"mixed": -256, "excitatory": 0, "inhibitory": -(256 - step)}[sign_mode]
    return WeightGrid(step, least, 0 if sign_mode == "inhibitory" else 256 - step)


def formats_of(chip: Chip) -> NumberFormats:
    """The number formats of a chip. Raises UsageError where its file has none."""
    if chip.numbers is None:
        subject = f"chip {quoted(chip.name)}"
        raise UsageError.of(subject, "no number formats", "its file has no [numbers]", "add them, see docs/chips.md")
    return chip.numbers


def plain_formats(chip: Chip) -> dict[str, object]:
    """The number formats as plain data, for files and reports."""
    return dataclasses.asdict(formats_of(chip))


def signed_max(bits: int) -> int:
    """The largest value of a signed number of ``bits`` bits; the smallest is its negative."""
    return (1 << (bits - 1)) - 1


def threshold_max(numbers: NumberFormats) -> int:
    """The largest threshold, in units of v."""
    return ((1 << numbers.vth_bits) - 1) << INPUT_SHIFT


def bias_max(numbers: NumberFormats) -> int:
    """The largest constant drive, in units of v."""
    return signed_max(numbers.bias_mant_bits) << numbers.bias_exp_max
