"""Names in messages, the parts of a message, exit codes; and guarantees of read-only arrays."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge import errors
from nirbridge.arrays import compact, freeze, same_array, stored_part
from nirbridge.errors import Diagnostic, NirbridgeError, quoted


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("fc1", "'fc1'"),
        (7, "'7'"),
        ("a\nb\x1b[31m", "'a\\nb\\x1b[31m'"),
        ("it's", "'it\\'s'"),
        ("x" * 80, "'" + "x" * 80 + "'"),
        ("x" * 81, "'" + "x" * 79 + "…'"),
    ],
)
def test_names_from_files_are_shown_safely(name: object, shown: str) -> None:
    assert quoted(name) == shown


def test_a_name_is_cut_at_the_limit() -> None:
    assert (quoted("abcd", 4), quoted("abcd", 3)) == ("'abcd'", "'ab…'")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("a", "b"), "a: b"),
        (("a", "b", "c"), "a: b, c"),
        (("a", "b", "", "d"), "a: b; d"),
        (("a", "b", "c", "d"), "a: b, c; d"),
    ],
)
def test_the_four_parts_of_a_message(parts: tuple[str, ...], text: str) -> None:
    assert str(Diagnostic(*parts)) == text
    assert str(NirbridgeError.of(*parts)) == text


def test_no_message_can_move_the_cursor() -> None:
    """In every part of a message lines stay, and all else that cannot be printed is escaped."""
    parts = ("--from \x1b[31m", "its log:\nline\rfoo", "a\u202eb", "c\x00d")
    assert str(NirbridgeError.of(*parts)) == "--from \\x1b[31m: its log:\nline\\rfoo, a\\u202eb; c\\x00d"
    assert NirbridgeError.of(*parts).problems[0].subject == parts[0]


def test_a_line_is_cut_however_long_its_parts_are() -> None:
    assert str(Diagnostic("a", "b" * 10_000)) == "a: " + "b" * 7997 + "… (2,003 more characters)"


def test_raise_all_raises_where_there_is_a_problem() -> None:
    NirbridgeError.raise_all(iter(()))
    with pytest.raises(NirbridgeError) as caught:
        NirbridgeError.raise_all(Diagnostic(k, "x") for k in "ab")
    assert str(caught.value) == "a: x\nb: x"


def test_an_error_lists_all_problems_and_keeps_their_ids() -> None:
    error = NirbridgeError(*(Diagnostic(k, "x") for k in "ab"))
    assert str(error) == "a: x\nb: x"
    assert [p.subject for p in error.problems] == ["a", "b"]
    assert dict(NirbridgeError.of("a", "b", core=3).problems[0].ids) == {"core": 3}
    assert dict(Diagnostic("a", "b").ids) == {}


def test_exit_codes() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, NirbridgeError)]
    assert {k.__name__: k.exit_code for k in kinds} == {
        "NirbridgeError": 1,
        "UsageError": 2,
        "ToolMissing": 2,
        "FileError": 2,
        "ChipError": 2,
        "ModelError": 1,
        "UnequalImport": 1,
        "DoesNotFit": 1,
        "NotConforming": 1,
        "IllegalMapping": 1,
        "Bug": 3,
    }


def test_a_frozen_copy_is_read_only_and_of_its_own() -> None:
    source = np.arange(3.0)
    frozen = freeze(source)
    source[0] = 9.0
    assert frozen.tolist() == [0.0, 1.0, 2.0]
    assert not frozen.flags.writeable
    assert freeze([1, 2], np.float32).dtype == np.float32


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (1, 3)])
def test_repeated_axes_stay_repeated_and_nothing_else_does(shape: tuple[int, ...]) -> None:
    source = np.broadcast_to(np.arange(float(shape[1])), shape)
    frozen = freeze(source)
    np.testing.assert_array_equal(frozen, source)
    assert not frozen.flags.writeable
    assert (frozen.strides[0] == 0) == (shape[0] > 1)
    assert stored_part(source).size <= shape[1]
    assert not np.shares_memory(frozen, source)


def test_what_memory_holds_of_an_array() -> None:
    assert stored_part(np.array(2.0)).shape == ()
    part = stored_part(np.broadcast_to(np.arange(3.0)[:, None], (2, 3, 5)))
    assert part.shape == (1, 3, 1)
    assert part.ravel().tolist() == [0.0, 1.0, 2.0]


def test_equal_values_become_one() -> None:
    assert compact(np.full((2, 3), 4.0)).shape == ()
    assert float(compact(np.full((2, 3), 4.0))) == 4.0
    one_differs = np.full((2, 3), 4.0)
    one_differs[1, 2] = 5.0
    assert compact(one_differs).shape == (2, 3)
    assert compact(np.zeros((0, 3))).shape == (0, 3)
    assert compact(np.array(2.0)).shape == ()


def test_equal_to_the_last_bit() -> None:
    a = np.array([0.0, 1.0])
    assert same_array(None, None)
    assert same_array(a, a.copy())
    assert same_array(a.reshape(1, 2).T, a.reshape(2, 1))
    for other in (None, np.array([-0.0, 1.0]), a.astype(np.float32), a.reshape(2, 1), np.array([0.0, 1.5])):
        assert not same_array(a, other)
        assert not same_array(other, a)
