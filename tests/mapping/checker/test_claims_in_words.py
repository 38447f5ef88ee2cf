"""Claims of a map file about the whole map: each one correct, off by one, and the full messages."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.errors import Diagnostic
from nirbridge.mapping.checker.check import diagnose_mapping
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_to_dict
from nirbridge.mapping.storage.record import map_from_dict
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner.model import Slice
from tests.mapping.checker.test_check import dense_map
from tests.mapping.hand_made import chip_with, dense_net, made, network_of

AGAIN = "write the map again"


def problems(mapped: MappedNetwork, *changes: tuple[tuple[Any, ...], Any]) -> list[Diagnostic]:
    """What is found in the map's record with the value at each path replaced."""
    document = copy.deepcopy(map_to_dict(mapped, "net.nir", "ab" * 32))
    for path, value in changes:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value(inner[path[-1]]) if callable(value) else value
    return list(diagnose_mapping(map_from_dict(document), mapped.network))


def said(*changes: tuple[tuple[Any, ...], Any]) -> list[str]:
    return [str(p).removesuffix(f"; {AGAIN}") for p in problems(dense_map(), *changes)]


def totals(**values: Any) -> list[tuple[tuple[str, str], Any]]:
    return [(("totals", key), value) for key, value in values.items()]


def proof(**values: Any) -> list[tuple[tuple[str, str], Any]]:
    return [(("proof", key), value) for key, value in values.items()]


SILENT = [(("routes", i, "spikes_per_step"), 0.0) for i in range(6)]


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (totals(cores_used=3), ["totals.cores_used: says 3, counted 2"]),
        (totals(cores_available=0), ["totals.cores_available: says 0, counted 128"]),
        ([(("totals", "neurons", "where_max"), 0)], ["totals.neurons.where_max: says block 0, counted block 1"]),
        (totals(unicast_traffic=17.00001), []),
        (totals(unicast_traffic=17.0001), ["totals.unicast_traffic: says 17.0001, counted 17.0"]),
        ([*totals(unicast_traffic=1e-12), *SILENT], []),
        ([*totals(unicast_traffic=3e-12), *SILENT], ["totals.unicast_traffic: says 3e-12, counted 0.0"]),
        (totals(multicast_hops=11.0), []),
        (totals(multicast_hops=11.00001), []),
        (totals(multicast_hops=11.0001), ["totals.multicast_hops: says 11.0001, separate paths would take 11.0"]),
        ([*totals(multicast_hops=4.0), *proof(traffic_lower_bound=4.000001)], []),
        ([*totals(multicast_hops=4.0), *proof(traffic_lower_bound=4.0001)],
         ["proof.traffic_lower_bound: is 4.0001, the map itself takes 4.0 multicast hops"]),
        (totals(energy_per_step_j=None), []),
        (totals(energy_per_step_j=3.000001), []),
        (totals(energy_per_step_j=3.0001),
         ["totals.energy_per_step_j: says 3.0001, counted 3.0 in totals.energy_breakdown_j"]),
        (totals(energy_per_step_j=1e-30, energy_breakdown_j={}), []),
        (totals(energy_per_step_j=3e-30, energy_breakdown_j={}),
         ["totals.energy_per_step_j: says 3e-30, counted 0.0 in totals.energy_breakdown_j"]),
        (totals(time_per_step_s=2.0), ["totals.time_per_step_s: says 2.0, counted 0.0 in totals.time_breakdown_s"]),
        (totals(time_per_step_s=2.0, time_breakdown_s={"a": 0.5, "b": 1.5}), []),
        ([(("totals", "threshold_profiles", "where_max"), 1)], []),
        ([(("totals", "threshold_profiles", "where_max"), 9)],
         ["totals.threshold_profiles.where_max: says block 9, counted block 0 or 1"]),
        (proof(cores_lower_bound=2, cores_lower_bound_sliced=2, cores_gap=0, status="optimal"), []),
        (proof(cores_lower_bound=1, cores_lower_bound_sliced=2, cores_gap=1, status="optimal-sliced"), []),
        (proof(status="optimal-sliced"), ["proof.status: is 'optimal-sliced', the bound is 1, the map takes 2 cores"]),
        (proof(cores_lower_bound=3, cores_lower_bound_sliced=3, cores_gap=0),
         ["proof.cores_lower_bound: is 3, the map itself takes 2 cores",
          "proof.cores_lower_bound_sliced: is 3, the map itself takes 2 cores",
          "proof.cores_gap: says 0, counted -1"]),
        (proof(cores_lower_bound=2, cores_lower_bound_sliced=1, cores_gap=0),
         ["proof.cores_lower_bound_sliced: is 1, no less than cores_lower_bound, 2, holds"]),
        (proof(cores_gap=2), ["proof.cores_gap: says 2, counted 1"]),
        ([(("projections", 1, "synapses"), 24)], ["projection 1 ('fc1' -> 'fc1'), synapses: says 24, counted 25"]),
        ([(("projections", 2, "synapses"), 1234)], ["projection 2 ('fc1' -> 'out'), synapses: says 1,234, counted 15"]),
        ([(("routes", 3, "neurons"), 4)], ["route from block 0 to block 1, neurons: says 4, counted 3"]),
        ([(("routes", 3, "hops"), 2)], ["route from block 0 to block 1, hops: says 2, counted 1"]),
    ],
)  # fmt: skip
def test_a_claim_and_what_is_found(changes: list[Any], messages: list[str]) -> None:
    assert said(*changes) == messages


def test_every_route_that_is_not_in_the_map() -> None:
    found = problems(dense_map(), (("routes",), []), *totals(unicast_traffic=0.0, multicast_hops=0.0))
    ends = [("block 0", 0, 3), ("block 0", 1, 3), ("block 1", 0, 2), ("block 1", 1, 2), ("input 'in'", 0, 6)]
    ends.append(("input 'in'", 1, 6))
    assert [str(p) for p in found] == [
        f"route from {source} to block {target}: is not in the map, though spikes of {n} neurons take it; {AGAIN}"
        for source, target, n in ends
    ]
    assert [dict(p.ids) for p in found] == [{"target": target} for _, target, _ in ends]


def test_a_route_again_and_again_is_said_each_time_and_judged_once() -> None:
    wrong = {"source_block": 0, "source_input": None, "target_block": 0, "neurons": 9, "synapses": 8}
    wrong |= {"spikes_per_step": 0.0, "hops": 9}
    nowhere = wrong | {"target_block": 7}
    found = said((("routes",), lambda routes: [*routes[:2], wrong, wrong, *routes[3:], wrong, nowhere, nowhere]))
    own = "route from block 0 to block 0"
    assert found == [
        f"{own}, neurons: says 9, counted 3",
        f"{own}, synapses: says 8, counted 9",
        f"{own}, hops: says 9, counted 0",
        f"{own}: is listed more than once",
        f"{own}: is listed more than once",
        "route from block 0 to block 7: no neuron sends along it",
        "route from block 0 to block 7: is listed more than once",
    ]


def test_programs_get_the_block_the_projection_and_the_resource() -> None:
    changes = [(("routes", 1, "hops"), 9), (("projections", 1, "synapses"), 9)]
    changes += [(("totals", "neurons", "used"), 9), (("totals", "neurons", "where_max"), 0)]
    found = problems(dense_map(), *changes)
    assert [dict(p.ids) for p in found] == [{"projection": 1}, {"target": 1}, *[{"resource": "neurons"}] * 2]


@pytest.mark.parametrize(
    ("cores", "hops"),
    [
        (((0, 0, 0, 0), (0, 0, 0, 1)), [0, 0, 0, 0, 0, 0]),
        (((0, 2, 3, 0), (0, 5, 1, 3)), [5, 6, 0, 5, 5, 0]),
        (((0, 7, 0, 0), (1, 0, 2, 0)), [7, 10, 0, 3, 3, 0]),
        (((1, 3, 1, 0), (2, 1, 0, 0)), [12, 17, 0, 7, 7, 0]),
    ],
)
def test_hops_are_links_between_tiles_of_a_row_of_chips(cores: Any, hops: list[int]) -> None:
    """Listed from the input to both blocks, then from block 0, then from block 1."""
    mapped = replace(dense_map(), cores=tuple(CoreId(*core) for core in cores), chips=3)
    assert [route["hops"] for route in map_to_dict(mapped, "n", "")["routes"]] == hops
    assert problems(mapped) == []


@pytest.mark.parametrize(("chips", "available"), [(1, 127), (2, 253), (3, 381)])
def test_dead_cores_of_chips_in_use_are_not_available(chips: int, available: int) -> None:
    dead = [[0, 5, 0, 0], [1, 0, 0, 1], [1, 0, 0, 2]]
    mapped = replace(dense_map(chip_with(dead_cores=dead)), chips=chips)
    assert map_to_dict(mapped, "n", "")["totals"]["cores_available"] == available
    assert problems(mapped) == []
    found = problems(mapped, *totals(cores_available=available + 1))
    assert [str(p) for p in found] == [f"totals.cores_available: says {available + 1}, counted {available}; {AGAIN}"]


def test_synapses_to_an_output_are_on_no_core() -> None:
    net = dense_net()
    ends = Projection("out", "end", Dense(np.ones((2, 3))))
    net = replace(net, projections=(*net.projections, ends), outputs=(Port("end", (2,)),))
    mapped = made(net, chip_with(), [[Slice("fc1", ((0, 5),))], [Slice("out", ((0, 3),))]])
    assert map_to_dict(mapped, "n", "")["projections"][3]["synapses"] == 6
    assert problems(mapped) == []


def test_a_map_of_nothing_claims_nothing() -> None:
    mapped = made(network_of([], [], [Port("in", (2,))]), chip_with(), [])
    report = replace(mapped.partition.report, cores_lower_bound=0, cores_lower_bound_sliced=0)
    mapped = replace(mapped, partition=replace(mapped.partition, report=report))
    assert problems(mapped) == []
    (found,) = problems(mapped, (("totals", "neurons", "max"), 1))
    assert str(found) == f"totals.neurons.max: says 1, counted 0; {AGAIN}"
