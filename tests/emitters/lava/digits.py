"""Some of scikit-learn's digits as the spikes on which the example models were measured."""

from __future__ import annotations

import numpy as np

from examples import digits
from nirbridge.arrays import Array


def some_digits(shape: tuple[int, ...], count: int) -> tuple[Array, Array]:
    """Spikes ``[steps, count, *shape]`` and labels of the first test images."""
    values, labels = digits.test_spikes()
    values = values[:, :count].reshape(len(values), count, *shape)
    return np.ascontiguousarray(values), labels[:count]
