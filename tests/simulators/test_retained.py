"""The cached simulator of a network serves the next call with the same network, and keeps nothing alive."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.simulators import retained
from nirbridge.simulators.simulate import Probe, SimulationResult, prepare_simulator, simulate

SPIKES = (np.random.default_rng(1).random((30, 2, 40)) < 0.2).astype(np.uint8)


def network(size: int = 12) -> Network:
    rng = np.random.default_rng(size)
    cells = Population("cells", (size,), neuron("LIF", a_mem=0.9))
    weight = Dense(freeze(np.round(rng.normal(size=(size, 40)) * 2**8) / 2**9))
    projections = Projection("in", "cells", weight), Projection("cells", "out", Identity((size,)))
    timing = Timing(1e-3, "euler", "to-value", ">", "per-step")
    return Network(1e-3, timing, (cells,), projections, (Port("in", (40,)),), (Port("out", (size,)),))


def count(monkeypatch: pytest.MonkeyPatch) -> list[Network]:
    """The networks that are made ready from now on."""
    made: list[Network] = []

    def counted(of: Network, **options: str) -> object:
        made.append(of)
        return prepare_simulator(of, **options)

    monkeypatch.setattr("nirbridge.simulators.simulate.prepare_simulator", counted)
    return made


def test_the_same_network_is_made_ready_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, net = count(monkeypatch), network()
    first, second = (simulate(net, SPIKES).recording.arrays["out", "s"] for _ in range(2))
    assert len(made) == 1
    assert first.any()
    assert np.array_equal(first, second)
    simulate(replace(net), SPIKES)
    assert len(made) == 2


def test_other_options_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made, net = count(monkeypatch), network()
    record = [Probe("cells", ("v",))]
    wide = [simulate(net, SPIKES, record=record, dtype=d).recording.arrays["cells", "v"].dtype for d in _TYPES]
    assert [str(d) for d in wide] == list(_TYPES)
    backends = [simulate(net, SPIKES, backend=b).recording.meta["backend"] for b in ("reference", "reference")]
    assert backends == ["reference", "reference"]
    assert len(made) == 4


_TYPES = ("float32", "float64", "float32")


def test_what_is_kept_goes_with_the_network() -> None:
    net = network()
    simulate(net, SPIKES)
    assert net in retained._of_thread.ready
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_large_networks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "BYTES", 100)
    net = network()
    simulate(net, SPIKES)
    assert net not in retained._of_thread.ready


def test_what_an_earlier_run_says_it_chose_stays() -> None:
    pytest.importorskip("numba", reason="the reference chooses nothing")
    net = network(400)
    crowded = simulate(net, np.ones((200, 8, 40), np.uint8)).recording.meta["choices"]
    before = str(crowded)
    sparse = simulate(net, np.zeros((200, 8, 40), np.uint8)).recording.meta["choices"]
    assert str(crowded) == before != str(sparse)


@pytest.mark.parametrize("backend", ["numpy", "fast"])
@pytest.mark.parametrize("batch", [1, 3])
def test_no_run_writes_to_what_another_gave_back(backend: str, batch: int) -> None:
    if backend == "fast":
        pytest.importorskip("numba", reason="the compiled backend")
    ready = prepare_simulator(network(), backend=backend)
    spikes = np.repeat(SPIKES[:, :1], batch, axis=1)
    first = ready.run(spikes)
    found = {**first.recording.arrays, **first.state.arrays}
    before = {key: values.copy() for key, values in found.items()}
    second = ready.run(1 - spikes, state=first.state)
    again = ready.run(spikes)
    for key, values in {**second.recording.arrays, **second.state.arrays}.items():
        assert values.flags.writeable is False
        assert not np.shares_memory(values, found[key])
    for key, values in {**again.recording.arrays, **again.state.arrays}.items():
        assert np.array_equal(values, before[key])
        assert np.array_equal(found[key], before[key])
    assert second.state.step == 2 * again.state.step
    assert not np.array_equal(second.state.arrays["cells", "v"], before["cells", "v"])


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int64", "float16", "float64"])
def test_spikes_of_any_type_are_the_same_spikes(kind: str) -> None:
    ready, shown = prepare_simulator(network()), [Probe("in", ("s",)), Probe("out", ("s",))]
    wanted = ready.run(SPIKES, record=shown).recording.arrays
    found = ready.run(SPIKES.astype(kind), record=shown).recording.arrays
    for key, array in wanted.items():
        assert found[key].dtype == np.uint8
        assert np.array_equal(found[key], array)


# -- threads -----------------------------------------------------------------------------------------------------


def _in_threads(count: int, run: Callable[[int], object]) -> list[Any]:
    """What ``run(i)`` gives in thread ``i``; all begin at the same moment."""
    together = threading.Barrier(count)

    def begun(i: int) -> object:
        together.wait(60)
        return run(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begun, range(count)))


def _same(a: SimulationResult, b: SimulationResult) -> bool:
    arrays = [{**r.recording.arrays, **{("state", *k): v for k, v in r.state.arrays.items()}} for r in (a, b)]
    equal = all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
    return equal and arrays[0].keys() == arrays[1].keys() and a.recording.meta == b.recording.meta


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_threads_with_the_same_network_and_others_get_what_one_thread_gets(backend: str) -> None:
    """Same and other networks, other batches, dtypes and densities: each run is the same alone, meta and all."""
    nets = [network(400), network(12)]
    inputs = [np.ones((60, 8, 40), np.uint8), np.zeros((60, 8, 40), np.uint8), SPIKES]
    cases = [(n, i, d) for n in range(2) for i in range(3) for d in ("float32", "float64")]

    def ran(case: tuple[int, int, str]) -> SimulationResult:
        net, which, dtype = case
        record = [Probe("*", ("s",)), Probe("cells", ("v",))]
        return simulate(nets[net], inputs[which], record=record, dtype=dtype, backend=backend)

    alone = {case: ran(case) for case in cases}
    assert len({str(r.recording.meta["choices"]) for r in alone.values()}) > (backend == "auto")

    def all_of(i: int) -> list[bool]:
        turned = cases[i:] + cases[:i]
        return [_same(ran(case), alone[case]) for case in turned * 4]

    found = _in_threads(8, all_of)
    assert all(all(same) for same in found)


def test_threads_may_share_a_prepared_simulator() -> None:
    """Arrays and states are those of one thread; ``meta["choices"]`` may be of a run in another."""
    ready = prepare_simulator(network(400))
    inputs = [(np.random.default_rng(i).random((50, 1 + i % 3, 40)) < 0.3).astype(np.uint8) for i in range(6)]
    alone = [ready.run(x) for x in inputs]

    def all_of(i: int) -> list[bool]:
        found = []
        for k in range(24):
            which = (i + k) % len(inputs)
            ran = ready.run(inputs[which])
            arrays = ran.recording.arrays, ran.state.arrays
            wanted = alone[which].recording.arrays, alone[which].state.arrays
            found += [np.array_equal(a[key], b[key]) for a, b in zip(arrays, wanted, strict=True) for key in b]
        return found

    assert all(all(same) for same in _in_threads(8, all_of))


def test_threads_run_the_integers_and_the_map_of_one_network() -> None:
    from nirbridge import pipeline

    net = pipeline.network_of_shapes("20 dense30 lif dense10 lif")
    spikes = (np.random.default_rng(0).random((20, 20)) < 0.3).astype(np.uint8)

    def ran(backend: str) -> dict[Any, Any]:
        return dict(pipeline.simulate_on_chip(net, spikes, backend=backend, chip="loihi2").arrays)

    alone = {backend: ran(backend) for backend in ("fixed", "mapped")}

    def all_of(i: int) -> list[bool]:
        backend = ("fixed", "mapped")[i % 2]
        found = ran(backend)
        return [np.array_equal(found[key], values) for key, values in alone[backend].items()]

    assert all(all(same) for same in _in_threads(6, all_of))
