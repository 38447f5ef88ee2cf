"""Synapses listed by the checker against loops over the definition of each operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.mapping.synapses import AllToAllSynapses, expand_operator, synapse_count, synapses_into
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.testing import networks
from tests.cases import cases
from tests.mapping.hand_made import paths


@st.composite
def windows(draw: st.DrawFn, shape: tuple[int, ...]) -> Conv | SumPool:
    """A convolution or pool that fits ``shape``."""
    axes = len(shape) - 1
    padding = tuple(draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(axes))
    is_conv = draw(st.booleans())
    dilation = tuple(draw(st.integers(1, 2)) if is_conv else 1 for _ in range(axes))
    kernel, stride = [], []
    for n, (lo, hi), d in zip(shape[1:], padding, dilation, strict=True):
        kernel.append(draw(st.integers(1, min(3, (n + lo + hi - 1) // d + 1))))
        stride.append(draw(st.integers(1, 3)))
    if not is_conv:
        return SumPool(tuple(kernel), tuple(stride), padding, shape)
    groups = draw(st.sampled_from([g for g in range(1, shape[0] + 1) if shape[0] % g == 0]))
    weight = np.ones((groups * draw(st.integers(1, 2)), shape[0] // groups, *kernel))
    return Conv(weight, tuple(stride), padding, dilation, groups, shape)


@st.composite
def sparse_matrices(draw: st.DrawFn, shape: tuple[int, ...]) -> Sparse:
    """Any pattern onto up to 6 targets."""
    n_in, n_out = int(np.prod(shape)), draw(st.integers(1, 6))
    rows = [sorted(draw(st.sets(st.integers(0, n_in - 1), max_size=4))) for _ in range(n_out)]
    indptr = np.cumsum([0, *(len(r) for r in rows)])
    indices = np.array([i for r in rows for i in r], dtype=np.int64)
    return Sparse(indptr, indices, np.ones(len(indices)), shape, (n_out,))


@st.composite
def operators(draw: st.DrawFn, shape: tuple[int, ...] | None = None) -> Operator:
    """A chain of one to three parts, from a small shape."""
    shape = shape or draw(st.sampled_from([(3,), (2, 5), (1, 3, 4), (2, 4, 3), (4, 2, 2)]))
    parts: list[Operator] = []
    for _ in range(draw(st.integers(1, 3))):
        flat = (int(np.prod(shape)),)
        choices = [st.just(Identity(shape)), st.just(Scale(np.arange(flat[0]).reshape(shape) % 2 + 1.0))]
        choices += [sparse_matrices(shape), st.just(Reshape(shape, flat))]
        choices += [st.just(Dense(np.ones((draw(st.integers(1, 3)), flat[0]))))] if len(shape) == 1 else []
        choices += [windows(shape), windows(shape)] if len(shape) > 1 else []
        parts.append(draw(st.one_of(choices)))
        shape = parts[-1].output_shape
    return parts[0] if len(parts) == 1 else Chain(tuple(parts))


@given(operators())
@settings(max_examples=cases(40, 120), deadline=None)
def test_every_synapse_and_its_sharing(operator: Operator) -> None:
    expected = paths(operator)
    n_out = int(np.prod(operator.output_shape))
    targets = np.arange(n_out)[::-1]
    found = synapses_into(expand_operator(operator), targets)
    if isinstance(found, AllToAllSynapses):
        assert {(int(targets[r]), int(s)) for r in found.rows for s in found.sources} == set(expected)
    else:
        pairs = list(zip(targets[found.row].tolist(), found.source.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == set(expected)
        labels = [frozenset(expected[p].items()) for p in pairs]
        # the same tap where, and only where, the paths carry the same weights
        assert len(set(zip(labels, found.tap.tolist(), strict=True))) == len(set(labels))
        assert len(set(found.tap.tolist())) == len(set(labels))
    assert synapse_count(operator) == len(expected)


@pytest.mark.parametrize("kernel", [3, 5])
def test_convolution_counts_in_closed_form(kernel: int) -> None:
    conv = Conv(np.ones((4, 2, kernel, kernel)), (2, 1), ((1, 1), (2, 0)), (1, 2), 1, (2, 9, 12))
    assert synapse_count(conv) == len(paths(conv))


def test_dense_is_not_listed() -> None:
    weight = np.broadcast_to(np.float32(0), (4096, 2_000_000))
    found = synapses_into(expand_operator(Dense(weight)), np.arange(10))
    assert isinstance(found, AllToAllSynapses)
    assert (len(found.rows), len(found.sources)) == (10, 2_000_000)


def test_nothing_reaches_a_dense_part_behind_an_empty_one() -> None:
    empty = Sparse(np.zeros(4, int), np.zeros(0, int), np.zeros(0), (2,), (3,))
    assert synapse_count(Chain((Dense(np.ones((2, 5))), empty, Dense(np.ones((4, 3)))))) == 0


@given(networks())
@settings(max_examples=cases(20, 40), deadline=None)
def test_structure_of_the_operators_matrix(network: Network) -> None:
    for projection in network.projections:
        expected = matrix(projection.operator).tocoo()
        found = synapses_into(expand_operator(projection.operator), np.arange(expected.shape[0]))
        if isinstance(found, AllToAllSynapses):
            pairs = {(r, s) for r in found.rows.tolist() for s in found.sources.tolist()}
        else:
            pairs = set(zip(found.row.tolist(), found.source.tolist(), strict=True))
        assert pairs == set(zip(*(x.tolist() for x in expected.coords), strict=True))
        assert synapse_count(projection.operator) == len(pairs)
