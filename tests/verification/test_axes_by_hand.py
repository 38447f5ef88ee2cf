"""Readings of a sample's axes, in order, and the axes along which a network copies itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Reshape, Scale, Sparse
from nirbridge.verification.sample_axes import EFFORTS, TrialEffort, TrialReading, _axes, trial_readings
from nirbridge.verification.self_check import copied_axis

EFFORT = TrialEffort(6, 5, 3, longer=40)


def test_efforts_from_the_most_thorough_to_the_least() -> None:
    assert (TrialEffort(32, 4, 2147483648, 300), TrialEffort(16, 2, 4, 300), TrialEffort(8, 1, 1, 300)) == EFFORTS
    assert TrialEffort(1, 1, 1).longer == 300


def test_places_of_time_and_batch_for_every_rank() -> None:
    none, batch = (None, None), (None, 0)
    assert list(_axes(0)) == [none]
    assert list(_axes(1)) == [none, batch, (0, None)]
    assert list(_axes(2)) == [none, batch, (0, None), (1, None), (0, 1), (1, 0)]
    alone = [(k, None) for k in range(4)]
    assert list(_axes(4)) == [none, batch, *alone, (0, 1), (1, 0), (2, 0), (3, 0), (2, 1), (3, 1)]


def short(found: list[TrialReading]) -> list[tuple[Any, ...]]:
    return [(r.time, r.batch, r.step_shapes, r.steps, r.samples, r.is_stepwise) for r in found]


def one_step(own: tuple[tuple[int, ...], ...], batch: bool, samples: int) -> list[tuple[Any, ...]]:
    """Readings of a sample that is one time step, with a batch axis or without."""
    found: list[tuple[Any, ...]] = [(None, 0, own, 6, samples, True)]
    places = [(0, 1), (1, 0), (-1, 0)]
    found += [(*place, own, 6, samples, False) for place in places]
    found += [] if batch else [(None, None, own, 6, 1, True), (0, None, own, 6, 1, False)]
    return found + [(*place, own, 40, samples, False) for place in places]


def test_readings_of_one_time_step() -> None:
    assert short(trial_readings([(7,)], [(7,)], EFFORT)) == one_step(((7,),), False, 5)
    assert short(trial_readings([()], [()], EFFORT)) == one_step(((),), False, 5)
    assert short(trial_readings([(2, 7)], [(7,)], EFFORT)) == [
        *one_step(((7,),), True, 2),
        (0, None, ((7,),), 2, 1, False),
        (0, 1, ((7,),), 2, 5, False),
        (1, 0, ((7,),), 2, 5, False),
        (None, 0, ((7,),), 2, 5, True),
        (None, None, ((7,),), 2, 1, True),
    ]


def test_a_large_batch_is_cut_to_what_the_effort_takes() -> None:
    assert {r.samples for r in trial_readings([(9, 7)], [(7,)], EFFORT) if r.steps == 6} == {3}
    assert {r.samples for r in trial_readings([(3, 7)], [(7,)], EFFORT) if r.steps == 6} == {3}


def test_readings_with_both_axes_and_time_after_the_values() -> None:
    own = ((7,),)
    assert short(trial_readings([(8, 2, 7)], [(7,)], EFFORT)) == [
        (0, 1, own, 8, 2, False),
        (None, 0, own, 8, 2, True),
        (1, 0, own, 2, 3, False),
        (None, 0, own, 2, 3, True),
    ]
    assert short(trial_readings([(2, 7, 8)], [(7,)], EFFORT)) == [(2, 0, own, 8, 2, False), (None, 0, own, 8, 2, True)]
    late = short(trial_readings([(7, 8)], [(7,)], EFFORT))
    assert late == [
        (1, None, own, 8, 1, False),
        (2, 0, own, 8, 5, False),
        (None, 0, own, 8, 5, True),
        (None, None, own, 8, 1, True),
    ]


def test_shapes_that_are_exact_come_before_those_that_have_as_many_values() -> None:
    found = trial_readings([(6, 7)], [(42,)], EFFORT)
    assert {r.step_shapes for r in found} == {((6, 7),)}
    owns = [r.step_shapes for r in trial_readings([(6, 1, 6)], [(6, 1)], EFFORT)]
    assert list(dict.fromkeys(owns)) == [((6, 1),), ((1, 6),), ((6,),)]
    assert trial_readings([(5,)], [(7,)], EFFORT) == []


def test_two_inputs_share_time_and_batch() -> None:
    found = trial_readings([(2, 7), (2, 3)], [(7,), (3,)], EFFORT)
    assert found[0] == TrialReading(None, 0, ((7,), (3,)), 6, 2, is_stepwise=True)
    assert {r.step_shapes for r in found} == {((7,), (3,))}
    assert trial_readings([(2, 7), (4, 3)], [(7,), (3,)], EFFORT) == [], "batches of two sizes"
    assert trial_readings([(7,), (3,)], [(7,), (4,)], EFFORT) == []
    ranks = trial_readings([(7,), (7, 3)], [(7,), (21,)], EFFORT)
    assert {(r.time, r.batch, r.step_shapes) for r in ranks if r.is_stepwise} == {
        (None, 0, ((7,), (7, 3))),
        (None, None, ((7,), (7, 3))),
    }


def test_each_call_of_a_stepwise_forward_gets_its_own_time_step() -> None:
    values = np.arange(24.0).reshape(4, 2, 3)
    for batch in (0, None):
        reading = TrialReading(None, batch, ((3,),), 4, 2, is_stepwise=True)
        calls = [argument for (argument,) in reading.calls([values])]
        np.testing.assert_array_equal(np.stack(calls), values if batch == 0 else values[:, 0])
    assert TrialReading(0, 1, ((3,),), 4, 2).is_stepwise is False


# -- copies --------------------------------------------------------------------------------------------------------

TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")
BLOCK = np.array([[0.05, 0.025], [0.03, 0.07]], np.float32)


def network(first: Any, shape: tuple[int, ...], *, last: Any = None, out: tuple[int, ...] | None = None) -> Network:
    cells = Population("r", shape, neuron("IF", theta=1.0, reset="subtract"))
    back = Projection("r", "out", Reshape(shape, out or shape) if last is None else last)
    ports = (Port("in", shape),), (Port("out", out or shape),)
    return Network(1e-4, TIMING, (cells,), (Projection("in", "r", first), back), *ports)


def sparse(matrix: Any, shape: tuple[int, ...], out: tuple[int, ...] | None = None) -> Sparse:
    post, pre = np.nonzero(matrix)
    counts = np.concatenate([[0], np.cumsum(np.bincount(post, minlength=len(matrix)))])
    return Sparse(counts, pre, np.asarray(matrix, np.float32)[post, pre], shape, out or shape)


ROWS = sparse(np.kron(np.eye(3), BLOCK), (3, 2))
COLUMNS = sparse(np.kron(BLOCK, np.eye(3)), (2, 3))
MIXED = sparse(np.kron(np.eye(3), BLOCK) + 0.01, (3, 2))
HALF = sparse(np.diag([1.0, 1, 1, 1, 0, 0]), (3, 2))
SHARED = np.kron(np.ones((1, 3)), np.eye(2))
CASES: list[tuple[str, Network, tuple[int, int] | None]] = [
    ("rows", network(ROWS, (3, 2)), (0, 0)),
    ("columns", network(COLUMNS, (2, 3)), (0, 1)),
    ("rows of an output in row-major order", network(ROWS, (3, 2), out=(6,)), (0, 0)),
    ("rows that meet", network(MIXED, (3, 2)), None),
    ("rows that meet in the output", network(ROWS, (3, 2), last=sparse(SHARED, (3, 2), (2,)), out=(2,)), None),
    ("one row that is silent", network(ROWS, (3, 2), last=HALF), None),
    ("no weights at all", network(Scale(np.full((3, 2), 0.05)), (3, 2)), None),
    ("one axis alone", network(Dense(np.eye(3, dtype=np.float32)), (3,)), None),
    ("an output that is always silent", network(ROWS, (3, 2), last=sparse(np.zeros((6, 6)), (3, 2))), None),
    ("an axis of size 1", network(sparse(BLOCK, (1, 2)), (1, 2)), None),
    ("a row of size 1 beside a copied axis", network(sparse(np.eye(3) * 0.05, (1, 3)), (1, 3)), (0, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_axes_of_copies(case: Any) -> None:
    _, net, axis = case
    assert copied_axis(net) == axis


def two(second: Any, *, out: tuple[int, ...] = (3, 2)) -> Network:
    """Two inputs and two outputs: the copies of the first, beside ``second`` for the other."""
    cells = [Population(name, (3, 2), neuron("IF", theta=1.0, reset="subtract")) for name in "rq"]
    same = Reshape((3, 2), (3, 2))
    last = same if out == (3, 2) else sparse(SHARED, (3, 2), out)
    projections = (
        Projection("fixed", "q", second),
        Projection("in", "r", ROWS),
        Projection("r", "one", same),
        Projection("q", "two", last),
    )
    ports = (Port("fixed", (3, 2)), Port("in", (3, 2))), (Port("one", (3, 2)), Port("two", out))
    return Network(1e-4, TIMING, tuple(cells), projections, *ports)


def test_every_output_has_to_move_with_the_input() -> None:
    """What the other input feeds does not move with this one, so neither is an axis of copies of the whole network."""
    assert copied_axis(two(ROWS)) is None
    assert copied_axis(two(ROWS, out=(2,))) is None
    both = Network(
        1e-4,
        TIMING,
        tuple(Population(name, (3, 2), neuron("IF", theta=1.0, reset="subtract")) for name in "rq"),
        tuple(
            Projection(*ends)
            for ends in (
                ("in", "r", ROWS),
                ("in", "q", ROWS),
                ("r", "one", Reshape((3, 2), (3, 2))),
                ("q", "two", Reshape((3, 2), (6,))),
            )
        ),
        (Port("in", (3, 2)),),
        (Port("one", (3, 2)), Port("two", (6,))),
    )
    assert copied_axis(both) == (0, 0)
