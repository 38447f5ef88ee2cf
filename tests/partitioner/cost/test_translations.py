"""Words that are kept for boxes alike are those of a count of every box; equal layers share what was counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge._types import Box
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Conv, Dense, SumPool
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.search.slicing import interval_boxes
from tests.cases import cases
from tests.mapping.hand_made import chip_with, network_of, population


def conv(shape: tuple[int, ...], channels: int, groups: int = 1) -> Conv:
    weight = np.ones((channels, shape[0] // groups, 3, 3))
    return Conv(weight, (1, 1), ((1, 1), (1, 1)), (1, 1), groups, shape)


def layers(*shapes: tuple[int, ...]) -> Network:
    names = [f"p{i}" for i in range(len(shapes) - 1)]
    forms = zip(["in", *names], names, shapes, shapes[1:], strict=False)
    projections = [Projection(a, b, conv(before, after[0])) for a, b, before, after in forms]
    pops = [population(n, *s) for n, s in zip(names, shapes[1:], strict=True)]
    return network_of(pops, projections, [Port("in", shapes[0])])


def stretch(shape: tuple[int, ...], start: int, stop: int) -> tuple[Box, ...]:
    """The boxes of places ``start`` to ``stop``, row by row, channels last."""
    found = interval_boxes((*shape[1:], shape[0]), start, stop)
    return tuple((box[-1], *box[:-1]) for box in found)


def joint_words(sizes: CostModel, name: str, boxes: tuple[Box, ...]) -> int:
    return sum(sizes.listed_words(name, edge, boxes) for edge in sizes.incoming[name])


@settings(max_examples=cases(12, 25), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["loihi1", "loihi2"]))
def test_words_of_stretches_are_those_of_a_count_from_scratch(seed: int, base: str) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 4)), *rng.integers(4, 9, size=2).tolist())
    grouped = shape[0] if rng.random() < 0.3 else 1
    operator = (
        conv(shape, shape[0], grouped) if rng.random() < 0.8 else SumPool((2, 2), (1, 1), ((0, 1), (0, 1)), shape)
    )
    net = network_of([population("p", *shape)], [Projection("in", "p", operator)], [Port("in", shape)])
    chip = chip_with(base, synapses={"word_bits": 32, "run_header_bits": 5})
    sizes, size, each = cost_model(net, chip, 8), int(np.prod(shape)), int(rng.integers(3, 40))
    for start in range(0, size, each):
        boxes = stretch(shape, start, min(start + each, size))
        other = tuple(reversed(boxes)) if rng.random() < 0.2 else boxes
        assert joint_words(sizes, "p", other) == joint_words(cost_model(net, chip, 8), "p", other)


def test_boxes_of_two_channels_are_not_like_boxes_of_one() -> None:
    shape = (3, 3, 12)
    net = network_of([population("p", *shape)], [Projection("in", "p", conv(shape, 3))], [Port("in", shape)])
    sizes = cost_model(net, chip_with("loihi2", synapses={"word_bits": 32, "run_header_bits": 0}), 8)
    one: tuple[Box, ...] = ((0, 1), (1, 2), (2, 4)), ((0, 1), (1, 2), (8, 10))
    two: tuple[Box, ...] = ((1, 2), (1, 2), (2, 4)), ((2, 3), (1, 2), (8, 10))
    assert joint_words(sizes, "p", one) < joint_words(sizes, "p", two)


def test_equal_layers_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, counted = (2, 8, 9), []
    count = CostModel._count_listed
    monkeypatch.setattr(CostModel, "_count_listed", lambda *a: counted.append(a[1]) or count(*a))
    sizes = cost_model(layers(shape, shape, shape, (3, 8, 9), shape), chip_with(), 8)
    assert sizes.like == {"p0": "p0", "p1": "p0", "p2": "p2", "p3": "p3"}
    for name in ("p0", "p1"):
        joint_words(sizes, name, stretch(shape, 30, 60))
    joint_words(sizes, "p0", stretch(shape, 48, 78))  # one row further down
    assert counted == ["p0"]
    joint_words(sizes, "p0", stretch(shape, 12, 42))  # at the upper border
    assert counted == ["p0", "p0"]


def test_layers_with_profiles_to_count_are_not_alike() -> None:
    shape = (1, 4, 4)
    net = layers(shape, shape, shape)
    pops = [
        population(p.name, *shape, a_mem=np.linspace(0.1 * i, 0.9, 16).reshape(shape))
        for i, p in enumerate(net.populations)
    ]
    net = network_of(pops, net.projections, net.inputs)
    sizes = cost_model(net, chip_with(core={"decay_profiles": 4}), 8)
    assert sizes.like == {"p0": "p0", "p1": "p1"}


def test_a_dense_layer_is_like_none() -> None:
    pops = [population("a", 4), population("b", 4)]
    net = network_of(pops, [Projection("in", n, Dense(np.ones((4, 4)))) for n in ("a", "b")], [Port("in", (4,))])
    assert cost_model(net, chip_with(), 8).like == {"a": "a", "b": "b"}


def test_boxes_of_one_group_are_not_like_boxes_of_two() -> None:
    operator = Conv(np.ones((6, 2, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1), 3, (6, 1, 4))
    net = network_of([population("p", 6, 1, 4)], [Projection("in", "p", operator)], [Port("in", (6, 1, 4))])
    sizes = cost_model(net, chip_with(synapses={"word_bits": 32, "run_header_bits": 0, "index_bits": 4}), 8)
    boxes: list[tuple[Box, ...]] = [(((c, c + 1), (0, 1), (0, 4)), ((c + 1, c + 2), (0, 1), (0, 4))) for c in (0, 1)]
    # 8 sources with two targets each, or 16 with one: a word for each list
    assert [joint_words(sizes, "p", pair) for pair in boxes] == [8, 16]


def test_a_layer_with_delays_is_not_like_one_without() -> None:
    shape = (2, 6, 6)
    pops = [population(n, *shape) for n in ("a", "b")]
    first, second = (Projection("in", n, conv(shape, 2)) for n in ("a", "b"))
    net = network_of(pops, [first, replace(second, delay_steps=np.asarray(3))], [Port("in", shape)])
    sizes = cost_model(net, chip_with(), 8)
    assert sizes.like == {"a": "a", "b": "b"}
    whole = tuple((0, n) for n in shape)
    plain, delayed = (sizes.cost(n, whole).synapse_words for n in ("a", "b"))
    assert plain < delayed
    assert joint_words(sizes, "a", (whole,)) == plain < joint_words(sizes, "b", (whole,)) == delayed
