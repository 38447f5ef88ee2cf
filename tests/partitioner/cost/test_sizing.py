"""Costs of a slice in closed form, against counting its synapses one by one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import Chip
from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape
from nirbridge.partitioner.cost.connectivity import AllToAll
from nirbridge.partitioner.cost.neurons import neuron_lists
from nirbridge.partitioner.cost.sizing import (
    SliceCost,
    box_lists,
    box_size,
    cost_model,
    flat_indices,
    total_out_degrees,
    touched_pieces,
)
from nirbridge.partitioner.model import Slice
from tests.cases import cases
from tests.partitioner.cases import (
    axons,
    chip,
    lists_of,
    network,
    neurons_of,
    population,
    positions,
    random_box,
    random_conv,
    random_cuts,
    random_network,
    random_operator,
    random_shape,
    random_sparse,
    random_windows,
    shared_words,
    structure,
    words,
)

seeds = st.integers(0, 2**32 - 1)
chips = st.builds(
    chip,
    run_targets_max=st.sampled_from([1, 3, 5, 64]),
    run_free=st.booleans(),
    run_header_bits=st.sampled_from([0, 10, 24]),
    word_bits=st.sampled_from([16, 64]),
    index_bits=st.sampled_from([None, 2, 9]),
    delay_bits=st.just(6),
)


def one(operator: Operator, delay: int = 0) -> Network:
    """One population fed by the host through ``operator``."""
    projection = Projection("in", "p", operator, delay_steps=np.array(delay))
    return network({"in": operator.input_shape}, [population("p", operator.output_shape)], [projection])


def counted(net: Network, name: str, box: tuple[tuple[int, int], ...], on: Chip) -> tuple[int, int, int]:
    """(neurons, input axons, words) of a box, synapse by synapse."""
    shape = net.population(name).shape
    place = positions(shape, [Slice(name, box)], name)
    total = sum(words(p, place, on, 8) for p in net.projections if p.target == name)
    return len(place), len(axons(net, name, place)), total


@settings(max_examples=cases(20, 60))
@given(seeds)
def test_neurons_are_numbered_channels_last(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    box = random_box(rng, shape)
    assert flat_indices(shape, box).tolist() == neurons_of(shape, box)
    assert box_size(box) == len(neurons_of(shape, box))
    assert box_size(tuple((0, n) for n in shape)) == math.prod(shape)


def test_numbering_of_a_small_image() -> None:
    assert flat_indices((2, 2, 3), ((0, 2), (0, 2), (1, 3))).tolist() == [1, 7, 2, 8, 4, 10, 5, 11]


@settings(max_examples=cases(85, 250))
@given(seeds, chips)
def test_cost_of_any_box(seed: int, on: Chip) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    sizes = cost_model(net, on, 8)
    for p in net.populations:
        box = random_box(rng, p.shape)
        assert sizes.cost(p.name, box) == SliceCost(*counted(net, p.name, box, on), 0, 0), (p.name, box)


@settings(max_examples=cases(40, 120))
@given(seeds, chips)
def test_words_of_long_runs(seed: int, on: Chip) -> None:
    """Boxes large enough that runs end inside them."""
    rng = np.random.default_rng(seed)
    shape = ((3, 40), (2, 9, 14))[seed % 2]
    while True:
        operator = random_conv(rng, shape)
        if math.prod(operator.output_shape) < 1500:
            break
    net = one(operator, int(rng.integers(2)))
    box = random_box(rng, operator.output_shape)
    found = cost_model(net, on, 8).cost("p", box)
    assert found[:3] == counted(net, "p", box, on)


@settings(max_examples=cases(70, 200))
@given(seeds, chips)
def test_shared_kernels_are_stored_once(seed: int, on: Chip) -> None:
    rng = np.random.default_rng(seed)
    shape = ((2, 12), (2, 6, 7))[seed % 2]
    operator = random_windows(rng, shape)
    net = one(operator)
    on = replace(on, synapses=replace(on.synapses, shared_kernels=True))
    sizes = cost_model(net, on, 8)
    (edge,) = sizes.incoming["p"]
    assert edge.shares
    for _ in range(3):
        box = random_box(rng, operator.output_shape)
        place = positions(operator.output_shape, [Slice("p", box)], "p")
        assert sizes.words("p", edge, box) == shared_words(net.projections[0], place, on, 8)
        assert sizes.axons("p", box) == len(axons(net, "p", place))


def test_sharing_saves_words() -> None:
    operator = Conv(np.ones((4, 2, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 8, 8))
    net = one(operator)
    stored_once, every = (cost_model(net, chip(shared_kernels=shared), 8) for shared in (True, False))
    box = ((0, 4), (0, 8), (0, 8))
    # per axis the inputs at either border reach two outputs, all others three: 3 patterns, of 2, 2 and 3 outputs
    assert stored_once.cost("p", box).synapse_words == 2 * (2 + 2 + 3) * 3 * 2
    assert every.cost("p", box).synapse_words == 2 * (2 + 2 + 6 * 3) * 8 * 2
    assert stored_once.cost("p", box).input_axons == every.cost("p", box).input_axons == 128


@pytest.mark.parametrize("box", [((4, 30),), ((6, 17),)])
def test_neurons_one_to_one_of_a_flat_input_store_one_copy(box: tuple[tuple[int, int]]) -> None:
    """A flat input is one channel, as the checker counts it; 30 lists of one target each are alike."""
    net = one(Identity((30,)))
    sizes = cost_model(net, chip(shared_kernels=True), 8)
    (edge,) = sizes.incoming["p"]
    place = positions((30,), [Slice("p", box)], "p")
    assert sizes.words("p", edge, box) == 1 == shared_words(net.projections[0], place, chip(), 8)
    assert sizes.listed_words("p", edge, (((2, 4),), box)) == 1
    lists = neuron_lists(sizes)
    assert lists.words(np.arange(*box[0])) == 1


def test_channels_that_are_flattened_stay_channels() -> None:
    operator = Chain((Reshape((3, 4), (12,)), Identity((12,))))
    (edge,) = cost_model(one(operator), chip(shared_kernels=True), 8).incoming["p"]
    assert not edge.shares


@pytest.mark.parametrize("operator", [Dense(np.ones((6, 5))), random_sparse(np.random.default_rng(0), (6,), (5,))])
def test_what_is_no_kernel_is_not_shared(operator: Operator) -> None:
    (edge,) = cost_model(one(operator), chip(shared_kernels=True), 8).incoming["p"]
    assert not edge.shares


@pytest.mark.parametrize(("n", "expected"), [(62, 8), (64, 9), (1024, 133)])
def test_words_of_a_dense_layer(n: int, expected: int) -> None:
    sizes = cost_model(one(Dense(np.ones((1024, 7)))), chip(), 8)
    assert sizes.cost("p", ((5, 5 + n),) if n < 1000 else ((0, n),)) == SliceCost(n, 7, 7 * expected, 0, 0)


def test_a_delay_costs_bits() -> None:
    plain, late = (cost_model(one(Dense(np.ones((60, 7))), delay), chip(), 8) for delay in (0, 3))
    assert plain.cost("p", ((0, 60),)).synapse_words == 7 * 8
    assert late.cost("p", ((0, 60),)).synapse_words == 7 * math.ceil((60 * 14 + 2 * 10) / 64)


@settings(max_examples=cases(50, 150))
@given(seeds)
def test_lists_of_a_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    operator = random_operator(rng, random_shape(rng))
    (edge,) = cost_model(one(operator), chip(), 8).incoming["p"]
    if isinstance(edge.form, AllToAll):
        return
    box = random_box(rng, operator.output_shape)
    source, where, _ = box_lists(edge.form, box, flat_indices(operator.output_shape, box))
    place = positions(operator.output_shape, [Slice("p", box)], "p")
    expected = lists_of(one(operator).projections[0], place)
    found: dict[int, list[int]] = {}
    for s, w in zip(source.tolist(), where.tolist(), strict=True):
        found.setdefault(s, []).append(w)
    # sources are opaque numbers here: only which lists there are counts
    assert Counter(tuple(sorted(v)) for v in found.values()) == Counter(tuple(v) for v in expected.values())


@settings(max_examples=cases(30, 80))
@given(seeds)
def test_out_degrees_and_touched_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    sizes = cost_model(net, chip(), 8)
    tilings = {p.name: tuple(random_cuts(rng, p.shape, 4)) for p in net.populations}
    degrees = total_out_degrees(sizes)
    for source in ("in", *(p.name for p in net.populations)):
        own = [p for p in net.projections if p.source == source]
        if own:
            assert degrees[source].tolist() == sum(structure(p.operator).sum(axis=0) for p in own).tolist()
    for p in net.populations:
        expected = np.zeros(p.size, np.int64)
        for target, boxes in tilings.items():
            shape = net.population(target).shape
            for box in boxes:
                reached = axons(net, target, positions(shape, [Slice(target, box)], target))
                expected[[i for name, i in reached if name == p.name]] += 1
        assert touched_pieces(sizes, p.name, tilings).ravel().tolist() == expected.tolist()


@settings(max_examples=cases(40, 120))
@given(seeds, chips)
def test_ranges_of_a_kind_cost_alike(seed: int, on: Chip) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=True)
    sizes = cost_model(net, replace(on, synapses=replace(on.synapses, shared_kernels=bool(seed % 3))), 8)
    for p in net.populations:
        box = random_box(rng, p.shape)
        axis = int(rng.integers(len(p.shape)))
        length = box[axis][1] - box[axis][0]
        costs: dict[object, set[SliceCost]] = {}
        for start in range(p.shape[axis] - length + 1):
            piece = (start, start + length)
            moved = (*box[:axis], piece, *box[axis + 1 :])
            costs.setdefault(sizes.range_kind(p.name, axis, piece), set()).add(sizes.cost(p.name, moved))
        assert all(len(alike) == 1 for alike in costs.values())


def test_most_ranges_of_a_convolution_are_of_one_kind() -> None:
    operator = Conv(np.ones((4, 2, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 20, 20))
    sizes = cost_model(one(operator), chip(), 8)
    kinds = {sizes.range_kind("p", 1, (r, r + 2)) for r in range(19)}
    assert len(kinds) == 2  # at the border and inside: the border's padding makes its lists shorter


def test_profiles_are_counted_only_where_they_can_limit() -> None:
    record = neuron("LIF", a_mem=np.array([0.5, 0.5, 0.6, 0.7]), theta=np.array([1.0, 2.0, 1.0, 2.0]))
    projection = Projection("in", "p", Dense(np.ones((4, 2))))
    net = network({"in": (2,)}, [population("p", (4,), record)], [projection])
    few = cost_model(net, chip(core={"decay_profiles": 2, "threshold_profiles": 1}), 8)
    assert few.cost("p", ((0, 4),))[3:] == (3, 2)
    assert few.cost("p", ((0, 2),))[3:] == (1, 2)
    assert few.cost("p", ((2, 3),))[3:] == (1, 1)
    enough = cost_model(net, chip(core={"decay_profiles": 3, "threshold_profiles": 2}), 8)
    assert enough.cost("p", ((0, 4),))[3:] == (0, 0)


def test_a_read_out_has_no_threshold() -> None:
    record = neuron("LI", a_mem=np.array([0.5, 0.6]), theta=None)
    net = network({"in": (2,)}, [population("p", (2,), record)], [Projection("in", "p", Identity((2,)))])
    few = cost_model(net, chip(core={"decay_profiles": 1, "threshold_profiles": 1}), 8)
    assert few.cost("p", ((0, 2),))[3:] == (2, 0)


def test_the_known_cost_of_a_strip() -> None:
    """The closed form of the partitioning text: cin * sum over rows and columns of W(r * c * k)."""
    operator = Conv(np.ones((16, 2, 5, 5)), (2, 2), ((1, 1), (1, 1)), (1, 1), 1, (2, 34, 34))
    sizes = cost_model(one(operator), chip(), 8)

    def reach(n: int) -> Counter[int]:
        """How many inputs reach how many outputs of the first n."""
        lists = [[o for o in range(n) if 0 <= i + 1 - 2 * o < 5] for i in range(34)]
        return Counter(len(found) for found in lists if found)

    def run(n: int) -> int:
        return math.ceil((n + 2 * math.ceil(n / 62)) / 8)

    rows, columns = reach(2), reach(16)
    expected = 0
    for (r, nr), (c, nc) in product(rows.items(), columns.items()):
        expected += 2 * nr * nc * (run(r * c * 16) if c == 16 else r * run(c * 16))
    assert sizes.cost("p", ((0, 16), (0, 2), (0, 16))).synapse_words == expected
