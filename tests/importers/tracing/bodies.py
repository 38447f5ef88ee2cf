"""Bodies of loops around neurons: those whose iterations are one time step, and others."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.importers.tracing.recorder import TracedValue
from tests.importers.tracing.tape import ROW, Body, Tape

torch = pytest.importorskip("torch")

BIAS = torch.tensor([0.5, 0.0, 1.0, 0.0])


def rec(tape: Tape, value: Any, bias: Any = None, **more: Any) -> TracedValue:
    return tape.call("linear", value, torch.eye(4), bias, func=torch.nn.functional.linear, **more)


def fc(tape: Tape, x: Any) -> TracedValue:
    return tape.call("relu", x, path="fc", func=torch.relu)


def add(tape: Tape, a: Any, b: Any, **more: Any) -> TracedValue:
    return tape.call("add", a, b, func=torch.add, **more)


def lif(tape: Tape, x: Any, path: str = "lif") -> TracedValue:
    return tape.neuron(path, x)


def fed(current: Any) -> Body:
    """A neuron that is given ``current(tape, input of the iteration, iteration, spikes of the iterations before)``."""
    return lambda tape, x, k, done: lif(tape, current(tape, x, k, done))


def back(start: Any, of: Any = lambda tape, spikes: spikes) -> Body:
    """A neuron that hears what it sent in the step before, ``start`` in the first."""
    return fed(lambda tape, x, k, done: add(tape, x, of(tape, done[-1]) if k else start))


def first_apart(later: Any, first: Any = lambda tape, x: x) -> Body:
    return fed(lambda tape, x, k, done: later(tape, x, done[-1]) if k else first(tape, x))


def two(second: Any) -> Body:
    """Two neurons, of which the second is given ``second(tape, spikes of the first by iteration, iteration)``."""
    firsts: list[TracedValue] = []

    def body(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        firsts[k:] = [lif(tape, x, "a")]
        return lif(tape, second(tape, firsts, k), "b")

    return body


def pair(tape: Tape, x: Any, output: int) -> TracedValue:
    """Output ``output`` of a function of two."""
    return TracedValue(tape.node("function", "frexp", (x,), shapes=(ROW, ROW), func=torch.frexp).node, output)


def unbound(iteration: Any) -> Body:
    """The part of ``iteration(number of the iteration)`` of the whole input, taken apart at once."""
    parts: list[TracedValue] = []

    def current(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        if not k:
            parts[:] = [tape.node("function", "unbind", x.node.args[:1], shapes=(ROW,) * 3)]
        return TracedValue(parts[0].node, iteration(k))

    return fed(current)


def once(usual: Any, other: Any) -> Body:
    """A function with a constant that is another in the second of three turns."""
    return fed(lambda tape, x, k, done: tape.call("f", x, other if k == 1 else usual, a=other if k == 1 else usual))


STEPS: dict[str, Body] = {
    "its slice": fed(lambda tape, x, k, done: x),
    "a layer on its slice": fed(lambda tape, x, k, done: fc(tape, x)),
    "spikes of before": back(torch.zeros(ROW)),
    "spikes of before, from 0": back(0),
    "a layer on spikes of before": back(None, lambda tape, s: rec(tape, s)),
    "a layer with a bias, from its bias": back(BIAS.expand(ROW), lambda tape, s: rec(tape, s, BIAS)),
    "nothing added in the first step": first_apart(lambda tape, x, s: add(tape, x, rec(tape, s))),
    "nothing added in front": first_apart(lambda tape, x, s: add(tape, rec(tape, s), x)),
    "a constant": fed(lambda tape, x, k, done: BIAS),
    "a part of what was taken apart": unbound(lambda k: k),
    "two neurons": two(lambda tape, a, k: fc(tape, a[k])),
    "the second one step late": two(lambda tape, a, k: a[k - 1] if k else torch.zeros(ROW)),
    "one of two outputs": fed(lambda tape, x, k, done: pair(tape, x, 1)),
    "joined spikes of before": back(
        torch.zeros(ROW), lambda tape, s: tape.call("cat", (s, s), 1, func=torch.cat)
    ),
}  # fmt: skip
OTHERS: dict[str, Body] = {
    "the other output in the first step": fed(lambda tape, x, k, done: pair(tape, x, int(k > 0))),
    "another layer in one step": fed(lambda tape, x, k, done: tape.call("relu", x, path="ab"[k == 1])),
    "another function in one step": fed(lambda tape, x, k, done: tape.call("relu" if k != 1 else "tanh", x)),
    "another constant in one step": fed(lambda tape, x, k, done: tape.call("mul", x, 1.0 + (k == 1))),
    "another option in one step": fed(lambda tape, x, k, done: tape.call("mul", x, 1.0, alpha=k == 1)),
    "an option more in one step": fed(lambda tape, x, k, done: tape.call("f", x, **({"a": 1} if k == 1 else {}))),
    "a constant more in one step": fed(lambda tape, x, k, done: tape.call("f", x, (1,) * (2 if k == 1 else 1))),
    "one of several constants": once((1, 1, 1), (1, 2, 1)),
    "a tuple for a number": once(1, (1, 2)),
    "a number for a tuple": once((1, 2), 1),
    "a mapping for a number": once(1, {"b": 1}),
    "a number for a mapping": once({"b": 1}, 1),
    "a mapping with another key": once({"b": 1}, {"c": 1}),
    "a mapping with another value": once({"b": 1, "c": 1}, {"b": 1, "c": 2}),
    "one of several constants instead of the input": fed(lambda tape, x, k, done: 1.0 if k == 1 else x),
    "the input instead of a constant": fed(lambda tape, x, k, done: x if k == 1 else 1.0),
    "a part of another turn": unbound(lambda k: max(k, 1)),
    "zeros for two steps": fed(lambda tape, x, k, done: add(tape, x, done[-1] if k > 1 else torch.zeros(ROW))),
    "nothing added for two steps": fed(
        lambda tape, x, k, done: add(tape, x, rec(tape, done[-1])) if k > 1 else x
    ),
    "spikes times the input, from zeros": fed(
        lambda tape, x, k, done: tape.call("mul", done[-1], x.node.args[0], func=torch.mul) if k else torch.zeros(ROW)
    ),
    "one of two outputs, from a constant": back(BIAS.expand(ROW), lambda tape, s: pair(tape, s, 0)),
    "another layer from the second step on": first_apart(lambda tape, x, s: add(tape, fc(tape, x), rec(tape, s))),
    "three arguments": first_apart(lambda tape, x, s: tape.call("add", x, rec(tape, s), None)),
    "added to spikes later on": two(lambda tape, a, k: add(tape, a[k], rec(tape, a[k - 1])) if k else a[k]),
    "spikes of this step, from the second one on": two(
        lambda tape, a, k: add(tape, a[k].node.args[0], rec(tape, a[k])) if k else a[k].node.args[0]
    ),
    "spikes of before, from ones": back(torch.ones(ROW)),
    "from one that is not zero": back(torch.eye(4)[:2]),
    "from a number that is not zero": back(0.5),
    "a layer with a bias, from zeros": back(torch.zeros(ROW), lambda tape, s: rec(tape, s, BIAS)),
    "a layer with one bias for all, from the number": back(0.5, lambda tape, s: rec(tape, s, torch.full((4,), 0.5))),
    "a layer with a bias, from another": back(torch.full(ROW, 0.5), lambda tape, s: rec(tape, s, BIAS)),
    "of the first step for ever": fed(lambda tape, x, k, done: add(tape, x, done[0] if k else 0)),
    "a bias added from the second step on": first_apart(lambda tape, x, s: add(tape, x, rec(tape, s, BIAS))),
    "subtracted from the second step on": first_apart(
        lambda tape, x, s: tape.call("sub", x, rec(tape, s), func=torch.sub)
    ),
    "added twice from the second step on": first_apart(lambda tape, x, s: add(tape, x, rec(tape, s), alpha=2)),
    "a constant added from the second step on": first_apart(lambda tape, x, s: add(tape, x, 0)),
    "the input added twice from the second step on": first_apart(lambda tape, x, s: add(tape, x, x)),
    "nothing, and then what it sent": fed(lambda tape, x, k, done: done[-1] if k else x),
    "the first of two, then the second": two(lambda tape, a, k: a[k] if k != 1 else fc(tape, a[k])),
    "early, then late": two(lambda tape, a, k: a[max(k - 1, 0)]),
    "late, then early": two(lambda tape, a, k: a[k] if k == 2 else a[0]),
}  # fmt: skip


def of_another(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
    """What one neuron sends, and in the second step what another one does."""
    sources = [lif(tape, x, "a"), lif(tape, x, "b")]
    return sources[k == 1]


def late(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
    """The slice of the turn before."""
    return tape.call("select", x.node.args[0], 0, max(k - 1, 0))


def other_axis(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
    return tape.call("select", x.node.args[0], int(k == 1), k)


def kept_axis(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
    return tape.call("__getitem__", x.node.args[0], k if k != 1 else slice(1, 2))


def of_a_copy(layer: bool) -> Any:
    def current(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
        name = "relu" if layer or k != 1 else "tanh"
        return tape.call("select", tape.call(name, x.node.args[0], shape=(3, *ROW)), 0, k)

    return current


STEPS |= {
    "sum of sums": first_apart(
        lambda tape, x, s: add(tape, add(tape, x, 1), rec(tape, s)), lambda tape, x: add(tape, x, 1)
    ),
    "spikes of two steps before": fed(
        lambda tape, x, k, done: add(tape, x, done[k - 2] if k > 1 else torch.zeros(ROW))
    ),
    "slices of what each step computes anew": fed(of_a_copy(True)),
}
OTHERS |= {
    "what another neuron sends": fed(of_another),
    "slices one step late": fed(late),
    "slices along another axis once": fed(other_axis),
    "a slice that keeps its axis once": fed(kept_axis),
    "slices of what one step computes otherwise": fed(of_a_copy(False)),
}
