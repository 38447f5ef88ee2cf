"""Time steps of whole networks, evaluated from their terms, against the two simulators."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError
from nirbridge.network.apply import apply
from nirbridge.network.model import Network
from nirbridge.program.evaluate import ProgramEvaluator
from nirbridge.program.step import step_program
from nirbridge.program.text import program_text, read_program
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


def programs() -> list[Any]:
    """The golden models in reals and in integers, and networks of every part."""
    import nirbridge as nb
    from tests.golden.models import MODELS, network_of

    found: list[Any] = [network_of(name) for name in MODELS]
    found += [nb.quantize(network, "loihi2") for network in found]
    return [*found, *(whole(random_network(seed)) for seed in range(10))]


def test_the_text_reads_back_and_computes_the_same() -> None:
    for model in programs():
        text, arrays = program_text(step_program(model))
        program = read_program(text, arrays)
        again, same = program_text(program)
        assert again == text
        assert set(same) == set(arrays)
    made = evaluator(model)
    inputs = random_inputs(model, STEPS)
    integers = {p.name: np.rint(inputs[p.name] / p.scale).astype(np.int64) for p in model.inputs}
    other = ProgramEvaluator(program, made.xp, made.types, lambda operator, kind: lambda x: apply(operator, x))
    assert assert_the_same(in_two_parts(made, integers, 2), in_two_parts(other, integers, 2)) > 4


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda s: s.replace("= add %", "= gt %", 1), "arguments of"),
        (lambda s: s.replace("= gt %", "= neg %", 1), "arguments"),
        (lambda s: re.sub(r"(history .*?\]), \d+, ", r"\1, 0, ", s), "time steps, 0 are remembered"),
        (lambda s: re.sub(r"history .*\n", "", s), "nothing remembers it"),
        (lambda s: re.sub(r"initial .*\n", "", s), "without a first value"),
        (lambda s: s.replace('{"@": "', '{"@": "0', 1), "KeyError"),
        (lambda s: s.replace("= add %", "= add %9", 1), "IndexError|arguments of"),
        (lambda s: s.replace("= mul", "= os.system", 1), "not JSON"),
        (lambda s: s.replace('{"Dense": ', '{"exec": '), "KeyError"),
        (lambda s: s + "nonsense\n", "line"),
    ],
)
def test_a_broken_text_is_one_clear_error(change: Any, fault: str) -> None:
    model = whole(random_network(3))
    text, arrays = program_text(step_program(model))
    broken = change(text)
    assert broken != text
    with pytest.raises((ModelError, FileError), match=fault):
        read_program(broken, arrays)
