"""Programs for IREE: bit-equal where every sum is exact and in integers, in any batch, from linalg and StableHLO."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array, freeze
from nirbridge.emitters.artifact import make_artifact
from nirbridge.emitters.iree import process
from nirbridge.emitters.iree.emit import IREE, IreeOptions, emit
from nirbridge.emitters.iree.tool import compiled
from nirbridge.emitters.lava.runtime.run import RunLimits
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Dense
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance
from tests.dialect.networks import long_rows, one_axis
from tests.emitters.c.programs import ALL, random_inputs, random_networks
from tests.emitters.oracles import ORACLES, dense, grid, lif, recurrent, residual, whole
from tests.stack.needs import needs
from tests.stack.trained import DIGITS, RECORD, Arrays, assert_equal, check_digits, check_model_of_the_paper

pytestmark = needs("iree.compiler", "iree.runtime", "xdsl", "jax")
LAVAPIPE = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
EVERY = [Probe("*", ("s", "v"))]


def spikes(network: Any, *leading: int, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).random((*leading, *network.inputs[0].shape)) < 0.4).astype(np.float32)


@pytest.mark.parametrize("options", [IreeOptions(), IreeOptions("stablehlo"), IreeOptions(dtype="float64")])
@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any, options: IreeOptions) -> None:
    network = make(np.random.default_rng(0))
    x = spikes(network, 24, 3)
    record = [*EVERY, *(Probe(p.name, ("u",)) for p in network.populations)]
    reference = simulate(network, x, record=record, backend="numpy", dtype=options.dtype).recording.arrays
    program = IREE.emit(network, options)
    assert_equal(IREE.run(program, x, record=record).arrays, reference)
    assert all(reference[p.name, "s"].any() for p in network.populations if p.neuron.fires)


@pytest.mark.parametrize("make", [long_rows, one_axis])
def test_long_rows_and_one_axis(make: Any) -> None:
    network = make(np.random.default_rng(0))
    x = spikes(network, 12, 3)
    reference = simulate(network, x, record=EVERY, backend="numpy").recording.arrays
    assert_equal(IREE.run(IREE.emit(network, IreeOptions(vmfb=False)), x, record=EVERY).arrays, reference)
    assert all(reference[p.name, "s"].any() for p in network.populations)


@pytest.mark.parametrize(("source", "seeds"), [("linalg", [4, 14, 16]), ("stablehlo", [14])])
def test_integers_of_random_networks(source: Any, seeds: list[int]) -> None:
    """Among them (14) convolutions and pools with one window, which does not reach all of the padded image."""
    q = random_networks(seeds)
    x = random_inputs(q, 25)
    fixed = simulate_fixed(q, x, record=ALL).recording.arrays
    assert_equal(IREE.run(IREE.emit(q, IreeOptions(source, vmfb=False)), x, record=ALL).arrays, fixed)
    assert any(array.any() for (_, variable), array in fixed.items() if variable == "s")


@pytest.mark.parametrize("name", DIGITS)
def test_digits(name: str, root: Path) -> None:
    """The same spikes in float32, and the same bits in integers."""
    check_digits(name, root, "iree", partial(spikes_of, "linalg"), partial(spikes_of, "stablehlo"))


def test_a_model_of_the_paper(root: Path) -> None:
    check_model_of_the_paper(root, partial(spikes_of, "linalg"))


def spikes_of(source: str, network: Network, x: Array) -> Arrays:
    return IREE.run(IREE.emit(network, IreeOptions(source, vmfb=False)), x, record=RECORD).arrays


def test_any_batch_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own module runs in groups, the last one filled up."""
    network = recurrent(np.random.default_rng(0))
    program = emit(network, IreeOptions(batch=4))
    monkeypatch.setattr(process, "has_compiler", lambda: False)
    for samples, steps in ((1, 20), (4, 7), (9, 15)):
        x = spikes(network, steps, samples)
        expected = simulate(network, x, backend="numpy").recording.arrays
        assert_equal(IREE.run(program, x).arrays, expected)
    with pytest.raises(UsageError, match="has no 'p0.v', its module returns out0"):
        IREE.run(program, np.ones((3, 1, 6)), record=[Probe("a", ("v",))])


def test_stablehlo_in_parts_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs longer than the module's own time steps: states of one part begin the next one."""
    network = recurrent(np.random.default_rng(0))
    program = emit(network, IreeOptions("stablehlo", batch=2, steps=7))
    monkeypatch.setattr(process, "has_compiler", lambda: False)
    for samples, steps in ((2, 20), (3, 14), (1, 3)):
        x = spikes(network, steps, samples)
        expected = simulate(network, x, backend="numpy").recording.arrays
        assert expected["out", "s"].any() or steps == 3
        assert_equal(IREE.run(program, x).arrays, expected)


@pytest.mark.slow  # emits and runs some thirty programs
def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "iree")


def test_the_module_is_compiled_once_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    network, made = dense(np.random.default_rng(0)), []
    whole = process.compiled
    monkeypatch.setattr(process, "compiled", lambda files: made.append(1) or whole(files))
    program = emit(network)
    assert program.digest == emit(network).digest, "the same bytes"
    for samples in (1, 3, 3, 1, 2, 3):
        IREE.run(program, spikes(network, 5, samples))
    assert len(made) == 2, "of 2 and 3 samples; that of 1 is the program's"


def broken(program: Any, **files: bytes) -> Any:
    kept = {name: content for name, content in program.files.items() if name != "manifest.json"}
    return make_artifact(
        {**kept, **{name.replace("_", "."): content for name, content in files.items()}}, {"kind": "iree"}
    )


def test_a_run_that_does_not_end_is_ended() -> None:
    program = emit(dense(np.random.default_rng(0)))
    text = program.files["run.py"].decode().replace("def main() -> int:\n", "while True: pass\ndef main() -> int:\n")
    with pytest.raises(ModelError, match="did not end within 2 s and was killed|made no progress"):
        process.run_program(
            broken(program, run_py=text.encode()),
            np.ones((3, 1, 9)),
            limits=RunLimits(start_s=2.0, process_s=0.0, step_s=0.0),
        )
    with pytest.raises(ModelError, match="failed with exit code"):
        IREE.run(broken(program, network_vmfb=b"nothing"), np.ones((3, 1, 9)))


def test_messages_of_the_compiler_are_short() -> None:
    program = emit(dense(np.random.default_rng(0)), IreeOptions(vmfb=False))
    text = program.files["network.mlir"].replace(b"linalg.matmul", b"linalg.strange")
    with pytest.raises(ModelError, match="module: is refused by iree-compile") as caught:
        compiled({**program.files, "network.mlir": text})
    assert "strange" in str(caught.value)
    assert len(str(caught.value)) < 500
    with pytest.raises(ModelError, match="did not end within 0 s"):
        compiled(program.files, seconds=0.2)


def test_a_network_without_input() -> None:
    a = Population("a", (4,), lif(bias=np.arange(4) / 64))
    edges = (Projection("a", "a", Dense(grid(np.random.default_rng(0), 4, 4)), delay_steps=freeze(np.int64(1))),)
    network = replace(whole((a,), edges, "a", (2,)), inputs=())
    reference = simulate(network, {}, steps=30, record=EVERY, backend="numpy").recording.arrays
    for source in ("linalg", "stablehlo"):
        program = IREE.emit(network, IreeOptions(source, vmfb=False))
        assert_equal(IREE.run(program, {}, steps=30, record=EVERY).arrays, reference)
    assert reference["a", "s"].any()


def test_compile_and_run_alone(root: Path, tmp_path: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    nb.emit(model, "iree", options=IreeOptions(vmfb=False, batch=2)).save(tmp_path / "p")
    np.save(tmp_path / "x.npy", np.ones((5, 2, 64), np.float32))
    for script in (["p/compile.py"], ["p/run.py", "x.npy", "out.npz"]):
        subprocess.run([sys.executable, *script], cwd=tmp_path, check=True)
    expected = nb.simulate(model, np.ones((5, 2, 64)))
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], expected["output"])
    assert json.loads((tmp_path / "p/manifest.json").read_text())["kind"] == "iree"


@pytest.mark.skipif(not LAVAPIPE.exists(), reason="no Vulkan device: apt install mesa-vulkan-drivers")
@pytest.mark.parametrize("make", [dense, recurrent, residual])
def test_vulkan(make: Any) -> None:
    """Through iree-run-module, on the processor where Mesa's lavapipe is the only device."""
    network = make(np.random.default_rng(0))
    x = spikes(network, 16, 2)
    reference = simulate(network, x, backend="numpy").recording.arrays
    program = IREE.emit(network, IreeOptions(device="vulkan-spirv", vmfb=False))
    assert_equal(IREE.run(program, x).arrays, reference)


def test_a_missing_vulkan_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    program = emit(dense(np.random.default_rng(0)), IreeOptions(device="vulkan-spirv"))
    for variable in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        monkeypatch.setenv(variable, "/nonexistent")
    with pytest.raises(ToolMissing, match="no Vulkan device is found.*apt install mesa-vulkan-drivers") as caught:
        IREE.run(program, np.ones((3, 1, 9)))
    assert "Traceback" not in str(caught.value)
