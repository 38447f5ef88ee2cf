"""Messages of the checker: every violation of a small map alone, at its bound, with its ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.errors import FileError, IllegalMapping
from nirbridge.mapping.checker.check import check_file, check_mapping, diagnose_mapping, is_valid_mapping
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_to_dict, write_map
from nirbridge.mapping.storage.record import MapRecord, SliceRecord, map_from_dict
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner.model import Slice
from tests.mapping.checker.test_check import SHA, dense_map, with_blocks
from tests.mapping.checker.test_claims_in_words import problems
from tests.mapping.hand_made import chip_with, conv_net, dense_net, made, network_of, population

AGAIN = "map the model again"


def said(found: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(str(p), dict(p.ids)) for p in found]


def record_of_map(mapped: MappedNetwork) -> MapRecord:
    return map_from_dict(map_to_dict(mapped, "net.nir", SHA))


def soft_map(**more: Any) -> MappedNetwork:
    """A map onto loihi1, which cannot subtract on reset, of a network that does."""
    net = dense_net()
    net = replace(net, populations=(population("fc1", 5, reset="subtract"), net.populations[1]))
    return replace(made(net, chip_with(), [[Slice("fc1", ((0, 5),)), Slice("out", ((0, 3),))]]), **more)


# -- what is judged -----------------------------------------------------------------------------------------------


def test_a_map_is_judged_as_one_that_runs_unless_it_or_the_caller_says_otherwise() -> None:
    (problem,) = diagnose_mapping(soft_map())
    assert problem.subject == "population 'fc1'"
    assert list(diagnose_mapping(soft_map(), placement_only=True)) == []
    assert list(diagnose_mapping(soft_map(placement_only=True))) == []
    assert not is_valid_mapping(soft_map())
    with pytest.raises(IllegalMapping) as caught:
        check_mapping(soft_map())
    assert caught.value.problems == (problem,)


def test_a_network_and_a_chip_of_our_own_take_the_place_of_those_of_the_map() -> None:
    mapped = dense_map()
    assert [p.subject for p in diagnose_mapping(mapped, conv_net())][:3] == [
        "input 'in'",
        "population 'c1'",
        "population 'c2'",
    ]
    small = chip_with(core={"neurons": 4})
    assert [p.ids["block"] for p in diagnose_mapping(mapped, None, small) if p.ids.get("limit") == 4] == [1]
    assert [
        p.ids["block"] for p in diagnose_mapping(record_of_map(mapped), mapped.network, small) if "limit" in p.ids
    ] == [1]
    assert not is_valid_mapping(mapped, chip=small)
    assert not is_valid_mapping(mapped, conv_net())
    with pytest.raises(IllegalMapping):
        check_mapping(mapped, chip=small)
    with pytest.raises(TypeError, match="^a loaded map needs the network of its model$"):
        next(diagnose_mapping(record_of_map(mapped)))
    with pytest.raises(IllegalMapping, match="is not in the model"):
        check_mapping(mapped, conv_net())


def test_a_chip_record_that_is_none_is_all_that_is_said() -> None:
    record = replace(record_of_map(dense_map()), chip={"schema": 9})
    found = list(diagnose_mapping(record, dense_net()))
    assert found
    assert all(p.subject.startswith("chip record") for p in found)


def test_a_map_with_no_place_in_a_file_is_refused() -> None:
    mapped = dense_map()
    endless = replace(mapped, costs=replace(mapped.costs, energy_per_step_j=float("nan")))
    with pytest.raises(FileError, match=r"^mapping: has no place in a file \(Out of range float values are not JSON"):
        list(diagnose_mapping(endless))


def test_a_file_of_a_placement_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    net = soft_map().network
    write_map(soft_map(placement_only=True), path, "net.nir", SHA)
    step = "map the model for a chip that can run it; check --placement-only judges the placement alone"
    mark = f"map: is marked placement_only, such a map cannot be quantized, run or emitted; {step}"
    assert said(check_file(path, net, SHA)) == [(mark, {"placement_only": True})]
    assert check_file(path, net, SHA, placement_only=True) == ()
    write_map(soft_map(), path, "net.nir", SHA)
    assert [p.subject for p in check_file(path, net, SHA)] == ["population 'fc1'"]
    assert check_file(path, net, SHA, placement_only=True) == ()


def test_a_file_of_another_model_chip_and_timing(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_map(dense_map(), path, "net.nir", SHA)
    net = dense_net()
    late = replace(net, timing=replace(net.timing, dt=2e-3))
    alone = f"map: is of a model with SHA-256 '{SHA}', the model has '{'cd' * 32}'; {AGAIN}"
    assert [str(p) for p in check_file(path, late, "cd" * 32, chip_with("loihi2"))] == [alone]
    assert [str(p) for p in check_file(path, conv_net(), "cd" * 32)] == [alone], "another model is compared no further"
    assert [str(p) for p in check_file(path, late, SHA, chip_with("loihi2"))] == [
        f"chip: the map's 'loihi1' is not the requested 'loihi2'; {AGAIN}",
        "timing.dt: 0.0001 in the map, 0.002 as the model was read; leave out the option, or map the model again",
    ]
    assert check_file(path, net, SHA, chip_with()) == ()


# -- the model ----------------------------------------------------------------------------------------------------


def two_of_each() -> Network:
    ways = [Projection("j", "b", Dense(np.ones((2, 2)))), Projection("b", "a", Dense(np.ones((3, 2))))]
    ports = [Port("j", (2,)), Port("i", (1,))]
    return network_of([population("b", 2), population("a", 3)], ways, ports, [Port("p", (3,)), Port("o", (2,))])


def test_everything_of_the_model_that_is_not_in_the_map() -> None:
    mapped = made(two_of_each(), chip_with(), [[Slice("b", ((0, 2),)), Slice("a", ((0, 3),))]])
    assert problems(mapped) == []
    found = problems(mapped, (("inputs",), []), (("outputs",), []), (("populations",), []))
    names = [("input", "i"), ("input", "j"), ("output", "o"), ("output", "p"), ("population", "a"), ("population", "b")]
    assert said(found) == [(f"{what} '{n}': is not in the map; {AGAIN}", {"name": n}) for what, n in names]


@pytest.mark.parametrize(
    ("key", "entry", "found"),
    [
        ("inputs", {"name": "x", "shape": [1]}, ["input 'x': is not in the model"]),
        ("outputs", {"name": "in", "shape": [6]}, ["output 'in': is not in the model"]),
        ("inputs", {"name": "in", "shape": [9]}, ["input 'in': is listed more than once"] * 2),
        (
            "populations",
            {"name": "fc1", "shape": [5], "neurons": 5, "kind": "LIF", "relay": False},
            ["population 'fc1': is listed more than once"] * 2,
        ),
        (
            "populations",
            {"name": "z", "shape": [2, 3], "neurons": 5000, "kind": "LIF", "relay": False},
            [
                "population 'z': is not in the model",
                "population 'z': has 5,000 neurons in the map, its shape is (2, 3)",
            ],
        ),
    ],
)
def test_more_in_the_map_than_in_the_model(key: str, entry: dict[str, Any], found: list[str]) -> None:
    problem = problems(dense_map(), ((key,), lambda own: [*own, entry]))
    assert said(problem) == [(f"{text}; {AGAIN}", {"name": entry["name"]}) for text in found]


@pytest.mark.parametrize(
    ("key", "value"),
    [("source", "out"), ("target", "out"), ("operator", {}), ("delay_steps", 3), ("is_back", False)],
)
def test_one_fact_of_a_projection_that_is_not_that_of_the_model(key: str, value: Any) -> None:
    found = [p for p in problems(dense_map(), (("projections", 1, key), value)) if "key" in p.ids]
    ends = {"source": "fc1", "target": "fc1"} | {key: value}
    subject = f"projection 1 ('{ends['source']}' -> '{ends['target']}')"
    assert said(found) == [(f"{subject}: {key} is not that of the model; {AGAIN}", {"projection": 1, "key": key})]


def test_fewer_projections_than_the_model_has() -> None:
    found = problems(dense_map(), (("projections",), lambda own: own[:2]))
    assert said(found) == [(f"projections: 2 in the map, 3 in the model; {AGAIN}", {})]


# -- blocks, cores, slices ----------------------------------------------------------------------------------------

SIZE = "a 'loihi1' has 8 x 4 tiles of 4 cores"


@pytest.mark.parametrize(
    ("core", "chips", "limit"),
    [
        ((0, 7, 3, 3), 1, None),
        ((0, 8, 0, 0), 1, SIZE),
        ((0, 0, 4, 0), 1, SIZE),
        ((0, 0, 0, 4), 1, SIZE),
        ((1, 0, 0, 0), 1, "the map has 1 chip"),
        ((1, 0, 0, 0), 2, None),
        ((31, 7, 3, 3), 32, None),
    ],
)
def test_the_last_core_of_each_kind_and_one_beyond(core: tuple[int, ...], chips: int, limit: str | None) -> None:
    own = CoreId(*core)
    found = said(diagnose_mapping(replace(dense_map(), cores=(CoreId(0, 1, 1, 1), own), chips=chips)))
    text = f"block 1: core {own.core} of tile ({own.x}, {own.y}) of chip {own.chip} does not exist, {limit}"
    assert found == ([(f"{text}; use another core", {"block": 1, "core": own})] if limit else [])


@pytest.mark.parametrize(("chips", "wrong"), [(1, False), (32, False), (33, True)])
def test_chips_of_a_board(chips: int, wrong: bool) -> None:
    found = [str(p) for p in diagnose_mapping(replace(dense_map(), chips=chips))]
    assert found == [f"chips: {chips} in the map, a 'loihi1' board has 1 to 32"] * wrong


def test_dead_cores_and_three_blocks_on_one_core_with_one_number() -> None:
    blocks = [[Slice("fc1", ((0, 3),))], [Slice("fc1", ((3, 5),))], [Slice("out", ((0, 3),))]]
    mapped = made(dense_net(), chip_with(dead_cores=[[0, 2, 0, 0]]), blocks)
    mapped = replace(mapped, cores=(CoreId(0, 2, 0, 0), *[CoreId(0, 3, 0, 0)] * 2))
    dead = "block 0: core 0 of tile (2, 0) of chip 0 is not to be used, it is dead on this 'loihi1'; use another core"
    taken = "core 0 of tile (3, 0) of chip 0 already has block 1, a core has one block; use another core"
    assert said(diagnose_mapping(mapped)) == [
        (dead, {"block": 0, "core": CoreId(0, 2, 0, 0)}),
        (f"block 2: {taken}", {"block": 2, "core": CoreId(0, 3, 0, 0)}),
    ]
    again = [(("blocks", k, "id"), 1) for k in (0, 2)]
    found = [str(p) for p in problems(replace(mapped, cores=(CoreId(0, 3, 0, 0),) * 3), *again)]
    number = "block 1: there is another block of this id; number the blocks"
    assert found == [f"block 1: {taken}", number, f"block 1: {taken}", number] or found == [
        number, f"block 1: {taken}", number, f"block 1: {taken}",
    ]  # fmt: skip


def test_a_block_with_no_slices_and_neurons_that_are_nowhere() -> None:
    found = problems(dense_map(), (("blocks", 0, "slices"), []))
    missing = "population 'fc1': 3 of 5 neurons are in no block (the first: neuron 0); put each neuron into one slice"
    assert said(found) == [
        ("block 0: has no slices; leave the block out", {"block": 0}),
        (missing, {"population": "fc1", "first": 0}),
    ]


@pytest.mark.parametrize(
    ("box", "wrong"),
    [((0, 3), False), ((-1, 3), True), ((0, 0), True), ((2, 1), True), ((3, 6), True), ((0, 1), False)],
)
def test_a_range_of_a_box(box: tuple[int, int], wrong: bool) -> None:
    record = record_of_map(dense_map())
    first = replace(record.blocks[0], slices=(SliceRecord("fc1", (box,), None),))
    found = list(diagnose_mapping(replace(record, blocks=(first, record.blocks[1])), dense_net()))
    start, stop = box
    text = f"block 0, slice 'fc1' [{start}:{stop}]: [{start}, {stop}) is no range of it, the population has shape (5,)"
    first_said = [p for p in said(found) if p[0].startswith("block")]
    assert first_said == [(f"{text}; correct the box", {"block": 0, "population": "fc1"})] * wrong


@pytest.mark.parametrize("order", [(), (1,), (0, 0), (0, 1)])
def test_an_order_that_does_not_name_each_axis_once(order: tuple[int, ...]) -> None:
    record = record_of_map(dense_map())
    first = replace(record.blocks[0], slices=(SliceRecord("fc1", ((0, 3),), order),))
    found = [str(p) for p in diagnose_mapping(replace(record, blocks=(first, record.blocks[1])), dense_net())]
    text = f"block 0, slice 'fc1' [0:3]: has order {order}, the population has 1 axis"
    assert found[0] == f"{text}; name each axis once, from the slowest"


def test_neurons_in_two_boxes_of_which_the_first_is_said() -> None:
    mapped = with_blocks(dense_map(), (Slice("fc1", ((0, 5),)),), (Slice("fc1", ((2, 4),)), Slice("out", ((0, 2),))))
    found = [p for p in said(diagnose_mapping(mapped)) if "first" in p[1]]
    both = "population 'fc1': 2 of 5 neurons are in more than one box (the first: neuron 2)"
    both += "; keep each neuron in one slice only"
    none = "population 'out': 1 of 3 neurons are in no block (the first: neuron 2); put each neuron into one slice"
    assert found == [(both, {"population": "fc1", "first": 2}), (none, {"population": "out", "first": 2})]
