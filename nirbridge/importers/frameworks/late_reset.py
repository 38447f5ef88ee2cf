"""A subtraction that a framework makes after the decay of the next time step, as one that is made at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.neuron_specs import Recurrence
from nirbridge.network.operators import Scale


def late_subtraction(decay: Array, theta: Array, shape: Shape, gain: Any) -> tuple[Array, tuple[Recurrence, ...]]:
    """The amount th / b taken off at once; where b = 0, a connection of -th onto the neuron itself instead."""
    forgets = decay == 0
    amount = np.where(forgets, 0.0, theta / np.where(forgets, 1.0, decay))
    if not bool(np.any(forgets)):
        return amount, ()
    back = np.where(forgets, -theta / np.where(np.asarray(gain) == 0, 1.0, gain), 0.0)
    return amount, (Recurrence(Scale(freeze(np.broadcast_to(back, shape)))),)
