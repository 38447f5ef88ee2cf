"""The fewest sources of n neurons, against every set of neurons of small operators, and in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv, Operator
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import AllToAll, Separable, connectivity
from nirbridge.partitioner.search import windows
from nirbridge.partitioner.search.windows import least_by_degrees, least_inputs, least_listed, least_sources
from tests.partitioner.cases import random_operator, random_windows, structure

SHAPES = ((7,), (1, 9), (2, 5), (1, 4, 4), (2, 3, 3), (1, 3, 5), (2, 2, 4), (4, 3), (1, 2, 2, 3))


def fewest(operator: Operator, neurons: Array) -> list[int]:
    """Fewest sources of any n of the neurons, by trying every set."""
    masks = [sum(1 << int(s) for s in np.flatnonzero(row)) for row in structure(operator)[neurons]]
    union, best = [0] * (1 << len(masks)), [0] + [10**9] * len(masks)
    for chosen in range(1, 1 << len(masks)):
        low = chosen & -chosen
        union[chosen] = union[chosen ^ low] | masks[low.bit_length() - 1]
        best[chosen.bit_count()] = min(best[chosen.bit_count()], union[chosen].bit_count())
    return best


def table_of(operator: Operator, rng: np.random.Generator, most: int) -> tuple[list[int], Array]:
    """The table of some of the neurons of an operator, and which neurons these are."""
    shape, form = operator.output_shape, connectivity(operator)
    if isinstance(form, Separable):
        parts = [np.sort(rng.permutation(n)[: int(rng.integers(1, n + 1))]) for n in shape]
        support = tuple(parts) if rng.random() < 0.5 else tuple(np.arange(n) for n in shape)
        neurons = np.ravel_multi_index(np.ix_(*support), shape).ravel()
        return least_sources(form, support, most).tolist(), neurons
    assert not isinstance(form, AllToAll)
    neurons = np.sort(rng.permutation(math.prod(shape))[: int(rng.integers(1, math.prod(shape) + 1))])
    return least_listed(form, neurons, most).tolist(), neurons


@pytest.mark.parametrize("short", [False, True])
def test_no_set_of_neurons_has_fewer_sources(short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides, paddings beyond the kernel, dilations, groups, chains, sparse lists; most of the tables are exact."""
    if short:  # every axis is taken by degrees
        monkeypatch.setattr(windows, "OUTPUTS_MAX", 0)
    rng, found = np.random.default_rng(7), list[bool]()
    while len(found) < 300:
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        operator = random_windows(rng, shape) if len(shape) > 1 else random_operator(rng, shape, 2)
        size = math.prod(operator.output_shape)
        if not 1 <= size <= 11 or isinstance(connectivity(operator), AllToAll):
            continue
        most = int(rng.integers(1, size + 3))
        table, neurons = table_of(operator, rng, most)
        best = fewest(operator, neurons)[: most + 1]
        assert len(table) == len(best)
        assert all(a <= b for a, b in zip(table, best, strict=True)), (operator, table, best)
        found += [a == b for a, b in zip(table, best, strict=True)]
    assert np.mean(found) > (0.6 if short else 0.97)


def plane(side: int, kernel: int, stride: int = 1) -> Separable:
    form = connectivity(Conv(np.ones((1, 1, kernel, kernel)), (stride,) * 2, ((0, 0),) * 2, (1, 1), 1, (1, side, side)))
    assert isinstance(form, Separable)
    return form


def everything(form: Separable) -> tuple[Array, ...]:
    return tuple(np.arange(n) for n in form.target_shape)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_the_closed_form_of_a_plane(kernel: int) -> None:
    """(sqrt(n) + k - 1)**2, which squares of outputs meet."""
    form = plane(30, kernel)
    table = least_sources(form, everything(form), 120)
    n = np.arange(1, 121)
    assert np.all(table[1:] >= np.ceil((np.sqrt(n) + kernel - 1) ** 2 - 1e-9))
    assert [int(table[r * r]) for r in range(1, 11)] == [(r + kernel - 1) ** 2 for r in range(1, 11)]


def test_a_stride_and_a_border() -> None:
    strided = plane(31, 3, 2)
    assert least_sources(strided, everything(strided), 9)[[1, 4, 9]].tolist() == [9, 25, 49]
    padded = connectivity(Conv(np.ones((2, 3, 3, 3)), (1, 1), ((1, 1),) * 2, (1, 1), 1, (3, 8, 8)))
    assert isinstance(padded, Separable)
    # a corner neuron has 4 pixels, 3 x 3 of them 16; two output channels have the same sources
    corner = least_sources(padded, everything(padded), 128)
    assert corner[[1, 2, 8, 18, 128]].tolist() == [12, 12, 27, 48, 3 * 64]
    inner = least_sources(padded, (np.arange(2), np.arange(1, 7), np.arange(1, 7)), 128)
    assert inner[[1, 2, 8, 18]].tolist() == [27, 27, 48, 75]
    assert len(inner) == 73


def test_bounds_by_degrees() -> None:
    """Five synapses of two neurons need three sources of at most two; no source has more than its targets."""
    assert least_by_degrees(np.array([2, 3]), np.array([1, 2, 2]), 2).tolist() == [0, 2, 3]
    assert least_by_degrees(np.array([1, 1, 1]), np.array([3]), 3).tolist() == [0, 1, 1, 1]
    assert least_by_degrees(np.array([4]), np.array([1, 1, 1, 1]), 9).tolist() == [0, 4]
    assert least_by_degrees(np.zeros(0, np.int64), np.zeros(0, np.int64), 3).tolist() == [0]


def test_outputs_without_inputs_are_free() -> None:
    """A padding of two on both sides of two inputs: the first and the last output of a kernel of one see nothing."""
    operator = Conv(np.ones((1, 1, 1)), (1,), ((2, 2),), (1,), 1, (1, 2))
    form = connectivity(operator)
    assert isinstance(form, Separable)
    axis: Axis = form.axes[1]
    assert least_inputs(axis, np.arange(6), 6).tolist() == [0, 0, 0, 0, 0, 1, 2]
