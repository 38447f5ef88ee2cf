"""States of ONNX models: inputs with initial values, outputs, sessions that go on in every bit, metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import nirbridge as nb
from nirbridge.arrays import Array, freeze
from nirbridge.emitters.onnx.emit import ONNX
from nirbridge.errors import UsageError
from nirbridge.files.npy import digest_of
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.network.storage.file import network_to_dict
from nirbridge.quantization.storage.file import quantized_to_dict
from nirbridge.simulators.types import SimulationState
from tests.cases import cases
from tests.emitters.held_out import dyadic_network, fixed_network
from tests.emitters.oracles import ORACLES, TIMING, recurrent
from tests.emitters.sessions import STEPS, check_session, given


@pytest.mark.parametrize("seeds", np.array_split(np.arange(cases(20, 60)), 4), ids=str)
@pytest.mark.parametrize("make", [dyadic_network, fixed_network])
def test_chunks_of_random_networks(make: Any, seeds: Any) -> None:
    models = [model for seed in seeds for model in [make(int(seed))] if model.inputs]
    for model in models:
        check_session(ONNX.session(ONNX.emit(model)), model, given(model))  # pyright: ignore[reportOptionalCall]
    assert len(models) > len(seeds) / 2


@pytest.mark.parametrize("delay", [0, 3])
def test_a_network_without_populations(delay: int) -> None:
    """Nothing of it has a state, or an input's past alone."""
    read = Projection("in", "out", Dense(freeze(np.ones((2, 5)))), target_delay_steps=freeze(np.asarray(delay)))
    network = Network(1e-3, TIMING, (), (read,), (Port("in", (5,)),), (Port("out", (2,)),))
    check_session(ONNX.session(ONNX.emit(network)), network, given(network))  # pyright: ignore[reportOptionalCall]


def runtime(content: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("make", ORACLES)
def test_a_model_that_goes_on_without_nirbridge(make: Any) -> None:
    """The lines of README.md: chunks shorter than the delays, states of one sample for all."""
    network = make(np.random.default_rng(0))
    session = runtime(ONNX.emit(network).files["model.onnx"])
    x = given(network, batch=3)["in"]
    states = [state.name for state in session.get_overridable_initializers()]
    whole = session.run(None, {"in0": x})
    outs = len(network.outputs)
    assert [port.name for port in session.get_outputs()][outs:] == [f"{name}_end" for name in states]
    found, end = [], {}
    for start, stop in ((0, 2), (2, 3), (3, STEPS)):
        parts = session.run(None, {"in0": x[start:stop], **end})
        found.append(parts[:outs])
        end = dict(zip(states, parts[outs:], strict=True))
    for k in range(outs):
        assert np.array_equal(np.concatenate([part[k] for part in found]), whole[k])
    assert all(np.array_equal(a, b) for a, b in zip(end.values(), whole[outs:], strict=True))
    one = {name: a[:1] for name, a in end.items()}
    for_all = session.run(None, {"in0": x[:4], **one})
    each = session.run(None, {"in0": x[:4], **{name: np.repeat(a, 3, 0) for name, a in one.items()}})
    assert all(np.array_equal(a, b) for a, b in zip(for_all, each, strict=True))
    blank = session.run(None, {"in0": x[:4]})
    assert any(not np.array_equal(a, b) for a, b in zip(for_all, blank, strict=True))


def test_the_script_goes_on_where_a_run_ended(tmp_path: Path) -> None:
    network = recurrent(np.random.default_rng(0))
    ONNX.emit(network).save(tmp_path / "p")
    x = given(network)["in"]
    for name, rows in (("all", x), ("first", x[:9]), ("then", x[9:])):
        np.save(tmp_path / f"{name}.npy", rows)
    for words in (["all.npy", "a.npz"], ["first.npy", "b.npz"], ["then.npy", "c.npz", "b.npz"]):
        done = subprocess.run([sys.executable, "p/run.py", *words], cwd=tmp_path, check=True, capture_output=True)
        assert done.stderr == b""
    a, b, c = (np.load(tmp_path / f"{name}.npz") for name in "abc")
    assert np.array_equal(np.concatenate([b["out0"], c["out0"]]), a["out0"])
    assert all(np.array_equal(a[name], c[name]) for name in a.files if name != "out0")
    assert a["out0"].any()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"in": np.zeros((4, 1, 6))}, "no array 'in0', there are in; README.md lists the tensors"),
        ({"in0": np.zeros((0, 1, 6))}, "'in0' has 0 time steps, ONNX Runtime takes 1 or more"),
    ],
)
def test_the_script_refuses_in_one_line(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    ONNX.emit(recurrent(np.random.default_rng(0))).save(tmp_path / "p")
    np.savez(tmp_path / "x.npz", **arrays)
    done = subprocess.run([sys.executable, "p/run.py", "x.npz", "y.npz"], cwd=tmp_path, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (1, f"x.npz: {words}\n")
    assert not (tmp_path / "y.npz").exists()


def test_metadata_of_integers_and_reals(root: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    network, q = nb.load(model), nb.quantize(model, "loihi2")
    for source in (network, q):
        content = ONNX.emit(source).files["model.onnx"]
        assert content == ONNX.emit(replace(source)).files["model.onnx"]
        found = runtime(content).get_modelmeta().custom_metadata_map
        assert found == {p.key: p.value for p in onnx.load_model_from_string(content).metadata_props}
        facts = {key.removeprefix("nirbridge."): json.loads(text) for key, text in found.items()}
        assert (facts["dt"], facts["version"]) == (source.dt, nb.__version__)
        parts = network_to_dict(network) if source is network else quantized_to_dict(q)
        assert facts["source_sha256"] == digest_of(*parts)
        assert facts["inputs"] == [{"id": "in0", "name": "input", "shape": [64]}]
        states = facts["states"]
        names = [s.name for s in runtime(content).get_overridable_initializers()]
        assert sorted(state["id"] for state in states) == sorted(names)
        assert {"id": "p0.v", "name": source.populations[0].name, "part": "v", "shape": [64]} in states
        assert all(text.isascii() for text in found.values())
    assert facts["scales"][q.populations[0].name]["scale"] == q.populations[0].neuron.scale.tolist()
    assert (facts["latency"], facts["chip"], facts["numbers"]) == (dict(q.latency), "loihi2", "integers")


def test_states_that_do_not_fit() -> None:
    network = recurrent(np.random.default_rng(0))
    session = ONNX.session(ONNX.emit(network))  # pyright: ignore[reportOptionalCall]
    x = given(network)["in"]
    wide = session.blank(3)
    for attempt in (lambda: session.run(x, state=wide), lambda: session.runner(2, wide)):
        with pytest.raises(UsageError, match=r"^state, 'v' of 'a': float32 of shape \(3, 7\), this run needs"):
            attempt()
    missing: dict[Any, Array] = {key: a for key, a in session.blank(2).arrays.items() if key[1] != "past"}
    with pytest.raises(UsageError, match="'past' of 'in': is missing"):
        session.run(x, state=SimulationState(0, missing))


def test_values_that_an_input_of_integers_does_not_take() -> None:
    q = next(q for q in map(fixed_network, range(9)) if q.inputs and not q.inputs[0].graded)
    session = ONNX.session(ONNX.emit(q))  # pyright: ignore[reportOptionalCall]
    runner, x = session.runner(2), given(q)
    runner.step({name: a[0] for name, a in x.items()})
    before = runner.state().arrays
    with pytest.raises(UsageError, match=r"2 at time step 1, it takes spikes, 0 and 1"):
        runner.step({name: 0 * a[1] + 2 for name, a in x.items()})
    assert all(np.array_equal(a, before[key]) for key, a in runner.state().arrays.items())
