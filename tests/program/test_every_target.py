"""Random networks: the evaluated program, the simulators, and every target that prints it, bit for bit.

``NIRBRIDGE_CASES=many`` draws 1,000 networks for each target that runs within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.modules.emit import TORCH
from nirbridge.emitters.onnx.emit import ONNX
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.cases import cases
from tests.emitters.c.programs import random_inputs
from tests.emitters.held_out import dyadic_network, fixed_network
from tests.emitters.modules.loaded import loaded, ran
from tests.program.test_whole_networks import ALL, STEPS, assert_the_same, evaluator, in_two_parts

Arrays = dict[tuple[str, str], Array]
Run = Callable[[Any, Any, dict[str, Array]], Arrays]
"""A program, its model and inputs -> what it computes."""


def drawn(model: Network | QuantizedNetwork, seed: int) -> tuple[dict[str, Array], Arrays]:
    """Inputs and what the simulator makes of them; the evaluated program makes the same."""
    if isinstance(model, QuantizedNetwork):
        inputs = random_inputs(model, STEPS, seed=seed)
        expected = dict(simulate_fixed(model, inputs, record=ALL).recording.arrays)
        sent = {p.name: np.rint(inputs[p.name] / p.scale).astype(np.int64) for p in model.inputs}
    else:
        rng = np.random.default_rng(seed)
        inputs = {p.name: (rng.random((STEPS, 2, *p.shape)) < 0.4).astype(np.float32) for p in model.inputs}
        expected = dict(simulate(model, inputs, record=ALL, backend="reference").recording.arrays)
        sent = inputs
    computed = {key: values for key, values in expected.items() if key[0] not in inputs}
    found = in_two_parts(evaluator(model), sent, 2)
    for key, values in computed.items():
        if key[1] == "u" and isinstance(model, QuantizedNetwork):  # beyond its register: a recording's lower bits
            found[key] = found[key].astype(values.dtype)
    assert_the_same(computed, found)
    return inputs, expected


def assert_computed_by(emitter: Any, run: Run, make: Callable[[int], Any], seeds: Sequence[int]) -> None:
    """What the programs of a target compute of every network that it takes: of at least half of them, and they fire."""
    taken = fired = 0
    for seed in seeds:
        model = make(seed)
        if not model.inputs:
            continue
        inputs, expected = drawn(model, seed)
        try:
            program = emitter.emit(model)
        except (ModelError, DoesNotFit):
            continue
        taken += 1
        found = run(program, model, inputs)
        assert found
        for (name, variable), values in found.items():
            wanted = expected.get((name, variable), expected.get((name, "v")))  # of an output that reads a readout
            assert np.array_equal(values, wanted, equal_nan=True), (seed, name, variable)
        fired += any(values.any() for (_, variable), values in found.items() if variable == "s")
    assert taken >= len(seeds) / 2
    assert fired >= taken / 2


def by(emitter: Any) -> Run:
    """A target's own way to run its program; all that it records."""
    probes = [Probe("*", tuple(v for v in ("s", "u", "v") if v in emitter.records))]
    return lambda program, model, inputs: dict(emitter.run(program, inputs, record=probes).arrays)


def in_this_process(program: Any, model: Any, inputs: dict[str, Array]) -> Arrays:
    """The outputs of a module for PyTorch."""
    return {(name, "s"): values for name, values in ran(loaded(program), model, inputs).items()}


@pytest.mark.parametrize(
    ("emitter", "run", "make"),
    [
        (C, by(C), fixed_network),
        (ONNX, by(ONNX), fixed_network),
        (ONNX, by(ONNX), dyadic_network),
        (TORCH, in_this_process, dyadic_network),
    ],
    ids=["c", "onnx-integers", "onnx-reals", "torch"],
)
@pytest.mark.parametrize("first", cases([2000], range(2000, 3000, 50)))
def test_random_networks(emitter: Any, run: Run, make: Any, first: int) -> None:
    assert_computed_by(emitter, run, make, range(first, first + cases(6, 50)))
