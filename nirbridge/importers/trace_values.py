"""What values and constants of a recording are: places, slices, states, zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nirbridge.errors import quoted
from nirbridge.importers.trace_record import Node, Value, torch_tensor

COPIES = frozenset({"detach", "detach_", "clone", "contiguous", "cpu", "float", "data", "requires_grad_", "alias"})
"""Functions that give what they are given."""


def thing_of(path: str) -> str:
    """How a message names a place."""
    return f"module {quoted(path)}" if path else "the module's forward"


def part_taken(value: Value) -> tuple[Value, int, int] | None:
    """(of what, axis, index) where a value is one slice of another: ``x[k]``, ``x[:, k]``, ``select``, ``unbind``."""
    node = value.node
    if node.kind != "function" or not node.args or not isinstance(node.args[0], Value):
        return None
    parent = node.args[0]
    rest = (*node.args[1:], *node.kwargs.values())
    if node.name == "unbind":
        return _at(parent, int(rest[0]) if rest else 0, value.output)
    if node.name == "select":
        return _at(parent, int(rest[0]), int(rest[1]))
    if node.name != "__getitem__":
        return None
    parts = rest[0] if isinstance(rest[0], tuple) else (rest[0],)
    ints = [k for k, p in enumerate(parts) if isinstance(p, int) and not isinstance(p, bool)]
    plain = all(k in ints or p is Ellipsis or p == slice(None) for k, p in enumerate(parts))
    if len(ints) != 1 or not plain or any(p is Ellipsis for p in parts[: ints[0]]):
        return None
    return _at(parent, ints[0], parts[ints[0]])


def _at(parent: Value, axis: int, index: int) -> tuple[Value, int, int]:
    rank = len(parent.shape)
    axis = axis % rank if rank else 0
    return parent, axis, index % parent.shape[axis] if rank and parent.shape[axis] else index


def first_input(node: Node) -> Any:
    """What a neuron works on: its first argument."""
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def uncopied(value: Value) -> Value:
    """The value behind copies."""
    while value.node.kind == "function" and value.node.name in COPIES:
        inner = first_input(value.node)
        if not isinstance(inner, Value):
            break
        value = inner
    return value


def states(node: Node) -> list[Any]:
    """Every tensor or value of the arguments behind the first."""
    return states_in(node.args, node.kwargs)


def states_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The same of arguments that are not those of a node yet."""
    rest = (args[1:], kwargs) if args else (tuple(kwargs.values())[1:], {})
    return list(_leaves(rest))


def _leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        structure = tuple(structure.values())
    if isinstance(structure, tuple):
        for inner in structure:
            yield from _leaves(inner)
    elif isinstance(structure, Value | torch_tensor()):
        yield structure
    elif hasattr(structure, "__dataclass_fields__"):
        for name in structure.__dataclass_fields__:
            yield from _leaves(getattr(structure, name))


def is_zero(constant: Any) -> bool:
    """True for None, 0 and tensors of zeros."""
    if constant is None:
        return True
    if isinstance(constant, torch_tensor()):
        return not bool(constant.any())
    return isinstance(constant, int | float) and constant == 0


def same_constant(a: Any, b: Any) -> bool:
    """True if two arguments that are no values are the same."""
    if a is b:
        return True
    if isinstance(a, torch_tensor()) and isinstance(b, torch_tensor()):
        return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
    try:
        return bool(a == b)
    except (TypeError, ValueError, RuntimeError):
        return False
