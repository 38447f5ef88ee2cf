"""Random networks of every operator, record and name: each framework computes them exactly, or refuses them by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nirbridge.emitters.modules.emit import NORSE, SNNTORCH, SPIKINGJELLY, TORCH
from nirbridge.network.model import Network
from tests.emitters.modules.loaded import expected, loaded, ran
from tests.emitters.modules.mixed import mixed_network
from tests.emitters.modules.test_snntorch import refused

pytest.importorskip("snntorch", reason="snntorch is not installed")
pytest.importorskip("norse", reason="norse is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

EMITTERS: dict[str, Any] = {"torch": TORCH, "snntorch": SNNTORCH, "norse": NORSE, "spikingjelly": SPIKINGJELLY}
STEPS, BATCH = 8, 2


def held_exactly(name: str, network: Network, seed: int) -> bool:
    """False for a refusal; spikes are equal in every value, potentials up to rounding."""
    problems = refused(network, EMITTERS[name])
    if problems:
        assert all(problem.subject and problem.found and problem.limit and problem.hint for problem in problems)
        return False
    rng = np.random.default_rng(seed)
    x = {p.name: (rng.random((STEPS, BATCH, *p.shape)) < 0.5).astype(np.float32) for p in network.inputs}
    found, wanted = ran(loaded(EMITTERS[name].emit(network)), network, x), expected(network, x)
    silent = {p.name for p in network.populations if not p.neuron.fires}
    read = {p.target for p in network.projections if p.source in silent}
    for port, values in wanted.items():
        room = 1e-6 * max(1.0, float(np.abs(values).max(initial=0))) if port in read else 0.0
        assert np.abs(found[port] - values.astype(np.float64)).max(initial=0) <= room, port
    return True


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=15, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_any_network_is_held_exactly_or_refused_by_name(seed: int, plain: bool) -> None:
    network = mixed_network(np.random.default_rng(seed), plain=plain)
    assert held_exactly("torch", network, seed)
    for name in ("snntorch", "norse", "spikingjelly"):
        held_exactly(name, network, seed)


def test_most_plain_networks_are_held() -> None:
    held = Counter[str]()
    for seed in range(14):
        network = mixed_network(np.random.default_rng(seed), plain=True)
        held.update(name for name in EMITTERS if held_exactly(name, network, seed))
    assert held["torch"] == 14
    assert all(held[name] >= 6 for name in EMITTERS), held
