"""Choices of tilings arc by arc on tiny populations, and the bands offered, by exhaustive search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from nirbridge.network.model import Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse
from nirbridge.partitioner.cost.axis import axis_from_matrix, full_axis, identity_axis
from nirbridge.partitioner.cost.connectivity import AllToAll, Separable
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.search import layouts as cutting
from nirbridge.partitioner.search.layouts import Band, Layout, LayoutArc, LayoutRow, layouts, realise
from nirbridge.partitioner.search.slicing import capacity, cuts, vector
from tests.partitioner.cases import chip, network, population


def conv_sizes(
    shape: tuple[int, ...], out: int, kernel: int, padding: int = 0, stride: int = 1, **on: Any
) -> CostModel:
    weight = np.ones((out, shape[0], kernel, kernel))
    ends = (padding, padding)
    operator = Conv(weight, (stride, stride), (ends, ends), (1, 1), 1, shape)
    net = network({"in": shape}, [population("p", operator.output_shape)], [Projection("in", "p", operator)])
    return cost_model(net, chip(**on), 8)


def only(sizes: CostModel, slots: Any = 0, segments: int | None = None) -> tuple[Layout, list[list[int]]]:
    """The layout of the only population, and the cost vectors of its classes."""
    own = np.broadcast_to(np.asarray(slots), sizes.shapes["p"])
    (layout,), classes = layouts(sizes, {"p": own}, {"p": ()}, capacity(sizes.chip), segments)
    return layout, classes.tolist()


# -- bands --------------------------------------------------------------------------------------------------------

TINY = conv_sizes((1, 2, 2), 1, 1)
ROWS = (
    LayoutRow(((0, 1),), 1),
    LayoutRow(((0, -1), (1, 1)), 0),
    LayoutRow(((1, -1),), -1),
    LayoutRow(((2, 1), (3, 1), (0, -1), (1, -1)), 0),
    LayoutRow(((2, -1), (4, 1)), 0),
)
ARCS = ((-1, (0, 0)), (-1, (0, 1)), (0, (0, 0, 0, 0, 1)), (1, (0, 0, 0, 0, 2)), (0, (0, 0, 0, 1, 2)))


def test_arcs_and_flows_of_two_rows_that_cost_alike() -> None:
    """Two bands of a row, each either one piece or two; the columns of both are one flow."""
    layout, vectors = only(TINY, 3)
    assert layout == Layout("p", "banded", tuple(LayoutArc(*arc) for arc in ARCS), ROWS, ((1, ((0, 1),)),))
    assert vectors == [[1, 1, 1, 0, 0, 3], [2, 2, 2, 0, 0, 6]]


def test_rows_whose_neurons_have_other_output_axons_have_flows_of_their_own() -> None:
    layout, vectors = only(TINY, np.array([[[1, 1], [2, 2]]]))
    assert [arc.where for arc in layout.arcs] == [
        (0, 0), (0, 1),
        (0, 0, 0, 0, 1), (0, 0, 0, 0, 2), (0, 0, 0, 1, 2),
        (0, 1, 0, 0, 1), (0, 1, 0, 0, 2), (0, 1, 0, 1, 2),
    ]  # fmt: skip
    assert [v[5] for v in vectors] == [1, 2, 2, 4]
    assert layout.rows[3:] == (
        LayoutRow(((2, 1), (3, 1), (0, -1)), 0), LayoutRow(((2, -1), (4, 1)), 0), LayoutRow(((5, 1), (6, 1), (1, -1)),
        0),
        LayoutRow(((5, -1), (7, 1)), 0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("core", "segments", "wheres"),
    [
        ({"neurons": 1}, None, [(0, 0, 0, 0, 1), (0, 0, 0, 1, 2)]),
        ({"neurons": 2}, None, [(0, 0, 0, 0, 1), (0, 0, 0, 0, 2), (0, 0, 0, 1, 2)]),
        ({"neurons": 2}, 1, [(0, 0, 0, 0, 2)]),
        ({"neurons": 1}, 1, []),
    ],
)
def test_pieces_that_no_core_holds_are_no_choice(core: Any, segments: int | None, wheres: list[Any]) -> None:
    layout, _ = only(conv_sizes((1, 2, 2), 1, 1, core=core), segments=segments)
    assert [arc.where for arc in layout.arcs if arc.cost_class >= 0] == wheres


def test_boxes_of_chosen_arcs() -> None:
    layout, _ = only(TINY)
    row = [((0, 1), (k, k + 1), (0, 2)) for k in range(2)]
    halves = [[((0, 1), (k, k + 1), (c, c + 1)) for c in range(2)] for k in range(2)]
    assert realise(layout, TINY, np.array([1, 1, 0, 2, 0])) == {1: row}
    assert realise(layout, TINY, np.array([1, 1, 1, 1, 1])) == {0: halves[0], 1: row[1:]}
    assert realise(layout, TINY, np.array([1, 1, 2, 0, 2])) == {0: halves[0] + halves[1]}


def test_boxes_of_channel_groups_and_taller_bands() -> None:
    """Two bands of two rows and two groups of channels; a core holds eight neurons."""
    sizes = conv_sizes((1, 4, 2), 4, 1, core={"neurons": 8, "input_axons": 4})
    arcs = [LayoutArc(-1, (0, 0)), LayoutArc(-1, (0, 2)), LayoutArc(0, (0, 0, 0, 0, 2)), LayoutArc(1, (0, 0, 1, 0, 2))]
    rows = (LayoutRow(((2, 1), (0, -1), (1, -1)), 0), LayoutRow(((3, 1), (0, -1), (1, -1)), 0))
    layout = Layout("p", "banded", tuple(arcs), rows, ((2, ((0, 2), (2, 4))),))
    assert realise(layout, sizes, np.array([1, 1, 2, 2])) == {
        0: [((0, 2), (0, 2), (0, 2)), ((0, 2), (2, 4), (0, 2))],
        1: [((2, 4), (0, 2), (0, 2)), ((2, 4), (2, 4), (0, 2))],
    }


def score(sizes: CostModel, slots: np.ndarray, band: int, groups: int) -> float | None:
    """The least share of a core per neuron of a piece in the middle, over the widths that a core holds."""
    channels, height, width = sizes.shapes["p"]
    cap, shares = capacity(sizes.chip), list[float]()
    top = (height - band) // 2
    for w in range(1, width + 1):
        left = (width - w) // 2
        box = (cuts(channels, groups)[0], (top, top + band), (left, left + w))
        cost = vector(sizes, "p", box, slots).tolist()
        if any(c > most for c, most in zip(cost, cap.tolist(), strict=True)):
            break
        shares.append(max(c / max(most, 1) for c, most in zip(cost, cap.tolist(), strict=True)) / cost[0])
    return min(shares, default=None)


def bands(sizes: CostModel, slots: np.ndarray) -> tuple[Band, ...]:
    """The best strip of one row, and the best band if it is better by half a per cent."""
    channels, height, _ = sizes.shapes["p"]
    heights = {h for h in (1, 2, 3, 4, 5, 6, 8, height) if h <= height}
    groups = {g for g in (1, 2, 4, 8, 16, channels) if g <= channels}
    scored = sorted((own, g, h) for g in groups for h in heights if (own := score(sizes, slots, h, g)) is not None)
    base = next((s for s in scored if s[2] == 1), scored[0])
    better = [s for s in scored if s[0] < base[0] * 0.995]
    return tuple(sorted({(h, cuts(channels, g)) for _, g, h in [base, *better[:1]]}))


@pytest.mark.parametrize("cap", [(1024, 4096, 16384), (64, 200, 300), (30, 60, 2000), (200, 5000, 90), (16, 30, 1000)])
@pytest.mark.parametrize("shape", [(2, 9, 7), (1, 12, 5), (3, 4, 16), (1, 1, 6)])
@pytest.mark.parametrize(
    ("out", "kernel", "padding", "stride"), [(1, 1, 0, 1), (6, 3, 1, 1), (17, 3, 1, 1), (5, 2, 1, 2)]
)
def test_the_bands_that_are_offered(
    shape: tuple[int, ...], out: int, kernel: int, padding: int, stride: int, cap: tuple[int, ...]
) -> None:
    core = {"neurons": cap[0], "input_axons": cap[1], "output_axons": 4 * cap[0]}
    sizes = conv_sizes(shape, out, kernel, padding, stride, core=core, words=cap[2])
    slots = np.random.default_rng(0).integers(0, 5, size=sizes.shapes["p"])
    groups = {g for g in (1, 2, 4, 8, 16, out) if g <= out}
    for band in range(1, sizes.shapes["p"][1] + 1):
        for g in groups:
            found = cutting._score(sizes, "p", slots, capacity(sizes.chip), band, cuts(out, g))
            assert found == score(sizes, slots, band, g)
    assert cutting._band_choices(sizes, "p", slots, capacity(sizes.chip), fine=False) == bands(sizes, slots)


# -- flat and fixed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "counts", "boxes"),
    [
        (7, [2, 2], {5: [((0, 3),), ((3, 6),)], 4: [((6, 7),)]}),
        (8, [2, 2], {5: [((0, 3),), ((3, 6),)], 4: [((6, 7),), ((7, 8),)]}),
        (5, [2, 2], {5: [((0, 3),), ((3, 5),)]}),
        (3, [0, 1], {5: [((0, 3),)]}),
        (2, [2, 0], {4: [((0, 1),), ((1, 2),)]}),
    ],
)
def test_ranges_from_the_longest_on(length: int, counts: list[int], boxes: Any) -> None:
    layout = Layout("p", "flat", (LayoutArc(4, (1,)), LayoutArc(5, (3,))), ())
    way = Projection("in", "p", Dense(np.ones((length, 2))))
    sizes = cost_model(network({"in": (2,)}, [population("p", (length,))], [way]), chip(), 8)
    assert realise(layout, sizes, np.array(counts)) == boxes


def test_the_boxes_of_the_map_so_far_are_the_only_choice_elsewhere() -> None:
    some = Sparse(np.array([0, 1, 2, 3]), np.array([1, 2, 0]), np.ones(3), (3,), (3,))
    net = network({"in": (3,)}, [population("p", (3,))], [Projection("in", "p", some)])
    sizes, tiles = cost_model(net, chip(), 8), (((0, 2),), ((2, 3),))
    (layout,), classes = layouts(sizes, {"p": np.array([1, 2, 3])}, {"p": tiles}, capacity(chip()))
    rows = (LayoutRow(((0, 1),), 1), LayoutRow(((1, 1),), 1))
    assert layout == Layout("p", "fixed", (LayoutArc(0, (0,)), LayoutArc(1, (1,))), rows, boxes=tiles)
    assert classes.tolist() == [[2, 2, 2, 0, 0, 3], [1, 1, 1, 0, 0, 3]]


SHUFFLED = Sparse(np.array([0, 1, 2]), np.array([1, 0]), np.ones(2), (2,), (2,))


@pytest.mark.parametrize(
    ("form", "is_so"),
    [
        (Separable((identity_axis(3),)), True),
        (Separable((identity_axis(3), identity_axis(1))), False),
        (Separable((full_axis(3, 3),)), False),
        (Separable((axis_from_matrix(sparse.csr_array(np.eye(3, 4))),)), False),
        (Separable((axis_from_matrix(sparse.csr_array(np.eye(3)[::-1])),)), False),
        (AllToAll(np.ones(3, bool), (3,)), False),
    ],
)
def test_one_to_one(form: Any, is_so: bool) -> None:
    assert cutting._is_one_to_one(form) is is_so


@pytest.mark.parametrize(
    ("shape", "listed", "kind"),
    [((2, 2), False, "fixed"), ((1, 2, 2), False, "banded"), ((1, 2, 2), True, "fixed"), ((4,), True, "fixed")],
)
def test_bands_are_of_images_alone(shape: tuple[int, ...], listed: bool, kind: str) -> None:
    """Dense onto each shape, or the same as a list of every synapse."""
    every = Sparse(np.arange(5) * 3, np.tile(np.arange(3), 4), np.ones(12), (3,), (4,))
    first = every if listed else Dense(np.ones((4, 3)))
    operator = first if shape == (4,) else Chain((first, Reshape((4,), shape)))
    net = network({"in": (3,)}, [population("p", shape)], [Projection("in", "p", operator)])
    sizes, box = cost_model(net, chip(), 8), tuple((0, n) for n in shape)
    (layout,), _ = layouts(sizes, {"p": np.ones(shape, int)}, {"p": (box,)}, capacity(chip()))
    assert layout.kind == kind
    ways = (*net.projections, Projection("in", "p", Chain((every, Reshape((4,), shape)))))
    both = cost_model(network({"in": (3,)}, net.populations, ways), chip(), 8)
    (layout,), _ = layouts(both, {"p": np.ones(shape, int)}, {"p": (box,)}, capacity(chip()))
    assert layout.kind == "fixed"


@pytest.mark.parametrize(("neurons", "lengths"), [(41, list(range(1, 42))), (42, [1, 2, 4, 8, 16, 31, 42])])
def test_forty_steps_of_words_are_offered_and_more_are_not(neurons: int, lengths: list[int]) -> None:
    net = network({"in": (1,)}, [population("p", (neurons,))], [Projection("in", "p", Dense(np.ones((neurons, 1))))])
    layout, _ = only(cost_model(net, chip(run_targets_max=1), 8))
    assert [arc.where[0] for arc in layout.arcs] == lengths
    single, _ = only(cost_model(net, chip(core={"neurons": 1}), 8))
    assert [arc.where for arc in single.arcs] == [(1,)]
    assert cutting.class_vectors({}).shape == (0, 0)


@pytest.mark.parametrize(
    ("operators", "slots", "own", "core", "kind"),
    [
        ([Dense(np.ones((2, 2)))], [1, 1], {}, {}, "flat"),
        ([Identity((2,)), Scale(np.ones(2)), Dense(np.ones((2, 2)))], [0, 0], {}, {}, "flat"),
        ([Dense(np.ones((2, 2)))], [1, 2], {}, {}, "fixed"),
        ([Dense(np.ones((2, 2))), SHUFFLED], [1, 1], {}, {}, "fixed"),
        ([Dense(np.ones((2, 2)))], [1, 1], {"a_mem": np.array([0.5, 0.75])}, {"decay_profiles": 1}, "fixed"),
        ([Dense(np.ones((2, 2)))], [1, 1], {"a_mem": np.array([0.5, 0.75])}, {"decay_profiles": 2}, "flat"),
        ([Dense(np.ones((2, 2)))], [1, 1], {"theta": np.array([0.5, 0.75])}, {"threshold_profiles": 1}, "fixed"),
        ([Dense(np.ones((2, 2)))], [1, 1], {"theta": np.array([0.5, 0.75])}, {"threshold_profiles": 2}, "flat"),
    ],
)
def test_flat_where_every_range_costs_the_same(operators: Any, slots: Any, own: Any, core: Any, kind: str) -> None:
    ways = [Projection("in", "p", operator) for operator in operators]
    net = network({"in": (2,)}, [population("p", (2,), neuron("LIF", **own))], ways)
    sizes = cost_model(net, chip(core=core), 8)
    (layout,), _ = layouts(sizes, {"p": np.array(slots)}, {"p": (((0, 2),),)}, capacity(sizes.chip))
    assert layout.kind == kind
