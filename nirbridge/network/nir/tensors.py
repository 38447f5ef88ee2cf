"""Graphs that hold tensors of torch, as frameworks' own exporters leave them; torch is not imported."""

from __future__ import annotations

import copy
from typing import Any


def without_tensors(graph: Any) -> Any:
    """The graph with NumPy arrays of the same values and types in place of tensors; itself where it has none."""
    return _changed(graph, _nested(vars(graph)))


def _changed(node: Any, values: dict[str, Any]) -> Any:
    if all(values[name] is value for name, value in vars(node).items()):
        return node
    node = copy.copy(node)
    vars(node).update(values)
    return node


def _nested(values: dict[Any, Any]) -> dict[Any, Any]:
    """The values of an object or a dict, each the same object where no tensor is in it."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        found = _nested(value)
        return value if all(found[key] is each for key, each in value.items()) else found
    if type(value).__module__.partition(".")[0] == "nir":
        return _changed(value, _nested(vars(value)))
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    plain = value.detach().cpu()
    return (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
