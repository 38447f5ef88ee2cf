"""Programs run in SANA-FE: every spike and potential is that of the fixed-point simulator, and its figures add up."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.emitters.lava.runtime.run import RunLimits
from nirbridge.emitters.own_time import listen_to_own_time
from nirbridge.emitters.sanafe.emit import SANAFE, SanafeOptions
from nirbridge.emitters.sanafe.run import run_program
from nirbridge.errors import DoesNotFit, ModelError, UsageError
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network import Network
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_retimed
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance, example_networks, networks
from tests.emitters.sanafe.networks import (
    assert_same,
    changed,
    expected,
    mapped_example,
    needs_sanafe,
    probes,
    small_chip,
    spikes_for,
)

pytestmark = needs_sanafe
QUICK = MapOptions(method="sequential", effort="fast", relays=False)


def assert_equal(mapped: MappedNetwork, *, batch: int | None = None) -> None:
    """The program of a map computes what the fixed-point simulator computes."""
    inputs = spikes_for(integers_of(mapped), batch=batch)
    other = expected(mapped, inputs)
    assert any(bool(a.any()) for (_, name), a in other.arrays.items() if name == "s"), "nothing fires"
    with listen_to_own_time() as told:
        assert_same(SANAFE.run(SANAFE.emit(mapped), inputs, record=probes(mapped)), other)
    assert len(told) == 1
    assert told[0] > 0


SOFT = {"reset": "subtract", "reset_amount": 3000, "dv": 777}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({**SOFT, "fires_above": 3000}, {**SOFT, "fires_above": 2999}),
        ({"reset": "none", "fires_above": 3000, "dv": 2000}, {"refractory_steps": 2, "fires_above": 1500}),
        ({"v_min": -100, "dv": 100}, {"v_init": 2777, "bias_mant": 37, "bias_exp": 2, "dv": 1}),
        ({"du": 1000, "u_init": -4321, "v_init": 99, "fires_above": 9001}, {"dv": 4096, "fires_above": 1}),
    ],
    ids=["soft > and >=", "no reset and refractory", "floor and start with bias", "current and no memory"],
)
def test_neurons_equal_those_of_the_chip(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert_equal(changed(mapped_example(), first, second), batch=2)


@pytest.mark.parametrize("number", range(3))
def test_several_cores_delays_convolutions_and_loops(number: int) -> None:
    mapped = mapped_example(number)
    assert len({(core.x, core.y, core.core) for core in mapped.cores}) > 1
    assert_equal(mapped)


@given(networks(), st.sampled_from([1, 3, 10, 50]), st.sampled_from([None, 2]))
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_random_networks_equal_the_fixed_point_simulator(network: Network, neurons: int, batch: int | None) -> None:
    chip = small_chip(neurons)
    try:
        retimed = Retime(delay_steps_max=chip.core.delay_steps, graded_spikes=True).retimed(network)
        quantized = quantize(retimed, chip)
        mapped = replace(map_retimed(retimed, chip, QUICK, quantized), quantized=quantized)
        program = SANAFE.emit(mapped)
    except (ModelError, DoesNotFit):
        return
    inputs = spikes_for(quantized, 12, batch)
    assert_same(SANAFE.run(program, inputs, record=probes(mapped)), expected(mapped, inputs))


def test_more_neurons_than_one_unit_holds() -> None:
    """SANA-FE's units hold 1,024 neurons; a core of Loihi 2 has more."""
    import nir

    rng = np.random.default_rng(0)
    ones = np.ones(1500)
    nodes = {
        "in": nir.Input({"input": np.array([5])}),
        "w": nir.Linear(rng.integers(-3, 9, (1500, 5)) / 8),
        "n": nir.LIF(tau=8e-3 * ones, r=ones, v_leak=0 * ones, v_threshold=ones / 4, v_reset=0 * ones),
        "out": nir.Output({"output": np.array([1500])}),
    }
    graph = nir.NIRGraph(nodes, [("in", "w"), ("w", "n"), ("n", "out")])
    mapped = nb.map(nb.load(graph, dt=1e-3), "loihi2")
    assert len(mapped.cores) == 1
    assert_equal(mapped)


def test_delays_of_two_kinds_of_synapse_in_one_core_stay_apart() -> None:
    """SANA-FE keeps delays by the address in a unit: without edges that fill the others' addresses they mix."""
    import nir

    ones = np.ones(5)
    nodes = {
        "in": nir.Input({"input": np.array([5])}),
        "w": nir.Linear(np.arange(25).reshape(5, 5) % 7 / 8 - 0.3125),
        "d": nir.Delay(3e-3 * ones),
        "n": nir.LIF(tau=8e-3 * ones, r=ones, v_leak=0 * ones, v_threshold=ones / 8, v_reset=0 * ones),
        "out": nir.Output({"output": np.array([5])}),
    }
    edges = [("in", "w"), ("w", "n"), ("in", "d"), ("d", "n"), ("n", "out")]
    mapped = nb.map(nb.load(nir.NIRGraph(nodes, edges), dt=1e-3), "loihi1")
    document = json.loads(SANAFE.emit(mapped).files["program.json"])
    assert {e["kind"] for e in document["edges"]} == {"dense", "sparse"}
    assert [p["count"] for p in document["paddings"]] in ([25], [5])
    assert_equal(mapped)


def test_figures_are_those_of_the_chip_times_the_events() -> None:
    mapped = mapped_example()
    quantized, inputs = integers_of(mapped), spikes_for(integers_of(mapped))
    found = SANAFE.run(SANAFE.emit(mapped), inputs, record=probes(mapped)).meta["figures"]["samples"][0]
    recording, energy = expected(mapped, inputs), mapped.chip.energy
    spikes = {name: a.reshape(len(a), -1) for (name, variable), a in recording.arrays.items() if variable == "s"}
    fired = sum(int(a.sum()) for a in spikes.values())
    spikes |= {name: a.reshape(len(a), -1) for name, a in inputs.items()}
    operations = 0
    for projection in quantized.projections:
        out_degree = projection.operator.output_shape[0]  # dense
        operations += int(spikes[projection.source].sum()) * out_degree
    assert found["synaptic_operations"] == operations
    assert found["steps"] == 24
    assert found["neurons_fired"] == fired + sum(int(a.sum()) for a in inputs.values())
    assert energy.synaptic_op_j
    assert energy.neuron_access_j
    assert energy.spike_j
    assert energy.neuron_update_j
    assert found["energy_j"]["synapse"] == pytest.approx(operations * energy.synaptic_op_j, rel=1e-9)
    idle = 24 * quantized.neurons * energy.neuron_access_j + fired * energy.spike_j
    updated = (found["energy_j"]["soma"] - idle) / energy.neuron_update_j
    assert fired <= round(updated) <= 24 * quantized.neurons
    assert updated == pytest.approx(round(updated), rel=1e-6)
    assert found["time_s"] > 24 * found["slowest_step_s"] / 24


def test_floating_currents_run_and_are_another_program() -> None:
    mapped = changed(mapped_example(), du=1001, dv=3)
    program = SANAFE.emit(mapped, SanafeOptions(floating_currents=True))
    assert program.digest != SANAFE.emit(mapped).digest
    inputs = spikes_for(integers_of(mapped))
    found, other = SANAFE.run(program, inputs, record=probes(mapped)), expected(mapped, inputs)
    potentials = [key for key in other.arrays if key[1] == "v"]
    assert any(not np.array_equal(found.arrays[key], other.arrays[key]) for key in potentials)


def test_conformance() -> None:
    check_conformance("emitters", "sanafe", (), networks=example_networks()[:1])


def test_verify_compares_it_with_the_integers() -> None:
    network = example_networks()[2]
    verified = nb.verify(network, small_chip(), target="sanafe", steps=8)
    pairs = {(p.a, p.b): p for p in verified.pairs}
    assert pairs["fixed", "sanafe"].required
    assert pairs["fixed", "sanafe"].comparison.equal
    assert pairs["fixed", "sanafe"].variables == ("s", "v")


def test_a_run_that_takes_too_long_is_killed() -> None:
    mapped = mapped_example()
    limits = RunLimits(start_s=0.2, process_s=0.0, step_s=0.0, quiet_s=60.0)
    with pytest.raises(ModelError, match="did not end within 0 s and was killed"):
        run_program(SANAFE.emit(mapped), spikes_for(integers_of(mapped)), limits=limits)


def test_a_current_beyond_its_bits_is_no_result() -> None:
    mapped = changed(mapped_example(), du=0, bias_mant=0)
    quantized = integers_of(mapped)
    narrow = tuple(replace(p, neuron=replace(p.neuron, u_bits=8)) for p in quantized.populations)
    program = SANAFE.emit(replace(mapped, quantized=replace(quantized, populations=narrow)))
    with pytest.raises(ModelError, match="a current wraps around"):
        SANAFE.run(program, spikes_for(quantized))


def test_currents_are_no_records_and_the_program_runs_without_nirbridge(tmp_path: Any) -> None:
    import subprocess

    from nirbridge.emitters.artifact import npz_bytes, write_artifact

    mapped = mapped_example()
    program, inputs = SANAFE.emit(mapped), spikes_for(integers_of(mapped))
    with pytest.raises(UsageError, match="variable u, a program for SANA-FE records s and v"):
        SANAFE.run(program, inputs, record=[Probe("*", ("u",))])
    write_artifact(program, tmp_path / "program")
    (tmp_path / "in.npz").write_bytes(npz_bytes(inputs))
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "program/run.py", "--input", "in.npz", "-o", "out.npz", "--record", "*:s,v"]
    subprocess.run(command, cwd=tmp_path, env=clean, check=True, capture_output=True)
    recording = nb.load_recording(tmp_path / "out.npz")  # '*' are populations there
    assert_same(recording, expected(mapped, inputs))
    detailed = recording.meta["figures"]["samples"][0]
    subprocess.run([*command, "--timing", "simple"], cwd=tmp_path, env=clean, check=True, capture_output=True)
    simple = nb.load_recording(tmp_path / "out.npz")
    assert_same(simple, expected(mapped, inputs))
    assert simple.meta["figures"]["samples"][0]["time_s"] < detailed["time_s"]
    done = subprocess.run([*command[:-1], "*:u"], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "currents (u) are not recorded" in done.stderr


def test_profiles_show_its_figures_beside_ours() -> None:
    mapped = mapped_example()
    inputs = spikes_for(integers_of(mapped), batch=3)
    witness = SANAFE.figures(mapped, inputs)
    late = max(integers_of(mapped).latency.values())
    silence = {name: np.concatenate([a, np.zeros((late, *a.shape[1:]), a.dtype)]) for name, a in inputs.items()}
    run = SANAFE.run(SANAFE.emit(mapped), silence, record=probes(mapped))
    samples = run.meta["figures"]["samples"]
    fired = sum(int(a.sum()) for (_, name), a in expected(mapped, silence).arrays.items() if name == "s")
    assert (witness.name, witness.samples, witness.spikes_equal) == ("sanafe", 3, True)
    assert witness.spikes == pytest.approx(fired / 3)
    assert witness.energy_j == pytest.approx(sum(s["energy_j"]["total"] for s in samples) / 3)
    assert witness.time_s == pytest.approx(sum(s["time_s"] for s in samples) / 3)


def test_a_spike_that_differs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The integers are those of another network here: the witness says how many spikes differ."""
    from nirbridge.emitters.sanafe import run as sanafe_runs

    mapped, other = mapped_example(), changed(mapped_example(), fires_above=64)
    integers = integers_of(other)
    monkeypatch.setattr(sanafe_runs, "integers_of", lambda mapped: integers)
    witness = SANAFE.figures(mapped, spikes_for(integers, batch=1))
    assert not witness.spikes_equal
    assert "differ from the integers" in witness.notes[0]
