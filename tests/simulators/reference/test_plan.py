"""The backend used without numba, and that it gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import sim_nets
from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Sparse
from nirbridge.simulators import backends as plan
from nirbridge.simulators.simulate import Probe, prepare_simulator, simulate
from nirbridge.testing import networks
from tests.cases import cases


def recurrent() -> Network:
    """Weights on no grid: another order of sums gives other bits."""
    rng = np.random.default_rng(2)
    cells = Population("cells", (60,), neuron("CubaLIF", a_mem=0.9, g_mem=0.3, a_syn=0.8))
    own = Dense(freeze(rng.normal(size=(60, 60)) * 0.3))
    projections = (
        Projection("in", "cells", Dense(freeze(rng.normal(size=(60, 40)) * 0.5))),
        Projection("cells", "cells", own, delay_steps=freeze(np.int64(1)), is_back=True),
        Projection("cells", "out", Identity((60,))),
    )
    timing = Timing(1e-3, "euler", "to-value", ">", "per-step")
    return Network(1e-3, timing, (cells,), projections, (Port("in", (40,)),), (Port("out", (60,)),))


def off_grid(network: Network) -> Network:
    """The same with weights that no grid holds: another order of sums gives other bits."""

    def moved(op: Operator) -> Operator:
        if isinstance(op, Chain):
            return Chain(tuple(map(moved, op.parts)))
        if isinstance(op, Dense | Conv):
            return replace(op, weight=freeze(np.float32(0.937) * op.weight))
        return replace(op, data=freeze(np.float32(0.937) * op.data)) if isinstance(op, Sparse) else op

    projections = tuple(replace(p, operator=moved(p.operator)) for p in network.projections)
    return replace(network, projections=projections)


def net_of(name: str) -> tuple[Network, dict[str, np.ndarray], int]:
    """A net of the speed suite, shortened, its inputs and steps."""
    if name == "B" and not sim_nets.CNN_FILE.is_file():
        pytest.skip("net B is a file of the shared test data")
    makers = {"A": sim_nets.net_a, "B": sim_nets.net_b, "C": sim_nets.net_c, "D": lambda: sim_nets.net_d(1000, 100)}
    network, steps = off_grid(makers[name]().network), {"A": 12, "B": 8, "C": 80, "D": 100}[name]
    rng = np.random.default_rng(5)
    inputs = {p.name: (rng.random((steps, 2, *p.shape)) < 0.1).astype(np.uint8) for p in network.inputs}
    return network, inputs, steps


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_without_numba_the_nets_of_the_speed_suite_give_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="without it there is nothing to compare the fallback with")
    (network, inputs, steps), record = net_of(name), [Probe("*", ("s", "v", "u", "i"))]
    quick = simulate(network, inputs, steps=steps, record=record)
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    slow = simulate(network, inputs, steps=steps, record=record)
    assert (quick.recording.meta["backend"], slow.recording.meta["backend"]) == ("fast", "numpy")
    assert sum(values.any() for (_, variable), values in slow.recording.arrays.items() if variable == "s") > 1
    for key, values in slow.recording.arrays.items():
        assert np.array_equal(quick.recording.arrays[key], values), key
    for key, values in slow.state.arrays.items():
        assert np.array_equal(quick.state.arrays[key], values), key


@settings(max_examples=cases(20, 40))
@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.booleans())
def test_numpy_alone_gives_the_bits_of_the_reference(network: Network, seed: int, dtype: str, graded: bool) -> None:
    rng = np.random.default_rng(seed)
    draw = rng.normal if graded else lambda size: (rng.random(size) < 0.4).astype(np.uint8)
    inputs = {p.name: draw(size=(9, 2, *p.shape)) for p in network.inputs}
    record = [Probe("*", ("s", "v", "u", "i"))]
    found, wanted = (simulate(network, inputs, record=record, dtype=dtype, backend=b) for b in ("numpy", "reference"))
    for key, values in wanted.recording.arrays.items():
        assert np.array_equal(found.recording.arrays[key], values), key
    for key, values in wanted.state.arrays.items():
        assert np.array_equal(found.state.arrays[key], values), key


def test_a_recurrent_net_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="without it there is nothing to compare the fallback with")
    spikes = (np.random.default_rng(3).random((200, 2, 40)) < 0.2).astype(np.uint8)
    record = [Probe("cells", ("s", "v", "i"))]
    quick = prepare_simulator(recurrent()).run(spikes, record=record).recording
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    slow = prepare_simulator(recurrent()).run(spikes, record=record).recording
    assert slow.arrays["cells", "s"].sum() > 1000
    for key, values in slow.arrays.items():
        assert np.array_equal(quick.arrays[key], values), key


def test_plain_numpy_runs_on_numpy_only() -> None:
    with pytest.raises(UsageError, match="^backend 'numpy': runs on numpy, not on array_api_strict; choose"):
        prepare_simulator(recurrent(), backend="numpy", library="array_api_strict")


def test_the_compiled_backend_says_that_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="^backend 'fast': numba is not installed; install numba"):
        prepare_simulator(recurrent(), backend="fast")
