# ruff: noqa: E501  (tables of messages read better in one line)
"""Refusals of a graph's structure and shapes, word by word; equivalent forms of a graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.errors import ModelError, quoted
from nirbridge.network.nir import flatten as flattening
from nirbridge.network.nir.flatten import expand_graph, flatten_graph
from nirbridge.network.nir.shapes import infer_shapes
from tests.network.nir.test_flatten_graph import graph, out, two_ports
from tests.network.nir.test_flatten_graph import lif as three
from tests.network.nir.test_flatten_graph import port as three_in
from tests.network.nir.test_shapes import A, after, chain, conv2d, lif, port


def told(work: Any) -> list[str]:
    with pytest.raises(ModelError) as caught:
        work()
    return [str(p) for p in caught.value.problems]


def affine(weight: tuple[int, ...], bias: Any) -> nir.Affine:
    node = nir.Affine(np.zeros(weight), np.zeros(weight[-2]))
    node.bias = bias
    return node


def with_field(node: Any, **own: Any) -> Any:
    for name, value in own.items():
        setattr(node, name, value)
    return node


def cell(**own: Any) -> nir.LIF:
    return with_field(lif(1), **own)


def linear(weight: tuple[int, ...]) -> nir.Linear:
    return with_field(nir.Linear(np.zeros((2, 2))), weight=np.zeros(weight))


NO_BIAS = "node 'n0' (Conv2d): it has no bias, its weight has 6 output channels; store one bias per channel"
WRONG_BIAS = "node 'n0' (Conv2d): bias has shape {}, its weight has 6 output channels; store one bias per channel"
MATRIX = "node 'n0' (Linear): weight has shape {}, it must be [out, in], none of them 0; store the weight as torch does"
DIMS = "node 'n0' (Flatten): start_dim {}, end_dim {} on an input of shape {}, dims go from {} to {} without the batch, start before end; correct start_dim or end_dim"
ONE = "it must be one whole number; correct"
FAR = "it must be from -2147483648 to 2,147,483,647; correct"
POOL = nir.SumPool2d(2, 2, 0)


@pytest.mark.parametrize(
    ("node", "given", "problems"),
    [
        (linear((3,)), (3,), [MATRIX.format("(3,)")]),
        (linear(()), (3,), [MATRIX.format("()")]),
        (linear((0, 3)), (3,), [MATRIX.format("(0, 3)")]),
        (linear((3, 0)), (3,), [MATRIX.format("(3, 0)")]),
        (linear((1, 3)), (3,), []),
        (affine((5, 3), None), (3,), ["node 'n0' (Affine): it has no bias, the weight's output needs (5,); correct the bias, or use Linear"]),
        (affine((2, 5, 3), np.zeros((5, 2))), (2, 3), ["node 'n0' (Affine): bias has shape (5, 2), the weight's output needs (5,) or (2, 5); correct the bias, or use Linear"]),
        (with_field(conv2d((6, 2, 3, 1)), bias=None), (2, 8, 6), [NO_BIAS]),
        (with_field(conv2d((6, 2, 3, 1)), bias=np.zeros(2)), (2, 8, 6), [WRONG_BIAS.format("(2,)")]),
        (with_field(conv2d((6, 2, 3, 1)), bias=np.zeros((6, 1))), (2, 8, 6), [WRONG_BIAS.format("(6, 1)")]),
        (conv2d((6, 2, 3, 1), shape=(0, 6)), (2, 8, 6), ["node 'n0' (Conv2d): input_shape is (0, 6), it must be from 1 to 2,147,483,647; correct input_shape"]),
        (conv2d((6, 2, 1, 1), shape=(1, 1)), (2, 1, 1), []),
        (nir.Flatten(None, A([0, 1]), -1), (2, 3), [f"node 'n0' (Flatten): start_dim is [0, 1], {ONE} start_dim"]),
        (nir.Flatten(None, 0, 1.5), (2, 3), [f"node 'n0' (Flatten): end_dim is 1.5, {ONE} end_dim"]),
        (nir.Flatten(None, -(2**31) - 1, "x"), (2, 3), [f"node 'n0' (Flatten): start_dim is -2147483649, {FAR} start_dim", f"node 'n0' (Flatten): end_dim is 'x', {ONE} end_dim"]),
        (nir.Flatten(None, -(2**31), -1), (2, 3), [DIMS.format(-(2**31), -1, (2, 3), -2, 1)]),
        (nir.Flatten(None, 0, 2), (2, 3), [DIMS.format(0, 2, (2, 3), -2, 1)]),
        (nir.Flatten(None, -3, 1), (2, 3), [DIMS.format(-3, 1, (2, 3), -2, 1)]),
        (nir.Flatten(None, 1, 1), (), [DIMS.format(1, 1, (), -1, 0)]),
        (nir.Flatten({"input": A([3, 2])}, 0), (2, 3), ["edge 'input' -> 'n0': Input puts out shape (2, 3), Flatten takes (3, 2); correct one of the two"]),
        (cell(tau=np.ones(3), v_reset=None), (4,), ["edge 'input' -> 'n0': Input puts out shape (4,), LIF takes (3,); correct one of the two"]),
        (cell(tau=np.ones(3), r=np.ones(0), v_leak=np.ones(0)), (3,), ["node 'n0' (LIF): r has shape (0,), it must not be empty; give r a value"]),
        (cell(v_threshold=np.ones((2, 0))), (3,), ["node 'n0' (LIF): v_threshold has shape (2, 0), it must not be empty; give v_threshold a value"]),
    ],
)  # fmt: skip
def test_a_shape_that_does_not_go_is_told(node: Any, given: tuple[int, ...], problems: list[str]) -> None:
    made = chain(port(*given), node)
    if node.__class__.__name__ == "Flatten" and node.input_type["input"] is None:
        made.nodes["n0"].input_type = None
    if not problems:
        infer_shapes(made)
        return
    found = told(lambda: infer_shapes(made))
    assert [text.replace("correct one of the two", "").replace("put a Flatten between them", "") for text in found] == [
        text.replace("correct one of the two", "") for text in problems
    ]


def test_one_parameter_of_many_gives_the_shape() -> None:
    assert after(port(2), cell(tau=np.ones(2))) == (2,)
    assert after(port(2, 3), cell(r=np.ones(()), v_leak=np.ones((2, 3)))) == (2, 3)
    alone = chain(port(3), lif(3))
    alone.nodes["late"] = cell(tau=np.ones(()), r=np.ones((1, 1)), v_reset=None)
    assert infer_shapes(alone)["late"].output_shape == (1, 1), "the most axes of those with one element"


def test_a_port_says_its_own_side() -> None:
    one = port(3)
    one.output_type = {"output": A([9])}
    last = nir.Output(A([3]))
    last.input_type = {"input": A([9])}
    made = nir.NIRGraph({"a": one, "b": last}, [("a", "b")], type_check=False)
    assert [s.input_shape for s in infer_shapes(made).values()] == [(3,), (3,)]
    one.input_type, last.output_type = None, None
    assert told(lambda: infer_shapes(made)) == [
        f"node '{n}' ({kind}): no known shape reaches it, its own shape is not stored; connect it to an Input"
        for n, kind in (("a", "Input"), ("b", "Output"))
    ]


def test_what_no_shape_reaches_is_told_with_what_it_may_store() -> None:
    free = chain(nir.Input(None), conv2d((1, 1, 2, 2)), POOL)
    kinds = (("input", "Input"), ("n0", "Conv2d"), ("n1", "SumPool2d"), ("output", "Output"))
    more = {"n0": "store its input_shape, or "}
    assert told(lambda: infer_shapes(free)) == [
        f"node '{n}' ({kind}): no known shape reaches it, its own shape is not stored; {more.get(n, '')}connect it to an Input"
        for n, kind in kinds
    ]
    bad = chain(nir.Input(None), nir.SumPool2d(2, 0, 0))
    assert told(lambda: infer_shapes(bad)) == [
        "node 'n0' (SumPool2d): stride is 0, it must be from 1 to 2,147,483,647; correct stride"
    ]


# -- structure -------------------------------------------------------------------------------------------------------


def test_names_and_edges_that_are_none_are_told_one_by_one() -> None:
    made = graph({"a": three_in(), 3: three(), "": three(), "b": three(), "o": out()}, "a>b", "b>o")  # type: ignore[dict-item]
    made.edges += [5, ["a"], ["a", 3], ("a", "b", "o"), ["b", "b"]]
    pair = "it is not a pair of node names, an edge is (source, target); correct the edge"
    assert told(lambda: expand_graph(made)) == [
        "node '3': its name is not a string; rename the node",
        "node '': its name is not a string; rename the node",
        f"edge '5': {pair}",
        f"edge {quoted(['a'])}: {pair}",
        f"edge {quoted(['a', 3])}: {pair}",
        f"edge {quoted(('a', 'b', 'o'))}: {pair}",
    ]


def test_no_ports_no_known_type_and_two_names() -> None:
    made = graph({"a": SimpleNamespace(), "s": graph({"x": three()}), "s.x": three()})
    known = ", ".join(flattening.NODE_TYPES)
    assert told(lambda: flatten_graph(made)) == [
        f"node 'a': its type SimpleNamespace is not known; use one of {known}",
        "node 's.x': two nodes have this full name, one of them in a subgraph, full names must differ; rename one of them",
        "graph: it has no Input node, it needs at least one; add a nir.Input and an edge",
        "graph: it has no Output node, it needs at least one; add a nir.Output and an edge",
    ]


def test_ends_that_could_be_several_are_listed_in_order_of_names() -> None:
    sub = graph({"i2": three_in(), "i1": three_in(), "o2": out(), "o1": out()}, "i1>o1", "i2>o2")
    made = graph({"a": three_in(), "sub": sub, "c": out()}, "a>sub", "sub>c", "a>none", "none>sub.i1")
    assert told(lambda: flatten_graph(made)) == [
        "edge 'a' -> 'sub': 'sub' can mean several nodes ('sub.i1', 'sub.i2'), it must mean one; name one of the inputs, or rename a node",
        "edge 'sub' -> 'c': 'sub' can mean several nodes ('sub.o1', 'sub.o2'), it must mean one; name one of the outputs, or rename a node",
        "edge 'a' -> 'none': there is no node 'none'; add the node or remove the edge",
        "edge 'none' -> 'sub.i1': there is no node 'none'; add the node or remove the edge",
    ]


def test_edges_that_lead_nowhere_are_told_at_the_outermost_level_only() -> None:
    nodes = {"a": three_in(), "b": three(), "w": nir.Linear(np.eye(3)), "o": out()}
    assert told(lambda: flatten_graph(graph(nodes, "a>b", "b>a", "o>b", "w>w", "b>b", "b>o", "a>b"))) == [
        "edge 'b' -> 'a': it leads into an Input, inputs come from outside; remove the edge",
        "edge 'o' -> 'b': it starts at an Output, outputs lead outside; start it at the node before 'o'",
        "edge 'w' -> 'w': the Linear node feeds itself within one time step, a loop needs a neuron in it; route the loop through a neuron",
        "edge 'a' -> 'b': it is listed twice, NIR allows an edge once; double the weights after it, or remove one",
    ]
    inner = graph({"i": three_in(), "n": three(), "o": out()}, "i>n", "n>i", "n>o", "o>n")
    made = graph({"in": three_in(), "s": inner, "out": out()}, "in>s", "s>out")
    assert sorted(flatten_graph(made).edges) == [("in", "s.n"), ("s.n", "out"), ("s.n", "s.n"), ("s.n", "s.n")]


def test_similar_names_are_looked_for_in_the_first_problems_only() -> None:
    nodes = {f"neuron{k}": three() for k in range(3)} | {"a": three_in(), "o": out()}
    edges = [f"a>neuron_{k}" for k in range(flattening._HINTS + 2)]
    found = told(lambda: flatten_graph(graph(nodes, *edges)))
    hints = [text.partition("; ")[2].startswith("did you mean 'neuron") for text in found]
    assert hints == [True] * 20 + [False] * 2
    assert found[-1] == "edge 'a' -> 'neuron_21': there is no node 'neuron_21'; add the node or remove the edge"
    long = graph(
        {"a": three_in(), "o": out(), "n" * 101: three(), "m" * 100: three()}, "a>" + "n" * 100, "a>" + "m" * 99
    )
    steps = [text.partition("; ")[2] for text in told(lambda: flatten_graph(long))]
    assert steps == ["add the node or remove the edge", f"did you mean {quoted('m' * 100)}?"]


@pytest.mark.parametrize(("most", "is_read"), [(8, True), (7, False)])
def test_edges_behind_ports_are_counted(most: int, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources through one port to three nodes, and two edges besides: six and two."""
    sub = graph({"i": three_in(), "o1": out(), "n": three()}, "i>o1", "n>o1")
    nodes = {"a": three_in(), "s": sub, **{f"t{k}": three() for k in range(3)}, "o": out()}
    made = graph(nodes, "a>s", "s>t0", "s>t1", "s>t2", "t0>o", "a>o")
    monkeypatch.setattr(flattening, "MAX_EDGES", most)
    if is_read:
        assert len(flatten_graph(made).edges) == 8
        return
    assert told(lambda: flatten_graph(made)) == [
        "graph: splicing the subgraphs makes more than 7 edges, at most 7 are read; flatten the model where it was made"
    ]


def test_depth_is_counted_from_the_outermost_graph() -> None:
    def nested(depth: int) -> Any:
        inner = graph({"i": three_in(), "o": out()}, "i>o")
        for _ in range(depth):
            inner = graph({"i": three_in(), "g": inner, "o": out()}, "i>g", "g>o")
        return inner

    assert flatten_graph(nested(flattening.MAX_DEPTH)).edges == (("i", "o"),)
    path = ".".join("g" * 33)
    assert told(lambda: flatten_graph(nested(33)))[0] == (
        f"subgraph '{path}': graphs are nested 33 deep, at most 32 are read; flatten the model"
    )


def test_a_loop_of_ports_names_five_of_them() -> None:
    ring = {f"g{k}": graph({"in": three_in(), "out": out()}, "in>out") for k in range(4)}
    made = graph(
        {"input": three_in(), **ring, "output": out()}, "input>output", *(f"g{k}>g{(k + 1) % 4}" for k in range(4))
    )
    stuck = "'g0.in', 'g0.out', 'g1.in', 'g1.out', 'g2.in'"
    assert told(lambda: flatten_graph(made)) == [
        f"graph: subgraph ports feed each other without a node between: {stuck}, a loop needs a neuron in it; remove one of these edges"
    ]


def test_both_ends_of_a_graph_in_a_graph_stay_where_they_are_asked_for() -> None:
    nodes = {"a": three_in(), "sub": two_ports(), "o": out()}
    found = expand_graph(graph(nodes, "a>sub.i1", "sub.o2>o"))
    assert list(found.nodes) == ["a", "sub.i1", "sub.i2", "sub.w", "sub.lif", "sub.o1", "sub.o2", "o"]
    assert len(found.edges) == 8
