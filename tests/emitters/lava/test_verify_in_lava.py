"""``nirbridge verify --to lava``, run in Lava, and killed."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava import emit as emit_module
from nirbridge.importers import save_nir
from nirbridge.pipeline import load_chip, load_network, verify_network
from nirbridge.quantization.model import QuantizedNetwork
from tests.emitters.lava.test_supervised import MARK, marked, shared, wait_until
from tests.network.graphs import graph_of, lif, out, port
from tests.simulators.mapped.test_mapped import skip_network

PAPER = Path("nir_paper")


def test_a_network_with_everything_is_equal_in_all_ways(lava_python: Path) -> None:
    found = verify_network(skip_network(), load_chip("loihi2"), target="lava", steps=40)
    assert [(p.a, p.b, p.required) for p in found.pairs][1:] == [("fixed", "mapped", True), ("fixed", "lava", True)]
    assert found.holds
    assert found.recordings["lava"].arrays["c", "s"].any()


@pytest.mark.parametrize("chip", ["loihi1", "loihi2"])
def test_the_paper_s_braille_network_is_equal_in_all_ways(lava_python: Path, shared_data: Path, chip: str) -> None:
    network = load_network(shared_data / PAPER / "03_rnn" / "braille_noDelay_bias_zero.nir")
    assert verify_network(network, load_chip(chip), target="lava", steps=60).holds


def test_cnn_sinabs_passes_verify_on_100_steps(
    lava_python: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shared_data / PAPER / "02_cnn" / "cnn_sinabs.nir"
    assert run(["verify", str(model), "--chip", "loihi2", "--to", "lava", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["steps"] == 100
    assert [(p["b"], p["equal"]) for p in document["pairs"] if p["required"]] == [("mapped", True), ("lava", True)]
    assert document["latency"] == {"output": 5}


def test_a_program_of_other_weights_is_found(
    lava_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One weight of the emitted program is two more; what differs first is named, and the exit code is 1."""

    def tampered(quantized: QuantizedNetwork, **options: Any) -> Artifact:
        made = real(quantized, **options)
        with np.load(io.BytesIO(made.files["weights.npz"])) as file:
            arrays = dict(file)
        arrays["synapse0.weights"] = arrays["synapse0.weights"] - 2 * np.eye(3, dtype=np.int64)[1]
        return make_artifact({**dict(made.files), "weights.npz": npz_bytes(arrays)}, {"kind": "lava"})

    real = emit_module.emit
    monkeypatch.setattr(emit_module, "emit", tampered)
    nodes = {"in": port(3), "w": nir.Linear(np.eye(3) + 0.25), "n": lif(3, tau=4e-4, r=4.0), "out": out(3)}
    save_nir(graph_of(nodes, [("in", "w"), ("w", "n"), ("n", "out")], dt=1e-4), tmp_path / "m.nir")
    arguments = ["verify", str(tmp_path / "m.nir"), "--chip", "loihi2", "--to", "lava", "--steps", "20"]
    assert run([*arguments, "--json", "--plot", str(tmp_path / "d.png")]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert [p["equal"] for p in document["pairs"] if p["required"]] == [True, False]
    assert {r["node"] for r in document["pairs"][2]["rows"] if not r["equal"]} >= {"n"}
    assert all(layer["holds"] for layer in document["layers"])
    assert "fixed and lava differ" in shown.err


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and /dev/shm")
@pytest.mark.parametrize("processes", [1, 3, 8])
def test_killing_verify_leaves_no_process_and_no_shared_memory(
    lava_python: Path, tmp_path: Path, processes: int, request: pytest.FixtureRequest
) -> None:
    nodes = {"in": port(3), "a": nir.Linear(np.eye(3)), "n": lif(3), "out": out(3)}
    save_nir(graph_of(nodes, [("in", "a"), ("a", "n"), ("n", "out")]), tmp_path / "m.nir")
    mark = f"{os.getpid()}.verify.{processes}"
    folder = Path(tempfile.mkdtemp(prefix="nb"))  # short: the names of sockets have to fit
    request.addfinalizer(lambda: shutil.rmtree(folder))
    command = [sys.executable, "-m", "nirbridge", "verify", str(tmp_path / "m.nir"), "--chip", "loihi2", "--to", "lava"]
    caller = subprocess.Popen(
        [*command, "--steps", "20000"],
        env={**os.environ, MARK: mark, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
    )
    assert wait_until(lambda: len(marked(mark)) >= processes), "it did not get that far"
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert wait_until(lambda: not marked(mark)), "processes are left"
    assert shared(caller.pid) == []
    assert processes == 1 or list(folder.iterdir()) == [], "a folder is left"
