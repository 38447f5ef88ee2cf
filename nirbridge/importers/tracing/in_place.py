"""Functions that write into a tensor, and the slice of another that such a tensor is."""

from __future__ import annotations

from typing import Any

_IN_PLACE = frozenset({"__iadd__", "__isub__", "__imul__", "__itruediv__"})


def is_in_place(name: str) -> bool:
    """True for functions that change their first argument: ``add_``, ``a += b``."""
    return name in _IN_PLACE or (name.endswith("_") and not name.startswith("__"))


def index_in(whole: Any, part: Any) -> tuple[Any, ...] | None:
    """The index of a slice along one axis of a tensor; None where it is another part."""
    offset = part.storage_offset() - whole.storage_offset()
    for axis, (size, stride) in enumerate(zip(whole.shape, whole.stride(), strict=True)):
        rest = [n for k, n in enumerate(zip(whole.shape, whole.stride(), strict=True)) if k != axis]
        if rest == list(zip(part.shape, part.stride(), strict=True)) and stride and 0 <= offset // stride < size:
            return None if offset % stride else (*(slice(None),) * axis, offset // stride)
    return None


def overwrites(func: Any, name: str) -> bool:
    """``a.copy_(b)`` and ``a.data = b``: from then on a is b."""
    return name == "copy_" or getattr(func, "__name__", "") == "__set__"
