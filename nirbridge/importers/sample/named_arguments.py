"""First arguments of torch functions that were given by name, as in ``torch.flatten(input=x)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIRST = ("input", "tensors")
_LATER = frozenset({"condition"})
"""Names of arguments in front of ``input`` (``torch.where``)."""


def by_position(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The same arguments, the first one by position; torch calls it ``input``, or ``tensors`` where there are many."""
    name = next((name for name in _FIRST if name in kwargs), None)
    if args or name is None or not _LATER.isdisjoint(kwargs):
        return args, kwargs
    return (kwargs[name],), {key: value for key, value in kwargs.items() if key != name}
