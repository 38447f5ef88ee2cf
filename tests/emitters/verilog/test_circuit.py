"""Circuits in Icarus Verilog: equal to the fixed-point simulator; refused by name; the test bench can fail."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.verilog import plan
from nirbridge.emitters.verilog.emit import VERILOG, VerilogOptions
from nirbridge.emitters.verilog.run import built
from nirbridge.errors import ModelError, NirbridgeError, UsageError
from nirbridge.network.operators import Dense
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from tests.emitters.c.programs import random_inputs, random_networks, whole
from tests.emitters.hand_made import conv, dense, ints, neuron, population, projection, quantized
from tests.emitters.verilog.circuits import assert_equal_to_fixed, with_lanes
from tests.tools import needs


def test_random_networks() -> None:
    """Networks of all neurons, synapses, delays, loops and shifts, six in a circuit."""
    needs("iverilog")
    one = random_networks(range(6))
    arrays = assert_equal_to_fixed(one, with_lanes(one), random_inputs(one, 8), "icarus")
    assert sum(a.any() for (_, v), a in arrays.items() if v == "s") > 6


def test_digits(root: Path) -> None:
    needs("iverilog")
    found = nb.quantize(root / "examples" / "models" / "digits_cnn.nir", "loihi2")
    lanes = {"leaky_1": (4, 1), "leaky_4": (16, 4), "leaky_8": (5, 5)}
    arrays = assert_equal_to_fixed(found, with_lanes(found, lanes), random_inputs(found, 8, 1), "icarus", [1])
    assert all(a.any() for (_, v), a in arrays.items() if v == "s")


def graded() -> QuantizedNetwork:
    """An image of whole numbers, groups that words cut, a readout that drives neurons, several spikes, a loop."""
    rng = np.random.default_rng(3)
    image = FixedInput("image", (4, 5, 6), value_max=100, scale=0.25)
    kernel = conv(rng, (4, 5, 6), 6, (3, 2), stride=(2, 1), groups=2)
    first = population("first", kernel.output_shape, neuron(fires_above=9000, max_spikes=5, spike_size=9000))
    second = population("second", (7,), neuron(fires_above=None, dv=900))
    third = population("third", (9,), neuron(fires_above=1 << 16, reset="subtract", reset_amount=1 << 15, v_min=-900))
    size = int(np.prod(kernel.output_shape))
    edges = [
        projection("image", "first", kernel),
        projection("first", "second", dense(rng, 7, size)),
        projection("second", "third", dense(rng, 9, 7), weight_exp=-3),
        projection("third", "third", dense(rng, 9, 9), delay_steps=np.arange(9) % 3 + 1),
    ]
    return whole(quantized([image], [first, second, third], edges, ["second", "third"]))


def test_graded_inputs_groups_and_readouts() -> None:
    needs("iverilog")
    one = graded()
    lanes = {"first": (4, 2), "second": (3, 1), "third": (9, 3)}
    arrays = assert_equal_to_fixed(one, with_lanes(one, lanes), random_inputs(one, 12), "icarus", [1])
    assert all(a.any() for (_, v), a in arrays.items() if v == "s")


def made(artifact: Artifact, folder: Path) -> str:
    """What ``make sim`` prints in a folder of a program."""
    write_artifact(artifact, folder)
    done = subprocess.run(["make", "-C", str(folder), "sim"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_test_bench_compares(tmp_path: Path) -> None:
    """It passes as emitted, and fails with one other weight."""
    needs("iverilog")
    artifact = VERILOG.emit(graded())
    assert "PASS: " in made(artifact, tmp_path / "as_emitted")
    lines = artifact.files["s1.hex"].decode().splitlines()
    lines[0] = f"{int(lines[0], 16) ^ 0x40:0{len(lines[0])}x}"
    files = {**artifact.files, "s1.hex": "\n".join(lines).encode() + b"\n"}
    assert "FAIL: " in made(replace(artifact, files=files), tmp_path / "changed")


def test_same_bytes_and_no_names() -> None:
    """Names of a model are in its README and archive alone."""
    rng = np.random.default_rng(0)
    name = "x`endmodule */ $finish \u00b5\n"
    cells = [population(name, (3,), neuron())]
    one = whole(quantized([FixedInput("in", (4,))], cells, [projection("in", name, dense(rng, 3, 4))], [name]))
    first, second = (VERILOG.emit(one) for _ in range(2))
    assert first.digest == second.digest
    for path, content in first.files.items():
        assert path in ("README.md", "network.q.npz", "manifest.json") or b"finish \xc2\xb5" not in content, path


def test_refusals() -> None:
    rng = np.random.default_rng(0)
    cells, ports = [population("p", (3,), neuron())], [FixedInput("in", (4,))]
    at_once = projection("in", "p", dense(rng, 3, 4), delay_steps=0)
    with pytest.raises(ModelError, match="a delay of 0"):
        VERILOG.emit(whole(quantized(ports, cells, [at_once], ["p"])))
    with pytest.raises(ModelError, match="no inputs"):
        VERILOG.emit(whole(quantized([], cells, [], ["p"])))
    large = [population("p", (2049,), neuron())]
    weights = projection("in", "p", Dense(ints(np.ones((2049, 2049)))))
    with pytest.raises(ModelError, match="stored weights"):
        VERILOG.emit(whole(quantized([FixedInput("in", (2049,))], large, [weights], ["p"])))


def test_a_convolution_with_delays_of_its_sources_is_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size as one counts; one whose taps hit nothing adds nothing."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(plan, "WEIGHTS_MAX", 2000)
    large = conv(rng, (4, 8, 8), 4, (3, 3))
    ports, cells = [FixedInput("in", (4, 8, 8))], [population("p", large.output_shape, neuron())]
    late = projection("in", "p", large, delay_steps=np.arange(4 * 8 * 8).reshape(4, 8, 8) % 2 + 1)
    with pytest.raises(ModelError, match="stored weights"):
        VERILOG.emit(whole(quantized(ports, cells, [late], ["p"])))
    assert VERILOG.emit(whole(quantized(ports, cells, [replace(late, delay_steps=ints(1))], ["p"])))
    beside = conv(rng, (1, 3, 2), 1, (1, 1), stride=(2, 2), padding=((3, 0), (3, 0)))
    cells = [population("p", beside.output_shape, neuron(bias_mant=4000))]
    none = projection("in", "p", beside, weight_exp=-1, delay_steps=np.arange(6).reshape(1, 3, 2) % 2 + 1)
    one = whole(quantized([FixedInput("in", (1, 3, 2))], cells, [none], ["p"]))
    needs("iverilog")
    assert assert_equal_to_fixed(one, with_lanes(one), random_inputs(one, 5), "icarus", [0])["p", "s"].any()


def test_a_network_that_is_too_large_is_named() -> None:
    rng = np.random.default_rng(0)
    cells = [population("p", (1000,), neuron())]
    one = whole(quantized([FixedInput("in", (500,))], cells, [projection("in", "p", dense(rng, 1000, 500))], ["p"]))
    notes = json.loads(VERILOG.emit(one, VerilogOptions(board="icebreaker")).files["manifest.json"])["notes"]
    assert [note.split(":")[0] for note in notes] == ["does not fit icebreaker by nirbridge's model"]


def test_a_damaged_program_is_named() -> None:
    """Lanes that are none, and those of another circuit."""
    needs("iverilog")
    artifact, ports = VERILOG.emit(graded()), random_inputs(graded(), 3)
    manifest = json.loads(artifact.files["manifest.json"])
    for lanes, words in (([0, 1], "two numbers from 1"), ("ab", "manifest.json"), ([1, 1], "other lanes")):
        changed = json.dumps(manifest | {"lanes": manifest["lanes"] | {"first": lanes}}).encode()
        damaged = replace(artifact, files={**artifact.files, "manifest.json": changed})
        with pytest.raises(NirbridgeError, match=words), built(damaged, "icarus") as made:
            made.recording(ports)


@pytest.mark.parametrize(
    "options", [{"lanes": "0"}, {"lanes": "many"}, {"rate": float("nan")}, {"activity": 0.0}, {"board": "unknown"}]
)
def test_wrong_options(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        VERILOG.emit(graded(), VerilogOptions(**options))  # type: ignore[arg-type]


def test_lanes_follow_the_rate_and_the_device() -> None:
    """More time steps a second take more sums side by side; a small device has fewer of them."""
    rng = np.random.default_rng(0)
    cells = [population("p", (64,), neuron())]
    one = whole(quantized([FixedInput("in", (256,))], cells, [projection("in", "p", dense(rng, 64, 256))], ["p"]))

    def sums(**options: object) -> int:
        program = VERILOG.emit(one, VerilogOptions(**options))  # type: ignore[arg-type]
        return json.loads(program.files["manifest.json"])["lanes"]["p"][0]

    assert 1 == sums(rate=100.0) < sums(rate=1e5) <= sums(rate=0.0)
    assert sums(board="icebreaker") < sums(board="ulx3s")
    assert sums(lanes="7") == 7
