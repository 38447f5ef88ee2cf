# ruff: noqa: E501  (tables of messages read better in one line)
"""Linear nodes as operators: sparse patterns by brute force, blocks, factors, biases, and refusals."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.network import from_nir
from nirbridge.network.nir import lower_linear
from nirbridge.network.operators import SumPool
from tests.network.graphs import chain, lif, out, port
from tests.network.test_graphs_in_words import told, with_field


def is_pattern(indptr: tuple[int, ...], indices: tuple[int, ...], rows: int, columns: int) -> bool:
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        return False
    if any(a > b for a, b in pairwise(indptr)):
        return False
    own = [indices[a:b] for a, b in pairwise(indptr)]
    return all(list(row) == sorted(set(row)) and all(0 <= c < columns for c in row) for row in own)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_every_small_pattern_is_one_or_none(columns: int) -> None:
    every = (
        [c for n in range(5) for c in product(range(-1, columns + 1), repeat=n)]
        if columns < 3
        else [(0, 1, 2, 0, 2), (0, 1, 2, 2, 0), (2, 0), (0, 3)]
    )
    for indptr in product(range(-1, 6), repeat=3):
        for indices in every:
            found = lower_linear.is_pattern(np.array(indptr, np.int64), np.array(indices, np.int64), 2, columns)
            assert found is is_pattern(indptr, indices, 2, columns), (indptr, indices)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        (np.array([0.0, 1, 2]), np.array([0, 1])), (np.array([0, 1, 2]), np.array([0.0, 1])), (np.array([0, 2]), np.array([0, 1])),
        (np.array([0, 1, 2]), np.array([[0, 1]])), (np.array([[0, 1, 2]]), np.array([0, 1])), (np.array(["0"]), np.array([0, 1])),
        (np.array([0, 1, 1, 2]), np.array([0, 1])), (np.array([0, 1, 2], np.uint8), np.array([1, 0], bool)),
    ],
)  # fmt: skip
def test_a_pattern_is_whole_numbers_of_the_shape(indptr: Any, indices: Any) -> None:
    assert lower_linear.is_pattern(indptr, indices, 2, 2) is False
    node = with_field(nir.Linear(np.ones((2, 2))), metadata={"nirbridge:indptr": indptr, "nirbridge:indices": indices})
    assert told(lambda: from_nir(chain(port(2), node, lif(2), out(2)))) == [
        "node '0' (Linear): metadata nirbridge:indptr and nirbridge:indices are not the pattern of a [2, 2] matrix; remove them, or correct them"
    ]


def test_a_pattern_of_nothing_needs_no_indices() -> None:
    assert lower_linear.is_pattern(np.zeros(3, np.uint8), np.asarray(()), 2, 2) is True
    assert lower_linear.is_pattern(np.array([0, 1, 3], np.uint8), np.array([1, 0, 1], np.uint8), 2, 2) is True
    node = with_field(
        nir.Linear(np.arange(6.0).reshape(2, 3)),
        metadata={"nirbridge:indptr": np.array([0, 2, 3]), "nirbridge:indices": np.array([0, 2, 1])},
    )
    made = from_nir(chain(port(3), node, lif(2), out(2))).projections[0].operator
    assert made.data.tolist() == [0.0, 2.0, 4.0]  # type: ignore[union-attr]


def test_blocks_are_listed_up_to_a_number_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = np.arange(24.0).reshape(2, 2, 3, 2)
    graph = chain(port(2, 2, 2), nir.Linear(weight), lif(2, 2, 3), out(2, 2, 3))
    assert lower_linear.BLOCK_WEIGHTS_MAX == 10**8
    monkeypatch.setattr(lower_linear, "BLOCK_WEIGHTS_MAX", 24)
    made: Any = from_nir(graph).projections[0].operator
    assert (made.indptr.tolist(), made.data.tolist()) == (list(range(0, 25, 2)), weight.reshape(-1).tolist())
    assert made.indices.reshape(4, 3, 2).tolist() == [[[2 * b, 2 * b + 1]] * 3 for b in range(4)]
    monkeypatch.setattr(lower_linear, "BLOCK_WEIGHTS_MAX", 23)
    assert len(from_nir(graph).projections[0].operator.data) == 24  # type: ignore[union-attr]  # these are in memory
    shape = nir.Linear(np.broadcast_to(np.float32(1), weight.shape))
    assert told(lambda: from_nir(chain(port(2, 2, 2), shape, lif(2, 2, 3), out(2, 2, 3)))) == [
        "node '0' (Linear): a weight of shape (2, 2, 3, 2) holds 24 synapses in blocks, at most 23 are listed one by one; use one Linear node per block"
    ]


@pytest.mark.parametrize(
    ("value", "factor"),
    [(0.3, 0.3), (np.array([2]), 2.0), (True, 1.0), (np.uint8(7), 7.0), ([0.5, 0.5], None), (np.nan, None), ("x", None), ([], None), (np.inf, None)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["SumPool2d", "AvgPool2d"])
def test_a_stored_factor_is_one_finite_number(value: Any, factor: float | None, kind: str) -> None:
    pool = getattr(nir, kind)(kernel_size=np.array([2, 3]), stride=np.array([2, 3]), padding=np.array([0, 0]))
    graph = chain(port(1, 4, 6), pool, lif(1, 2, 2), out(1, 2, 2))
    own = from_nir(graph).projections[0].operator
    assert isinstance(own, SumPool)
    assert own.factor == (1.0 if kind == "SumPool2d" else 1 / 6)
    pool.metadata = {"nirbridge:factor": value}
    if factor is None:
        assert told(lambda: from_nir(graph)) == [
            f"node '0' ({kind}): metadata nirbridge:factor is not a finite number; correct it"
        ]
        return
    assert from_nir(graph).projections[0].operator.factor == factor  # type: ignore[union-attr]


def test_a_bias_of_one_neuron_is_a_bias() -> None:
    for values in ([0.0, 0.0], [0.0, 1.0], [1.0, 0.0]):
        made = from_nir(chain(port(2), nir.Affine(np.eye(2), np.array(values)), lif(2), out(2))).projections[0].bias
        assert (None if made is None else made.tolist()) == (values if any(values) else None)
