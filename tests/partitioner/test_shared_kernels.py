"""Kernels that are stored once: rows interleaved, and the weights that any map stores, against every division."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge._types import Box
from nirbridge.mapping.checker import check
from nirbridge.network.model import Network
from nirbridge.network.operators import Conv
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.axons import resource_use, rows_of, words_of_rows
from nirbridge.partitioner.cost.connectivity import Separable, connectivity
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.model import Block, BlockId, Slice
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.interleaved import interleaved_cores, is_offered
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.slicing import capacity
from nirbridge.partitioner.search.windows import least_weights
from nirbridge.pipeline import place_partition
from tests.cases import cases
from tests.partitioner.cases import chip, network, population, random_conv, shared_words, tiles_exactly
from tests.partitioner.nets import network_of

FREE = {"neurons": 4096, "input_axons": None, "output_axons": None, "decay_profiles": None, "threshold_profiles": None}
NET = "2x6x6 conv12k3p1 lif conv16k3p1 lif"


def convolution(channels: int, side: int, kernel: int, **options: int) -> Conv:
    padding, stride = options.get("padding", kernel // 2), options.get("stride", 1)
    weight = np.arange(1.0, 1 + channels * kernel**2).reshape(channels, 1, kernel, kernel)
    return Conv(weight, (stride,) * 2, ((padding,) * 2,) * 2, (1, 1), 1, (1, side, side))


def one(operator: Conv) -> Network:
    net = network({"in": operator.input_shape}, [population("p", operator.output_shape)], [])
    ways = network_of("2 dense3 lif").projections[:1]
    projection = type(ways[0])("in", "p", operator)
    return network({"in": operator.input_shape}, list(net.populations), [projection])


def stored(operator: Conv, pixels: frozenset[int]) -> int:
    """Weights of the different lists of a core that holds these pixels of the only channel, source by source."""
    _, height, width = operator.input_shape
    _, _, across = operator.output_shape
    kernel = operator.weight.shape[-1]
    lists = set()
    for y, x in product(range(height), range(width)):
        own = []
        for pixel in pixels:
            row, column = divmod(pixel, across)
            tap = (
                y + operator.padding[0][0] - row * operator.stride[0],
                x + operator.padding[1][0] - column * (operator.stride[1]),
            )
            if 0 <= tap[0] < kernel and 0 <= tap[1] < kernel:
                own.append(tap)
        lists.add(frozenset(own))
    return sum(map(len, lists))


def divisions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for division in divisions(rest):
        yield [[first], *division]
        for i in range(len(division)):
            yield [*division[:i], [first, *division[i]], *division[i + 1 :]]


def proved(operator: Conv) -> Fraction:
    form = connectivity(operator)
    assert isinstance(form, Separable)
    return least_weights(form.axes[1:])


@pytest.mark.parametrize(
    ("side", "kernel", "options"),
    [
        (2, 3, {}),
        (3, 2, {"padding": 1, "stride": 2}),
        (5, 3, {"stride": 2}),
        (4, 3, {"padding": 0}),
        (4, 4, {"padding": 1}),
    ],
)
def test_no_division_of_the_pixels_stores_fewer_weights(side: int, kernel: int, options: dict[str, int]) -> None:
    operator = convolution(1, side, kernel, **options)
    pixels = math.prod(operator.output_shape)
    sets = [frozenset(p for p in range(pixels) if n >> p & 1) for n in range(1 << pixels)]
    weights = {own: stored(operator, own) for own in sets}
    least = min(sum(weights[frozenset(own)] for own in division) for division in divisions(list(range(pixels))))
    assert least - 1 < proved(operator) <= least


@pytest.mark.parametrize(
    ("side", "kernel", "weights"), [(2, 3, 16), (4, 3, 49), (8, 3, 25), (13, 3, 25), (27, 5, 43), (8, 1, 1)]
)
def test_weights_of_known_maps(side: int, kernel: int, weights: int) -> None:
    assert proved(convolution(1, side, kernel)) == weights


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_divisions_of_larger_maps_store_no_fewer_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    operator = convolution(1, int(rng.integers(5, 9)), int(rng.integers(2, 5)), stride=int(rng.integers(1, 3)))
    pixels, parts, step = math.prod(operator.output_shape), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    part = rng.integers(parts, size=pixels) if rng.random() < 0.5 else np.arange(pixels) // step % parts
    total = sum(stored(operator, frozenset(np.flatnonzero(part == p).tolist())) for p in range(parts))
    assert total >= proved(operator)


@settings(max_examples=cases(20, 40))
@given(st.integers(0, 2**32 - 1))
def test_words_of_rows_are_those_of_their_synapses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    operator = random_conv(rng, (int(rng.integers(1, 4)), int(rng.integers(3, 9)), int(rng.integers(2, 6))))
    net = one(operator)
    channels, height, width = operator.output_shape
    rows = np.flatnonzero(rng.random(height) < 0.6).tolist() or [0]
    low = int(rng.integers(channels))
    boxes = [((low, channels), (r, r + 1), (0, width)) for r in rows]
    assert rows_of(boxes) == tuple(rows)
    on = chip(shared_kernels=True)
    sizes = cost_model(net, on, 8)
    (edge,) = sizes.incoming["p"]
    numbered = (np.ravel_multi_index((c, r, x), operator.output_shape) for r in rows for x in range(width)
                for c in range(low, channels))  # fmt: skip
    place = {int(target): position for position, target in enumerate(numbered)}
    assert words_of_rows(sizes, edge, boxes[0], rows) == shared_words(net.projections[0], place, on, 8)


def test_rows_are_those_of_boxes_that_are_equal_otherwise() -> None:
    def box(channels: tuple[int, int], rows: tuple[int, int]) -> Box:
        return (channels, rows, (0, 5))

    assert rows_of([box((0, 2), (0, 1)), box((0, 2), (3, 5))]) == (0, 3, 4)
    assert rows_of([box((0, 2), (0, 1)), box((1, 2), (3, 5))]) is None
    assert rows_of([box((0, 2), (2, 4)), box((0, 2), (3, 5))]) is None
    assert rows_of([((0, 4),), ((5, 6),)]) is None


def test_interleaved_rows_take_fewer_cores_and_their_map_is_legal() -> None:
    net, on = network_of(NET), chip(core=FREE, words=250, shared_kernels=True)
    sizes, cap = cost_model(net, on, 8), capacity(on)
    boxes = partition(net, on, PartitionOptions(method="packed"))
    assert boxes.report.cores == 17
    blocks = interleaved_cores(sizes, cap, 1, 17, SearchBudget(), 0)
    assert blocks is not None
    assert len(blocks) == 11
    assert is_within(sizes, blocks)
    pieces = [s for block in blocks for s in block]
    for p in net.populations:
        assert tiles_exactly(p.shape, [s.box for s in pieces if s.population == p.name])
    assert any(_apart(block) for block in blocks)
    used = zip(blocks, resource_use(sizes, blocks), strict=True)
    own_blocks = tuple(Block(BlockId(i), own, use) for i, (own, use) in enumerate(used))
    map_of_rows = replace(boxes, blocks=own_blocks, report=replace(boxes.report, cores=len(blocks)))
    assert not list(check.diagnose_mapping(place_partition(net, on, map_of_rows), placement_only=True))


@pytest.mark.slow
def test_the_search_keeps_interleaved_rows_where_they_take_fewer_cores() -> None:
    found = partition(network_of(NET), chip(core=FREE, words=250, shared_kernels=True), PartitionOptions(effort="fast"))
    assert found.report.cores == 11


def _apart(block: tuple[Slice, ...]) -> bool:
    """True if a core holds rows of a population that do not touch."""
    ends = {s.box[1][1] for s in block if len(s.box) == 3}
    starts = {s.box[1][0] for s in block if len(s.box) == 3}
    return bool(starts - ends - {0, 1})


def test_interleaving_is_for_chips_that_share_kernels_and_limit_no_axons() -> None:
    net = network_of(NET)
    chips = chip(core=FREE, words=600), chip(core=FREE | {"input_axons": 4096}, words=600, shared_kernels=True)
    for on in (*chips, chip(core=FREE, words=None, shared_kernels=True)):
        assert not is_offered(cost_model(net, on, 8), capacity(on))
