"""Tilings of populations: every tiling covers exactly, every slice fits, no grid with fewer slices does."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge._types import Box
from nirbridge.network.model import Projection
from nirbridge.network.operators import Conv, Dense
from nirbridge.partitioner.cost.connectivity import AllToAll
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.slicing import (
    UNLIMITED,
    NoTiling,
    best_grid,
    capacity,
    cuts,
    grid,
    largest_slices,
    output_slots,
    shrunk_capacity,
    slice_kinds,
    tile_all,
    vector,
)
from tests.cases import cases
from tests.partitioner.cases import axons, chip, network, population, positions, random_network, tiles_exactly

seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def caps(rng: np.random.Generator) -> np.ndarray:
    """A packing capacity around what a few neurons of a small network need."""
    return np.array(
        [rng.integers(1, 60), rng.integers(2, 80), rng.integers(4, 300), UNLIMITED, UNLIMITED, rng.integers(2, 120)]
    )


def is_dense(name: str, sizes: CostModel) -> bool:
    return all(isinstance(edge.form, AllToAll) for edge in sizes.incoming[name])


def fits(sizes: CostModel, name: str, boxes: tuple[Box, ...], slots: np.ndarray | None, cap: np.ndarray) -> bool:
    return all(np.all(vector(sizes, name, box, slots) <= cap) for box in boxes)


@given(st.integers(1, 200), st.data())
def test_cuts_are_near_equal_and_cover(length: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, length))
    found = cuts(length, parts)
    assert len(found) == parts
    assert found[0][0] == 0
    assert found[-1][1] == length
    assert all(a[1] == b[0] for a, b in pairwise(found))
    sizes = [b - a for a, b in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    assert sizes[0] == math.ceil(length / parts)


@given(shapes, st.data())
def test_a_grid_tiles_exactly(shape: tuple[int, ...], data: st.DataObject) -> None:
    parts = tuple(data.draw(st.integers(1, n)) for n in shape)
    boxes = grid(shape, parts)
    assert len(boxes) == math.prod(parts)
    assert tiles_exactly(shape, boxes)


def test_a_grid_is_in_the_order_of_numbering() -> None:
    assert grid((2, 2, 1), (2, 2, 1)) == (
        ((0, 1), (0, 1), (0, 1)),
        ((1, 2), (0, 1), (0, 1)),
        ((0, 1), (1, 2), (0, 1)),
        ((1, 2), (1, 2), (0, 1)),
    )


def test_capacity_is_in_the_order_of_cost() -> None:
    core = {
        "neurons": 5,
        "input_axons": 6,
        "output_axons": None,
        "decay_profiles": 3,
        "threshold_profiles": None,
    }
    assert capacity(chip(core=core, words=7)).tolist() == [5, 6, 7, 3, UNLIMITED, UNLIMITED]


def test_a_part_of_a_core_has_all_axons() -> None:
    cap = np.array([10, 20, 30, 4, 5, 60])
    assert shrunk_capacity(cap, 3).tolist() == [3, 20, 10, 4, 5, 60]
    assert shrunk_capacity(cap, 100).tolist() == [1, 20, 1, 4, 5, 60]
    assert cap.tolist() == [10, 20, 30, 4, 5, 60]


@settings(max_examples=cases(35, 100))
@given(seeds)
def test_pieces_of_a_kind_cost_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=bool(seed % 2))
    sizes = cost_model(net, chip(shared_kernels=bool(seed % 3)), 8)
    for p in net.populations:
        parts = tuple(int(rng.integers(1, n + 1)) for n in p.shape)
        kinds = slice_kinds(sizes, p.name, parts)
        expected = sorted(sizes.cost(p.name, box) for box in grid(p.shape, parts))
        assert sorted(sizes.cost(p.name, box) for box, n in kinds for _ in range(n)) == expected


@settings(max_examples=cases(30, 80))
@given(seeds)
def test_the_best_grid_fits_and_of_a_dense_layer_none_has_fewer_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=bool(seed % 2))
    sizes = cost_model(net, chip(), 8)
    cap = caps(rng)
    for p in net.populations:
        slots = rng.integers(0, 5, size=p.shape) if rng.random() < 0.5 else None
        fitting = [
            parts
            for parts in product(*(range(1, n + 1) for n in p.shape))
            if fits(sizes, p.name, grid(p.shape, parts), slots, cap)
        ]
        if not fitting:
            with pytest.raises(NoTiling) as caught:
                best_grid(sizes, p.name, slots, cap)
            assert caught.value.population == p.name
            continue
        found = best_grid(sizes, p.name, slots, cap)
        assert tiles_exactly(p.shape, found)
        assert fits(sizes, p.name, found, slots, cap)
        if is_dense(p.name, sizes) and slots is None:
            assert len(found) == min(math.prod(parts) for parts in fitting)


@settings(max_examples=cases(35, 100))
@given(seeds)
def test_largest_pieces_fit_and_none_can_grow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, sources = int(rng.integers(1, 200)), int(rng.integers(1, 9))
    projection = Projection("in", "p", Dense(np.ones((n, sources))))
    net = network({"in": (sources,)}, [population("p", (n,))], [projection])
    sizes = cost_model(net, chip(), 8)
    cap = caps(rng)
    slots = rng.integers(0, 3, size=n) if rng.random() < 0.5 else None
    try:
        found = largest_slices(sizes, "p", slots, cap)
    except NoTiling:
        assert any(np.any(vector(sizes, "p", ((i, i + 1),), slots) > cap) for i in range(n))
        return
    assert tiles_exactly((n,), found)
    assert fits(sizes, "p", found, slots, cap)
    for (((a, b),),) in zip(found[:-1], strict=True):
        assert not fits(sizes, "p", (((a, b + 1),),), slots, cap)


@settings(max_examples=cases(20, 60))
@given(seeds)
def test_all_populations_fit_with_their_output_axons(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=bool(seed % 2))
    sizes = cost_model(net, chip(), 8)
    cap = caps(rng)
    try:
        tilings, slots = tile_all(sizes, cap, largest_slices if seed % 3 else best_grid)
    except NoTiling:
        return
    assert set(tilings) == {p.name for p in net.populations}
    for p in net.populations:
        assert tiles_exactly(p.shape, tilings[p.name])
        sent = np.zeros(p.size, np.int64)
        for target, boxes in tilings.items():
            shape = net.population(target).shape
            for box in boxes:
                reached = axons(net, target, positions(shape, [Slice(target, box)], target))
                sent[[i for name, i in reached if name == p.name]] += 1
        assert slots[p.name].ravel().tolist() == sent.tolist()
        assert fits(sizes, p.name, tilings[p.name], sent.reshape(p.shape), cap)
    again = output_slots(sizes, tilings)
    assert all(np.array_equal(again[name], slots[name]) for name in again)


def dense(sources: int, targets: int) -> CostModel:
    projection = Projection("in", "p", Dense(np.broadcast_to(np.float32(1), (targets, sources))))
    return cost_model(network({"in": (sources,)}, [population("p", (targets,))], [projection]), chip(), 8)


def test_a_dense_layer_of_2000_is_cut_where_words_end() -> None:
    """16,384 words hold 2,000 lists of at most 8 words: 62 neurons."""
    boxes = largest_slices(dense(2000, 2000), "p", None, capacity(chip()))
    assert {b - a for ((a, b),) in boxes[:-1]} == {62}
    assert len(boxes) == 33


def test_one_neuron_with_too_many_sources_is_refused_at_once() -> None:
    with pytest.raises(NoTiling) as caught:
        best_grid(dense(5000, 100_000), "p", None, capacity(chip()))
    assert (caught.value.population, caught.value.output_axons) == ("p", 0)


def test_too_many_output_axons_are_told() -> None:
    sizes = dense(4, 8)
    with pytest.raises(NoTiling) as caught:
        best_grid(sizes, "p", np.full(8, 5000), capacity(chip()))
    assert caught.value.output_axons == 5000


def test_a_convolution_is_cut_in_space_before_its_lists_are_doubled() -> None:
    operator = Conv(np.ones((64, 32, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (32, 16, 16))
    projection = Projection("in", "p", operator)
    sizes = cost_model(network({"in": (32, 16, 16)}, [population("p", (64, 16, 16))], [projection]), chip(), 8)
    boxes = best_grid(sizes, "p", None, capacity(chip()))
    assert tiles_exactly((64, 16, 16), boxes)
    assert {c for c, _, _ in boxes} == {(0, 64)}
