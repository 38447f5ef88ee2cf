"""Some of scikit-learn's digits as the spikes that the example models were measured on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

from nirbridge.arrays import Array


def some_digits(root: Path, shape: tuple[int, ...], count: int) -> tuple[Array, Array]:
    """Spikes ``[steps, count, *shape]`` and labels of the first test images."""
    spec = importlib.util.spec_from_file_location("digits_of_the_examples", root / "examples" / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits_of_the_examples"] = module
    spec.loader.exec_module(module)
    values, labels = module.test_spikes()
    values = values[:, :count].reshape(len(values), count, *shape)
    return np.ascontiguousarray(values), labels[:count]
