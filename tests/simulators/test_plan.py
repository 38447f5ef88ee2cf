"""Which backend runs where numba is missing, and that it gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.simulators import Record, plan, prepare


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


def test_without_numba_the_fallback_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="without it there is nothing to compare the fallback with")
    spikes = (np.random.default_rng(3).random((200, 2, 40)) < 0.2).astype(np.uint8)
    record = [Record("cells", ("s", "v", "i"))]
    quick = prepare(recurrent()).run(spikes, record=record).recording
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    slow = prepare(recurrent()).run(spikes, record=record).recording
    assert (quick.meta["backend"], slow.meta["backend"]) == ("fast", "reference")
    assert slow.arrays["cells", "s"].sum() > 1000
    for key, values in slow.arrays.items():
        assert np.array_equal(quick.arrays[key], values), key


def test_the_compiled_backend_says_that_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="^backend 'fast': numba is not installed; install nirbridge"):
        prepare(recurrent(), backend="fast")
