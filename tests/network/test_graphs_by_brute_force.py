"""Cycles, orders, paths and reachability of every small graph, by definition; natural order of names."""

from __future__ import annotations

from itertools import chain, combinations, permutations, product

import pytest

from nirbridge.errors import ModelError
from nirbridge.files.npy import decode_name, encode_name
from nirbridge.network.graph import DelayArc, back_arcs, causal_order, closure
from nirbridge.network.naming import fresh_name, natural_key
from nirbridge.network.nir.from_nir import build_wiring, check_count, paths_into

NAMES = ("1", "2", "10")
PAIRS = tuple(product(NAMES, NAMES))
EVERY_GRAPH = [edges for count in range(4) for edges in combinations(PAIRS, count)]


def has_cycle(edges: list[tuple[str, str]]) -> bool:
    return not any(
        all(order.index(a) < order.index(b) for a, b in edges) for order in permutations(NAMES)
    )  # fmt: skip


def walked(start: str, edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Depth first in natural order, by recursion: the edges that close a cycle."""
    following = {n: sorted({b for a, b in edges if a == n}, key=natural_key) for n in ("in", *NAMES)}
    done: set[str] = set()
    closing = []

    def visit(node: str, path: tuple[str, ...]) -> None:
        for target in following[node]:
            if target in (*path, node):
                closing.append((node, target))
            elif target not in done:
                visit(target, (*path, node))
        done.add(node)

    for root in (start, *NAMES):
        if root not in done:
            visit(root, ())
    return closing


@pytest.mark.parametrize("first", NAMES)
def test_back_arcs_of_every_small_graph(first: str) -> None:
    for edges in EVERY_GRAPH:
        arcs = [DelayArc("in", first, 0), *(DelayArc(a, b, 0) for a, b in edges)]
        found = back_arcs(["in"], ["10", "2", "1"], arcs)
        closing = walked("in", [(a.source, a.target) for a in arcs])
        assert found == tuple((a.source, a.target) in closing for a in arcs)
        assert not has_cycle([e for e, back in zip(edges, found[1:], strict=True) if not back])


def test_a_delayed_arc_closes_no_cycle() -> None:
    arcs = [DelayArc("1", "2", 0), DelayArc("2", "1", 1), DelayArc("2", "1", 0), DelayArc("2", "2", 3)]
    assert back_arcs([], ["1", "2"], arcs) == (False, False, True, False)
    assert back_arcs(["2"], ["1"], arcs) == (True, False, False, False)


@pytest.mark.parametrize("delays", list(product((0, 1), repeat=3)))
def test_orders_of_every_small_graph_are_causal(delays: tuple[int, ...]) -> None:
    for edges in EVERY_GRAPH:
        arcs = [DelayArc(a, b, d) for (a, b), d in zip(edges, delays, strict=False)]
        back = back_arcs([], NAMES, arcs)
        order = causal_order(("10", "2", "1"), arcs, back)
        assert sorted(order) == sorted(NAMES)
        for arc, is_back in zip(arcs, back, strict=True):
            if arc.delay_steps == 0 and not is_back:
                assert order.index(arc.source) < order.index(arc.target)
        waiting: list[str] = list(NAMES)
        while waiting:  # of those that may come next, the one with the fewest delayed arcs from those to come
            ready = [n for n in waiting if not [a for a in _into(n, arcs, back, waiting) if a.delay_steps == 0]]
            best = min(ready, key=lambda n: (len(_into(n, arcs, back, waiting)), natural_key(n)))
            assert order[3 - len(waiting)] == best
            waiting.remove(best)


def _into(name: str, arcs: list[DelayArc], back: tuple[bool, ...], waiting: list[str]) -> list[DelayArc]:
    own = [a for a, is_back in zip(arcs, back, strict=True) if a.target == name and not is_back]
    return [a for a in own if a.source in waiting and a.source != name]


def test_names_in_a_cycle_that_is_not_marked_come_last() -> None:
    arcs = [DelayArc("b", "c", 0), DelayArc("c", "b", 0), DelayArc("gone", "a", 0), DelayArc("a", "gone", 0)]
    assert causal_order(("c", "b", "a"), arcs, (False,) * 4) == ("a", "b", "c")


def test_paths_of_linear_nodes_one_by_one() -> None:
    edges = [("in", "a"), ("in", "b"), ("a", "c"), ("b", "c"), ("c", "out"), ("a", "out"), ("in", "out"), ("dead", "c")]
    wiring = build_wiring(edges, frozenset({"a", "b", "c", "dead"}), frozenset({"in"}))
    assert dict(wiring.counts) == {"a": 1, "b": 1, "c": 2, "dead": 0}
    assert [wiring.live(n) for n in ("in", "a", "c", "dead", "out")] == [1, 1, 2, 0, 0]
    spent: list[int] = []
    found = [(p.source, p.nodes, p.target, p.first) for p in paths_into("out", wiring, spent.append)]
    assert found == [
        ("in", ("a", "c"), "out", (True, True)),
        ("in", ("b", "c"), "out", (True, False)),
        ("in", ("a",), "out", (True,)),
        ("in", (), "out", ()),
    ]
    assert sum(spent) == 8 + 5  # visits of nodes, and nodes on paths
    check_count(wiring, ["out"], 4)
    limit = "at most 3; put neurons between the branches, or merge them"
    with pytest.raises(ModelError, match=f"^graph: 4 paths of linear nodes between neurons, {limit}$"):
        check_count(wiring, ["out"], 3)


@pytest.mark.parametrize(("doublings", "shown"), [(13, "16,384"), (48, "562,949,953,421,312"), (49, "more than 10^15")])
def test_numbers_of_paths_are_shown_while_they_can_be_read(doublings: int, shown: str) -> None:
    edges = [("in", "0"), ("in", "0")]
    for k in range(doublings):
        edges += [(str(k), str(k + 1))] * 2
    wiring = build_wiring(
        [*edges, (str(doublings), "out")], frozenset(map(str, range(doublings + 1))), frozenset({"in"})
    )
    with pytest.raises(ModelError) as caught:
        check_count(wiring, ["out"])
    step = "put neurons between the branches, or merge them"
    assert str(caught.value) == f"graph: {shown} paths of linear nodes between neurons, at most 10,000; {step}"


@pytest.mark.parametrize("length", [1, 2, 6, 7, 9])
def test_a_loop_of_linear_nodes_is_shown_up_to_six(length: int) -> None:
    ring = [(str(k), str((k + 1) % length)) for k in range(length)]
    nodes = frozenset(map(str, range(length))) | {"behind"}
    with pytest.raises(ModelError) as caught:
        build_wiring([*ring, ("0", "behind"), ("in", "0")], nodes, frozenset({"in"}))
    loop = caught.value.problems[0].ids["nodes"]
    assert sorted(loop) == sorted(map(str, range(length)))
    assert all((a, b) in ring for a, b in zip(loop, [*loop[1:], loop[0]], strict=True))
    shown = [f"'{n}'" for n in loop[:6]] + ["'…'"] * (length > 6) + [f"'{loop[0]}'"]
    found = f"graph: linear nodes feed each other in a loop: {' -> '.join(shown)}"
    assert str(caught.value) == f"{found}, a loop needs a neuron in it; put a neuron between"


def test_a_node_that_feeds_itself_alone_is_a_loop() -> None:
    with pytest.raises(ModelError, match="^graph: linear nodes feed each other in a loop: 'a' -> 'a', a loop needs"):
        build_wiring([("a", "a")], frozenset({"a"}), frozenset())


def test_reach_is_the_transitive_closure() -> None:
    for edges in EVERY_GRAPH:
        for start in NAMES:
            wanted = {start}
            for _ in NAMES:
                wanted |= {b for a, b in edges if a in wanted}
            assert closure([start], edges) == wanted


def test_natural_order_is_by_value_then_by_name() -> None:
    wanted = ["", "0", "00", "01", "1", "2", "10", "9999999999999999999", "a", "a0", "a1", "a2b", "a10", "b"]
    assert sorted(set(wanted), key=natural_key) == wanted
    assert natural_key("a07") == (((1, 0, "a"), (0, 1, "7")), "a07")
    assert natural_key("²")[0] == ((1, 0, "²"),)


def test_fresh_names_count_from_two() -> None:
    taken = {"a", "a_2", "a_3", "b"}
    assert [fresh_name(n, taken) for n in ("c", "b", "a")] == ["c", "b_2", "a_4"]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("fc1", "fc1"),
        ("a/b", "a/b"),
        ("a//b", "a/%/b"),
        ("", "%"),
        ("..", "%2E%2E"),
        ("./x", "%2E/x"),
        ("...", "..."),
        ("a:b%\\", "a%3Ab%25%5C"),
        ("a\nb", "a%0Ab"),
        ("é", "é"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_names_in_archives_are_harmless_and_read_back(name: str, written: str) -> None:
    assert encode_name(name) == written
    assert decode_name(written) == name


def test_every_short_name_is_read_back_and_no_two_are_alike() -> None:
    names = ["".join(n) for n in chain.from_iterable(product("a./%:", repeat=k) for k in range(5))]
    written = [encode_name(n) for n in names]
    assert [decode_name(w) for w in written] == names
    assert len(set(written)) == len(names)
