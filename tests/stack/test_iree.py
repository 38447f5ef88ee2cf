"""Programs for IREE: bit-equal where every sum is exact and in integers, in any batch, from linalg and StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.iree.emit import IREE, IreeOptions
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.emitters.oracles import ORACLES
from tests.stack.needs import needs

pytestmark = needs("iree.compiler", "iree.runtime", "xdsl", "jax")
EVERY = [Probe("*", ("s", "v"))]


def spikes(network: Any, *leading: int, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).random((*leading, *network.inputs[0].shape)) < 0.4).astype(np.float32)


def assert_equal(found: Any, expected: Any) -> None:
    assert set(found) == set(expected)
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array), key


@pytest.mark.parametrize("options", [IreeOptions(), IreeOptions("stablehlo"), IreeOptions(dtype="float64")])
@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any, options: IreeOptions) -> None:
    network = make(np.random.default_rng(0))
    x = spikes(network, 24, 3)
    record = [*EVERY, *(Probe(p.name, ("u",)) for p in network.populations)]
    reference = simulate(network, x, record=record, backend="numpy", dtype=options.dtype).recording.arrays
    program = IREE.emit(network, options)
    assert_equal(IREE.run(program, x, record=record).arrays, reference)
    assert all(reference[p.name, "s"].any() for p in network.populations if p.neuron.fires)
