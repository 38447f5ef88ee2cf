"""Profiles of decays are compared as the chip stores them: time constants per neuron, on loihi1."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.mapping.checker.check import check_mapping
from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.resources import as_stored, distinct_profiles
from nirbridge.pipeline import MapOptions, map_network, quantize_network
from tests.partitioner.cases import network, population

LOIHI = read_chip("loihi1")


def with_time_constants(hidden: int) -> Network:
    """100 inputs, one hidden layer of time constants of 5 to 50 ms at 1 ms per time step, 10 outputs."""
    decay = 1 - 1e-3 / np.random.default_rng(0).uniform(5e-3, 50e-3, hidden)
    layers = [population("h", (hidden,), neuron("LIF", a_mem=decay, theta=1.0)), population("o", (10,))]
    ways = [Projection("in", "h", Dense(np.ones((hidden, 100)))), Projection("h", "o", Dense(np.ones((10, hidden))))]
    return network({"in": (100,)}, layers, ways)


@pytest.mark.parametrize("hidden", [256, 1024])
def test_a_time_constant_per_neuron_needs_the_cores_of_its_stored_decays(hidden: int) -> None:
    net = with_time_constants(hidden)
    parts = {round((1 - float(a)) * 4096) for p in net.populations for a in np.ravel(p.neuron.a_mem)}
    report = partition(net, LOIHI).report
    least = math.ceil(len(parts) / 32)
    assert least < math.ceil(hidden / 32)
    assert report.cores_lower_bound >= least
    assert least <= report.cores <= least + 1


def test_stored_decays_are_those_of_the_quantized_network() -> None:
    """And the checker counts them so."""
    mapped = map_network(with_time_constants(256), LOIHI, MapOptions())
    check_mapping(mapped)
    integers = quantize_network(with_time_constants(256), LOIHI)
    stored = {int(k) for p in integers.populations for k in np.ravel(p.neuron.dv)}
    assert distinct_profiles(as_stored(mapped.network, LOIHI))[0] == len(stored)
    assert max(block.used["decay_profiles"] for block in mapped.partition.blocks) <= 32


def test_decays_are_stored_once_for_all() -> None:
    net = with_time_constants(64)
    once = as_stored(net, LOIHI)
    twice = as_stored(once, LOIHI)
    for a, b in zip(once.populations, twice.populations, strict=True):
        assert np.array_equal(a.neuron.a_mem, b.neuron.a_mem)
        assert np.array_equal(a.neuron.a_syn, b.neuron.a_syn)


def test_chips_without_numbers_or_limit_compare_the_decays_themselves() -> None:
    net = with_time_constants(64)
    assert as_stored(net, dataclasses.replace(LOIHI, numbers=None)) is net
    core = dataclasses.replace(LOIHI.core, decay_profiles=None)
    assert as_stored(net, dataclasses.replace(LOIHI, core=core)) is net
