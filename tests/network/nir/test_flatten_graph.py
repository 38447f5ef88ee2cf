# ruff: noqa: E501  (tables of messages read better in one line)
from __future__ import annotations

import re
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.network.nir import flatten as module
from nirbridge.network.nir.flatten import expand_graph, flatten_graph
from nirbridge.network.nir.shapes import infer_shapes

A = np.array


def port(n: int = 3) -> nir.Input:
    return nir.Input(A([n]))


def out(n: int = 3) -> nir.Output:
    return nir.Output(A([n]))


def lif() -> nir.LIF:
    return nir.LIF(*[np.ones(3)] * 4)


def graph(nodes: dict[str, Any], *edges: str) -> nir.NIRGraph:
    """Edges as 'a>b'."""
    return nir.NIRGraph(nodes, [tuple(edge.split(">")) for edge in edges], type_check=False)


def two_ports() -> nir.NIRGraph:
    nodes = {"i1": port(), "i2": port(), "w": nir.Linear(np.eye(3)), "lif": lif(), "o1": out(), "o2": out()}
    return graph(nodes, "i1>w", "w>lif", "i2>lif", "lif>w", "lif>o1", "i2>o2")


def test_a_flat_graph_stays_as_it_is() -> None:
    flat = graph({"input": port(), "lif1.lif": lif(), "output": out()}, "input>lif1.lif", "lif1.lif>output")
    found = flatten_graph(flat)
    assert dict(found.nodes) == flat.nodes
    assert found.edges == (("input", "lif1.lif"), ("lif1.lif", "output"))


def test_ports_are_spliced_out_in_the_order_of_the_file() -> None:
    nodes = {"a": port(), "b": lif(), "sub": two_ports(), "c": lif(), "output": out()}
    outer = graph(nodes, "a>b", "b>sub.i1", "a>sub.i1", "a>sub.i2", "sub.o2>c", "sub.o1>c", "c>output")
    found = flatten_graph(outer)
    assert list(found.nodes) == ["a", "b", "sub.w", "sub.lif", "c", "output"]
    into = {name: [s for s, t in found.edges if t == name] for name in found.nodes}
    assert into["sub.w"] == ["b", "a", "sub.lif"]
    assert into["sub.lif"] == ["sub.w", "a"]
    assert into["c"] == ["a", "sub.lif"]
    assert found.nodes["sub.lif"] is nodes["sub"].nodes["lif"]
    shapes = infer_shapes(outer)
    assert set(shapes) == {*found.nodes, "sub.i1", "sub.i2", "sub.o1", "sub.o2"}
    assert set(infer_shapes(found)) == set(found.nodes)


def test_graphs_in_graphs() -> None:
    inner = graph({"in": port(), "lif": lif(), "out": out()}, "in>lif", "lif>out")
    middle = graph({"in": port(), "g": inner, "out": out()}, "in>g", "g>out", "in>out")
    outer = graph({"input": port(), "m": middle, "output": out()}, "input>m.in", "m>output")
    found = flatten_graph(outer)
    assert list(found.nodes) == ["input", "m.g.lif", "output"]
    assert sorted(found.edges) == [("input", "m.g.lif"), ("input", "output"), ("m.g.lif", "output")]
    assert len(expand_graph(outer).nodes) == 7


def test_shapes_are_checked_at_the_ports_of_a_subgraph() -> None:
    inner = graph({"in": port(4), "w": nir.Linear(np.ones((3, 4))), "out": out()}, "in>w", "w>out")
    outer = graph({"input": port(), "g": inner, "output": out()}, "input>g", "g>output")
    with pytest.raises(ModelError, match=r"^edge 'input' -> 'g.in': Input puts out shape \(3,\), Input takes \(4,\)"):
        infer_shapes(outer)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (["a>sub"], "edge 'a' -> 'sub': 'sub' can mean several nodes ('sub.i1', 'sub.i2'), it must mean one; name one of the inputs"),
        (["sub>c"], "edge 'sub' -> 'c': 'sub' can mean several nodes ('sub.o1', 'sub.o2'), it must mean one; name one of the outputs"),
        (["a>sub.i3"], "edge 'a' -> 'sub.i3': the subgraph 'sub' has no Input 'i3'; did you mean 'sub.i2'?"),
        (["a>sub.w"], "edge 'a' -> 'sub.w': the subgraph 'sub' has no Input 'w'; "),
        (["a>sub.o1"], "edge 'a' -> 'sub.o1': the subgraph 'sub' has no Input 'o1'; did you mean 'sub.i1'?"),
        (["sub.i1>c"], "edge 'sub.i1' -> 'c': the subgraph 'sub' has no Output 'i1'"),
        (["a>none.i1"], "edge 'a' -> 'none.i1': there is no node 'none.i1'; add the node"),
        (["a>empty"], "edge 'a' -> 'empty': the subgraph 'empty' has no Input node; add a nir.Input inside it"),
        (["a>b", "a>b"], "edge 'a' -> 'b': it is listed twice, NIR allows an edge once; double the weights after it, or remove one"),
        (["w>w"], "edge 'w' -> 'w': the Linear node feeds itself within one time step, a loop needs a neuron in it; route"),
        (["b>a"], "edge 'b' -> 'a': it leads into an Input, inputs come from outside; remove the edge"),
        (["output>b"], "edge 'output' -> 'b': it starts at an Output"),
    ],
)  # fmt: skip
def test_unclear_edges_are_refused(edges: list[str], message: str) -> None:
    nodes = {"a": port(), "b": lif(), "w": nir.Linear(np.eye(3)), "sub": two_ports(), "c": lif(), "output": out()}
    nodes["empty"] = graph({"lif": lif()})
    with pytest.raises(ModelError, match="^" + re.escape(message)):
        flatten_graph(graph(nodes, *edges))


def test_all_problems_of_the_structure_are_listed() -> None:
    bad = graph({"a": lif()}, "a>b", "c>a")
    bad.edges += [("a",), ("a", 3)]
    with pytest.raises(ModelError) as caught:
        flatten_graph(bad)
    assert len(caught.value.problems) == 6


def test_one_name_for_two_nodes_is_refused() -> None:
    inner = graph({"b": lif()})
    with pytest.raises(ModelError, match="^node 'a.b': two nodes have this full name, one of them in a subgraph"):
        flatten_graph(graph({"input": port(), "a": inner, "a.b": lif(), "output": out()}))


def test_one_address_for_two_nodes_is_refused() -> None:
    one, two = graph({"b.c": port(), "x": lif()}), graph({"c": port(), "x": lif()})
    nodes = {"input": port(), "a": one, "a.b": two, "output": out()}
    with pytest.raises(ModelError, match="node 'a.b.c': two nodes have this full name"):
        flatten_graph(graph(nodes, "input>a.b.c"))


def test_a_graph_that_holds_itself_is_refused() -> None:
    loop = graph({"input": port(), "output": out()})
    loop.nodes["again"] = loop
    with pytest.raises(ModelError, match="graphs are nested 33 deep, at most 32 are read; flatten the model"):
        flatten_graph(loop)


def test_a_loop_of_ports_is_refused() -> None:
    inner = graph({"in": port(), "out": out()}, "in>out")
    outer = graph({"input": port(), "g": inner, "output": out()}, "g>g", "g>output")
    with pytest.raises(ModelError, match=r"^graph: subgraph ports feed each other without a node between: 'g.in', 'g"):
        flatten_graph(outer)


def test_edges_that_multiply_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EDGES", 1000)
    nodes: dict[str, Any] = {"input": port()}
    edges, last = [], "input"
    for i in range(30):  # each doubles the paths
        nodes[f"g{i}"] = graph({"in": port(), "o1": out(), "o2": out()}, "in>o1", "in>o2")
        edges += [f"{last}>g{i}.in"] if i == 0 else [f"{last}.o1>g{i}.in", f"{last}.o2>g{i}.in"]
        last = f"g{i}"
    nodes["output"] = out()
    with pytest.raises(ModelError, match="^graph: splicing the subgraphs makes more than 1,000 edges"):
        flatten_graph(graph(nodes, *edges, f"{last}.o1>output"))


def test_parallel_paths_through_ports_stay_two_edges() -> None:
    twice = graph({"in": port(), "o1": out(), "o2": out()}, "in>o1", "in>o2")
    nodes = {"input": port(), "g": twice, "lif": lif(), "output": out()}
    found = flatten_graph(graph(nodes, "input>g", "g.o1>lif", "g.o2>lif", "lif>output"))
    assert found.edges[:2] == (("input", "lif"), ("input", "lif"))


def test_only_a_graph_is_flattened() -> None:
    with pytest.raises(ModelError, match="^graph: it is a LIF, it must be a NIRGraph; wrap it"):
        flatten_graph(lif())
