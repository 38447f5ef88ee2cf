"""Arguments and results of torch functions: tensors and values in tuples, lists, dicts and dataclasses; stand-ins.

A recording is about which value goes where. No value of a layer decides that (a forward that asks one for its number is
refused), so a large sum of products need not be computed. Random numbers that differ from run to run show, as computed
values would, where a number of the data went around the recording.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

_FIRST = ("input", "tensors")
_LATER = frozenset({"condition"})
"""Names of arguments in front of ``input`` (``torch.where``)."""
_POSITIONS = tuple(map(str, range(64)))


def torch_tensor() -> type:
    """``torch.Tensor``."""
    import torch

    return torch.Tensor


def untracked() -> Any:
    """A context in which a recording asks tensors for their shapes and bytes without recording that it does."""
    import torch

    return torch._C.DisableTorchFunction()


def members_of(structure: Any) -> list[tuple[str, Any]]:
    """(Key or position, member) of a container or a dataclass, in order; empty for anything else."""
    if type(structure) in (tuple, list) and len(structure) <= len(_POSITIONS):  # most of them
        return list(zip(_POSITIONS, structure, strict=False))
    if isinstance(structure, tuple | list):
        keys = getattr(structure, "_fields", None) or range(len(structure))
        return [(str(key), member) for key, member in zip(keys, structure, strict=True)]
    if isinstance(structure, (dict, Mapping)):  # dict first: an abstract class is slow to ask
        return [(str(key), member) for key, member in structure.items()]
    if is_dataclass(structure) and not isinstance(structure, type):
        return [(f.name, getattr(structure, f.name)) for f in fields(structure)]
    return []


def tensors_of(structure: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor of a structure, in order, with a name made of keys and positions."""
    found: list[tuple[str, Any]] = []
    _gather(structure, name, torch_tensor(), found)
    return iter(found)


def _gather(structure: Any, name: str, kind: type, found: list[tuple[str, Any]]) -> None:
    if isinstance(structure, kind):
        found.append((name, structure))
        return
    for key, member in members_of(structure):
        if _may_hold(type(member), kind):
            _gather(member, f"{name}_{key}" if name else key, kind, found)


@lru_cache(maxsize=1024)
def _may_hold(member: type, kind: type) -> bool:
    """True if a value of the type is, or has members that may be, of ``kind``."""
    return issubclass(member, (kind, tuple, list, Mapping)) or is_dataclass(member)


def instances_of(structure: Any, kinds: Any) -> Iterator[Any]:
    """Every instance of ``kinds`` in a structure, in order."""
    if isinstance(structure, kinds):
        yield structure
        return
    for _, member in members_of(structure):
        yield from instances_of(member, kinds)


def mapped(structure: Any, kinds: Any, change: Callable[[Any], Any]) -> Any:
    """The structure of tuples and mappings with what ``change`` makes of every instance of ``kinds``."""
    if isinstance(structure, kinds):
        return change(structure)
    if isinstance(structure, tuple):
        return tuple(mapped(member, kinds, change) for member in structure)
    if isinstance(structure, Mapping):
        return {name: mapped(member, kinds, change) for name, member in structure.items()}
    return structure


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


def bound_arguments(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments | None:
    """The arguments in the order of the signature, with defaults; None where they do not fit it."""
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    return bound


def is_all_state(bound: inspect.BoundArguments | None, *, keeps: bool) -> bool:
    """True if a call depends on nothing but its arguments: a module that keeps its state is given all of it."""
    rest = [*bound.args, *bound.kwargs.values()][1:] if bound else []  # those of *args and **kwargs one by one
    return not keeps or (bool(rest) and all(value is not None for value in rest))


def function_name(func: Any) -> str:
    """``add`` for ``torch.add`` and ``Tensor.add``; the attribute's name for a property of a tensor."""
    name = getattr(func, "__name__", type(func).__name__)
    owner = getattr(func, "__self__", None)
    return str(getattr(owner, "__name__", name)) if name in ("__get__", "__set__") else str(name)


def handed_over_arguments(result: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arguments of the next call from the outputs of the last: by name, else in order after its first output."""
    if isinstance(result, Mapping):
        named = {name: result[name] for name in names if name in result}
        return named or handed_over_arguments(tuple(result.values()), names)
    if not isinstance(result, tuple | list):
        return {}
    rest = result[1:]
    return dict(zip(names, rest[max(0, len(rest) - len(names)) :], strict=False))


LARGE = 2**24
"""Multiplications from which a layer is not computed."""
_LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv3d"})
_BLOCK = 65_521


class RandomResults:
    """Random results, from the seed that torch was given last."""

    def __init__(self) -> None:
        self.block: Any = None

    def result(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of ``func``, or random numbers of its shape if it is a large layer."""
        if name not in _LAYERS:
            return func(*args, **kwargs)
        x = args[0] if args else kwargs.get("input")
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        if not (_is_plain(x) and _is_plain(weight)) or _multiplications(name, x, weight) < LARGE:
            return func(*args, **kwargs)
        shape = tuple(func(*without_values(tuple(args)), **without_values(dict(kwargs))).shape)
        return self._random(shape, x)

    def _random(self, shape: tuple[int, ...], like: Any) -> Any:
        import torch

        if self.block is None:
            source = torch.Generator().manual_seed(torch.initial_seed())
            self.block = torch.randn(_BLOCK, generator=source)
        out = torch.empty(shape, dtype=like.dtype)
        flat = out.view(-1)
        for start in range(0, len(flat), _BLOCK):
            part = flat[start : start + _BLOCK]
            part.copy_(self.block[: len(part)])
        return out


def fill_with_spikes(tensor: Any, source: Any) -> None:
    """Fills a tensor with zeros and ones by chance."""
    with untracked():
        is_real = tensor.is_floating_point()
    if is_real:
        tensor.random_(0, 2, generator=source)


def _is_plain(tensor: Any) -> bool:
    return isinstance(tensor, torch_tensor()) and tensor.device.type == "cpu" and tensor.is_floating_point()


def _multiplications(name: str, x: Any, weight: Any) -> int:
    """Multiplications of a layer; of a convolution, as if its stride were its kernel and its groups one."""
    return x.numel() * weight.shape[0] if name != "linear" or weight.ndim > 1 else 0


# --- indices --------------------------------------------------------------------------------------------------------

_ALL = slice(None)


def single_indices(index: Any, rank: int) -> list[Any]:
    """Indices that select the same one after the other; the index itself where it has one part, or any computed part.

    A list of numbers becomes a tensor, one of a single number a slice.
    """
    parts = _without_lists([_number(p) for p in (index if isinstance(index, tuple) else (index,))])
    whole = tuple(parts) if isinstance(index, tuple) else parts[0]
    if not all(p is None or p is Ellipsis or _is_basic(p) for p in parts):
        return [whole]
    count = sum(p is not None and p is not Ellipsis for p in parts)
    if count > rank or sum(p is Ellipsis for p in parts) > 1:
        return [whole]  # torch says so
    dots = next((k for k, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[dots : dots + 1] = [_ALL] * (rank - count)
    singles: list[Any] = []
    place = 0
    for part in (p for p in parts if p is not None):
        singles += [(*(_ALL,) * place, part)] if part != _ALL else []
        place += isinstance(part, slice)
    if None in parts:
        singles.append(tuple(_ALL if p is not None else None for p in parts if not isinstance(p, int)))
    return singles if len(singles) > 1 else [whole]


def _is_basic(part: Any) -> bool:
    """True for a number, and for a slice between numbers."""
    if isinstance(part, slice):
        return all(n is None or isinstance(n, int) for n in (part.start, part.stop, part.step))
    return isinstance(part, int) and not isinstance(part, bool)


def _number(part: Any) -> Any:
    """A tensor of one number without axes as the number."""
    number = only_number(part) if isinstance(part, torch_tensor()) and not part.ndim else None
    return part if number is None else number


def _without_lists(parts: list[Any]) -> list[Any]:
    """The parts with a list as a tensor; with a list or tensor of one number, beside slices alone, as a slice."""
    import torch

    several = [k for k, p in enumerate(parts) if isinstance(p, list | torch_tensor())]
    if len(several) != 1:
        return parts
    place, part = several[0], parts[several[0]]
    is_beside_slices = all(
        p is None or p is Ellipsis or isinstance(p, slice) for k, p in enumerate(parts) if k != place
    )
    if isinstance(part, list):
        if not part or not all(isinstance(n, int) for n in part):
            return parts
        part = torch.tensor(part)
    number = only_number(part) if is_beside_slices and part.ndim == 1 else None
    found = part if number is None else slice(number, number + 1 or None)
    return [*parts[:place], found, *parts[place + 1 :]]


def only_number(index: Any) -> int | None:
    """The number that a tensor of one whole number holds, else None."""
    if not isinstance(index, torch_tensor()) or index.numel() != 1:
        return None
    return None if index.is_floating_point() or str(index.dtype) == "torch.bool" else int(index)


# --- writes --------------------------------------------------------------------------------------------------------

_IN_PLACE = frozenset({"__iadd__", "__isub__", "__imul__", "__itruediv__"})


def is_in_place(name: str) -> bool:
    """True for functions that change their first argument: ``add_``, ``a += b``."""
    return name in _IN_PLACE or (name.endswith("_") and not name.startswith("__"))


def is_write(func: Any, name: str) -> bool:
    """True for functions that write into their first argument, or into part of it."""
    is_new_data = name == "data" and getattr(func, "__name__", "") == "__set__"
    return is_new_data or name == "__setitem__" or (is_in_place(name) and name != "requires_grad_")


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
