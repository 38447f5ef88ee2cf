"""Arrays as the stages take them: numpy arrays, or tensors of torch on any device."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def plain_arrays(arrays: object) -> Any:
    """The value with tensors of torch as numpy arrays, one alone or by name; other values unchanged."""
    if isinstance(arrays, Mapping):
        return {name: plain_arrays(value) for name, value in arrays.items()}
    torch: Any = sys.modules.get("torch")
    value: Any = arrays
    return value.detach().cpu().numpy() if torch is not None and isinstance(value, torch.Tensor) else value
