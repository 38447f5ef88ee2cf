# ruff: noqa: E501  (tables of messages read better in one line)
from __future__ import annotations

import copy
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nirbridge.errors import ModelError
from nirbridge.network.nir.shapes import infer_shapes
from nirbridge.network.nir.windows import window_of

A = np.array


def chain(*nodes: Any) -> nir.NIRGraph:
    """input -> n0 -> n1 … -> output."""
    named = {"input": nodes[0], **{f"n{i}": node for i, node in enumerate(nodes[1:])}, "output": nir.Output(None)}
    return nir.NIRGraph(named, list(pairwise(named)), type_check=False)


def port(*shape: int) -> nir.Input:
    return nir.Input(A(shape))


def after(*nodes: Any) -> tuple[int, ...]:
    """The shape that arrives at the output of a chain."""
    return infer_shapes(chain(*nodes))["output"].input_shape


def conv2d(
    weight: tuple[int, ...], stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, shape: Any = None
) -> nir.Conv2d:
    node = nir.Conv2d(None, np.zeros(weight), stride, padding, dilation, groups, np.zeros(weight[0]))
    node.input_shape = shape
    return node


def lif(*shape: int) -> nir.LIF:
    return nir.LIF(*[np.ones(shape)] * 4)


@pytest.mark.parametrize(
    ("node", "given", "expected"),
    [
        (conv2d((6, 2, 3, 1)), (2, 8, 6), (6, 6, 6)),
        (conv2d((6, 2, 1, 5)), (2, 8, 6), (6, 8, 2)),
        (conv2d((6, 2, 3, 1), groups=2), (4, 8, 6), (6, 6, 6)),
        (conv2d((6, 1, 3, 3), (2, 1), (1, 0), (1, 2), 6), (6, 9, 7), (6, 5, 3)),
        (conv2d((1, 1, 4, 3), padding="same", dilation=(2, 3)), (1, 9, 7), (1, 9, 7)),
        (conv2d((1, 1, 4, 3), padding="valid"), (1, 9, 7), (1, 6, 5)),
        (conv2d((1, 1, 2, 2), A([2, 2]), A([1, 1]), A([1, 1])), (1, 5, 4), (1, 3, 3)),
        (nir.Conv1d(None, np.zeros((3, 2, 4)), 2, 1, 2, 2, np.zeros(3)), (4, 20), None),
        (nir.Conv1d(None, np.zeros((4, 2, 4)), 2, 1, 2, 2, np.zeros(4)), (4, 20), (4, 8)),
        (nir.Conv1d(None, np.zeros((4, 2, 4)), 1, "same", 2, 1, np.zeros(4)), (2, 20), (4, 20)),
        (nir.SumPool2d(A([3, 2]), A([2, 1]), A([1, 0])), (5, 9, 7), (5, 5, 6)),
        (nir.AvgPool2d(2, 2, 0), (5, 9, 7), (5, 4, 3)),
        (nir.Flatten(None, 0, -1), (2, 3, 4), (24,)),
        (nir.Flatten(None), (2, 3, 4), (2, 12)),
        (nir.Flatten(None, 0, -2), (2, 3, 4), (6, 4)),
        (nir.Flatten(None, -2, 2), (2, 3, 4), (2, 12)),
        (nir.Flatten(None, 0, 0), (2, 3, 4), (2, 3, 4)),
        (nir.Linear(np.zeros((5, 3))), (3,), (5,)),
        (nir.Linear(np.zeros((2, 5, 3))), (2, 3), (2, 5)),
        (nir.Affine(np.zeros((5, 3)), np.zeros(5)), (3,), (5,)),
        (nir.Affine(np.zeros((2, 5, 3)), np.zeros(5)), (2, 3), (2, 5)),
        (nir.Affine(np.zeros((2, 5, 3)), np.zeros((2, 5))), (2, 3), (2, 5)),
        (nir.Scale(A(2.0)), (2, 3), (2, 3)),
        (nir.Delay(np.ones(1)), (2, 3), (2, 3)),
        (nir.Threshold(np.ones((2, 3))), (2, 3), (2, 3)),
        (lif(), (2, 3), (2, 3)),
        (lif(1), (2, 3), (2, 3)),
        (lif(2, 3), (2, 3), (2, 3)),
        (nir.CubaLIF(*[np.ones((2, 3))] * 5), (2, 3), (2, 3)),
    ],
)
def test_shapes_of_one_node(node: Any, given: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    graph = chain(port(*given), node)
    before = copy.deepcopy(vars(node))
    if expected is None:
        with pytest.raises(ModelError, match="groups must divide"):
            infer_shapes(graph)
        return
    shapes = infer_shapes(graph)
    assert shapes["n0"].input_shape == given
    assert shapes["n0"].output_shape == expected
    assert all(type(n) is int for s in shapes.values() for n in (*s.input_shape, *s.output_shape))
    assert repr(vars(node)) == repr(before)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((port(2, 3), nir.Linear(np.zeros((5, 6)))), "^edge 'input' -> 'n0': Input puts out shape (2, 3), Linear takes (6,); put a Flatten between them$"),
        ((port(3), nir.Linear(np.zeros((5, 4)))), "^edge 'input' -> 'n0': Input puts out shape (3,), Linear takes (4,); correct one of the two$"),
        ((port(3), nir.Affine(np.zeros((5, 3)), np.zeros(1))), "^node 'n0' (Affine): bias has shape (1,), the weight's output needs (5,); correct the bias, or use Linear$"),
        ((port(2, 3), nir.Affine(np.zeros((2, 5, 3)), np.zeros(2))), "needs (5,) or (2, 5)"),
        ((port(2, 3), nir.Affine(np.zeros((2, 5, 3)), np.zeros((1, 5)))), "bias has shape (1, 5)"),
        ((port(3, 8, 6), conv2d((6, 2, 3, 1))), "^node 'n0' (Conv2d): shape (3, 8, 6) arrives, it takes 2 channels and 2 spatial axes; correct the weight, groups or the source$"),
        ((port(2, 8), conv2d((6, 2, 3, 1))), "shape (2, 8) arrives"),
        ((port(2, 8, 6), conv2d((6, 2, 3, 1), shape=(8, 7))), "Conv2d takes (2, 8, 7)"),
        ((port(2, 8, 6), conv2d((6, 2, 3, 1), shape=8)), "input_shape is 8, it needs 2 numbers"),
        ((port(2, 8, 6), conv2d((6, 2, 9, 1))), "is larger than the padded input (8, 6), at least one window must fit"),
        ((port(2, 8, 6), conv2d((6, 2, 3, 1), 2, "same")), "^node 'n0' (Conv2d): padding is 'same' with stride (2, 2), 'same' needs stride 1; give the padding as numbers$"),
        ((port(2, 8, 6), conv2d((6, 2, 3, 1), (1, 2, 3))), "stride is (1, 2, 3), it must be 1 or 2 whole numbers"),
        ((port(2, 8, 6), conv2d((6, 2, 3, 1), True)), "stride is (True, True)"),
        ((port(8, 6), nir.SumPool2d(2, 2, 0)), "^node 'n0' (SumPool2d): shape (8, 6) arrives, it takes (channels, rows, columns); correct the source's shape$"),
        ((port(2, 3), nir.Flatten(None, 1, 2)), "start_dim 1, end_dim 2 on an input of shape (2, 3), dims go from -2 to 1 without the batch"),
        ((port(2, 3), nir.Flatten(None, 1, 0)), "start before end"),
        ((port(2, 3), lif(3, 2)), "LIF takes (3, 2); put a Flatten between them"),
        ((nir.Input(A([2, -1])), lif(2)), "^node 'input' (Input): shape is [2, -1], it must be from 1 to"),
        ((nir.Input(A([2.5])), lif(2)), "shape is [2.5], it must be"),
        ((nir.Input(None), nir.SumPool2d(2, 2, 0)), "^node 'input' (Input): no known shape reaches it, its own shape is not stored; connect it to an Input"),
    ],
)  # fmt: skip
def test_mismatches_are_named(nodes: tuple[Any, ...], message: str) -> None:
    start, end = message.startswith("^"), message.endswith("$")
    pattern = "^" * start + re.escape(message.removeprefix("^").removesuffix("$")) + "$" * end
    with pytest.raises(ModelError, match=pattern):
        infer_shapes(chain(*nodes))


def test_every_problem_is_listed() -> None:
    bad = chain(port(3), nir.Linear(np.zeros((5, 4))), lif(6), nir.Affine(np.zeros((2, 6)), np.zeros(3)))
    bad.nodes["n1"].tau = np.ones(7)
    with pytest.raises(ModelError) as caught:
        infer_shapes(bad)
    assert [p.ids.get("node") or p.ids["target"] for p in caught.value.problems] == ["n1", "n2", "n0"]
    assert "parameters of different shapes: tau (7,), r (6,), one shape, or one value" in str(caught.value)


def test_every_window_problem_is_listed() -> None:
    with pytest.raises(ModelError) as caught:
        window_of("c", conv2d((6, 2, 3, 1), 0, -1, 0, 4))
    assert len(caught.value.problems) == 4


def test_cycles_and_several_ports() -> None:
    nodes = {
        "a": port(3),
        "b": port(2, 4, 4),
        "pool": nir.SumPool2d(4, 4, 0),
        "flat": nir.Flatten(None, 0),
        "wa": nir.Linear(np.zeros((5, 3))),
        "wb": nir.Linear(np.zeros((5, 2))),
        "lif": lif(),
        "rec": nir.Affine(np.zeros((5, 5)), np.zeros(5)),
        "self": lif(1),
        "out1": nir.Output(A([5])),
        "out2": nir.Output(None),
    }
    edges = [
        ("a", "wa"), ("b", "pool"), ("pool", "flat"), ("flat", "wb"), ("wa", "lif"), ("wb", "lif"), ("lif", "rec"),
        ("rec", "lif"), ("lif", "self"), ("self", "self"), ("self", "out1"), ("lif", "out2"),
    ]  # fmt: skip
    shapes = infer_shapes(nir.NIRGraph(nodes, edges, type_check=False))
    assert {shapes[n].output_shape for n in ("lif", "rec", "self", "out1", "out2")} == {(5,)}
    assert list(shapes) == list(nodes)


def test_a_neuron_that_nothing_reaches_is_as_large_as_its_parameters() -> None:
    graph = chain(port(3), lif(3))
    graph.nodes |= {"alone": lif(1), "next": lif()}
    graph.edges.append(("alone", "next"))
    assert infer_shapes(graph)["next"].output_shape == (1,)


def test_a_scalar_signal_has_no_axes() -> None:
    assert after(nir.Input(np.array([])), lif(), nir.Flatten(None, 0)) == (1,)


def test_nothing_is_computed_of_the_shape_of_a_huge_layer() -> None:
    weight = np.broadcast_to(np.float32(0), (4096, 2_000_000))
    assert after(port(2_000_000), nir.Linear(weight)) == (4096,)


sizes = st.integers(1, 4)


@given(kernel=st.tuples(sizes, sizes), stride=st.tuples(sizes, sizes), padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
       dilation=st.tuples(sizes, sizes), spatial=st.tuples(st.integers(1, 12), st.integers(1, 12)))  # fmt: skip
def test_windows_are_counted_as_they_slide(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int],
    spatial: tuple[int, int],
) -> None:  # fmt: skip
    expected = []
    for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation, strict=True):
        last = d * (k - 1)
        expected.append(sum(1 for start in range(-p, n + p, s) if start + last < n + p))
    assume(min(expected) > 0)
    node = conv2d((3, 2, *kernel), stride, padding, dilation, 1)
    assert after(port(2, *spatial), node) == (3, *expected)


def test_a_thing_that_is_no_node_is_named() -> None:
    graph = chain(port(3), lif(3))
    graph.nodes["n0"] = SimpleNamespace()
    with pytest.raises(ModelError, match="^node 'n0': its type SimpleNamespace is not known; use one of Affine, "):
        infer_shapes(graph)
