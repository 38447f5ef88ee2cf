"""Networks of ``held_out``: C and ONNX in the fixed-point simulator's integers, ONNX in the reference's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.onnx.emit import ONNX
from nirbridge.network.check import check_network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.cases import cases
from tests.emitters.c.programs import ALL, random_inputs
from tests.emitters.held_out import dyadic_network, fixed_network
from tests.tools import needs

STEPS = 80
SLOW = pytest.mark.slow
FOUND = [26, 154, 184, 231, 77037]
"""Networks that differed once: a readout that drives, sums before a shift, currents beyond their register, and so far
beyond it that their product with a decay needs more than 64 bits."""


def of_integers(q: QuantizedNetwork, seed: int, emitter: Any) -> dict[tuple[str, str], Array]:
    inputs, steps = random_inputs(q, STEPS, seed=seed), None if q.inputs else STEPS
    fixed = simulate_fixed(q, inputs, record=ALL, steps=steps).recording.arrays
    assert_same(dict(fixed), emitter.run(emitter.emit(q), inputs, record=ALL, steps=steps).arrays, seed)
    return dict(fixed)


def assert_same(expected: dict[tuple[str, str], Array], found: Any, seed: int) -> None:
    assert set(found) == set(expected), seed
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, (seed, key)
        assert np.array_equal(found[key], array, equal_nan=True), (seed, key)


@pytest.mark.parametrize("seeds", [[*range(6), *FOUND], pytest.param(range(1000, 1200), marks=SLOW)], ids=str)
def test_c(seeds: Any) -> None:
    fired = [a.any() for seed in seeds for (_, v), a in of_integers(fixed_network(seed), seed, C).items() if v == "s"]
    assert sum(fired) > len(seeds)


@pytest.mark.slow
def test_c_under_the_sanitizers_of_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.emitters.c.test_clang import SANITIZERS

    monkeypatch.setenv("CC", " ".join([needs("clang"), *SANITIZERS]))
    for seed in [*FOUND, *range(1000, 1060)]:
        of_integers(fixed_network(seed), seed, C)


@pytest.mark.parametrize(
    "seeds", [[*cases(range(6), range(12)), *FOUND], pytest.param(range(1000, 1200), marks=SLOW)], ids=str
)
def test_onnx_in_integers(seeds: Any) -> None:
    for seed in seeds:
        q = fixed_network(seed)
        if q.inputs:  # ONNX takes its time and batch from one
            of_integers(q, seed, ONNX)


@pytest.mark.parametrize("seeds", [cases(range(10), range(25)), pytest.param(range(1000, 1300), marks=SLOW)], ids=str)
def test_onnx_in_real_numbers(seeds: Any) -> None:
    fired = 0
    for seed in seeds:
        network, rng = dyadic_network(seed), np.random.default_rng(seed)
        check_network(network)
        shapes = {p.name: (STEPS, 2, *p.shape) for p in network.inputs}
        values = {n: (rng.random(of) < 0.4).astype(np.float32) * rng.choice([1, 1, 1 / 4]) for n, of in shapes.items()}
        record = [Probe("*", ("s", "v")), *(Probe(p.name, ("u",)) for p in network.populations)]
        expected = simulate(network, values, record=record, backend="numpy").recording.arrays
        assert_same(dict(expected), ONNX.run(ONNX.emit(network), values, record=record).arrays, seed)
        fired += sum(bool(a.any()) for (_, v), a in expected.items() if v == "s")
    assert fired > len(seeds)
