"""Readings of a sample, in order, and slices of a time axis."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import UsageError
from nirbridge.importers.neuron_specs import ValueRef
from nirbridge.importers.sample import SampleReading, check_axes, sample_readings
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue, LoweredOp
from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.shape_ops import lower_move
from tests.importers.tracing.tape import Tape

torch = pytest.importorskip("torch")

LETTERS = {"batch": "b", "time": "t", "value": "v", "merged": "m", "merged-batch-first": "n"}


def short(reading: SampleReading, rank: int) -> str:
    """Roles of the sample's axes, and of what forward is given; ``/`` where it takes the steps one by one."""
    own, fed = ("".join(LETTERS[r] for r in roles) for roles in (reading.roles(rank), reading.fed((3,) * rank)[1]))
    return f"{own}{'/' if reading.takes_steps else '>'}{fed}"


ORDER = {
    (1, None, None): "v>bv b>b b>tb v>tbv b>bt v>btv b>bt v>bvt v>tv v>vt v>v",
    (1, None, 0): "t>tb t>bt t>t t/b t/",
    (1, True, None): "b>b b>tb b>bt b>bt",
    (1, True, 0): "",
    (1, False, "none"): "v>bv v>tbv v>btv v>bvt v>tv v>vt v>v",
    (2, None, None): (
        "bv>bv bv>tbv vv>tbvv bv>btv vv>btvv bv>bvt vv>bvvt vv>tvv vv>vvt vv>bvv bt>bt tb>tb tv>tbv vt>bvt tv>btv "
        "tv>tv vt>vt mv>mv nv>nv vv>vv"
    ),
    (2, None, "none"): "bv>bv bv>tbv vv>tbvv bv>btv vv>btvv bv>bvt vv>bvvt vv>tvv vv>vvt vv>bvv vv>vv",
    (2, None, 0): "tb>tb tv>tbv tv>btv tv>tv tb/b tv/bv tv/v",
    (2, None, 1): "bt>bt vt>bvt vt>vt bt/b vt/bv vt/v",
    (2, None, -1): "bt>bt vt>bvt vt>vt bt/b vt/bv vt/v",
    (2, True, None): "bv>bv bv>tbv bv>btv bv>bvt bt>bt tb>tb mv>mv nv>nv",
    (2, False, 0): "tv>tbv tv>btv tv>tv tv/bv tv/v",
    (3, None, None): (
        "btv>btv tbv>tbv bvt>bvt tvv>tbvv vtv>bvtv vvt>bvvt tvv>btvv tvv>tvv vtv>vtv vvt>vvt mvv>mvv nvv>nvv vvv>bvvv "
        "bvv>bvv bvv>tbvv vvv>tbvvv bvv>btvv vvv>btvvv bvv>bvvt vvv>bvvvt vvv>tvvv vvv>vvvt vvv>vvv"
    ),
    (3, True, None): "btv>btv tbv>tbv bvt>bvt mvv>mvv nvv>nvv bvv>bvv bvv>tbvv bvv>btvv bvv>bvvt",
    (3, True, "none"): "bvv>bvv bvv>tbvv bvv>btvv bvv>bvvt",
    (3, None, 2): "bvt>bvt vvt>bvvt vvt>vvt bvt/bv vvt/bvv vvt/vv",
    (3, False, -2): "vtv>bvtv vtv>vtv vtv/bvv vtv/vv",
    (
        4,
        True,
        None,
    ): "bvvv>bvvv btvv>btvv tbvv>tbvv bvtv>bvtv bvvt>bvvt mvvv>mvvv nvvv>nvvv bvvv>tbvvv bvvv>btvvv bvvv>bvvvt",
    (4, None, 1): "btvv>btvv vtvv>bvtvv vtvv>vtvv btvv/bvv vtvv/bvvv vtvv/vvv",
}


@pytest.mark.parametrize("asked", ORDER, ids=str)
def test_ways_to_read_a_sample_the_likeliest_first(asked: tuple[int, Any, Any]) -> None:
    rank, batched, axis = asked
    found = sample_readings([(3,) * rank], batched, axis)
    assert " ".join(short(r, rank) for r in found) == ORDER[asked]
    assert len(set(found)) == len(found)


def test_a_reading_has_to_fit_every_sample() -> None:
    both = sample_readings([(3, 4), (5,)], None, None)
    assert [short(r, 2) for r in both if r.own] == ["bv>bv", "bv>tbv", "bv>btv", "bv>bvt", "tv>tbv", "tv>btv", "tv>tv",
                                                    "mv>mv", "nv>nv"]  # fmt: skip


def test_axes_that_are_added_have_one_element_where_no_size_is_told() -> None:
    assert SampleReading(added=((0, "batch"),), batch=None).fed((5,)) == ((1, 5), ("batch", "value"))
    last = SampleReading(own=((-1, "time"),))
    assert last.fits((3,))
    assert last.fits((3, 4))


def test_time_of_a_reading() -> None:
    cases = [
        (SampleReading(), False, None),
        (SampleReading(own=((0, "batch"),)), False, None),
        (SampleReading(own=((1, "time"),)), True, ("sample", 1)),
        (SampleReading(own=((0, "merged"),)), True, None),
        (SampleReading(added=((-1, "time"),)), True, ("added", -1)),
        (SampleReading(own=((2, "time"),), added=((0, "time"),)), True, ("sample", 2)),
        (SampleReading(own=((1, "time"), (0, "batch")), takes_steps=True), False, None),
    ]
    for reading, has_time, place in cases:
        assert (reading.has_time, reading.time_place) == (has_time, place)


def test_sizes_to_try() -> None:
    def sizes(reading: SampleReading, *shapes: tuple[int, ...]) -> list[tuple[Any, Any]]:
        return [(r.steps, r.batch) for r in reading.variants(list(shapes))]

    step = SampleReading(own=((0, "batch"),))
    sequence = SampleReading(own=((1, "time"), (0, "batch")))
    assert sizes(step, (7, 5)) == [(12, 2), (12, None)]
    assert sizes(step, (2, 5)) == [(12, 2)]
    assert sizes(sequence, (7, 9, 5)) == [(12, 2), (12, None), (None, 2), (None, None)]
    assert sizes(sequence, (7, 1, 5)) == [(12, 2), (12, None)]
    assert sizes(sequence, (7, 2, 5)) == [(12, 2), (12, None), (None, 2), (None, None)]
    assert sizes(sequence, (2, 12, 5), (2, 12)) == [(12, 2)]
    assert sizes(SampleReading(added=((0, "time"),)), (5,)) == [(12, 2), (300, 2)]
    merged = sizes(SampleReading(own=((0, "merged"),)), (14, 5))
    assert merged == [(12, 2), (12, None), (300, 2)]


AXIS = "the axis of the sample that is time, from 0, or 'none' where the sample is one time step"


@pytest.mark.parametrize(
    ("batched", "axis", "text"),
    [
        (None, None, ""), (True, "none", ""), (False, 1, ""), (None, -2, ""), (None, 0, ""),
        (3, None, "batched: an int, True, False or None"),
        (None, True, f"time_axis: 'True', {AXIS}; for example time_axis=1 for [batch, time, ...]"),
        (None, 1.0, f"time_axis: '1.0', {AXIS}; for example time_axis=1 for [batch, time, ...]"),
        (None, 2, "time_axis: 2, the sample has shape (4, 5); count its axes from 0"),
        (None, -3, "time_axis: -3, the sample has shape (4, 5); count its axes from 0"),
    ],
)  # fmt: skip
def test_what_may_be_said_of_the_axes(batched: Any, axis: Any, text: str) -> None:
    shapes = [(3, 4, 5), (4, 5)]
    if not text:
        check_axes(batched, axis, shapes)
        return
    with pytest.raises(UsageError) as caught:
        check_axes(batched, axis, shapes)
    assert str(caught.value) == text


# -- slices ----------------------------------------------------------------------------------------------------------

X: Any = ValueRef("x")
B, T, TB, BT = ("batch",), ("time",), ("time", "batch"), ("batch", "time")
WAY_OUT = "say which axes of the sample are batch and time: batched=…, time_axis=… (--batched, --time-axis)"


def turns_of(value: TracedValue, **more: Any) -> Any:
    """The last of three turns, in which the value is a slice that moves."""
    known: dict[str, Any] = {"iterations": 3, "last": 2, "stepped": {value.node.index}, "lags": {}}
    known |= {
        "only_parts": set(),
        "follows_time": False,
        "time_steps": 0,
        "ages": {value.node.index: -1},
        "age": lambda value: -1,
    }
    return SimpleNamespace(**(known | more))


def moved(
    name: str,
    *args: Any,
    of: Any,
    lead: Any,
    out: Any,
    order: Any = (),
    func: Any = None,
    source: Any = None,
    **more: Any,
) -> tuple[LoweredOp, Any]:
    """The word of a call on a value of shape ``of``, and the turns after it."""
    tape = Tape()
    value = tape.call(name, source or tape.input(of), *args, shape=out, func=func)
    iterations = turns_of(value, **more)
    return lower_move(value.node, value, FlowValue(X, lead, of, order=order), iterations), iterations


STILL = {"stepped": set(), "iterations": 1, "last": 0}


@pytest.mark.parametrize(
    ("of", "lead", "axis", "index", "out", "order", "wanted"),
    [
        ((3, 2, 4), TB, 0, 2, (2, 4), (), ("same", B, ())),
        ((2, 3, 4), BT, 1, 2, (2, 4), (), ("same", B, ())),
        ((3, 4), T, 0, 2, (4,), (), ("same", (), ())),
        ((2, 4, 3), BT, 2, 2, (2, 4), (0, 2, 1), ("same", B, ())),
        ((4, 2, 3), BT, 2, 2, (4, 2), (2, 0, 1), ("same", B, (1, 0))),
        ((2, 4, 5, 3), BT, 3, 2, (2, 4, 5), (0, 2, 3, 1), ("same", B, ())),
        ((2, 5, 4, 3), BT, 3, 2, (2, 5, 4), (0, 3, 2, 1), ("gather", B, ())),
    ],
)
def test_the_slice_of_a_turn(of: Any, lead: Any, axis: int, index: int, out: Any, order: Any, wanted: Any) -> None:
    word, iterations = moved("select", axis, index, of=of, lead=lead, out=out, order=order)
    assert (word.kind, word.lead, word.order, word.is_last, iterations.follows_time) == (*wanted, False, True)
    kept = (*of[:axis], 1, *of[axis + 1 :])
    word, iterations = moved("narrow", axis, index, 1, of=of, lead=lead, out=kept, order=order)
    assert (word.kind, word.lead, word.order, word.is_last, iterations.follows_time) == (
        "same",
        lead,
        order,
        False,
        True,
    )


def test_values_in_another_order_behind_a_slice() -> None:
    word, _ = moved("select", 3, 2, of=(2, 5, 4, 3), lead=BT, out=(2, 5, 4), order=(0, 3, 2, 1))
    np.testing.assert_array_equal(word.arguments["indices"], np.arange(20).reshape(4, 5).T)


@pytest.mark.parametrize(
    ("of", "index", "more", "is_last"),
    [
        ((1, 2, 4), 0, STILL, False),
        ((3, 2, 4), 2, STILL | {"age": lambda value: 0}, True),
        ((1, 2, 4), 0, STILL | {"age": lambda value: 0}, False),
        ((3, 2, 4), 1, {"stepped": set(), "age": lambda value: 2, "ages": {1: 2}}, False),
        ((3, 2, 4), 1, {"stepped": set(), "ages": {1: 0}}, False),
        ((3, 2, 4), 1, {"stepped": set(), "ages": {1: 0}, "iterations": 2}, False),
        ((3, 2, 4), 2, {"age": lambda value: 0}, False),
        ((3, 2, 4), 1, {"iterations": 2, "last": 1}, False),
    ],
)
def test_other_slices_of_time_that_have_a_meaning(of: Any, index: int, more: Any, is_last: bool) -> None:
    word, iterations = moved("select", 0, index, of=of, lead=TB, out=(2, 4), **more)
    assert (word.kind, word.lead, word.is_last) == ("same", B, is_last)
    assert iterations.follows_time is ("stepped" not in more)
    assert iterations.time_steps == (0 if "stepped" in more else 3)


LOOP = f"loop over all time steps, or {WAY_OUT}"
OUT = f"treat every sample alike, or {WAY_OUT}"


@pytest.mark.parametrize(
    ("lead", "axis", "index", "more", "why", "advice"),
    [
        (TB, 0, 1, {}, "it takes time step 1 of a sequence, not one after the other", LOOP),
        (TB, 0, 2, {"stepped": set()}, "it takes time step 2 of a sequence, not one after the other", LOOP),
        (TB, 0, 0, {"iterations": 1, "last": 0}, "it takes time step 0 of a sequence, not one after the other", LOOP),
        (TB, 0, 2, STILL, "it takes time step 2 of a sequence, not one after the other", LOOP),
        (TB, 0, 1, STILL | {"age": lambda v: 0}, "it takes time step 1 of a sequence, not one after the other", LOOP),
        (TB, 0, 0, STILL | {"ages": {1: 0}}, "it takes time step 0 of a sequence, not one after the other", LOOP),
        (TB, 1, 2, {}, "it takes one sample out of the batch", OUT),
        (B, 0, 0, STILL, "it takes one sample out of the batch", OUT),
        (B, 1, 2, {}, "it takes a slice that moves with the loop, along an axis of values", WAY_OUT),
    ],
)
def test_slices_that_have_none(lead: Any, axis: int, index: int, more: Any, why: str, advice: str) -> None:
    with pytest.raises(CannotFollow) as caught:
        moved("select", axis, index, of=(3, 3, 3), lead=lead, out=(3, 3), func=torch.select, **more)
    assert (caught.value.why, caught.value.advice) == (why, advice)


def test_slices_of_values_are_gathered() -> None:
    for more in (STILL, {"stepped": set()}, {"last": 1}):
        word, iterations = moved("select", 1, 2, of=(2, 3, 4), lead=B, out=(2, 4), func=torch.select, **more)
        assert (word.kind, word.arguments["indices"].tolist(), iterations.only_parts) == (
            "gather",
            [8, 9, 10, 11],
            set(),
        )
    for static, noted in ((-1, True), (0, False)):
        more = {"stepped": set(), "age": lambda value, static=static: static}
        _, iterations = moved("select", 1, 0, of=(2, 1, 4), lead=B, out=(2, 4), func=torch.select, **more)
        assert iterations.only_parts == ({1} if noted else set())
    with pytest.raises(CannotFollow) as caught:
        moved("flip", (1,), of=(3, 2), lead=B, out=(3, 2), order=(1, 0), func=torch.flip)
    assert caught.value.why == "it mixes samples or time steps"
    assert caught.value.advice == "treat every sample and time step alike"


@pytest.mark.parametrize(
    ("name", "of", "out", "is_equal"),
    [
        ("expand", (2, 1, 4), (2, 3, 4), True), ("expand", (1, 4), (2, 3, 4), True),
        ("repeat", (2, 4), (2, 3, 4), False),
        ("tile", (4,), (2, 3, 4), True), ("expand", (2, 3, 4), (2, 3, 4), False), ("mul", (2, 1, 4), (2, 3, 4), False),
    ],
)  # fmt: skip
def test_a_part_of_what_was_repeated_may_move(name: str, of: Any, out: Any, is_equal: bool) -> None:
    tape = Tape()
    source = tape.call(name, tape.input(of), shape=out)
    value = tape.call("select", source, 1, 2, shape=(2, 4), func=torch.select)
    if not is_equal:
        with pytest.raises(CannotFollow, match="moves with the loop"):
            lower_move(value.node, value, FlowValue(X, B, out), turns_of(value))
        return
    assert lower_move(value.node, value, FlowValue(X, B, out), turns_of(value)).kind == "gather"


@pytest.mark.parametrize(
    ("name", "of", "lead", "out", "wanted"),
    [
        ("expand", (2, 4), B, (3, 2, 4), TB),
        ("repeat", (1, 2, 4), TB, (3, 2, 4), TB),
        ("expand_as", (2, 1, 4), BT, (2, 3, 4), BT),
        ("tile", (1, 4), T, (3, 4), T),
    ],
)
def test_one_value_for_all_steps(name: str, of: Any, lead: Any, out: Any, wanted: Any) -> None:
    word, _ = moved(name, of=of, lead=lead, out=out, **STILL)
    assert (word.kind, word.lead, word.order) == ("same", wanted, ())


def test_other_repetitions_are_gathered() -> None:
    like = torch.zeros(2, 3, 4)
    for name, args, func in (
        ("expand", (2, 3, 4), torch.Tensor.expand), ("expand_as", (like,), torch.Tensor.expand_as),
        ("repeat", (1, 3, 1), torch.Tensor.repeat),
    ):  # fmt: skip
        word, _ = moved(name, *args, of=(2, 1, 4), lead=B, out=(2, 3, 4), func=func, **STILL)
        assert (word.kind, word.arguments["indices"].tolist()) == ("gather", [[0, 1, 2, 3]] * 3)
