"""Outputs of the mapped simulator: parallel readouts with their own delays, every N-th time step, batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_retimed
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.simulators.simulate import Probe
from tests.cases import cases
from tests.quantization.nets import layer, lif
from tests.simulators.test_pieces import equal, spikes

QUICK = MapOptions(method="sequential", effort="fast", relays=False)


def read_out(rng: np.random.Generator, target: str, posts: int, delays: Any) -> Projection:
    weight = freeze(rng.integers(-4, 5, (posts, 4)) / 4)
    return Projection("p", target, Dense(weight), delay_steps=freeze(np.asarray(delays, np.int64)))


def with_read_outs(delays: list[tuple[str, Any]], seed: int = 0, *, fires: bool = True) -> Network:
    """One population that outputs ``a`` and ``b`` hear several times, each with delays of its own."""
    rng = np.random.default_rng(seed)
    cell = lif(a_mem=0.5, theta=0.5) if fires else lif(kind="LI", theta=None, a_mem=0.5)
    made = layer(rng.integers(-8, 9, (4, 3)) / 8, cell)
    outs = [read_out(rng, target, {"a": 2, "b": 3}[target], own) for target, own in delays]
    names = list(dict.fromkeys(target for target, _ in delays))
    ports = tuple(Port(name, ({"a": 2, "b": 3}[name],)) for name in names)
    return replace(made, projections=(made.projections[0], *outs), outputs=ports)


def both(network: Network, every: int = 1, batch: int | None = None, steps: int = 13) -> Any:
    chip = read_chip("loihi2")
    retimed = Retime(delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes).retimed(network)
    quantized, mapped = quantize(retimed, chip), map_retimed(retimed, chip, QUICK)
    inputs, record = spikes(quantized, steps, batch, 1), [Probe("*", ("s", "u", "v"), every)]
    record = [Probe("in", ("s",), every), *record]
    fixed = simulate_fixed(quantized, inputs, record=record).recording
    made = simulate_mapped(quantized, mapped, inputs, record=record)
    equal(fixed, made)
    assert fixed.meta["every"] == made.meta["every"]
    return made


@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize(
    "delays",
    [
        [("a", 0), ("a", 3)],
        [("a", 3), ("a", 0)],
        [("a", 2), ("b", 0), ("a", 0), ("b", 5)],
        [("a", [0, 4, 1, 2]), ("a", 1)],
        [("a", 1), ("a", [0, 4, 1, 2]), ("b", [3, 3, 0, 0])],
    ],
)
def test_parallel_read_outs_each_have_their_delay(delays: list[tuple[str, Any]], fires: bool) -> None:
    made = both(with_read_outs(delays, fires=fires))
    assert made.arrays["a", "s"].any()


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 5), min_size=4, max_size=4)), min_size=1, max_size=5
    ),
    st.integers(0, 999),
    st.integers(1, 5),
    st.sampled_from([None, 1, 3]),
)
@settings(max_examples=cases(12, 25))
def test_any_read_outs_steps_and_batches(
    delays: list[tuple[str, Any]], seed: int, every: int, batch: int | None
) -> None:
    try:
        both(with_read_outs(delays, seed), every, batch)
    except (ModelError, DoesNotFit):
        return


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_of_so_many_steps_the_last_is_kept(every: int) -> None:
    once, some = both(with_read_outs([("a", 0)])), both(with_read_outs([("a", 0)]), every)
    for key, values in once.arrays.items():
        assert some.arrays[key].tolist() == values[every - 1 :: every].tolist()
    assert some.meta["every"] == ({} if every == 1 else {f"{n}/{v}": every for n, v in some.arrays})


def test_progress_is_told_chunk_by_chunk() -> None:
    network, chip, told = with_read_outs([("a", 0)]), read_chip("loihi2"), list[tuple[str, float | None]]()
    retimed = Retime(delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes).retimed(network)
    quantized, mapped = quantize(retimed, chip), map_retimed(retimed, chip, QUICK)
    simulate_mapped(quantized, mapped, spikes(quantized, 40, 2, 0), progress=lambda *own: told.append(own))
    assert told == [("simulate", 0.4), ("simulate", 0.8), ("simulate", 1.0)]
