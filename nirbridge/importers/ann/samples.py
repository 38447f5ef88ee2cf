"""How many of the user's samples each stage of a conversion looks at: all that are given, unless a network is large."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.operators import Conv, Dense, Operator, Sparse

KEPT_ELEMENTS = 50_000_000
"""Activations of the measured samples that are kept, over all populations."""
DRIVE_ELEMENTS = 30_000_000
"""Inputs of a population over steps and samples that are held at once."""
WORK = 5e9
"""Multiplications spent on running the converted network."""
FEWEST, MOST = 2, 256
"""Samples that are run as spikes."""
SEEN_WORK, SEEN_FEWEST = 1e10, 32
"""Multiplications spent on activations that scales of least error are searched on, and the fewest samples for them."""
CHECKED_WORK, CHECKED_FEWEST = 2.5e9, 8
"""The same for the comparison of what was read with the module itself."""


def some(data: Mapping[str, Array], samples: Array) -> dict[str, Array]:
    """The data of these samples."""
    return {name: values[samples] for name, values in data.items()}


def seen_samples(network: Network, samples: int, *, searches: bool) -> Array:
    """Which of so many samples scales are chosen on: all for a maximum or a percentile, which the user asked for."""
    allowed = int(SEEN_WORK / _work(network)) if searches else samples
    return _spread(samples, max(SEEN_FEWEST, allowed))


def checked_samples(network: Network, samples: int) -> Array:
    """Which of so many samples the module itself runs, beside what was read of it."""
    return _spread(samples, max(CHECKED_FEWEST, int(CHECKED_WORK / _work(network))))


def measured_samples(network: Network, samples: int, steps: int) -> Array:
    """Which of so many samples are run as spikes: as many as memory and time allow."""
    largest = max((p.size for p in network.populations), default=1)
    allowed = (
        KEPT_ELEMENTS // max(1, network.neurons),
        DRIVE_ELEMENTS // (largest * steps),
        int(WORK / (_work(network) * steps)),
    )
    return _spread(samples, max(FEWEST, min(MOST, *allowed)))


def _spread(samples: int, wanted: int) -> Array:
    """Evenly spaced ones of so many samples."""
    return np.linspace(0, samples - 1, min(samples, wanted)).astype(np.int64)


def _work(network: Network) -> int:
    return 1 + sum(multiplications(p.operator) for p in network.projections)


def multiplications(operator: Operator) -> int:
    """Multiplications of one application."""
    total = 0
    for part in parts_of(operator):
        if isinstance(part, Dense):
            total += part.weight.size
        elif isinstance(part, Conv):
            total += part.weight.size * math.prod(part.output_shape[1:])
        else:
            total += part.data.size if isinstance(part, Sparse) else math.prod(part.output_shape)
    return total
