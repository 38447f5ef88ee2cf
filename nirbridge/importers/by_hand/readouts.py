"""Chains of values that no threshold compares: leaky readouts, whose value of each time step forward returns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, dropwhile, pairwise
from typing import Any

from nirbridge.importers.by_hand.chains import Key, Threshold, is_comparison, is_pointwise, key_of, operands, walked
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedValue
from nirbridge.importers.tracing.structures import instances_of, torch_tensor
from nirbridge.importers.tracing.values import JOINS


def readouts_of(trace: ForwardTrace, states: set[int]) -> list[list[Threshold]]:
    """The readouts of a trace.

    Args:
        trace: the trace.
        states: calls that depend on states of neurons.
    """
    found: list[list[Threshold]] = []
    known: set[Key] = set()
    for row, join, lead in chain(_rows(trace), _last_ones(trace, states, known)):
        keys = [key_of(value) for value in row]
        if known.intersection(keys) or states.intersection(index for index, _ in keys):
            continue
        if len(row) > 1 and all(_follows(a, b) for a, b in pairwise(row)):
            known.update(keys)
            pairs = zip(keys, row, strict=True)
            found.append([Threshold(key, readout=value, join=join, lead=lead) for key, value in pairs])
    return found


def _rows(trace: ForwardTrace) -> Iterator[tuple[list[TracedValue], int, int]]:
    """Values that are put together over time, or returned in each call; index of the call, zeros in front."""
    for node in trace.nodes:
        items = node.args[0] if node.name in JOINS | {"stack"} and node.args and isinstance(node.args[0], tuple) else ()
        row = [*dropwhile(_is_zero, items)]
        if len(row) > 1 and all(isinstance(item, TracedValue) for item in row):
            yield [_kept_axis(item) for item in row], node.index, len(items) - len(row)
    for outputs in trace.returned:
        lists = [value for _, value in outputs if isinstance(value, TracedValue)]
        if len(lists) > 2:
            yield lists, -1, 0
    if len(trace.returned) > 1:
        for number in range(min(map(len, trace.returned))):
            row = [outputs[number][1] for outputs in trace.returned]
            if all(isinstance(value, TracedValue) for value in row):
                yield row, -1, 0


def _is_zero(value: Any) -> bool:
    return isinstance(value, torch_tensor()) and not bool(value.any())


def _kept_axis(item: TracedValue) -> TracedValue:
    """The value itself, of one that was given an axis to join it along."""
    inner = operands(item.node)
    return inner[0] if item.node.name == "unsqueeze" and len(inner) == 1 else item


def _last_ones(trace: ForwardTrace, states: set[int], known: set[Key]) -> Iterator[tuple[list[TracedValue], int, int]]:
    """Values of the last time step that forward returns or computes with, after those that they are computed from."""
    ends = [value for outputs in trace.returned for _, value in outputs if isinstance(value, TracedValue)]
    ends += [value for node in trace.nodes if not is_pointwise(node) for value in instances_of(node.args, TracedValue)]
    for end in reversed(ends):  # the longest row first
        is_new = end.node.index not in states and key_of(end) not in known
        if is_new and is_pointwise(end.node) and not is_comparison(end.node):
            yield _traced_back(end, trace), -1, 0


def _traced_back(end: TracedValue, trace: ForwardTrace) -> list[TracedValue]:
    row = [end]
    start = trace.starts[bisect_right(trace.starts, end.node.index) - 1]
    while True:
        now = row[0].node
        alike = [
            value
            for value in walked(operands(now), ())
            if (value.node.name, value.node.path, value.shape) == (now.name, now.path, end.shape)
            and start <= value.node.index < now.index
        ]
        steps = {now.index - value.node.index: value for value in alike}
        if len(row) > 1:
            step = row[1].node.index - now.index
            shorter = max((k for k in steps if step // 2 < k <= step), default=step)  # the first time step
            value = steps.get(shorter)
        else:
            value = steps[min(steps)] if steps else None
        if value is None:
            return row
        row.insert(0, value)


def _follows(before: TracedValue, after: TracedValue) -> bool:
    """True if a value is computed from another by functions of single values."""
    return key_of(before) != key_of(after) and any(
        key_of(value) == key_of(before) for value in walked([after], {key_of(before)})
    )
