"""Every integer choice that a layout allows is a tiling, and its slices cost as their classes state."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape
from nirbridge.partitioner import PartitionOptions, partition, searches
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.search import methods as search
from nirbridge.partitioner.search.layouts import ClassTable, Layout, class_number, class_vectors, layouts, realise
from nirbridge.partitioner.search.slicing import UNLIMITED, NoTiling, capacity, tile_all, vector
from tests.cases import cases
from tests.partitioner.cases import (
    chip,
    network,
    population,
    random_conv,
    random_network,
    random_windows,
    tiles_exactly,
)

seeds = st.integers(0, 2**32 - 1)


def choose(layout: Layout, rng: np.random.Generator) -> np.ndarray | None:
    """Some integer values of the arcs that satisfy every row; None: there are none."""
    lower = np.array([row.rhs for row in layout.rows], float)
    upper = np.array([np.inf if row.cover else row.rhs for row in layout.rows])
    matrix = np.zeros((len(layout.rows), len(layout.arcs)))
    for number, row in enumerate(layout.rows):
        for arc, coefficient in row.terms:
            matrix[number, arc] += coefficient
    price = rng.uniform(0.1, 1.0, size=len(layout.arcs))
    solved = milp(price, integrality=1, bounds=Bounds(0, np.inf), constraints=LinearConstraint(matrix, lower, upper))
    return None if solved.x is None else np.round(solved.x).astype(np.int64)


def check(layout: Layout, sizes: CostModel, slots: np.ndarray, vectors: np.ndarray, rng: np.random.Generator) -> None:
    counts = choose(layout, rng)
    assert counts is not None, "no choice satisfies the rows"
    boxes = realise(layout, sizes, counts)
    shape = sizes.shapes[layout.population]
    assert tiles_exactly(shape, [box for found in boxes.values() for box in found])
    for number, found in boxes.items():
        for box in found:
            own = vector(sizes, layout.population, box, slots)
            if layout.kind == "flat":
                assert np.all(own <= vectors[number])
            else:
                assert own.tolist() == vectors[number].tolist(), box
    demanded: Counter[int] = Counter()
    for arc, count in zip(layout.arcs, counts.tolist(), strict=True):
        if arc.cost_class >= 0:
            demanded[arc.cost_class] += count
    supplied = Counter({number: len(found) for number, found in boxes.items()})
    assert supplied <= demanded if layout.kind == "flat" else supplied == +demanded


def uneven(net: Network, rng: np.random.Generator) -> Network:
    """Some populations whose neurons have two time constants or thresholds."""

    def own(p: Population) -> Population:
        if rng.random() < 0.5:
            return p
        return population(p.name, p.shape, neuron("LIF", a_mem=rng.choice([0.5, 0.75], size=p.shape), theta=1.0))

    return network({"in": net.inputs[0].shape}, [own(p) for p in net.populations], net.projections)


@settings(max_examples=cases(30, 80))
@given(seeds)
def test_every_choice_tiles_and_costs_what_it_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = uneven(random_network(rng, windows=bool(seed % 2)), rng)
    sizes = cost_model(net, chip(core={"decay_profiles": 1 + seed % 2}, shared_kernels=bool(seed % 3)), 8)
    cap = np.array(
        [rng.integers(4, 60), rng.integers(20, 80), rng.integers(40, 300), UNLIMITED, UNLIMITED, rng.integers(20, 120)]
    )
    try:
        tilings, _ = tile_all(sizes, cap)
    except NoTiling:
        return
    even = seed % 5 > 0
    slots = {p.name: np.full(p.shape, 2) if even else rng.integers(0, 3, size=p.shape) for p in net.populations}
    found, classes = layouts(sizes, slots, tilings, cap)
    assert [layout.population for layout in found] == [p.name for p in net.populations]
    numbers = [{arc.cost_class for arc in layout.arcs} - {-1} for layout in found]
    assert sum(map(len, numbers)) == len(set().union(*numbers)) == len(classes), "a class is of one population"
    for layout in found:
        assert all(np.all(classes[a.cost_class] >= 0) for a in layout.arcs)
        for _ in range(2):
            if layout.kind != "banded" or choose(layout, rng) is not None:
                check(layout, sizes, slots[layout.population], classes, rng)


@settings(max_examples=cases(20, 50))
@given(seeds, st.sampled_from([None, 1, 2, 3, 6]))
def test_bands_of_a_convolution(seed: int, segments: int | None) -> None:
    rng = np.random.default_rng(seed)
    shape = ((2, 6, 9), (1, 8, 16), (3, 5, 5))[seed % 3]
    operator = random_windows(rng, shape)
    projections = [Projection("in", "p", operator)]
    if rng.random() < 0.4:  # the same source on another way: its axons are counted once
        other = random_conv(rng, shape)
        if other.output_shape == operator.output_shape:
            projections.append(Projection("in", "p", other))
    net = network({"in": shape}, [population("p", operator.output_shape)], projections)
    sizes = cost_model(net, chip(), 8)
    cap = capacity(chip(core={"neurons": 64}, words=2000))
    slots = {"p": np.full(operator.output_shape, 1)}
    (layout,), classes = layouts(sizes, slots, {"p": ()}, cap, segments)
    assert layout.kind == "banded"
    for _ in range(3):
        if choose(layout, rng) is not None or segments is None:
            check(layout, sizes, slots["p"], classes, rng)


@pytest.mark.parametrize("behind", [False, True])
def test_cuts_too_coarse_to_fit_leave_the_map_as_it_is(behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole row does not fit a core: there is no choice, with or without pieces of another population."""
    operator = Conv(np.ones((4, 1, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 4, 12))
    flat = Chain((Reshape((4, 4, 12), (192,)), Dense(np.ones((10, 192)))))
    populations, projections = [population("p", (4, 4, 12))], [Projection("in", "p", operator)]
    if behind:
        populations.append(population("q", (10,)))
        projections.append(Projection("p", "q", flat))
    net = network({"in": (1, 4, 12)}, populations, projections)
    on = chip(core={"neurons": 31}, words=2000)
    sizes = cost_model(net, on, 8)
    slots = {name: np.zeros(shape, int) for name, shape in sizes.shapes.items()}
    found, _ = layouts(sizes, slots, {}, capacity(on), 1)
    assert choose(found[0], np.random.default_rng(0)) is None
    monkeypatch.setattr(search, "CLASSES_MAX", len(layouts(sizes, slots, {}, capacity(on), 1)[1]))
    # other searches would find fewer cores than the first map
    for name in searches.SEARCHES:
        if name != "patterns":
            monkeypatch.setitem(searches.SEARCHES, name, lambda *_: None)
    monkeypatch.setattr(searches, "finer_cores", lambda *given: given[2])
    assert (
        partition(net, on, PartitionOptions(method="cp-sat", effort="max")).blocks
        == partition(net, on, PartitionOptions(method="packed")).blocks
    )


def test_a_source_on_two_ways_is_told_apart_by_place() -> None:
    """Rows whose patterns are alike, but whose two lists of sources overlap here and not there."""
    near = Conv(np.ones((1, 1, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 6, 4))
    far = Conv(np.ones((1, 1, 1, 1)), (2, 1), ((3, 2), (0, 0)), (1, 1), 1, (1, 6, 4))
    assert far.output_shape == near.output_shape
    projections = [Projection("in", "p", near), Projection("in", "p", far)]
    net = network({"in": (1, 6, 4)}, [population("p", (1, 6, 4))], projections)
    sizes = cost_model(net, chip(), 8)
    (layout,), classes = layouts(sizes, {"p": np.zeros((1, 6, 4), int)}, {"p": ()}, capacity(chip()))
    for seed in range(5):
        check(layout, sizes, np.zeros((1, 6, 4), int), classes, np.random.default_rng(seed))


@pytest.mark.parametrize("n", [1, 7, 100, 1000])
def test_ranges_of_a_dense_layer(n: int) -> None:
    sizes = cost_model(
        network({"in": (40,)}, [population("p", (n,))], [Projection("in", "p", Dense(np.ones((n, 40))))]), chip(), 8
    )
    slots = {"p": np.full(n, 3)}
    (layout,), classes = layouts(sizes, slots, {"p": ()}, capacity(chip()))
    assert layout.kind == "flat"
    for seed in range(5):
        check(layout, sizes, slots["p"], classes, np.random.default_rng(seed))


def test_lengths_where_words_change_and_the_largest() -> None:
    """40 sources: 128 x W(n) words; W grows after 6, 14, 22, … 62 neurons, 1,024 neurons are the most."""
    projection = Projection("in", "p", Dense(np.ones((70, 40))))
    sizes = cost_model(network({"in": (40,)}, [population("p", (70,))], [projection]), chip(), 8)
    (layout,), _ = layouts(sizes, {"p": np.zeros(70, int)}, {"p": ()}, capacity(chip()))
    assert [arc.where[0] for arc in layout.arcs] == [6, 14, 22, 30, 38, 46, 54, 62, 68, 70]


def test_a_one_to_one_layer_is_flat_and_other_flat_ones_are_fixed() -> None:
    projections = [Projection("in", "a", Identity((9,))), Projection("in", "b", Dense(np.ones((9, 9))))]
    net = network({"in": (9,)}, [population("a", (9,)), population("b", (9,))], projections)
    sizes = cost_model(net, chip(), 8)
    slots = {"a": np.zeros(9, int), "b": np.arange(9)}
    tilings = {"a": (((0, 9),),), "b": (((0, 4),), ((4, 9),))}
    found, _ = layouts(sizes, slots, tilings, capacity(chip()))
    assert [layout.kind for layout in found] == ["flat", "fixed"]
    assert realise(found[1], sizes, np.ones(2, int)) == {
        found[1].arcs[0].cost_class: [((0, 4),)],
        found[1].arcs[1].cost_class: [((4, 9),)],
    }


def test_equal_costs_are_one_class_per_population() -> None:
    table: ClassTable = {}
    numbers = [
        class_number(table, "a", np.array([1, 2])),
        class_number(table, "b", np.array([1, 2])),
        class_number(table, "a", np.array([1, 2])),
        class_number(table, "a", np.array([2, 2])),
    ]
    assert numbers == [0, 1, 0, 2]
    assert class_vectors(table).tolist() == [[1, 2], [1, 2], [2, 2]]
    assert list(table) == [("a", 1, 2), ("b", 1, 2), ("a", 2, 2)]
