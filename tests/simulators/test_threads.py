"""A batch over threads: the same bits for any number of them, in every simulator that takes them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nirbridge.arrays import KEPT, freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators import crew as of_crew
from nirbridge.simulators import inputs as of_inputs
from nirbridge.simulators import threads as of_threads
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.inputs import Inputs, from_chunks, open_inputs
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


def _opened(network: Network, values: Any, threads: int) -> Inputs:
    with Crew(threads) as crew:
        return open_inputs(network, values, None, 0, "float32", crew)


def test_the_scan_of_inputs_is_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    network = example_networks()[0]
    shape = network.inputs[0].shape
    monkeypatch.setattr(of_inputs, "SCAN_SHARE", 64)
    monkeypatch.setattr(of_inputs, "SCAN_ELEMENTS", 500)
    monkeypatch.setattr(of_threads.os, "cpu_count", lambda: 3)
    rng = np.random.default_rng(0)
    for kind, bad, binary in (
        (np.uint8, 2, False),
        (np.uint8, 1, True),
        (np.int8, -1, False),
        (np.float32, 0.5, False),
    ):
        values = (rng.random((40, 3, *shape)) < 0.5).astype(kind)
        values[39, 2].flat[-1] = bad
        alone, shared = (_opened(network, values, n) for n in (1, 3))
        assert alone.binary == shared.binary
        assert len(shared.binary) == binary
    values = np.zeros((40, 3, *shape), np.float32)
    values[25, 0].flat[0], values[11, 2].flat[-1] = np.inf, np.nan
    texts = []
    for threads in (1, 3):
        with pytest.raises(UsageError) as error:
            _opened(network, values, threads)
        texts.append(str(error.value))
    assert "at time step 11" in texts[0]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_item_found_is_that_of_one_thread(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    later = threading.Event()

    def slow_first(item: int) -> str:
        if item == 2 and threads > 1:
            assert later.wait(10)
        if item == 3:
            later.set()
        return f"item {item}" if item in (2, 3, 7) else ""

    monkeypatch.setattr(of_threads.os, "cpu_count", lambda: 4)
    with Crew(threads) as crew:
        assert first_found(slow_first, range(20), crew) == "item 2"
        assert first_found(lambda item: item > 20, range(20), crew) is None
        assert first_found(bool, [], crew) is None
        with pytest.raises(ZeroDivisionError):
            first_found(lambda item: 1 // (5 - item) > 1, range(20), crew)


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

    with pytest.raises(KeyboardInterrupt), Crew(2) as crew:
        run_parts(crew, opened, split_samples(2, 2), 1, type(opened).read, advance, None)
    assert 1 <= len(steps) < opened.steps
    assert is_first_part()
    with pytest.raises(ZeroDivisionError), Crew(2) as crew:
        run_parts(crew, opened, split_samples(2, 2), 1, type(opened).read, lambda part, *_: 1 // (1 - part), None)


def wide_network() -> Network:
    """6 inputs to 150 neurons: several blocks of weights."""
    rng, shape = np.random.default_rng(5), (150,)
    weight = freeze(rng.normal(0.1, 0.4, (150, 6)).astype(np.float32))
    edges = Projection("in", "wide", Dense(weight)), Projection("wide", "out", Identity(shape))
    cells = Population("wide", shape, neuron("LIF", a_mem=0.9))
    return Network(1e-3, example_networks()[0].timing, (cells,), edges, (Port("in", (6,)),), (Port("out", shape),))


IN_PLACE = [*example_networks(), wide_network()]


@pytest.mark.parametrize("network", IN_PLACE, ids=["dense", "convolution", "recurrence", "wide"])
@pytest.mark.parametrize("kind", [np.uint8, np.bool_, np.float32])
def test_shares_of_one_array_are_read_in_place(network: Network, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
    from nirbridge.simulators.compiled import dense_layer

    rng = np.random.default_rng(7)
    inputs = {p.name: (rng.random((40, 7, *p.shape)) < 0.3).astype(kind) for p in network.inputs}
    wanted = prepare_simulator(network, backend="reference").run(inputs, record=EVERYTHING)
    for events in (dense_layer.EVENTS, 390):  # few of them at a time
        monkeypatch.setattr(dense_layer, "EVENTS", events)
        simulator = prepare_simulator(network)
        for threads in (1, 2, 3, 7):
            found = simulator.run(inputs, record=EVERYTHING, threads=threads)
            for key, array in found.recording.arrays.items():
                assert array.tobytes() == wanted.recording.arrays[key].tobytes(), (key, threads)
            for key, array in found.state.arrays.items():
                assert array.tobytes() == wanted.state.arrays[key].tobytes(), (key, threads)


def test_few_events_at_a_time() -> None:
    pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
    from nirbridge.simulators.compiled import dense_layer

    layer = prepare_simulator(example_networks()[0])._engine.layers["it's 1"]
    weights = layer.stage.pre * layer.stage.block
    assert weights < dense_layer.EVENTS
    assert [layer._stretch(10, n) for n in (0, dense_layer.EVENTS)] == [10, 10]
    assert [layer._stretch(10, n * dense_layer.EVENTS) for n in (2, 5, 100)] == [5, 2, 1]
    layer.stage.pre = dense_layer.EVENTS
    assert layer._stretch(10, 5 * dense_layer.EVENTS) == 10


def test_a_crew_starts_its_threads_once_and_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    alive: list[int] = []
    start = of_crew.start_new_thread

    def counted(function: Any, args: tuple[Any, ...]) -> int:
        def body(*own: Any) -> None:
            alive.append(args[0])
            try:
                function(*own)
            finally:
                alive.remove(args[0])

        started.append(args[0])
        return start(body, args)

    monkeypatch.setattr(of_crew, "start_new_thread", counted)
    seen: dict[int, set[int]] = {k: set() for k in range(3)}
    errors: dict[int, BaseException] = {}
    with Crew(3) as crew:
        assert started == []
        for count in (1, 2, 3, 3, 2):
            crew.run(lambda part: seen[part].add(threading.get_ident()), count, errors)
        assert started == [1, 2]
        assert sorted(alive) == [1, 2]
    assert [len(idents) for idents in seen.values()] == [1, 1, 1]
    assert len(set.union(*seen.values())) == 3
    assert seen[0] == {threading.get_ident()}
    assert not errors
    for _ in range(1000):
        if not alive:
            break
        threading.Event().wait(0.01)
    assert not alive


def test_a_system_that_starts_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    start, network = of_crew.start_new_thread, example_networks()[0]

    def few(function: Any, args: tuple[Any, ...]) -> int:
        if args[0] == 2:
            raise RuntimeError("can't start new thread")
        return start(function, args)

    monkeypatch.setattr(of_crew, "start_new_thread", few)
    with pytest.raises(UsageError) as error:
        simulate(network, example_inputs(network, 4), threads=4)
    assert str(error.value) == "threads: 4, the system starts no more than 2; give fewer"
    monkeypatch.undo()
    simulate(network, example_inputs(network, 4), threads=4)


@pytest.mark.parametrize(("steps", "stretch", "ranges"), [
    (100, 47, [(0, 47), (47, 100)]), (100, 94, [(0, 100)]), (100, 50, [(0, 50), (50, 100)]), (3, 5, [(0, 3)]),
    (5, 2, [(0, 2), (2, 4), (4, 5)]), (7, 4, [(0, 4), (4, 7)]), (5, 4, [(0, 5)]), (3, 1, [(0, 1), (1, 2), (2, 3)]),
])  # fmt: skip
def test_a_short_last_stretch_belongs_to_the_one_before(steps: int, stretch: int, ranges: list[Any]) -> None:
    network = example_networks()[0]
    taken: list[tuple[int, int]] = []
    opened = open_inputs(network, example_inputs(network, 2), steps, 0, "float32")
    advance = lambda part, values, start, stop: taken.append((start, stop))  # noqa: E731
    run_parts(Crew(1), opened, split_samples(2, 1), stretch, Inputs.read, advance, None)
    assert taken == ranges


def test_batches_of_several_sizes_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = example_networks()[0]
    simulator = prepare_simulator(network)
    made: list[int] = []
    engine = simulator._engine
    blank = engine._made_blank
    monkeypatch.setattr(engine, "_made_blank", lambda batch: (made.append(batch), blank(batch))[1])
    for _ in range(3):
        for batch in (5, 3, 8):
            simulator.run(example_inputs(network, batch), threads=2)
    assert sorted(made) == [1, 2, 3, 4]
    for batch in (9, 6, 7):
        simulator.run(example_inputs(network, batch))
    assert len(engine._blank) <= KEPT


@pytest.mark.parametrize(("batch", "threads", "sizes"), [(None, 1, [1]), (7, 3, [2, 2, 3]), (4, 4, [1, 1, 1, 1])])
def test_samples_are_shared_evenly(batch: int | None, threads: int, sizes: list[int]) -> None:
    parts = split_samples(batch, threads)
    assert [p.stop - p.start for p in parts] == sizes
    assert [i for p in parts for i in range(p.start, p.stop)] == list(range(sum(sizes)))
