"""Modules of PyTorch alone: all that the reference simulates, bit by bit where sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.modules.emit import TORCH
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.emitters.onnx.test_onnx import ORACLES


@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any) -> None:
    network = make(np.random.default_rng(0))
    x = (np.random.default_rng(10).random((24, 3, *network.inputs[0].shape)) < 0.4).astype(np.float32)
    record = [Probe("*", ("s", "v"))]
    reference = simulate(network, x, record=record, backend="numpy").recording.arrays
    found = TORCH.run(TORCH.emit(network), x, record=record).arrays
    assert set(found) == set(reference)
    for key, array in reference.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array), key
    assert all(reference[p.name, "s"].any() for p in network.populations if p.neuron.fires)
