"""Linear NIR node of a path, lowered: an operator, a bias, a delay."""

from __future__ import annotations

from dataclasses import dataclass

from nirbridge.arrays import Array
from nirbridge.network.operators import Operator


@dataclass(frozen=True, slots=True, eq=False)
class LinearStep:
    """One linear node on a path. ``bias``: float64, output shape, or None where it is 0 everywhere.

    ``stored_bias`` is the exact bias of the whole path so far, where ``to_nir`` stored one. ``delay``: int64 steps,
    shape ``()`` or the node's. ``at_target`` and ``is_back`` are hints that ``to_nir`` leaves on a Delay.
    """

    name: str
    kind: str
    operator: Operator
    bias: Array | None = None
    stored_bias: Array | None = None
    delay: Array | None = None
    at_target: bool = False
    is_back: bool = False
