"""Logic of spikes as threshold populations without memory, exact and in the same time step.

Over values that are provably one of two numbers (``lowering.levels``) every function is linear: ``x > 0.5`` is x,
``~x`` is 1 - x. Of several such values, with a and b for 0 or 1::

    maximum, or, any, max_pool      sum > 0.5               minimum, and, product      sum > n - 0.5
    xor, a != b                     a + b - 2 (a and b)     (1 - a) * b                b - a > 0.5

and a function of whole numbers that switches once (``a + b >= 1``, ``clamp(a + b, max=1)``, ``relu(a - b)``) is one
threshold between the two. Everything else stays refused: a maximum of currents is no threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, counted
from nirbridge.importers.lowering.levels import Levels, LevelsOf, levels_of, total
from nirbridge.importers.lowering.linear_layers import (
    Expression,
    add_constant,
    apply_operator,
    matrix_sums,
    padded,
    scale_expression,
    sum_expressions,
)
from nirbridge.importers.neuron_specs import ImportedNeuron, Operation
from nirbridge.importers.tracing.arguments import advice_on
from nirbridge.importers.tracing.pointwise import AND, MAX, MIN, OR, OTHER, PAIRS, PRODUCT, SAME
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Reshape, SumPool

_COMPARISONS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {">": lambda d: d > 0, ">=": lambda d: d >= 0, "<": lambda d: d < 0, "<=": lambda d: d <= 0}
)
RELU_HINT = "put a neuron there, or convert the trained network with from_torch"
POOL_HINT = (
    "pool spikes, pool(lif(conv(x))) (--accept replaced-maxpool tries that for lif(pool(conv(x))) and measures it), "
    "or use an average pool"
)
_ROUNDING = 1e-5
"""Relative error that float32 sums of a few thousand values stay below."""
KINDS = frozenset({"max_pool", "pair", "pointwise", "relu"})


@dataclass(frozen=True, slots=True, eq=False)
class Logic:
    """What an operation becomes: ``low + (high - low) * [terms > theta]``, or without theta the terms themselves.

    ``sum``: the expression of the terms from those of the operands. ``mixed``: what becomes of the spikes, given the
    operands (None: the levels say it).
    """

    sum: Callable[[tuple[Expression, ...]], Expression]
    levels: Levels | None
    theta: float | None = None
    text: str = ""
    mixed: Callable[[Expression, tuple[Expression, ...]], Expression] | None = None

    def reading(self, constant: Array | None = None) -> ImportedNeuron:
        """The threshold population; a constant of the sum is taken off the threshold."""
        theta = np.float64(self.theta) if constant is None else np.float64(self.theta) - constant
        return ImportedNeuron(neuron("Threshold", a_mem=0.0, theta=theta, reset="none", reset_amount=0.0))

    def value(self, spikes: Expression, operands: tuple[Expression, ...], name: str) -> Expression:
        """The value of the operation from the spikes of its population."""
        if self.mixed is not None:
            return self.mixed(spikes, operands)
        assert self.levels is not None, "without a mix the levels say it"
        size, low = self.levels.high - self.levels.low, self.levels.low
        scaled = spikes if size == 1.0 else scale_expression(spikes, size, f"{name}_scale")
        return scaled if low == 0.0 else add_constant(scaled, np.full(spikes.shape, low))

    def note(self, call: Operation) -> str:
        """What it costs, for the user."""
        size = counted(math.prod(call.shape), "threshold neuron")
        return (
            f"{call.subject}: {self.text} is {size} without memory, in the same time step; "
            "on a chip one more hop, so one more time step of latency"
        )


def logic_of(call: Operation, levels: LevelsOf) -> Logic | None:
    """The logic of an operation; None where its operands are not provably of few values, or it is no threshold."""
    inputs = [levels(ref) for ref in call.inputs]
    if any(one is None for one in inputs):
        return None
    known = [one for one in inputs if one is not None]
    if call.kind == "max_pool":
        return _pooled(call, known[0])
    if call.kind == "pair":
        return _paired(call, known[0], known[1])
    return _pointwise(call, known[0])


# -- functions of one value ------------------------------------------------------------------------------------------


def _pointwise(call: Operation, x: Levels) -> Logic | None:
    """A function of each value by itself: a line, a step, or (``abs`` of three values) a line and a step."""
    found = np.maximum(x.points, 0.0) if call.kind == "relu" else call.arguments["of"](x.points)
    if not bool(np.all(np.isfinite(found))) or not is_safe(call, x, found):
        return None
    slopes = np.diff(found) / x.step
    switches = [(s, np.flatnonzero(slopes != s)) for s in (0.0, *np.unique(slopes))]
    slope, at = min(switches, key=lambda pair: len(pair[1]))
    shift = float(found[0] - slope * x.low)
    if not len(at):
        return _line(x, float(slope), shift)
    if len(at) > 1:
        return None
    border, jump = x.low + x.step * (int(at[0]) + 0.5), float((slopes[at[0]] - slope) * x.step)
    text = f"{str(call.arguments.get('function', call.kind)).strip('_')} of {x.count} possible values"

    def mixed(spikes: Expression, operands: tuple[Expression, ...]) -> Expression:
        step = scale_expression(spikes, jump, f"{call.name}_scale") if jump != 1.0 else spikes
        line = (scale_expression(operands[0], float(slope), f"{call.name}_line"),) if slope else ()
        whole = sum_expressions((step, *line))
        return add_constant(whole, np.full(whole.shape, shift)) if shift else whole

    return Logic(lambda operands: operands[0], levels_of(found), border, text, mixed)


def is_safe(call: Operation, x: Levels, found: Array) -> bool:
    """False where rounding of the values, as float32 may round them, would change what the function gives.

    ``a / 3 + b / 3 >= 2 / 3`` depends on it. Multiples of a power of two are exact.
    """
    if x.is_exact or call.kind == "relu":
        return True
    largest = max(abs(x.low), abs(x.high))
    off = np.where((x.points == 0.0) & (x.low == 0.0), 0.0, largest * _ROUNDING)  # nothing but zeros adds up to 0 there
    return all(
        bool(np.allclose(call.arguments["of"](x.points + sign * off), found, rtol=1e-3, atol=1e-3 * x.step))
        for sign in (-1.0, 1.0)
    )


def _line(x: Levels, factor: float, shift: float) -> Logic | None:
    """``factor * x + shift``, without neurons; None where it is constant."""
    found = x.scaled(factor, shift)
    if found is None:  # a constant
        return None

    def line(operands: tuple[Expression, ...]) -> Expression:
        e = operands[0] if factor == 1.0 else scale_expression(operands[0], factor, "scale")
        return e if shift == 0.0 else add_constant(e, np.full(e.shape, shift))

    return Logic(line, found)


# -- functions of several values -------------------------------------------------------------------------------------


def _paired(call: Operation, x: Levels, y: Levels) -> Logic | None:
    meaning = PAIRS[call.arguments["function"]]
    if meaning in _COMPARISONS:
        return _compared(call, x, y, meaning)
    if not (x.are_two and y.are_two):
        return None
    both = (x, y)
    if meaning in (MAX, MIN):
        text, theta = ("a maximum of spikes", 0.5) if meaning == MAX else ("a minimum of spikes", 1.5)
        return _threshold(call, both, theta, x, text) if x == y else None
    if meaning == PRODUCT:
        return _multiplied(call, x, y)
    if x.low or y.low or (meaning in (SAME, OTHER) and x != y):  # 0.5 is as true as 1, but not equal to it
        return None
    binary = Levels(0.0, 1.0, 2)
    if meaning in (OR, AND):
        return _threshold(call, both, 0.5 if meaning == OR else 1.5, binary, f"the {meaning} of spikes")
    return replace(
        _threshold(call, both, 1.5, binary, "the exclusive or of spikes"), mixed=_exclusive(call, both, meaning == SAME)
    )


def _multiplied(call: Operation, x: Levels, y: Levels) -> Logic | None:
    """``(x0 + s a) (y0 + t b)`` is ``s t`` where both a and b are 1, and linear besides."""
    logic = _threshold(call, (x, y), 1.5, Levels(0.0, x.high * y.high, 2), "a product of spikes")
    if not (x.low or y.low):
        return logic

    def mixed(spikes: Expression, operands: tuple[Expression, ...]) -> Expression:
        parts = [scale_expression(spikes, x.step * y.step, call.name)]
        for e, other in ((operands[0], y), (operands[1], x)):
            parts += [scale_expression(e, other.low, call.name)] if other.low else []
        return add_constant(sum_expressions(parts), np.full(spikes.shape, -x.low * y.low))

    products = levels_of(np.outer(x.points, y.points))
    return replace(logic, levels=products, mixed=mixed)


def _compared(call: Operation, x: Levels, y: Levels, meaning: str) -> Logic | None:
    """A comparison of two values: a function of their difference."""
    negative = y.scaled(-1.0)
    difference = None if negative is None else total(x, negative)
    if difference is None:
        return None
    word = {"of": lambda d: _COMPARISONS[meaning](d).astype(np.float64), "function": "comparison"}
    logic = _pointwise(replace(call, kind="pointwise", arguments=word), difference)
    if logic is None:
        return None
    inner = logic.sum
    return replace(
        logic, sum=lambda parts: inner((sum_expressions((parts[0], scale_expression(parts[1], -1.0, call.name))),))
    )


def _exclusive(
    call: Operation, levels: tuple[Levels, ...], is_same: bool
) -> Callable[[Expression, tuple[Expression, ...]], Expression]:
    """``a + b - 2 (a and b)``, or 1 less that."""

    def mixed(spikes: Expression, operands: tuple[Expression, ...]) -> Expression:
        a, b = (as_binary(e, x, call.name) for e, x in zip(operands, levels, strict=True))
        whole = sum_expressions((a, b, scale_expression(spikes, -2.0, call.name)))
        return whole if not is_same else add_constant(scale_expression(whole, -1.0, call.name), np.ones(whole.shape))

    return mixed


def _threshold(call: Operation, operands: tuple[Levels, ...], theta: float, levels: Levels, text: str) -> Logic:
    def sum_of(parts: tuple[Expression, ...]) -> Expression:
        return sum_expressions(tuple(as_binary(e, x, call.name) for e, x in zip(parts, operands, strict=True)))

    return Logic(sum_of, levels, theta, text)


def logic_problem(call: Operation, levels: LevelsOf) -> Diagnostic:
    """Why an operation is no logic of spikes."""
    proved = [levels(ref) for ref in call.inputs]
    few = all(one is not None for one in proved)
    values = " and ".join(str(one) for one in proved if one is not None)
    if call.kind == "relu":
        return Diagnostic(call.subject, "a ReLU is not a spiking neuron", "", RELU_HINT)
    if call.kind == "max_pool":
        least = {"prod": "a product"}.get(call.arguments.get("function", ""), "a minimum")
        word = least if call.arguments.get("is_least") else "a maximum"
        found = f"{word} of values from {values} is no threshold" if few else f"{word} of {levels.source(call)}"
        return Diagnostic(call.subject, found, "a maximum of spikes (0 or 1) is exact", POOL_HINT)
    reason, advice = advice_on(call.arguments["function"])
    found = f"{call.arguments['function']}: {call.arguments.get('reason') or reason}"
    limit = f"it is given values from {values}, not two" if few else "exact over spikes (0 or 1) alone"
    return Diagnostic(call.subject, found, limit, call.arguments.get("hint") or advice)


def as_binary(e: Expression, x: Levels, name: str) -> Expression:
    """A value of two levels as 0 or 1."""
    scaled = e if x.step == 1.0 else scale_expression(e, 1.0 / x.step, name)
    return scaled if x.low == 0.0 else add_constant(scaled, np.full(e.shape, -x.low / x.step))


def _pooled(call: Operation, x: Levels) -> Logic | None:
    is_least = bool(call.arguments.get("is_least"))
    if not x.are_two or (call.arguments.get("function") == "prod" and (x.low, x.high) != (0.0, 1.0)):
        return None

    def sum_of(parts: tuple[Expression, ...]) -> Expression:
        e = window_sums(call, as_binary(parts[0], x, call.name))
        return e if e.shape == call.shape else apply_operator(e, Reshape(e.shape, call.shape), call.name)

    if is_least:
        return Logic(sum_of, x, _window_size(call) - 0.5, "a minimum of spikes")
    return Logic(sum_of, x, 0.5, "a maximum of spikes")


def _window_size(call: Operation) -> int:
    """Values of each window of a pool without padding."""
    a = call.arguments
    return int(np.bincount(a["rows"]).max()) if "rows" in a else math.prod(a["kernel"])


def window_sums(call: Operation, e: Expression) -> Expression:
    """The sum over each window of a pool; its padding counts as 0."""
    a = call.arguments
    if "rows" in a:
        return matrix_sums(call, e)
    kernel, stride, padding, dilation = (tuple(a[key]) for key in ("kernel", "stride", "padding", "dilation"))
    if any(before != after for before, after in padding):  # NIR pads both sides alike
        e, padding = padded(e, list(padding), call.name), ((0, 0),) * len(padding)
    if len(kernel) == 2 and dilation == (1, 1):
        return apply_operator(e, SumPool(kernel, stride, padding, e.shape, 1.0), call.name)
    ones = freeze(np.ones((e.shape[0], 1, *kernel), np.float32))
    return apply_operator(e, Conv(ones, stride, padding, dilation, e.shape[0], e.shape), call.name)
