"""Memory layout of feature maps, spikes and states: by definition, and without unnecessary copies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.network.model import Population
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import SumPool
from nirbridge.simulators.compiled import neurons as event_neurons
from nirbridge.simulators.compiled.feature_map import (
    EventSource,
    FeatureMapLayout,
    FlatLayout,
    PackedSpikes,
    _geometry,
    _strides,
)
from nirbridge.simulators.compiled.kernels.conv_events import BITS, LAST, PAIRS, POOLED, USUAL
from nirbridge.simulators.compiled.kernels.events import ROOM
from nirbridge.simulators.compiled.kernels.simd import lanes_of
from nirbridge.simulators.compiled.neurons import NeuronBuffers
from nirbridge.simulators.reference.semantics import BlankState

FLOAT = np.dtype(np.float32)
SHAPES = [(3, 2, 2), (8, 2, 3), (16, 5), (5,), (8,), (9, 1, 4), (1, 3, 3)]
RNG = np.random.default_rng(0)


def by_hand(values: np.ndarray, lead: int) -> np.ndarray:
    """``[..., place, channel]`` with the channels filled up to a multiple of 8, flat."""
    channels = values.shape[lead]
    front = values.shape[:lead]
    out = np.zeros((*front, math.prod(values.shape[lead + 1 :]), -(-channels // 8) * 8), values.dtype)
    out[..., :channels] = np.moveaxis(values.reshape(*front, channels, -1), lead, -1)
    return out.reshape(*front, -1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("front", [(4,), (2, 3)])
def test_maps_lie_channels_last_with_filling(shape: tuple[int, ...], front: tuple[int, ...]) -> None:
    layout, lead = FeatureMapLayout(shape), len(front)
    values = RNG.integers(1, 9, (*front, *shape)).astype(np.float32)
    rows = layout.rows(values, lead)
    assert rows.tolist() == by_hand(values, lead).tolist()
    assert (layout.size, layout.places) == (rows.shape[-1], math.prod(shape[1:]))
    assert layout.width == layout.size // layout.places
    back = layout.view(rows, front)
    assert back.tolist() == values.tolist()
    assert np.shares_memory(back, rows)
    again = layout.rows(back, lead)
    assert np.shares_memory(again, rows)
    assert again.tolist() == rows.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_one_value_for_all_or_one_for_each(shape: tuple[int, ...]) -> None:
    layout, values = FeatureMapLayout(shape), np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    assert layout.one(values).tolist() == by_hand(values, 0).tolist()
    filled = by_hand(np.ones(shape), 0) == 0
    assert layout.one(values, 7.0)[filled].tolist() == [7.0] * int(filled.sum())
    alone = layout.one(np.float64(2.5), -1.0)
    assert alone.tolist() == ([2.5] if shape[0] % 8 == 0 else np.where(filled, -1.0, 2.5).tolist())
    assert layout.names().tolist() == by_hand(np.arange(values.size).reshape(shape), 0).tolist()


def test_strides_of_arrays() -> None:
    for shape in ((2, 3, 5), (7,), (1, 1), (4, 1, 2)):
        assert _strides(4, shape) == np.zeros(shape, np.float32).strides
    assert _strides(1, (2, 3)) == (3, 1)


# -- sources ---------------------------------------------------------------------------------------------------------

EVEN = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (8, 4, 8), 0.25)
ODD = SumPool((3, 2), (2, 1), ((1, 0), (0, 1)), (8, 4, 8), 0.5)
LINE = SumPool((3,), (2,), ((1, 1),), (5, 7))


def test_numbers_of_pools() -> None:
    assert _geometry(EVEN) == (4, 8, 2, 4, 2, 2, 2, 2, 0, 0)
    assert _geometry(ODD) == (4, 8, *ODD.output_shape[1:], 3, 2, 2, 1, 1, 0)
    assert _geometry(LINE) == (1, 7, 1, *LINE.output_shape[1:], 1, 3, 1, 2, 0, 1)


def of(shape: tuple[int, ...], pool: SumPool | None = None) -> EventSource:
    return EventSource(shape, pool, shape if pool is None else pool.output_shape, FLOAT)


def test_rooms_and_bounds_of_sources() -> None:
    for source, windows, factor, pool in (
        (of((8, 4, 8)), 1, 1.0, (0,) * 10), (of((8, 4, 8), EVEN), 1, 0.25, _geometry(EVEN)),
        (of((8, 4, 8), ODD), 4, 0.5, _geometry(ODD)), (of((5, 7), LINE), 2, 1.0, _geometry(LINE)),
    ):  # fmt: skip
        behind, places = source.layout.size, source.layout.places
        assert (source.windows, source.factor, source.pool) == (windows, factor, pool)
        assert (type(source.factor), source.pooled) == (np.float32, any(pool))
        assert source.most(3, 100) == min(3 * windows, 100 * behind)
        assert source.most(10**6, 2) == 2 * behind
        assert [(x.shape, x.dtype) for x in source.room()] == [((behind + ROOM,), np.uint32), ((behind,), FLOAT)]
        room, line, heap, counts, fills = source.scratch()
        assert (room, type(room)) == (places, np.uint64)
        assert line.shape == (source.before.size // 8 if source.pooled else 1,)
        assert (heap.shape, counts.shape, fills.tolist()) == ((behind,), (behind,), [0] * source.layout.width)
        assert (heap.dtype, counts.dtype, line.dtype) == (np.uint32, np.uint8, np.uint64)


@pytest.mark.parametrize(("shape", "pool", "bits"), [
    ((8, 4, 8), None, True), ((8, 1, 7), None, False), ((16, 4), None, True), ((5, 8), None, True),
    ((8, 4, 8), EVEN, True), ((8, 4, 8), ODD, False), ((5, 7), LINE, False),
])  # fmt: skip
def test_bits_are_taken_of_whole_words_of_words(shape: tuple[int, ...], pool: SumPool | None, bits: bool) -> None:
    source = of(shape, pool)
    assert source.takes_bits is bits
    layout = source.before
    spikes = RNG.integers(0, 2, (2, 3, *shape)).astype(np.uint8)
    flat = layout.rows(spikes, 2).reshape(-1)
    flat = flat[: flat.size // 8 * 8]
    sent = PackedSpikes(np.packbits(flat, bitorder="little"), (2, 3), layout)
    if flat.size != 6 * layout.size:
        return
    (lies, found, words, size, pitch, per, _, factor), usual = source.of(sent)
    assert pitch == 3 * size
    assert (per, type(per), usual, factor) == (layout.width // 8, np.uint64, False, source.factor)
    if bits:
        assert (lies, size) == (PAIRS if pool else BITS, layout.size // 8)
        assert found is sent.bits
        assert words.tolist() == sent.bits[: sent.bits.size // 8 * 8].view(np.uint64).tolist()
        return
    assert (lies, size) == (POOLED if pool else LAST, layout.size)
    assert found.tolist() == flat.tolist()


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("pool", [None, EVEN])
@pytest.mark.parametrize("last", [False, True])
def test_bytes_are_read_where_they_lie_if_words_can_be(offset: int, pool: SumPool | None, last: bool) -> None:
    shape = (8, 4, 8)
    room = np.zeros(6 * 256 + 16, np.uint8)
    room = room[-room.ctypes.data % 8 :][offset : offset + 6 * 256]
    room[:] = RNG.integers(0, 2, room.size)
    lead = room.reshape(2, 3, 256)
    spikes = FeatureMapLayout(shape).view(lead, (2, 3)) if last else lead.reshape(2, 3, *shape)
    (lies, flat, words, size, pitch, _, _, _), usual = of(shape, pool).of(spikes)
    wanted = USUAL if not last and not pool else POOLED if pool else LAST
    assert (lies, usual, size, pitch) == (wanted, wanted == USUAL, 256, 768)
    assert flat.tolist() == (spikes.reshape(-1) if usual else by_hand(np.asarray(spikes), 2).reshape(-1)).tolist()
    assert words.flags.aligned
    assert words.tobytes() == (b"" if usual else flat.tobytes())  # bytes in the usual order are read as bytes
    assert np.shares_memory(flat, room) is (usual or (offset == 0 and last))


def test_bits_stand_for_bytes() -> None:
    layout = FeatureMapLayout((3, 2, 4))
    spikes = RNG.integers(0, 2, (2, 5, 3, 2, 4)).astype(np.uint8)
    made = PackedSpikes(np.packbits(layout.rows(spikes, 2).reshape(-1), bitorder="little"), (2, 5), layout)
    assert (made.shape, made.ndim, len(made), made.dtype) == ((2, 5, 3, 2, 4), 5, 2, np.uint8)
    assert made.dense is made.dense
    assert np.asarray(made).tolist() == made[...].tolist() == spikes.tolist()
    assert made.reshape(10, -1).tolist() == spikes.reshape(10, -1).tolist()
    assert np.array(made, np.float32).dtype == np.float32


# -- states ----------------------------------------------------------------------------------------------------------


def state(shape: tuple[int, ...], kind: Any = dict) -> Any:
    v, i = (RNG.normal(size=(2, *shape)).astype(np.float32) for _ in range(2))
    return kind(v=v, i=i, refractory=RNG.integers(0, 3, (2, *shape)))


@pytest.mark.parametrize("rests", [0, 2])
def test_a_state_is_opened_once_and_then_lent(rests: int) -> None:
    shape = (3, 2, 2)
    cell = neuron("LIF", a_mem=0.5, refractory_steps=rests)
    population = Population("p", shape, cell)
    usual, maps = (NeuronBuffers(population, FLOAT, x) for x in (FlatLayout(shape), FeatureMapLayout(shape)))
    start, width = state(shape), 16
    own = usual.opened(start)
    assert [len(x) for x in own] == [32, 32, 32 if rests else 1]
    for flat, name in zip(own, ("v", "i", "refractory") if rests else ("v", "i"), strict=False):
        rows = flat.reshape(2, width)
        assert rows[:, :12].tolist() == start[name].reshape(2, 12).tolist()
        assert not rows[:, 12:].any()
    closed = usual.closed(start, own)
    assert closed["v"].tolist() == start["v"].tolist()
    assert closed["refractory"].tolist() == start["refractory"].tolist()
    again = usual.opened(closed)
    assert all(x is y for x, y in zip(again[: 2 + bool(rests)], own, strict=False))
    wider = NeuronBuffers(population, FLOAT, FlatLayout(shape), 32)
    assert wider.opened(closed)[0] is not own[0]
    assert wider.opened(closed)[0].reshape(2, 32)[:, :12].tolist() == start["v"].reshape(2, 12).tolist()
    mapped = maps.opened(start)
    assert [x.size for x in mapped] == [2 * maps.width, 2 * maps.width, 2 * maps.width if rests else 1]
    assert mapped[0].reshape(2, -1)[:, : maps.layout.size].tolist() == by_hand(start["v"], 1).tolist()
    lent = maps.closed(start, mapped)
    assert lent["i"].tolist() == start["i"].tolist()
    assert lent["refractory"].tolist() == start["refractory"].tolist()
    assert maps.opened(lent)[0] is mapped[0]
    assert maps.opened(lent)[1] is mapped[1]


def test_a_beginning_is_kept_and_copied_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    population = Population("p", (8, 2, 2), neuron("IF"))
    start = state((8, 2, 2), BlankState)
    gap = event_neurons.GAP * lanes_of(FLOAT) * 4
    for layout in (FlatLayout((8, 2, 2)), FeatureMapLayout((8, 2, 2))):
        v, i = (layout.rows(start[name], 1).reshape(-1).tolist() for name in "vi")
        for size, keeps in ((2 * 256 + gap, True), (2 * 256 + gap - 1, False)):
            monkeypatch.setattr(event_neurons, "KEPT_BYTES", size)
            made = NeuronBuffers(population, FLOAT, layout)
            first, second = (made.opened(start) for _ in range(2))
            assert first[0].tolist() == second[0].tolist() == v
            assert first[1].tolist() == second[1].tolist() == i
            assert not np.shares_memory(first[0], second[0])
            assert [kept is start for kept, _ in made._begun.values()] == [True] * keeps
        made = NeuronBuffers(population, FLOAT, layout)
        made.opened(dict(start))
        assert not made._begun


@pytest.mark.parametrize(("own", "shape", "wanted", "packs"), [
    ({}, (8, 4, 2), (), True), ({}, (8, 4, 2), ("s",), False), ({}, (8, 4, 2), ("v",), False),
    ({}, (8, 3, 2), (), False), ({"theta": np.linspace(0.5, 1, 64).reshape(8, 4, 2)}, (8, 4, 2), (), False),
    ({"max_spikes": 2}, (8, 4, 2), (), False), ({"theta": None}, (8, 4, 2), (), False),
])  # fmt: skip
def test_outputs_of_a_map(own: Any, shape: Any, wanted: tuple[str, ...], packs: bool) -> None:
    cells = NeuronBuffers(Population("p", shape, neuron("LIF", a_mem=0.5, **own)), FLOAT, FeatureMapLayout(shape))
    asked = frozenset(wanted)
    flags = cells.flags(asked)
    assert cells.flags(asked) is flags
    assert cells.packs(flags, asked) is packs
    total, fires = 3 * 2 * cells.layout.size, own.get("theta", 1) is not None
    sent, kept = cells.outputs(3, 2, flags, packs)
    assert sent.size == (total // 8 if packs else total if fires else cells.layout.size)
    assert sent.dtype == (np.float32 if "max_spikes" in own else np.uint8)
    assert [x.size for x in kept] == [total if "v" in wanted or not fires else 1, 1, 1]
