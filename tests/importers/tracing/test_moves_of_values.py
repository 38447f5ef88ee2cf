"""Reshapes, permutations and repetitions of values with and without leading batch and time axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue
from tests.importers.tracing.test_readings_by_hand import BT, STILL, TB, B, T, X, moved

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "args", "of", "order", "out", "wanted"),
    [
        ("view", (2, 2, 2), (2, 4), (), (2, 2, 2), ("reshape", B, ())),
        ("view", (2, 2, 2), (4, 2), (1, 0), (2, 2, 2), ("reshape", B, (1, 2, 0))),
        ("permute", ((1, 0),), (4, 2), (1, 0), (2, 4), ("same", B, ())),
        ("permute", ((1, 0),), (2, 4), (), (4, 2), ("same", B, (1, 0))),
        ("permute", ((0, 2, 1),), (2, 3, 4), (), (2, 4, 3), ("gather", B, ())),
        ("permute", ((2, 0, 1),), (3, 4, 2), (1, 2, 0), (2, 3, 4), ("same", B, ())),
        ("permute", ((2, 1, 0),), (3, 4, 2), (1, 2, 0), (2, 4, 3), ("gather", B, ())),
    ],
)
def test_moves_of_whole_axes(name: str, args: Any, of: Any, order: Any, out: Any, wanted: Any) -> None:
    word, _ = moved(name, *args, of=of, lead=B, out=out, order=order, func=torch.permute, **STILL)
    assert (word.kind, word.lead, word.order) == wanted
    assert word.inputs == (FlowValue(X, B, of, order=order),)
    if word.kind == "gather":
        np.testing.assert_array_equal(word.arguments["indices"], np.arange(12).reshape(3, 4).T)


@pytest.mark.parametrize(
    ("lead", "of", "out"),
    [
        (T, (2, 4), (3, 2, 4)),
        (B, (1, 4), (3, 4)),
        (TB, (3, 1, 4), (3, 2, 4)),
        (BT, (1, 3, 4), (2, 3, 4)),
    ],
)
def test_samples_and_steps_are_not_repeated(lead: Any, of: Any, out: Any) -> None:
    with pytest.raises(CannotFollow, match=r"^it takes a part of the batch or of the time axis$"):
        moved("expand", out, of=of, lead=lead, out=out, func=torch.Tensor.expand, **STILL)
