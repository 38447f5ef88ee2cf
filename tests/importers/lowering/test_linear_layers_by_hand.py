"""Linear calls as operators: each against its definition on tiny values, and merged selections against the chain."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.lowering import linear_layers
from nirbridge.importers.lowering.linear_layers import (
    LAYERS,
    Expression,
    Term,
    channel_map,
    concatenate,
    limit_terms,
    merge_selections,
    selection_operator,
)
from nirbridge.network.apply import apply
from nirbridge.network.operators import Conv, Dense, Reshape, Scale, Sparse, SumPool

RNG = np.random.default_rng(4)


def call(shape: tuple[int, ...] = (), **arguments: Any) -> Any:
    return SimpleNamespace(name="c", subject="module 'c'", shape=shape, arguments=arguments)


def source(shape: tuple[int, ...], *, constant: bool = False) -> Expression:
    return Expression(shape, (Term("in", 0, shape),), RNG.standard_normal(shape) if constant else None)


def value(e: Expression, x: Any) -> Any:
    """What an expression computes of ``x``, whatever its source."""
    total = np.zeros(e.shape)
    for term in e.terms:
        y = x
        for part in term.parts:
            y = apply(part, y)
        total = total + y
    return total if e.constant is None else total + e.constant


def check(kind: str, e: Expression, wanted: Any, **arguments: Any) -> Expression:
    """The layer on ``x`` (and on the constant) is ``wanted(x + constant)``."""
    found = LAYERS[kind](call(arguments.pop("shape", ()), **arguments), e)
    x = RNG.standard_normal(e.shape)
    given = x if e.constant is None else x + e.constant
    np.testing.assert_allclose(value(found, x), wanted(given), rtol=1e-5, atol=1e-6)
    assert all(len(t.parts) == len(t.names) for t in found.terms)
    return found


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
def test_a_matrix_works_on_the_last_axis(shape: tuple[int, ...], constant: bool) -> None:
    weight, bias = RNG.standard_normal((4, 3)).astype(np.float32), RNG.standard_normal(4)
    found = check("linear", source(shape, constant=constant), lambda x: x @ weight.T + bias, weight=weight, bias=bias)
    assert found.shape == (*shape[:-1], 4)
    check("linear", source(shape, constant=constant), lambda x: x @ weight.T, weight=weight, bias=None)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_a_batch_norm_scales_and_shifts_channels(constant: bool, affine: bool) -> None:
    mean, variance = np.array([0.5, -1.0]), np.array([2.0, 0.25])
    weight, bias = (np.array([1.5, -2.0]), np.array([0.1, 0.2])) if affine else (None, None)

    def wanted(x: Any) -> Any:
        columns = [None if a is None else a[:, None, None] for a in (mean, variance, weight, bias)]
        y = (x - columns[0]) / np.sqrt(columns[1] + 0.125)
        return y if weight is None else y * columns[2] + columns[3]

    arguments = {"mean": mean, "variance": variance, "weight": weight, "bias": bias, "epsilon": 0.125}
    found = check("batch_norm", source((2, 3, 2), constant=constant), wanted, **arguments)
    assert [type(p) for p in found.terms[0].parts] == [Scale]
    kernel = RNG.standard_normal((2, 2, 1, 1)).astype(np.float32)
    window = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    behind = LAYERS["conv"](call(weight=kernel, bias=np.array([0.3, 0.7]), **window), source((2, 3, 2)))
    folded = LAYERS["batch_norm"](call(**arguments), behind)
    x = RNG.standard_normal((2, 3, 2))
    np.testing.assert_allclose(value(folded, x), wanted(value(behind, x)), rtol=1e-5)
    assert [type(p) for p in folded.terms[0].parts] == [Conv]
    assert folded.terms[0].names == ("c",)


def test_pools_along_one_and_two_axes() -> None:
    x = np.arange(12.0).reshape(2, 6)
    one = LAYERS["avg_pool"](call(kernel=(2,), stride=(3,), padding=((1, 1),), factor=0.5), source((2, 6)))
    padded = np.pad(x, ((0, 0), (1, 1)))
    np.testing.assert_allclose(value(one, x), (padded[:, [0, 3, 6]] + padded[:, [1, 4, 7]]) * 0.5)
    two = LAYERS["avg_pool"](
        call(kernel=(2, 1), stride=(2, 1), padding=((0, 0), (0, 0)), factor=0.25), source((1, 4, 3))
    )
    assert isinstance(two.terms[0].parts[0], SumPool)
    y = np.arange(12.0).reshape(1, 4, 3)
    np.testing.assert_allclose(value(two, y), (y[:, ::2] + y[:, 1::2]) * 0.25)


@pytest.mark.parametrize("constant", [False, True])
def test_factors_shifts_reshapes_and_gathers(constant: bool) -> None:
    e = source((2, 3), constant=constant)
    factor = np.array([2.0, -1.0, 0.5])
    check("scale", e, lambda x: x * factor, factor=factor)
    check("shift", e, lambda x: factor - x, constant=factor, sign=-1.0)
    assert check("shift", e, lambda x: x + factor, constant=factor, sign=1.0).terms[0].parts == ()
    check("reshape", e, lambda x: x.reshape(6), shape=(6,))
    indices = np.array([[5, 0], [0, 3]])
    check("gather", e, lambda x: x.reshape(-1)[indices], indices=indices, shape=(2, 2))
    kept = check("gather", e, lambda x: x.reshape(3, 2), indices=np.arange(6), shape=(3, 2))
    assert isinstance(kept.terms[0].parts[0], Reshape)
    first = check("gather", e, lambda x: x.reshape(-1)[:5], indices=np.arange(5), shape=(5,))
    assert isinstance(first.terms[0].parts[0], Sparse)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("constants", list(itertools.product([False, True], repeat=2)))
def test_values_side_by_side(axis: int, constants: tuple[bool, bool]) -> None:
    shapes = [(2, 3), (1, 3)] if axis == 0 else [(2, 3), (2, 2)]
    parts = tuple(source(s, constant=c) for s, c in zip(shapes, constants, strict=True))
    whole = (3, 3) if axis == 0 else (2, 5)
    found = concatenate(call(whole, axis=axis), parts)
    inputs = [RNG.standard_normal(s) for s in shapes]
    total = sum(value(Expression(whole, (term,)), x) for term, x in zip(found.terms, inputs, strict=True)) + (
        0.0 if found.constant is None else found.constant
    )
    wanted = np.concatenate([value(e, x) for e, x in zip(parts, inputs, strict=True)], axis=axis)
    np.testing.assert_allclose(total, wanted)
    assert (found.constant is not None) == any(constants)


def test_paths_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_layers, "_TERMS_MAX", 2_000)
    term = Term("in", 0, (1,))
    assert limit_terms(call(), Expression((1,), (term,) * 2_000)).shape == (1,)
    with pytest.raises(ModelError) as caught:
        limit_terms(call(), Expression((1,), (term,) * 2_001))
    assert str(caught.value) == (
        "module 'c': 2,001 paths without a neuron meet here, at most 2,000 are followed; put neurons in between"
    )


SELECTIONS = [
    selection_operator(np.array([0, 2]), np.array([1, 1]), (2,), (3,)),
    selection_operator(np.array([0, 1, 2]), np.array([2, 0, 1]), (3,), (3,)),
    selection_operator(np.array([1]), np.array([3]), (4,), (3,)),
]


@pytest.mark.parametrize("before", SELECTIONS)
@pytest.mark.parametrize(
    "part",
    [
        Dense(RNG.standard_normal((2, 3)).astype(np.float32)),
        Reshape((3,), (3, 1)),
        selection_operator(np.array([0, 1, 3]), np.array([2, 0, 1]), (3,), (4,)),
    ],
    ids=["dense", "reshape", "selection"],
)
def test_a_selection_goes_into_the_part_after_it(before: Sparse, part: Any) -> None:
    (joint,), names = merge_selections((before, part), ("a", "b"))
    assert names == ("b",)
    x = RNG.standard_normal(before.input_shape)
    np.testing.assert_allclose(apply(joint, x), apply(part, apply(before, x)), rtol=1e-6)


def channels(rows: list[int], columns: list[int], given: int, whole: int, size: int = 4) -> Sparse:
    side = int(size**0.5)
    r, c = (np.concatenate([np.arange(k * size, (k + 1) * size) for k in ks]) for ks in (rows, columns))
    return selection_operator(r, c, (given, side, side), (whole, side, side))


def test_whole_channels_go_into_the_convolution_after_them() -> None:
    before = channels([0, 2], [1, 1], 2, 3)
    kernel = RNG.standard_normal((2, 3, 2, 2)).astype(np.float32)
    part = Conv(kernel, (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (3, 2, 2))
    (joint,), _ = merge_selections((before, part), ("a", "b"))
    x = RNG.standard_normal((2, 2, 2))
    np.testing.assert_allclose(apply(joint, x), apply(part, apply(before, x)), rtol=1e-5)
    grouped = Conv(kernel[:, :1], (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 2, 2))
    assert len(merge_selections((Reshape((2, 2), (1, 2, 2)), grouped), ("a", "b"))[0]) == 2


def test_a_selection_of_channels_alone_is_a_convolution_of_one_pixel() -> None:
    before = channels([0, 2], [1, 0], 2, 3)
    (found,), names = merge_selections((before,), ("a",))
    assert isinstance(found, Conv)
    assert (found.kernel, names) == ((1, 1), ("a",))
    x = RNG.standard_normal((2, 2, 2))
    np.testing.assert_allclose(apply(found, x), apply(before, x))


def test_what_are_whole_channels() -> None:
    found = channel_map(channels([0, 2], [1, 0], 2, 3))
    assert found is not None
    assert [list(k) for k in found] == [[0, 2], [1, 0]]
    right = np.arange(8)
    for k, j in itertools.combinations(range(8), 2):  # two values in each other's place
        mixed = right.copy()
        mixed[[k, j]] = mixed[[j, k]]
        assert channel_map(selection_operator(right, mixed, (2, 2, 2), (2, 2, 2))) is None, (k, j)
    assert channel_map(selection_operator(right[:7], right[:7], (2, 2, 2), (2, 2, 2))) is None
    assert channel_map(selection_operator(right[2:6], right[2:6], (2, 2, 2), (2, 2, 2))) is None
    assert channel_map(selection_operator(right[:4], right[:4], (4,), (4,))) is None
    assert channel_map(selection_operator(right[:4], right[:4], (1, 2, 2), (1, 1, 4))) is None
