"""Inputs and recordings of a run, and refusals with their words."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.simulators.simulate import Probe, from_chunks, prepare_simulator, simulate

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
RNG = np.random.default_rng(2)
INPUT = (RNG.random((30, 4)) < 0.5).astype(np.uint8)


def small(**options: object) -> Network:
    """in -> fc1 (3, fires) -> read (2, never fires); outputs of both."""
    fc1 = Population("fc1", (3,), neuron("LIF", **{"a_mem": 0.9, "theta": 1.0, **options}))
    read = Population("read", (2,), neuron("LI", a_mem=0.5, theta=None))
    projections = (
        Projection("in", "fc1", Dense(freeze(2 * RNG.normal(size=(3, 4))))),
        Projection("fc1", "read", Dense(freeze(RNG.normal(size=(2, 3))))),
        Projection("fc1", "spikes", Identity((3,))),
        Projection("read", "level", Identity((2,))),
    )
    ports = (Port("spikes", (3,)), Port("level", (2,)))
    return Network(1e-3, TIMING, (fc1, read), projections, (Port("in", (4,)),), ports)


NETWORK = small()


def test_by_default_outputs_are_kept_spikes_in_bytes_and_read_outs_as_potentials() -> None:
    arrays = simulate(NETWORK, INPUT).recording.arrays
    assert {key: (a.shape, a.dtype) for key, a in arrays.items()} == {
        ("spikes", "s"): ((30, 3), np.uint8),
        ("level", "v"): ((30, 2), np.float32),
    }
    assert arrays["spikes", "s"].sum() > 5
    assert not arrays["spikes", "s"].flags.writeable


def test_counts_and_sub_samples_are_those_of_the_whole_recording() -> None:
    whole = simulate(NETWORK, INPUT, record=[Probe("fc1", ("s", "v", "u"))]).recording.arrays
    thin = simulate(NETWORK, INPUT, record=[Probe("fc1", ("v", "s"), 7), Probe("fc1", ("count",))]).recording
    assert np.array_equal(thin.arrays["fc1", "v"], whole["fc1", "v"][6::7])
    assert np.array_equal(thin.arrays["fc1", "s"], whole["fc1", "s"][6::7])
    assert np.array_equal(thin.arrays["fc1", "count"], whole["fc1", "s"].sum(axis=0))
    assert thin.meta["every"] == {"fc1/v": 7, "fc1/s": 7}


def test_v_is_behind_the_reset_and_u_before_it() -> None:
    arrays = simulate(NETWORK, INPUT, record=[Probe("fc1", ("s", "v", "u"))]).recording.arrays
    fired = arrays["fc1", "s"] == 1
    assert np.all(arrays["fc1", "v"][fired] == 0)
    assert np.all(arrays["fc1", "u"][fired] > 1)
    assert np.array_equal(arrays["fc1", "u"][~fired], arrays["fc1", "v"][~fired])


def test_several_spikes_per_step_are_kept_in_more_than_a_byte() -> None:
    found = simulate(small(max_spikes=5, theta=0.1), INPUT * 9.0).recording.arrays["spikes", "s"]
    assert found.dtype == np.int16
    assert found.max() == 5


def test_streams_and_chunks_give_what_the_array_gives() -> None:
    record = [Probe("*", ("s", "v"))]
    whole = simulate(NETWORK, INPUT, record=record)
    stream = simulate(NETWORK, lambda start, stop: INPUT[start:stop], steps=30, record=record)
    chunks = simulate(NETWORK, {"in": from_chunks(INPUT[k : k + 7] for k in range(0, 30, 7))}, steps=30, record=record)
    half = simulate(NETWORK, lambda start, stop: INPUT[start:stop], steps=13)
    rest = simulate(NETWORK, lambda start, stop: INPUT[start:stop], steps=17, record=record, state=half.state)
    for key, wanted in whole.recording.arrays.items():
        assert np.array_equal(stream.recording.arrays[key], wanted)
        assert np.array_equal(chunks.recording.arrays[key], wanted)
        assert np.array_equal(rest.recording.arrays[key], wanted[13:])


def test_behind_the_end_of_an_array_its_input_is_zero() -> None:
    longer = np.concatenate([INPUT, np.zeros((20, 4), np.uint8)])
    found, wanted = (simulate(NETWORK, given, steps=50).recording.arrays for given in (INPUT, longer))
    assert all(np.array_equal(found[key], wanted[key]) for key in wanted)


def test_progress_ends_at_one_and_meta_says_what_ran() -> None:
    seen: list[float | None] = []
    meta = simulate(NETWORK, INPUT, progress=lambda stage, done: seen.append(done)).recording.meta
    assert seen[-1] == 1.0
    assert (meta["steps"], meta["dt"], meta["dtype"], meta["batch"]) == (30, 1e-3, "float32", None)
    assert meta["latency"] == {"spikes": 0, "level": 0}
    assert meta["versions"]["numpy"] == np.__version__


def test_a_prepared_network_runs_again_from_the_beginning() -> None:
    made = prepare_simulator(NETWORK)
    first, second = (made.run(INPUT).recording.arrays["level", "v"] for _ in range(2))
    assert np.array_equal(first, second)


NAN = INPUT.astype(np.float64)
NAN[17, 2] = np.nan


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            INPUT[:, :3],
            r"^input 'in': an array of shape \(30, 3\), it takes \[steps, 4\] or \[steps, batch, 4\]; put",
        ),
        (
            INPUT[:, 0],
            r"^input 'in': an array of shape \(30,\), it takes \[steps, 4\] or \[steps, batch, 4\]; put",
        ),
        (NAN, r"^input 'in': NaN at time step 17 \(1 such value\), inputs are finite numbers of float32; remove them$"),
        (INPUT * 1e300, r"^input 'in': 1e\+300 at time step "),
        (INPUT + 1j, r"^input 'in': an array of type complex128, inputs are real numbers; convert it$"),
        ({"inn": INPUT}, r"^input 'in': is missing; give an array for it\ninput 'inn': .*; did you mean 'in'\?$"),
        (INPUT[:0], r"^steps: 0, at least 1; give more$"),
        (
            lambda start, stop: INPUT[start : stop - 1],
            r"^input 'in': 0 steps, 1 were requested; return exactly those time steps$",
        ),
    ],
)
def test_a_wrong_input_is_one_clear_error(given: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(NETWORK, given, steps=30 if callable(given) else None)  # type: ignore[arg-type]


def test_a_stream_that_sends_nan_or_needs_steps_is_refused() -> None:
    with pytest.raises(UsageError, match="^input 'in': NaN at time step 17 "):
        simulate(NETWORK, lambda start, stop: NAN[start:stop], steps=30)
    with pytest.raises(UsageError, match="^steps: are not given, no input is an array with a length; give steps$"):
        simulate(NETWORK, lambda start, stop: INPUT[start:stop])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Probe("fc", ("s",)), "^record 'fc': no population, input or output of that name; nearest: 'fc1'$"),
        (Probe("zzzz", ("s",)), "^record 'zzzz': .*; known: 'in', 'fc1', 'read', 'spikes', 'level'$"),
        (Probe("fc1", ("q",)), "^record 'fc1': no variable 'q', there are s, v, u, i, count; choose one of them$"),
        (
            Probe("read", ("s",)),
            "^record 'read', variable s: a readout does not spike, it has v, u and i; record 'v' of it$",
        ),
        (
            Probe("spikes", ("u",)),
            "^record 'spikes', variable u: an input or output has no neurons; record 's' of it$",
        ),
        (
            Probe("level", ("count",)),
            "^record 'level', variable count: it sends values, not spikes; record 's' of it$",
        ),
        (Probe("fc1", ("s",), 0), "^record 'fc1': one step in 0, every is at least 1; correct it$"),
    ],
)
def test_a_wrong_record_is_one_clear_error(record: Probe, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(NETWORK, INPUT, record=[record])


def test_wrong_networks_and_states_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^network: dt is -0.001 s, a finite number above 0; correct dt"):
        simulate(replace(NETWORK, dt=-1e-3, timing=replace(TIMING, dt=-1e-3)), INPUT)
    with pytest.raises(
        ModelError, match="^population 'fc1': up to 3 spikes per time step, and a threshold of -1, several spikes"
    ):
        simulate(small(max_spikes=3, theta=-1.0), INPUT)
    state = simulate(NETWORK, INPUT).state
    with pytest.raises(UsageError, match="^state, 'v' of 'fc1': float32 of shape "):
        simulate(NETWORK, np.repeat(INPUT[:, None], 2, axis=1), state=state)
    with pytest.raises(UsageError, match="^the recording: [0-9,]+ GiB, at most 128 GiB; record fewer time steps"):
        simulate(NETWORK, INPUT, steps=10**12)


# VmHWM is the peak of this program alone; getrusage also counts the parent it was forked from
COUNTS_ONLY = """
import re
from pathlib import Path
import numpy as np
from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Identity
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.simulators.encoders import rate_stream

n = 10_000
layer = Population("layer", (n,), neuron("LIF", a_mem=0.9, theta=1.0))
wires = (Projection("in", "layer", Identity((n,))), Projection("layer", "out", Identity((n,))))
timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
net = Network(1e-3, timing, (layer,), wires, (Port("in", (n,)),), (Port("out", (n,)),))
block = rate_stream(np.full(n, 0.3), seed=1)(0, 50)
stream = lambda start, stop: block[np.arange(start, stop) % 50]
counts = simulate(net, stream, steps=STEPS, record=[Probe("layer", ("count",))]).recording.arrays["layer", "count"]
assert counts.min() > 0
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)) // 1024)
"""


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")


@needs_proc
def test_memory_does_not_grow_with_the_steps_of_a_run_that_keeps_counts(root: Path) -> None:
    """A hundredth of the 100,000 steps of the issue needs as much memory as all of them (docs/simulators.md)."""
    peaks = []
    for steps in (200, 2000):
        code = COUNTS_ONLY.replace("STEPS", str(steps))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
        peaks.append(int(done.stdout))
    assert peaks[1] < 500
    assert peaks[1] - peaks[0] < 30


@needs_proc
@pytest.mark.slow
def test_ten_thousand_neurons_for_100_000_steps_stay_under_500_mb(root: Path) -> None:
    code = COUNTS_ONLY.replace("STEPS", "100_000")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert int(done.stdout) < 500


def test_a_network_without_inputs_runs_on_its_biases_alone() -> None:
    alone = Population("alone", (2,), neuron("LIF", a_mem=1.0, bias=[0.3, 0.0], theta=1.0))
    network = Network(1e-3, TIMING, (alone,), (Projection("alone", "out", Identity((2,))),), (), (Port("out", (2,)),))
    found = simulate(network, {}, steps=10).recording.arrays["out", "s"]
    assert np.flatnonzero(found[:, 0]).tolist() == [3, 7]
    assert not found[:, 1].any()


def test_potentials_that_leave_the_numbers_are_said_in_meta() -> None:
    wild = Population("wild", (4,), neuron("LI", a_mem=-1e6, theta=None))
    projections = (Projection("in", "wild", Identity((4,))), Projection("wild", "out", Identity((4,))))
    network = Network(1e-3, TIMING, (wild,), projections, (Port("in", (4,)),), (Port("out", (4,)),))
    assert simulate(network, INPUT[:3]).recording.meta["not_finite"] == []
    assert simulate(network, INPUT).recording.meta["not_finite"] == ["wild"]


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^input 'in': cannot be converted to a NumPy array \('.*'\); give a plain array$"
    ):
        simulate(NETWORK, [[1, 0, 0, 1], [1]])
