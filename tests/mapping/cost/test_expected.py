from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips import read_chip
from nirbridge.chips.model import CoreId, EnergyFigures, TimeFigures
from nirbridge.mapping.cost import costs, missing_figures
from nirbridge.partitioner.cost.axons import HOST
from tests.cases import cases
from tests.mapping.tables import (
    at,
    chip,
    cores_in_rows,
    group_lists,
    hops_by_hand,
    loads_by_hand,
    table,
    walk,
)

ENERGY = EnergyFigures(1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
TIME = TimeFigures(1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 2e5, 1e7)


@settings(max_examples=cases(30, 80), deadline=None)
@given(st.data())
def test_traffic_against_walked_paths(data) -> None:
    on, chips, blocks = chip(3, 2, 2), 2, data.draw(st.integers(1, 6))
    groups = data.draw(group_lists(blocks))
    cores = data.draw(st.permutations(cores_in_rows(on, chips)))[:blocks]
    found = costs(table(groups), cores, on, [1] * blocks, chips=chips)
    loads = [load for load in loads_by_hand(groups, cores, on).values() if load > 0]
    assert found.multicast_hops_per_step == hops_by_hand(groups, cores, on)
    assert found.max_link_load_spikes_per_step == max(loads, default=0.0)
    assert found.mean_link_load_spikes_per_step == pytest.approx(sum(loads) / len(loads) if loads else 0.0)
    away = sum(rate * sum(t != source for t in targets) for source, rate, targets in groups)
    assert found.unicast_spikes_per_step == away
    assert found.traffic_lower_bound <= found.multicast_hops_per_step + 1e-9


@settings(max_examples=cases(20, 60), deadline=None)
@given(st.data())
def test_energy_event_by_event(data) -> None:
    """Every spike of every group sent, one message per destination core, each event paid when it happens."""
    on, blocks = chip(3, 2, 2, energy=ENERGY), data.draw(st.integers(1, 6))
    groups = data.draw(group_lists(blocks))
    neurons = data.draw(st.lists(st.integers(1, 9), min_size=blocks, max_size=blocks))
    cores = data.draw(st.permutations(cores_in_rows(on)))[:blocks]
    paid = sum(n * (ENERGY.neuron_access_j + ENERGY.neuron_update_j) for n in neurons)
    for source, rate, targets in groups:
        paid += 0 if source == HOST else rate * ENERGY.spike_j
        for target in targets:
            paid += 0 if source == HOST else rate * ENERGY.axon_out_j
            paid += 3 * rate * ENERGY.synaptic_op_j
            for _, direction in walk((0, 0) if source == HOST else at(cores[source], on), at(cores[target], on)):
                paid += rate * (ENERGY.hop_x_j if direction[1] == "x" else ENERGY.hop_y_j)
    found = costs(table(groups), cores, on, neurons)
    assert found.energy_per_step_j == pytest.approx(paid, rel=1e-12)
    assert found.energy_per_step_j == sum(found.energy_breakdown_j.values())
    assert found.time_per_step_s is None
    assert dict(found.time_breakdown_s) == {}


@settings(max_examples=cases(20, 60), deadline=None)
@given(st.data())
def test_time_is_the_busiest_core_then_the_busiest_link_then_the_barrier(data) -> None:
    on, blocks = chip(3, 2, 2, time=TIME), data.draw(st.integers(1, 6))
    groups = data.draw(group_lists(blocks))
    neurons = data.draw(st.lists(st.integers(1, 9), min_size=blocks, max_size=blocks))
    cores = data.draw(st.permutations(cores_in_rows(on)))[:blocks]
    work = [n * TIME.neuron_update_s for n in neurons]
    links: dict[object, float] = {}
    for source, rate, targets in groups:
        if source != HOST:
            work[source] += rate * TIME.spike_s + rate * len(targets) * TIME.axon_out_s
        for target in targets:
            work[target] += rate * TIME.axon_in_s + 3 * rate * TIME.synaptic_op_s
            for link in walk((0, 0) if source == HOST else at(cores[source], on), at(cores[target], on)):
                cost = TIME.hop_x_s if link[1][1] == "x" else TIME.hop_y_s
                links[link] = links.get(link, 0.0) + rate * cost
    found = costs(table(groups), cores, on, neurons)
    expected = max(work) + max(links.values(), default=0.0) + TIME.barrier_s
    assert found.time_per_step_s == pytest.approx(expected, rel=1e-12)
    assert found.time_per_step_s == sum(found.time_breakdown_s.values())
    assert found.energy_per_step_j is None


def test_the_busiest_core_is_that_of_the_largest_sum_not_of_the_largest_part() -> None:
    figures = TimeFigures(synaptic_op_s=1.0, neuron_update_s=1.0)
    on = chip(3, 1, time=figures)
    axons = table([(HOST, 2.0, [0]), (HOST, 1.0, [1])])
    found = costs(axons, cores_in_rows(on)[:3], on, [1, 5, 7])
    assert dict(found.time_breakdown_s) == {"synaptic operations": 3.0, "neuron updates": 5.0}
    assert found.time_per_step_s == 8.0


def test_figures_that_are_not_known_are_left_out_and_named() -> None:
    on = chip(3, 1, energy=EnergyFigures(spike_j=2.0))
    found = costs(table([(0, 3.0, [1])]), cores_in_rows(on)[:2], on, [4, 4])
    assert dict(found.energy_breakdown_j) == {"spikes": 6.0}
    assert found.energy_per_step_j == 6.0
    missing = missing_figures(on)
    assert missing["energy"] == (
        "synaptic operations",
        "neuron accesses",
        "neuron updates",
        "axons out",
        "hops x",
        "hops y",
    )
    assert missing["time"][-1] == "barrier"
    assert missing_figures(read_chip("loihi1")) == {"energy": (), "time": ()}


def test_spikes_of_neurons_without_targets_can_be_given() -> None:
    on = chip(3, 1, energy=EnergyFigures(spike_j=1.0))
    axons, cores = table([(0, 3.0, [1])]), cores_in_rows(on)[:2]
    assert costs(axons, cores, on, [4, 4]).energy_per_step_j == 3.0
    assert costs(axons, cores, on, [4, 4], spikes_per_block=[3.0, 2.0]).energy_per_step_j == 5.0


def test_one_step_of_two_cores_of_loihi1_by_hand() -> None:
    """10 neurons send 1 spike a step in all to 5 neurons two tiles to the east and one to the south."""
    loihi, cores = read_chip("loihi1"), [CoreId(0, 0, 0, 0), CoreId(0, 2, 1, 3)]
    found = costs(table([(0, 1.0, [1])], synapses_per_entry=5), cores, loihi, [10, 5])
    energy = 5 * 35.5e-12 + 15 * (51.2e-12 + 21.6e-12) + 69.3e-12 + 111e-12 + 2 * 3.0e-12 + 4.2e-12
    assert found.energy_per_step_j == pytest.approx(energy, rel=1e-12)
    sender, receiver, way = 10 * 9.7e-9 + 30e-9 + 5.1e-9, 16e-9 + 5 * 3.8e-9, 2 * 4.1e-9 + 6.5e-9
    barrier = 1.0e-6  # two tiles in use
    assert found.time_per_step_s == pytest.approx(max(sender + way, receiver + way) + barrier, rel=1e-12)
    assert found.time_breakdown_s["neuron accesses"] == pytest.approx(60e-9)
    assert found.time_breakdown_s["hops x"] == pytest.approx(8.2e-9)
    assert found.multicast_hops_per_step == 3
    assert math.isclose(found.mean_link_load_spikes_per_step, 1.0)


@settings(max_examples=cases(20, 60), deadline=None)
@given(st.data())
def test_overlapped_time_is_that_of_work_spread_evenly(data) -> None:
    """Against the queues of evenly spread work, looked at in many moments; links take no time."""
    figures = replace(TIME, hop_x_s=None, hop_y_s=None, overlap=True, barrier_s=((1, 3.0), (2, 5.0), (4, 9.0)))
    on, blocks = chip(3, 2, 2, time=figures), data.draw(st.integers(1, 6))
    groups = data.draw(group_lists(blocks))
    neurons = data.draw(st.lists(st.integers(1, 9), min_size=blocks, max_size=blocks))
    cores = data.draw(st.permutations(cores_in_rows(on)))[:blocks]
    sending = [n * figures.neuron_update_s for n in neurons]
    arriving: list[list[tuple[int, float]]] = [[] for _ in range(blocks)]
    for source, rate, targets in groups:
        if source != HOST:
            sending[source] += rate * figures.spike_s + rate * len(targets) * figures.axon_out_s
        for target in targets:
            arriving[target].append((source, rate * figures.axon_in_s + 3 * rate * figures.synaptic_op_s))
    ends = [*sending]
    for own in arriving:
        for moment in (0.0, *np.linspace(0, max(sending), 50), *sending):
            after = [(sending[s] if s != HOST else 0.0, work) for s, work in own]
            left = sum(work * (1 - moment / span) for span, work in after if span > moment)
            left += sum(work for span, work in after if span == 0 and moment == 0)
            ends.append(moment + left if left else 0.0)
    tiles = len({core[:3] for core in cores})
    barrier = 9.0 if tiles >= 4 else 5.0 if tiles >= 2 else 3.0
    found = costs(table(groups), cores, on, neurons)
    assert found.time_per_step_s == pytest.approx(max(ends) + barrier, rel=1e-9)
    assert found.time_per_step_s == sum(found.time_breakdown_s.values())


def test_operations_are_paid_by_kind_where_the_chip_has_figures_of_it() -> None:
    energy = EnergyFigures(synaptic_op_j=10.0, synaptic_op_sparse_j=1.0)
    ops = {"dense": np.array([2.0]), "sparse": np.array([3.0]), "convolution": np.array([5.0])}
    axons = replace(table([(HOST, 1.0, [0])]), ops_by_kind=ops)
    on = chip(2, 1, energy=energy)
    found = costs(axons, cores_in_rows(on)[:1], on, [1])
    assert dict(found.energy_breakdown_j) == {"synaptic operations": 70.0, "sparse synaptic operations": 3.0}
