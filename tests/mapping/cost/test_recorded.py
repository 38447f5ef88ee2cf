"""Costs of recorded spikes against a simulation of every spike, and by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import UsageError
from nirbridge.mapping.cost import EventCounter, StepCosts, at_end, events_of, price, recorded, step_costs, worst_case
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Reshape
from nirbridge.partitioner.model import Slice
from nirbridge.pipeline.map import map_network
from nirbridge.pipeline.options import MapOptions
from tests.cases import cases
from tests.mapping.cost.event_by_event import Step, sets
from tests.mapping.hand_made import chip_with, made, network_of, population
from tests.mapping.placement.test_neuron_moves import recurrent, sparse
from tests.profiling.nets import readout_only

LOIHI1 = read_chip("loihi1")


def dense(rows: int, columns: int) -> Dense:
    return Dense(freeze(np.ones((rows, columns))))


def two_layers() -> Network:
    ways = [
        Projection("in", "a", dense(3, 2), delay_steps=freeze(0)),
        Projection("a", "b", dense(2, 3), delay_steps=freeze(0)),
    ]
    return network_of([population("a", 3), population("b", 2)], ways, [Port("in", (2,))])


def on_two_cores(chip: Chip = LOIHI1) -> MappedNetwork:
    """a at tile (0, 0), b two tiles to the east and one to the north: 3 links."""
    mapped = made(two_layers(), chip, [[Slice("a", ((0, 3),))], [Slice("b", ((0, 2),))]])
    return replace(mapped, cores=(CoreId(0, 0, 0, 0), CoreId(0, 2, 1, 0)))


def spikes_of(mapped: MappedNetwork, steps: int, rate: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    owners = (*mapped.network.inputs, *mapped.network.populations)
    return {p.name: rng.random((steps, *p.shape)) < rate for p in owners}


def both(paid: StepCosts) -> tuple[Any, Any]:
    """Energy and time of a chip that has figures of both."""
    assert paid.energy_j is not None
    assert paid.time_s is not None
    return paid.energy_j, paid.time_s


def test_two_cores_by_hand() -> None:
    """Inputs reach a at the begin; the second neuron of a fires; its message reaches b while a still computes."""
    mapped = on_two_cores()
    spikes = {"in": np.array([[1, 1]]), "a": np.array([[0, 1, 0]]), "b": np.array([[0, 0]])}
    paid = step_costs(mapped, spikes)
    neurons = 5 * (51.2 + 21.6)
    synapses = (2 * 3 + 2) * 35.5  # each input reaches the 3 neurons of a, one spike of a both of b
    energy = neurons + synapses + 69.3 + 111.0 + 2 * 3.0 + 4.2
    assert paid.energy_j == pytest.approx([energy * 1e-12], rel=1e-12)
    a_sends = 3 * 9.7 + 30.0 + 5.1
    a_receives = 2 * (16.0 + 3 * 3.8)
    b_receives = (2 * 9.7 + 30.0 + 5.1) + (2 * 4.1 + 6.5) + 16.0 + 2 * 3.8
    assert max(a_sends, a_receives) < b_receives
    assert paid.time_s == pytest.approx([(b_receives + 1000.0) * 1e-9], rel=1e-12)  # two tiles in use: 1.0 us
    parts = {kind: float(values[0]) * 1e9 for kind, values in paid.time_parts_s.items() if values[0]}
    assert parts == pytest.approx(
        {
            "neuron accesses": 12.0, "neuron updates": 7.4, "spikes": 30.0, "axons out": 5.1, "hops x": 8.2,
            "hops y": 6.5, "axons in": 16.0, "synaptic operations": 7.6, "barrier": 1000.0,
        }
    )  # fmt: skip


def test_a_neuron_that_is_only_accessed_costs_less() -> None:
    mapped = on_two_cores()
    spikes = {"in": np.zeros((2, 2)), "a": np.array([[0, 0, 1], [0, 0, 1]]), "b": np.zeros((2, 2))}
    idle = {"a": np.array([[0, 1, 1], [1, 1, 1]])}
    energy, time = both(step_costs(mapped, spikes, idle))
    assert energy[1] - energy[0] == pytest.approx(21.6e-12)
    assert time[1] - time[0] == pytest.approx(3.7e-9)  # it is computed before the neuron that fires


def mapped_case(network: Network, **changed: Any) -> MappedNetwork:
    chips = changed["mesh"]["chips_max"] if "board" in changed else 1
    options = MapOptions(effort="fast", placement_only=True, retime="never", chips=chips)
    return map_network(network, chip_with("loihi1", **changed), options)


def convolutions() -> Network:
    rng = np.random.default_rng(5)
    conv = Conv(freeze(rng.normal(size=(3, 2, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 4, 4))
    ways = [
        Projection("in", "a", conv, delay_steps=freeze(0)),
        Projection("a", "b", dense(5, 48), delay_steps=freeze(0)),
        Projection("b", "a", sparse(rng, 48, 5, 0.3), delay_steps=freeze(1), is_back=True),
    ]
    ways[1] = replace(ways[1], operator=Chain((Reshape((3, 4, 4), (48,)), dense(5, 48))))
    ways[2] = replace(ways[2], operator=Chain((sparse(rng, 48, 5, 0.3), Reshape((48,), (3, 4, 4)))))
    return network_of([population("a", 3, 4, 4), population("b", 5)], ways, [Port("in", (2, 4, 4))])


@pytest.mark.parametrize(
    ("network", "changed"),
    [
        (recurrent(1), {"core": {"neurons": 9}}),
        (recurrent(2), {"core": {"neurons": 6}, "mesh": {"width_tiles": 3, "height_tiles": 2, "cores_per_tile": 2}}),
        (recurrent(3), {"core": {"neurons": 13}, "mesh": {"width_tiles": 2, "height_tiles": 1, "cores_per_tile": 1,
                        "chips_max": 2}, "board": {"link_j": 50e-12, "link_s": 90e-9}}),
        (recurrent(5), {"core": {"neurons": 11}, "mesh": {"width_tiles": 1, "height_tiles": 1, "cores_per_tile": 1,
                        "chips_max": 4}, "board": {"places": [[0, 0], [1, 0], [0, 1], [1, 1]], "link_s": 900e-9},
                        "source": {"board.places": "this test"}}),
        (convolutions(), {"core": {"neurons": 20}}),
        (convolutions(), {"core": {"neurons": 20}, "synapses": {"shared_kernels": True}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_every_step_against_a_simulation_of_every_spike(network: Network, changed: dict[str, Any], rate: float) -> None:
    mapped = mapped_case(network, **changed)
    spikes = spikes_of(mapped, 6, rate, 3)
    updated = {p.name: np.random.default_rng(4).random((6, *p.shape)) < 0.7 for p in mapped.network.populations}
    paid = step_costs(mapped, spikes, updated)
    energy, time = both(paid)
    for step in range(6):
        idle = frozenset(sets(updated, step, present=False))
        rival = Step(mapped, sets(spikes, step), idle)
        assert energy[step] == pytest.approx(sum(rival.energy.values()), rel=1e-9)
        assert time[step] == pytest.approx(rival.time, rel=1e-9)
    for total, parts in ((energy, paid.energy_parts_j), (time, paid.time_parts_s)):
        assert np.sum(list(parts.values()), axis=0) == pytest.approx(total, rel=1e-12)


def test_the_whole_is_the_sum_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = mapped_case(recurrent(1), core={"neurons": 9})
    spikes = spikes_of(mapped, 20, 0.3, 1)
    energy, time = both(price(events_of(mapped, spikes), mapped.chip))
    monkeypatch.setattr(recorded, "MESSAGES_AT_ONCE", 30)
    assert len(list(EventCounter.of(mapped).pieces(spikes))) > 5
    of_pieces = both(step_costs(mapped, spikes))
    assert np.array_equal(of_pieces[0], energy)
    assert of_pieces[1] == pytest.approx(time, rel=1e-12)
    single = [both(step_costs(mapped, {n: a[t : t + 1] for n, a in spikes.items()}))[0] for t in range(20)]
    assert np.array_equal(np.concatenate(single), energy)


@cache
def nine_on_a_core(overlap: bool) -> MappedNetwork:
    return mapped_case(recurrent(4), core={"neurons": 9}, time={"overlap": overlap})


@settings(max_examples=cases(20, 40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.booleans())
def test_more_spikes_never_cost_less_and_the_worst_case_bounds_them(seed: int, rate: float, overlap: bool) -> None:
    mapped = nine_on_a_core(overlap)
    some = spikes_of(mapped, 4, rate, seed)
    more = {
        name: a | b for (name, a), b in zip(some.items(), spikes_of(mapped, 4, 0.2, seed + 1).values(), strict=True)
    }
    worst = worst_case(mapped)
    for a, b, c in zip(
        *(both(paid) for paid in (step_costs(mapped, some), step_costs(mapped, more), worst.costs)), strict=True
    ):
        assert (a <= b * (1 + 1e-12)).all()
        assert (b <= c * (1 + 1e-12)).all()
    assert worst.time_limit_s is not None
    assert both(worst.costs)[1][0] <= worst.time_limit_s * (1 + 1e-12)


def test_readouts_of_the_host_send_nothing_in_the_worst_case() -> None:
    """A population without spikes whose potentials the host reads has neurons to compute, and no spike."""
    mapped = map_network(readout_only(np.full((2, 3), 0.5)), LOIHI1, MapOptions(effort="fast"))
    (population,) = mapped.network.populations
    assert not population.neuron.fires
    counter = EventCounter.of(mapped)
    events = counter.every_neuron_fires()
    assert (events.spikes.sum(), events.axons_out.sum(), events.neuron_updates.sum()) == (0, 0, 2)
    assert (events.axons_in.sum(), counter.numbering.sends) == (3, {population.name: False, "in": True})
    spikes = {"in": np.ones((1, 3))}
    for a, b in zip(both(step_costs(mapped, spikes)), both(worst_case(mapped).costs), strict=True):
        assert (a <= b).all()


def test_ranges_enclose_the_figures() -> None:
    mapped = mapped_case(convolutions(), core={"neurons": 20})
    spikes = spikes_of(mapped, 5, 0.3, 2)
    chips = (at_end(LOIHI1, "low"), LOIHI1, at_end(LOIHI1, "high"))
    for low, own, high in zip(*(both(step_costs(mapped, spikes, None, on)) for on in chips), strict=True):
        assert (low < own).all()
        assert (own <= high).all()


def test_axes_between_steps_and_neurons_are_further_steps() -> None:
    mapped = on_two_cores()
    spikes = spikes_of(mapped, 6, 0.5, 7)
    batched = {name: a.reshape(3, 2, *a.shape[1:]) for name, a in spikes.items()}
    assert np.array_equal(both(step_costs(mapped, batched)), both(step_costs(mapped, spikes)))


def test_no_steps_and_no_spikes() -> None:
    mapped = on_two_cores()
    none = {"in": np.zeros((0, 2)), "a": np.zeros((0, 3)), "b": np.zeros((0, 2))}
    assert len(both(step_costs(mapped, none))[1]) == 0
    silent = {name: np.zeros((2, *a.shape[1:])) for name, a in none.items()}
    assert step_costs(mapped, silent).time_s == pytest.approx([1e-6 + 3 * 9.7e-9] * 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"c": np.zeros((1, 2))}, "spikes of 'c': no such input or population, the map has 'a', 'b', 'in'"),
        ({"a": None}, "spikes of 'a': missing; record its spikes, 's'"),
        ({"a": np.zeros((1, 4))}, "spikes of 'a': shape (1, 4), 'a' has shape (3,); give [steps, *shape]"),
        ({"a": np.zeros((2, 3))}, "spikes: of 1, 2 time steps, all have as many"),
    ],
)
def test_wrong_spikes_are_refused(wrong: dict[str, Any], message: str) -> None:
    spikes = {"in": np.zeros((1, 2)), "a": np.zeros((1, 3)), "b": np.zeros((1, 2))} | wrong
    with pytest.raises(UsageError) as caught:
        step_costs(on_two_cores(), {name: a for name, a in spikes.items() if a is not None})
    assert str(caught.value) == message


def test_a_chip_without_figures_has_no_totals() -> None:
    bare = replace(LOIHI1, energy=type(LOIHI1.energy)(), time=type(LOIHI1.time)())
    paid = step_costs(on_two_cores(bare), spikes_of(on_two_cores(), 2, 0.5, 0))
    assert (paid.energy_j, paid.time_s, dict(paid.energy_parts_j), dict(paid.time_parts_s)) == (None, None, {}, {})
    assert worst_case(on_two_cores(bare)).time_limit_s is None
