"""``nirbridge.open``: named and measured back ends, whose results and errors are those of ``simulate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.c.run import find_compiler
from nirbridge.errors import ModelError, UsageError
from nirbridge.pipeline import network_of_shapes
from nirbridge.simulators.backends import EXACT
from nirbridge.simulators.inputs import from_chunks

NETWORK = network_of_shapes("4 dense3 lif dense2 lif")
OUT = NETWORK.outputs[0].name
INTEGERS = nb.quantize(NETWORK, "loihi2")
X = (np.random.default_rng(3).random((12, 5, 4)) < 0.6).astype(np.uint8)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path / "cache"))


def fastest(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A bench in which this back end is the fastest; the names of those that it measures."""
    measured: list[str] = []

    def row(contender: Any, *_: Any) -> Any:
        measured.append(contender.name)
        times = MappingProxyType({1: 1.0 if contender.name == name else 2.0})
        return replace(contender.row("equal"), us_per_step=times, us_per_run=MappingProxyType({1: 0.0}))

    monkeypatch.setattr("nirbridge.pipeline.bench._measured", row)
    return measured


def equal(a: nb.Recording, b: nb.Recording) -> bool:
    return a.arrays.keys() == b.arrays.keys() and all(
        a.arrays[key].dtype == b.arrays[key].dtype and np.array_equal(a.arrays[key], b.arrays[key]) for key in a.arrays
    )


@pytest.mark.parametrize("record", [None, "*:s,v"])
@pytest.mark.parametrize("name", EXACT)
def test_reals_have_the_same_bits_whatever_is_chosen(name: str, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fastest(name, monkeypatch)
    session = nb.open(NETWORK, backend="best")
    assert (session.backend, session.base) == (name, "reference")
    assert equal(session.run(X, record=record), nb.simulate(NETWORK, X, backend="reference", record=record))


@pytest.mark.parametrize("record", [None, "*:s,u,v", [OUT, f"{OUT}:count"]])
@pytest.mark.parametrize("name", ["fixed", "onnx", "c"])
def test_integers_have_the_same_bits_whatever_is_chosen(
    name: str, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    if name == "c":
        try:
            find_compiler()
        except UsageError as error:
            pytest.skip(str(error))
    fastest(name, monkeypatch)
    mapped = nb.map(NETWORK, "loihi2")
    for model, expected in ((INTEGERS, nb.simulate(INTEGERS, X, record=record)), (mapped, None)):
        session = nb.open(model, backend="best")
        assert session.backend == name
        assert (session.program is None) == (name == "fixed")
        assert equal(session.run(X, record=record), expected or nb.simulate(model, X, record=record))


def test_a_choice_is_measured_once_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, told = fastest("event", monkeypatch), []
    session = nb.open(NETWORK, backend="best", progress=lambda stage, done: told.append(stage))
    assert measured == list(EXACT)
    assert told == [f"bench {name}" for name in EXACT]
    again = nb.open(NETWORK, backend="best", steps=1000)
    assert measured == list(EXACT)
    assert session.why == "event, 100 us per run of 100 time steps at batch 1, 2 times as fast as fast (200 us)"
    assert again.why == "event, 1 ms per run of 1,000 time steps at batch 1, 2 times as fast as fast (2 ms)"
    assert repr(session) == f"Session: event: {session.why}"


def test_a_bench_by_hand_is_what_open_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = nb.bench(NETWORK, X, backends=EXACT, batches=[5], repeats=1, best=True)  # really measured
    (choice,) = bench.choices
    assert choice.is_kept
    assert choice.us_per_run == dict.fromkeys(choice.us_per_step, 0.0)
    monkeypatch.setattr("nirbridge.pipeline.bench.bench_network", lambda *_, **__: pytest.fail("measured again"))
    assert nb.open(NETWORK, backend="best", batch=5).backend == next(iter(choice.us_per_step))


def test_what_the_choice_cannot_do_the_simulator_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> nb.Recording:
        raise ModelError.of("program", "failed with exit code 3")

    fastest("onnx", monkeypatch)
    monkeypatch.setattr("nirbridge.api.sessions.emit", lambda *_: nb.emit(INTEGERS, "c"))
    monkeypatch.setattr("nirbridge.api.sessions.run", failing)
    session = nb.open(INTEGERS, backend="best")
    assert equal(session.run(X, record="*:v"), nb.simulate(INTEGERS, X, record="*:v"))
    with pytest.raises(UsageError, match="no population, input or output of that name"):
        session.run(X, record="lost:s")
    with pytest.raises(ModelError, match="exit code 3"):
        nb.open(INTEGERS, backend="onnx").run(X)  # named: its failure is told


def test_a_stream_runs_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    fastest("onnx", monkeypatch)
    monkeypatch.setattr("nirbridge.api.sessions.emit", lambda *_: nb.emit(INTEGERS, "c"))
    session = nb.open(INTEGERS, backend="best")
    found = session.run(from_chunks(iter(np.split(X, 3))), steps=12)
    assert equal(found, nb.simulate(INTEGERS, X))


@pytest.mark.parametrize(
    ("model", "backend", "reason"),
    [(INTEGERS, "fixed", "model: no back end has run it, each has 30 s"), (NETWORK, "fast", "the reference: too slow")],
)
def test_a_model_that_is_too_slow_for_the_trial_runs_all_the_same(
    model: Any, backend: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nirbridge.pipeline.bench._measured", lambda row, *_: row.row("time limit", "too slow"))
    session = nb.open(model, backend="best")
    assert session.backend == backend
    assert session.why.startswith(f"as of simulate, not measured: {reason}")
    assert equal(session.run(X), nb.simulate(model, X))


@pytest.mark.parametrize(
    ("model", "backend", "message"),
    [
        (NETWORK, "fsat", "^backend 'fsat': unknown, .*did you mean 'fast'"),
        (NETWORK, "fixed", "^model of backend 'fixed': is of type Network, .*; quantize the network for a chip$"),
        (INTEGERS, "numpy", "^model of backend 'numpy': is of type QuantizedNetwork, "),
        (INTEGERS, "torch", "^model of emitter 'torch': is of type QuantizedNetwork, "),
    ],
)
def test_wrong_names_are_refused(model: Any, backend: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nb.open(model, backend=backend)


@pytest.mark.parametrize(
    ("model", "backend"), [(NETWORK, "fast"), (INTEGERS, "fixed"), (nb.map(NETWORK, "loihi2"), "mapped")]
)
def test_auto_is_that_of_simulate(model: Any, backend: str) -> None:
    with nb.open(model) as session:
        assert (session.backend, session.why, session.base) == (backend, "as of simulate", None)
        assert equal(session.run(X), nb.simulate(model, X))
        assert session.run(X, steps=3)[OUT].shape == (3, 5, 2)
