"""Lowered modules: accepted by stock MLIR, and the same bits as the reference where sums are exact."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.dialect.build_fixed import quantized_module
from nirbridge.dialect.lower import linalg_program
from nirbridge.dialect.lowering.program import lowered
from nirbridge.network.model import Network
from nirbridge.simulators.fixed.host_io import integer_inputs
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.dialect.jit import Compiled
from tests.dialect.networks import NETWORKS, long_rows, no_input, several_ports
from tests.emitters.c.programs import ALL, random_inputs, random_networks
from tests.tools import needs

STEPS, BATCH = 24, 3


def inputs_of(network: Network, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = {p.name: (rng.random((STEPS, BATCH, *p.shape)) < 0.4).astype(np.float32) for p in network.inputs}
    return found or {"": np.zeros((STEPS, BATCH), np.float32)}


def probes(network: Network) -> list[tuple[str, str]]:
    return [(p.name, v) for p in network.populations for v in (("s", "u", "v", "i") if p.neuron.fires else ("u", "v"))]


def reference(network: Network, inputs: Any, dtype: str = "float32") -> dict[Any, Any]:
    record = [Probe(name, (variable,)) for name, variable in probes(network)]
    record += [Probe(p.name, ("s",)) for p in network.outputs]
    given = inputs if network.inputs else {}
    arrays = simulate(network, given, steps=STEPS, record=record, backend="numpy", dtype=dtype).recording.arrays
    return dict(arrays) if network.inputs else {key: np.stack([a] * BATCH, axis=1) for key, a in arrays.items()}


@pytest.mark.parametrize("make", NETWORKS)
def test_mlir_accepts_linalg(make: Any, tmp_path: Path) -> None:
    needs("mlir")
    network = make(np.random.default_rng(0))
    for k, options in enumerate(({}, {"batch": 2, "steps": 5}, {"dtype": "float64", "batch": 1})):
        path = tmp_path / f"{k}.mlir"
        path.write_text(linalg_program(network, records=probes(network), **options).text)  # type: ignore[arg-type]
        done = subprocess.run(["mlir-opt-22", path, "-o", "/dev/null"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize("make", NETWORKS)
def test_every_bit_of_the_dyadic_oracle(make: Any, tmp_path: Path) -> None:
    needs("mlir")
    network = make(np.random.default_rng(1))
    inputs = inputs_of(network, 2)
    program = linalg_program(network, records=probes(network))
    found = Compiled(program, tmp_path).run(inputs, BATCH)
    expected = reference(network, inputs)
    assert {(p.name, "s") for p in network.outputs} < set(found)
    for key, array in found.items():
        other = expected.get(key, expected.get((key[0], "v")))
        assert array.dtype == other.dtype or key[1] == "s", key
        assert np.array_equal(array, other), key
    assert make is no_input or all(expected[p.name, "s"].any() for p in network.populations if p.neuron.fires)


def test_double_precision(tmp_path: Path) -> None:
    needs("mlir")
    network = several_ports(np.random.default_rng(3))
    inputs = inputs_of(network, 4)
    program = linalg_program(network, dtype="float64", records=probes(network), batch=BATCH, steps=STEPS)
    found = Compiled(program, tmp_path).run(inputs, BATCH)
    expected = reference(network, inputs, "float64")
    assert all(np.array_equal(array, expected[key]) for key, array in found.items() if key in expected)


@pytest.mark.parametrize("bits", [None, 64])
def test_integers_of_random_networks(bits: int | None, tmp_path: Path) -> None:
    needs("mlir")
    q = random_networks(range(4) if bits is None else range(4, 7))
    inputs = random_inputs(q, 25)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    records = [(p.name, v) for p in q.populations for v in (("s", "u", "v") if p.neuron.fires else ("u", "v"))]
    program = lowered(quantized_module(q, records, bits=bits))
    assert {t.dtype for t in program.states} == {"int32" if bits is None else "int64"}
    arrays, _ = integer_inputs(q, inputs, None)
    found = Compiled(program, tmp_path).run(arrays, 2)
    assert set(found) >= set(records)
    for key, array in found.items():
        assert np.array_equal(array, fixed[key]), key


def test_the_state_goes_on_between_runs(tmp_path: Path) -> None:
    """Half of the time steps, then the rest from the state after them, are all of them."""
    needs("mlir")
    from nirbridge.dialect.lowering.program import state_arrays
    from tests.emitters.oracles import recurrent

    network = recurrent(np.random.default_rng(5))
    program = linalg_program(network)
    code = Compiled(program, tmp_path)
    x = inputs_of(network, 6)["in"]
    whole = code.call([x, *state_arrays(program, BATCH)])
    first = code.call([x[:9], *state_arrays(program, BATCH)])
    second = code.call([x[9:], *first[1:]])
    assert np.array_equal(whole[0], np.concatenate([first[0], second[0]]))
    assert all(np.array_equal(a, b) for a, b in zip(whole[1:], second[1:], strict=True))
    assert whole[0].any()


def test_no_operation_of_the_dialect_is_left() -> None:
    for make in NETWORKS:
        text = linalg_program(make(np.random.default_rng(0))).text
        assert "spike." not in text
        assert "arith.uitofp" not in text
    assert "linalg.add" not in linalg_program(long_rows(np.random.default_rng(0))).text
