"""Modules for JAX: bit-equal where every sum is exact and in integers; jit, vmap, StableHLO, states that go on."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.arrays import Array, freeze
from nirbridge.emitters.jax.emit import JAX, JaxOptions, emit
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity, Sparse
from nirbridge.pipeline import load_chip, verify_network
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance, networks
from nirbridge.verification.verify import verification_failures
from tests.emitters.c.programs import ALL, random_inputs, random_networks
from tests.emitters.oracles import ORACLES, dense, grid, lif, recurrent, residual, whole
from tests.emitters.test_late_sums import assert_equal_spikes
from tests.stack.needs import needs
from tests.stack.trained import DIGITS, RECORD, Arrays, assert_equal, check_digits, check_model_of_the_paper

pytestmark = needs("jax")
PLAIN = JaxOptions(stablehlo=False)


@pytest.fixture(autouse=True)
def _exports_are_few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export takes seconds: only the tests of it make StableHLO where no option says so."""
    if "stablehlo" not in request.node.name:
        monkeypatch.setattr("nirbridge.emitters.jax.emit.is_installed", lambda: False)


def spikes(network: Network, *leading: int, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).random((*leading, *network.inputs[0].shape)) < 0.4).astype(np.float32)


def imported(program: Any, folder: Path) -> Any:
    """``network.py`` of a program as a module of this process."""
    program.save(folder)
    spec = importlib.util.spec_from_file_location(f"jax_network_{program.digest[:12]}", folder / "network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_flags_of_the_user_leave_the_bits_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    test_every_bit_of_the_dyadic_oracle(dense, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any, dtype: Any) -> None:
    network = make(np.random.default_rng(0))
    x = spikes(network, 24, 3)
    record = [Probe("*", ("s", "v")), *(Probe(p.name, ("u",)) for p in network.populations)]
    reference = simulate(network, x, record=record, backend="numpy", dtype=dtype).recording.arrays
    program = JAX.emit(network, JaxOptions(dtype=dtype, stablehlo=False))
    assert_equal(JAX.run(program, x, record=record).arrays, reference)
    assert all(reference[p.name, "s"].any() for p in network.populations if p.neuron.fires)


def test_long_lists_of_synapses_and_late_currents_in_the_loop() -> None:
    """A sparse operator beyond a matrix, in the loop too, with a delay per target element and a bias after it."""
    rng = np.random.default_rng(0)
    size, per = 1100, 3  # 1100^2 elements are more than a matrix has
    indices = np.sort(np.stack([rng.choice(size, per, False) for _ in range(size)]), axis=1).reshape(-1)
    sparse = Sparse(freeze(np.arange(0, per * size + 1, per)), freeze(indices), grid(rng, per * size), (size,), (size,))
    a, b = Population("a", (size,), lif()), Population("b", (size,), lif(refractory_steps=np.arange(size) % 3))
    late = freeze(np.arange(size) % 4)
    edges = (
        Projection("in", "a", sparse, target_delay_steps=late),
        Projection("a", "b", sparse, freeze(grid(rng, size)), freeze(np.int64(1)), late),
        Projection("b", "a", sparse, delay_steps=freeze(np.int64(1)), target_delay_steps=freeze(np.int64(2))),
    )
    network = whole((a, b), edges, "b", (size,))
    x = spikes(network, 12, 2)
    reference = simulate(network, x, record=[Probe("*", ("s", "v"))], backend="numpy").recording.arrays
    assert_equal(JAX.run(JAX.emit(network, PLAIN), x, record=[Probe("*", ("s", "v"))]).arrays, reference)
    assert reference["b", "s"].any()


@pytest.mark.parametrize("has_drive", [True, False])
def test_networks_without_input_and_populations_without_drive(has_drive: bool) -> None:
    """Biases alone; an input without targets; neurons without a memory."""
    rng = np.random.default_rng(0)
    a = Population("a", (4,), lif(bias=np.arange(4) / 64))
    b = Population("b", (4,), neuron("Threshold", a_mem=0.0, theta=1 / 64))
    network = whole((a, b), (Projection("a", "b", Dense(grid(rng, 4, 4))),), "b", (2,))
    x = {} if has_drive else {"in": np.ones((30, 2, 2), np.float32)}
    if has_drive:
        network = replace(network, inputs=())
    record = [Probe("*", ("s", "v"))]
    reference = simulate(network, x, steps=30, record=record, backend="numpy").recording.arrays
    assert_equal(JAX.run(JAX.emit(network), x, steps=30, record=record).arrays, reference)
    assert reference["a", "s"].any()


def test_a_function_to_call(tmp_path: Path) -> None:
    """jit, vmap over samples, several batch axes, and chunks of time give the same bits."""
    import jax

    for make in (recurrent, residual):
        network = make(np.random.default_rng(0))
        module = imported(emit(network, PLAIN), tmp_path / make.__name__)
        x, weights = spikes(network, 21, 2, 3), module.load_weights()
        record = ("p0.v",)
        run = jax.jit(module.run, static_argnames="record")
        outputs, end = run(weights, {"in0": x}, module.initial_state(weights, (2, 3)), record=record)
        single = jax.vmap(jax.vmap(module.run, (None, 1, None), (1, 0)), (None, 1, None), (1, 0))
        mapped, _ = single(weights, {"in0": x}, module.initial_state(weights))
        state, parts = module.initial_state(weights, (2, 3)), []
        for start, stop in ((0, 2), (2, 3), (3, 21)):  # shorter than the delays, too
            part, state = run(weights, {"in0": x[start:stop]}, state, record=record)
            parts.append(part)
        expected = simulate(network, x.reshape(21, 6, 6), backend="numpy").recording.arrays["out", "s"]
        assert np.array_equal(np.asarray(outputs["out0"]).reshape(expected.shape), expected)
        assert np.array_equal(mapped["out0"], outputs["out0"])
        for key in ("out0", "p0.v"):
            assert np.array_equal(np.concatenate([part[key] for part in parts]), outputs[key])
        assert set(state) == set(end)
        others = [key for key in end if not key.endswith((".past", ".at"))]
        assert all(np.array_equal(state[key], end[key]) for key in others)


@pytest.mark.parametrize("make", [dense, recurrent])
def test_stablehlo_is_the_same_function(make: Any, tmp_path: Path) -> None:
    import jax

    network = make(np.random.default_rng(0))
    program = emit(network)
    assert program.digest == emit(network).digest, "the same bytes"
    content = program.files["network.stablehlo"]
    assert b"/tmp" not in content
    assert b"network.py" not in content
    kept = jax.export.deserialize(bytearray(content))
    assert kept.platforms == ("cpu", "cuda", "rocm", "tpu")
    module = imported(program, tmp_path / "p")
    weights = module.load_weights()
    for time, batch in ((7, 1), (20, 3)):
        x = spikes(network, time, batch)
        outputs, _ = kept.call(weights, {"in0": x}, module.initial_state(weights, (batch,)))
        expected = simulate(network, x, backend="numpy").recording.arrays["out", "s"]
        assert np.array_equal(outputs["out0"], expected)
    text = tmp_path / "p" / "out.mlir"
    sizes = ["--time", "5", "--batch", "2", "--platforms", "cpu", "--text"]
    subprocess.run([sys.executable, "export.py", *sizes, "-o", text], cwd=text.parent, check=True)
    assert "stablehlo.while" in text.read_text()
    assert "tensor<5x2x" in text.read_text()


@pytest.mark.parametrize("first", [0, 20, 40])
def test_integers_of_random_networks(first: int) -> None:
    q = random_networks(range(first, first + 20))
    inputs = random_inputs(q, 25, seed=first)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    assert_equal(JAX.run(JAX.emit(q, PLAIN), inputs, record=ALL).arrays, fixed)


@pytest.mark.parametrize("computed", ["float64", "int64"])
def test_integers_beyond_32_bits(computed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 2^24 and more are made in float64, of 2^53 and more in int64; neurons then are int64."""
    from nirbridge.emitters.jax import build
    from nirbridge.quantization.model import FixedInput
    from tests.emitters.c.programs import whole as complete
    from tests.emitters.hand_made import conv, population, projection, quantized
    from tests.emitters.hand_made import neuron as fixed_neuron

    if computed == "int64":  # an input has at most 31 bits: only huge layers get there
        monkeypatch.setattr(build, "EXACT", {})
    rng = np.random.default_rng(0)
    p = population("p", (4, 5, 6), replace(fixed_neuron(fires_above=1 << 30, dv=10), u_bits=40, v_bits=40))
    image = FixedInput("image", (2, 5, 6), value_max=1 << 20)
    q = complete(quantized([image], [p], [projection("image", "p", conv(rng, (2, 5, 6), 4, (3, 3)))], ["p"]))
    inputs = random_inputs(q, 20)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    program = JAX.emit(q, PLAIN)
    text = program.files["network.py"].decode()
    assert f"astype(jnp.{computed})" in text
    assert '"p0.v": jnp.full((*batch, 4, 5, 6), 0, jnp.int64)' in text
    assert_equal(JAX.run(program, inputs, record=ALL).arrays, fixed)
    assert fixed["p", "s"].any()
    assert abs(fixed["p", "u"]).max() > 2**30


@pytest.mark.parametrize("name", DIGITS)
def test_digits(name: str, root: Path) -> None:
    """The same spikes in float32, and the same bits in integers."""
    check_digits(name, root, "jax", spikes_of)


def test_a_model_of_the_paper(root: Path) -> None:
    check_model_of_the_paper(root, spikes_of)


def spikes_of(network: Network, x: Array) -> Arrays:
    return JAX.run(JAX.emit(network, PLAIN), x, record=RECORD).arrays


@settings(max_examples=8, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks(), st.sampled_from(["loihi1", "loihi2"]))
def test_random_nir_graphs(network: Network, chip: str) -> None:
    x = {p.name: np.ones((6, 1, *p.shape), np.float32) for p in network.inputs}
    JAX.run(JAX.emit(network, PLAIN), x)  # every network of the reference is a module
    try:
        found = verify_network(network, load_chip(chip), target="jax", steps=16)
    except (ModelError, DoesNotFit):
        return  # nothing that this chip computes
    assert verification_failures(found) == []


def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "jax")


def test_the_program_runs_alone(root: Path, tmp_path: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    nb.emit(model, "jax").save(tmp_path / "p")
    np.save(tmp_path / "x.npy", np.ones((5, 2, 64), np.float32))
    subprocess.run([sys.executable, "p/run.py", "x.npy", "out.npz"], cwd=tmp_path, check=True)
    expected = nb.simulate(model, np.ones((5, 2, 64)))
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], expected["output"])
    assert subprocess.run([sys.executable, "p/run.py"], cwd=tmp_path, capture_output=True).returncode == 2


def test_64_bits_are_needed_for_integers(root: Path, tmp_path: Path) -> None:
    program = nb.emit(root / "examples/models/digits_mlp.nir", "jax", chip="loihi1")
    assert json.loads(program.files["manifest.json"])["numbers"] == "integers"
    module = imported(program, tmp_path / "p")
    with pytest.raises(RuntimeError, match="this network needs 64 bits"):
        module.load_weights()


def test_a_run_that_does_not_end_is_ended() -> None:
    from nirbridge.emitters.artifact import make_artifact
    from nirbridge.emitters.jax.process import run_program
    from nirbridge.emitters.lava.runtime.run import RunLimits

    program = emit(dense(np.random.default_rng(0)), PLAIN)
    text = program.files["run.py"].decode().replace("import network\n", "import network\nwhile True: pass\n")
    files = {**program.files, "run.py": text.encode()}
    del files["manifest.json"]
    endless = make_artifact(files, {"kind": "jax"})
    with pytest.raises(ModelError, match="did not end within 2 s and was killed|made no progress"):
        run_program(endless, np.ones((3, 9)), limits=RunLimits(start_s=2.0, process_s=0.0, step_s=0.0))
    broken = make_artifact({**files, "network.py": b"raise ValueError('gone')\n"}, {"kind": "jax"})
    with pytest.raises(ModelError, match="ValueError: gone"):
        run_program(broken, np.ones((3, 9)))


def test_one_port_without_axes() -> None:
    a = Population("a", (), lif())
    edges = (Projection("in", "a", Identity(())), Projection("a", "out", Identity(())))
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    network = Network(1e-3, timing, (a,), edges, (Port("in", ()),), (Port("out", ()),))
    x = np.ones((9, 2), np.float32)
    assert_equal(JAX.run(JAX.emit(network, PLAIN), x).arrays, simulate(network, x).recording.arrays)


def test_sums_of_a_later_population_arrive_on_time() -> None:
    assert_equal_spikes("jax")
