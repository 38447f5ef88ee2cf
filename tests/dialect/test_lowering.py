"""Lowered modules: accepted by stock MLIR, and the same bits as the reference where sums are exact."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.dialect.build import quantized_module
from nirbridge.dialect.lower import dialect_module, linalg_program
from nirbridge.dialect.lowering.program import iree_text, lowered
from nirbridge.dialect.passes.forms import Forms, apply_forms, choose_forms
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Dense, Identity, Reshape, Scale
from nirbridge.simulators.fixed.host_io import integer_inputs
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.dialect.jit import Compiled
from tests.dialect.networks import NETWORKS, late_sums, long_rows, no_input, several_ports
from tests.emitters.c.programs import ALL, random_inputs, random_networks
from tests.emitters.oracles import TIMING, dense, grid, lif, recurrent
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
    program = lowered(apply_forms(quantized_module(q, records, bits=bits), Forms()))
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


ALL_FORMS = [
    Forms(frozenset(range(20)), fused=True),
    Forms(fused=False),
    Forms(fused=True, events=frozenset(range(20))),
    Forms(frozenset(range(0, 20, 2)), fused=False, events=frozenset(range(1, 20, 2))),
]


@pytest.mark.parametrize("forms", ALL_FORMS)
@pytest.mark.parametrize("make", [NETWORKS[1], NETWORKS[3], several_ports, late_sums])
def test_every_form_has_the_same_bits(make: Any, forms: Forms, tmp_path: Path) -> None:
    needs("mlir")
    network = make(np.random.default_rng(1))
    inputs = inputs_of(network, 2)
    found = Compiled(linalg_program(network, records=probes(network), forms=forms), tmp_path).run(inputs, BATCH)
    expected = reference(network, inputs)
    assert all(np.array_equal(array, expected[key]) for key, array in found.items() if key in expected)


def test_forms_change_the_module() -> None:
    """Each form is what it is said to be: operators before the loop, one loop per population, loops over sources."""
    network = several_ports(np.random.default_rng(1))
    texts = [linalg_program(network, forms=forms).text for forms in (Forms(), *ALL_FORMS[:3])]
    loops = [text.count("linalg.generic") for text in texts]
    before = [text.partition("scf.for")[0].count("linalg.matmul") for text in texts]
    assert before == [0, 1, 0, 0]
    assert loops[2] > 2 * loops[0]
    assert [text.count("scf.if") for text in texts] == [0, 0, 0, 2]


def test_the_choice_follows_size_batch_steps_activity_and_compiler() -> None:
    rng = np.random.default_rng(0)
    a = Population("a", (200,), lif())
    edges = (
        Projection("in", "a", Dense(grid(rng, 200, 2000))),
        Projection("a", "a", Dense(grid(rng, 200, 200)), delay_steps=freeze(np.int64(1))),
        Projection("a", "out", Dense(grid(rng, 2, 200))),
    )
    network = Network(1e-3, TIMING, (a,), edges, (Port("in", (2000,)),), (Port("out", (2,)),))

    def chosen(**options: Any) -> Forms:
        return choose_forms(dialect_module(network), **options)

    for options, batched in (
        ({"batch": 1}, {0}),
        ({"batch": 64}, set()),
        ({}, set()),
        ({"batch": 1, "steps": 1}, set()),
    ):
        assert chosen(**options) == Forms(frozenset(batched), False), options
    assert chosen(batch=1, activity={"in": 0.01}).events == frozenset()
    for batch, activity, events in (
        (1, {}, set()),
        (1, {"in": 0.1, "a": 0.9}, {0}),
        (1, {"in": 0.1, "a": 0.1}, {0, 1, 2}),
        (1, {"a": 0.1}, set()),  # most of the time is spent on the other product
        (64, {"in": 0.1, "a": 0.9}, {0}),
        (64, {"in": 0.3}, set()),
        (None, {"in": 0.1}, {0}),
    ):
        found = chosen(batch=batch, activity=activity, compiler="loops")
        assert found == Forms(frozenset(), False, frozenset(events)), (batch, activity)


def test_fusion_is_chosen_where_neurons_outweigh_their_synapses() -> None:
    rng = np.random.default_rng(0)

    def network(operator: Any) -> Network:
        edges = (Projection("in", "a", operator), Projection("a", "out", Identity((400,))))
        ports = (Port("in", operator.input_shape),), (Port("out", (400,)),)
        return Network(1e-3, TIMING, (Population("a", (400,), lif()),), edges, *ports)

    for operator, is_fused in ((Scale(grid(rng, 400)), True), (Dense(grid(rng, 400, 300)), False)):
        module = dialect_module(network(operator))
        assert [choose_forms(module, batch=n, compiler="loops").fused for n in (1, 8, None)] == [is_fused] * 3
        assert not choose_forms(module, batch=1).fused


def test_an_operator_after_a_reshape_of_the_input_is_batched() -> None:
    rng = np.random.default_rng(0)
    chain = Chain((Reshape((50, 40), (2000,)), Dense(grid(rng, 300, 2000))))
    edges = (Projection("in", "a", chain), Projection("a", "out", Identity((300,))))
    ports = (Port("in", (50, 40)),), (Port("out", (300,)),)
    network = Network(1e-3, TIMING, (Population("a", (300,), lif()),), edges, *ports)
    assert choose_forms(dialect_module(network), batch=1).batched == {0}
    text = linalg_program(network, batch=1).text
    assert "linalg.matmul" in text.partition("scf.for")[0]
    assert "linalg.matmul" not in text.partition("scf.for")[2]


def test_iree_is_told_of_one_memory_but_where_a_delay_moves_a_history() -> None:
    delayed, plain = (linalg_program(make(np.random.default_rng(0)), batch=1) for make in (recurrent, dense))
    assert iree_text(delayed) == delayed.text
    text = iree_text(plain)
    assert text.startswith("module attributes {stream.topology = ")
    assert text.partition("\n")[2] == plain.text.partition("\n")[2]


def test_outputs_of_one_type_begin_as_different_arrays() -> None:
    network = no_input(np.random.default_rng(0))
    head = linalg_program(network, records=probes(network), batch=2).text.partition("scf.for")[0]
    numbers = [line.split("ins(")[1].split()[0] for line in head.splitlines() if "linalg.fill" in line]
    assert len(numbers) == len(probes(network)) == len(set(numbers))
