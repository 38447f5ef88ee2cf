"""Functions that move values about: reshapes, permutations, slices; and sums over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nirbridge.importers.trace_arguments import Traced, Word
from nirbridge.importers.trace_record import Node, Value, torch_tensor
from nirbridge.importers.trace_shapes import CannotFollow, permutation, permuted, picked, reshaped
from nirbridge.importers.trace_time import Turns
from nirbridge.importers.trace_values import part_taken

_RESHAPES = frozenset(
    {"flatten", "view", "reshape", "unsqueeze", "squeeze", "unflatten", "view_as", "reshape_as", "ravel"}
)
_PERMUTES = frozenset({"permute", "transpose", "t", "T", "mT", "movedim", "moveaxis", "swapaxes", "swapdims"})
_PICKS = frozenset(
    {
        "__getitem__",
        "select",
        "narrow",
        "unbind",
        "chunk",
        "split",
        "tensor_split",
        "index_select",
        "flip",
        "roll",
        "rot90",
        "fliplr",
        "flipud",
        "expand",
        "expand_as",
        "repeat",
        "repeat_interleave",
        "tile",
        "take_along_dim",
    }
)
_LIKE = frozenset({"view_as", "reshape_as", "expand_as"})
"""Functions that look at the shape of their second argument only."""
_REPEATS = frozenset({"expand", "repeat", "repeat_interleave", "tile"})
MOVES = _RESHAPES | _PERMUTES | _PICKS
REDUCES = frozenset({"sum", "mean"})


def move(node: Node, value: Value, x: Traced, turns: Turns) -> Word:
    """The word for output ``value.output`` of a function that moves values.

    Raises:
        CannotFollow: it mixes samples or steps, or takes one of them.
    """
    whole = node.shapes[value.output]
    args, kwargs = node.args[1:], dict(node.kwargs)
    if node.name in _RESHAPES:
        lead = reshaped(x.whole, x.lead, whole)
        return Word("reshape", {}, (x,), lead)
    if node.name in _PERMUTES:
        order = permutation(node.func, args, kwargs, len(x.whole))
        lead, indices = permuted(x.whole, x.lead, order)
        return Word("same" if indices is None else "gather", {"indices": indices}, (x,), lead)
    step = _step(value, x, turns) or _every_step(node.name, whole, x)
    if step is not None:
        return step
    if node.name == "expand_as":
        indices = picked(torch_tensor().expand, (whole,), {}, value.output, x.whole, x.lead)
        return Word("gather", {"indices": indices}, (x,))
    indices = picked(node.func, args, kwargs, value.output, x.whole, x.lead)
    return Word("gather", {"indices": indices}, (x,))


def _step(value: Value, x: Traced, turns: Turns) -> Word | None:
    """A slice of the time axis: the step of this turn."""
    taken = part_taken(value)
    if taken is None or taken[1] >= len(x.lead):
        return None
    _, axis, index = taken
    if x.lead[axis] != "time":
        raise CannotFollow("it takes one sample out of the batch", "treat every sample alike")
    lead = (*x.lead[:axis], *x.lead[axis + 1 :])
    only = x.whole[axis] == 1
    if turns.turns > 1 and index == turns.last and _follows_turns(value, turns):
        return Word("same", {}, (x,), lead)
    if only or (index == x.whole[axis] - 1 and turns.turns > 1):
        return Word("same", {"last": not only}, (x,), lead)
    raise CannotFollow(f"it takes step {index} of a sequence, not one after the other", "loop over all steps")


def _every_step(name: str, whole: tuple[int, ...], x: Traced) -> Word | None:
    """One value for all steps: a time axis of one, repeated."""
    if name not in _REPEATS or x.lead[:1] != ("time",) or x.whole[0] != 1 or whole[1:] != x.whole[1:]:
        return None
    return Word("same", {}, (x,), x.lead)


def _follows_turns(value: Value, turns: Turns) -> bool:
    return value.node.index in turns.stepped or turns.ages[value.node.index] >= 0


def reduce(node: Node, x: Traced) -> Word:
    """A sum or mean: over time (a read-out), or the mean over all positions of each channel.

    Raises:
        CannotFollow: any other sum.
    """
    dims = _dims(node, len(x.whole))
    kept = bool(node.kwargs.get("keepdim", False))
    over = [k for k in dims if k < len(x.lead)]
    if len(dims) == len(over) == 1 and x.lead[over[0]] == "time" and not kept:
        lead = tuple(word for k, word in enumerate(x.lead) if k != over[0])
        return Word("summed", {"mean": node.name == "mean"}, (x,), lead)
    spatial = tuple(range(len(x.lead) + 1, len(x.whole)))
    if dims == spatial and len(spatial) in (1, 2):
        return _over_positions(node, x)
    raise CannotFollow(
        f"a {node.name} over values", "use torch.nn.Linear with fixed weights, or leave it to whoever reads the output"
    )


def _over_positions(node: Node, x: Traced) -> Word:
    kernel = x.shape[1:]
    padding = ((0, 0),) * len(kernel)
    factor = 1.0 / math.prod(kernel) if node.name == "mean" else 1.0
    return Word("avg_pool", {"kernel": kernel, "stride": kernel, "padding": padding, "factor": factor}, (x,))


def _dims(node: Node, rank: int) -> tuple[int, ...]:
    given: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis"))
    if given is None:
        return tuple(range(rank))
    dims = given if isinstance(given, tuple) else (given,)
    return tuple(sorted(int(d) % rank for d in dims))


def first_of(node: Node) -> Value:
    """The value that is moved.

    Raises:
        CannotFollow: a constant is moved by a value.
    """
    value = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(value, Value) or (node.name not in _LIKE and any(isinstance(v, Value) for v in _rest(node))):
        raise CannotFollow("positions that are computed from the input", "use fixed ones")
    return value


def _rest(node: Node) -> list[Any]:
    structures: list[Any] = [*node.args[1:], *node.kwargs.values()]
    flat: list[Any] = []
    for s in structures:
        flat += list(s.values()) if isinstance(s, Mapping) else list(s) if isinstance(s, tuple) else [s]
    return flat
