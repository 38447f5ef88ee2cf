"""Values and constants of a trace: slices, states, zeros; and several uses of one neuron module.

A neuron module may be called several times per time step, each time with its own state: these are uses, distinguished
by the state that a call is given. If that is the state that the module returned before, the call belongs to the same
use. If it is zeros (or None, and the module keeps no state), it starts a use: the k-th start within a call of forward
is that of use k. A module that keeps its state shares it between all calls: these are one use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nirbridge.errors import Diagnostic
from nirbridge.importers.neuron_specs import place_label
from nirbridge.importers.tracing.arguments import call_argument
from nirbridge.importers.tracing.recorder import RING, ForwardTrace, TracedCall, TracedValue
from nirbridge.importers.tracing.structures import instances_of, is_in_place, mapped, only_number, torch_tensor

COPIES = frozenset(
    {"detach", "detach_", "clone", "contiguous", "cpu", "float", "data", "requires_grad_", "alias", "__deepcopy__"}
)
"""Functions that return their input unchanged."""
WRITES = frozenset({"__setitem__", "select_scatter", "index_copy", "index_copy_"})
"""Functions that write into part of a tensor."""


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """A value that is one slice of another: ``x[k]``, ``x[:, k]``, ``x[..., k:k + 1]``, ``select``, ``unbind``.

    ``parent``: a value, or a tensor that is none. ``is_kept``: the axis is still there, with size one.
    """

    parent: Any
    axis: int
    index: int
    is_kept: bool = False


def slice_of(value: TracedValue) -> AxisSlice | None:
    """The slice that a value is of another (axis, index); None where it is no slice."""
    node = value.node
    if node.kind != "function" or not node.args or not isinstance(node.args[0], TracedValue):
        return None
    parent = node.args[0]
    if node.name == "unbind":
        return _at(parent, call_argument(node, 1, "dim", 0), value.output)
    if node.name == "select":
        return _at(parent, call_argument(node, 1, "dim", None), call_argument(node, 2, "index", None))
    if node.name in ("split", "chunk", "tensor_split", "split_with_sizes"):
        return _chunk(value, parent, call_argument(node, 2, "dim", 0))
    if node.name == "narrow":
        start, length = call_argument(node, 2, "start", None), call_argument(node, 3, "length", None)
        return _at(parent, call_argument(node, 1, "dim", None), start, is_kept=True) if length == 1 else None
    if node.name == "index_select":
        index = only_number(call_argument(node, 2, "index", None))
        return _at(parent, call_argument(node, 1, "dim", None), index, is_kept=True)
    if node.name != "__getitem__" or len(node.args) < 2:
        return None
    return item_slice(parent, node.args[1])


def _chunk(value: TracedValue, parent: TracedValue, dim: Any) -> AxisSlice | None:
    part = _at(parent, dim, value.output, is_kept=True)
    sizes = {shape[part.axis] for shape in value.node.shapes} if part else set()
    return part if sizes == {1} else None


def item_slice(parent: Any, index: Any) -> AxisSlice | None:
    """``parent[index]`` where all but one of the axes of ``parent`` are taken whole."""
    shape = parent.shape
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(p is None or isinstance(p, TracedValue | torch_tensor() | tuple) for p in parts):
        return None
    dots = [k for k, p in enumerate(parts) if p is Ellipsis]
    if dots:
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    partial = [(k, p) for k, p in enumerate(parts) if p != slice(None)]
    if len(partial) != 1:
        return None
    axis, part = partial[0]
    if axis >= len(shape):
        return None
    if not isinstance(part, slice):
        return _at(parent, axis, part) if shape[axis] else None
    start, stop, step = part.indices(shape[axis])
    return AxisSlice(parent, axis, start, is_kept=True) if (stop - start, step) == (1, 1) else None


def write_of(node: TracedCall) -> tuple[Any, AxisSlice | None, Any]:
    """(Tensor, the slice of it that is written, what is written) of a call that writes; a slice of None: any other."""
    buffer = node.args[0]
    if node.name == "__setitem__":
        return buffer, item_slice(buffer, node.args[1]), node.args[2]
    if node.name == "select_scatter":
        place = _at(buffer, call_argument(node, 2, "dim", None), call_argument(node, 3, "index", None))
        return buffer, place, call_argument(node, 1, "src")
    index = only_number(call_argument(node, 2, "index", None))
    place = _at(buffer, call_argument(node, 1, "dim", None), index, is_kept=True)
    return buffer, place, call_argument(node, 3, "source")


JOINS = frozenset({"cat", "concat", "concatenate"})
"""Functions that put tensors together along an axis that they have."""


def rows_of(value: Any, axis: int) -> list[Any] | None:
    """The slices of a tensor along an axis, constants or values, where each was put there whole."""
    if isinstance(value, torch_tensor()):
        return list(value.unbind(axis))
    value = uncopied(value) if isinstance(value, TracedValue) else None
    node = None if value is None else value.node
    if node is None or not node.args:
        return None
    if node.name == RING:
        return list(node.args[0]) if node.args[1] == axis else None
    if node.name in WRITES:
        buffer, place, item = write_of(node)
        is_row = place is not None and (place.axis, place.is_kept) == (axis, False)
        return _with_row(rows_of(buffer, axis), place, item) if is_row else None
    if node.name in JOINS and call_argument(node, 1, "dim", node.kwargs.get("axis", 0)) % len(node.shapes[0]) == axis:
        return _joined(rows_of(part, axis) for part in node.args[0])
    is_row = node.name == "unsqueeze" and call_argument(node, 1, "dim") % len(node.shapes[0]) == axis
    return [node.args[0]] if is_row or (node.name, node.args[1:], axis) == ("__getitem__", (None,), 0) else None


def _joined(parts: Iterable[list[Any] | None]) -> list[Any] | None:
    found = list(parts)
    return None if None in found else [row for rows in found if rows is not None for row in rows]


def _with_row(rows: list[Any] | None, place: AxisSlice | None, item: Any) -> list[Any] | None:
    if rows is None or place is None or getattr(item, "shape", None) != rows[place.index].shape:
        return None
    return [*rows[: place.index], item, *rows[place.index + 1 :]]


def kept_rows(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any] | None, int]:
    """(Rows, their axis) of the result of a call that moves or writes rows of a tensor; None for any other call."""
    source = args[0] if args else None
    if name in JOINS and isinstance(source, tuple):
        axis = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
        axis %= max(len(part.shape) for part in source)
        is_kept = any(isinstance(p, torch_tensor()) or p.node.name == RING for p in source)
        is_kept = is_kept and all(0 not in part.shape for part in source)  # a tensor that grows starts empty
        return (_joined(rows_of(part, axis) for part in source) if is_kept else None), axis
    if not isinstance(source, TracedValue):
        return None, 0
    if name == "__setitem__" and source.node.name == RING:
        place = item_slice(source, args[1])
        return (_with_row(rows_of(source, place.axis), place, args[2]) if place else None), source.node.args[1]
    if name == "roll":
        given = [args[k] if len(args) > k else kwargs.get(n) for k, n in ((1, "shifts"), (2, "dims"))]
        only: list[Any] = [v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in given]
        shift, axis = only
        axis = axis % len(source.shape) if isinstance(axis, int) else -1
        rows = rows_of(source, axis) if axis >= 0 and isinstance(shift, int) else None
        return (rows and [rows[k] for k in np.roll(np.arange(len(rows)), shift)]), axis
    return _picked_rows(source, args[1]) if name == "__getitem__" else (None, 0)


def _picked_rows(source: TracedValue, index: Any) -> tuple[list[Any] | None, int]:
    """The rows at a range, or at a list of positions, along one axis."""
    parts = index if isinstance(index, tuple) else (index,)
    partial = [k for k, part in enumerate(parts) if not isinstance(part, slice) or part != slice(None)]
    axis = partial[0] if len(partial) == 1 else 0
    part = parts[axis] if parts else None
    if len(partial) != 1 or isinstance(part, TracedValue) or not isinstance(part, slice | tuple | torch_tensor()):
        return None, axis
    rows = None if source.node.name in JOINS else rows_of(source, axis)  # a join of time steps alone is a series
    return (rows and [rows[k] for k in np.arange(len(rows))[list(part) if isinstance(part, tuple) else part]]), axis


def read_back(buffer: TracedValue, index: Any) -> tuple[Any, ...]:
    """The value last written into a slice of a tensor, or the slice as it was at first; empty if that is not known."""
    place = item_slice(buffer, index)
    rows = rows_of(buffer, place.axis) if place and not place.is_kept and buffer.node.name in JOINS | {RING} else None
    if place is not None and rows:
        return (rows[place.index],)
    now: Any = buffer
    while place is not None and isinstance(now, TracedValue) and now.node.name in WRITES:
        inner, written, item = write_of(now.node)
        if written is None or (written.axis, written.is_kept) != (place.axis, place.is_kept):
            return ()
        if written.index == place.index:
            return (item,)
        now = inner
    start: Any = now
    return (start[index],) if place is not None and isinstance(start, torch_tensor()) else ()


def _at(parent: TracedValue, axis: Any, index: Any, *, is_kept: bool = False) -> AxisSlice | None:
    rank = len(parent.shape)
    if any(isinstance(k, bool) or not isinstance(k, int) for k in (axis, index)) or not rank:
        return None
    return AxisSlice(parent, axis % rank, index % parent.shape[axis % rank], is_kept)


def first_input(node: TracedCall) -> Any:
    """The input of a neuron: its first argument."""
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def uncopied(value: TracedValue) -> TracedValue:
    """The original of a value that was copied."""
    while value.node.kind == "function" and value.node.name in COPIES:
        inner = first_input(value.node)
        if not isinstance(inner, TracedValue):
            break
        value = inner
    return value


def states(node: TracedCall) -> list[Any]:
    """Every tensor, value or number among the arguments after the first."""
    return states_in(node.args, node.kwargs)


def states_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The same of arguments that are not those of a node yet."""
    return [state for state in passed_states(args, kwargs) if state is not None]


def passed_states(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The states, and the Nones in place of states, in the order of the arguments."""
    rest = (args[1:], kwargs) if args else (tuple(kwargs.values())[1:], {})
    passed = instances_of(rest, TracedValue | torch_tensor() | int | float | type(None))
    return [state for state in passed if not isinstance(state, bool)]


def result_of(value: TracedValue, given: Callable[[TracedValue], Any]) -> Any:
    """A value computed again, with other numbers in place of traced ones; none of these is written to."""
    import torch

    node = value.node
    args, kwargs = mapped((node.args, dict(node.kwargs)), TracedValue, given)
    if is_in_place(node.name):
        args = (args[0].clone(), *args[1:])
    with torch.no_grad():
        result = written(*args) if node.name == "__setitem__" else node.func(*args, **kwargs)
    return result if isinstance(result, torch.Tensor) else result[value.output]


def written(buffer: Any, mask: Any, value: Any) -> Any:
    """The buffer with a value where the mask holds."""
    import torch

    return torch.where(mask, torch.as_tensor(value, dtype=buffer.dtype), buffer)


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


_MARK = " (use "
_ADVICE = "pass each use the state that it returned in the previous time step, initially zeros"


def module_path(path: str) -> str:
    """The path of the module itself, of a path that says which use."""
    return path.partition(_MARK)[0]


@dataclass(slots=True)
class ModuleUses:
    """Which use a call is, while a forward runs; ``started``, ``continued``: of each module in this call of forward."""

    started: dict[str, int] = field(default_factory=dict)
    continued: set[str] = field(default_factory=set)
    call: int = -1

    def path(self, path: str, arguments: tuple[tuple[Any, ...], Mapping[str, Any]], call: int, is_whole: bool) -> str:
        """The path of the use: that of the module for the first one.

        Args:
            path: the module's.
            arguments: its positional and its named arguments, values in the place of traced tensors.
            call: number of the call of forward.
            is_whole: whether the arguments are all of its state.
        """
        if call != self.call:
            self.started, self.continued, self.call = {}, set(), call
        handed = states_in(*arguments)
        is_own = any(isinstance(state, TracedValue) for state in handed)
        self.continued |= {path} if is_own else set()
        if is_own and is_whole:
            return _own(path, handed)
        if not is_whole or path in self.continued or not all(is_zero(state) for state in handed):
            return path
        number = self.started[path] = self.started.get(path, 0) + 1
        return path if number == 1 else f"{path}{_MARK}{number})"


def _own(path: str, handed: list[Any]) -> str:
    """The use that all states come from; the first where they come from elsewhere, which is refused later."""
    paths = {uncopied(state).node.path for state in handed if isinstance(state, TracedValue)}
    use = min(paths)
    return use if len(paths) == 1 and module_path(use) == path else path


def never_handed_on(trace: ForwardTrace) -> list[Diagnostic]:
    """Modules of several uses whose states start anew each time: nothing says which use goes on as which."""
    nodes = trace.neurons()
    several = {module_path(path) for path in nodes if path != module_path(path)}
    lost = [path for path in nodes if not any(isinstance(s, TracedValue) for node in nodes[path] for s in states(node))]
    places = dict.fromkeys(module_path(path) for path in lost if module_path(path) in several)
    text = "it is called several times per time step, each time with a new state"
    return [
        Diagnostic(place_label(p), text, "uses of one module are distinguished by their states", _ADVICE)
        for p in places
    ]
