"""Operators on calibration data, in blocks and with uneven padding, against the operators' definition."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.importers.lowering.analysis import torch_apply
from nirbridge.network import apply
from tests.network.test_operators import OPERATORS
from tests.pieces import small_pieces

pytest.importorskip("torch")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_operator_in_one_piece_and_in_many(name: str, dtype: type) -> None:
    operator = OPERATORS[name]
    x = np.random.default_rng(0).normal(size=(3, 5, *operator.input_shape)).astype(dtype)
    whole = torch_apply(operator, x)
    assert whole.dtype == dtype
    assert np.allclose(whole, apply(operator, x), atol=1e-5)
    with small_pieces():
        assert np.allclose(torch_apply(operator, x), whole, atol=1e-6)
