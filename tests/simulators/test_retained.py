"""What one call makes of a network serves the next call with the same network, and nothing is kept alive by it."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.simulators import Record, prepare, retained, simulate

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
        return prepare(of, **options)

    monkeypatch.setattr("nirbridge.simulators.prepare", counted)
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
    record = [Record("cells", ("v",))]
    wide = [simulate(net, SPIKES, record=record, dtype=d).recording.arrays["cells", "v"].dtype for d in _TYPES]
    assert [str(d) for d in wide] == list(_TYPES)
    backends = [simulate(net, SPIKES, backend=b).recording.meta["backend"] for b in ("reference", "reference")]
    assert backends == ["reference", "reference"]
    assert len(made) == 4


_TYPES = ("float32", "float64", "float32")


def test_what_is_kept_goes_with_the_network() -> None:
    net = network()
    simulate(net, SPIKES)
    assert net in retained._ready
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_large_networks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "BYTES", 100)
    net = network()
    simulate(net, SPIKES)
    assert net not in retained._ready


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
    ready = prepare(network(), backend=backend)
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
    ready, shown = prepare(network()), [Record("in", ("s",)), Record("out", ("s",))]
    wanted = ready.run(SPIKES, record=shown).recording.arrays
    found = ready.run(SPIKES.astype(kind), record=shown).recording.arrays
    for key, array in wanted.items():
        assert found[key].dtype == np.uint8
        assert np.array_equal(found[key], array)
