"""Activations and maxima of a traced ANN as rectifiers, which spike rates can stand for; advice for all others.

* A piecewise linear function of one value (ReLU6, LeakyReLU, hardtanh, abs) is one rectifier for each piece that is
  not constant: ``leaky(x) = relu(x) - slope * relu(-x)``.
* A maximum is a sum of rectifiers, ``max(a, b) = a + relu(b - a)``; n values along an axis are a tree of n - 1 of them.
* A softmax or sigmoid of the outputs is left to the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.importers.ann.replay import HOST, UNBOUNDED
from nirbridge.importers.frameworks import importer_hint, packages_of
from nirbridge.importers.lowering.build import Writer
from nirbridge.importers.lowering.lifted import with_replaced_pools
from nirbridge.importers.module_checks import REPLACED_MAXPOOL
from nirbridge.importers.neuron_specs import DataflowGraph, ImportedNeuron, NeuronSpec, Operation, ValueRef
from nirbridge.importers.tracing.arguments import advice_on
from nirbridge.importers.tracing.pointwise import MAX, MIN, PAIRS
from nirbridge.network import neuron

_NORM = "use BatchNorm, which folds into weights, and retrain"
_ADVICE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "softmax": (
            "its outputs depend on all others",
            "leave it out of the module: the largest output stays the largest",
        ),
        "layer_norm": ("it normalizes by its own input", _NORM),
        "layernorm": ("it normalizes by its own input", _NORM),
        "group_norm": ("it normalizes by its own input", _NORM),
        "groupnorm": ("it normalizes by its own input", _NORM),
        "instance_norm": ("it normalizes by its own input", _NORM),
        "instancenorm": ("it normalizes by its own input", _NORM),
    }
)
"""Part of an operation's name -> (reason, hint)."""
_ACTIVATIONS = (
    *("sigmoid", "tanh", "gelu", "silu", "swish", "elu", "leaky", "prelu", "rrelu", "softplus", "softsign", "mish"),
    *("hardshrink", "softshrink", "threshold", "glu", "relu", "clamp", "hardtanh"),
)


@dataclass(frozen=True, slots=True)
class Rectifier:
    """Stands in for an activation ``min(max(x, 0), ceiling)``; its class is looked up, it is never run."""

    ceiling: float = UNBOUNDED


def _read(module: Rectifier, shape: Shape, dt: float) -> ImportedNeuron:
    return ImportedNeuron(neuron("IF", theta=module.ceiling, reset="subtract"))


FORMS: Mapping[type, NeuronSpec] = MappingProxyType({Rectifier: NeuronSpec(_read)})
_WITHOUT_RATE = ("max_pool", "unknown", "pair", "pointwise")
"""Kinds of functions that no sum of spikes computes."""


def with_rectifiers(flow: DataflowGraph) -> tuple[DataflowGraph, tuple[Diagnostic, ...]]:
    """The flow with every activation and maximum as neurons, and every operation that prevents a conversion."""
    rectified = _rewritten(_without_host(flow), _activation)
    # exact here: max(relu(a), relu(b)) = relu(max(a, b))
    moved = with_replaced_pools(rectified, FORMS, 1.0, (REPLACED_MAXPOOL,))
    found = _rewritten(replace(moved, problems=flow.problems, deviations=flow.deviations), _maximum)
    problems = [_problem(call) for call in found.calls if call.kind in _WITHOUT_RATE or _is_spiking(call)]
    return found, tuple(problems)


Calls = Mapping[str, Operation]
Rule = Callable[[Writer, Calls], str]
"""Writes what an operation becomes, nothing where it stays; returns a note (``""``: none)."""


def _rewritten(flow: DataflowGraph, rule: Rule) -> DataflowGraph:
    calls: dict[str, Operation] = {}
    taken, notes = {call.name for call in flow.calls}, list(flow.notes)
    for call in flow.calls:
        writer = Writer(call, taken)
        note = rule(writer, calls)
        calls |= {one.name: one for one in writer.found or [call]}
        notes += [f"{call.subject}: {note}"] if note else []
    return replace(flow, calls=tuple(calls.values()), notes=tuple(notes))


def _rectified(writer: Writer, ref: ValueRef, ceiling: float = UNBOUNDED, **more: Any) -> ValueRef:
    return writer.add("neuron", (ref,), MappingProxyType({}), target=Rectifier(ceiling), **more)


# -- functions of the host -------------------------------------------------------------------------------------------


def _without_host(flow: DataflowGraph) -> DataflowGraph:
    """The flow without functions of the host that nothing but outputs reads."""
    read = {ref.call for call in flow.calls for ref in call.inputs}
    last = {c.name: c for c in flow.calls if c.arguments.get("function") in HOST and c.name not in read}
    outputs = tuple(replace(o, ref=last[o.ref.call].inputs[0]) if o.ref.call in last else o for o in flow.outputs)
    notes = tuple(
        f"{c.subject}: {c.arguments['function']} is left to the host; outputs are its inputs, in the same order"
        for c in last.values()
    )
    calls = tuple(call for call in flow.calls if call.name not in last)
    return replace(flow, calls=calls, outputs=outputs, notes=(*flow.notes, *notes))


# -- functions of one value ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """``slope * min(max(sign * (x - start), 0), length)``."""

    slope: float
    sign: float
    start: float
    length: float


_SIZES = 2.0 ** (np.arange(-80, 81) / 4)
_PROBES = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
"""Numbers of all sizes on which a function is looked at."""
_NEARLY, _LINES_MAX = 1e-9, 4


def pieces_of(function: Callable[[Array], Array]) -> tuple[tuple[Piece, ...], float] | None:
    """A function as a sum of rectifiers and a constant; None where it is not continuous and piecewise linear."""
    y = np.asarray(function(_PROBES.copy()), np.float64)
    if not bool(np.all(np.isfinite(y))):
        return None
    slopes = np.diff(y) / np.diff(_PROBES)
    is_line = np.abs(np.diff(slopes)) <= _NEARLY + 1e-6 * np.abs(slopes[1:])
    firsts = np.flatnonzero(is_line & ~np.concatenate([[False], is_line[:-1]])) + 1  # one point of each line
    at = [(round(float(slopes[k]), 12), float(y[k] - slopes[k] * _PROBES[k])) for k in firsts]
    if not 2 <= len(at) <= _LINES_MAX or any(a == b for (a, _), (b, _) in pairwise(at)):
        return None
    kinks = [round((c - d) / (b - a), 9) + 0.0 for (a, c), (b, d) in pairwise(at)]
    found = [Piece(-at[0][0], -1.0, kinks[0], UNBOUNDED)]
    ends = [b - a for a, b in pairwise(kinks)]
    found += [Piece(line[0], 1.0, k, n) for line, k, n in zip(at[1:], kinks, [*ends, UNBOUNDED], strict=True)]
    pieces = tuple(piece for piece in found if abs(piece.slope) > _NEARLY)
    constant = round(at[0][0] * kinks[0] + at[0][1], 9) + 0.0
    same = sum((p.slope * np.clip(p.sign * (_PROBES - p.start), 0, p.length) for p in pieces), np.float64(constant))
    return (pieces, constant) if bool(np.allclose(same, y, rtol=1e-6, atol=1e-9)) else None


def _activation(writer: Writer, calls: Calls) -> str:
    call = writer.call
    if call.kind == "relu":
        _rectified(writer, call.inputs[0], name=call.name)
    found = pieces_of(call.arguments["of"]) if call.kind == "pointwise" else None
    if found is None:
        return ""
    (first, *others), constant = found
    if not others and not constant and first.slope == 1.0:
        _rectified(writer, _turned(writer, first), first.length, name=call.name)
        return ""
    parts = [(_rectified(writer, _turned(writer, p), p.length, word="part"), p.slope) for p in (first, *others)]
    writer.put_together(parts, constant, {})
    return f"{call.arguments['function']} is {counted(len(parts), 'population')}, one for each linear piece"


def _turned(writer: Writer, piece: Piece) -> ValueRef:
    """``sign * (x - start)``."""
    ref = writer.call.inputs[0]
    if piece.sign == 1.0 and not piece.start:
        return ref
    constant = freeze(np.asarray(-piece.sign * piece.start))
    return writer.add("shift", (ref,), {"constant": constant, "sign": piece.sign}, word="input")


# -- maxima --------------------------------------------------------------------------------------------------------


def _maximum(writer: Writer, calls: Calls) -> str:
    call = writer.call
    if call.kind == "pair" and PAIRS[call.arguments["function"]] in (MAX, MIN):
        a, b = call.inputs
        sign = 1.0 if PAIRS[call.arguments["function"]] == MAX else -1.0
        over = _rectified(writer, writer.sum((b, a), (sign, -sign)), word="over")
        writer.put_together([(a, 1.0), (over, sign)], 0.0, {})
        return "a maximum of two values a and b is a + relu(b - a)" if sign > 0 else ""
    if call.kind != "max_pool" or call.arguments.get("function") == "prod":
        return ""
    source, value = calls[call.inputs[0].call], call.inputs[0]
    is_positive, shape = _is_positive(source, calls) and not call.arguments.get("is_least"), source.shape
    for arguments, pooled in _stages(call, shape):
        windows = _Windows(
            replace(call, inputs=(value,), arguments=arguments, shape=pooled), writer.taken, shape, is_positive
        )
        first, over = windows.tree(0, windows.size)
        value, shape = windows.sum(windows.value(first), over, windows.sign), pooled
        writer.found += windows.writer.found
    neurons = sum(math.prod(one.shape) for one in writer.found if one.kind == "neuron")
    if is_positive and neurons:  # one population, so that its readers have one source
        _rectified(writer, value, name=call.name, shape=shape)
        neurons += math.prod(shape)
    else:
        writer.add("add", (value,), {"signs": (1.0,)}, name=call.name, shape=shape)
    return f"a maximum of several values is a tree of a + relu(b - a): {counted(neurons, 'neuron')}"


_KEYS = ("kernel", "stride", "padding", "dilation")


def _stages(call: Operation, source: Shape) -> Iterator[tuple[dict[str, Any], Shape]]:
    """Maxima along one axis that make up a maximum, and their shapes; of disjoint windows one for each prime factor."""
    a, shape = call.arguments, list(source)
    if "rows" in a:
        table, (*outer, last) = _positions(a, source), a["shape"]
        for size in _factors(table.shape[1]) or [1]:
            table = table.reshape(-1, size)
            yield {**a, "table": table}, (*outer, last * len(table) // math.prod(a["shape"]))
            table = np.arange(len(table))
        return
    for axis in reversed(range(len(a["kernel"]))):
        k, s, padding, d = (a[key][axis] for key in _KEYS)
        is_split = s == k and d == 1 and not any(padding)
        for size, stride in [(n, n) for n in _factors(k)] if is_split else [(k, s)]:
            shape[axis + 1] = (shape[axis + 1] + sum(padding) - d * (size - 1) - 1) // stride + 1
            plain = zip(_KEYS, (1, 1, (0, 0), 1), (size, stride, padding, d), strict=True)
            along = {
                key: tuple(one if k == axis else rest for k in range(len(a["kernel"]))) for key, rest, one in plain
            }
            yield {**a, **along}, tuple(shape)


def _factors(n: int) -> list[int]:
    """Prime factors, ascending."""
    least = next((k for k in range(2, math.isqrt(n) + 1) if n % k == 0), n)
    return [] if n == 1 else [least, *_factors(n // least)]


def _is_positive(call: Operation, calls: Calls) -> bool:
    """True for values that are never below 0."""
    if call.kind in ("reshape", "gather", "avg_pool", "concat"):
        return all(_is_positive(calls[ref.call], calls) for ref in call.inputs)
    return call.kind == "neuron" and not _is_spiking(call)


class _Windows:
    """The windows of a maximum or minimum, with their values numbered from 0.

    Padding counts as 0 if the values are positive, else as the first value of its window. ``sign``: -1 for minima.
    """

    def __init__(self, call: Operation, taken: set[str], source: Shape, is_positive: bool) -> None:
        a = self.arguments = call.arguments
        self.writer, self.source, self.is_positive = Writer(call, taken), source, is_positive
        self.sign = -1.0 if a.get("is_least") else 1.0
        margins = None if "table" in a or (np.any(a["padding"]) and not is_positive) else self._margins()
        self.margins, self.table = margins, np.zeros((0, 0), np.int64)
        if margins is None:
            self.table = a["table"] if "table" in a else _positions(a, source)
        self.size = self.table.shape[1] or math.prod(a["kernel"])

    def tree(self, start: int, stop: int) -> tuple[int, list[ValueRef]]:
        """The largest of these values: the number of the first of them, and rectifiers that are added to it."""
        if stop - start == 1:
            return start, []
        middle = (start + stop + 1) // 2
        (a, more_a), (b, more_b) = self.tree(start, middle), self.tree(middle, stop)
        over = self.value(b, a) if self.sign > 0 else self.value(a, b)
        over = self.sum(self.sum(over, more_b, 1.0), more_a, -1.0)
        return a, [*more_a, _rectified(self.writer, over, word="over")]

    def sum(self, total: ValueRef, more: Sequence[ValueRef], sign: float) -> ValueRef:
        """A value and others times ``sign``."""
        for ref in more:
            total = self.writer.sum((total, ref), (1.0, sign))
        return total

    def value(self, plus: int, minus: int | None = None) -> ValueRef:
        """Value ``plus`` of each window, less value ``minus``."""
        signs = [(plus, 1.0)] if minus is None else [(plus, 1.0), (minus, -1.0)]
        kind, arguments = ("matrix", self._matrix(signs)) if self.margins is None else ("conv", self._conv(signs))
        return self.writer.add(kind, self.writer.call.inputs, arguments, word="value")

    def _margins(self) -> tuple[int, ...] | None:
        """Places of a kernel before the window, for equal padding on both sides; None where no kernel does it."""
        a, margins = self.arguments, list[int]()
        sizes = zip(self.source[1:], self.writer.call.shape[1:], a["kernel"], a["stride"], strict=True)
        for (n, count, k, s), (low, high), d in zip(sizes, a["padding"], a["dilation"], strict=True):
            margins.append(-((low - high) // d))
            if (n + 2 * low + margins[-1] * d - d * (k - 1) - 1) // s + 1 != count:
                return None
        return tuple(margins)

    def _conv(self, signs: Sequence[tuple[int, float]]) -> dict[str, Any]:
        a, channels, margins = self.arguments, self.source[0], self.margins or ()
        weight = np.zeros((channels, 1, *(k + m for k, m in zip(a["kernel"], margins, strict=True))), np.float32)
        window = weight[(..., *(slice(m, None) for m in margins))]
        for k, sign in signs:
            window[(..., *np.unravel_index(k, a["kernel"]))] = sign
        both = zip(a["padding"], margins, a["dilation"], strict=True)
        padding = tuple((low + m * d,) * 2 for (low, _), m, d in both)
        named = {"stride": tuple(a["stride"]), "padding": padding, "dilation": tuple(a["dilation"])}
        return {"weight": freeze(weight), "bias": None, "groups": channels, **named}

    def _matrix(self, signs: Sequence[tuple[int, float]]) -> dict[str, Any]:
        columns, factors = self.table[:, [k for k, _ in signs]], np.array([sign for _, sign in signs])
        order = np.argsort(columns, axis=1)
        differ = (columns[:, :1] != columns[:, 1:]).all(1)  # of a value and itself, nothing is left
        return {
            "rows": np.repeat(np.flatnonzero(differ), len(signs)),
            "columns": freeze(np.take_along_axis(columns, order, 1)[differ].reshape(-1), np.int64),
            "values": freeze(factors[order][differ].reshape(-1), np.float32),
            "shape": self.writer.call.shape,
            "factor": 1.0,
        }


def _positions(arguments: Mapping[str, Any], source: Shape) -> Array:
    """Flat positions of the values of each window, ``[windows, values]``; the first one in place of a missing one."""
    if "rows" in arguments:
        counts = np.bincount(arguments["rows"])
        inside = np.arange(counts.max()) < counts[:, None]
        starts = np.cumsum(counts) - counts
        return arguments["columns"][np.where(inside, starts[:, None] + np.arange(counts.max()), starts[:, None])]
    table = np.arange(source[0])[:, None]  # channels
    for n, k, s, (before, after), d in zip(source[1:], *(arguments[key] for key in _KEYS), strict=True):
        count = (n + before + after - d * (k - 1) - 1) // s + 1
        at = np.arange(count)[:, None] * s - before + np.arange(k) * d
        inside = (at >= 0) & (at < n)
        at = np.where(inside, at, np.take_along_axis(at, inside.argmax(1)[:, None], 1))
        table = (table[:, None, :, None] * n + at[None, :, None, :]).reshape(len(table) * count, -1)
    return table


# -- refusals ------------------------------------------------------------------------------------------------------


def _is_spiking(call: Operation) -> bool:
    return call.kind == "neuron" and not isinstance(call.target, Rectifier)


def _operation(call: Operation) -> str:
    return str(call.arguments.get("function", type(call.target).__name__)).lower()


def _neuron_advice(part: object) -> tuple[str, str]:
    return "a spiking neuron is not an activation of an ANN", importer_hint(packages_of(part))


def _problem(call: Operation) -> Diagnostic:
    name = _operation(call)
    limit, hint = _neuron_advice(call.target) if call.kind == "neuron" else _advice(name, call.arguments)
    shown = call.arguments.get("function", name)
    return Diagnostic(
        call.subject, f"{quoted(shown)}", limit, hint, MappingProxyType({"module": call.path, "call": call.name})
    )


def _advice(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    for part, advice in _ADVICE.items():
        if part in name:
            return advice
    if any(part in name for part in _ACTIVATIONS):
        return "spike rates compute functions that are linear in pieces", "use ReLU, LeakyReLU or ReLU6 and retrain"
    general = advice_on(name)
    return str(arguments.get("reason") or general[0]), str(arguments.get("hint") or general[1])
