"""Functions at the end of forward that no network computes, and that the host applies to the network's outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from nirbridge.importers.by_hand.spec import place_in_code
from nirbridge.importers.neuron_specs import Operation, ValueRef
from nirbridge.importers.tracing.structures import function_name, torch_tensor

HEADS = frozenset({"softmax", "log_softmax", "softmin", "logsumexp", "argmax", "argmin", "max", "min", "amax", "amin"})
"""Functions that are left to the host where forward applies them, over classes or over time, at its end alone."""

DIRECT = frozenset({""})
_REDUCED = frozenset({"matrix", "avg_pool", "max_pool", "unknown"})


@dataclass(frozen=True, slots=True)
class Head:
    """A function left to the host: the number of the output that it is part of, its name, its place in the code."""

    output: int
    function: str
    place: Any


@dataclass(frozen=True, slots=True)
class HostPart:
    """The functions at the end, and the paths of layers whose bias is added once to a sum over time."""

    heads: tuple[Head, ...] = ()
    unbiased: tuple[str, ...] = ()

    def taken_off(self, copy: Any) -> Any:
        """A copy of the module, changed so that it returns the values that go into the functions at its end."""
        for path in self.unbiased:
            copy.get_submodule(path).bias = None
        if self.heads:
            copy.forward = _stopping(copy.forward, self.heads)
        return copy


def _stopping(forward: Callable[..., Any], heads: Sequence[Head]) -> Callable[..., Any]:
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree as pytree

    wanted = {(head.function, head.place) for head in heads}
    captured: dict[tuple[str, Any], list[Any]] = {}

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            key = (function_name(func), place_in_code()) if function_name(func) in HEADS else None
            if key in wanted:
                captured.setdefault(key, []).append((args[0] if args else (kwargs or {})["input"]).clone())
            return func(*args, **(kwargs or {}))

    @wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        captured.clear()
        with Mode():
            result = forward(*args, **kwargs)
        leaves, form = pytree.tree_flatten(result)
        tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch_tensor())]
        for head in heads:
            values = captured.get((head.function, head.place), [])
            if values and head.output < len(tensors):
                leaves[tensors[head.output]] = values[0] if len(values) == 1 else _stacked(values)
        return pytree.tree_unflatten(leaves, form)

    return call


def _stacked(values: Sequence[Any]) -> Any:
    import torch

    return torch.stack(tuple(values))


def lowest(calls: Iterable[Operation], marked: Collection[str]) -> Mapping[str, frozenset[str]]:
    """For each call, the first of the ``marked`` ones on each path from a neuron or an input to it; DIRECT: none."""
    found: dict[str, frozenset[str]] = {}
    for call in calls:
        inner = frozenset[str]().union(*(found.get(ref.call, DIRECT) for ref in call.inputs)) or DIRECT
        own = frozenset({call.name}) if call.name in marked and inner == DIRECT else inner
        found[call.name] = DIRECT if call.kind == "neuron" else own
    return found


def single_numbers(calls: Iterable[Operation]) -> set[str]:
    """The calls that sum up all values of a sample in one number."""
    return {call.name for call in calls if call.kind in _REDUCED and not call.shape}


def needed(calls: Sequence[Operation], outputs: Iterable[ValueRef]) -> list[Operation]:
    """The neurons, and the calls that they and the outputs are computed from."""
    by_name, wanted = {call.name: call for call in calls}, set[str]()
    waiting = [ref.call for ref in outputs] + [call.name for call in calls if call.kind in ("input", "neuron")]
    while waiting:
        name = waiting.pop()
        waiting += [] if name in wanted else [ref.call for ref in by_name[name].inputs]
        wanted.add(name)
    return [call for call in calls if call.name in wanted]
