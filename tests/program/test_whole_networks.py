"""Time steps of whole networks, evaluated from their terms, against the two simulators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from nirbridge.arrays import Array
from nirbridge.network.apply import apply
from nirbridge.network.model import Network
from nirbridge.program.evaluate import ProgramEvaluator
from nirbridge.program.step import step_program
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.reference.array_namespace import array_namespace
from nirbridge.simulators.reference.sums import accumulate
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import networks
from tests.cases import cases
from tests.emitters.c.programs import random_inputs, whole
from tests.emitters.hand_made import random_network

STEPS = 12
ALL = [Probe("*", ("s", "u", "v"))]


def evaluator(model: Network | QuantizedNetwork, library: str = "numpy", real: str = "float32") -> ProgramEvaluator:
    """The terms of a network on NumPy or torch."""
    space = array_namespace(library, real)
    xp = space.xp
    types = {"real": xp.float64 if isinstance(model, QuantizedNetwork) else getattr(xp, real)}
    types |= {"int": xp.int64, "count": xp.int64, "bool": xp.bool}

    def linear(operator: Any, kind: str) -> Any:
        if isinstance(model, QuantizedNetwork):
            return lambda x: xp.asarray(apply(operator, np.asarray(x)))
        return accumulate(operator, space)

    return ProgramEvaluator(step_program(model), xp, types, linear)  # type: ignore[arg-type]


def in_two_parts(made: ProgramEvaluator, inputs: dict[str, Any], batch: int) -> dict[tuple[str, str], Array]:
    """All time steps, cut after a third of them: the state leads from one run to the next."""
    cut = STEPS // 3
    before = made.run({name: x[:cut] for name, x in inputs.items()}, made.first(batch))
    after = made.run({name: x[cut:] for name, x in inputs.items()}, before.state)
    return {key: np.concatenate([np.asarray(x), np.asarray(after.arrays[key])]) for key, x in before.arrays.items()}


def assert_the_same(expected: dict[Any, Array], found: dict[Any, Array]) -> int:
    """Every recorded array, bit by bit; how many there are."""
    assert expected
    for key, array in expected.items():
        values = found[key if key in found else (key[0], "s")]  # an output that a readout leads to is recorded as v
        assert np.array_equal(values, array), key
    return len(expected)


@settings(max_examples=cases(20, 1000), deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks())
def test_reals(network: Network) -> None:
    if not network.inputs:
        return
    rng = np.random.default_rng(len(network.projections))
    inputs = {p.name: (rng.random((STEPS, 2, *p.shape)) < 0.5).astype(np.float32) for p in network.inputs}
    expected = simulate(network, inputs, record=ALL, backend="reference").recording.arrays
    assert_the_same(dict(expected), in_two_parts(evaluator(network), inputs, 2))


@pytest.mark.parametrize("first", cases(range(0, 40, 20), range(0, 500, 20)))
def test_integers(first: int) -> None:
    count = 0
    for seed in range(first, first + 20):
        quantized = whole(random_network(seed))
        inputs = random_inputs(quantized, STEPS, seed=seed)
        expected = simulate_fixed(quantized, inputs, record=ALL).recording.arrays
        integers = {p.name: np.rint(inputs[p.name] / p.scale).astype(np.int64) for p in quantized.inputs}
        recorded = {key: x for key, x in expected.items() if key[0] not in inputs}
        count += assert_the_same(recorded, in_two_parts(evaluator(quantized), integers, 2))
    assert count > 100


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import nirbridge as nb

    network = nb.load("examples/models/digits_mlp.nir")
    name = network.inputs[0].name
    x = (np.random.default_rng(0).random((STEPS, 2, *network.inputs[0].shape)) < 0.4).astype(np.float32)
    expected = simulate(network, {name: x}, record=ALL, backend="reference").recording.arrays
    assert_the_same(dict(expected), in_two_parts(evaluator(network, "torch"), {name: torch.asarray(x)}, 2))
