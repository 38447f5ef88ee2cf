"""How many spikes one time step can have: the sums behind a neuron that sends several are proved with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import load_chip
from nirbridge.errors import ModelError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Dense, Identity
from nirbridge.quantization import prove, quantize
from nirbridge.quantization.check import verify
from nirbridge.simulators import Record, simulate
from nirbridge.simulators.fixed import simulate_fixed
from tests.quantization.nets import TIMING, layer, lif, one

CHIP = load_chip("loihi2")
MANY = 50


def two_layers(amount: Any, reset: str = "subtract", theta: float = 1.0) -> Network:
    """Two counters that may send ``MANY`` spikes in a time step, and a read-out of both."""
    cells = lif(kind="IF", theta=theta, reset=reset, reset_amount=np.asarray(amount), max_spikes=MANY)
    reader = lif(kind="LI", a_mem=0.0, theta=None, reset="none")
    return Network(
        1.0,
        TIMING,
        (Population("p", (2,), cells), Population("q", (1,), reader)),
        (
            Projection("in", "p", Dense(freeze(np.eye(2))), delay_steps=one()),
            Projection("p", "q", Dense(freeze(np.ones((1, 2)))), delay_steps=one()),
            Projection("q", "out", Identity((1,))),
        ),
        (Port("in", (2,)),),
        (Port("out", (1,)),),
    )


@pytest.mark.parametrize("amount", [0.0625, [1.0, 0.0625], [0.0625, 1.0]])
def test_what_takes_too_little_off_may_send_all_that_is_declared(amount: Any) -> None:
    """Of 1 that arrives in each time step a sixteenth per spike goes: v grows until 16 spikes take off as much."""
    network = two_layers(amount)
    quantized = quantize(network, CHIP)
    assert quantized.populations[0].neuron.max_spikes == MANY
    inputs = np.ones((60, 2), np.uint8)
    wanted = [Record("p", ("s",)), Record("q", ("u",))]
    found = simulate_fixed(quantized, inputs, record=wanted).recording.arrays
    real = simulate(network, inputs, record=wanted[:1], dtype="float64").recording.arrays
    np.testing.assert_array_equal(found["p", "s"], real["p", "s"])
    assert found["p", "s"].max() > 10
    low, high = prove(quantized)["q"].u
    assert low <= found["q", "u"].min()
    assert found["q", "u"].max() <= high


def test_what_takes_enough_off_sends_what_one_time_step_brings() -> None:
    """A threshold of 1 carried and 1 that arrives: 2 spikes, 4 with room for rounding; declared are 50."""
    for network in (two_layers(1.0), two_layers(2.0), two_layers(1.0, reset="to-value")):
        assert quantize(network, CHIP).populations[0].neuron.max_spikes == 4
    assert quantize(two_layers(1.0, reset="none"), CHIP).populations[0].neuron.max_spikes == MANY


def test_one_delay_of_a_target_is_refused() -> None:
    quantized = quantize(layer([[0.7], [0.4]], lif(a_mem=0.5, theta=1.0)), CHIP)
    verify(quantized)
    (projection,) = quantized.projections
    for delays in (np.int64(1), np.array([0, 1], np.int64)):
        late = replace(projection, target_delay_steps=freeze(np.asarray(delays)))
        with pytest.raises(ModelError, match="target_delay_steps"):
            verify(replace(quantized, projections=(late,)))
