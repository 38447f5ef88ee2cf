"""Integers without hops: the arrays of a program are those of the chip, each earlier by the latency of its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.c.options import COptions
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.model import Network
from nirbridge.pipeline import load_chip
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.testing import networks
from tests.cases import cases
from tests.emitters.c.programs import ALL, random_inputs
from tests.emitters.oracles import drawn

OWN_TIME = COptions(hops=False)


def assert_earlier(q: QuantizedNetwork, inputs: Any, steps: int | None = None) -> dict[Any, Any]:
    """The program, and the fixed-point simulator drained: each of its nodes from its latency on."""
    expected = simulate_fixed(q, inputs, record=ALL, steps=steps, drain=True).recording
    found = C.run(C.emit(q, OWN_TIME), inputs, record=ALL, steps=steps)
    assert set(found.arrays) == set(expected.arrays)
    for key, array in expected.arrays.items():
        assert np.array_equal(found.arrays[key], array), key
    assert set(found.meta["latency"].values()) <= {0}
    return dict(expected.arrays)


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits(name: str, root: Any) -> None:
    q = nb.quantize(root / "examples/models" / f"{name}.nir", "loihi2")
    assert max(q.latency.values()) > 1
    arrays = assert_earlier(q, random_inputs(q, 40))
    assert all(arrays[p.name, "s"].any() for p in q.populations)


@pytest.mark.parametrize("seeds", [cases(range(12), range(60))])
def test_drawn_networks(seeds: Any) -> None:
    """Loops, delays of sources, branches of other lengths, biases, adaptations; refused only where a chip refuses."""
    fired = compared = 0
    for seed in seeds:
        try:
            q = nb.quantize(drawn(seed), "loihi2")
        except ModelError:
            continue
        arrays = assert_earlier(q, random_inputs(q, 20, seed=seed))
        fired, compared = fired + sum(bool(a.any()) for (_, v), a in arrays.items() if v == "s"), compared + 1
    assert fired > compared > len(seeds) // 3


@settings(max_examples=cases(8, 60), deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks(), st.sampled_from(["loihi1", "loihi2"]))
def test_random_nir_graphs(network: Network, chip: str) -> None:
    try:
        q = nb.quantize(network, load_chip(chip))
    except (ModelError, DoesNotFit):
        return  # nothing that this chip computes
    if q.inputs:
        assert_earlier(q, random_inputs(q, 12))
