"""Inputs of a run, value by value: chunks, streams, scans, and every refusal in its exact words."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import UsageError
from nirbridge.network.model import Port
from nirbridge.simulators import inputs
from nirbridge.simulators.inputs import open_inputs
from nirbridge.simulators.simulate import from_chunks

X = np.arange(20).reshape(10, 2)


def ports(*own: tuple[str, tuple[int, ...]]) -> Any:
    return SimpleNamespace(inputs=tuple(Port(name, shape) for name, shape in own))


READ = "read the file, with numpy.load or nirbridge.read_events"
ONE, TWO = ports(("in", (2,))), ports(("a", (2,)), ("b", (3, 1)))


def refused(network: Any, given: Any, steps: int | None = None, *, first: int = 0, dtype: str = "float32") -> str:
    with pytest.raises(UsageError) as caught:
        open_inputs(network, given, steps, first, dtype)
    return str(caught.value)


# -- chunks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(10,), (1, 9), (3, 3, 4), (1,) * 10, (5, 1, 4)])
@pytest.mark.parametrize("reads", [(10,), (1, 1, 8), (4, 4, 2), (2,) * 5, (1,) * 10, (7, 3)])
@pytest.mark.parametrize("first", [0, 40])
def test_chunks_of_any_size_give_every_step_once(sizes: tuple[int, ...], reads: tuple[int, ...], first: int) -> None:
    stream = from_chunks(np.split(X, list(accumulate(sizes))[:-1]))
    assert np.array_equal(stream(first, first + 1), X[:1])  # the first step may be asked for once more
    for start, stop in pairwise((0, *accumulate(reads))):
        assert np.array_equal(stream(first + start, first + stop), X[start:stop])
    assert len(stream(first + 10, first + 12)) == 0


def test_chunks_are_taken_as_late_as_can_be_and_dropped_when_they_are_over() -> None:
    taken: list[weakref.ref[Any]] = []

    def chunks() -> Iterator[np.ndarray]:
        for k, size in enumerate((5, 1, 4, 2)):
            own = np.full((size, 2), k)
            taken.append(weakref.ref(own))
            yield own
            del own

    stream = from_chunks(chunks())
    for start, stop, wanted, alive in ((0, 5, 1, [0]), (5, 7, 3, [1, 2]), (7, 10, 3, [2]), (10, 11, 4, [3])):
        stream(start, stop)
        gc.collect()
        assert len(taken) == wanted
        assert [k for k, chunk in enumerate(taken) if chunk() is not None] == alive


def test_chunks_that_end_early_give_what_there_is() -> None:
    assert from_chunks([])(0, 3).shape == (0,)
    stream = from_chunks([X[:2], X[2:5].tolist()])
    assert stream(0, 4).tolist() == X[:4].tolist()
    assert stream(4, 9).tolist() == X[4:5].tolist()


# -- reading ---------------------------------------------------------------------------------------------------------


def test_arrays_go_on_with_zeros_and_keep_their_type() -> None:
    opened = open_inputs(ONE, X.astype(np.int16), 13, 0, "float32")
    assert (opened.steps, opened.batch, opened.binary, opened.first_step, opened.dtype) == (
        13, None, frozenset(), 0, "float32",
    )  # fmt: skip
    for start, stop in ((0, 13), (9, 11), (10, 12), (12, 13)):
        found = opened.read(start, stop)["in"]
        wanted = np.concatenate([X, np.zeros((3, 2), int)])[start:stop]
        assert found.dtype == np.int16
        assert found.tolist() == wanted[:, None].tolist()
    batched = open_inputs(TWO, {"b": np.ones((4, 5, 3, 1)), "a": np.zeros((4, 5, 2))}, 2, 0, "float32")
    assert (batched.batch, batched.steps, batched.binary) == (5, 2, {"a", "b"})
    alone = open_inputs(ONE, np.zeros((4, 5, 2)), None, 0, "float32")
    assert (alone.batch, alone.read(3, 4)["in"].shape) == (5, (1, 5, 2))
    assert alone.read(1, 3)["in"].base is not None  # a view
    assert {k: v.shape for k, v in batched.read(1, 2).items()} == {"a": (1, 5, 2), "b": (1, 5, 3, 1)}
    assert open_inputs(ports(), {}, 3, 0, "float32").batch is None


@pytest.mark.parametrize(
    ("kind", "shared"), [("bool", True), ("uint8", True), ("int8", True), ("int16", False), ("f4", False)]
)
def test_what_is_0_or_1_is_read_as_bool_without_a_copy_of_bytes(kind: str, shared: bool) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(kind)
    found = open_inputs(ONE, values, None, 0, "float32").read_quick(0, 3)["in"]
    assert found.dtype == np.bool_
    assert found[:, 0].tolist() == (values == 1).tolist()
    assert np.shares_memory(found, values) is shared
    graded = open_inputs(ONE, values * 2, None, 0, "float32").read_quick(0, 3)["in"]
    assert graded.dtype == (values * 2).dtype or kind == "bool"


@pytest.mark.parametrize(("first", "asked"), [(0, [(0, 1), (0, 2), (2, 5)]), (30, [(30, 31), (30, 32), (32, 35)])])
def test_streams_are_asked_for_steps_of_the_network(first: int, asked: list[tuple[int, int]]) -> None:
    seen: list[tuple[int, int]] = []

    def stream(start: int, stop: int) -> np.ndarray:
        seen.append((start, stop))
        return np.full((stop - start, 3, 2), float(start))

    opened = open_inputs(ONE, stream, 5, first, "float32")
    assert (opened.batch, opened.steps, opened.binary) == (3, 5, frozenset())
    assert opened.read(0, 2)["in"].tolist() == np.full((2, 3, 2), float(first)).tolist()
    opened.read(2, 5)
    assert seen == asked
    plain = open_inputs(ONE, lambda start, stop: np.full((stop - start, 2), float(start)), 5, first, "float32")
    assert plain.read(1, 3)["in"].tolist() == np.full((2, 1, 2), first + 1.0).tolist()


def test_a_stream_is_held_to_the_batch_and_the_numbers_it_began_with() -> None:
    def opened(later: Any, begin: Any = None) -> Any:
        first = np.zeros((1, 3, 2)) if begin is None else begin
        made = open_inputs(ONE, lambda start, stop: first if start == 7 else later, 6, 7, "float32")
        with pytest.raises(UsageError) as caught:
            made.read(2, 4)
        return str(caught.value)

    assert opened(np.zeros((2, 4, 2))) == "input 'in', steps 2 to 4: an array of shape (2, 4, 2), its batch is 3"
    assert opened(np.zeros((2, 2))) == "input 'in', steps 2 to 4: an array of shape (2, 2), its batch is 3"
    square = opened(np.zeros((2, 2)), np.zeros((1, 2, 2)))
    assert square == "input 'in', steps 2 to 4: an array of shape (2, 2), its batch is 2"
    alone = opened(np.zeros((2, 1, 2)), np.zeros((1, 2)))
    assert alone == "input 'in', steps 2 to 4: an array of shape (2, 1, 2), its batch is without an axis"
    assert opened(np.zeros((3, 3, 2))) == "input 'in': 3 steps, 2 were requested; return exactly those time steps"
    wild = np.zeros((2, 3, 2))
    wild[1, 2, 0] = np.inf
    wanted = "input 'in': inf at time step 3 (1 such value), inputs are finite numbers of float32; remove them"
    assert opened(wild) == wanted
    assert refused(ONE, lambda start, stop: np.zeros((2, 2)), 3) == (
        "input 'in': 2 steps, 1 were requested; return exactly those time steps"
    )


# -- refusals --------------------------------------------------------------------------------------------------------


def silent(start: int, stop: int) -> np.ndarray:
    return np.zeros((stop - start, 2))


NINE = ports(*((f"{k}", (1,)) for k in "pqrstuvwx"))
KNOWN = "'p', 'q', 'r', 's', 't', 'u', 'v', 'w'"


class Odd:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(("network", "given", "said"), [
    (TWO, X, "inputs: one array, the network has 2 inputs; give each by name: 'a', 'b'"),
    (TWO, [[1, 0]], "inputs: one array, the network has 2 inputs; give each by name: 'a', 'b'"),
    (NINE, X, f"inputs: one array, the network has 9 inputs; give each by name: {KNOWN}"),
    (NINE, {**dict.fromkeys("pqrstuvwx", X), "12": X},
     f"input '12': the network has no input of that name; inputs: {KNOWN}"),
    (TWO, {"b": X}, "input 'a': is missing; give an array for it"),
    (TWO, {"b": X, "bb": X, 7: X}, "input 'a': is missing; give an array for it\n"
     "input 'bb': the network has no input of that name; did you mean 'b'?\n"
     "input '7': the network has no input of that name; inputs: 'a', 'b'"),
    (ONE, Odd(ValueError("one\ntwo")), "input 'in': cannot be converted to a NumPy array ('one'); give a plain array"),
    (ONE, Odd(RuntimeError()), "input 'in': cannot be converted to a NumPy array ('RuntimeError'); give a plain array"),
    (ONE, Odd(TypeError("no")), "input 'in': cannot be converted to a NumPy array ('no'); give a plain array"),
    (ONE, np.zeros((4, 0, 2)), "input 'in': an array of shape (4, 0, 2), it takes [steps, 2] or [steps, batch, 2]; "
     "give at least one sample"),
    (ONE, np.zeros((4, 1, 1, 2)), "input 'in': an array of shape (4, 1, 1, 2), it takes [steps, 2] or "
     "[steps, batch, 2]; reshape it, as x.reshape(len(x), 2)"),
    (ONE, np.zeros(2), "input 'in': an array of shape (2,), it takes [steps, 2] or [steps, batch, 2]; "
     "add an axis of time steps, as x[None]"),
    (ONE, np.zeros(()), "input 'in': an array of shape (), it takes [steps, 2] or [steps, batch, 2]; "
     "put time steps first, then samples, then the axes of the input"),
    (ONE, np.zeros((4, 3)), "input 'in': an array of shape (4, 3), it takes [steps, 2] or [steps, batch, 2]; "
     "put time steps first, then samples, then the axes of the input"),
    (ONE, np.zeros((2, 9)), "input 'in': an array of shape (2, 9), it takes [steps, 2] or [steps, batch, 2]; "
     "put time steps first, as numpy.moveaxis(x, -1, 0)"),
    (TWO, {"a": np.zeros((4, 2)), "b": np.zeros((4, 1, 3))},
     "input 'b': an array of shape (4, 1, 3), it takes [steps, 3, 1] or [steps, batch, 3, 1]; "
     "transpose the axes after time steps to (3, 1)"),
    (TWO, {"a": np.zeros((4, 6, 2)), "b": np.zeros((4, 6, 1, 3))},
     "input 'b': an array of shape (4, 6, 1, 3), it takes [steps, 3, 1] or [steps, batch, 3, 1]; "
     "transpose the axes after samples to (3, 1)"),
    (TWO, {"a": np.zeros((4, 6, 2)), "b": np.zeros((4, 6, 3))},
     "input 'b': an array of shape (4, 6, 3), it takes [steps, 3, 1] or [steps, batch, 3, 1]; "
     "reshape it, as x.reshape(*x.shape[:2], 3, 1)"),
    (ONE, np.array([["a", "b"]]), f"input 'in': an array of type <U1, inputs are real numbers; {READ}"),
    (TWO, {"a": np.zeros((1, 3)), "b": np.zeros((1, 3, 1), "O")},
     "input 'a': an array of shape (1, 3), it takes [steps, 2] or [steps, batch, 2]; "
     "put time steps first, then samples, then the axes of the input\n"
     "input 'b': an array of type object, inputs are real numbers; convert it"),
    (TWO, {"a": np.zeros((4, 2)), "b": np.zeros((5, 3, 1))},
     "inputs: 'a' has 4, 'b' has 5, all inputs need the same number of time steps; cut them, or give steps"),
    (TWO, {"a": np.zeros((4, 6, 2)), "b": np.zeros((4, 3, 1))},
     "inputs: 'a' has 6, 'b' has no batch axis, all inputs need the same batch size; give each the same"),
    (TWO, {"a": np.zeros((4, 6, 2)), "b": np.zeros((4, 7, 3, 1))},
     "inputs: 'a' has 6, 'b' has 7, all inputs need the same batch size; give each the same"),
])  # fmt: skip
def test_refusals_in_their_words(network: Any, given: Any, said: str) -> None:
    assert refused(network, given) == said


def test_streams_beside_arrays_have_their_batch_and_take_their_steps() -> None:
    given = {"a": np.zeros((4, 6, 2)), "b": lambda start, stop: np.zeros((stop - start, 3, 1))}
    words = "inputs: 'a' has 6, 'b' has no batch axis, all inputs need the same batch size; give each the same"
    assert refused(TWO, given) == words
    assert open_inputs(TWO, {**given, "a": np.zeros((4, 2))}, None, 0, "float32").steps == 4
    assert open_inputs(TWO, {"a": silent, "b": np.zeros((4, 3, 1))}, None, 0, "float32").binary == {"b"}
    unequal = {"a": np.zeros((4, 2)), "b": np.zeros((5, 3, 1))}
    assert open_inputs(TWO, unequal, 9, 0, "float32").steps == 9
    assert refused(TWO, unequal, 0) == "steps: 0, at least 1; give more"
    assert open_inputs(TWO, unequal, 1, 0, "float32").steps == 1
    both = dict.fromkeys("ab", lambda start, stop: None)
    assert refused(TWO, both) == "steps: are not given, no input is an array with a length; give steps"


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize(("dtype", "wrong", "shown"), [
    ("float32", np.nan, "NaN"), ("float32", 1e39, "1e+39"), ("float32", -np.inf, "-inf"), ("float64", np.nan, "NaN"),
])  # fmt: skip
def test_the_first_number_that_is_not_finite_is_told_and_all_are_counted(
    rows: int, dtype: str, wrong: float, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the piece of the scan in which the first is."""
    monkeypatch.setattr(inputs, "SCAN_ELEMENTS", 2 * rows)
    values = np.full((7, 2), 0.5)
    values[3, 1] = values[4, 0] = values[4, 1] = wrong
    count = 1 + 2 * (3 // rows == 4 // rows)
    limit = f"inputs are finite numbers of {dtype}; remove them"
    assert (
        refused(ONE, values, dtype=dtype)
        == f"input 'in': {shown} at time step 3 ({count} such value{'s' if count > 1 else ''}), {limit}"
    )
    assert open_inputs(ONE, np.full((7, 2), 1e39), None, 0, "float64").steps == 7


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(("kind", "wrong", "binary"), [
    ("bool", True, True), ("uint8", 1, True), ("uint8", 2, False), ("uint64", 3, False), ("int8", 1, True),
    ("int8", -1, False), ("int64", 2, False), ("float64", 0.5, False), ("float64", 1.0, True), ("float16", -1.0, False),
])  # fmt: skip
def test_one_value_beside_0_and_1_makes_an_input_graded(
    rows: int, kind: str, wrong: Any, binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "SCAN_ELEMENTS", 2 * rows)
    for place in (0, 5, 9):
        values = np.array([0, 1] * 5).astype(kind)
        values[place] = wrong
        assert open_inputs(ONE, values.reshape(5, 2), None, 0, "float32").binary == ({"in"} if binary else set())
    assert open_inputs(ONE, np.zeros((0, 2), kind), 3, 0, "float32").binary == {"in"}


def test_scans_look_at_so_many_numbers_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for elements, starts in ((1, range(7)), (6, range(7)), (12, range(0, 7, 2)), (100, [0])):
        monkeypatch.setattr(inputs, "SCAN_ELEMENTS", elements)
        found = list(inputs._scan(np.arange(42).reshape(7, 3, 2)))
        assert [start for start, _ in found] == list(starts)
        assert np.concatenate([part for _, part in found]).ravel().tolist() == list(range(42))
