# ruff: noqa: E501  (tables of messages read better in one line)
"""Refusals and notes of passes, word by word; copies, relays and divided projections one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError, NirbridgeError, counted
from nirbridge.network import neuron
from nirbridge.network.apply import matrix
from nirbridge.network.masking import only_sources, only_targets
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.operators import Chain, Dense, Identity, Reshape, Scale, Sparse, SumPool
from nirbridge.passes import ReplicateSource
from nirbridge.passes.retiming.retime import LatencyArc, UniformDelays, all_loops, least_latencies

balancing: Any = sys.modules["nirbridge.passes.retiming.retime"]
splitting: Any = sys.modules["nirbridge.passes.replicate_source"]
TIMING = Timing(1.0, "euler", "to-value", ">", "per-second")


def told(work: Any) -> list[str]:
    with pytest.raises(NirbridgeError) as caught:
        work()
    return [str(p) for p in caught.value.problems]


def some(*shape: int) -> Any:
    return freeze(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))


def way(source: str, target: str, operator: Any, **own: Any) -> Projection:
    arrays: dict[str, Any] = {
        k: freeze(np.asarray(v, np.int64 if "steps" in k else float))
        if k in ("delay_steps", "target_delay_steps", "bias")
        else v
        for k, v in own.items()
    }
    return Projection(source, target, operator, **arrays)


def net(shapes: dict[str, tuple[int, ...]], *ways: Projection, cells: dict[str, Any] | None = None) -> Network:
    populations = tuple(Population(n, s, (cells or {}).get(n, neuron("IF"))) for n, s in shapes.items())
    return Network(1.0, TIMING, populations, ways, (Port("in", (2,)),), (Port("out", (2,)),))


# -- copies of a source ------------------------------------------------------------------------------------------------


def feeding(target: tuple[int, ...] = (2, 3), **own: Any) -> Network:
    size = int(np.prod(target))
    into_b = Chain((Dense(some(size, 2)), Reshape((size,), target)))
    ways = (
        way("in", "a", Identity((2,)), bias=[0.5, 1.0]),
        way("a", "a", Dense(some(2, 2)), delay_steps=1, is_back=True),
        way("a", "b", into_b, **own),
        way("a", "out", Identity((2,))),
    )
    return net({"a": (2,), "b": target, "a_copy": (2,)}, *ways)


def test_copies_stand_behind_their_original_and_feed_a_part_each() -> None:
    made = ReplicateSource("a", 2)(feeding(bias=np.ones((2, 3))))
    assert [p.name for p in made.populations] == ["a", "a_copy_2", "b", "a_copy"]
    assert [(p.source, p.target) for p in made.projections] == [
        ("in", "a"), ("in", "a_copy_2"), ("a", "a"), ("a_copy_2", "a_copy_2"), ("a", "b"), ("a_copy_2", "b"), ("a", "out"),
    ]  # fmt: skip
    parts = made.projections[4:6]
    assert [p.bias.tolist() for p in parts if p.bias is not None] == [[[1, 0, 0], [1, 0, 0]], [[0, 1, 1], [0, 1, 1]]]
    whole = some(6, 2)
    for p, columns in zip(parts, ([0], [1, 2]), strict=True):
        rows = [k for k in range(6) if k % 3 in columns]
        table = matrix(p.operator).toarray()
        assert table[rows].tolist() == whole[rows].tolist()
        assert not np.delete(table, rows, 0).any()
    assert all(q.bias is not None and q.bias.tolist() == [0.5, 1.0] for q in made.projections[:2])


@pytest.mark.parametrize(("ways", "sizes"), [(2, [2, 3]), (3, [1, 2, 2]), (4, [1, 1, 1, 2]), (5, [1] * 5)])
def test_parts_of_a_target_are_even(ways: int, sizes: list[int]) -> None:
    made = ReplicateSource("a", ways)(feeding((5, 1)))
    cut = [p for p in made.projections if p.target == "b"]
    assert [int(matrix(p.operator).toarray().any(axis=1).sum()) for p in cut] == sizes
    assert [p.source for p in cut] == ["a", "a_copy_2", "a_copy_3", "a_copy_4", "a_copy_5"][:ways]
    assert all(p.bias is None for p in cut)


def test_copies_without_a_part_feed_nothing() -> None:
    made = ReplicateSource("a", 5)(feeding((2, 3)))
    assert [p.source for p in made.projections if p.target == "b"] == ["a_copy_2", "a_copy_4", "a_copy_5"]
    alone = net({"a": (2,), "b": (1,), "c": (3,)}, way("a", "b", Dense(some(1, 2))), way("a", "c", Dense(some(3, 2))))
    split = ReplicateSource("a", 3)(alone)
    assert [(p.source, p.target) for p in split.projections] == [
        ("a", "b"),
        ("a", "c"),
        ("a_copy", "c"),
        ("a_copy_2", "c"),
    ]


def test_what_can_not_be_split_is_told() -> None:
    made, known = feeding(), "there are 'a', 'b', 'a_copy'; name one"
    assert told(lambda: ReplicateSource("x", 2)(made)) == [f"split: no population 'x', {known}"]
    for ways in (1, 7):
        assert told(lambda w=ways: ReplicateSource("a", w)(made)) == [
            f"split of 'a': {counted(ways, 'copy', 'copies')}, 2 to 6 (neurons of its largest target); choose another number or population"
        ]
    assert len(ReplicateSource("a", 6)(made).populations) == 8
    cannot = "it feeds no population that can be cut; choose another number or population"
    assert told(lambda: ReplicateSource("b", 2)(made)) == [f"split of 'b': 2 copies, {cannot}"]
    one = net({"a": (2,), "b": (1,)}, way("a", "b", Dense(some(1, 2))))
    assert told(lambda: ReplicateSource("a", 1)(one)) == [f"split of 'a': 1 copy, {cannot}"]
    many = net({f"p{k}": (1,) for k in range(10)})
    shown = ", ".join(f"'p{k}'" for k in range(8))
    assert told(lambda: ReplicateSource("x", 2)(many)) == [f"split: no population 'x', there are {shown}; name one"]


def test_a_projection_too_large_to_be_listed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ModelError.of("operator", "too many")

    monkeypatch.setattr(splitting, "only_targets", refuse)
    assert told(lambda: ReplicateSource("a", 2)(feeding())) == [
        "projection 'a' -> 'b': too many synapses to be listed one by one; split another source"
    ]


# -- masks and delays per target -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operator",
    [
        Dense(some(3, 2)), Scale(some(3)), Sparse(freeze([0, 1, 1, 3]), freeze([1, 0, 1]), some(3), (2,), (3,)), Identity((3,)),
        SumPool((1, 2), (1, 2), ((0, 0), (0, 0)), (1, 3, 4), 0.5), Chain((Dense(some(3, 2)), Scale(some(3)))),
    ],
    ids=lambda o: type(o).__name__,
)  # fmt: skip
def test_an_operator_for_some_of_its_ends(operator: Any) -> None:
    table = matrix(operator).toarray()
    for k in range(2 ** min(table.shape[0], 5)):
        wanted = np.array([bool(k >> j & 1) for j in range(table.shape[0])])
        made = only_targets(operator, wanted.reshape(operator.output_shape))
        assert matrix(made).toarray().tolist() == (table * wanted[:, None]).tolist()
        assert (made.input_shape, made.output_shape) == (operator.input_shape, operator.output_shape)
    for k in range(2 ** min(table.shape[1], 5)):
        wanted = np.array([bool(k >> j & 1) for j in range(table.shape[1])])
        made = only_sources(operator, wanted.reshape(operator.input_shape))
        assert matrix(made).toarray().tolist() == (table * wanted).tolist()


def test_a_pool_keeps_its_factor_behind_the_sum() -> None:
    pool = SumPool((1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1, 4), 0.5)
    made = only_targets(pool, np.array([[[True, False]]]))
    assert isinstance(made, Chain)
    assert [type(p).__name__ for p in made.parts] == ["Sparse", "Scale"]
    assert isinstance(only_targets(replace(pool, factor=1.0), np.array([[[True, False]]])), Sparse)


def test_delays_per_target_are_one_projection_each() -> None:
    late = way(
        "in",
        "a",
        Dense(some(3, 2)),
        target_delay_steps=[4, 0, 4],
        delay_steps=[1, 2],
        bias=[1.0, 2.0, 3.0],
        nodes=("w",),
    )
    plain = way("a", "b", Identity((3,)), nodes=("i",))
    made = UniformDelays()(net({"a": (3,), "b": (3,)}, late, plain))
    assert [(p.delay_steps.tolist(), p.target_delay_steps.tolist(), p.nodes) for p in made.projections] == [
        ([1, 2], 0, ()), ([5, 6], 0, ()), (0, 0, ("i",)),
    ]  # fmt: skip
    assert [p.bias.tolist() for p in made.projections[:2] if p.bias is not None] == [[0, 2, 0], [1, 0, 3]]
    assert [matrix(p.operator).toarray().any(axis=1).tolist() for p in made.projections[:2]] == [
        [False, True, False],
        [True, False, True],
    ]
    free = UniformDelays()(net({"a": (3,)}, replace(late, bias=None)))
    assert [p.bias for p in free.projections] == [None, None]
    shared = UniformDelays()(net({"a": (3,)}, replace(late, target_delay_steps=freeze([4, 4, 4]))))
    assert [(p.delay_steps.tolist(), p.target_delay_steps.tolist(), p.nodes) for p in shared.projections] == [
        ([5, 6], 0, ("w",))
    ]
    same = net({"a": (3,), "b": (3,)}, plain)
    assert UniformDelays()(same) is same


# -- loops and notes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [1, 2, balancing.NAMES_SHOWN, balancing.NAMES_SHOWN + 1])
def test_a_loop_without_the_steps_that_its_hops_take_is_told(hops: int) -> None:
    names = [f"n{k}" for k in range(hops)]
    ring = [(a, b) for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    arcs = [LatencyArc(a, b, 1 if k else 0) for k, (a, b) in enumerate(ring)] + [LatencyArc(*ring[0], -3)]
    loop = tuple(names)
    missing = hops - 1
    shown = " -> ".join(f"'{n}'" for n in names[: balancing.NAMES_SHOWN]) + (
        " -> '…'" if hops > balancing.NAMES_SHOWN else ""
    )
    problem = balancing._loop_problem(loop, arcs)
    assert str(problem) == (
        f"loop {shown} -> 'n0': 1 step of delay for {hops} hop{'s' * (hops != 1)}, a hop between neurons takes a step on a chip, so a loop needs as many steps of delay as hops; "
        f"delay it by {missing} more (a Delay node on one of its edges, in training too), or merge its populations"
    )
    assert dict(problem.ids) == {"names": loop, "missing_steps": missing}


def test_texts_are_listed_up_to_a_number() -> None:
    most = balancing.NAMES_SHOWN
    texts = [str(k) for k in range(2000)]
    assert balancing._listed(texts[:1]) == "0"
    assert balancing._listed(texts[:most]) == ", ".join(texts[:most])
    assert balancing._listed(texts[: most + 1]) == ", ".join(texts[:most]) + " and 1 more"
    assert balancing._listed(texts) == ", ".join(texts[:most]) + f" and {2000 - most:,} more"


@pytest.mark.parametrize(("delays", "added"), [(0, 2), (1, 3), ([0, 0], 2), ([0, 1], 3)])
def test_steps_that_were_added_to_a_projection(delays: Any, added: int) -> None:
    p = way("a", "b", Identity((2,)), delay_steps=delays)
    assert balancing._inserted(p, {"a": 1, "b": 4}) == added
    assert balancing._inserted(p, {"a": 4, "b": 4}) == 0


def test_arcs_ask_for_a_hop_into_a_population_only() -> None:
    p = way("a", "b", Identity((2,)), delay_steps=[5, 3])
    assert balancing._arc(p, {"b"}, {"a": 7}) == LatencyArc("a", "b", -2, 7)
    assert balancing._arc(p, {"a"}, {"a": 7}) == LatencyArc("a", "b", -3, 0)


def test_early_spikes_are_noted_population_by_population() -> None:
    said = "time steps before its first input, in the first of the chip, so it is not in the state of the reference at that input"
    assert balancing.early_notes(("a", "b"), {"a": 1000, "b": 2}) == tuple(
        f"early spikes of '{n}' are kept: it starts {k} {said}" for n, k in (("a", "1,000"), ("b", "2"))
    )


def test_loops_are_found_one_after_the_other() -> None:
    arcs = [
        LatencyArc("a", "b", 1),
        LatencyArc("b", "a", 0),
        LatencyArc("c", "c", 1),
        LatencyArc("b", "c", 5),
        LatencyArc("c", "d", -2),
    ]
    loops = all_loops(("a", "b", "c", "d"), arcs)
    assert sorted(sorted(loop) for loop in loops) == [["a", "b"], ["c"]]
    assert least_latencies(("a", "b", "c", "d"), [arcs[0], *arcs[3:]]) == ({"a": 0, "b": 1, "c": 6, "d": 4}, ())
    assert least_latencies(("a", "b"), [LatencyArc("a", "b", 1), LatencyArc("b", "a", -1)]) == ({"a": 0, "b": 1}, ())
