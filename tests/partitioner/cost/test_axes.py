"""Relations along one axis and their composition, against boolean matrices; ranges of a core joined by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nirbridge.partitioner.cost.axis import Axis, axis_from_matrix, composed, full_axis, outputs_touched
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.slicing import in_core_order
from tests.cases import cases


def dense(axis: Axis) -> np.ndarray:
    """[out, in], True where the input reaches the output; by the lists alone."""
    found = np.zeros((axis.n_out, axis.n_in), bool)
    if axis.full:
        found[:] = axis.touched
        return found
    for i in range(axis.n_in):
        found[axis.outs[axis.indptr[i] : axis.indptr[i + 1]], i] = True
    return found


@st.composite
def axes(draw: st.DrawFn, n_in: int, n_out: int) -> Axis:
    """A full axis, also of some inputs only, or any pattern with empty rows and columns."""
    if draw(st.booleans()):
        return full_axis(n_in, n_out, np.array(draw(st.lists(st.booleans(), min_size=n_in, max_size=n_in))))
    cells = draw(st.lists(st.booleans(), min_size=n_in * n_out, max_size=n_in * n_out))
    return axis_from_matrix(sparse.csr_array(np.array(cells, np.int64).reshape(n_out, n_in)))


@settings(max_examples=cases(50, 150))
@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_one_relation_after_another(data: st.DataObject, a: int, b: int, c: int) -> None:
    first, second = data.draw(axes(a, b)), data.draw(axes(b, c))
    expected = (dense(second).astype(int) @ dense(first).astype(int)) > 0
    found = composed(first, second)
    assert np.array_equal(dense(found), expected)
    assert np.array_equal(found.touched, expected.any(axis=0))
    for start in range(c):
        for stop in range(start + 1, c + 1):
            assert np.array_equal(found.counts(start, stop), expected[start:stop].sum(axis=0))
            inputs, counts = found.inputs_of(start, stop)
            inside = expected[start:stop].sum(axis=0)
            assert np.array_equal(inputs, np.flatnonzero(inside))
            assert np.array_equal(counts, inside[inside > 0])
    if not found.full:
        assert np.array_equal(outputs_touched(found), expected.any(axis=1))
        columns = [np.flatnonzero(column) for column in expected.T]
        assert found.contiguous == all(len(x) == 0 or x[-1] - x[0] + 1 == len(x) for x in columns)


@pytest.mark.parametrize("second_is_full", [True, False])
def test_a_full_axis_stays_one_wherever_it_can(second_is_full: bool) -> None:
    """Channels that all reach all stay in closed form behind a convolution and in front of one."""
    some = axis_from_matrix(sparse.csr_array(np.eye(3, dtype=np.int64)))
    pair = (some, full_axis(3, 4)) if second_is_full else (full_axis(4, 3), some)
    assert composed(*pair).full


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        ([(0, 2), (2, 5), (5, 6)], [(0, 6)]),
        ([(5, 6), (0, 2), (2, 5)], [(0, 6)]),
        ([(0, 2), (3, 5), (5, 6)], [(0, 2), (3, 6)]),
        ([(0, 2), (2, 3), (4, 6)], [(0, 3), (4, 6)]),
        ([(0, 1), (2, 3), (4, 5)], [(0, 1), (2, 3), (4, 5)]),
        ([(4, 6)], [(4, 6)]),
    ],
)
def test_ranges_that_touch_are_one(ranges: list[tuple[int, int]], joined: list[tuple[int, int]]) -> None:
    found = in_core_order([Slice("p", (own,)) for own in ranges], ("p",))
    assert [s.box for s in found] == [(own,) for own in joined]


def test_populations_in_their_order_and_boxes_row_by_row() -> None:
    boxes = [((1, 2), (0, 3), (0, 3)), ((0, 1), (3, 6), (0, 3)), ((0, 1), (0, 3), (3, 6)), ((0, 1), (0, 3), (0, 3))]
    found = in_core_order([*(Slice("b", box) for box in boxes), Slice("a", ((0, 3),))], ("a", "b"))
    assert [s.population for s in found] == ["a", *"bbbb"]
    assert [s.box for s in found[1:]] == [boxes[3], boxes[0], boxes[2], boxes[1]]
