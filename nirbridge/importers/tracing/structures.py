"""Arguments and results of torch functions: tensors and values in tuples, lists, dicts and dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_FIRST = ("input", "tensors")
_LATER = frozenset({"condition"})
"""Names of arguments in front of ``input`` (``torch.where``)."""


def torch_tensor() -> type:
    """``torch.Tensor``."""
    import torch

    return torch.Tensor


def members_of(structure: Any) -> list[tuple[str, Any]]:
    """(Key or position, member) of a container or a dataclass, in order; empty for anything else."""
    if isinstance(structure, Mapping):
        return [(str(key), member) for key, member in structure.items()]
    if isinstance(structure, tuple | list):
        keys = getattr(structure, "_fields", None) or range(len(structure))
        return [(str(key), member) for key, member in zip(keys, structure, strict=True)]
    if is_dataclass(structure) and not isinstance(structure, type):
        return [(f.name, getattr(structure, f.name)) for f in fields(structure)]
    return []


def tensors_of(structure: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor of a structure, in order, with a name made of keys and positions."""
    if isinstance(structure, torch_tensor()):
        yield name, structure
        return
    for key, member in members_of(structure):
        yield from tensors_of(member, f"{name}_{key}" if name else key)


def instances_of(structure: Any, kinds: Any) -> Iterator[Any]:
    """Every instance of ``kinds`` in a structure, in order."""
    if isinstance(structure, kinds):
        yield structure
        return
    for _, member in members_of(structure):
        yield from instances_of(member, kinds)


def match(a: Any, b: Any, is_same: Callable[[Any, Any], bool]) -> bool:
    """True if two structures of tuples and mappings have one form, and ``is_same`` for each pair of members."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(match(x, y, is_same) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(match(a[key], b[key], is_same) for key in a)
    return is_same(a, b)


def without_values(structure: Any) -> Any:
    """The structure with tensors of the same shapes that hold no values, to compute the shape of a result."""
    from torch.utils import _pytree as pytree

    return pytree.tree_map_only(torch_tensor(), lambda tensor: tensor.to("meta"), structure)


def by_position(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a torch function with the first one by position.

    torch calls it ``input``, or ``tensors`` where there are many, as in ``torch.flatten(input=x)``.
    """
    name = next((name for name in _FIRST if name in kwargs), None)
    if args or name is None or not _LATER.isdisjoint(kwargs):
        return args, kwargs
    return (kwargs[name],), {key: value for key, value in kwargs.items() if key != name}
