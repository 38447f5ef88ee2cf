"""Reservoirs of the benchmark: their shape, and their connectivity counted neuron by neuron."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.mapping_page import reservoirs
from benchmarks.reservoirs import FAN_IN, ReservoirResult, connectivity, cores_of_neurons, reservoir, sources
from nirbridge.chips import read_chip
from nirbridge.pipeline import MapOptions, map_network


@pytest.mark.parametrize("kind", ["ring", "grid", "uniform"])
def test_sources_depend_on_the_seed_alone_and_are_neurons(kind: str) -> None:
    own = sources(kind, 1000, 3)
    assert own.shape == ((31 * 31 if kind == "grid" else 1000), FAN_IN)
    assert own.min() >= 0
    assert own.max() < len(own)
    assert np.array_equal(own, sources(kind, 1000, 3))
    assert not np.array_equal(own, sources(kind, 1000, 4))


def test_the_connectivity_of_a_map_is_that_of_its_cores() -> None:
    own = sources("ring", 1100, 0)
    mapped = map_network(reservoir(own), read_chip("loihi1"), MapOptions(effort="fast"))
    part = cores_of_neurons(mapped)
    assert len(mapped.cores) == 2
    assert [int((part == k).sum()) for k in (0, 1)] == [b.used["neurons"] for b in mapped.partition.blocks]
    assert all(mapped.where("reservoir", v) == (mapped.cores[part[v]],) for v in range(0, 1100, 100))
    targets: dict[int, set[int]] = {}
    for v, row in enumerate(own.tolist()):
        for s in row:
            targets.setdefault(s, set()).add(int(part[v]))
    assert connectivity(own, part) == sum(len(cores) - 1 for cores in targets.values())


def test_the_page_has_a_row_for_each_reservoir() -> None:
    found = ReservoirResult("ring", 10_000, 0, "loihi1", "max", 10, 10, 9_300, 10_000, 4.25)
    row = "| ring 10,000 | 0 | loihi1 | max | 10 | 10 | 9,300 | 10,000 | -7.0% | 4.2 |\n"
    assert reservoirs([found]).endswith(row)
    assert reservoirs([]) == ""
