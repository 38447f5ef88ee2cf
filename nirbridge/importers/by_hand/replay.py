"""One neuron of a trace run again in float64: its spikes forced, its states and inputs set to any values.

With spikes that are given, a neuron written by hand is an affine function of its inputs, however it is written. Its
parameters are read from this function; operations that are not affine give random numbers, so that a neuron that
depends on them agrees with no form (a surrogate's soft part cancels).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nirbridge._types import Shape
from nirbridge.importers.by_hand.chains import (
    CASTS,
    COUNT,
    NUMBERS,
    Key,
    Kinds,
    Threshold,
    is_comparison,
    is_pointwise,
    key_of,
    operands,
    word_of,
)
from nirbridge.importers.tracing.arguments import call_argument
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.structures import is_in_place, mapped, torch_tensor
from nirbridge.importers.tracing.values import COPIES, written

_MOST = 2**15
"""Values of a cell up to which every neuron of it is run."""


class NoForm(Exception):
    """The neuron has no exact form; the text says which part of it."""


class Cell:
    """The calls of one neuron in all time steps.

    ``calls``: in order. ``stateful``: indices of those that depend on the neuron's own state or spikes. ``opaque``:
    names of those that are not affine, ``floors``: least values of those that are a floor alone. ``is_readout``: it
    never spikes. ``fresh``: for each time step, the values from elsewhere (leaves) that no time step before took;
    ``taken``: all that it takes. ``opposites``: comparisons that are true where the neuron does not spike. ``scale``:
    (constant, factor) by which the two sides of a comparison differ, as a function of the value that is compared.
    """

    def __init__(self, chain: Sequence[Threshold], nodes: Sequence[TracedCall]) -> None:
        self.chain, self.is_readout = chain, chain[0].readout is not None
        self.own = {c.index: k for k, one in enumerate(chain) for c in one.comparisons}
        self.bases = {one.base: k for k, one in enumerate(chain) if one.base is not None}
        region, leaves = self._region(nodes)
        self.kinds = Kinds([nodes[k] for k in sorted({*region, *(index for index, _ in leaves)})], self.own)
        self.stateful: set[int] = set()
        self.opposites: set[int] = set()
        self.scale: tuple[Any, Any] | None = None
        self.opaque: dict[int, str] = {}
        self.floors: dict[int, Any] = {}
        self.closed: set[int] = set()
        for index in sorted(region):
            self._judge(nodes[index])
        self.calls = [nodes[k] for k in sorted(region) if k not in self.closed and k not in self.opaque]
        self.nodes = nodes
        self.taken = [self._taken(k) for k in range(len(chain))]
        known: set[Key] = set()
        self.fresh: list[list[Key]] = []
        for taken in self.taken:
            self.fresh.append(sorted(taken - known))
            known |= taken
        self.first = next((k for k, fresh in enumerate(self.fresh) if fresh), 0)

    def _region(self, nodes: Sequence[TracedCall]) -> tuple[set[int], set[Key]]:
        region: set[int] = set()
        leaves: set[Key] = set()
        waiting = [nodes[index] for index in self.own] + [one.main for one in self.chain]
        region |= {node.index for node in waiting}
        while waiting:
            for value in operands(waiting.pop()):
                node = value.node
                if not is_pointwise(node):
                    leaves.add(key_of(value))
                elif node.index not in region:
                    region.add(node.index)
                    waiting.append(node)
        return region, leaves

    def _judge(self, node: TracedCall) -> None:
        """Whether a call depends on the state, is affine, or is a leaf as a whole."""
        is_base = any((node.index, k) in self.bases for k in range(len(node.shapes)))
        if is_base or node.index in self.own or any(v.node.index in self.stateful for v in operands(node)):
            self.stateful.add(node.index)
        is_free = is_comparison(node) and (node.index in self.own or not self.kinds.has_real(node))
        if is_free or (not is_comparison(node) and self.kinds.is_affine(node)):
            return
        floor = floor_of(node) if node.index in self.stateful else None
        if floor is not None:
            self.floors[node.index] = floor
        elif node.index in self.stateful:
            self.opaque[node.index] = node.name.strip("_")
        else:
            self.closed.add(node.index)

    def _taken(self, step: int) -> set[Key]:
        """The leaves that the value of a time step takes, apart from those of the state before."""
        found: set[Key] = set()
        stops = {key for key, k in self.bases.items() if k < step}
        waiting, visited = self.chain[step].sources, set[Key]()
        while waiting:
            value = waiting.pop()
            key = key_of(value)
            if key in visited or key in stops or key[0] in self.own:
                continue
            visited.add(key)
            if not is_pointwise(value.node) or key[0] in self.closed:
                found.add(key)
            else:
                waiting += operands(value.node)
        return found

    def few(self, shape: Shape) -> Shape:
        """A shape in which one place stands for all, of large cells: of the batch, and of axes after the channels."""
        whole = self.chain[-1].shape
        if math.prod(whole) <= _MOST:
            return tuple(shape)
        axes = range(len(whole) - len(shape), len(whole))
        return tuple(1 if k != 1 and k >= 0 and n == whole[k] else n for k, n in zip(axes, shape, strict=True))

    def of_few(self, tensor: Any) -> Any:
        """One place of a constant for all. Raises NoForm where it differs from place to place."""
        shape = self.few(tuple(tensor.shape))
        part = tensor[tuple(slice(0, n) for n in shape)]
        if shape != tuple(tensor.shape) and not bool((tensor == part).all()):
            raise NoForm("its numbers differ from place to place in a large layer")
        return part

    def value_of(self, key: Key) -> TracedValue:
        """The value of a key."""
        return TracedValue(self.nodes[key[0]], key[1])


class Run:
    """One run of a cell.

    ``leaves``: values of leaves, 0 where none is given; ``states``: values of bases in place of those computed;
    ``spikes``: of each time step, in place of the comparison (None: as computed). ``has_floor``: floors count.
    """

    def __init__(
        self,
        cell: Cell,
        *,
        last: int,
        leaves: Mapping[Key, Any],
        spikes: Mapping[int, Any] | None = None,
        states: Mapping[int, Any] | None = None,
        more: Sequence[TracedCall] = (),
        has_floor: bool = False,
    ) -> None:
        """``last``: the time step after which it ends; ``more``: calls beside those of the cell."""
        import torch

        self.cell, self.leaves, self.spikes = cell, leaves, spikes
        self.has_floor = has_floor
        self.is_random = bool(more)  # values that are no leaves of the cell are unknown
        self.states = {cell.chain[k].base: value for k, value in (states or {}).items()}
        self.values: dict[Key | None, Any] = dict(self.states)
        self.source = torch.Generator().manual_seed(7)
        end = cell.chain[last].end
        calls = {call.index: call for call in (*cell.calls, *more) if more or call.index <= end}
        with torch.no_grad():
            for index in sorted(calls):
                self._compute(calls[index])

    def base(self, step: int) -> Any:
        """The value that is compared in a time step; of a constant, from what is compared."""
        key = self.cell.chain[step].base
        if key is not None:
            return self.get(self.cell.value_of(key))
        offset, slope = self.cell.scale or (0.0, 1.0)
        return (self.margin(self.cell.chain[step].comparisons[0]) - offset) / slope

    def margin(self, comparison: TracedCall) -> Any:
        """Left minus right side of a comparison."""
        fixed = {"heaviside": 0.0, COUNT: 1.0}
        right = fixed[comparison.name] if comparison.name in fixed else call_argument(comparison, 1, "other")
        return self._constant(comparison.args[0]) - self._constant(right)

    def get(self, value: TracedValue) -> Any:
        """A value of the run: computed, of a leaf, or random."""
        import torch

        key = key_of(value)
        if key not in self.values:
            given = self.leaves.get(key)
            if key[0] in self.cell.opaque or (given is None and self.is_random):
                given = torch.randn(self.cell.few(value.shape), generator=self.source, dtype=torch.float64)
            shape = self.cell.few(value.shape)
            self.values[key] = torch.zeros(shape, dtype=torch.float64) if given is None else given
        return self.values[key]

    def _compute(self, call: TracedCall) -> None:
        key = (call.index, 0)
        if key in self.states or call.index in self.cell.opaque or call.index in self.cell.closed:
            return
        step = self.cell.own.get(call.index)
        if step is not None and self.spikes is not None:
            truth = self.spikes[step] ^ (call.index in self.cell.opposites)
            self.values[key] = truth.double() if call.name in NUMBERS else truth
            return
        try:
            self.values[key] = self._result(call)
        except (RuntimeError, TypeError, ValueError):  # of unknown values, which are no truth values
            if not self.is_random:
                raise

    def _result(self, call: TracedCall) -> Any:
        word = word_of(call)
        if call.index in self.cell.floors and not self.has_floor:
            return next(self.get(value) for value in operands(call))
        args, kwargs = self._constant(call.args), self._constant(call.kwargs)
        if call.name in COPIES or word in CASTS:
            return _cast(call, args[0])
        if word == "setitem":
            return written(*args)
        if is_in_place(call.name) and isinstance(args[0], torch_tensor()):
            args = (args[0].clone(), *args[1:])
        return call.func(*args, **{name: a for name, a in kwargs.items() if name != "out"})

    def _constant(self, structure: Any) -> Any:
        def number(value: Any) -> Any:
            if isinstance(value, TracedValue):
                return self.get(value)
            value = self.cell.of_few(value.detach())
            return value.double() if value.is_floating_point() else value

        return mapped(structure, (TracedValue, torch_tensor()), number)


def is_repeatable(node: TracedCall) -> bool:
    """True for a call whose function is known, not its name alone."""
    return node.func is not None or (node.name == "__setitem__" and is_pointwise(node))


def floor_of(node: TracedCall) -> Any:
    """The least value of a call that is a floor of one value and nothing else; None for any other call."""
    word, inner = word_of(node), operands(node)
    if len(inner) != 1 or not node.args or not isinstance(node.args[0], TracedValue):
        return None
    if word == "relu":
        return 0.0
    low = call_argument(node, 1, "other" if word in ("maximum", "max") else "min")
    high = call_argument(node, 2, "max") if word in ("clamp", "clip") else None
    is_floor = word in ("clamp", "clip", "clamp_min", "maximum", "max") and high is None
    if isinstance(low, torch_tensor()):
        low = float(low) if low.numel() == 1 else None
    return float(low) if is_floor and isinstance(low, int | float) else None


def _cast(call: TracedCall, value: Any) -> Any:
    """A copy; a change of the number format keeps float64 and turns truth values to numbers."""
    import torch

    if call.name in COPIES and call.name != "float":
        return value
    types = [a for a in (*call.args[1:], *call.kwargs.values()) if isinstance(a, torch.dtype)]
    if any(not t.is_floating_point for t in types):
        return value.to(types[0])
    return value.double()
