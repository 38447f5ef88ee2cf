"""Slices, copies, states and zeros of a trace; positions of slices compared with torch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nirbridge.importers.neuron_specs import place_label
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.structures import function_name
from nirbridge.importers.tracing.values import (
    AxisSlice,
    first_input,
    is_zero,
    item_slice,
    same_constant,
    slice_of,
    states,
    states_in,
    uncopied,
)
from tests.importers.tracing.tape import ROW, Tape

torch = pytest.importorskip("torch")

WHOLE = slice(None)


def taken(name: str, *args: Any, shapes: Any = (ROW,), output: int = 0, kind: str = "function", **kwargs: Any) -> Any:
    """(axis, index, is_kept) of a slice of a value of shape (3, 4, 5), None where it is none."""
    tape = Tape()
    x = tape.input((3, 4, 5))
    made = tape.node(kind, name, (x, *args), kwargs=kwargs, shapes=shapes)
    part = slice_of(TracedValue(made.node, output))
    assert part is None or part.parent == x
    return part and (part.axis, part.index, part.is_kept)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_one_slice_along_an_axis_in_every_way_to_write_it(axis: int) -> None:
    size, place = (3, 4, 5)[axis], axis % 3
    rows = (tuple(1 if k == place else n for k, n in enumerate((3, 4, 5))),) * size
    for k in range(size):
        assert taken("select", axis, k) == taken("select", dim=axis, index=k - size) == (place, k, False)
        assert taken("select", axis, index=k) == (place, k, False)
        assert taken("narrow", axis, k, 1) == taken("narrow", dim=axis, start=k, length=1) == (place, k, True)
        assert taken("unbind", axis, output=k, shapes=(ROW,) * size) == (place, k, False)
        for name in ("split", "chunk", "tensor_split", "split_with_sizes"):
            assert taken(name, 1, axis, output=k, shapes=rows) == (place, k, True)
    assert taken("narrow", axis, 0, 2) is None
    assert taken("split", 2, axis, shapes=(*rows[:-1], (2, 2, 2))) is None


def test_defaults_of_functions_that_take_apart() -> None:
    assert taken("unbind", output=1, shapes=(ROW,) * 3) == (0, 1, False)
    assert taken("split", 1, output=2, shapes=((1, 4, 5),) * 3) == (0, 2, True)
    assert taken("chunk", 2, shapes=((2, 4, 5), (1, 4, 5))) is None
    for args in ((), (0,), (None, 1), (1, None), (True, 1), (1, True), (torch.tensor(1), 0), (1.0, 0)):
        assert taken("select", *args) is None
    for args in ((0, 1), (0, 1, 2), (0,), ()):
        assert taken("narrow", *args) is None


def test_indices_in_brackets() -> None:
    assert taken("__getitem__", 1) == (0, 1, False)
    assert taken("__getitem__", (WHOLE, slice(2, 3))) == (1, 2, True)
    assert taken("__getitem__", (..., -1)) == (2, 4, False)
    for odd in (None, WHOLE, (0, 1), (None, 1), (1, None), torch.tensor(1), (1, torch.tensor([0, 1])), [(0, 2)]):
        assert taken("__getitem__", odd) is None
    assert taken("chunk", 2, "dim", shapes=((1, 4, 5),)) is None


def test_other_functions_and_neurons_take_no_slice() -> None:
    assert taken("flip", 0, 1) is None
    assert taken("__getitem__") is None
    assert taken("select", 0, 1, kind="neuron") is None
    tape = Tape()
    assert slice_of(tape.call("select", torch.zeros(3), 0, 1)) is None
    assert slice_of(tape.call("select")) is None
    number = tape.input(())
    assert slice_of(tape.call("select", number, 0, 0)) is None


INDICES = [
    0,
    1,
    -1,
    WHOLE,
    slice(0, 1),
    slice(1, 2),
    slice(-1, None),
    slice(0, 2),
    slice(2, 0, -1),
    slice(1, 1),
    slice(0, 1, 2),
]


def place_of(shape: tuple[int, ...], index: Any) -> tuple[int, int, bool] | None:
    """(axis, index, is_kept) of the one slice that an index takes of a tensor of ``shape``."""
    part = item_slice(torch.empty(shape), index)
    return part and (part.axis, part.index, part.is_kept)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_indices_against_torch(rank: int) -> None:
    """Where all but one axis are taken whole and one of the others is one slice, that slice is what torch gives."""
    shape = (3, 4, 2)[:rank]
    x = torch.arange(int(np.prod(shape))).reshape(shape)
    seen = 0
    for index in itertools.product(INDICES, repeat=rank):
        with np.errstate(all="ignore"):
            if any(isinstance(p, slice) and (p.step or 1) < 0 for p in index):
                assert item_slice(x, index) is None
                continue
        place = item_slice(x, index)
        special = [p for p in index if p != WHOLE]
        if place is None:
            wide = len(special) != 1 or len(range(*special[0].indices(shape[index.index(special[0])]))) != 1
            assert wide or special[0].step == 2
            continue
        wanted = x.select(place.axis, place.index)
        assert torch.equal(x[index], wanted.unsqueeze(place.axis) if place.is_kept else wanted)
        seen += 1
    assert seen == {1: 6, 2: 12, 3: 18}[rank]


def test_indices_with_dots_and_with_what_is_no_place() -> None:
    shape = (3, 4, 5)
    assert place_of(shape, (..., 1)) == (2, 1, False)
    assert place_of(shape, (1, ...)) == (0, 1, False)
    assert place_of(shape, (WHOLE, ..., slice(2, 3))) == (2, 2, True)
    assert place_of(shape, (..., 3, WHOLE)) == (1, 3, False)
    assert place_of(shape, (WHOLE, WHOLE, WHOLE, ..., 1)) is None
    assert place_of((3, 4), (..., WHOLE, WHOLE, 1)) is None
    tape = Tape()
    for odd in (None, tape.input(), torch.tensor(1), (0, 1), True, False, 1.0, ..., WHOLE, (1, None), (0, 1)):
        assert place_of(shape, odd) is None or odd == (0, 1)
    assert place_of(shape, (1, WHOLE, None)) is None
    assert place_of(shape, (1, WHOLE, torch.tensor(1))) is None
    assert place_of((0, 4), 0) is None
    assert place_of((), 0) is None


def test_copies_are_looked_through() -> None:
    tape = Tape()
    x = tape.input()
    value = x
    for name in ("detach", "detach_", "clone", "contiguous", "cpu", "float", "data", "requires_grad_", "alias"):
        value = tape.call(name, value)
    assert uncopied(value) == x
    assert uncopied(tape.call("clone", input=x)) == x
    for own in (
        tape.call("mul", x), tape.call("clone", torch.zeros(2)), tape.call("clone"), tape.neuron("clone", x),
        tape.node("neuron", "detach", (x,)),
    ):  # fmt: skip
        assert uncopied(own) == own
        assert uncopied(tape.call("clone", own)) == own


@dataclass
class Held:
    v: Any
    i: Any = None


def test_states_are_all_tensors_and_numbers_after_the_first_argument() -> None:
    tape = Tape()
    x, a, b, c = (tape.input() for _ in range(4))
    zeros = torch.zeros(2)
    given = {"mem": {"k": c, "j": Held(x, "text")}}
    node = tape.neuron("n", x, a, 3, None, False, (b, (zeros,)), kwargs=given).node
    found = states(node)
    assert [f is zeros or f for f in found] == [a, 3, b, True, c, x]
    assert states_in((), {"input": x, "mem": a, "syn": b}) == [a, b]
    assert states_in((x,), {"mem": a}) == [a]
    assert states_in((), {}) == []
    assert (first_input(node), first_input(tape.call("f", input=x, b=a).node), first_input(tape.call("f").node)) == (
        x,
        x,
        None,
    )
    assert list(values_of({"a": (x, [b, 3]), "c": {"d": a}})) == [x, b, a]


@pytest.mark.parametrize(
    ("constant", "wanted"),
    [
        (None, True), (0, True), (0.0, True), (False, True), (1, False), (-0.5, False), ("", False), ((), False),
        (torch.zeros(2, 3), True), (torch.zeros(0), True), (torch.tensor([0.0, 0.0, 1e-30]), False),
        (torch.tensor([1.0, 0.0]), False), (np.zeros(()), False), (0j, False),
    ],
)  # fmt: skip
def test_what_is_zero(constant: Any, wanted: bool) -> None:
    assert is_zero(constant) is wanted


class Odd:
    """Cannot be compared."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise self.error("no")


def test_what_is_the_same_constant() -> None:
    ones = torch.ones(2, 3)
    one_other = ones.clone()
    one_other[1, 2] = 2
    odd = Odd(TypeError)
    cases: list[tuple[Any, Any, bool]] = [
        (ones, ones, True), (ones, ones.clone(), True), (ones, one_other, False), (ones, ones.double(), False),
        (ones, ones[:1], False), (ones, torch.ones(3, 2), False), (1, 1, True), (1, 2, False), ("a", "a", True),
        (odd, odd, True), (odd, 1, False), (Odd(ValueError), 1, False), (Odd(RuntimeError), 1, False),
        (np.ones(2), np.zeros(2), False), (ones, 1.0, False), (1.0, ones, False), (None, ones, False),
        (torch.ones(1), torch.ones(1), True),
    ]  # fmt: skip
    for a, b, wanted in cases:
        assert same_constant(a, b) is wanted, (a, b)


def test_names_of_places_and_functions() -> None:
    assert (place_label("a.b"), place_label("")) == ("module 'a.b'", "the module's forward")
    assert [function_name(f) for f in (torch.add, torch.Tensor.add_, torch.Tensor.data.__get__)] == [
        "add", "add_", "data"
    ]  # fmt: skip
    assert function_name(torch.Tensor.T.__get__) == "T"
    assert function_name(Odd(TypeError)) == "Odd"
    part = AxisSlice(TracedValue(TracedCall(0, "input", "x", "", None, (), {}, (ROW,))), 1, 2)
    assert not part.is_kept
