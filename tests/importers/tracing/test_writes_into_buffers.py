"""Slices of a tensor that are written in place, and read again, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.importers.tracing.recorder import TracedValue
from nirbridge.importers.tracing.structures import index_in, is_in_place
from nirbridge.importers.tracing.values import read_back, write_of
from tests.importers.tracing.tape import Tape

torch = pytest.importorskip("torch", reason="torch is not installed")
ALL = slice(None)


@pytest.mark.parametrize(
    ("part", "index"),
    [
        (lambda x: x[1], (1,)),
        (lambda x: x[:, 2], (ALL, 2)),
        (lambda x: x[..., 3], (ALL, ALL, 3)),
        (lambda x: x[0], (0,)),
        (lambda x: x[1, 2], None),
        (lambda x: x[0:1], None),
        (lambda x: x.transpose(0, 1), None),
        (lambda x: x.view(-1), None),
    ],
)
def test_the_index_of_a_slice_is_found(part: Any, index: Any) -> None:
    whole = torch.zeros(2, 3, 4)
    assert index_in(whole, part(whole)) == index


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("add_", True), ("copy_", True), ("__iadd__", True), ("__add__", False), ("__setitem__", False), ("relu", False)],
)
def test_functions_that_write_into_their_argument(name: str, wanted: bool) -> None:
    assert is_in_place(name) is wanted


def test_what_was_written_last_is_read_back() -> None:
    tape, start = Tape(), torch.arange(12.0).reshape(3, 4)
    a, b = tape.input((4,)), tape.input((4,))
    first = tape.call("__setitem__", start, 0, a, shape=(3, 4))
    again = tape.call("__setitem__", first, (0, ALL), b, shape=(3, 4))
    assert read_back(first, 0) == (a,)
    assert read_back(again, 0) == read_back(again, -3) == (b,)
    (untouched,) = read_back(again, 2)
    assert not isinstance(untouched, TracedValue)
    assert torch.equal(untouched, start[2])
    assert read_back(again, (ALL, 0)) == read_back(again, slice(0, 2)) == ()
    assert read_back(tape.call("relu", a, shape=(3, 4)), 0) == ()


def test_writes_by_other_functions_have_a_place() -> None:
    tape, start = Tape(), torch.zeros(3, 4)
    a, row = tape.input((4,)), tape.input((1, 4))
    scattered = write_of(tape.call("select_scatter", start, a, 0, 2, shape=(3, 4)).node)
    copied = write_of(tape.call("index_copy_", start, 0, torch.tensor([1]), row, shape=(3, 4)).node)
    assert [(w[1].axis, w[1].index, w[1].is_kept, w[2]) for w in (scattered, copied) if w[1]] == [
        (0, 2, False, a),
        (0, 1, True, row),
    ]
    assert write_of(tape.call("index_copy_", start, 0, torch.tensor([1, 2]), row, shape=(3, 4)).node)[1] is None
