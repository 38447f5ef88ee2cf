"""A batch over threads: the same bits for any number of them, in every simulator that takes them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators import inputs as of_inputs
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.inputs import from_chunks, open_inputs
from nirbridge.simulators.simulate import prepare_simulator, simulate
from nirbridge.simulators.threads import first_found, is_first_part, run_parts, split_samples
from nirbridge.simulators.types import Probe, SimulationResult
from nirbridge.testing.examples import example_inputs, example_models, example_networks
from nirbridge.testing.strategies import networks
from tests.pieces import small_pieces

EVERYTHING = [Probe("*", ("s", "v", "count"))]


def assert_equal(found: SimulationResult, wanted: SimulationResult) -> None:
    for a, b in ((found.recording, wanted.recording), (found.state, wanted.state)):
        assert list(a.arrays) == list(b.arrays)
        for key, array in a.arrays.items():
            other = b.arrays[key]
            assert (array.dtype, array.shape) == (other.dtype, other.shape), key
            assert np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(other).tobytes(), key
            assert not array.flags.writeable
    assert found.recording.meta == wanted.recording.meta
    assert found.state.step == wanted.state.step


@pytest.mark.parametrize("backend", ["auto", "numpy", "reference"])
@pytest.mark.parametrize("network", example_networks(), ids=["dense", "convolution", "recurrence"])
def test_any_number_of_threads_gives_the_same_bits(network: Network, backend: str) -> None:
    inputs = example_inputs(network, 5)
    simulator = prepare_simulator(network, backend=backend)
    wanted = simulator.run(inputs, record=EVERYTHING)
    counts = [array.sum() for (_, variable), array in wanted.recording.arrays.items() if variable == "count"]
    assert min(counts) > 0
    for threads in (2, 3, 5):
        assert_equal(simulator.run(inputs, record=EVERYTHING, threads=threads), wanted)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from(["auto", "numpy"]))
def test_random_networks_cut_in_time_and_in_samples(network: Network, seed: int, backend: str) -> None:
    rng = np.random.default_rng(seed)
    values = {p.name: (rng.random((6, 4, *p.shape)) < 0.4).astype(np.float32) for p in network.inputs}
    with small_pieces():
        simulator = prepare_simulator(network, backend=backend)
        wanted = simulator.run(values, record=[Probe("*", ("s", "v"))], steps=6)
        first = simulator.run({n: v[:3] for n, v in values.items()}, record=[Probe("*", ("v",))], steps=3, threads=3)
        rest = simulator.run(
            {n: v[3:] for n, v in values.items()},
            record=[Probe("*", ("s", "v"))],
            steps=3,
            state=first.state,
            threads=2,
        )
    for key, array in rest.recording.arrays.items():
        assert array.tobytes() == wanted.recording.arrays[key][3:].tobytes(), key
    for key, array in rest.state.arrays.items():
        assert array.tobytes() == wanted.state.arrays[key].tobytes(), key


def test_integers_over_threads() -> None:
    for quantized in example_models(QuantizedNetwork):
        assert isinstance(quantized, QuantizedNetwork)
        inputs = example_inputs(quantized, 5)
        for backend in ("auto", "reference"):
            wanted = simulate_fixed(quantized, inputs, backend=backend, record=[Probe("*", ("s", "v"))])
            for threads in (2, 5):
                with small_pieces():
                    found = simulate_fixed(
                        quantized, inputs, backend=backend, record=[Probe("*", ("s", "v"))], threads=threads
                    )
                assert_equal(found, wanted)


def test_inputs_that_are_functions_are_called_by_the_callers_thread_alone() -> None:
    network = example_networks()[0]
    arrays = example_inputs(network, 4)
    callers = set()

    def stream_of(values: Any) -> Any:
        source = from_chunks(np.array_split(values, 5))

        def stream(start: int, stop: int) -> Any:
            callers.add(threading.get_ident())
            return source(start, stop)

        return stream

    streams = {name: stream_of(values) for name, values in arrays.items()}
    with small_pieces():
        found = simulate(network, streams, steps=16, threads=4)
    wanted = simulate(network, arrays)
    assert callers == {threading.get_ident()}
    for key, array in found.recording.arrays.items():
        assert array.tobytes() == wanted.recording.arrays[key].astype(array.dtype).tobytes()


@pytest.mark.parametrize(
    ("threads", "found", "hint"),
    [
        (0, "threads: 0, a run takes at least 1", "give 1 or more, or leave it out"),
        (-2, "threads: -2, a run takes at least 1", "give 1 or more, or leave it out"),
        (4, "threads: 4 for 3 samples, a thread takes at least one sample", "give 3"),
        (10**9, "threads: 1,000,000,000 for 3 samples, a thread takes at least one sample", "give 3"),
    ],
)
def test_numbers_of_threads_that_make_no_sense(threads: int, found: str, hint: str) -> None:
    network, (quantized, *_) = example_networks()[0], example_models(QuantizedNetwork)
    assert isinstance(quantized, QuantizedNetwork)
    for run, model in ((simulate, network), (simulate_fixed, quantized)):
        with pytest.raises(UsageError) as error:
            run(model, example_inputs(network, 3), threads=threads)  # type: ignore[operator]
        assert str(error.value) == f"{found}; {hint}"


def test_one_sample_takes_one_thread() -> None:
    network = example_networks()[0]
    with pytest.raises(UsageError, match="threads: 2 for 1 sample, a thread takes at least one sample; leave it out"):
        simulate(network, example_inputs(network), threads=2)


def test_products_of_libraries_have_threads_of_their_own() -> None:
    network = example_networks()[0]
    inputs = example_inputs(network, 3)
    with pytest.raises(UsageError, match="backend 'dense': takes no threads, 2 were requested, its products have"):
        simulate(network, inputs, backend="dense", threads=2)
    with pytest.raises(UsageError, match="library 'array_api_strict': takes no threads"):
        simulate(network, inputs, library="array_api_strict", threads=2)


def test_a_wrong_value_is_named_as_by_one_thread() -> None:
    quantized = example_models(QuantizedNetwork)[0]
    assert isinstance(quantized, QuantizedNetwork)
    inputs = {name: values.astype(np.float32) for name, values in example_inputs(quantized, 4).items()}
    name = next(iter(inputs))
    inputs[name][3, 3].flat[0] = 0.5  # of the last sample, early
    inputs[name][9, 0].flat[0] = 0.25  # of the first sample, late
    texts = []
    for threads in (1, 4):
        with pytest.raises(UsageError) as error, small_pieces():
            simulate_fixed(quantized, inputs, threads=threads)
        texts.append(str(error.value))
    assert "0.5 at time step 3" in texts[0]
    assert texts[0] == texts[1]


def test_the_scan_of_inputs_is_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    network = example_networks()[0]
    shape = network.inputs[0].shape
    monkeypatch.setattr(of_inputs, "SCAN_SHARE", 64)
    monkeypatch.setattr(of_inputs, "SCAN_ELEMENTS", 500)
    monkeypatch.setattr(of_inputs.os, "cpu_count", lambda: 3)
    rng = np.random.default_rng(0)
    for kind, bad, binary in (
        (np.uint8, 2, False),
        (np.uint8, 1, True),
        (np.int8, -1, False),
        (np.float32, 0.5, False),
    ):
        values = (rng.random((40, 3, *shape)) < 0.5).astype(kind)
        values[39, 2].flat[-1] = bad
        alone, shared = (open_inputs(network, values, None, 0, "float32", n) for n in (1, 3))
        assert alone.binary == shared.binary
        assert len(shared.binary) == binary
    values = np.zeros((40, 3, *shape), np.float32)
    values[25, 0].flat[0], values[11, 2].flat[-1] = np.inf, np.nan
    texts = []
    for threads in (1, 3):
        with pytest.raises(UsageError) as error:
            open_inputs(network, values, None, 0, "float32", threads)
        texts.append(str(error.value))
    assert "at time step 11" in texts[0]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_item_found_is_that_of_one_thread(threads: int) -> None:
    later = threading.Event()

    def slow_first(item: int) -> str:
        if item == 2 and threads > 1:
            assert later.wait(10)
        if item == 3:
            later.set()
        return f"item {item}" if item in (2, 3, 7) else ""

    assert first_found(slow_first, range(20), threads) == "item 2"
    assert first_found(lambda item: item > 20, range(20), threads) is None
    assert first_found(bool, [], threads) is None
    with pytest.raises(ZeroDivisionError):
        first_found(lambda item: 1 // (5 - item) > 1, range(20), threads)


def test_an_error_ends_the_other_threads() -> None:
    network = example_networks()[0]
    opened = open_inputs(network, example_inputs(network, 2), None, 0, "float32")
    reached = threading.Event()
    steps: list[int] = []

    def advance(part: int, values: Any, start: int, stop: int) -> None:
        del values, stop
        if part == 0:
            assert reached.wait(10)
            raise KeyboardInterrupt
        steps.append(start)
        reached.set()
        threading.Event().wait(0.01)

    with pytest.raises(KeyboardInterrupt):
        run_parts(opened, split_samples(2, 2), 1, type(opened).read, advance, None)
    assert 1 <= len(steps) < opened.steps
    assert is_first_part()
    with pytest.raises(ZeroDivisionError):
        run_parts(opened, split_samples(2, 2), 1, type(opened).read, lambda part, *_: 1 // (1 - part), None)


@pytest.mark.parametrize(("batch", "threads", "sizes"), [(None, 1, [1]), (7, 3, [2, 2, 3]), (4, 4, [1, 1, 1, 1])])
def test_samples_are_shared_evenly(batch: int | None, threads: int, sizes: list[int]) -> None:
    parts = split_samples(batch, threads)
    assert [p.stop - p.start for p in parts] == sizes
    assert [i for p in parts for i in range(p.start, p.stop)] == list(range(sum(sizes)))
