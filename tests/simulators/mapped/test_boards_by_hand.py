"""Contents of the cores of a map and omissions, on boards of a few neurons; rings and routes by brute force."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.mapping.storage.record import BlockRecord, SliceRecord
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense, Identity
from nirbridge.quantization import FixedInput, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.simulators.mapped import tables
from nirbridge.simulators.mapped.core import RingBuffer
from nirbridge.simulators.mapped.tables import CoreSlice, LoadedCore, LoadedRoute, SynapseMemory, concatenated_ranges
from tests.simulators.fixed.test_integers_by_hand import cell, whole


def dense(*rows: list[int]) -> Dense:
    return Dense(whole(rows))


def net() -> QuantizedNetwork:
    """in (3) -> p (2) -> q (3), q -> p, with delays on both sides."""
    cells = tuple(FixedPopulation(name, (size,), cell(), "custom") for name, size in (("p", 2), ("q", 3)))
    links = (
        FixedProjection("in", "p", dense([1, 0, 2], [0, 0, 3]), 8, 1),
        FixedProjection("p", "q", dense([4, 0], [0, 5], [6, 7]), 8, delay_steps=whole([1, 3])),
        FixedProjection("q", "p", dense([8, 0, 9], [0, 1, 0]), 8, -1, delay_steps=whole(2),
                        target_delay_steps=whole([0, 4])),
    )  # fmt: skip
    read = (Projection("q", "out", Identity((3,)), delay_steps=whole(1)),)
    ports = (Port("out", (3,)),)
    return QuantizedNetwork("loihi2", 1.0, cells, links, (FixedInput("in", (3,)),), ports, read, {}, {})


def block(number: int, *slices: tuple[str, int, int], order: Any = None) -> BlockRecord:
    own = tuple(SliceRecord(name, ((a, b),), order) for name, a, b in slices)
    return BlockRecord(number, SimpleNamespace(), own, {})  # type: ignore[arg-type]


def board(*blocks: BlockRecord, monkeypatch: pytest.MonkeyPatch, routes: Any = None) -> Any:
    monkeypatch.setattr(tables, "network_mismatches", lambda q, r: ())
    every = [SimpleNamespace(source_block=a, source_input=i, target_block=b, neurons=99)
             for b in (7, 4) for a, i in ((7, None), (4, None), (None, "in"))]  # fmt: skip
    record: Any = SimpleNamespace(blocks=blocks, routes=every if routes is None else routes, orders={})
    return tables.load_board(net(), record)


BLOCKS = (block(7, ("q", 1, 3), ("p", 0, 1)), block(4, ("p", 1, 2), ("q", 0, 1)))


def test_a_core_holds_the_lists_of_its_axons(monkeypatch: pytest.MonkeyPatch) -> None:
    made = board(*BLOCKS, monkeypatch=monkeypatch)
    first, second = made.cores
    assert (first.block, first.slots, second.block, second.slots) == (7, 3, 4, 2)
    assert [(p.population, p.neurons.tolist(), p.start, p.stop) for p in first.pieces] == [
        ("q", [1, 2], 0, 2), ("p", [0], 2, 3),
    ]  # fmt: skip
    assert [(name, x.tolist()) for name, x in first.axons] == [("in", [0, 2]), ("p", [0, 1]), ("q", [0, 2])]
    assert [(name, x.tolist()) for name, x in second.axons] == [("in", [2]), ("p", [0]), ("q", [1])]
    lists = [[x.tolist() for x in (m.first, m.slot, m.weight, m.delay)] for m in first.memories]
    assert lists == [
        [[0, 1, 2, 2, 2, 2, 2], [2, 2], [1, 2], [1, 1]],
        [[0, 0, 0, 1, 3, 3, 3], [1, 0, 1], [6, 5, 7], [1, 3, 3]],
        [[0, 0, 0, 0, 0, 1, 2], [2, 2], [8, 9], [2, 2]],
    ]
    assert [m.weight_exp for m in first.memories] == [1, 0, -1]
    assert second.memories[2].delay.tolist() == [6]
    assert made.longest_delay == 6
    ways = [(r.source, r.source_input, r.target, r.slots.tolist(), r.axons.tolist()) for r in made.routes]
    assert ways == [
        (None, "in", 0, [0, 2], [0, 1]), (0, None, 0, [2, 1], [2, 5]), (1, None, 0, [0, 1], [3, 4]),
        (None, "in", 1, [2], [0]), (0, None, 1, [2, 0], [1, 2]),
    ]  # fmt: skip


def test_the_longest_delay_is_1_where_nothing_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "network_mismatches", lambda q, r: ())
    q = net()
    alone: Any = SimpleNamespace(blocks=BLOCKS, routes=(), orders={})
    silent = SimpleNamespace(**{k: getattr(q, k) for k in ("populations", "inputs")}, projections=())
    assert tables.load_board(silent, alone).longest_delay == 1  # type: ignore[arg-type]
    assert tables.load_board(silent, alone).routes == ()  # type: ignore[arg-type]
    link = FixedProjection("in", "p", dense([0, 0, 0], [0, 0, 0]), 8, delay_steps=whole(5))
    silent.projections = (link,)
    assert tables.load_board(silent, alone).longest_delay == 1  # type: ignore[arg-type]


def lines(caught: Any) -> list[str]:
    return str(caught.value).splitlines()


@pytest.mark.parametrize(("blocks", "said"), [
    ((BLOCKS[0], block(7, ("p", 1, 2))), ["block 7: its id belongs to another block too; map the model again"] * 2),
    ((block(7, ("q", 0, 4)), block(4, ("x", 0, 1), ("p", 1, 1))), [
        "block 7: slice of 'q', [[0, 4]], is not a rectangular slice of a population; map the model again",
        "block 4: slice of 'x', [[0, 1]], is not a rectangular slice of a population; map the model again",
        "block 4: slice of 'p', [[1, 1]], is not a rectangular slice of a population; map the model again"]),
    ((block(7, ("q", 1, 3)), block(4, ("p", 1, 2), ("q", 1, 3))), [
        "population 'p': 1 of 2 neurons are on no core (the first: neuron 0); map the model again",
        "population 'q': 1 of 3 neurons are on no core (the first: neuron 0); map the model again",
        "population 'q': 2 of 3 neurons are on more than one core, or twice on one (the first: neuron 1); map the "
        "model again"]),
    ((), ["population 'p': 2 of 2 neurons are on no core (the first: neuron 0); map the model again",
          "population 'q': 3 of 3 neurons are on no core (the first: neuron 0); map the model again"]),
])  # fmt: skip
def test_maps_that_are_not_whole(blocks: Any, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tables.IllegalMapping) as caught:
        board(*blocks, monkeypatch=monkeypatch)
    assert lines(caught) == said
    assert all(set(p.ids) <= {"block", "population"} and p.ids for p in caught.value.problems)


def way(source: int | None, name: str | None, target: int, neurons: int) -> Any:
    return SimpleNamespace(source_block=source, source_input=name, target_block=target, neurons=neurons)


def test_routes_that_are_missing_or_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [way(None, "in", 7, 1), way(7, None, 7, 2), way(4, None, 7, 1), way(7, None, 4, 2)]
    with pytest.raises(tables.IllegalMapping) as caught:
        board(*BLOCKS, monkeypatch=monkeypatch, routes=routes)
    assert lines(caught) == [
        "input 'in' to block 7: spikes of 2 neurons go there, the map has axons for 1; map the model again",
        "block 4 to block 7: spikes of 2 neurons go there, the map has axons for 1; map the model again",
        "input 'in' to block 4: spikes of 1 neuron go there, the map has no route; map the model again",
    ]
    assert [dict(p.ids) for p in caught.value.problems] == [
        {"source": None, "target": 7}, {"source": 4, "target": 7}, {"source": None, "target": 4},
    ]  # fmt: skip


@pytest.mark.parametrize(("box", "order", "legal"), [
    (((0, 2), (0, 3)), None, True), (((1, 2), (2, 3)), (1, 0), True), (((0, 2),), None, False),
    (((0, 3), (0, 3)), None, False), (((0, 2), (0, 4)), None, False), (((-1, 2), (0, 3)), None, False),
    (((0, 2), (1, 1)), None, False), (((0, 2), (2, 1)), None, False), (((0, 2), (0, 3)), (0, 0), False),
    (((0, 2), (0, 3)), (0,), False), (((0, 2), (0, 3)), (1, 2), False),
])  # fmt: skip
def test_boxes_of_a_population(box: Any, order: Any, legal: bool) -> None:
    assert tables._is_box(SliceRecord("p", box, order), {"p": (2, 3)}) is legal
    assert not tables._is_box(SliceRecord("x", box, order), {"p": (2, 3)})


def test_several_slots_of_one_neuron_need_one_axon() -> None:
    """Routes count the neurons that send, not the synapses."""
    cores = tuple(LoadedCore(k, (), 3, (), ()) for k in (7, 4))
    route = LoadedRoute(0, None, 1, np.array([2, 2, 1]), np.array([0, 1, 2]))
    for neurons, missing in ((1, 1), (2, 0), (3, 0)):
        record: Any = SimpleNamespace(routes=[way(7, None, 4, neurons)])
        assert len([*tables._missing_routes(cores, (route,), record)]) == missing


@pytest.mark.parametrize("exponent", [-2, 0, 3])
def test_a_ring_gives_every_step_what_was_sent_into_it(exponent: int) -> None:
    memory = SynapseMemory(np.array([0, 2, 2, 5]), np.array([0, 2, 1, 1, 2]), np.array([3, -5, 7, 11, 13]),
                    np.array([1, 3, 2, 2, 3]), exponent)  # fmt: skip
    ring, due = RingBuffer(memory, 4, 3), np.zeros((40, 3), int)
    rng = np.random.default_rng(0)
    for step in range(20):
        found = ring.take(step)
        assert found.tolist() == (due[step] << exponent if exponent >= 0 else due[step] >> -exponent).tolist()
        axons = np.flatnonzero(rng.random(3) < 0.6)
        counts = rng.integers(1, 4, len(axons))
        ring.add(step, axons, counts)
        for a, n in zip(axons, counts, strict=True):
            for e in range(memory.first[a], memory.first[a + 1]):
                due[step + memory.delay[e], memory.slot[e]] += memory.weight[e] * n


def test_stretches_one_after_the_other() -> None:
    for counts in product(range(3), repeat=3):
        first = np.array([5, 0, 9])
        at, value = concatenated_ranges(first, np.array(counts))
        wanted = [(k, first[k] + i) for k, n in enumerate(counts) for i in range(n)]
        assert list(zip(at.tolist(), value.tolist(), strict=True)) == wanted


def test_pieces_are_numbered_on_in_their_order() -> None:
    own = tables._pieces(block(1, ("q", 1, 3), ("p", 1, 2), ("q", 0, 1)), {"p": (2,), "q": (3,)}, {})
    assert [(p.population, p.neurons.tolist(), p.start, p.stop) for p in own] == [
        ("q", [1, 2], 0, 2), ("p", [1], 2, 3), ("q", [0], 3, 4),
    ]  # fmt: skip
    assert isinstance(own[0], CoreSlice)
