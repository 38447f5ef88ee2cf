"""Bounds over all maps, choices of tilings and queries of the exact model, on very small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Dense, Identity, Sparse
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.search import bounds, exact, layouts
from nirbridge.partitioner.search import methods as search
from nirbridge.partitioner.search.bounds import any_map_bounds, least_cores, least_slots
from nirbridge.partitioner.search.slicing import capacity
from tests.partitioner.cases import chip, network, population
from tests.partitioner.nets import network_of

FREE = {"neurons": 8, "input_axons": None, "output_axons": 5}


def two_layers(**own: Any) -> CostModel:
    """40 inputs, 30 neurons, 20 neurons, all to all; of words of 64 bits, 22 targets take 3 and 30 take 4."""
    ways = [Projection("in", "a", Dense(np.ones((30, 40)))), Projection("a", "b", Dense(np.ones((20, 30))))]
    net = network({"in": (40,)}, [population("a", (30,)), population("b", (20,))], ways)
    return cost_model(net, chip(core=own.pop("core", FREE), **({"words": 100} | own)), 8)


def found(sizes: CostModel) -> dict[str, int]:
    return any_map_bounds(sizes, capacity(sizes.chip), 0)


def test_each_bound_of_two_dense_layers() -> None:
    """b lies on 3 cores at least, so each neuron of a sends to 3, and a core may send 5: 30 cores for 30 neurons.

    Lists of one target into a take 30 * 40 words; lists of 6 targets take the least per target in b, 20 * 30 / 6 words.
    """
    sizes = two_layers()
    assert least_cores(sizes, capacity(sizes.chip)) == {"a": 30, "b": 3}
    assert least_slots(sizes, {"a": 30, "b": 3}) == {"a": 3, "b": 0}
    each = found(sizes)
    assert each.pop("patterns") >= 30
    assert each == {"neurons": 7, "population": 30, "output_axons": 18, "synapse_words": 13}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"core": FREE | {"output_axons": None}}, {"neurons": 7, "population": 4, "synapse_words": 3}),
        ({"core": FREE | {"output_axons": 6}},
         {"neurons": 7, "population": 15, "output_axons": 15, "synapse_words": 7}),
        ({"words": None}, {"neurons": 7, "population": 30, "output_axons": 18}),
        ({"shared_kernels": True}, {"neurons": 7, "population": 30, "output_axons": 18}),
        ({"words": 50}, {"neurons": 7, "population": 30, "output_axons": 24, "synapse_words": 26}),
        ({"core": FREE | {"neurons": 50, "output_axons": 90}, "words": 1000}, None),
    ],
)  # fmt: skip
def test_limits_that_are_not_there_bound_nothing(own: Any, expected: dict[str, int] | None) -> None:
    each = found(two_layers(**own))
    if expected is None:
        assert each == {"neurons": 1, "population": 1, "output_axons": 1, "synapse_words": 1}
    else:
        assert each.pop("patterns") >= max(expected.values())
        assert each == expected


def test_sources_that_reach_every_neuron_count_once_and_hidden_ones_not() -> None:
    """Twice the same source; and a dense layer of which two of the inputs reach nothing."""
    some = Chain((Sparse(np.array([0, 1, 2]), np.array([0, 3]), np.ones(2), (4,), (2,)), Dense(np.ones((5, 2)))))
    ways = [
        Projection("in", "a", some),
        Projection("in", "a", Dense(np.ones((5, 4)))),
        Projection("a", "b", some_of(5)),
    ]
    net = network({"in": (4,)}, [population("a", (5,)), population("b", (6,))], ways)
    sizes = cost_model(net, chip(core=FREE), 8)
    assert bounds._dense_sources(sizes, "a") == 4
    assert bounds._dense_sources(sizes, "b") == 4
    assert least_slots(sizes, {"a": 1, "b": 9}) == {"a": 0, "b": 0}  # not of every neuron of a
    assert bounds._sources_of_one_target(sizes) == {"in", "a"}


def some_of(n: int) -> Chain:
    """All but the last of ``n`` sources, each to all of six."""
    kept = Sparse(np.arange(n), np.arange(n - 1), np.ones(n - 1), (n,), (n - 1,))
    return Chain((kept, Dense(np.ones((6, n - 1)))))


def test_a_source_of_two_populations_is_not_of_one() -> None:
    ways = [Projection("in", name, Dense(np.ones((2, 3)))) for name in ("a", "b", "b")]
    ways.append(Projection("a", "b", Identity((2,))))
    sizes = cost_model(network({"in": (3,)}, [population("a", (2,)), population("b", (2,))], ways), chip(), 8)
    assert bounds._sources_of_one_target(sizes) == {"a"}


def test_no_neuron_fits_where_its_axons_do_not() -> None:
    sizes = two_layers(core=FREE | {"output_axons": 2})
    assert least_cores(sizes, capacity(sizes.chip)) == {"a": 30, "b": 3}  # as many as neurons: more proves no more


# -- choices of cuts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "width", "segments", "stops"),
    [
        (0, 5, None, [1, 2, 3, 4, 5]),
        (4, 5, None, [5]),
        (2, 12, None, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (0, 13, None, [1, 2, 3, 4, 6, 8, 12, 13]),
        (10, 13, None, [11, 12, 13]),
        (5, 13, None, [6, 7, 8, 9, 11, 13]),
        (0, 400, None, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 400]),
        (0, 10, 3, [4, 8, 10]),
        (4, 10, 3, [8, 10]),
        (8, 10, 3, [10]),
        (1, 10, 3, []),
        (0, 10, 1, [10]),
        (5, 10, 1, []),
        (0, 9, 3, [3, 6, 9]),
    ],
)
def test_where_pieces_of_a_row_may_end(start: int, width: int, segments: int | None, stops: list[int]) -> None:
    assert layouts.Ends(segments, layouts.WIDTHS).after(start, width) == stops


@pytest.mark.parametrize(
    ("neurons", "lengths"),
    [
        (1000, [1, 2, 4, 8, 16, 32, 64, 128, 256, 750, 1000]),
        (1500, [1, 2, 4, 8, 16, 32, 64, 128, 256, 476, 512, 768, 1024]),
        (2048, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]),
        (6, [6]),
        (7, [6, 7]),
    ],
)
def test_lengths_of_ranges_of_a_dense_layer(neurons: int, lengths: list[int]) -> None:
    way = Projection("in", "p", Dense(np.ones((neurons, 1))))
    sizes = cost_model(network({"in": (1,)}, [population("p", (neurons,))], [way]), chip(), 8)
    (layout,), _ = layouts.layouts(sizes, {"p": np.zeros(neurons, int)}, {"p": ()}, capacity(chip()))
    assert [arc.where for arc in layout.arcs] == [(n,) for n in lengths]
    assert layout.rows == (layouts.LayoutRow(tuple(enumerate(lengths)), neurons, cover=True),)


@pytest.mark.parametrize(
    ("bound", "linear", "best", "cores"),
    [
        (5, 4.9, 20, [5, 6, 7, 9, 13]),
        (5, 4.9, 22, [5, 6, 7, 9, 13, 21]),
        (5, 5 + 5e-7, 7, [5, 6]),
        (5, 5.2, 20, [6, 7, 8, 10, 14]),
        (5, 5.5, 7, [6]),
        (5, 5.6, 8, [7]),
        (5, 4.0, 5, []),
        (1, 0.5, 100, [1, 2, 3, 5, 9, 17, 33, 65]),
    ],
)
def test_numbers_of_cores_that_are_tried(bound: int, linear: float, best: int, cores: list[int]) -> None:
    assert search._targets(bound, linear, best) == cores


def test_words_prove_nothing_where_kernels_are_shared() -> None:
    assert search.certain_columns(two_layers()) == (0, 2, 5)
    assert search.certain_columns(two_layers(shared_kernels=True)) == (0, 5)


# -- the exact model ----------------------------------------------------------------------------------------------


def wide(neurons: int, sources: int) -> CostModel:
    way = Projection("in", "p", Dense(np.ones((neurons, sources))))
    return cost_model(network({"in": (sources,)}, [population("p", (neurons,))], [way]), chip(), 8)


@pytest.mark.parametrize(
    ("neurons", "sources", "cores", "tiny"),
    [(40, 1, 12, True), (41, 1, 12, False), (40, 1, 13, False), (12, 1, 99, True), (13, 1, 99, False),
     (30, 50, 2, True), (29, 52, 2, False), (19, 79, 2, False)],
)  # fmt: skip
def test_what_is_small_enough_for_the_exact_model(neurons: int, sources: int, cores: int, tiny: bool) -> None:
    assert exact.is_tiny(wide(neurons, sources), cores) is tiny


def three(**neurons: Any) -> Network:
    """Populations a, b and c of two neurons, each of one input of its own."""
    populations = [population(n, (2,), neurons.get(n)) for n in "abc"]
    return network(dict.fromkeys(("x", "y", "z"), (1,)), populations, [
        Projection(port, name, Dense(np.ones((2, 1)))) for port, name in zip("xyz", "abc", strict=True)
    ])  # fmt: skip


def blocks_of(answer: exact.ExactResult) -> list[set[str]]:
    assert answer.blocks is not None
    return [{piece.population for piece in block} for block in answer.blocks]


@pytest.mark.parametrize(
    ("groups", "cores"), [({}, 1), ({"b": 0}, 1), ({"b": 1}, 2), ({"a": 1, "b": 2}, 3), ({"a": 1, "b": 1, "c": 1}, 1)]
)
def test_populations_of_different_groups_are_kept_apart(groups: dict[str, int], cores: int) -> None:
    sizes = cost_model(three(), chip(), 8)
    found = exact.solve_exactly(sizes, cores, 0, 4.0, groups=groups)
    assert found.proved
    assert len({groups.get(name, 0) for name in "abc"}) == cores
    for names in blocks_of(found):
        assert len({groups.get(name, 0) for name in names}) == 1
    if cores > 1:
        none = exact.solve_exactly(sizes, cores - 1, 0, 4.0, groups=groups)
        assert (none.blocks, none.proved) == (None, True)


@pytest.mark.parametrize(
    ("core", "words", "cores", "reasons"),
    [
        ({"neurons": 2}, None, 2, ("neurons",)),
        ({"neurons": 3}, None, 2, None),
        ({"input_axons": 1}, None, 2, ("input_axons",)),
        ({"input_axons": 2}, None, 2, None),
        ({}, 1, 2, ("synapse_words",)),
        ({}, 2, 2, None),
        ({"decay_profiles": 1}, None, 1, ("decay_profiles",)),
        ({"decay_profiles": 2}, None, 1, None),
        ({"threshold_profiles": 1}, None, 1, ("threshold_profiles",)),
        ({"threshold_profiles": 2}, None, 1, None),
        ({"neurons": 3, "input_axons": 1}, None, 2, ("input_axons",)),
        ({"neurons": 2, "input_axons": 1}, None, 2, ("input_axons",)),  # either alone would do: the last that is tried
    ],
)
def test_a_limit_rules_out_every_map_and_one_more_does_not(core: Any, words: Any, cores: int, reasons: Any) -> None:
    """a has another decay and two thresholds would not fit; c is a read-out, which has none."""
    own = {"a": neuron("LIF", a_mem=0.5, theta=2.0), "c": neuron("LI", a_mem=0.9, theta=None)}
    unlimited = dict.fromkeys(("neurons", "input_axons", "output_axons", "decay_profiles", "threshold_profiles"), None)
    sizes = cost_model(three(**own), chip(core=unlimited | core, words=words), 8)
    answer = exact.solve_exactly(sizes, cores, 0, 4.0)
    assert answer.proved
    assert (answer.blocks is None) is (reasons is not None)
    if reasons:
        assert exact.ruling_out_limits(sizes, cores, 0, 4.0) == reasons
        either = core == {"neurons": 2, "input_axons": 1}
        assert (exact.solve_exactly(sizes, cores, 0, 4.0, without=reasons).blocks is None) is either


def test_lists_that_are_cut_may_take_fewer_words_than_full_runs() -> None:
    # runs are filled to 8 targets, 74 bits of 64: 12 targets in one list take 2 + 1 words, in two cores 1 + 1
    net = network_of("1 dense12 lif")
    on = chip(words=1, run_free=False, run_targets_max=8)
    report = partition(net, on).report
    assert (report.cores, report.cores_lower_bound) == (2, 2)
