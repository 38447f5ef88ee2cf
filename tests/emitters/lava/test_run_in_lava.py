"""Emitted programs run in Lava, bit-identical to an independent reference and to the fixed-point simulator."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.runtime.run import run_program
from nirbridge.emitters.own_time import listen_to_own_time
from nirbridge.errors import UsageError
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Conv, Dense
from nirbridge.quantization.model import AccumulatorBounds, FixedInput, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe
from tests.emitters import hand_made as made

STEPS = 20


def in_lava(q: QuantizedNetwork, inputs: dict[str, Any], folder: Path, python: Path, **options: Any) -> dict[Any, Any]:
    write_artifact(emit(q, **options), folder)
    ran = run_program(folder, inputs, record=["*:s,u,v"], python=python, steps=STEPS)
    return dict(ran.arrays)


def assert_all_equal(q: QuantizedNetwork, found: dict[Any, Any], inputs: dict[str, Any], fixed: bool = True) -> None:
    expected = made.Oracle(q).run(inputs, STEPS)
    silent = {p.name for p in q.populations if not p.neuron.fires}
    for key, values in expected.items():
        if key[1] != "s" or key[0] not in silent:
            assert np.array_equal(found[key], values), key
    if not fixed:
        return
    records = [Probe(p.name, ("u", "v") if p.name in silent else ("s", "u", "v")) for p in q.populations]
    simulated = simulate_fixed(q, inputs, record=records, steps=STEPS).recording
    for key, values in simulated.arrays.items():
        assert np.array_equal(found[key], values), key


@pytest.mark.parametrize("group", range(3))
def test_random_networks_beside_an_oracle(group: int, tmp_path: Path, lava_python: Path) -> None:
    q = made.together([made.random_network(100 + 5 * group + k, f"n{k} ") for k in range(5)])
    inputs = made.random_inputs(q, STEPS, group)
    found = in_lava(q, inputs, tmp_path / "program", lava_python)
    assert_all_equal(q, found, inputs)
    assert sum(int(found[p.name, "s"].sum()) for p in q.populations) > 50


def test_states_of_other_widths_than_those_of_lava_s_own_neurons(tmp_path: Path, lava_python: Path) -> None:
    """Of 21 bits, which wrap and saturate early, and of 32 bits with a bias that Loihi's registers do not hold."""
    rng = np.random.default_rng(0)
    narrow = replace(made.neuron(du=100, dv=2, fires_above=(2**14 - 1) << 6), u_bits=21, v_bits=21)
    wide = replace(made.neuron(du=0, dv=0, bias_mant=2**20, fires_above=2**30), u_bits=32, v_bits=32)
    cells = [made.population("narrow", (6,), narrow), made.population("wide", (5,), wide)]
    edges = [
        made.projection("in", "narrow", made.dense(rng, 6, 8, 120), weight_exp=5),
        made.projection("narrow", "wide", made.dense(rng, 5, 6, 120), weight_exp=7),
    ]
    q = made.quantized([FixedInput("in", (8,))], cells, edges, ["wide"])
    inputs = {"in": rng.random((STEPS, 8)) < 0.8}
    found = in_lava(q, inputs, tmp_path / "program", lava_python)
    assert_all_equal(q, found, inputs)
    assert found["narrow", "v"].max() <= 2**20 - 1
    assert found["wide", "v"].max() > 2**24


def everything() -> QuantizedNetwork:
    """One of each: dense, sparse, convolutions of one and two axes, a pool, delays, a loop, soft reset, parameters per
    neuron, refractory time, several spikes, graded input, a read-out, several inputs and outputs."""
    rng = np.random.default_rng(7)
    pooled = Conv(made.ints(np.full((2, 1, 2, 2), 6)), (2, 2), ((0, 0), (0, 0)), (1, 1), 2, (2, 4, 6))
    inhibitory = Dense(made.ints(-rng.integers(0, 30, (6, 6))))
    populations = [
        made.population("conv", (2, 4, 6), made.neuron(dv=300, bias_mant=rng.integers(0, 90, (2, 4, 6)), bias_exp=2)),
        made.population("pool", (2, 2, 3), made.neuron(dv=0, reset="subtract", reset_amount=900, fires_above=899)),
        made.population("line", (3, 6), made.neuron(du=1500, dv=rng.integers(0, 900, (3, 6)), u_init=-77, v_init=1234)),
        made.population("loop", (6,), made.neuron(du=2000, dv=700, v_init=rng.integers(-999, 2000, 6))),
        made.population("held", (5,), made.neuron(dv=100, refractory_steps=[0, 1, 2, 3, 9], bias_mant=800)),
        made.population("many", (4,), made.neuron(dv=4096, max_spikes=3, spike_size=700, fires_above=699)),
        made.population("free", (3,), made.neuron(dv=200, reset="none", fires_above=5000)),
        made.population("read", (3,), made.neuron(dv=60, fires_above=None)),
    ]
    to = made.projection
    projections = [
        to("image", "conv", made.conv(rng, (1, 4, 6), 2, (3, 3))),
        to("image", "conv", made.sparse(rng, (1, 4, 6), (2, 4, 6), 0.1), weight_exp=-1),
        to("conv", "pool", pooled),
        to("values", "line", made.conv(rng, (2, 6), 3, (3,), padding=((0, 2),))),
        to("line", "loop", made.sparse(rng, (3, 6), (6,)), delay_steps=rng.integers(1, 6, (3, 6))),
        to("loop", "loop", inhibitory, sign_mode="inhibitory", delay_steps=3),
        to("loop", "held", made.dense(rng, 5, 6), delay_steps=rng.integers(1, 9, 6)),
        to("pool", "held", made.sparse(rng, (2, 2, 3), (5,)), weight_exp=1, target_delay_steps=[0, 1, 2, 0, 5]),
        to("held", "many", made.dense(rng, 4, 5, 120)),
        to("many", "free", made.dense(rng, 3, 4)),
        to("many", "read", made.dense(rng, 3, 4)),
    ]
    inputs = [FixedInput("image", (1, 4, 6)), FixedInput("values", (2, 6), 15, 0.5)]
    return made.quantized(inputs, populations, projections, ["held", "free", "read"])


def test_one_of_each(tmp_path: Path, lava_python: Path) -> None:
    q = everything()
    inputs = made.random_inputs(q, STEPS - 3, 3)
    scaled = {
        "image": inputs["image"],
        "values": inputs["values"] * 0.5,
    }  # a graded input stands for scale times itself
    found = in_lava(q, scaled, tmp_path / "program", lava_python)
    assert_all_equal(q, found, inputs, fixed=False)
    assert all(found[p.name, "s"].any() for p in q.populations if p.neuron.fires)


def test_outputs_read_through_a_matrix_and_two_samples(tmp_path: Path, lava_python: Path) -> None:
    """As the host computes them: a matrix, a bias, v of a read-out in reals; samples one after the other."""
    q = everything()
    weight = Dense(made.freeze(np.array([[0.5, -1, 2], [1, 1, 1.0]])))
    port = replace(q.outputs[2], shape=(2,))
    read = Projection("read", port.name, weight, bias=made.freeze(np.array([0.25, -3])), delay_steps=made.ints(1))
    q = replace(q, outputs=(*q.outputs[:2], port), reads=(*q.reads[:2], read))
    inputs = made.random_inputs(q, STEPS)
    scaled = {name: a * (0.5 if name == "values" else 1) for name, a in inputs.items()}
    both = {name: np.stack([a, a[::-1]], axis=1) for name, a in scaled.items()}
    write_artifact(emit(q), tmp_path / "program")
    with listen_to_own_time() as told:
        start = perf_counter()
        ran = run_program(tmp_path / "program", both, python=lava_python)
    assert 0 < sum(told) < perf_counter() - start
    assert len(told) == 1  # of both samples
    v = made.Oracle(q).run({name: a[::-1] for name, a in inputs.items()}, STEPS)["read", "v"]
    assert read.bias is not None
    expected = np.concatenate([np.zeros((1, 3)), v[:-1] / 64]) @ weight.weight.T + read.bias
    np.testing.assert_allclose(ran.arrays["out read", "v"][:, 1], expected, rtol=1e-13, atol=1e-13)
    assert ran.arrays["out held", "s"].shape == (STEPS, 2, 5)
    assert ran.arrays["out held", "s"].dtype == np.uint8
    assert ran.meta["latency"] == dict(q.latency)


def test_a_read_out_does_not_fire_however_far_it_is_driven(tmp_path: Path, lava_python: Path) -> None:
    """As a LIF where its v is proved to stay below the largest threshold, else as a process that has none."""
    high, low = made.dense(np.random.default_rng(0), 3, 4, 30), Dense(made.ints(np.full((3, 4), 254)))
    populations = [
        made.population("far", (3,), made.neuron(dv=0, fires_above=None, bias_mant=4095, bias_exp=7)),
        made.population("near", (3,), made.neuron(dv=2000, du=900, fires_above=None)),
        made.population("below", (3,), made.neuron(dv=0, fires_above=None, bias_mant=-4096, bias_exp=7)),
    ]
    edges = [
        made.projection("in", "far", low),
        made.projection("in", "near", high),
        made.projection("in", "below", high),
    ]
    q = made.quantized([FixedInput("in", (4,))], populations, edges, ["far", "near", "below"])
    proved = AccumulatorBounds(a_in=(-240, 240), u=(-65536, 65536), v=(-140000, 140000), proved=True)
    report: Any = SimpleNamespace(population="near", bounds=proved)
    q = replace(q, report=(report,))
    assert b"layer1 = LIF(" in emit(q).files["network.py"]
    assert emit(q).files["network.py"].count(b" = IntegerNeuron(") == 2
    inputs = made.random_inputs(q, STEPS)
    found = in_lava(q, inputs, tmp_path / "program", lava_python)
    assert_all_equal(q, found, inputs)
    assert (found["far", "v"].max(), found["below", "v"].min()) == (2**23 - 1, -(2**23) + 1)
    assert [key for key in found if key[1] == "s"] == []


def test_a_neuron_over_its_threshold_and_below_the_size_of_a_spike_has_not_fired(
    tmp_path: Path, lava_python: Path
) -> None:
    """Nothing is sent, so nothing is reset and no refractory time begins."""
    several = {"max_spikes": 3, "spike_size": 1500, "fires_above": 999, "dv": 0, "bias_mant": 400}
    populations = [
        made.population(reset, (2,), made.neuron(reset=reset, refractory_steps=[0, 3], reset_amount=900, **several))
        for reset in ("none", "subtract", "zero")
    ]
    weight = Dense(made.ints([[2, 0, 2], [0, 2, 0]]))
    q = made.quantized(
        [FixedInput("in", (3,))], populations, [made.projection("in", p.name, weight) for p in populations], ["zero"]
    )
    inputs = made.random_inputs(q, STEPS)
    found = in_lava(q, inputs, tmp_path / "program", lava_python)
    assert_all_equal(q, found, inputs)
    v = found["none", "v"][:, 1]
    assert ((v > 999) & (v < 1500)).any()


def test_names_that_are_identifiers_of_other_processes_and_outputs_by_name(tmp_path: Path, lava_python: Path) -> None:
    populations = [
        made.population("layer1", (2,), made.neuron(bias_mant=900)),
        made.population("layer0", (3,), made.neuron(bias_mant=500)),
    ]
    rng = np.random.default_rng(0)
    edges = [
        made.projection("in", "layer1", made.dense(rng, 2, 2)),
        made.projection("layer1", "layer0", made.dense(rng, 3, 2)),
    ]
    q = made.quantized([FixedInput("in", (2,))], populations, edges, ["layer0", "layer1"])
    q = replace(q, outputs=(Port("layer0:s", (3,)), Port("*", (2,))))
    q = replace(q, reads=tuple(replace(r, target=o.name) for r, o in zip(q.reads, q.outputs, strict=True)))
    inputs = made.random_inputs(q, STEPS)
    expected = made.Oracle(q).run(inputs, STEPS)
    write_artifact(emit(q), tmp_path / "program")
    asked = ["layer1:v", "layer0:s,v", "layer0:s:s", "*:s"]
    ran = run_program(tmp_path / "program", inputs, record=asked, python=lava_python).arrays
    for key in (("layer1", "v"), ("layer0", "v"), ("layer0", "s")):
        assert np.array_equal(ran[key], expected[key])
    assert np.array_equal(ran["layer0:s", "s"], expected["layer0", "s"])
    assert np.array_equal(ran["*", "s"], expected["layer1", "s"])
    with pytest.raises(UsageError, match="OUTPUT:s with a name of program.json"):
        run_program(tmp_path / "program", inputs, record=["**:u"], python=lava_python)


def test_one_process_per_core(tmp_path: Path, lava_python: Path) -> None:
    """Slices as of a map: the pieces together do what the whole does."""

    class Slice:
        def __init__(self, population: str, *box: tuple[int, int]) -> None:
            self.population, self.box = population, box

    rng = np.random.default_rng(5)
    populations = [
        made.population("a", (2, 4, 4), made.neuron(dv=rng.integers(0, 500, (2, 4, 4)))),
        made.population("b", (6,), made.neuron(bias_mant=rng.integers(0, 100, 6))),
    ]
    projections = [
        made.projection("in", "a", made.conv(rng, (1, 4, 4), 2, (3, 3))),
        made.projection("a", "b", made.sparse(rng, (2, 4, 4), (6,)), delay_steps=rng.integers(1, 4, (2, 4, 4))),
        made.projection("b", "b", made.dense(rng, 6, 6), delay_steps=2),
    ]
    q = made.quantized([FixedInput("in", (1, 4, 4))], populations, projections, ["b"])
    slices = [
        Slice("a", (0, 2), (0, 4), (0, 1)),
        Slice("b", (2, 6)),
        Slice("a", (0, 2), (0, 4), (1, 4)),
        Slice("b", (0, 2)),
    ]
    inputs = made.random_inputs(q, STEPS)
    found = in_lava(q, inputs, tmp_path / "program", lava_python, mapped=slices)
    assert_all_equal(q, found, inputs)
    assert found["b", "s"].any()


def test_plain_python_runs_a_program_without_nirbridge(tmp_path: Path, lava_python: Path) -> None:
    q = made.random_network(3)
    write_artifact(emit(q), tmp_path / "program")
    inputs = made.random_inputs(q, STEPS)
    np.savez(tmp_path / "in.npz", **inputs)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(lava_python), "run.py", "--input", "../in.npz", "-o", "../out.npz", "--record", "*:v"]
    subprocess.run(command, cwd=tmp_path / "program", env=environment, check=True, timeout=120)
    absent = subprocess.run([str(lava_python), "-c", "import nirbridge"], cwd=tmp_path, env=environment, stderr=-3)
    assert absent.returncode != 0
    expected = made.Oracle(q).run(inputs, STEPS)
    with np.load(tmp_path / "out.npz") as file:
        for p in q.populations:
            assert np.array_equal(file[f"{p.name}/v"], expected[p.name, "v"])
