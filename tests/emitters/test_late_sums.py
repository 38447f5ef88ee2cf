"""Delays after operators on a cycle: emitters order a network made by hand as the simulators do."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge import plugins
from nirbridge.simulators.simulate import simulate
from tests.dialect.networks import late_sums


@pytest.mark.parametrize("target", ["onnx", "torch"])
def test_sums_of_a_later_population_arrive_on_time(target: str) -> None:
    assert_equal_spikes(target)


def assert_equal_spikes(target: str) -> None:
    """The outputs of ``late_sums`` as a program for ``target`` are those of the reference."""
    rng = np.random.default_rng(0)
    network = late_sums(rng)
    inputs = {"in": (rng.random((30, 2, 5)) < 0.4).astype(np.float32)}
    emitter = plugins.get("emitters", target)
    found = emitter.run(emitter.emit(network), inputs).arrays["out", "s"]
    expected = simulate(network, inputs).recording.arrays["out", "s"]
    assert expected.sum() > 100
    np.testing.assert_array_equal(found, expected)
