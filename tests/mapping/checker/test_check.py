"""The checker accepts legal maps and lists every violation of illegal ones."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import FileError, IllegalMapping
from nirbridge.mapping.checker import check
from nirbridge.mapping.checker.check import check_file, check_mapping, diagnose_mapping, is_valid_mapping
from nirbridge.mapping.checker.recount import lay_out, recount
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_to_dict, write_document, write_map
from nirbridge.mapping.storage.record import BlockRecord, SliceRecord, map_from_dict
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.model import Slice
from nirbridge.testing import networks
from tests.cases import cases
from tests.mapping.hand_made import chip_with, conv_net, dense_net, made, network_of, population

SHA = "ab" * 32


def dense_map(chip: Chip | None = None) -> MappedNetwork:
    blocks = [
        [Slice("fc1", ((0, 3),))],
        [Slice("fc1", ((3, 5),)), Slice("out", ((0, 3),))],
    ]
    return made(dense_net(), chip or chip_with(), blocks)


def conv_map(chip: Chip | None = None) -> MappedNetwork:
    blocks = [
        [Slice("c1", ((0, 3), (0, 3), (0, 5)))],
        [Slice("c1", ((0, 1), (3, 4), (0, 5))), Slice("c2", ((0, 4), (0, 1), (0, 2)))],
        [Slice("c1", ((1, 3), (3, 4), (0, 5))), Slice("c2", ((0, 4), (1, 2), (0, 2)))],
    ]
    return made(conv_net(), chip or chip_with(), blocks)


def messages(mapping: Any, network: Network | None = None, chip: Chip | None = None) -> list[str]:
    return [str(p) for p in diagnose_mapping(mapping, network, chip)]


# -- legal maps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["loihi1", "loihi2", "crossbar256"])
@pytest.mark.parametrize("make", [dense_map, conv_map])
def test_legal_maps(make: Callable[[Chip], MappedNetwork], chip: str) -> None:
    mapped = make(chip_with(chip))
    assert messages(mapped) == []
    check_mapping(mapped)
    assert is_valid_mapping(mapped)


@pytest.mark.parametrize(("order", "words"), [(None, 15), ([1, 2, 0], 15), ([0, 1, 2], 22)])
def test_the_example_of_the_map_file_page(order: list[int] | None, words: int) -> None:
    conv = Conv(np.ones((2, 1, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 3, 3))
    net = network_of([population("c", 2, 3, 3)], [Projection("in", "c", conv)], [Port("in", (1, 3, 3))])
    part = SliceRecord("c", ((0, 2), (0, 2), (0, 3)), None if order is None else tuple(order))
    layout = lay_out((BlockRecord(0, CoreId(0, 0, 0, 0), (part,), {}),), {"c": (2, 3, 3)}, lambda s: True)
    (used,) = recount(net, layout, chip_with().synapses, [8]).used
    assert (used["input_axons"], used["synapse_words"]) == (9, words)


@pytest.mark.parametrize("shared", [False, True])
def test_delays_take_bits_and_back_edges_do_not(shared: bool) -> None:
    chip = chip_with(synapses={"shared_kernels": shared, "word_bits": 8, "run_header_bits": 0, "words": 100})
    net = dense_net()
    late = replace(net.projections[0], delay_steps=np.array(2))
    blocks = [[Slice("fc1", ((0, 5),)), Slice("out", ((0, 3),))]]
    plain, delayed = made(net, chip, blocks), made(replace(net, projections=(late, *net.projections[1:])), chip, blocks)
    assert plain.partition.blocks[0].used["synapse_words"] == 6 * 5 + 5 * 5 + 5 * 3
    assert delayed.partition.blocks[0].used["synapse_words"] == 6 * 9 + 5 * 5 + 5 * 3  # 5 * 14 bits: 9 words
    assert messages(plain) == messages(delayed) == []


# -- violations --------------------------------------------------------------------------------------------------


def with_blocks(mapped: MappedNetwork, *blocks: tuple[Slice, ...]) -> MappedNetwork:
    """The map with other slices and the numbers of the old ones."""
    old = mapped.partition.blocks
    new = tuple(replace(b, slices=s) for b, s in zip(old, blocks, strict=True))
    return replace(mapped, partition=replace(mapped.partition, blocks=new))


def test_missing_neurons() -> None:
    mapped = with_blocks(dense_map(), (Slice("fc1", ((0, 2),)),), (Slice("fc1", ((3, 5),)), Slice("out", ((0, 3),))))
    assert messages(mapped)[0] == (
        "population 'fc1': 1 of 5 neurons are in no block (the first: neuron 2); put each neuron into one slice"
    )


def test_a_population_that_is_nowhere() -> None:
    mapped = with_blocks(dense_map(), (Slice("fc1", ((0, 3),)),), (Slice("fc1", ((3, 5),)),))
    assert messages(mapped)[0].startswith("population 'out': 3 of 3 neurons are in no block (the first: neuron 0);")


def test_neurons_twice() -> None:
    mapped = with_blocks(dense_map(), (Slice("fc1", ((0, 4),)),), (Slice("fc1", ((3, 5),)), Slice("out", ((0, 3),))))
    assert messages(mapped)[0] == (
        "population 'fc1': 1 of 5 neurons are in more than one box (the first: neuron 3); "
        "keep each neuron in one slice only"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            Slice("fc1", ((0, 6),)),
            "block 0, slice 'fc1' [0:6]: [0, 6) is no range of it, the population has shape (5,);",
        ),
        (Slice("fc1", ((2, 2),)), "block 0, slice 'fc1' [2:2]: [2, 2) is no range of it,"),
        (Slice("fc1", ((0, 3), (0, 1))), "block 0, slice 'fc1' [0:3, 0:1]: has 2 axes, the population has shape (5,);"),
        (Slice("fc2", ((0, 3),)), "block 0, slice 'fc2' [0:3]: is of a population that the model does not have;"),
    ],
)
def test_wrong_boxes(wrong: Slice, message: str) -> None:
    mapped = with_blocks(dense_map(), (wrong,), dense_map().partition.blocks[1].slices)
    assert messages(mapped)[0].startswith(message)


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        (
            (CoreId(0, 1, 0, 0),) * 2,
            "block 1: core 0 of tile (1, 0) of chip 0 already has block 0, a core has one block;",
        ),
        (
            (CoreId(0, 0, 0, 0), CoreId(0, 8, 0, 0)),
            "block 1: core 0 of tile (8, 0) of chip 0 does not exist, a 'loihi1' has 8 x 4 tiles of 4 cores;",
        ),
        (
            (CoreId(0, 0, 0, 0), CoreId(1, 0, 0, 0)),
            "block 1: core 0 of tile (0, 0) of chip 1 does not exist, the map has 1",
        ),
    ],
)
def test_wrong_cores(cores: tuple[CoreId, ...], message: str) -> None:
    assert messages(replace(dense_map(), cores=cores))[0].startswith(message)


def test_dead_core() -> None:
    chip = chip_with(dead_cores=[[0, 1, 0, 0]])
    assert messages(dense_map(chip)) == [
        "block 1: core 0 of tile (1, 0) of chip 0 is not to be used, it is dead on this 'loihi1'; use another core"
    ]


def test_more_chips_than_the_board_has() -> None:
    chip = chip_with(mesh={"chips_max": 1})
    assert messages(replace(dense_map(chip), chips=2))[0] == "chips: 2 in the map, a 'loihi1' board has 1 to 1"


@pytest.mark.parametrize(
    ("resource", "limit", "blocks"),
    [("neurons", 4, [1]), ("input_axons", 10, [0, 1]), ("output_axons", 5, [0]), ("decay_profiles", 1, [1])],
)
def test_over_a_limit_of_the_core(resource: str, limit: int, blocks: list[int]) -> None:
    mapped = dense_map(chip_with(core={resource: limit}))
    over = [p for p in diagnose_mapping(mapped) if "resource" in p.ids and not p.subject.startswith("totals")]
    assert [p.ids["block"] for p in over] == blocks
    found = mapped.partition.blocks[blocks[0]].used[resource]
    assert over[0].found == f"{found} {resource.replace('_', ' ')}"
    assert over[0].limit == f"a 'loihi1' core holds {limit}"
    with pytest.raises(IllegalMapping, match=r"^block \d \('fc1' \[\d:\d\]"):
        check_mapping(mapped)


def test_over_the_words_of_a_core() -> None:
    assert messages(dense_map(chip_with(synapses={"words": 10})))[0] == (
        "block 0 ('fc1' [0:3]): 11 synapse words, a 'loihi1' core holds 10; "
        "move neurons to another core, or use fewer weight bits"
    )


def test_every_violation_is_listed() -> None:
    chip = chip_with(core={"neurons": 2, "input_axons": 3}, synapses={"words": 4})
    found = {(p.ids["block"], p.ids["resource"]) for p in diagnose_mapping(dense_map(chip)) if "limit" in p.ids}
    assert found == {(b, r) for b in (0, 1) for r in ("neurons", "input_axons", "synapse_words")}


def test_too_long_a_delay() -> None:
    net = dense_net()
    late = replace(net.projections[2], delay_steps=np.array(63))
    mapped = made(
        replace(net, projections=(*net.projections[:2], late)),
        chip_with(),
        [[Slice("fc1", ((0, 5),)), Slice("out", ((0, 3),))]],
    )
    assert messages(mapped) == [
        "projection 2 ('fc1' -> 'out'): a delay of 63 time steps, "
        "a 'loihi1' synapse delays by at most 62; shorten the delay"
    ]


def test_weight_bits_that_the_chip_has_not() -> None:
    mapped = dense_map()
    mapped = replace(mapped, partition=replace(mapped.partition, weight_bits=7))
    assert "projection 0 ('in' -> 'fc1'): 7 weight bits, a 'loihi1' stores 1, 2, 3, 4, 5, 6, 8" in messages(mapped)[0]


# -- what a file says --------------------------------------------------------------------------------------------


def changed(mapped: MappedNetwork, *change: tuple[tuple[Any, ...], Any]) -> list[str]:
    """The messages on the map's record with the value at each path of keys replaced."""
    document = copy.deepcopy(map_to_dict(mapped, "net.nir", SHA))
    for path, value in change:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value(inner[path[-1]]) if callable(value) else value
    return messages(map_from_dict(document), mapped.network)


def less(x: int) -> int:
    return x - 1


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("blocks", 0, "used", "synapse_words"),
            less,
            "block 0 ('fc1' [0:3]): used.synapse_words says 10, counted 11;",
        ),
        (("blocks", 1, "used", "output_axons"), less, "block 1 ('fc1' [3:5], 'out' [0:3]): used.output_axons says 3, "),
        (("projections", 0, "synapses"), less, "projection 0 ('in' -> 'fc1'), synapses: says 29, counted 30;"),
        (("projections", 0, "source"), "fc1", "projection 0 ('fc1' -> 'fc1'): source is not that of the model;"),
        (("projections", 1, "is_back"), False, "projection 1 ('fc1' -> 'fc1'): is_back is not that of the model;"),
        (("projections", 1, "delay_steps"), 0, "projection 1 ('fc1' -> 'fc1'): delay_steps is not that of the model;"),
        (("projections", 0, "operator", "kind"), "Conv", "projection 0 ('in' -> 'fc1'): operator is not that of the"),
        (("projections",), [], "projections: 0 in the map, 3 in the model;"),
        (("populations", 0, "shape"), [6], "population 'fc1': has shape (6,) in the map, (5,) in the model;"),
        (("populations", 0, "neurons"), 6, "population 'fc1': has 6 neurons in the map, its shape is (5,);"),
        (("populations", 0, "name"), "fc9", "population 'fc1': is not in the map;"),
        (("inputs",), [], "input 'in': is not in the map;"),
        (("blocks", 1, "id"), 0, "block 0: there is another block of this id;"),
        (("blocks", 0, "slices", 0, "order"), [1], "block 0, slice 'fc1' [0:3]: has order (1,), the population has 1"),
        (("totals", "cores_used"), 1, "totals.cores_used: says 1, counted 2;"),
        (("totals", "cores_available"), 129, "totals.cores_available: says 129, counted 128;"),
        (("totals", "neurons", "used"), 7, "totals.neurons.used: says 7, counted 8;"),
        (("totals", "neurons", "max"), 9, "totals.neurons.max: says 9, counted 5;"),
        (("totals", "neurons", "where_max"), 0, "totals.neurons.where_max: says block 0, counted block 1;"),
        (("totals", "neurons", "limit"), 9999, "totals.neurons.limit: says 9999, counted 1024;"),
        (("totals", "unicast_traffic"), 16.5, "totals.unicast_traffic: says 16.5, counted 17.0;"),
        (("totals", "multicast_hops"), 99.0, "totals.multicast_hops: says 99.0, separate paths would take 11.0;"),
        (("totals", "energy_per_step_j"), 2.0, "totals.energy_per_step_j: says 2.0, counted 3.0 in totals.energy_b"),
        (
            ("proof", "traffic_lower_bound"),
            18.0,
            "proof.traffic_lower_bound: is 18.0, the map itself takes 0.0 multicast hops;",
        ),
        (("proof", "cores_lower_bound"), 3, "proof.cores_lower_bound: is 3, the map itself takes 2 cores;"),
        (("proof", "cores_gap"), 0, "proof.cores_gap: says 0, counted 1;"),
        (("proof", "status"), "optimal", "proof.status: is 'optimal', the bound is 1, the map takes 2 cores;"),
        (("proof", "cores_lower_bound_sliced"), 0, "proof.cores_lower_bound_sliced: is 0, no less than cores_lower"),
        (("routes", 0, "neurons"), less, "route from input 'in' to block 0, neurons: says 5, counted 6;"),
        (("routes", 0, "synapses"), less, "route from input 'in' to block 0, synapses: says 17, counted 18;"),
        (("routes", 1, "hops"), 0, "route from input 'in' to block 1, hops: says 0, counted 1;"),
        (
            ("routes", 1),
            lambda r: r | {"target_block": 7},
            "route from input 'in' to block 7: no neuron sends along it;",
        ),
        (
            ("routes",),
            lambda r: r[:-1],
            "route from block 1 to block 1: is not in the map, though spikes of 2 neurons take it",
        ),
        (("routes",), lambda r: [*r, r[2]], "route from block 0 to block 0: is listed more than once;"),
        (("chips",), 0, "chips: 0 in the map, a 'loihi1' board has 1 to 32"),
        (("chip", "schema"), 9, "chip record"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_file_that_says_what_is_not_so(path: tuple[Any, ...], value: Any, message: str) -> None:
    found = changed(dense_map(), (path, value))
    assert any(m.startswith(message) for m in found), found


def test_an_overstated_use_is_no_violation() -> None:
    one_more = (("blocks", 0, "used", "synapse_words"), lambda x: x + 1)
    total = (("totals", "synapse_words", "used"), lambda x: x + 1)
    assert changed(dense_map(), one_more, total) == []


def test_another_order_of_numbers_changes_the_words() -> None:
    """Channels first cuts the targets of a pixel into one stretch per channel and row."""
    mapped = conv_map(chip_with(synapses={"index_bits": "none"}))
    found = changed(mapped, (("blocks", 0, "slices", 0, "order"), [0, 1, 2]))
    assert any(m.startswith("block 0 ('c1' [0:3, 0:3, 0:5]): used.synapse_words says") for m in found), found


def test_a_moved_box() -> None:
    box = [[0, 3], [0, 3], [0, 4]]
    found = changed(conv_map(), (("blocks", 0, "slices", 0, "box"), box))
    assert found[0].startswith("population 'c1': 9 of 60 neurons are in no block (the first: neuron 4);")


def test_check_file(tmp_path: Any) -> None:
    mapped = dense_map()
    path = tmp_path / "net.map.json"
    write_map(mapped, path, "/somewhere/net.nir", SHA)
    assert check_file(path, dense_net(), SHA) == ()
    assert check_file(path, dense_net(), SHA, chip_with()) == ()
    (problem,) = check_file(path, dense_net(), "cd" * 32)
    assert str(problem).startswith("map: is of a model with SHA-256 'abab")
    (problem,) = check_file(path, dense_net(), SHA, chip_with("loihi2"))
    assert str(problem) == "chip: the map's 'loihi1' is not the requested 'loihi2'; map the model again"
    with pytest.raises(FileError, match="^map file 'none.json': No such file"):
        check_file(tmp_path / "none.json", dense_net(), SHA)


def test_check_file_against_another_model(tmp_path: Any) -> None:
    path = tmp_path / "net.map.json"
    write_document(map_to_dict(dense_map(), "net.nir", SHA), path)
    found = [str(p) for p in check_file(path, conv_net(), SHA)]
    assert "input 'in': has shape (6,) in the map, (2, 4, 5) in the model; map the model again" in found
    assert "population 'out': is not in the model; map the model again" in found


# -- against brute force -----------------------------------------------------------------------------------------


@st.composite
def small_nets(draw: st.DrawFn) -> Network:
    """Two populations of three axes or one, joined by every kind of operator that has a structure of its own."""
    c, h, w = draw(st.integers(1, 3)), draw(st.integers(2, 4)), draw(st.integers(2, 4))
    theta = draw(st.sampled_from([1.0, [1.0, 2.0]]))
    thetas = np.resize(np.asarray(theta), (c, h, w)) if isinstance(theta, list) else theta
    first = population("a", c, h, w, theta=thetas)
    stride = draw(st.integers(1, 2))
    conv = Conv(np.ones((2, c, 2, 3)), (stride, 1), ((1, 0), (1, 1)), (1, 1), 1, (c, h, w))
    depthwise = Conv(np.ones((2 * c, 1, 2, 2)), (1, stride), ((0, 1), (1, 0)), (1, 1), c, (c, h, w))
    pool = SumPool((2, 2), (stride, stride), ((1, 0), (0, 1)), (c, h, w))
    after_pool = Conv(np.ones((2, c, 2, 2)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, pool.output_shape)
    flat = Reshape((c, h, w), (c * h * w,))
    operator = draw(
        st.sampled_from(
            [
                conv,
                depthwise,
                pool,
                Chain((pool, after_pool)),
                Chain((conv, Scale(np.ones(conv.output_shape)))),
                Chain((flat, Dense(np.ones((4, c * h * w))))),
                Chain((pool, Reshape(pool.output_shape, (int(np.prod(pool.output_shape)),)))),
                Identity((c, h, w)),
                Sparse(np.array([0, 1, 1, 3]), np.array([2, 0, 3]), np.ones(3), (c, h, w), (3,)),
            ]
        )
    )
    second = population("b", *operator.output_shape)
    n = second.size
    again = Projection(
        "b", "b", Chain((Reshape(second.shape, (n,)), Dense(np.ones((n, n))), Reshape((n,), second.shape)))
    )
    back = replace(again, delay_steps=np.array(draw(st.integers(1, 2))), is_back=True)
    projections = [Projection("in", "a", Identity((c, h, w))), Projection("a", "b", operator)]
    return network_of([first, second], projections + [back] * draw(st.integers(0, 1)), [Port("in", (c, h, w))])


@st.composite
def cuts(draw: st.DrawFn, network: Network) -> list[list[Slice]]:
    """Every population cut into boxes, spread over up to three blocks."""
    slices = []
    for p in network.populations:
        boxes = [tuple((0, n) for n in p.shape)]
        for _ in range(draw(st.integers(0, 3))):
            box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
            axis = draw(st.integers(0, len(box) - 1))
            start, stop = box[axis]
            middle = draw(st.integers(start, stop))
            halves = [(start, middle), (middle, stop)]
            boxes += [(*box[:axis], half, *box[axis + 1 :]) for half in halves if half[0] < half[1]]
        slices += [Slice(p.name, box) for box in boxes]
    order = draw(st.permutations(slices))
    homes = [draw(st.integers(0, 2)) for _ in order]
    return [b for b in ([s for s, home in zip(order, homes, strict=True) if home == k] for k in range(3)) if b]


@given(st.data())
@settings(max_examples=cases(20, 60), deadline=None)
def test_counts_equal_brute_force(data: st.DataObject) -> None:
    """The checker's counts are exactly those of loops over single synapses: it accepts them, and not one less."""
    network = data.draw(small_nets())
    formats = {
        "word_bits": data.draw(st.sampled_from([8, 16, 64])),
        "run_targets_max": data.draw(st.sampled_from([2, 5, 64])),
        "run_free": data.draw(st.booleans()),
        "index_bits": data.draw(st.sampled_from(["none", 10])),
        "shared_kernels": data.draw(st.booleans()),
    }
    mapped = made(network, chip_with(synapses=formats), data.draw(cuts(network)))
    assert messages(mapped) == []
    block = data.draw(st.sampled_from(mapped.partition.blocks))
    resource = data.draw(st.sampled_from([name for name, n in sorted(block.used.items()) if n > 0]))
    understated = replace(block, used=dict(block.used) | {resource: block.used[resource] - 1})
    blocks = tuple(understated if b is block else b for b in mapped.partition.blocks)
    found = messages(replace(mapped, partition=replace(mapped.partition, blocks=blocks)))
    assert any(f"used.{resource} says {block.used[resource] - 1:,}, counted" in m for m in found), found


@given(networks())
@settings(max_examples=cases(12, 25), deadline=None)
def test_any_network_on_one_core(network: Network) -> None:
    limits = {"neurons": 10**6, "decay_profiles": 10**6, "threshold_profiles": 10**6, "delay_steps": 2**16}
    chip = chip_with(core=limits | {"input_axons": 10**6, "output_axons": 10**6}, synapses={"words": 10**9})
    block = [Slice(p.name, tuple((0, n) for n in p.shape)) for p in network.populations]
    assert list(diagnose_mapping(made(network, chip, [block]), placement_only=True)) == []


# -- independence ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "checker/check",
        "checker/recount",
        "checker/incoming",
        "synapses",
        "neuron_cores",
        "storage/record",
        "storage/consistency",
        "zeros",
    ],
)
def test_the_checker_uses_no_code_of_the_search(name: str) -> None:
    """Of the partitioner, what the checker counts with knows the records and the cost vector, and nothing else."""
    tree = ast.parse((Path(check.__file__).parents[1] / f"{name}.py").read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    allowed = {"nirbridge.partitioner.model", "nirbridge.partitioner.cost.resources"}
    assert {module for module in imported if module.startswith("nirbridge.partitioner")} <= allowed
    of_mapping = {module.rpartition(".")[2] for module in imported if module.startswith("nirbridge.mapping")}
    # check.py knows how a map is written and read; what it counts with does not
    readers = {"file", "model"} if name == "checker/check" else set()
    counting = {"recount", "incoming", "synapses"}
    zeros = {"integers", "zeros"}
    shared = {"neuron_cores", "record", "consistency"} | counting | zeros
    assert of_mapping <= shared | readers
