"""Tilings into rectangles: the cheapest by brute force, legal packings, and layers whose best tiling is known."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.partitioner import partition
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search import rectangles
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.rectangles import Plane, channel_sizes
from nirbridge.partitioner.search.slicing import UNLIMITED, capacity, vector
from nirbridge.partitioner.search.tiling import axons_bind, rests_of, tiled
from tests.partitioner.cases import LOIHI, chip, covers, random_network, tiles_exactly
from tests.partitioner.nets import network_of

CROSSBAR = read_chip("crossbar256")
NIR_CNN = "2x34x34 conv16k5s2p1 if conv16k3p1 if sumpool2 if conv8k3p1 if sumpool2 if flatten dense256 if dense10 if"


def random_prices(seed: int, height: int, width: int) -> dict[tuple[int, int], np.ndarray]:
    """Prices of most sizes; single positions always have one."""
    rng = np.random.default_rng(seed)
    found = {}
    for h, w in product(range(1, height + 1), range(1, width + 1)):
        prices = rng.integers(1, 30, size=(height - h + 1, width - w + 1))
        prices[rng.random(prices.shape) < 0.3] = 1 << 60 if h * w > 1 else 40
        if h * w == 1 or rng.random() < 0.6:
            found[h, w] = prices
    return found


def least_of_nested_cuts(prices: dict[tuple[int, int], np.ndarray], height: int, width: int) -> int:
    @cache
    def least(r: int, c: int, h: int, w: int) -> int:
        own = int(prices[h, w][r, c]) if (h, w) in prices else 1 << 60
        down = [least(r, c, k, w) + least(r + k, c, h - k, w) for k in range(1, h)]
        across = [least(r, c, h, k) + least(r, c + k, h, w - k) for k in range(1, w)]
        return min([own, *down, *across])

    return least(0, 0, height, width)


@pytest.mark.parametrize("seed", range(8))
def test_the_cheapest_tiling_is_that_of_brute_force(seed: int) -> None:
    height, width = 2 + seed % 4, 3 + seed % 3
    prices = random_prices(seed, height, width)
    found = rectangles.cheapest(prices, height, width)
    assert found is not None
    total, tiles = found
    assert total == least_of_nested_cuts(prices, height, width)
    assert total == sum(int(prices[h, w][r, c]) for r, c, h, w in tiles)
    assert tiles_exactly((height, width), [((r, r + h), (c, c + w)) for r, c, h, w in tiles])


@pytest.mark.parametrize("seed", range(6))
def test_bands_of_large_planes_are_tilings_and_no_cheaper(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    height, width = 5, 3 + seed % 3
    prices = random_prices(seed, height, width)
    monkeypatch.setattr(rectangles, "NESTED_MAX", 0)
    found = rectangles.cheapest(prices, height, width)
    assert found is not None
    total, tiles = found
    assert total >= least_of_nested_cuts(prices, height, width)
    assert total == sum(int(prices[h, w][r, c]) for r, c, h, w in tiles)
    assert tiles_exactly((height, width), [((r, r + h), (c, c + w)) for r, c, h, w in tiles])


def test_bands_of_columns_are_tried_where_rows_are_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rectangles, "NESTED_MAX", 0)
    ones, twos = np.full((3, 2), 50), np.full((2, 2), 50)
    ones[0, 0] = twos[1, 0] = twos[0, 1] = ones[2, 1] = 1  # left column cut after 1 row, right column after 2
    tiles = [(0, 0, 1, 1), (1, 0, 2, 1), (0, 1, 2, 1), (2, 1, 1, 1)]
    found = rectangles.cheapest({(1, 1): ones, (2, 1): twos}, 3, 2)
    assert found is not None
    assert (found[0], sorted(found[1])) == (4, sorted(tiles))
    found = rectangles.cheapest({(1, 1): ones.T, (1, 2): twos.T}, 2, 3)
    assert found is not None
    assert (found[0], sorted(found[1])) == (4, sorted((c, r, w, h) for r, c, h, w in tiles))


@pytest.mark.parametrize("large", [False, True])
def test_a_plane_without_any_tiling_has_none(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rectangles, "NESTED_MAX", 0 if large else 600)
    assert rectangles.cheapest({(2, 2): np.ones((2, 2), np.int64)}, 3, 3) is None


def test_numbers_of_channels_get_coarser() -> None:
    assert list(channel_sizes(1)) == [1]
    assert list(channel_sizes(6)) == [6, 3, 2, 1]
    assert list(channel_sizes(64)) == [64, 32, 22, 16, 10, 6, 4, 2, 1]


@pytest.mark.parametrize("text", ["2x9x7 conv6k3s2p1 lif", "3x14 conv6k5p2 lif", "4x8x8 conv8k3p1g4 lif"])
def test_vectors_are_those_of_the_cost_model(text: str) -> None:
    net = network_of(text)
    on = chip(core={"neurons": 40, "input_axons": 60, "output_axons": 70}, words=200)
    sizes, cap = cost_model(net, on, 8), capacity(on)
    (name, shape) = next(iter(sizes.shapes.items()))
    slots = np.random.default_rng(0).integers(1, 4, size=shape)
    for channels in ((0, shape[0]), (1, 3)):
        plane = Plane(sizes, name, channels, {})
        found = plane.vectors(slots, cap)
        fitting = 0
        for h, w in product(range(1, plane.height + 1), range(1, plane.width + 1)):
            for r, c in product(range(plane.height - h + 1), range(plane.width - w + 1)):
                expected = vector(sizes, name, plane.box(r, c, h, w), slots)
                if np.all(expected <= cap):
                    fitting += 1
                    assert found[h, w][r, c].tolist() == expected.tolist()
                elif (h, w) in found:
                    assert found[h, w][r, c, 0] == UNLIMITED
        assert fitting > 10


def test_the_sixteen_layer_of_nirs_cnn_takes_the_least_cores() -> None:
    """16 positions of sources: 9 neurons' positions at a corner, 6 at an edge, 4 inside; bands of 3, 2, ... 2, 3."""
    net = network_of("16x16x16 conv16k3p1 if")
    sizes = cost_model(net, CROSSBAR, 8)
    blocks = tiled(sizes, capacity(CROSSBAR), {}, 0)
    assert blocks is not None
    assert len(blocks) == 49
    assert partition(net, CROSSBAR).report.cores_lower_bound == 49
    assert is_within(sizes, blocks)
    assert covers(net, blocks)


def test_nirs_cnn_takes_94_cores() -> None:
    net = network_of(NIR_CNN)
    sizes = cost_model(net, CROSSBAR, 8)
    blocks = tiled(sizes, capacity(CROSSBAR), {}, 0)
    assert blocks is not None
    assert len(blocks) <= 94
    assert is_within(sizes, blocks)
    assert covers(net, blocks)
    assert blocks == tiled(sizes, capacity(CROSSBAR), {}, 0)


def test_rests_are_populations_whose_places_share_no_source() -> None:
    text = "4x12x12 conv8k3p1 if sumpool2 if conv6k1 if conv6k1g3 if sumpool3s1 if flatten dense9 if"
    assert rests_of(cost_model(network_of(text), LOIHI, 8)) == {"4_if": 1, "6_if": 6, "8_if": 6}
    assert rests_of(cost_model(network_of("20 lif dense5 lif"), LOIHI, 8)) == {"1_lif": 1}


def test_rests_fill_what_boxes_leave_of_a_core() -> None:
    """Four boxes of 8 x 8 positions leave 83 axons and 16 neurons each: a quarter of the 64 neurons of the pool."""
    net = network_of("1x16x16 conv1k3p1 if sumpool2 if")
    on = chip(core={"neurons": 80, "input_axons": 164}, words=None)
    sizes = cost_model(net, on, 8)
    blocks = tiled(sizes, capacity(on), {}, 0)
    assert blocks is not None
    assert len(blocks) == 4
    assert covers(net, blocks)
    apart = tiled(sizes, capacity(on), {"4_if": 1}, 0)
    assert apart is not None
    assert len(apart) == 6
    assert all(len({s.population for s in block}) == 1 for block in apart)


@pytest.mark.parametrize("seed", range(12))
def test_every_tiling_is_legal(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), windows=True)
    on = chip(core={"neurons": 9, "input_axons": 60, "output_axons": 120}, words=120 if seed % 2 else None)
    sizes = cost_model(net, on, 8)
    blocks = tiled(sizes, capacity(on), {}, 0)
    assert blocks is not None
    assert covers(net, blocks)
    assert is_within(sizes, blocks)


def test_tilings_are_tried_where_input_axons_are_the_fullest_resource() -> None:
    conv, dense = network_of("2x9x9 conv4k3p1 lif conv4k3p1 lif"), network_of("60 dense90 lif")
    blocks = tuple(b.slices for b in partition(conv, CROSSBAR).blocks)
    scarce = chip(core={"input_axons": 40, "neurons": 400}, words=None)
    few = chip(core={"input_axons": 4000, "neurons": 20}, words=None)
    assert axons_bind(cost_model(conv, scarce, 8), capacity(scarce), blocks)
    assert axons_bind(cost_model(conv, scarce, 8), capacity(scarce), None)
    assert not axons_bind(cost_model(conv, few, 8), capacity(few), blocks)
    assert not axons_bind(cost_model(dense, scarce, 8), capacity(scarce), None)
    unlimited = chip(core={"input_axons": None}, words=None)
    assert not axons_bind(cost_model(conv, unlimited, 8), capacity(unlimited), blocks)


def test_populations_of_few_sources_are_cut_for_the_rooms_that_others_leave() -> None:
    """A box of 2 x 2 positions takes 200 axons and 32 neurons; 4 x 7 positions of the layer before fit beside it."""
    net = network_of("1x28x28 conv8k3 if conv8k3s2 if conv16k3 if conv16k1 if")
    sizes, cap = cost_model(net, CROSSBAR, 8), capacity(CROSSBAR)
    blocks = tiled(sizes, cap, {}, 0)
    assert blocks is not None
    assert len(blocks) <= 49
    assert covers(net, blocks)
    assert is_within(sizes, blocks)
    shared = [{s.population for s in block} for block in blocks]
    assert sum({"2_if", "4_if"} <= names for names in shared) > 20
    apart = tiled(sizes, cap, {"2_if": 1}, 0)
    assert apart is not None
    assert len(apart) > 60
    assert all("2_if" not in names or len(names) == 1 for names in ({s.population for s in b} for b in apart))


def test_planes_of_too_many_kinds_are_left_to_other_tilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rectangles, "COSTS_MAX", 3)
    net = network_of("2x9x9 conv4k3p1 lif")
    sizes = cost_model(net, CROSSBAR, 8)
    assert Plane(sizes, "2_lif", (0, 4), {}).vectors(None, capacity(CROSSBAR)) == {}
    blocks = tiled(sizes, capacity(CROSSBAR), {}, 0)
    assert blocks is not None
    assert covers(net, blocks)
