"""ONNX models: bit-equal in integers, and in float32 where every sum is exact."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import onnx
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.onnx.emit import ONNX, emit
from nirbridge.errors import DoesNotFit, ModelError, UsageError
from nirbridge.network import from_nir
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.pipeline import load_chip, load_network, verify_network
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance, networks
from nirbridge.verification.verify import verification_failures
from tests.emitters.c.programs import ALL, random_inputs, random_networks
from tests.emitters.oracles import ORACLES, check_every_bit, dense, whole

FILES = {"cnn_sinabs": "02_cnn/cnn_sinabs.nir", "braille": "03_rnn/braille_noDelay_bias_zero.nir"}


@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any) -> None:
    """Exact sums: any order of additions gives the same bits, so another bit is another meaning."""
    for seed in range(3):
        network = make(np.random.default_rng(seed))
        rng = np.random.default_rng(seed + 10)
        x = (rng.random((24, 3, *network.inputs[0].shape)) < 0.4).astype(np.float32)
        record = [Probe("*", ("s", "v")), *(Probe(p.name, ("u",)) for p in network.populations)]
        reference = simulate(network, x, record=record, backend="numpy").recording.arrays
        found = ONNX.run(ONNX.emit(network), x, record=record).arrays
        assert set(found) == set(reference)
        for key, array in reference.items():
            assert found[key].dtype == array.dtype, key
            assert np.array_equal(found[key], array), key
        assert all(reference[p.name, "s"].any() for p in network.populations if p.neuron.fires)


def test_an_output_that_nothing_drives() -> None:
    network = dense(np.random.default_rng(0))
    check_every_bit(ONNX, replace(network, outputs=(*network.outputs, Port("silent", (2, 3)))))


@pytest.mark.parametrize(("sources", "targets"), [(257, 300), (512, 1), (1024, 10)])
@pytest.mark.parametrize("kind", ["LI", "CubaLI"])
def test_wide_products_are_rounded_before_their_gain(kind: str, sources: int, targets: int) -> None:
    """Exact sums, a gain that is none: ONNX Runtime fused both from 257 sources on and rounded in between."""
    rng = np.random.default_rng(0)
    weight, ones = (rng.integers(-64, 64, (targets, sources)) / 64).astype(np.float32), np.ones(targets, np.float32)
    slow, fast = ones * 0.003, ones * 0.0007
    readout = nir.LI(slow, ones, 0 * ones) if kind == "LI" else nir.CubaLI(fast, slow, ones, 0 * ones)
    ports = nir.Input(np.array([sources])), nir.Output(np.array([targets]))
    graph = nir.NIRGraph.from_list(ports[0], nir.Linear(weight), readout, ports[1])
    graph.metadata["dt"] = 1e-4
    network = from_nir(graph)
    x = (rng.random((30, 3, sources)) < 0.3).astype(np.float32)
    record = [Probe("*", ("v",))]
    reference = simulate(network, x, record=record, backend="numpy").recording.arrays
    found = ONNX.run(ONNX.emit(network), x, record=record).arrays
    assert all(np.array_equal(found[key], array) for key, array in reference.items())


@pytest.mark.parametrize("gain", [1.0, 0.3])
@pytest.mark.parametrize("sources", [784, 2000])
def test_onnx_runtime_fuses_no_sum_into_a_wide_product(
    sources: int, gain: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``W s + a v`` in weights of no grid: with all optimizations the bits are those without any, as of no Gemm.

    Without the barrier ONNX Runtime makes a Gemm of product and sum, which adds ``a v`` to the sum of the first rows.
    """
    rng = np.random.default_rng(0)
    weight = freeze((rng.normal(size=(40, sources)) / 10).astype(np.float32))
    readout = Population("a", (40,), neuron("LI", a_mem=0.9, g_mem=gain, theta=None))
    network = whole((readout,), (Projection("in", "a", Dense(weight)),), "a", (sources,))
    x = (rng.random((20, 3, sources)) < 0.3).astype(np.float32)
    plain, _ = optimized(network, x, tmp_path, "ORT_DISABLE_ALL")
    for level in ("ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"):
        values, operations = optimized(network, x, tmp_path, level)
        assert np.array_equal(values, plain)
        assert {"MatMul", "Max", "Add"} <= operations
        assert not {"Gemm", "FusedMatMul", "FusedGemm"} & operations
    monkeypatch.setattr("nirbridge.emitters.onnx.linear.BLOCK_ROWS", sources)
    values, operations = optimized(network, x, tmp_path, "ORT_ENABLE_ALL")
    assert not np.array_equal(values, plain)
    assert {"Gemm", "FusedMatMul"} & operations


def optimized(network: Network, x: Any, folder: Path, level: str) -> tuple[Any, set[str]]:
    """The output in ONNX Runtime, and the operations of the body that its optimizer leaves."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 3  # that such a file is for this machine
    content, providers = ONNX.emit(network).files["model.onnx"], ["CPUExecutionProvider"]
    values, *_ = onnxruntime.InferenceSession(content, options, providers=providers).run(None, {"in0": x})
    (scan,) = (n for n in onnx.load(folder / "optimized.onnx").graph.node if n.op_type == "Scan")
    (body,) = (a.g for a in scan.attribute if a.name == "body")
    return values, {node.op_type for node in body.node}


@pytest.mark.parametrize("first", [0, 20, 40])
def test_integers_of_random_networks(first: int) -> None:
    q = random_networks(range(first, first + 20))
    inputs = random_inputs(q, 25, seed=first)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    found = ONNX.run(ONNX.emit(q), inputs, record=ALL).arrays
    assert set(found) == set(fixed)
    for key, array in fixed.items():
        assert found[key].dtype == array.dtype
        assert np.array_equal(found[key], array), key


def test_integers_beyond_float32() -> None:
    """Sums of 2^24 and more are made in int64, convolutions as lists of synapses."""
    from nirbridge.quantization.model import FixedInput
    from tests.emitters.c.programs import whole as complete
    from tests.emitters.hand_made import conv, population, projection, quantized
    from tests.emitters.hand_made import neuron as fixed_neuron

    rng = np.random.default_rng(0)
    p = population("p", (4, 5, 6), replace(fixed_neuron(fires_above=1 << 30, dv=10), u_bits=40, v_bits=40))
    image = FixedInput("image", (2, 5, 6), value_max=1 << 20)
    q = complete(quantized([image], [p], [projection("image", "p", conv(rng, (2, 5, 6), 4, (3, 3)))], ["p"]))
    inputs = random_inputs(q, 20)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    found = ONNX.run(ONNX.emit(q), inputs, record=ALL).arrays
    assert all(np.array_equal(found[key], array) for key, array in fixed.items())
    assert fixed["p", "s"].any()
    assert abs(fixed["p", "u"]).max() > 2**30


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits(name: str, root: Path) -> None:
    """The same spikes in float32, though sums are not exact there; the same bits in integers."""
    network = load_network(root / "examples/models" / f"{name}.nir")
    x = (np.random.default_rng(0).random((50, 4, *network.inputs[0].shape)) < 0.15).astype(np.float32)
    record = [Probe("*", ("s",))]
    reference = simulate(network, x, record=record).recording.arrays
    found = ONNX.run(ONNX.emit(network), x, record=record).arrays
    assert all(np.array_equal(found[key], array) for key, array in reference.items())
    checked = verify_network(network, load_chip("loihi2"), target="onnx", steps=30)
    assert verification_failures(checked) == []
    assert [p.b for p in checked.pairs if p.required] == ["mapped", "onnx"]


@pytest.mark.parametrize("name", list(FILES))
def test_models_of_the_paper(name: str, root: Path) -> None:
    path = root.parent / "shared" / "data" / "nir_paper" / FILES[name]
    if not path.exists():
        pytest.skip(f"{path.name} is not there: real files lie beside the checkout")
    q = nb.quantize(path, "loihi2")
    inputs = random_inputs(q, 20, samples=1)
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    found = ONNX.run(ONNX.emit(q), inputs, record=ALL).arrays
    assert all(np.array_equal(found[key], array) for key, array in fixed.items())


@settings(max_examples=15, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks(), st.sampled_from(["loihi1", "loihi2"]))
def test_random_nir_graphs(network: Network, chip: str) -> None:
    x = {p.name: np.ones((6, 1, *p.shape), np.float32) for p in network.inputs}
    ONNX.run(ONNX.emit(network), x)  # every network of the reference is a model
    try:
        found = verify_network(network, load_chip(chip), target="onnx", steps=16)
    except (ModelError, DoesNotFit):
        return  # nothing that this chip computes
    assert verification_failures(found) == []


def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "onnx")


def test_a_chip_makes_integers_and_none_real_numbers(root: Path, tmp_path: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    kinds = [
        json.loads(nb.emit(model, "onnx", **more).files["manifest.json"])["numbers"]
        for more in ({}, {"chip": "loihi1"})
    ]
    assert kinds == ["float32", "integers"]
    with pytest.raises(UsageError, match="emitter 'onnx': given with --bits"):
        nb.emit(model, "onnx", weight_bits=4)


PROGRAMS = ("p/run.py", "x.npy", "out.npz"), ("-m", "nirbridge", "run", "p", "--input", "x.npy", "-o", "out.npz")


@pytest.mark.parametrize("words", PROGRAMS)
def test_a_run_reports_nothing(root: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """ONNX Runtime 1.32 would keep an identifier of the machine in the user's cache, for reports to Microsoft."""
    model = root / "examples/models/digits_mlp.nir"
    nb.emit(model, "onnx").save(tmp_path / "p")
    np.save(tmp_path / "x.npy", np.ones((5, 2, 64), np.float32))
    own = {key: value for key, value in os.environ.items() if not key.startswith(("ORT_", "XDG_"))}
    own |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(root)}
    (tmp_path / "home").mkdir()
    subprocess.run([sys.executable, *words], cwd=tmp_path, env=own, check=True, capture_output=True)
    expected = nb.simulate(model, np.ones((5, 2, 64)))
    assert np.array_equal(next(iter(np.load(tmp_path / "out.npz").values())), expected["output"])
    assert list((tmp_path / "home").iterdir()) == []


def test_weights_are_stored_once_and_names_stay_out(root: Path) -> None:
    model = onnx.load_model_from_string(emit(load_network(root / "examples/models/digits_cnn.nir")).files["model.onnx"])
    onnx.checker.check_model(model, full_check=True)
    assert sum(np.prod(t.dims) for t in model.graph.initializer) < 4000
    names = [t.name for t in (*model.graph.input, *model.graph.output, *model.graph.initializer, *model.graph.node)]
    names += [name for node in model.graph.node for name in (*node.input, *node.output)]
    assert not any("leaky" in name for name in names)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    network = dense(np.random.default_rng(0))
    alone = replace(network, inputs=(), projections=tuple(p for p in network.projections if p.source != "in"))
    with pytest.raises(ModelError, match="network: has no input"):
        emit(alone)
    with pytest.raises(UsageError, match="model of emitter 'onnx'"):
        ONNX.emit("x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="options of emitter 'onnx'"):
        ONNX.emit(network, 3)  # pyright: ignore[reportArgumentType]
    program = ONNX.emit(network, ONNX.options())
    assert program.digest == ONNX.emit(network).digest
    with pytest.raises(UsageError, match="record 'a': variable i"):
        ONNX.run(program, np.ones((3, 9)), record=[Probe("a", ("i",))])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"the package onnx is not installed; install nirbridge\[onnx\]"):
        emit(network)
