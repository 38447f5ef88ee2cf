"""Agreement of recordings, inputs, and the order of what is measured, without a process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.benchmarking import measure as measuring
from nirbridge.benchmarking.measure import READOUT_SHARE, BenchPlan, agreement, given_inputs, measure, random_inputs
from nirbridge.emitters.own_time import (
    add_compile_time,
    add_own_time,
    compile_time,
    hear_own_time,
    listen_to_own_time,
    listen_to_times,
    own_time,
)
from nirbridge.errors import UsageError
from nirbridge.pipeline import network_of_shapes
from nirbridge.simulators.types import Probe, Recording

NAMES = {"name": "fake", "base": "reference"}


def spikes(**changed: Any) -> dict[tuple[str, str], Array]:
    arrays = {(name, "s"): np.zeros((6, 3, 2, 2), np.uint8) for name in ("a", "b", "output")}
    arrays["a", "s"][4, 1, 0, 1] = 1
    return arrays


def test_equal_recordings_agree() -> None:
    assert agreement(spikes(), spikes(), ["output"], **NAMES) == ("", "")


def test_the_earliest_difference_of_all_nodes_is_named() -> None:
    found = spikes()
    found["a", "s"][5, 0, 0, 0] = 1
    found["b", "s"][2, 1, 1, 0] = 1
    found["b", "s"][2, 2, 0, 0] = 1
    outcome = agreement(spikes(), found, ["output"], **NAMES).difference
    where = "time step 2, sample 1, neuron (1, 0): reference 0, fake 1"
    assert outcome == f"'b': spikes first differ at {where} (0 against 2 spikes)"


def test_spikes_of_another_type_are_the_same_spikes() -> None:
    found = {key: array.astype(np.int64) for key, array in spikes().items()}
    assert agreement(spikes(), found, ["output"], **NAMES).difference == ""


def test_populations_may_be_missing_and_outputs_may_not() -> None:
    found = {("output", "s"): spikes()["output", "s"]}
    assert agreement(spikes(), found, ["output"], **NAMES).difference == ""
    assert agreement(spikes(), spikes(), ["output", "z"], **NAMES).difference == "records nothing of 'z'"


def test_another_shape_is_a_difference() -> None:
    found = spikes() | {("output", "s"): np.zeros((6, 3, 4), np.uint8)}
    outcome = agreement(spikes(), found, ["output"], **NAMES).difference
    assert outcome == "'output': fake has shape 6 x 3 x 4, reference 6 x 3 x 2 x 2"


@pytest.mark.parametrize(("share", "agrees"), [(READOUT_SHARE / 2, True), (READOUT_SHARE * 2, False)])
def test_sums_of_reals_may_differ_a_little(share: float, agrees: bool) -> None:
    expected = {("output", "s"): np.array([[[1.0, -8.0]]])}
    found = {("output", "s"): np.array([[[1.0 + 8 * share, -8.0]]])}
    outcome = agreement(expected, found, ["output"], **NAMES)
    assert bool(outcome.remark) is agrees
    assert bool(outcome.difference) is not agrees
    assert not outcome.difference or outcome.difference.startswith(
        "'output': values first differ at time step 0, sample 0"
    )


def test_random_inputs_depend_on_the_seed_alone() -> None:
    network = network_of_shapes("50 dense3 lif")
    (name,) = (port.name for port in network.inputs)
    first, remark = random_inputs(network, 40, 8, 0.25, 3)
    assert remark == "random spikes, 0.25 per time step and element, seed 3"
    assert np.array_equal(first[name], random_inputs(network, 40, 8, 0.25, 3)[0][name])
    assert not np.array_equal(first[name], random_inputs(network, 40, 8, 0.25, 4)[0][name])
    assert abs(first[name].mean() - 0.25) < 0.02
    assert first[name].shape == (40, 8, 50)


def test_given_samples_are_repeated_in_turn() -> None:
    network = network_of_shapes("2 dense3 lif")
    (name,) = (port.name for port in network.inputs)
    data = np.arange(12).reshape(3, 2, 2)
    arrays, steps, remark = given_inputs(network, data, 5, 3)
    assert (steps, remark) == (5, "data as given, 2 samples, repeated in turn")
    assert np.array_equal(arrays[name][:3], data[:, [0, 1, 0]])
    assert len(arrays[name]) == 5
    assert not arrays[name][3:].any()
    assert given_inputs(network, data[:, 0], None, 1)[2] == "data as given, 1 sample"
    with pytest.raises(UsageError, match="is a function"):
        given_inputs(network, lambda start, stop: data[start:stop], 3, 1)


# -- the order of what is measured -------------------------------------------------------------------------------------


class Clock:
    """A clock that runs of a back end move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Fake:
    """A back end whose runs take stated seconds, the last of them on; ``wrong_batch``: its spikes differ."""

    def __init__(
        self,
        clock: Clock,
        seconds: list[float],
        own: float | None = None,
        wrong_batch: int = 0,
        compilation: float | None = None,
    ) -> None:
        self.clock, self.seconds, self.own, self.wrong_batch = clock, seconds, own, wrong_batch
        self.compilation = compilation
        self.batches: list[int] = []

    def __call__(self, inputs: Mapping[str, Array], *, steps: int, record: Any = None) -> Recording:
        batch = inputs["in"].shape[1]
        self.batches.append(batch)
        self.clock.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        if self.own is not None:
            add_own_time(self.own)
        if self.compilation is not None:
            add_compile_time(self.compilation)
        arrays = {(p.node, "s"): np.ones((steps, batch, 2), np.uint8) for p in record}
        if batch == self.wrong_batch and len(record) == 1:  # outputs alone: a timed run
            arrays["out", "s"][1, 0, 1] = 0
        return Recording(MappingProxyType(arrays), MappingProxyType({}))


def measured(
    run: Fake, monkeypatch: pytest.MonkeyPatch, *, is_program: bool = False, repeats: int = 3, differ: bool = False
) -> dict[str, Any]:
    monkeypatch.setattr(measuring, "time", run.clock)
    expected = {(name, "s"): np.ones((10, 4, 2), np.uint8) for name in ("pop", "out")}
    expected["pop", "s"][0, 3, 0] = 0 if differ else 1
    row: dict[str, Any] = {}
    every = [Probe("pop", ("s",)), Probe("out", ("s",))]
    inputs = {"in": np.zeros((10, 4, 1), np.uint8)}
    measure(
        run,
        BenchPlan("fake", "reference", inputs, 10, (1, 4), repeats, every, ("out",), lambda: expected, is_program),
        row.update,
    )
    return row


def test_a_simulator_is_timed_by_its_fastest_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Fake(Clock(), [0.5, 0.1, 0.04, 0.02, 0.03, 0.06])
    row = measured(run, monkeypatch)
    assert run.batches == [1, 4, 1, 1, 1, 4, 4, 4]
    assert row["us_per_step"] == {"1": pytest.approx(2000.0), "4": pytest.approx(6000.0)}
    assert (row["measured"], row["build_s"], row["spikes"]) == ("call", pytest.approx(0.48), 80)
    assert row["status"] == "equal"


@pytest.mark.parametrize(("own", "us", "said"), [(0.001, 100.0, "own time"), (None, 4000.0, "whole run")])
def test_a_program_is_timed_by_its_own_word(
    own: float | None, us: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = measured(Fake(Clock(), [0.04], own), monkeypatch, is_program=True)
    assert row["us_per_step"]["1"] == pytest.approx(us)
    assert row["measured"] == said
    assert row.get("start_s") == (None if own is None else pytest.approx(0.039))


@pytest.mark.parametrize(("own", "start"), [(0.001, 0.019), (None, None)])
def test_compilation_is_no_part_of_the_start(
    own: float | None, start: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = measured(Fake(Clock(), [0.04], own, compilation=0.02), monkeypatch, is_program=True)
    assert row["compile_s"] == pytest.approx(0.02)
    assert row.get("start_s") == (None if start is None else pytest.approx(start))


def test_no_further_run_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Fake(Clock(), [1.5])
    measured(run, monkeypatch, repeats=9)
    assert run.batches == [1, 4, 1, 1, 4, 4]


def test_other_spikes_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Fake(Clock(), [0.01])
    row = measured(run, monkeypatch, differ=True)
    assert run.batches == [1, 4]
    assert row["status"] == "differs"
    assert "us_per_step" not in row


def test_the_timed_runs_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    row = measured(Fake(Clock(), [0.01], wrong_batch=4), monkeypatch)
    assert (row["status"], row["us_per_step"], row["measured"]) == ("differs", {}, "")
    assert "time step 1, sample 0, neuron (1): reference 1, fake 0" in row["reason"]


def test_a_program_in_a_process_says_its_time_in_its_log() -> None:
    with listen_to_times() as reported:
        hear_own_time("warning: time steps took 9 s\ntime steps took 8.0 s\ntime steps took 0.25 s\nbye\n")
        hear_own_time("no such line")
        hear_own_time("compilation took 1.50 s\ncompilation took 2 s\n")
    assert (reported.own, reported.compilation) == ([0.25], [1.5])


def test_own_time_is_heard_by_who_listens_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    add_own_time(1.0)
    with listen_to_own_time() as heard:
        add_own_time(2.0)
        with listen_to_own_time() as inner, own_time():
            pass
    assert heard == [2.0]
    assert len(inner) == 1
    with listen_to_times() as reported, compile_time():
        pass
    assert (len(reported.compilation), reported.own) == (1, [])
