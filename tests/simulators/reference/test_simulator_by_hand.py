"""Text and state of a simulator, number by number: blocks, sizes, meta, states, missing libraries."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nirbridge
from nirbridge.arrays import freeze
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Dense, Identity, Sparse
from nirbridge.simulators import checks, retained
from nirbridge.simulators import simulate as simulators
from nirbridge.simulators.checks import check_state
from nirbridge.simulators.reference import state as delays
from nirbridge.simulators.reference.array_namespace import ArrayNamespace, array_namespace
from nirbridge.simulators.simulate import Probe, prepare_simulator, simulate
from nirbridge.simulators.types import SimulationState

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")


def net(**own: Any) -> Network:
    """in (4) -> a (6) -> b (3, reads out) -> out, by way of 10 numbers."""
    a, b = Population("a", (6,), neuron("IF", **own)), Population("b", (3,), neuron("LI", a_mem=0.5, theta=None))
    chain = Chain((Dense(freeze(np.ones((10, 6)))), Dense(freeze(np.ones((3, 10))))))
    ways = (Projection("in", "a", Dense(freeze(np.ones((6, 4))))), Projection("a", "b", chain),
            Projection("b", "out", Identity((3,))))  # fmt: skip
    return Network(1e-3, TIMING, (a, b), ways, (Port("in", (4,)),), (Port("out", (3,)),))


SPIKES = np.ones((5, 4), np.uint8)


@pytest.mark.parametrize(("backend", "dtype", "per_step"), [
    ("reference", "float32", 7 * 4 + 9 * 16 + 16 * 10), ("reference", "float64", 7 * 8 + 9 * 32 + 32 * 10),
    ("fast", "float32", 7 * 4 + 6 * 2 + 3 * 16 + 16 * 10), ("fast", "float64", 7 * 8 + 6 * 2 + 3 * 32 + 32 * 10),
])  # fmt: skip
def test_so_many_steps_run_at_once_as_fit(
    backend: str, dtype: str, per_step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports hold a number, populations four, a layer's spikes a byte on each side, chains their widest part."""
    made = prepare_simulator(net(), backend=backend, dtype=dtype)
    for room, batch, steps in ((per_step, 1, 1), (10 * per_step, 1, 10), (10 * per_step - 1, 1, 9), (5, 1, 1),
                               (10 * per_step, 5, 2), (10**9, 1, 4096)):  # fmt: skip
        monkeypatch.setattr(simulators, "CHUNK_BYTES", room)
        assert made._stretch(batch) == steps
    told: list[Any] = []
    monkeypatch.setattr(made, "_stretch", lambda batch: 2)
    made.run(SPIKES, progress=lambda *own: told.append(own))
    assert told == [("simulate", 0.4), ("simulate", 0.8), ("simulate", 1.0)]


@pytest.mark.parametrize(("record", "size"), [
    ([Probe("a", ("v",))], 5 * 2 * 6 * 4), ([Probe("a", ("s", "count"))], 5 * 2 * 6 + 2 * 6 * 8),
    ([Probe("a", ("v",), 2), Probe("in", ("s",), 3)], 3 * 2 * 6 * 4 + 2 * 2 * 4),
])  # fmt: skip
def test_recordings_are_refused_beyond_so_many_bytes(
    record: list[Probe], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.repeat(SPIKES[:, None], 2, axis=1)
    monkeypatch.setattr(simulators, "RECORDED_BYTES", size)
    prepare_simulator(net()).run(values, record=record)
    monkeypatch.setattr(simulators, "RECORDED_BYTES", size - 1)
    with pytest.raises(UsageError, match="^the recording: 0 GiB, at most 0 GiB; record fewer time steps"):
        prepare_simulator(net()).run(values, record=record)
    monkeypatch.setattr(simulators, "RECORDED_BYTES", 2**32)
    with pytest.raises(UsageError) as caught:
        prepare_simulator(net()).run(values[:, :1], steps=10 * 2**30, record=[Probe("in", ("s",))])
    said = "40 GiB, at most 4 GiB; record fewer time steps (every), or only counts"
    assert str(caught.value) == f"the recording: {said}"


def test_meta_is_all_of_the_run() -> None:
    first = simulate(net(), SPIKES, record=[Probe("a", ("v",), 2), Probe("a", ("s",))], backend="reference")
    meta = dict(first.recording.meta)
    assert set(meta.pop("versions")) == {"nirbridge", "numpy", "scipy"}
    assert meta == {
        "dt": 1e-3, "steps": 5, "first_step": 0, "batch": None, "backend": "reference", "library": "numpy",
        "device": "cpu", "dtype": "float32", "seed": None, "latency": {"out": 0}, "assumed": [], "notes": [],
        "v": "after the reset", "u": "before the reset", "choices": {}, "every": {"a/v": 2}, "not_finite": [],
    }  # fmt: skip
    values = np.ones((2, 3, 4))
    later = simulate(net(), np.ones((1, 3, 4)), backend="reference", dtype="float64")
    meta = dict(simulate(net(), values, state=later.state, backend="reference", dtype="float64").recording.meta)
    assert (meta["first_step"], meta["steps"], meta["batch"], meta["dtype"]) == (1, 2, 3, "float64")


def test_the_layout_of_the_last_recording_is_kept_until_anything_it_depends_on_changes() -> None:
    made = prepare_simulator(net(), backend="reference")

    def layout(values: Any, record: Any = None) -> Any:
        made.run(values, record=record)
        return made._layout[1]

    last = layout(SPIKES)
    assert layout(SPIKES) is last
    for values, record in ((SPIKES, [Probe("a", ("v",))]), (SPIKES * 0.5, None), (SPIKES[:3], None), (SPIKES, None),
                           (np.repeat(SPIKES[:, None], 2, axis=1), None)):  # fmt: skip
        before, last = last, layout(values, record)
        assert last is not before
        assert layout(values, record) is last
    with pytest.raises(UsageError):
        made.run(SPIKES, record=[Probe("x", ("v",))])
    assert made._layout[1] is last


def test_wrong_states_are_told_part_by_part() -> None:
    ready = prepare_simulator(net(), backend="reference")
    good = ready.run(SPIKES).state
    wrong = dict(good.arrays)
    del wrong["a", "i"]
    wrong["b", "v"] = freeze(np.zeros((1, 3)))
    wrong["b", "i"] = freeze(np.zeros((2, 3), np.float32))
    with pytest.raises(UsageError) as caught:
        ready.run(SPIKES, state=SimulationState(5, wrong))
    step = "give the state of a run of this network, with the same batch and dtype"
    assert str(caught.value).splitlines() == [
        f"state, 'i' of 'a': is missing, this run needs float32 of (1, 6); {step}",
        f"state, 'v' of 'b': float64 of shape (1, 3), this run needs float32 of (1, 3); {step}",
        f"state, 'i' of 'b': float32 of shape (2, 3), this run needs float32 of (1, 3); {step}",
    ]
    many = SimulationState(0, {(f"p{k}", "v"): freeze(np.zeros(1)) for k in range(25)})
    with pytest.raises(UsageError) as caught:
        check_state(SimulationState(0, {}), many)
    assert len(caught.value.problems) == 20


def test_past_steps_are_counted_before_any_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    own = net()
    late = replace(own.projections[0], delay_steps=freeze(np.int64(7)))
    made = prepare_simulator(replace(own, projections=(late, *own.projections[1:])), backend="reference")
    monkeypatch.setattr(delays, "HELD_MAX", 7 * 4)
    made.run(SPIKES)
    with pytest.raises(ModelError, match="^projection 'in' -> 'a': with a delay of 7 time steps, 56 values of past"):
        made.run(np.repeat(SPIKES[:, None], 2, axis=1))


def test_networks_are_kept_up_to_so_many_bytes_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Sparse(freeze([0, 1, 2]), freeze([1, 0]), freeze([1.0, 2.0]), (2,), (2,))
    chain = Chain((Dense(freeze(np.ones((2, 3)))), table))
    made = Network(1e-3, TIMING, (Population("p", (2,), neuron("IF")),), (Projection("in", "p", chain),
                   Projection("p", "out", Identity((2,)))), (Port("in", (3,)),), (Port("out", (2,)),))  # fmt: skip
    assert retained._bytes(made) == 8 * 6 + 8 * 2
    for size, kept in ((64, True), (63, False)):
        monkeypatch.setattr(retained, "BYTES", size)
        retained._of_thread.ready.clear()
        first: Any = retained.retained(made, ("a",), lambda own: [own])  # type: ignore[arg-type, return-value]
        second: Any = retained.retained(made, ("a",), lambda own: [own])  # type: ignore[arg-type, return-value]
        assert (first is second) is kept
        assert first[0] is not made
        assert retained.retained(made, ("b",), lambda own: []) == []  # type: ignore[arg-type, return-value, comparison-overlap]


def test_versions_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "numpy":
            raise metadata.PackageNotFoundError(name)
        return f"{name} 1"

    monkeypatch.setattr(metadata, "version", version)
    wanted = {"nirbridge": nirbridge.__version__, "numpy": "unknown", "scipy": "scipy 1"}
    assert checks.versions.__wrapped__("numpy") == wanted
    assert checks.versions.__wrapped__("array_api_strict") == {**wanted, "array-api-strict": "array-api-strict 1"}


# -- array libraries that are not installed here ---------------------------------------------------------------------


class FakeArray:
    def __init__(self, values: Any) -> None:
        self.values = values

    def get(self) -> Any:
        return self.values


def test_cupy_is_on_cuda_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "array_api_compat", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "array_api_compat.cupy", SimpleNamespace(float32="f4"))
    for device in ("cuda", "cuda:1"):
        made = array_namespace("cupy", "float32", device)
        assert (made.library, made.device, made.dtype, made.is_numpy) == ("cupy", None, "f4", False)
    assert made.numpy(FakeArray("values")) == "values"
    with pytest.raises(UsageError) as caught:
        array_namespace("cupy", "float32", "cpu")
    assert str(caught.value) == "device 'cpu': not one of cupy's, cupy runs on 'cuda'; give --device cuda"


def test_jax_has_32_bits_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def devices(name: str) -> list[str]:
        if name == "tpu":
            raise RuntimeError("no tpu")
        return [f"{name}:0", f"{name}:1"]

    def asarray(values: Any, **where: Any) -> Any:
        return values, where

    config = SimpleNamespace(jax_enable_x64=False)
    xp = SimpleNamespace(float32=np.float32, float64=np.float64, asarray=asarray, full=lambda *a, **k: (a, k))
    fake = SimpleNamespace(config=config, devices=devices, numpy=xp)
    monkeypatch.setitem(sys.modules, "jax", fake)
    monkeypatch.setitem(sys.modules, "jax.numpy", xp)
    made = array_namespace("jax", "float32", "gpu")
    assert made.device == "gpu:0"
    values, where = made.integers(np.array([1, 2]))
    assert (values.dtype, where) == (np.int32, {"device": "gpu:0"})
    assert made.booleans(np.array([1, 0]))[0].dtype == np.bool_
    assert made.full((2, 3), 1.5) == (((2, 3), 1.5), {"dtype": np.float32, "device": "gpu:0"})
    with pytest.raises(UsageError) as caught:
        array_namespace("jax", "float64", "cpu")
    said = "jax is set to 32 bits; set JAX_ENABLE_X64=1 before jax is imported"
    assert str(caught.value) == f"dtype 'float64': {said}"
    config.jax_enable_x64 = True
    assert array_namespace("jax", "float64", "cpu").device == "cpu:0"
    with pytest.raises(UsageError) as caught:
        array_namespace("jax", "float32", "tpu")
    assert str(caught.value) == "device 'tpu': jax has none; choose 'cpu'"


def test_numbers_of_numpy_are_numpys_own() -> None:
    made = ArrayNamespace("numpy", np, "float32")
    values = np.array([[1.0, 0.1]], np.float32)
    assert made.array(values) is values
    assert made.array(np.array([0.1])).dtype == np.float32
    assert made.coefficient(np.float64(0.1)) == float(np.float32(0.1))
    assert type(made.coefficient(np.float64(0.1))) is float
    assert made.coefficient(np.array([0.1])).shape == (1,)
    assert made.integers(np.array([1.0])).dtype == np.int64
    assert made.reshape(values, (1, 2)) is values
    assert made.reshape(values, (2,)).tolist() == values[0].tolist()
    assert made.full((2,), 1.5).tolist() == [1.5, 1.5]
    assert (made.numpy([1]).tolist(), made.is_numpy, made.device) == ([1], True, None)


@pytest.mark.parametrize(("options", "said"), [
    ({"float_name": "float16"}, "dtype 'float16': unknown, there are float32 and float64; did you mean 'float64'?"),
    ({"library": "np"}, "array library 'np': unknown, there are numpy, torch, cupy, jax, dpnp, array_api_strict; "
     "did you mean 'dpnp'?"),
    ({"device": "cuda"}, "device 'cuda': numpy runs on 'cpu'; choose torch, jax, cupy or dpnp"),
])  # fmt: skip
def test_what_is_not_there_is_told(options: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        array_namespace(**options)
    assert str(caught.value) == said


def test_backends_that_do_not_exist_are_told() -> None:
    with pytest.raises(UsageError) as caught:
        prepare_simulator(net(), backend="gpu")
    known = "auto, reference, numpy, fast, event, dense"
    assert str(caught.value) == f"backend 'gpu': unknown, there are {known}; choose one of them"
