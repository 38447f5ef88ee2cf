"""Synapse lists counted by pattern, against lists counted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.network.operators import Chain, Conv, SumPool
from nirbridge.partitioner.cost import connectivity as patterns
from nirbridge.partitioner.cost.axis import Axis, axis_from_matrix
from nirbridge.partitioner.cost.connectivity import Separable, axis_lists, connectivity, range_patterns
from tests.cases import cases
from tests.partitioner.cases import random_conv


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """An axis of a random convolution, of a pool behind one, or of any sparse matrix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    what = draw(st.sampled_from(["conv", "pooled", "any"]))
    if what == "any":
        from scipy import sparse

        return axis_from_matrix(sparse.csr_array(rng.integers(0, 3, size=rng.integers(1, 9, size=2))))
    operator = random_conv(rng, tuple(rng.integers(1, 7, size=rng.integers(2, 4)).tolist()))
    if what == "pooled" and len(operator.kernel) == 2:
        pool = SumPool((2, 2), (2, 1), ((1, 0), (0, 1)), operator.output_shape)
        operator = Chain((operator, pool)) if min(pool.output_shape) > 0 else operator
    form = connectivity(operator)
    assert isinstance(form, Separable)
    return form.axes[draw(st.integers(0, len(form.axes) - 1))]


@given(axes(), st.data())
@settings(max_examples=cases(100, 300))
def test_counted_lists_are_the_lists(axis: Axis, data: st.DataObject) -> None:
    lo = data.draw(st.integers(0, axis.n_out - 1))
    hi = data.draw(st.integers(lo + 1, axis.n_out))
    assert range_patterns(axis, axis_lists(axis), lo, hi) == range_patterns(axis, None, lo, hi)


def test_a_long_axis_has_few_kinds() -> None:
    form = connectivity(Conv(np.ones((1, 1, 5)), (2,), ((2, 2),), (1,), 1, (1, 10_001)))
    assert isinstance(form, Separable)
    lists = axis_lists(form.axes[1])
    assert lists is not None
    assert len(lists.keys) < 10
    assert sum(n for _, n, _ in range_patterns(form.axes[1], lists, 0, 5001)) == 10_001


def test_sums_that_collide_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    form = connectivity(Conv(np.ones((1, 1, 3)), (1,), ((1, 1),), (1,), 1, (1, 50)))
    assert isinstance(form, Separable)
    axis = form.axes[1]
    monkeypatch.setattr(
        patterns.np, "add", type("add", (), {"reduceat": staticmethod(lambda x, at: np.zeros(len(at)))})
    )
    assert range_patterns(axis, axis_lists(axis), 7, 31) == range_patterns(axis, None, 7, 31)
