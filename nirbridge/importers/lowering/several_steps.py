"""Functions of spike counts that switch several times, as sums of functions that switch once each.

Over whole numbers, ``s == 2`` is ``[s > 1.5] - [s > 2.5]``, and ``max(a, b)`` of counts is ``b`` and one step for each
number that ``a - b`` may pass above 0. Each step becomes a threshold population (``lowering.spike_logic``), so the
number of steps is the number of neurons per value, and few are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.lowering.levels import Levels, LevelsOf, joined, levels_of, total
from nirbridge.importers.lowering.lifted import readings_of
from nirbridge.importers.lowering.spike_logic import KINDS, is_safe, logic_of
from nirbridge.importers.neuron_specs import DataflowGraph, NeuronSpecs, Operation, ValueRef
from nirbridge.importers.tracing.pointwise import MAX, MIN, OTHER, PAIRS, PRODUCT, SAME
from nirbridge.network.naming import fresh_name

STEPS_MAX = 4
"""Most steps, and neurons per value, of one function."""


def with_several_steps(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> DataflowGraph:
    """The flow with functions of few steps as sums of functions of one; all else as it is."""
    if not any(call.kind in KINDS for call in flow.calls):
        return flow
    calls = {call.name: call for call in flow.calls}
    levels, taken = LevelsOf(calls, dict(readings_of(flow, forms, dt))), {*calls}
    found: list[Operation] = []
    for call in flow.calls:
        logic = logic_of(call, levels) if call.kind in KINDS else None
        if logic is not None and logic.levels is not None:
            levels.decide(call.name, logic.levels)
        written = _written(call, levels, taken) if logic is None and call.kind in KINDS else []
        calls |= {one.name: one for one in written}
        found += written or [call]
    return replace(flow, calls=tuple(found))


def _written(call: Operation, levels: LevelsOf, taken: set[str]) -> list[Operation]:
    """The operations that an operation becomes, the last one under its name; empty where it stays as it is."""
    inputs = [levels(ref) for ref in call.inputs]
    known = [one for one in inputs if one is not None]
    if len(known) < len(inputs):
        return []
    writer = _Writer(call, taken)
    if call.kind == "max_pool":
        return writer.pooled(known[0], levels.calls[call.inputs[0].call].shape)
    if call.kind != "pair":
        return writer.stepped(known[0], call.inputs[0], call.arguments.get("of", _rectified))
    return _paired(writer, PAIRS[call.arguments["function"]], known[0], known[1])


def _paired(writer: _Writer, meaning: str, x: Levels, y: Levels) -> list[Operation]:
    negative = y.scaled(-1.0)
    difference = None if negative is None else total(x, negative)
    a, b = writer.call.inputs
    if meaning in (MAX, MIN, SAME, OTHER) and difference is not None:
        if meaning in (SAME, OTHER):
            of: Any = (lambda d: (d == 0) * 1.0) if meaning == SAME else lambda d: (d != 0) * 1.0
            return writer.stepped(difference, writer.sum((a, b), (1.0, -1.0)), of)
        rest = ((b, 1.0),) if meaning == MAX else ((a, 1.0),)
        sign = 1.0 if meaning == MAX else -1.0
        return writer.stepped(
            difference, writer.sum((a, b), (1.0, -1.0)), lambda d: sign * _rectified(d), rest, joined((x, y))
        )
    if meaning == PRODUCT and (x.are_two or y.are_two):
        return _gated(writer, *((x, a, y, b) if y.are_two else (y, b, x, a)))
    return []


def _gated(writer: _Writer, x: Levels, of_x: ValueRef, gate: Levels, of_gate: ValueRef) -> list[Operation]:
    """A count from 0 on times a value of 0 or another: the count above ``high`` where the gate is open, else 0."""
    if x.low != 0.0 or gate.low != 0.0:
        return []
    factor = x.high / gate.high
    opened = gate.scaled(factor)
    both = None if opened is None else total(x, opened)
    if both is None:
        return []
    summed = writer.sum((of_x, of_gate), (1.0, factor))
    return writer.stepped(both, summed, lambda s: gate.high * _rectified(s - x.high))


@dataclass(slots=True)
class _Writer:
    """Writes the operations in place of ``call``."""

    call: Operation
    taken: set[str]
    found: list[Operation] = field(default_factory=list)

    def add(self, kind: str, inputs: Iterable[ValueRef], arguments: dict[str, Any], **more: Any) -> ValueRef:
        """One operation; ``name`` and ``shape``: those of the call where they are not given."""
        name = more.get("name") or fresh_name(f"{self.call.name}_step", self.taken)
        self.taken.add(name)
        shape = more.get("shape", self.call.shape)
        one = replace(self.call, name=name, kind=kind, inputs=tuple(inputs), arguments=arguments, shape=shape)
        self.found.append(one)
        return ValueRef(name)

    def sum(self, inputs: Sequence[ValueRef], signs: Sequence[float]) -> ValueRef:
        """A sum with factors."""
        return self.add("add", inputs, {"signs": tuple(signs)})

    def stepped(
        self,
        x: Levels,
        ref: ValueRef,
        of: Callable[[Array], Array],
        rest: Sequence[tuple[ValueRef, float]] = (),
        result: Levels | None = None,
    ) -> list[Operation]:
        """``of(x)`` and ``rest``, values with a factor each; empty where ``of`` has too many steps.

        ``result``: the levels of the sum where there is a rest.
        """
        points, function = np.asarray(of(x.points), np.float64), self.call.arguments.get("function", self.call.kind)
        word = {"function": function, "of": of}
        if not bool(np.all(np.isfinite(points))) or not is_safe(replace(self.call, arguments=word), x, points):
            return []
        slopes = np.diff(points) / x.step
        switches = [(float(s), np.flatnonzero(slopes != s)) for s in (0.0, *np.unique(slopes))]
        slope, places = min(switches, key=lambda pair: len(pair[1]))
        if not (1 if self.call.kind == "pair" else 2) <= len(places) <= STEPS_MAX:
            return []
        parts = [*rest, *([(ref, slope)] if slope else [])]
        shift = float(points[0] - slope * x.low)
        for number, place in enumerate(places, 1):
            border, jump = x.low + x.step * (int(place) + 0.5), float((slopes[place] - slope) * x.step)
            text = f"{function.strip('_')}, step {number} of {len(places)}"
            source, sign = ref, 1.0
            if border < 0:  # the opposite, which is silent where nothing arrives
                source, sign, shift = self.add("scale", (ref,), {"factor": np.asarray(-1.0)}), -1.0, shift + jump
            above = self.add("pointwise", (source,), {"function": text, "of": _above(sign * border)})
            parts.append((above, sign * jump))
        levels = result or levels_of(points)
        self._put_together(parts, shift, {} if levels is None else {"levels": levels})
        return self.found

    def _put_together(self, parts: list[tuple[ValueRef, float]], shift: float, known: dict[str, Any]) -> None:
        """The sum of the parts and a constant under the name of the call."""
        (whole, sign), *others = parts
        for k, (ref, factor) in enumerate(others):
            is_last = k == len(others) - 1 and shift == 0.0
            signs = {"signs": (sign, factor), **(known if is_last else {})}
            whole, sign = self.add("add", (whole, ref), signs, name=self.call.name if is_last else ""), 1.0
        if shift:
            constant = freeze(np.asarray(shift))
            self.add("shift", (whole,), {"constant": constant, "sign": sign, **known}, name=self.call.name)
        elif not others:
            self.add("scale", (whole,), {"factor": np.asarray(sign), **known}, name=self.call.name)

    def pooled(self, x: Levels, shape: Shape) -> list[Operation]:
        """A maximum over windows of values of ``shape``: of each step of the values by itself, then their sum."""
        if not 3 <= x.count <= STEPS_MAX + 1 or self.call.arguments.get("function") == "prod":
            return []
        parts: list[tuple[ValueRef, float]] = []
        ref = self.call.inputs[0]
        for number in range(1, x.count):
            step = _above(x.low + x.step * (number - 0.5))
            word = {"function": f"step {number} of {x.count - 1} of a maximum", "of": step}
            above = self.add("pointwise", (ref,), word, shape=shape)
            parts.append((self.add("max_pool", (above,), {**self.call.arguments}), x.step))
        self._put_together(parts, x.low, {"levels": x})
        return self.found


def _rectified(points: Array) -> Array:
    return np.maximum(points, 0.0)


def _above(border: float) -> Callable[[Array], Array]:
    return lambda points: np.asarray(points > border, np.float64)
