"""The loop iteration of each value, and stacks and sums over iterations, from handwritten traces."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.time_loop import SERIES, STATIC, TimeLoop
from tests.importers.tracing.tape import ROW, Tape, called, looped, state

torch = pytest.importorskip("torch")

WHOLE, COLUMNS = (3, *ROW), (2, 3, 4)


def plain(tape: Tape, x: TracedValue, k: int, done: list[TracedValue]) -> TracedValue:
    return tape.neuron("lif", x)


def spikes(iterations: int = 3) -> tuple[Tape, list[TracedValue]]:
    """A loop, and what its neuron sent in each turn."""
    tape, found = looped(plain, iterations)
    return tape, [TracedValue(node) for node in found.calls["lif"]]


def age(tape: Tape, value: TracedValue, calls: int = 1) -> int:
    return TimeLoop(tape.recording, calls).age(value)


def summed(tape: Tape, values: list[Any], name: str = "add", **more: Any) -> TracedValue:
    total = values[0]
    for value in values[1:]:
        total = tape.call(name, total, value, **more)
    assert isinstance(total, TracedValue)
    return total


def test_how_many_turns_there_are() -> None:
    assert [TimeLoop(looped(plain, n)[0].recording).iterations for n in (1, 2, 3)] == [1, 2, 3]
    tape, _ = spikes()
    tape.neuron("once", tape.input())
    found = TimeLoop(tape.recording)
    assert (found.iterations, found.last, found.is_called, found.follows_time) == (3, 2, False, False)
    bare = TimeLoop(Tape().recording)
    assert (bare.iterations, bare.last, bare.is_called) == (1, 0, False)
    tape, several = called(plain, 2)
    assert (several.iterations, several.last, several.is_called) == (2, 1, True)
    assert [several.turn_of[n.index] for n in tape.recording.nodes] == [0, 0, 1, 1]
    assert TimeLoop(tape.recording, 1).turn_of == {1: 0, 3: 1}
    idle, _ = called(plain, 3)
    idle.recording.nodes.pop()
    assert TimeLoop(idle.recording, 3).iterations == 3


def test_resets_count_in_a_loop_alone() -> None:
    tape, _ = spikes()
    tape.recording.resets[:] = [2]
    assert (TimeLoop(tape.recording).resets, TimeLoop(tape.recording, 3).resets) == ({2}, frozenset())


def test_slices_that_move_are_noted_where_they_are_compared() -> None:
    tape, found = looped(plain)
    assert found.stepped == set()
    assert found.problems() == []
    slices = [n.index for n in tape.recording.nodes if n.name == "select"]
    assert found.stepped == {slices[-1]}


def test_ages_of_inputs_neurons_and_what_is_computed_of_them() -> None:
    tape, s = spikes()
    x = TracedValue(tape.recording.nodes[0])
    late = tape.neuron("late", x)
    cases = [
        (x, -1),
        (tape.call("relu", x), -1),
        (s[0], 0),
        (s[2], 2),
        (state(s[1]), 1),
        (tape.call("relu", s[0]), 0),
        (tape.call("f", (s[2], x), more=s[1]), 2),
        (tape.call("f", s[0], more={"a": s[1]}), 1),
        (tape.call("select", s[1], 0, 0), 1),
        (tape.call("select", x, 0, 2), -1),
        (late, 0),
    ]
    assert [age(tape, value) for value, _ in cases] == [wanted for _, wanted in cases]
    assert (STATIC, SERIES) == (-1, -2)


def test_ages_of_calls_in_a_row() -> None:
    tape, _ = called(plain)
    nodes = [TracedValue(n) for n in tape.recording.nodes]
    stacked = tape.call("stack", (nodes[1], nodes[3], nodes[5]), shape=WHOLE)
    total = summed(tape, [nodes[1], nodes[3], nodes[5]])
    assert [age(tape, v, 3) for v in nodes] == [0, 0, 1, 1, 2, 2]
    assert [age(tape, v, 3) for v in (stacked, total)] == [2, 2]


@pytest.mark.parametrize("iterations", [2, 3])
def test_values_of_all_turns_in_order_are_a_series(iterations: int) -> None:
    tape, s = spikes(iterations)
    whole, columns = (iterations, *ROW), (2, iterations, 4)
    x = TracedValue(tape.recording.nodes[0])
    rows = [tape.call("unsqueeze", v, 0, shape=(1, *ROW)) for v in s]
    first, second = tape.call("stack", tuple(s), shape=whole), tape.call("stack", tuple(s), 1, shape=columns)
    joined = tape.call("cat", tuple(rows), shape=whole)
    found = TimeLoop(tape.recording)
    assert {found.series[v.node.index].items for v in (first, second)} == {tuple(s)}
    for value in (first, second, joined, tape.call("relu", first), tape.call("f", first, x)):
        assert age(tape, value) == -2
    assert age(tape, tape.call("f", first, s[0])) == 0
    for k in range(iterations):
        taken = tape.call("select", first, 0, k)
        along = tape.call("__getitem__", second, (slice(None), k))
        row = tape.call("narrow", joined, 0, k, 1)
        found = TimeLoop(tape.recording)
        assert [found.plain(v) for v in (taken, along, row)] == [s[k], s[k], rows[k]]
        assert [found.age(v) for v in (taken, along, row)] == [k, k, k]
        behind = tape.call("select", tape.call("relu", first, shape=whole), 0, k)
        across = tape.call("select", first, 2, k)
        kept = tape.call("narrow", first, 0, k, 1)
        dropped = tape.call("select", joined, 0, k)
        found = TimeLoop(tape.recording)
        assert [found.plain(v) for v in (behind, across, kept, dropped)] == [behind, across, kept, dropped]
        assert [found.age(v) for v in (behind, across, kept, dropped)] == [k, k, k, k]
    copied = tape.call("clone", tape.call("select", first, 0, 1))
    assert TimeLoop(tape.recording).plain(copied) == s[1]


def test_other_values_put_together_are_none() -> None:
    tape, s = spikes()
    other = tape.call("f", s[2])
    first = tape.call("f", s[0])
    for items in (
        (s[0], s[1]),
        (s[0], s[1], s[2], s[2]),
        (s[1], s[0], s[2]),
        (s[0], s[0], s[2]),
        (s[0], s[1], s[1]),
        (torch.zeros(ROW), s[1], s[2]),
        (s[0], s[1], torch.zeros(ROW)),
        (s[0], s[1], other),
        (first, s[1], s[2]),
        (first, s[1], other),
    ):
        stacked = tape.call("stack", items, shape=(len(items), *ROW))
        found = TimeLoop(tape.recording)
        assert stacked.node.index not in found.series, items
        assert found.age(stacked) == max(found.age(i) for i in items if isinstance(i, TracedValue))


def test_a_running_sum_over_all_turns() -> None:
    for start in ([], [0], [torch.zeros(ROW)], [0.0]):
        for name, iterations in (("add", 2), ("add", 3), ("add_", 3), ("__add__", 3), ("__radd__", 3), ("__iadd__", 3)):
            tape, s = spikes(iterations)
            total = summed(tape, [*start, *s], name)
            found = TimeLoop(tape.recording)
            assert (found.age(total), found.sums) == (-2, {total.node.index: tuple(s)})
    tape, s = spikes()
    right = tape.call("add", s[0], tape.call("add", s[1], s[2]))
    copies = summed(tape, [tape.call("clone", v) for v in s])
    assert [age(tape, v) for v in (right, copies)] == [-2, -2]


def test_other_sums_over_turns_are_computed_step_by_step() -> None:
    for values, name, more, wanted in (
        ((0, 1), "add", {}, 1),
        ((0, 1, 1), "add", {}, 1),
        ((1, 0, 2), "add", {}, 2),
        ((0, 1, 2), "sub", {}, 2),
        ((0, 1, 2), "add", {"alpha": 2}, 2),
        ((0, 1, 2), "add", {"alpha": 2, "out": None}, 2),
    ):
        tape, s = spikes()
        total = summed(tape, [s[k] for k in values], name, **more)
        found = TimeLoop(tape.recording)
        assert (found.age(total), found.sums) == (wanted, {}), values
    tape, s = spikes()
    constant = summed(tape, [torch.ones(ROW), *s])
    other = tape.call("add", tape.call("add", s[0], s[1]), s[2], s[2])
    assert [age(tape, v) for v in (constant, other)] == [2, -2]


def test_one_turn_is_no_loop_to_sum_over() -> None:
    tape, (only,) = spikes(1)
    total = tape.call("add", only, 0)
    found = TimeLoop(tape.recording)
    assert (found.age(total), found.sums) == (0, {})
    stacked = tape.call("stack", (only,), shape=(1, *ROW))
    assert age(tape, stacked) == -2
