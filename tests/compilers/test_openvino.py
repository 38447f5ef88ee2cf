"""OpenVINO: bit-equal in float32 where every sum is exact; in int8 by NNCF, products alone lose bits."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array, freeze
from nirbridge.emitters.openvino.emit import OPENVINO, OpenvinoOptions
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Chain, Dense
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance
from tests.emitters.oracles import (
    ORACLES,
    check_every_bit,
    convolutions,
    dense,
    drawn,
    lif,
    residual,
    side_by_side,
    whole,
)
from tests.stack.needs import needs
from tests.stack.trained import DIGITS, RECORD, Arrays, check_spikes

pytestmark = needs("openvino", "nncf", where="compilers")


def run(network: Network, x: Array) -> Arrays:
    return OPENVINO.run(OPENVINO.emit(network), x, record=RECORD).arrays


@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any) -> None:
    check_every_bit(OPENVINO, make(np.random.default_rng(0)))


@pytest.mark.parametrize("batch", [1, 3])
def test_every_bit_of_twenty_random_networks(batch: int) -> None:
    """At batch 1 OpenVINO shares the memory of a history with that of the next time step, where nothing copies it."""
    check_every_bit(OPENVINO, side_by_side([drawn(seed) for seed in range(20)]), batch=batch)


@pytest.mark.parametrize("batch", [1, 3])
def test_every_bit_with_decays_and_gains_off_the_grid(batch: int) -> None:
    """OpenVINO fuses a gain into the product before it, and rounds once with the sum after it: run.py copies values."""
    rng = np.random.default_rng(0)

    def drawn_factors(p: Population) -> Population:
        names = ("a_mem", "g_mem", *(("a_syn",) if p.neuron.kind == "CubaLIF" else ()))
        return replace(
            p, neuron=replace(p.neuron, **{name: freeze(np.asarray(rng.uniform(0.1, 0.9))) for name in names})
        )

    network = side_by_side([make(rng) for make in ORACLES])
    check_every_bit(OPENVINO, replace(network, populations=tuple(map(drawn_factors, network.populations))), batch=batch)


def test_products_of_one_value_after_each_other() -> None:
    """OpenVINO fused them, and ended with an error."""
    chain = Chain((Dense(freeze(np.array([[0.75]]))), Dense(freeze(np.array([[0.5]])))))
    network = whole((Population("a", (1,), lif()),), (Projection("in", "a", chain),), "a", (1,))
    check_every_bit(OPENVINO, network, batch=1)


def test_variables_that_nothing_in_the_loop_needs() -> None:
    """Spikes without a target, a potential of no effect on the next: OpenVINO dropped them, and recording failed."""
    network = dense(np.random.default_rng(0))
    a, b = network.populations
    end = Population("end", a.shape, lif(a_mem=0.0))
    edge = replace(network.projections[0], target="end")
    check_every_bit(OPENVINO, replace(network, populations=(a, b, end), projections=(*network.projections, edge)))


def test_an_input_that_arrives_one_time_step_later(root: Path) -> None:
    """OpenVINO read the next one in its place."""
    network = load_network(root / "examples/models/digits_mlp.nir")
    first, *rest = network.projections
    late = replace(network, projections=(replace(first, delay_steps=freeze(np.int64(1))), *rest))
    check_spikes(late, 50, 2, 0.3, run)


@pytest.mark.parametrize("name", DIGITS)
def test_digits(name: str, root: Path) -> None:
    """The same spikes in float32, though sums are not exact there."""
    check_spikes(load_network(root / "examples/models" / f"{name}.nir"), 50, 4, 0.15, run)


def test_a_run_says_its_times() -> None:
    network = convolutions(np.random.default_rng(0))
    with listen_to_times() as times:
        OPENVINO.run(OPENVINO.emit(network), np.ones((5, 2, 2, 9, 8)))
    assert len(times.own) == len(times.compilation) == 1
    assert 0 < times.own[0] < times.compilation[0]


def test_integers_are_refused_by_name(root: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    with pytest.raises(UsageError, match="OpenVINO computes whole numbers in 32 bits; --to onnx takes integers"):
        OPENVINO.emit(nb.quantize(model, "loihi2"))
    with pytest.raises(UsageError, match="emitter 'openvino': given with --chip, it takes Network"):
        nb.emit(model, "openvino", chip="loihi2")


def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "openvino")


def test_a_program_runs_alone(root: Path, tmp_path: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    nb.emit(model, "openvino").save(tmp_path / "p")
    np.save(tmp_path / "x.npy", np.ones((5, 2, 64), np.float32))
    (tmp_path / "home").mkdir()
    own = {**os.environ, "OPENVINO_THREADS": "0", "HOME": str(tmp_path / "home")}
    own.pop("CI", None)
    subprocess.run([sys.executable, "p/run.py", "x.npy", "out.npz"], cwd=tmp_path, check=True, env=own)
    assert list((tmp_path / "home").iterdir()) == []  # nor is there an identifier for reports
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], nb.simulate(model, np.ones((5, 2, 64)))["output"])


# -- int8 ----------------------------------------------------------------------------------------------------------


def digits_data(folder: Path, shape: tuple[int, ...], samples: int = 200) -> str:
    """Training images as calibration data, ``[25, samples, *shape]``, with labels."""
    from examples.digits import STEPS, encode, load

    images, labels, _, _ = load()
    spikes = encode(images[:samples], STEPS, np.random.default_rng(7)).reshape(STEPS, samples, *shape)
    np.savez(folder / "data.npz", input=spikes, labels=labels[:samples])
    return str(folder / "data.npz")


def accuracy(program: Any, shape: tuple[int, ...]) -> float:
    from examples.digits import STEPS, test_spikes

    spikes, labels = test_spikes()
    (sent,) = OPENVINO.run(program, spikes.reshape(STEPS, -1, *shape)).arrays.values()
    return float(np.mean(sent.sum(axis=0).argmax(axis=-1) == labels))


def test_digits_in_int8(root: Path, tmp_path: Path) -> None:
    """Accuracy within one point, weights in less than half of the bytes of the model; always the same bytes."""
    network = load_network(root / "examples/models/digits_cnn.nir")
    shape = network.inputs[0].shape
    data = digits_data(tmp_path, shape)
    program = OPENVINO.emit(network, OpenvinoOptions(int8=data))
    assert program.digest == OPENVINO.emit(network, OpenvinoOptions(int8=data)).digest
    assert "3 of 3 products in int8, by NNCF; accuracy on the calibration data" in program.files["README.md"].decode()
    exact = OPENVINO.emit(network)
    assert len(program.files["model.bin"]) < 0.5 * len(exact.files["model.onnx"])
    assert accuracy(program, shape) > accuracy(exact, shape) - 0.01


def test_products_that_lose_accuracy_stay_in_float32(root: Path, tmp_path: Path) -> None:
    """The first pixel is always dark: its weights change nothing but the steps of int8, on which all others are 0."""
    network = load_network(root / "examples/models/digits_mlp.nir")
    first, *rest = network.projections
    weight = np.array(first.operator.weight)
    weight[:, 0] = 1000
    network = replace(network, projections=(replace(first, operator=Dense(freeze(weight))), *rest))
    data = digits_data(tmp_path, (64,))
    plain, mixed = (OPENVINO.emit(network, OpenvinoOptions(int8=data, max_drop=drop)) for drop in (None, 0.01))
    assert "2 of 2 products in int8" in plain.files["README.md"].decode()
    assert "1 of 2 products in int8" in mixed.files["README.md"].decode()
    assert accuracy(plain, (64,)) < 0.2
    assert accuracy(mixed, (64,)) > 0.9


def test_potentials_stay_in_float32(tmp_path: Path) -> None:
    """A population without a product before it has the bits of the reference; those after a product differ a little."""
    network = residual(np.random.default_rng(0))
    x = (np.random.default_rng(1).random((20, 5, 6)) < 0.3).astype(np.float32)
    np.savez(tmp_path / "data.npz", **{"in": x})
    program = OPENVINO.emit(network, OpenvinoOptions(int8=str(tmp_path / "data.npz")))
    record = [Probe("*", ("v",))]
    found = OPENVINO.run(program, x, record=record).arrays
    reference = simulate(network, x, record=record, backend="numpy").recording.arrays
    assert np.array_equal(found["a", "v"], reference["a", "v"])
    off = np.abs(found["sum", "v"] - reference["sum", "v"])
    assert 0 < np.median(off) < 0.05 * np.abs(reference["sum", "v"]).max()
    assert np.array_equal(OPENVINO.run(program, x).arrays["sum", "s"], found["sum", "v"])


def test_refusals(tmp_path: Path) -> None:
    network = residual(np.random.default_rng(0))
    np.savez(tmp_path / "data.npz", **{"in": np.zeros((4, 2, 6))})
    np.savez(tmp_path / "odd.npz", **{"in": np.zeros((4, 2, 6)), "labels": np.array([0, 6])})
    data, odd = str(tmp_path / "data.npz"), str(tmp_path / "odd.npz")
    for options, said in (
        (OpenvinoOptions(max_drop=0.1), "max_drop without int8, it is a limit of int8; name data with int8"),
        (OpenvinoOptions(int8=data, max_drop=2), "max_drop 2, a share from 0 to 1"),
        (OpenvinoOptions(int8=data, max_drop=0.1), "file 'data.npz': has no 'labels', max_drop is measured on"),
        (OpenvinoOptions(int8=odd), "'labels' are no classes of the first output, whole numbers from 0 to 5"),
    ):
        with pytest.raises(UsageError, match=said):
            OPENVINO.emit(network, options)
