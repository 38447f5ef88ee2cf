"""Values that are provably whole multiples of one number between two bounds: spikes, and arithmetic of them.

A spike is 0 or 1, ``1 - x`` too, ``a + b`` is 0, 1 or 2, ``0.5 * a`` is 0 or 0.5. Over such values a function that
switches once is one threshold, and over two values every function is linear: see ``lowering.spike_logic``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import quoted
from nirbridge.importers.neuron_specs import ImportedNeuron, Operation, ValueRef

COUNT_MAX = 4096
"""Most values that a function is tried on; sums of more spikes are not followed."""
STEPS_MAX = 4
"""Most steps, and neurons per value, of one function."""
_NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class Levels:
    """The values ``low + k * step`` for k from 0 to ``count - 1``; ``step`` is above 0."""

    low: float
    step: float
    count: int

    def __str__(self) -> str:
        steps = "" if self.count <= 2 or self.step == 1.0 else f" in steps of {self.step:g}"
        return f"{self.low:g} to {self.high:g}{steps}"

    @property
    def points(self) -> Array:
        """Every value, ascending."""
        return self.low + self.step * np.arange(self.count)

    @property
    def high(self) -> float:
        """The largest value."""
        return self.low + self.step * (self.count - 1)

    @property
    def is_exact(self) -> bool:
        """True for whole multiples of 2^-10, of which float32 adds up every value exactly."""
        return all(value * 2**10 == round(value * 2**10) for value in (self.low, self.step)) and abs(self.high) < 2**12

    @property
    def are_two(self) -> bool:
        """True for values that are one of two numbers."""
        return self.count == 2

    def scaled(self, factor: float, shift: float = 0.0) -> Levels | None:
        """The values times a factor, and a constant; None for a factor of 0."""
        if factor == 0 or not np.isfinite(factor) or not np.isfinite(shift):
            return None
        return Levels(min(self.low * factor, self.high * factor) + shift, self.step * abs(factor), self.count)


def total(a: Levels, b: Levels) -> Levels | None:
    """The values of a sum; None where the steps have no common measure, or there would be too many values."""
    step = min(a.step, b.step)
    spans = [(one.step / step, one.count - 1) for one in (a, b)]
    if any(abs(ratio - round(ratio)) > _NEARLY * ratio for ratio, _ in spans):
        return None
    count = sum(round(ratio) * steps for ratio, steps in spans) + 1
    return Levels(a.low + b.low, step, count) if count <= COUNT_MAX else None


def levels_of(values: Array) -> Levels | None:
    """The levels of values that lie evenly; None for others."""
    different = np.unique(values)
    steps = np.diff(different)
    even = steps.size > 0 and bool(np.allclose(steps, steps[0], rtol=_NEARLY, atol=0.0))
    return Levels(float(different[0]), float(steps[0]), len(different)) if even else None


def joined(parts: Iterable[Levels | None]) -> Levels | None:
    """The levels on which all values of several lie; None where the steps have no common measure."""
    found: Levels | None = None
    for part in parts:
        if part is None:
            return None
        found = part if found is None or found == part else _hull(found, part)
        if found is None:
            return None
    return found


def _hull(a: Levels, b: Levels) -> Levels | None:
    """From the lowest to the highest of two, in the smaller of their steps."""
    step, low, high = min(a.step, b.step), min(a.low, b.low), max(a.high, b.high)
    distances = [(value - low) / step for value in (a.low, b.low, high)] + [a.step / step, b.step / step]
    if any(abs(n - round(n)) > _NEARLY * max(1.0, n) for n in distances) or round(distances[2]) >= COUNT_MAX:
        return None
    return Levels(low, step, round(distances[2]) + 1)


class LevelsOf:
    """The levels of every value of a flow; None where nothing is proved (inputs, currents, states, counts)."""

    def __init__(self, calls: Mapping[str, Operation], readings: Mapping[str, ImportedNeuron]) -> None:
        self.calls, self.readings = calls, readings
        self._seen: dict[tuple[str, int], Levels | None] = {}
        self.computed: dict[str, Levels] = {}

    def __call__(self, ref: ValueRef) -> Levels | None:
        """Of a value; those of operations that another module decided are in ``computed``."""
        key = (ref.call, ref.output)
        if key not in self._seen:
            self._seen[key] = None  # a cycle without a neuron proves nothing
            self._seen[key] = self._of(ref)
        now = self._seen[key]
        return joined((now, _alone(now, 0.0))) if ref.previous and now is not None else now  # 0 before the first

    def source(self, call: Operation) -> str:
        """What the values are that nothing is proved of, for a message."""
        inner = self.calls[call.inputs[0].call]
        while inner.kind in ("reshape", "gather", "concat") and inner.inputs:
            inner = self.calls[inner.inputs[0].call]
        if inner.name in self.readings and self.readings[inner.name].neuron.max_spikes > 1:
            return f"spike counts ({quoted(inner.name)} may send several spikes per time step) is no threshold"
        if inner.kind == "input":
            return f"the input {quoted(inner.name)}, which may hold any numbers, is not linear"
        return "currents is not linear"

    def decide(self, name: str, levels: Levels) -> None:
        """The levels of an operation that ``spike_logic`` decided."""
        self.computed[name] = levels
        self._seen.pop((name, 0), None)

    def _of(self, ref: ValueRef) -> Levels | None:
        call = self.calls[ref.call]
        if call.name in self.computed:
            return self.computed[call.name]
        if "levels" in call.arguments:
            return call.arguments["levels"]  # known where the operation was written
        if call.name in self.readings:
            return _spikes(self.readings[call.name]) if ref.output == 0 else None
        inputs = [self(inner) for inner in call.inputs]
        if not inputs or any(levels is None for levels in inputs):
            return None
        return _arithmetic(call, [levels for levels in inputs if levels is not None])


def _spikes(reading: ImportedNeuron) -> Levels | None:
    if not reading.neuron.fires or reading.neuron.max_spikes >= COUNT_MAX:
        return None
    counts = Levels(0.0, 1.0, reading.neuron.max_spikes + 1)
    return joined(_scaled(counts, worth) for worth in _numbers(1.0 if reading.scale_out is None else reading.scale_out))


def _arithmetic(call: Operation, inputs: list[Levels]) -> Levels | None:
    """Of an operation that is linear in any case."""
    first = inputs[0]
    if call.kind == "gather":
        leaves_gaps = bool(np.any(np.asarray(call.arguments["indices"]) < 0))
        return first if not leaves_gaps or 0.0 in first.points else None
    if call.kind in _SUMS:
        return _SUMS[call.kind](call, first)
    if call.kind == "concat" or (call.kind == "add" and call.arguments.get("is_choice")):
        return joined(inputs)
    if call.kind == "add":
        signed = [x.scaled(sign) for x, sign in zip(inputs, call.arguments.get("signs", (1.0, 1.0)), strict=False)]
        return total(signed[0], signed[1]) if len(signed) == 2 and signed[0] and signed[1] else None
    return _of_one(call, first)


def _of_one(call: Operation, x: Levels) -> Levels | None:
    if call.kind == "reshape" or (call.kind == "relu" and x.low >= 0.0):
        return x
    if call.kind == "scale":
        return joined(_scaled(x, factor) for factor in _numbers(call.arguments["factor"]))
    if call.kind == "shift":
        sign = float(call.arguments["sign"])
        return joined(x.scaled(sign, shift) for shift in _numbers(call.arguments["constant"]))
    if call.kind == "pad":
        return joined((x, *(_alone(x, constant) for constant in _numbers(call.arguments["constant"]))))
    return None


def _scaled(x: Levels, factor: float) -> Levels | None:
    return _alone(x, 0.0) if factor == 0.0 else x.scaled(factor)


def _alone(x: Levels, constant: float) -> Levels | None:
    """A constant, as a level of values like those of ``x``."""
    return Levels(constant, x.step, 1) if math.isfinite(constant) else None


def _windows(call: Operation, x: Levels) -> Levels | None:
    """Sums of windows of equal size, of which some places may be outside."""
    is_cut = any(any(margin) for margin in call.arguments["padding"])
    size = math.prod(call.arguments["kernel"])
    return _sums(x, size, size if not is_cut else 0, float(call.arguments["factor"]))


def _rows(call: Operation, x: Levels) -> Levels | None:
    """Sums of the rows of a matrix of ones."""
    a = call.arguments
    factor, counts = _numbers(a["factor"]), np.bincount(a["rows"], minlength=math.prod(a["shape"]))
    if len(factor) != 1 or not bool(np.all(np.asarray(a["values"]) == 1)):
        return None
    return _sums(x, int(counts.max(initial=0)), int(counts.min()) if counts.size else 0, factor[0])


def _sums(x: Levels, most: int, least: int, factor: float) -> Levels | None:
    """The values of sums of ``least`` to ``most`` values."""
    count = most * (x.count - 1) + 1
    if count > COUNT_MAX or not most or (least < most and 0.0 not in x.points):
        return None
    return Levels(x.low * most, x.step, count).scaled(factor)


_SUMS = {"avg_pool": _windows, "matrix": _rows}
_NUMBERS_MAX = 16


def _numbers(value: object) -> tuple[float, ...]:
    """The different numbers of an array, if they are few; else NaN, of which nothing is proved."""
    different = np.unique(np.asarray(value, np.float64))
    return tuple(map(float, different)) if 0 < len(different) <= _NUMBERS_MAX else (math.nan,)
