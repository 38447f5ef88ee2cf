"""The backend ``best``: the fastest of those with the bits of the reference; a fake clock decides, never a real one."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.network.model import Network
from nirbridge.pipeline import network_of_shapes
from nirbridge.simulators import best
from nirbridge.simulators.backends import BACKENDS, EXACT
from nirbridge.simulators.simulate import prepare_simulator
from nirbridge.simulators.types import Recording


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Slowed:
    """The reference under another name, with a stated duration; ``wrong``: one potential differs in its last bit."""

    def __init__(self, network: Network, name: str, clock: Clock, seconds: float, wrong: bool) -> None:
        self.simulator, self.name = prepare_simulator(network, backend="reference"), name
        self.clock, self.seconds, self.wrong, self.steps = clock, seconds, wrong, []

    def run(self, inputs: Any, **options: Any) -> Any:
        self.clock.now += self.seconds
        self.steps.append(options["steps"])
        result = self.simulator.run(inputs, **options)
        arrays = dict(result.recording.arrays)
        for key in arrays:
            if self.wrong and key[1] == "v":
                arrays[key] = np.nextafter(arrays[key], np.float32(9))
        recording = Recording(MappingProxyType(arrays), {**result.recording.meta, "backend": self.name})
        return replace(result, recording=recording)


@pytest.fixture
def network() -> Network:
    return network_of_shapes("6 dense8 lif dense4 lif")


@pytest.fixture
def data() -> Any:
    return (np.random.default_rng(0).random((40, 3, 6)) < 0.5).astype(np.uint8)


def planted(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], wrong: str = "", absent: str = "", failing: Any = None
) -> dict[str, Slowed]:
    clock, made = Clock(), {}

    def prepare(network: Network, *, backend: str, **options: Any) -> Slowed:
        if backend == absent:
            raise ToolMissing.of(f"backend '{backend}'", "numba is not installed")
        if failing and backend in failing:
            raise failing[backend]
        made[backend] = Slowed(network, backend, clock, seconds[backend], backend == wrong)
        return made[backend]

    monkeypatch.setattr(best, "prepare_simulator", prepare)
    monkeypatch.setattr(best, "time", clock)
    return made


TIMES = {"reference": 0.4, "numpy": 0.1, "fast": 0.2, "event": 0.3}


def test_the_fastest_is_named_in_the_recording(network: Network, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = planted(monkeypatch, TIMES)
    run = nb.simulate(network, data, backend="best")
    assert (run.meta["backend"], run.meta["requested_backend"]) == ("numpy", "best")
    assert run.meta["candidates"] == dict.fromkeys(EXACT, "equal")
    assert made["numpy"].steps == [16] * 4 + [None]
    assert set(made["event"].steps) == {16}


def test_one_that_differs_in_a_bit_is_no_candidate(
    network: Network, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, TIMES, wrong="numpy")
    run = nb.simulate(network, data, backend="best")
    assert run.meta["backend"] == "fast"
    assert run.meta["candidates"]["numpy"].startswith("differs: '")


def test_one_that_is_not_installed_is_said(network: Network, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, TIMES | {"event": 0.01}, absent="numpy")
    run = nb.simulate(network, data, backend="best")
    assert (run.meta["backend"], run.meta["candidates"]["numpy"]) == ("event", "absent: numba is not installed")


def test_one_that_fails_is_no_candidate_and_the_reference_is_an_error(
    network: Network, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = ModelError.of("population 'a'", "has no kernel")
    planted(monkeypatch, TIMES, failing={"numpy": RuntimeError("no kernel"), "fast": refusal})
    run = nb.simulate(network, data, backend="best")
    assert run.meta["backend"] == "event"
    told = {"numpy": "failed: RuntimeError: no kernel", "fast": "failed: population 'a': has no kernel"}
    assert run.meta["candidates"] == {"reference": "equal", **told, "event": "equal"}
    planted(monkeypatch, TIMES, failing={"reference": refusal})
    with pytest.raises(ModelError, match="has no kernel"):
        nb.simulate(network, data, backend="best")


def test_the_bits_are_those_of_the_reference(network: Network, data: Any) -> None:
    run = nb.simulate(network, data, backend="best", record="*:s,v", threads=2)
    reference = nb.simulate(network, data, backend="reference", record="*:s,v")
    assert run.meta["backend"] in EXACT
    assert run.meta["batch"] == 3
    assert all(np.array_equal(run.arrays[key], reference.arrays[key]) for key in reference.arrays)


def test_only_backends_of_a_fixed_order_are_tried() -> None:
    assert EXACT[0] == "reference"
    assert set(BACKENDS) - set(EXACT) == {"dense"}


def test_an_input_shorter_than_the_trial(network: Network, data: Any) -> None:
    run = nb.simulate(network, data[:2, 0], backend="best", steps=5)
    assert len(next(iter(run.arrays.values()))) == 5


def test_what_cannot_be_tried_is_refused(network: Network, data: Any) -> None:
    with pytest.raises(UsageError, match="is a function, which may give its time steps only once"):
        nb.simulate(network, lambda start, stop: data[start:stop], steps=5, backend="best")
    with pytest.raises(UsageError, match="backend 'best': is chosen by a trial, and each process would hold its own"):
        nb.simulate(network, data, backend="best", jobs=2)
    with pytest.raises(UsageError, match="fixed and mapped take --chip"):
        nb.simulate(network, data, backend="best", chip="loihi2")
    with pytest.raises(UsageError, match="backend 'best': does not apply here"):
        nb.simulate(nb.quantize(network, "loihi2"), data, backend="best")
