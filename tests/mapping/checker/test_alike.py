"""Blocks are counted once a class only where their synapses are translations of each other: against counting each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import CoreId, SynapseFormat
from nirbridge.mapping.checker import incoming
from nirbridge.mapping.checker.recount import RecountedUse, lay_out, recount
from nirbridge.mapping.storage.record import BlockRecord, SliceRecord
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Identity, Operator, Scale, SumPool
from tests.cases import cases
from tests.mapping.hand_made import chip_with, network_of, population

Box = tuple[tuple[int, int], ...]


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Targets of each listing that the checker makes."""
    made: list[int] = []
    listed = incoming.synapses_into

    def noted(ready: object, targets: np.ndarray) -> object:
        made.append(len(targets))
        return listed(ready, targets)  # type: ignore[arg-type]

    monkeypatch.setattr(incoming, "synapses_into", noted)
    return made


def counted(
    network: Network, blocks: list[list[SliceRecord]], fmt: SynapseFormat, orders: dict[str, list[int]] | None = None
) -> RecountedUse:
    records = tuple(BlockRecord(i, CoreId(0, 0, 0, 0), tuple(own), {}) for i, own in enumerate(blocks))
    layout = lay_out(records, {p.name: p.shape for p in network.populations}, lambda s: True, orders)
    return recount(network, layout, fmt, [8] * len(network.projections))


def block_by_block(
    network: Network, blocks: list[list[SliceRecord]], fmt: SynapseFormat, orders: dict[str, list[int]] | None = None
) -> RecountedUse:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incoming, "windows_of", lambda *_, **__: None)
        return counted(network, blocks, fmt, orders)


def same(
    network: Network, blocks: list[list[SliceRecord]], fmt: SynapseFormat, orders: dict[str, list[int]] | None = None
) -> RecountedUse:
    found, expected = counted(network, blocks, fmt, orders), block_by_block(network, blocks, fmt, orders)
    assert (found.used, found.routes, found.synapses) == (expected.used, expected.routes, expected.synapses)
    return found


def conv(shape: tuple[int, ...], channels: int, groups: int = 1, stride: int = 1) -> Conv:
    weight = np.ones((channels, shape[0] // groups, *(3 for _ in shape[1:])))
    axes = len(shape) - 1
    return Conv(weight, (stride,) * axes, ((1, 1),) * axes, (1,) * axes, groups, shape)


def net_of(operator: Operator) -> Network:
    p = population("p", *operator.output_shape)
    return network_of([p], [Projection("in", "p", operator)], [Port("in", operator.input_shape)])


def slices(*boxes: Box, order: tuple[int, ...] | None = None) -> list[SliceRecord]:
    return [SliceRecord("p", box, order) for box in boxes]


FREE = chip_with("loihi1").synapses
SHARED = chip_with("loihi2", synapses={"word_bits": 32, "run_header_bits": 0, "words": "unlimited"}).synapses


# -- one count a class --------------------------------------------------------------------------------------------


def test_rows_in_the_middle_are_listed_once(listings: list[int]) -> None:
    shape = (4, 40, 6)
    net = net_of(conv(shape, 4))
    rows = [slices(((0, 4), (a, a + 2), (0, 6))) for a in range(0, 40, 2)]
    found = counted(net, rows, FREE)
    assert len(listings) == 3  # the upper border, the middle, the lower border
    assert [u["input_axons"] for u in found.used] == [72, *[96] * 18, 72]
    same(net, rows, FREE)


def test_layers_of_one_form_are_listed_once(listings: list[int]) -> None:
    shape, names = (2, 12, 5), ("a", "b", "c", "d")
    pops = [population(n, *shape) for n in names]
    sources = itertools.pairwise(("in", *names))
    net = network_of(pops, [Projection(a, b, conv(shape, 2)) for a, b in sources], [Port("in", shape)])
    blocks = [[SliceRecord(n, ((0, 2), (a, a + 4), (0, 5)), None)] for n in names for a in (0, 4, 8)]
    counted(net, blocks, FREE)
    assert len(listings) == 3


# -- what is not alike --------------------------------------------------------------------------------------------


def test_slices_of_one_channel_are_not_like_slices_of_two() -> None:
    """With shared kernels: lists of the same output channel are alike, those of two channels never."""
    net = net_of(Conv(np.ones((3, 2, 1)), (2,), ((0, 0),), (1,), 1, (2, 9)))
    one = slices(((0, 1), (0, 2)), ((0, 1), (2, 4)))
    two = slices(((1, 2), (0, 2)), ((2, 3), (2, 4)))
    for blocks in ([one, two], [two, one]):
        found = same(net, blocks, SHARED)
        assert [u["synapse_words"] for u in found.used] == [2 if own is one else 4 for own in blocks]


def test_slices_further_apart_are_not_alike() -> None:
    net = net_of(conv((1, 20), 1))
    near, far = slices(((0, 1), (4, 6)), ((0, 1), (6, 8))), slices(((0, 1), (10, 12)), ((0, 1), (14, 16)))
    found = same(net, [near, far], FREE)
    assert [u["input_axons"] for u in found.used] == [6, 8]


def test_another_order_of_the_axes_is_another_class() -> None:
    net = net_of(conv((1, 4, 12), 1))
    boxes: list[Box] = [((0, 1), (1, 3), (a, a + 3)) for a in (1, 4, 7)]
    blocks = [slices(boxes[0]), slices(boxes[1], order=(0, 2, 1)), slices(boxes[2], order=(0, 1, 2))]
    same(net, blocks, replace(FREE, index_bits=None))


def test_the_same_window_on_another_picture_is_another_class() -> None:
    shapes = {"a": (1, 3, 8), "b": (1, 6, 4)}
    pops = [population(f"{n}{k}", *s) for n, s in shapes.items() for k in (0, 1)]
    net = network_of(
        pops, [Projection(f"{n}0", f"{n}1", SumPool((2, 2), (1, 1), ((0, 1), (0, 1)), s)) for n, s in shapes.items()]
    )
    sources = (("a0", a, 8) for a in range(3)), (("b0", a, 4) for a in range(6))
    blocks = [[SliceRecord(n, ((0, 1), (a, a + 1), (0, m)), None)] for n, a, m in itertools.chain(*sources)]
    blocks += [[SliceRecord(f"{n}1", ((0, 1), (1, 2), (1, 2)), None)] for n in shapes]
    found = same(net, blocks, FREE)
    assert [key for key in found.routes if key[0] >= 0] == [(1, "", 9), (2, "", 9), (4, "", 10), (5, "", 10)]


def test_slices_of_one_group_are_not_like_slices_of_two() -> None:
    net = net_of(Conv(np.ones((6, 2, 1)), (1,), ((0, 0),), (1,), 3, (6, 4)))
    one, two = (slices(((c, c + 1), (0, 4)), ((c + 1, c + 2), (0, 4))) for c in (0, 1))
    found = same(net, [one, two], FREE)
    assert [u["input_axons"] for u in found.used] == [8, 16]


def test_slices_that_touch_are_not_like_slices_with_another_between() -> None:
    pops = [population("p", 2, 8), population("q", 1)]
    net = network_of(pops, [Projection("in", "p", conv((2, 8), 2))], [Port("in", (2, 8))])
    first, second = slices(((0, 2), (0, 2))), slices(((0, 2), (2, 4)))
    later = [slices(((0, 2), (a, a + 2))) for a in (2, 4)]
    between = [*later[0], SliceRecord("q", ((0, 1),), None), *later[1]]
    fmt = replace(FREE, run_targets_max=None, run_header_bits=56)
    found = same(net, [[*later[0], *later[1]], between, [*first, *second]], fmt)
    assert found.used[0]["synapse_words"] < found.used[1]["synapse_words"]


def test_places_of_a_permutation_are_not_alike() -> None:
    net = net_of(conv((1, 12), 1))
    thirds = [slices(((0, 1), (a, a + 3))) for a in (0, 3, 6, 9)]
    found = same(net, thirds, FREE, {"p": [0, 1, 2, 3, 4, 5, 6, 8, 10, 7, 9, 11]})
    assert [u["input_axons"] for u in found.used] == [4, 5, 7, 6]


def test_a_scale_is_listed_where_equal_weights_are_stored_once(listings: list[int]) -> None:
    scale = np.repeat([1.0, 2.0], 4).reshape(1, 8)
    net = net_of(Scale(scale))
    blocks = [slices(((0, 1), (a, a + 2))) for a in (0, 2, 3, 6)]
    found = same(net, blocks, SHARED)
    assert [u["synapse_words"] for u in found.used] == [1, 1, 2, 1]
    listings.clear()
    counted(net, blocks, FREE)
    assert len(listings) == 1


# -- random windows -----------------------------------------------------------------------------------------------


def windows(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[Operator]:
    """One to three parts, each of which leaves something to see."""
    for _ in range(int(rng.integers(1, 4))):
        kernel, stride = (tuple(rng.integers(1, n, size=len(shape) - 1).tolist()) for n in (4, 3))
        padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, size=(len(shape) - 1, 2)))
        groups = int(rng.choice([g for g in range(1, shape[0] + 1) if shape[0] % g == 0]))
        weight = np.ones((groups * int(rng.integers(1, 3)), shape[0] // groups, *kernel))
        dilation = tuple(rng.integers(1, 3, size=len(shape) - 1).tolist())
        part: Operator = Conv(weight, stride, padding, dilation, groups, shape)
        part = [part, part, SumPool(kernel, stride, padding, shape), Identity(shape)][int(rng.integers(4))]
        if min(part.output_shape) > 0:
            yield part
            shape = part.output_shape


def network(rng: np.random.Generator) -> Network | None:
    shape = (int(rng.integers(1, 5)), *rng.integers(3, 12, size=int(rng.integers(1, 3))).tolist())
    points: list[tuple[str, tuple[int, ...]]] = [("in", shape)]
    populations, projections = [], []
    for name in ("a", "b", "c")[: int(rng.integers(1, 4))]:
        source, form = points[int(rng.integers(len(points)))]
        parts = tuple(windows(rng, form))
        if parts:
            operator = parts[0] if len(parts) == 1 else Chain(parts)
            delay = np.asarray(np.int64(rng.integers(0, 2)))
            projections += [Projection(source, name, operator, delay_steps=delay)] * int(rng.integers(1, 3))
            populations.append(population(name, *operator.output_shape))
            points.append((name, operator.output_shape))
    return network_of(populations, projections, [Port("in", shape)]) if populations else None


def tiles(rng: np.random.Generator, p: Population) -> list[SliceRecord]:
    """Pieces of equal size along each axis, some in another order of their axes; at times one is left out."""
    axes = []
    for n in p.shape:
        edges = [*range(0, n, int(rng.integers(max(n // 5, 1), n + 1))), n]
        axes.append(list(itertools.pairwise(edges)))
    order = tuple(rng.permutation(len(p.shape)).tolist())
    found = [SliceRecord(p.name, box, order if rng.random() < 0.2 else None) for box in itertools.product(*axes)]
    return found[: len(found) - int(rng.random() < 0.1)]


@settings(max_examples=cases(20, 60), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([FREE, SHARED, replace(SHARED, run_free=False, index_bits=6)]))
def test_classes_count_as_every_block_on_its_own(seed: int, fmt: SynapseFormat) -> None:
    rng = np.random.default_rng(seed)
    net = network(rng)
    if net is None or math.prod(net.populations[-1].shape) > 3000:
        return
    pieces = [s for p in net.populations for s in tiles(rng, p)]
    if rng.random() < 0.3:
        pieces = [pieces[i] for i in rng.permutation(len(pieces))]
    each = int(rng.integers(1, 4))
    same(net, [pieces[i : i + each] for i in range(0, len(pieces), each)], fmt)
