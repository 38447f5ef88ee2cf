"""Axis orders after transpositions, and reshapes of values that contain batch or time axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers.tracing.arguments import CannotFollow
from nirbridge.importers.tracing.shape_ops import is_in_front, permutation, permute_lead, reshaped_in_place

torch = pytest.importorskip("torch")
TENSOR = torch.Tensor


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "wanted"),
    [
        (TENSOR.permute, (0, 2, 3, 1), {}, (0, 2, 3, 1)),
        (TENSOR.transpose, (1, -1), {}, (0, 3, 2, 1)),
        (TENSOR.movedim, (0, 2), {}, (1, 2, 0, 3)),
        (torch.swapaxes, (0, 1), {}, (1, 0, 2, 3)),
        (torch.movedim, (), {"source": 3, "destination": 0}, (3, 0, 1, 2)),
    ],
)
def test_orders_of_axes(func: Any, args: Any, kwargs: Any, wanted: tuple[int, ...]) -> None:
    assert permutation(func, args, kwargs, 4) == wanted


def test_what_stands_in_front() -> None:
    assert is_in_front(("batch", "time"), (1, 0, 2))
    assert is_in_front(("batch",), (0, 2, 1))
    assert not is_in_front(("batch", "time"), (0, 2, 1))
    assert not is_in_front(("batch",), (1, 0))


@pytest.mark.parametrize(
    ("arranged", "lead", "order", "new", "wanted"),
    [
        ((5, 2, 3), ("batch",), (1, 0, 2), (2, 5, 3), (1, 0, 2)),
        ((5, 2, 6), ("batch",), (1, 0, 2), (2, 5, 2, 3), (1, 0, 2, 3)),
        ((5, 4, 3), ("batch",), (1, 0, 2), (2, 2, 5, 3), (1, 2, 0, 3)),
        ((5, 7, 2, 3), ("batch", "time"), (0, 2, 1, 3), (5, 2, 7, 3), (0, 2, 1, 3)),
        ((5, 7, 6), ("batch", "time"), (2, 0, 1), (2, 3, 5, 7), (2, 3, 0, 1)),
    ],
)
def test_reshapes_that_leave_batch_and_time(
    arranged: tuple[int, ...], lead: Any, order: tuple[int, ...], new: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    assert reshaped_in_place(arranged, lead, order, new) == wanted


@pytest.mark.parametrize("new", [(10, 3), (30,), (2, 15), (5, 2, 3)])
def test_reshapes_that_mix_batch_with_values(new: tuple[int, ...]) -> None:
    with pytest.raises(CannotFollow, match="mixes batch or time with values"):
        reshaped_in_place((5, 2, 3), ("batch",), (1, 0, 2), new)


def test_values_are_gathered_where_their_order_changes() -> None:
    assert permute_lead((5, 2, 3), ("batch",), (0, 1, 2)) == (("batch",), None)
    words, indices = permute_lead((5, 2, 3), ("batch",), (0, 2, 1))
    assert words == ("batch",)
    assert np.array_equal(indices, np.arange(6).reshape(2, 3).T)
    assert permute_lead((5, 7, 4), ("batch", "time"), (1, 0, 2)) == (("time", "batch"), None)
