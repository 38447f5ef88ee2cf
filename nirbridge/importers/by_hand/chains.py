"""Chains of thresholds that share a state: the time steps of one neuron in the trace of a forward.

A neuron written by hand is a comparison whose argument depends, through operations on single values, on the argument
of the same comparison in the time step before. So the steps of a neuron are linked through its state, not through the
place of the code: a function that is called for several layers, a loop over layers and a module per layer are alike.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from nirbridge._types import Shape
from nirbridge.importers.tracing.arguments import call_argument
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.structures import torch_tensor
from nirbridge.importers.tracing.values import COPIES

Key = tuple[int, int]
"""A value: (index of its call, output)."""

_WORDS = {"greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le"}
ORDERS = {"gt": (">", 1), "ge": (">=", 1), "lt": (">", -1), "le": (">=", -1)}
"""Comparison -> (how it compares, factor on both sides)."""
COUNT = "count"
"""``floor(x)`` from 0 to a number: the spikes of a neuron that sends several in a time step."""
NUMBERS = frozenset({"heaviside", COUNT})
"""Comparisons whose results are numbers, with what they compare alone."""
CASTS = frozenset({"float", "double", "to", "type", "type_as"})
_SUMS = frozenset({"add", "radd", "iadd", "sub", "subtract", "rsub", "isub"})
_PRODUCTS = frozenset({"mul", "multiply", "rmul", "imul"})
_QUOTIENTS = frozenset({"div", "divide", "true_divide", "truediv", "itruediv"})
_CHOICES = frozenset({"where", "masked_fill", "setitem"})
_SIGNS = frozenset({"neg", "negative", "positive"})
_LINEAR = frozenset({*_SUMS, *_PRODUCTS, *_QUOTIENTS, *_CHOICES, *_SIGNS, *CASTS, "lerp", "addcmul"})
_OTHERS = frozenset(
    (
        *("rtruediv", "rdiv", "clamp", "clip", "clamp_min", "clamp_max", "relu", "maximum", "minimum", "max", "min"),
        *("sigmoid", "tanh", "atan", "arctan", "exp", "abs", "sign", "sgn", "pow", "rpow", "square", "sqrt", "log1p"),
        *("eq", "ne", "not_equal", "isclose", "logical_not", "logical_and", "logical_or", "logical_xor", "invert"),
        *("and", "or", "xor", "rand", "ror", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bool"),
        *("int", "long", "round", "floor", "ceil", "trunc", "sin", "cos", "erf", "softplus", "hardtanh", "log"),
        *("reciprocal", "remainder", "mod", "fmod", "floor_divide", "floordiv", "hardsigmoid", "erfc"),
    )
)


def word_of(node: TracedCall) -> str:
    """The name of a function without marks of operators and of writes: ``gt`` for ``__gt__``, ``mul`` for ``mul_``."""
    word = node.name.strip("_")
    return _WORDS.get(word, word)


def is_comparison(node: TracedCall) -> bool:
    """True for a comparison by size, and for ``heaviside`` with a fixed value at 0."""
    if node.kind != "function":
        return False
    if node.name == COUNT:
        return True
    if node.name == "heaviside":
        value = call_argument(node, 1, "values")
        return isinstance(value, torch_tensor()) and value.numel() == 1 and float(value) in (0.0, 1.0)
    return word_of(node) in ORDERS


def counted(node: TracedCall) -> tuple[TracedValue, int] | None:
    """(x, n) of ``floor(x)`` between 0 and a whole number n, in either order; None for any other call."""
    inner = operands(node)
    before = inner[0].node if len(inner) == 1 else node
    clamp, floor = (node, before) if word_of(before) == "floor" else (before, node)
    if word_of(floor) != "floor" or word_of(clamp) not in ("clamp", "clip") or len(operands(before)) != 1:
        return None
    low, high = call_argument(clamp, 1, "min"), call_argument(clamp, 2, "max")
    is_whole = isinstance(low, int | float) and isinstance(high, int | float) and low == 0 and high == int(high) > 0
    return (operands(before)[0], int(high)) if is_whole else None


def is_pointwise(node: TracedCall) -> bool:
    """True for a function of single values, comparisons included."""
    if node.kind != "function":
        return False
    if node.name in COPIES or is_comparison(node):
        return True
    word = word_of(node)
    if word == "setitem":
        return isinstance(node.args[1], TracedValue) and not isinstance(node.args[2], TracedValue)
    if word in ("max", "min"):
        return len(node.shapes) == 1 and isinstance(call_argument(node, 1, "other"), TracedValue | torch_tensor())
    return word in _LINEAR or word in _OTHERS


def operands(node: TracedCall) -> list[TracedValue]:
    """The values that a call depends on."""
    return list(values_of((node.args, dict(node.kwargs))))


def key_of(value: TracedValue) -> Key:
    """The value as a key."""
    return value.node.index, value.output


class Kinds:
    """What each value of a trace is: ``reals`` are all but truth values and functions of these.

    ``own``: the comparisons whose results are truth values, whatever they compare (None: all of them); others are if
    they compare no reals.
    """

    def __init__(self, nodes: Iterable[TracedCall], own: Container[int] | None = None) -> None:
        self.reals: set[int] = set()
        for node in nodes:
            is_truth = is_comparison(node) and (own is None or node.index in own)
            if not is_pointwise(node) or (not is_truth and self.has_real(node)):
                self.reals.add(node.index)

    def has_real(self, node: TracedCall) -> bool:
        """True if a call has a real operand."""
        return any(value.node.index in self.reals for value in operands(node))

    def is_real(self, value: Any) -> bool:
        """True for a value that is no truth value, no function of these, and no constant."""
        return isinstance(value, TracedValue) and value.node.index in self.reals

    def is_affine(self, node: TracedCall) -> bool:
        """True for a call that is affine in its real operands."""
        word = word_of(node)
        if node.name in COPIES or word in _SUMS | _SIGNS | CASTS or not self.has_real(node):
            return True
        if word in _PRODUCTS:
            return sum(map(self.is_real, operands(node))) < 2
        if word in _QUOTIENTS:
            return not self.is_real(call_argument(node, 1, "other")) and "rounding_mode" not in node.kwargs
        if word == "where":
            return not self.is_real(node.args[0] if node.args else node.kwargs.get("condition"))
        if word in _CHOICES:
            return not self.is_real(node.args[1] if len(node.args) > 1 else node.kwargs.get("mask"))
        if word == "lerp":
            return not self.is_real(call_argument(node, 2, "weight"))
        if word == "addcmul":
            return sum(self.is_real(call_argument(node, k, name)) for k, name in ((1, "tensor1"), (2, "tensor2"))) < 2
        return False


@dataclass(slots=True, eq=False)
class Threshold:
    """The comparisons of one value in one time step; ``base``: that value without fixed factors and constants.

    ``base`` is None for a constant, ``bases`` are the values on the way to it. ``previous``: those of the time step
    before. ``readout``: the call of a value that is compared with nothing. ``reason``: why it has no form. ``join``:
    the call that puts values of a readout together, with ``lead`` zeros in front, those of time steps before the first.
    """

    base: Key | None
    comparisons: list[TracedCall] = field(default_factory=list)
    previous: list[Threshold] = field(default_factory=list)
    bases: list[Key] = field(default_factory=list)
    readout: TracedValue | None = None
    reason: str = ""
    join: int = -1
    lead: int = 0

    @property
    def main(self) -> TracedCall:
        """Its first comparison, or the call of a readout."""
        return self.comparisons[0] if self.readout is None else self.readout.node

    @property
    def index(self) -> int:
        """The index of its first call."""
        return self.main.index

    @property
    def end(self) -> int:
        """The index of its last call."""
        return max((c.index for c in self.comparisons), default=self.index)

    @property
    def shape(self) -> Shape:
        """The shape of its value, batch included."""
        return self.main.shapes[0]

    @property
    def sources(self) -> list[TracedValue]:
        """The values that it depends on."""
        return [v for c in self.comparisons for v in operands(c)] if self.readout is None else [self.readout]


def thresholds_of(trace: ForwardTrace, kinds: Kinds) -> list[Threshold]:
    """All comparisons by what they compare, each linked to those whose values it is computed from.

    Initial states are constants, and functions of the spikes of these: such comparisons count where a later one at the
    same place of the code depends on them.
    """
    by_base: dict[Key, Threshold] = {}
    found: list[Threshold] = []
    early: dict[int, Threshold] = {}
    for node in filter(is_comparison, trace.nodes):
        values = operands(node)
        real = [value for value in values if kinds.is_real(value)]
        bases = _bases((real or values)[0]) if values else []
        base = bases[-1] if bases else None
        if base is not None and base in by_base:
            by_base[base].comparisons.append(node)
            continue
        one = Threshold(base, [node], bases=bases)
        if base is not None:
            by_base[base] = one
        if real and base is not None:
            before = _previous(real, {key: other for key, other in by_base.items() if key != base})
            alike = [other for other in before if other.main.place == node.place]
            one.previous = alike or [other for other in before if other.index not in early] or before
            found.append(one)
        else:
            early[node.index] = one
    places = {node.index: node.place for node in trace.nodes}
    for one in list(found):
        found += _start_earlier(one, early, places)
    found += _start_alone(found, early, places)
    linked = {before.index for one in found for before in one.previous} | {one.index for one in found if one.previous}
    _link_alone([one for one in found if one.index not in linked], places, kinds)
    return sorted({one.index: one for one in found}.values(), key=lambda one: one.index)


def chains_of(found: Sequence[Threshold]) -> list[list[Threshold]]:
    """Thresholds that follow each other, in order; those that stand alone are left out."""
    following: dict[int, Threshold] = {}
    for one in found:
        for before in one.previous[-1:]:
            following.setdefault(before.index, one)
    chains = []
    for one in found:
        if one.previous or one.index not in following:
            continue
        chain = [one]
        while chain[-1].index in following:
            chain.append(following[chain[-1].index])
        chains.append(chain)
        depth = len(chain[-1].bases)
        for link in chain:  # in the first time steps, more is fixed
            link.base = link.bases[min(depth, len(link.bases)) - 1] if link.bases else None
    return chains


def _bases(value: TracedValue) -> list[Key]:
    """The value that is compared, and the same without copies, fixed factors and constants, one after the other.

    A constant with the shape of the value is an initial state, and stays.
    """
    found = [key_of(value)]
    while True:
        node = value.node
        word, inner = word_of(node), operands(node)
        is_fixed = node.name in COPIES or word in _SUMS | _PRODUCTS | _QUOTIENTS | _SIGNS | CASTS
        divides = word in _QUOTIENTS and not isinstance(node.args[0], TracedValue)
        if node.kind != "function" or not is_fixed or len(inner) != 1 or divides or inner[0].shape != value.shape:
            return found
        others = [a for a in node.args if isinstance(a, torch_tensor()) and a.ndim]
        if word not in CASTS and any(tuple(a.shape) == value.shape for a in others):
            return found
        value = inner[0]
        found.append(key_of(value))


def walked(starts: Sequence[TracedValue], stops: Container[Key]) -> Iterator[TracedValue]:
    """Values that ``starts`` are computed from by pointwise calls, up to those in ``stops``."""
    waiting, visited = list(starts), set[Key]()
    while waiting:
        value = waiting.pop()
        key = key_of(value)
        if key in visited:
            continue
        visited.add(key)
        yield value
        if key not in stops and is_pointwise(value.node) and not is_comparison(value.node):
            waiting += operands(value.node)


def _previous(real: Sequence[TracedValue], others: Mapping[Key, Threshold]) -> list[Threshold]:
    reached = (others.get(key_of(value)) for value in walked(real, others))
    return sorted({one.index: one for one in reached if one is not None}.values(), key=lambda one: one.index)


def _link_alone(found: Sequence[Threshold], places: Mapping[int, Any], kinds: Kinds) -> None:
    """Comparisons of a value that the state is not computed from: it has a summand made of spikes, an adaptation.

    They are linked by the value without it, or by their spikes, at one place of the code.
    """
    for one in found:
        value = next(v for v in one.sources if kinds.is_real(v))
        while key_of(value) != one.base:
            (value,) = operands(value.node)
        parts = [v for v in operands(value.node) if kinds.is_real(v)]
        if word_of(value.node) in _SUMS and len(parts) == 1:
            one.bases += _bases(parts[0])
            one.base = one.bases[-1]
    by_base = {key: one for one in found for key in one.bases}
    for one in found:
        others = {key: other for key, other in by_base.items() if other is not one}
        one.previous = _previous([v for v in one.sources if kinds.is_real(v)], others)
    linked = {before.index for one in found for before in one.previous} | {one.index for one in found if one.previous}
    alone = {one.index: one for one in found if one.index not in linked}
    for one in alone.values():
        bits = {v.node.index for v in walked(one.sources, ()) if is_comparison(v.node)}
        same = [k for k in sorted(bits & alone.keys()) if k < one.index and places.get(k) == places.get(one.index)]
        one.previous = [alone[k] for k in same[-1:]]
        one.reason = "what is compared adapts to its own spikes" if same else ""


def _reached(starts: Sequence[TracedValue], place: Any, places: Mapping[int, Any]) -> set[int]:
    """Comparisons that values are computed from, also through those at other places of the code (``z > 0.5``)."""
    found: set[int] = set()
    waiting = list(starts)
    while waiting:
        reached = {v.node.index: v.node for v in walked(waiting, ()) if is_comparison(v.node)}
        new = {index: node for index, node in reached.items() if index not in found}
        found |= set(new)
        waiting = [v for index, node in new.items() if places.get(index) != place for v in operands(node)]
    return found


def _start_earlier(one: Threshold, early: Mapping[int, Threshold], places: Mapping[int, Any]) -> list[Threshold]:
    """The comparisons of its initial states, the latest first: those at the same place of the code."""
    found: list[Threshold] = []
    while True:
        place = places.get(one.index)
        if one.previous and one.previous[-1].index not in early:
            break
        if one.previous:
            one = one.previous[-1]
            found.append(one)
            continue
        bits = _reached(operands(one.comparisons[0]), place, places)
        before = [early[k] for k in sorted(bits) if k in early and k < one.index and places.get(k) == place]
        if place is None or not before:
            break
        one.previous = before[-1:]
        one = before[-1]
        found.append(one)
    return found


def _start_alone(
    found: Sequence[Threshold], early: Mapping[int, Threshold], places: Mapping[int, Any]
) -> list[Threshold]:
    """The comparisons of initial states that no later one depends on, where nothing resets: in turn, at one place."""
    known = {one.index for one in found}
    rest = [one for one in early.values() if one.index not in known]
    added: list[Threshold] = []
    for place in {places.get(one.index) for one in rest} - {None}:
        alone = (one for one in (*rest, *found) if not one.previous and places.get(one.index) == place)
        groups = [[*group] for _, group in groupby(sorted(alone, key=lambda o: o.index), lambda o: o.index in early)]
        for before, firsts in pairwise(groups):
            shapes = [one.shape for one in firsts] * (len(before) // len(firsts))
            if before[0].index in early and [one.shape for one in before] == shapes:
                for after, one in zip([*before[len(firsts) :], *firsts], before, strict=True):
                    after.previous = [one]
                added += before
    return added
