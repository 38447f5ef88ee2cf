"""Linear calls as operators, field by field: the parts, names, types and layouts that later stages read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers.lowering import linear_layers
from nirbridge.importers.lowering.linear_layers import (
    LAYERS,
    Expression,
    Term,
    add_constant,
    apply_operator,
    channel_map,
    concatenate,
    merge_selections,
    per_channel_values,
    scale_expression,
    selection_operator,
)
from nirbridge.network.apply import apply
from nirbridge.network.operators import Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from tests.importers.lowering.test_linear_layers_by_hand import call

RNG = np.random.default_rng(7)


def narrow(values: Any) -> Any:
    return np.asarray(values, np.float32)


def source(*shape: int, constant: Any = None, parts: tuple[Any, ...] = ()) -> Expression:
    names = tuple(f"p{k}" for k in range(len(parts)))
    return Expression(shape, (Term("in", 2, shape, parts, names), Term("other", 0, shape)), constant)


def layer(kind: str, e: Expression, shape: tuple[int, ...] = (), **arguments: Any) -> Expression:
    return LAYERS[kind](call(shape, **arguments), e)


def rows(part: Sparse) -> list[Any]:
    fields = [part.indptr.tolist(), part.indices.tolist(), part.data.tolist()]
    kinds = [part.indptr.dtype, part.indices.dtype, part.data.dtype]
    assert kinds == [np.int64, np.int64, np.float32]
    return [*fields, part.input_shape, part.output_shape]


def test_every_path_gains_the_operator_and_the_constant_goes_through_it() -> None:
    weight = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    found = apply_operator(
        source(2, constant=np.array([1.0, -1.0]), parts=(Identity((2,)),)), Dense(weight), "d", np.ones(3)
    )
    assert [(t.source, t.delay, len(t.parts), t.names) for t in found.terms] == [
        ("in", 2, 2, ("p0", "d")),
        ("other", 0, 1, ("d",)),
    ]
    assert (found.shape, found.constant is not None and found.constant.tolist()) == ((3,), [0.0, 0.0, 0.0])
    assert apply_operator(source(2), Dense(weight), "d").constant is None


def test_constants_add_up_in_double_precision() -> None:
    assert add_constant(source(2), None).constant is None
    found = add_constant(source(2), narrow(0.1))
    assert found.constant is not None
    assert (found.constant.tolist(), found.constant.dtype) == ([float(np.float32(0.1))] * 2, np.float64)
    again = add_constant(found, np.array([1.0, 2.0])).constant
    assert again is not None
    assert again.tolist() == (found.constant + np.array([1.0, 2.0])).tolist()
    kept = add_constant(found, None).constant
    assert kept is found.constant


def test_a_matrix_on_the_last_axis_is_repeated_for_every_position_of_the_others() -> None:
    weight = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    (flat,) = layer("linear", source(2), weight=weight, bias=None).terms[1].parts
    assert isinstance(flat, Dense)
    assert flat.weight.dtype == np.float32
    (blocks,) = layer("linear", source(2, 1, 2), weight=weight, bias=None).terms[1].parts
    assert isinstance(blocks, Sparse)
    assert rows(blocks) == [
        [0, 2, 4, 6, 8, 10, 12],
        [0, 1] * 3 + [2, 3] * 3,
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 2,
        (2, 1, 2),
        (2, 1, 3),
    ]


def test_a_convolution_keeps_its_fields_and_has_a_bias_for_each_channel() -> None:
    weight = RNG.standard_normal((4, 1, 2, 3))
    window = {"stride": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 2), "groups": 2}
    found = layer("conv", source(2, 5, 6), weight=weight, bias=np.arange(4.0), **window)
    (part,) = found.terms[1].parts
    assert isinstance(part, Conv)
    assert (part.stride, part.padding, part.dilation, part.groups) == tuple(window.values())
    assert part.weight.dtype == np.float32
    assert found.constant is not None
    assert found.constant.shape == found.shape == part.output_shape
    assert [set(plane.ravel()) for plane in found.constant] == [{0.0}, {1.0}, {2.0}, {3.0}]
    assert layer("conv", source(2, 5, 6), weight=weight, bias=None, **window).constant is None
    assert per_channel_values(None, (2, 2)) is None
    one = per_channel_values(np.array([1.0, 2.0]), (2,))
    assert one is not None
    assert one.tolist() == [1.0, 2.0]


def test_a_pool_along_one_axis_is_a_convolution_of_each_channel() -> None:
    (part,) = layer("avg_pool", source(3, 8), kernel=[2], stride=[3], padding=((1, 0),), factor=0.5).terms[1].parts
    assert isinstance(part, Conv)
    assert (part.weight.tolist(), part.weight.dtype) == ([[[0.5, 0.5]]] * 3, np.float32)
    assert (part.stride, part.padding, part.dilation, part.groups) == ((3,), ((1, 0),), (1,), 3)
    both = {"kernel": [2, 1], "stride": [3, 2], "padding": [(1, 0), (0, 0)], "factor": 1}
    (part,) = layer("avg_pool", source(3, 8, 8), **both).terms[1].parts
    assert isinstance(part, SumPool)
    assert (part.kernel, part.stride, part.padding) == ((2, 1), (3, 2), ((1, 0), (0, 0)))
    assert (part.factor, type(part.factor)) == (1.0, float)


def norm(e: Expression, **changes: Any) -> Expression:
    values = {"mean": np.array([1.0, 2.0]), "variance": np.array([3.0, 0.0]), "weight": None, "bias": None}
    return layer("batch_norm", e, **{**values, "epsilon": 1.0, **changes})


@pytest.mark.parametrize("kind", ["dense", "conv", "neither", "nothing"])
def test_a_batch_norm_goes_into_the_weights_before_it_and_is_a_factor_elsewhere(kind: str) -> None:
    dense, shape = Dense(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)), (2,)
    before: tuple[Any, ...] = {"dense": (Identity((2,)), dense), "neither": (dense, Identity((2,)))}.get(kind, ())
    if kind == "conv":
        before = (Conv(np.ones((2, 2, 1), np.float32), (1,), ((0, 0),), (1,), 1, (2, 3)),)
        shape = (2, 3)
    e = Expression(shape, (Term("in", 1, shape, before, tuple("abc"[: len(before)])),))
    found = norm(e, weight=np.array([4.0, -1.0]), bias=np.array([0.5, 0.25]))
    (term,) = found.terms
    last: Any = term.parts[-1]
    factor = np.array([2.0, -1.0])
    if kind in ("dense", "conv"):
        assert term.names == tuple("abc"[: len(before)])
        wanted = before[-1].weight * factor.reshape(-1, *(1,) * (before[-1].weight.ndim - 1))
        assert (last.weight.tolist(), last.weight.dtype) == (wanted.tolist(), np.float32)
        assert term.parts[:-1] == before[:-1]
    else:
        assert term.names == (*"abc"[: len(before)], "c")
        assert term.parts[:-1] == before
        assert (last.scale.tolist(), last.scale.dtype) == (factor.tolist(), np.float64)
    assert found.constant is not None
    assert found.constant.reshape(2, -1)[:, 0].tolist() == [-1.0 * 2 + 0.5, -2.0 * -1 + 0.25]
    assert (term.source, term.delay) == ("in", 1)


def test_a_constant_before_a_batch_norm_is_scaled_too() -> None:
    found = norm(source(2, constant=np.array([3.0, 5.0])))
    assert found.constant is not None
    assert found.constant.tolist() == [(3.0 - 1) / 2, 5.0 - 2]


def test_factors_and_shifts() -> None:
    e = source(2, constant=np.array([1.0, 2.0]))
    found = layer("shift", e, constant=np.array([10.0]), sign=-1.0)
    assert found.constant is not None
    assert found.constant.tolist() == [9.0, 8.0]
    (part,) = found.terms[1].parts
    assert isinstance(part, Scale)
    assert (part.scale.tolist(), part.scale.dtype) == ([-1.0, -1.0], np.float64)
    assert layer("shift", e, constant=np.array([10.0]), sign=1.0).terms[1].parts == ()
    (part,) = scale_expression(source(2, 2), 0.1, "t").terms[1].parts
    assert isinstance(part, Scale)
    assert part.scale.tolist() == [[0.1] * 2] * 2
    (part,) = layer("scale", source(2), factor=np.float32(0.5)).terms[1].parts
    assert isinstance(part, Scale)
    assert (part.scale.tolist(), part.scale.dtype) == ([0.5, 0.5], np.float64)


def test_selections() -> None:
    part = selection_operator(np.array([1, 1, 3]), np.array([5, 2, 0]), (2, 3), (5,))
    assert rows(part) == [[0, 0, 2, 2, 3, 3], [5, 2, 0], [1.0] * 3, (2, 3), (5,)]
    (gathered,) = layer("gather", source(2, 3), (2, 2), indices=np.array([[5, 0], [0, 3]])).terms[1].parts
    assert isinstance(gathered, Sparse)
    assert rows(gathered) == [[0, 1, 2, 3, 4], [5, 0, 0, 3], [1.0] * 4, (2, 3), (2, 2)]


def test_joined_values_have_their_constants_in_their_ranges() -> None:
    zeros = source(1, 2, constant=np.zeros((1, 2)))
    found = concatenate(call((3, 2), axis=0), (zeros, source(2, 2, constant=np.array([[0.0, 7.0], [0.0, 0.0]]))))
    assert found.constant is not None
    assert found.constant.tolist() == [[0.0, 0.0], [0.0, 7.0], [0.0, 0.0]]
    assert [t.names for t in found.terms] == [("c",)] * 4
    assert concatenate(call((2, 2), axis=0), (zeros, zeros)).constant is None
    three = concatenate(call((2, 3), axis=1), (source(2, 1), source(2, 1), source(2, 1)))
    assert [rows(t.parts[0])[:2] for t in three.terms[::2]] == [  # type: ignore[arg-type]
        [[0, 1, 1, 1, 2, 2, 2], [0, 1]],
        [[0, 0, 1, 1, 1, 2, 2], [0, 1]],
        [[0, 0, 0, 1, 1, 1, 2], [0, 1]],
    ]


# -- selections before weights -------------------------------------------------------------------------------------

PICK = selection_operator(np.array([0, 2]), np.array([1, 0]), (2,), (3,))
DENSE = Dense(RNG.standard_normal((2, 3)).astype(np.float32))
DOUBLE = Sparse(PICK.indptr, PICK.indices, narrow([1.0, 2.0]), (2,), (3,))
SUMS = Sparse(np.array([0, 2, 2, 2]), np.array([0, 1]), np.ones(2, np.float32), (2,), (3,))
GRID = selection_operator(np.array([0, 2]), np.array([1, 0]), (2, 1), (3,))
TWICE = selection_operator(np.array([0, 1]), np.array([1, 1]), (2,), (2,))
UNMERGED: list[tuple[str, tuple[Any, ...]]] = [
    ("a factor after it", (PICK, Scale(np.ones(3)))),
    ("a factor in it", (DOUBLE, DENSE)),
    ("sums", (SUMS, DENSE)),
    ("a grid before a matrix", (GRID, DENSE)),
    ("weights before it", (DENSE, selection_operator(np.array([0]), np.array([1]), (2,), (2,)))),
    ("rows with factors before it", (Sparse(DOUBLE.indptr, np.array([0, 2]), DOUBLE.data, (3,), (3,)), PICK)),
    ("a value that a row meets twice", (TWICE, Sparse(np.array([0, 2]), np.array([0, 1]), np.ones(2), (2,), (1,)))),
]


@pytest.mark.parametrize("case", UNMERGED, ids=lambda case: case[0])
def test_what_is_not_merged_stays_as_it_is(case: Any) -> None:
    _, parts = case
    found, names = merge_selections(parts, ("a", "b"))
    assert (found, names) == (parts, ("a", "b"))


def test_rows_of_a_matrix_after_a_selection_are_sorted_again() -> None:
    swapped = selection_operator(np.arange(3), np.array([2, 0, 1]), (3,), (3,))
    matrix = Sparse(np.array([0, 2, 2, 3]), np.array([0, 1, 2]), narrow([5.0, 6.0, 7.0]), (3,), (3,))
    (found,), _ = merge_selections((swapped, matrix), ("a", "b"))
    assert isinstance(found, Sparse)
    assert [list(a) for a in (found.indptr, found.indices, found.data)] == [[0, 2, 2, 3], [0, 2, 1], [6.0, 5.0, 7.0]]


def test_merged_parts_of_a_long_path() -> None:
    again = selection_operator(np.array([0, 1]), np.array([2, 1]), (3,), (3,))
    parts = (DENSE, selection_operator(np.array([0, 2]), np.array([1, 0]), (2,), (3,)), again, DENSE)
    found, names = merge_selections(parts, tuple("abcd"))
    assert names == ("a", "d")
    x = RNG.standard_normal(3)
    wanted = x
    for part in parts:
        wanted = apply(part, wanted)
    for part in found:
        x = apply(part, x)
    np.testing.assert_allclose(x, wanted, rtol=1e-6)
    assert isinstance(found[1], Dense)
    assert found[1].weight.dtype == np.float32
    (only,), _ = merge_selections((PICK, Reshape((3,), (1, 3))), ("a", "b"))
    assert isinstance(only, Sparse)
    assert (only.input_shape, only.output_shape) == ((2,), (1, 3))
    assert merge_selections((), ()) == ((), ())


def test_a_value_that_is_picked_twice_gets_the_sum_of_both_weights() -> None:
    twice = selection_operator(np.array([0, 1]), np.array([1, 1]), (2,), (3,))
    (found,), _ = merge_selections((twice, Dense(narrow([[1, 2, 4], [8, 16, 32]]))), ("a", "b"))
    assert isinstance(found, Dense)
    assert found.weight.tolist() == [[0.0, 3.0], [0.0, 24.0]]


def whole(target: list[int], origin: list[int], given: int, made: int, space: tuple[int, ...]) -> Sparse:
    size = int(np.prod(space))
    r, c = (np.concatenate([np.arange(k * size, (k + 1) * size) for k in ks]) for ks in (target, origin))
    return selection_operator(r, c, (given, *space), (made, *space))


@pytest.mark.parametrize("space", [(3,), (2, 3)])
def test_channels_as_a_kernel_of_one_pixel(space: tuple[int, ...]) -> None:
    (found,), _ = merge_selections((whole([0, 2], [1, 0], 2, 4, space),), ("a",))
    assert isinstance(found, Conv)
    ones = (1,) * len(space)
    assert (found.stride, found.padding, found.dilation, found.groups) == (ones, ((0, 0),) * len(space), ones, 1)
    assert found.input_shape == (2, *space)
    assert found.weight.dtype == np.float32
    assert found.weight.reshape(4, 2).tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    (cube,), _ = merge_selections((whole([0], [1], 2, 1, (2, 2, 2)),), ("a",))
    assert isinstance(cube, Sparse), "NIR has no kernel along three axes"


def test_channels_go_into_a_convolution_without_groups_alone() -> None:
    before = whole([0, 1], [2, 2], 3, 2, (4,))
    kernel = narrow([[[1.0, 2.0], [4.0, 8.0]]])
    (found,), names = merge_selections((before, Conv(kernel, (1,), ((0, 0),), (1,), 1, (2, 4))), ("a", "b"))
    assert isinstance(found, Conv)
    assert (found.weight.tolist(), found.input_shape, names) == ([[[0, 0], [0, 0], [5, 10]]], (3, 4), ("b",))
    grouped = Conv(np.ones((2, 1, 2), np.float32), (1,), ((0, 0),), (1,), 2, (2, 4))
    assert merge_selections((before, grouped), ("a", "b"))[0] == (before, grouped)
    ragged = selection_operator(np.arange(8), np.arange(8)[::-1], (2, 4), (2, 4))
    conv = Conv(kernel, (1,), ((0, 0),), (1,), 1, (2, 4))
    assert merge_selections((ragged, conv), ("a", "b"))[0] == (ragged, conv)


def test_which_selections_are_of_whole_channels() -> None:
    found = channel_map(whole([1], [0], 1, 2, (2, 2)))
    assert found is not None
    assert [k.tolist() for k in found] == [[1], [0]]
    factor = whole([0, 1], [1, 0], 2, 2, (2,))
    assert channel_map(Sparse(factor.indptr, factor.indices, narrow([1, 1, 1, 2]), (2, 2), (2, 2))) is None
    shifted = selection_operator(np.array([1, 2]), np.array([0, 1]), (2, 2), (2, 2))
    assert channel_map(shifted) is None
    moved = selection_operator(np.array([0, 1]), np.array([1, 2]), (2, 2), (2, 2))
    assert channel_map(moved) is None
    assert linear_layers._is_selection(factor)
    empty = selection_operator(np.zeros(0, int), np.zeros(0, int), (2, 2), (2, 2))
    assert linear_layers._is_selection(empty)
