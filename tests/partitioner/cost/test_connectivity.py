"""Closed forms of connectivity, against the matrix of the operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.errors import ModelError
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.axis import axis_rows
from nirbridge.partitioner.cost.connectivity import (
    AllToAll,
    Connectivity,
    Explicit,
    Separable,
    connectivity,
    explicit,
    mark_sources,
    out_degrees,
    run_lengths,
    source_marks,
    sources_of,
    synapses,
)
from tests.cases import cases
from tests.partitioner.cases import (
    neurons_of,
    random_box,
    random_operator,
    random_shape,
    random_sparse,
    random_windows,
    structure,
)

seeds = st.integers(0, 2**32 - 1)


def listed(form: Connectivity) -> np.ndarray:
    """[post, pre], True where the form has a synapse."""
    lists = explicit(form, "test")
    dense = np.zeros((len(lists.indptr) - 1, lists.n_sources), bool)
    dense[np.repeat(np.arange(len(dense)), np.diff(lists.indptr)), lists.sources] = True
    assert int(dense.sum()) == len(lists.sources), "a synapse is listed twice"
    return dense


def conv(shape: tuple[int, ...], out: int, kernel: int, **given: int) -> Conv:
    axes = len(shape) - 1
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | given
    weight = np.ones((out, shape[0] // options["groups"], *(kernel,) * axes))
    padding = ((options["padding"],) * 2,) * axes
    return Conv(weight, (options["stride"],) * axes, padding, (options["dilation"],) * axes, options["groups"], shape)


@settings(max_examples=cases(100, 300))
@given(seeds)
def test_every_operator_has_its_structure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    operator = random_operator(rng, random_shape(rng))
    form = connectivity(operator)
    dense = structure(operator)
    assert form.target_shape == operator.output_shape
    assert np.array_equal(listed(form), dense)
    assert synapses(form) == int(dense.sum())
    assert np.array_equal(out_degrees(form), dense.sum(axis=0))
    box = random_box(rng, operator.output_shape)
    index, count = sources_of(form, box, lambda b: np.array(neurons_of(operator.output_shape, b)))
    inside = dense[neurons_of(operator.output_shape, box)].sum(axis=0)
    assert np.array_equal(index, np.flatnonzero(inside))
    assert np.array_equal(count, inside[index])
    marks = source_marks(form)
    mark_sources(form, box, lambda b: np.array(neurons_of(operator.output_shape, b)), marks)
    assert np.array_equal(marks, inside > 0)


@settings(max_examples=cases(50, 150))
@given(seeds)
def test_chains_of_windows_stay_separable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = ((2, 9), (3, 6, 7))[seed % 2]
    operator = random_windows(rng, shape, 3)
    form = connectivity(operator)
    assert isinstance(form, Separable)
    assert form.source_shape == shape
    assert np.array_equal(listed(form), structure(operator))
    for axis, (lo, hi) in zip(form.axes, random_box(rng, operator.output_shape), strict=True):
        rows = axis_rows(axis, lo, hi, 1).toarray() != 0
        assert rows.shape == (hi - lo, axis.n_in)
        assert np.array_equal(axis.counts(lo, hi), rows.sum(axis=0))
        ranges = [run_lengths(np.flatnonzero(column)) for column in axis_rows(axis, 0, axis.n_out, 1).toarray().T]
        assert axis.contiguous == all(len(runs) <= 1 or runs == (0,) for runs in ranges)


def dense_then(part: Operator) -> Chain:
    """A dense layer, whose output a window or sparse part then takes."""
    size = int(np.prod(part.input_shape))
    return Chain((Dense(np.ones((size, 3))), Reshape((size,), part.input_shape), part))


@pytest.mark.parametrize(
    "part",
    [
        conv((1, 4, 4), 2, 3),
        conv((1, 4, 4), 2, 1, padding=1),
        conv((2, 6), 2, 2, padding=3),
        SumPool((1, 1), (2, 2), ((1, 1), (0, 0)), (1, 4, 4)),
        SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 4, 4)),
        random_sparse(np.random.default_rng(1), (6,), (9,)),
    ],
    ids=["all reached", "border of padding", "long padding", "pool of padding", "pool", "empty rows"],
)
def test_behind_a_dense_part_only_outputs_with_an_input_are_reached(part: Operator) -> None:
    operator = dense_then(part)
    assert np.array_equal(listed(connectivity(operator)), structure(operator))


@pytest.mark.parametrize(
    ("operator", "form"),
    [
        (Identity((2, 3)), Separable),
        (Scale(np.zeros((2, 3, 4))), Separable),
        (conv((2, 6, 6), 4, 3), Separable),
        (Chain((conv((2, 6, 6), 4, 3), SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (4, 4, 4)))), Separable),
        (Dense(np.zeros((4, 3))), AllToAll),
        (Chain((Reshape((2, 3), (6,)), Dense(np.ones((4, 6))))), AllToAll),
        (Chain((conv((2, 6, 6), 4, 3), Reshape((4, 4, 4), (64,)), Dense(np.ones((4, 64))))), AllToAll),
        (Chain((conv((2, 6, 6), 4, 3), Reshape((4, 4, 4), (64,)))), Explicit),
        (random_sparse(np.random.default_rng(0), (4,), (5,)), Explicit),
    ],
)
def test_the_cheapest_form_is_found(operator: Operator, form: type) -> None:
    assert isinstance(connectivity(operator), form)


def test_weights_of_zero_are_synapses() -> None:
    assert synapses(connectivity(Dense(np.zeros((4, 3))))) == 12
    assert synapses(connectivity(Scale(np.zeros(5)))) == 5


def test_large_operators_are_never_listed() -> None:
    dense = connectivity(Dense(np.broadcast_to(np.float32(1), (4096, 2_000_000))))
    assert synapses(dense) == 4096 * 2_000_000
    wide = connectivity(conv((64, 400, 400), 64, 3, padding=1))
    assert synapses(wide) == 64 * 64 * (3 * 400 - 2) ** 2


def test_what_has_no_closed_form_and_is_large_is_refused() -> None:
    big = conv((16, 100, 100), 16, 5)
    flat = Chain((big, Reshape(big.output_shape, (16 * 96 * 96,))))
    with pytest.raises(ModelError, match=r"^conv: 58,982,400 synapses without a closed form, at most 30,000,000 are"):
        connectivity(flat, "conv")


def test_a_product_of_lists_is_guarded_before_it_is_made() -> None:
    n = 6000
    some = Sparse(np.array([0, n]), np.arange(n), np.ones(n), (n,), (1,))
    fan = Sparse(np.arange(n + 1), np.zeros(n, np.int64), np.ones(n), (1,), (n,))
    with pytest.raises(ModelError, match=r"^fan: 36,000,000 synapses without a closed form"):
        connectivity(Chain((some, fan)), "fan")


def test_runs() -> None:
    assert run_lengths(np.array([3, 4, 5, 9, 11, 12])) == (3, 1, 2)
    assert run_lengths(np.array([7])) == (1,)
