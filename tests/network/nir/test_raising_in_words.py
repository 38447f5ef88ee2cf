# ruff: noqa: E501  (tables of messages read better in one line)
"""Projections and neurons converted to NIR, node by node: names, delays, biases, blocks, classes, metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import Bug
from nirbridge.network import Population, from_nir, neuron, to_nir
from nirbridge.network.model import Projection
from nirbridge.network.nir import raise_linear
from nirbridge.network.nir import to_nir as raising
from nirbridge.network.nir.raise_linear import block_weight, merged_axes, plain_bias, raise_projection
from nirbridge.network.nir.to_nir import raise_neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from tests.network.graphs import chain, lif, out, port
from tests.network.test_graphs_in_words import told


def some(*shape: int) -> Any:
    return freeze(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))


DENSE = Dense(some(2, 3))
SPARSE = Sparse(freeze([0, 1, 3]), freeze([4, 0, 5]), some(3), (2, 3), (2,))
CONV = Conv(some(2, 1, 2), (1,), ((0, 0),), (1,), 1, (1, 4))
POOL = SumPool((1, 2), (1, 2), ((0, 0), (0, 0)), (2, 1, 4))


def raised(operator: Operator, implicit: bool = True, dt: float = 0.5, **own: Any) -> list[tuple[Any, ...]]:
    """(class, wanted name, delay if it has one, metadata) of each node."""
    made = raise_projection(Projection("a", "b", operator, **own), operator.input_shape, dt, implicit_back=implicit)
    return [
        (
            type(r.node).__name__,
            r.name,
            r.node.delay.tolist() if hasattr(r.node, "delay") else None,
            {k: np.asarray(v).tolist() for k, v in r.node.metadata.items()},
        )
        for r in made
    ]


def steps(*values: int) -> Any:
    return freeze(np.asarray(values if len(values) > 1 else values[0], np.int64))


BACK = {"nirbridge:is_back": 1}
SIDE = {"nirbridge:side": "target"}


@pytest.mark.parametrize(
    ("own", "implicit", "nodes"),
    [
        ({}, True, []),
        ({"delay_steps": steps(2, 0)}, True, [("Delay", None, [1.0, 0.0], {})]),
        ({"delay_steps": steps(3)}, True, [("Delay", None, [1.5, 1.5], {})]),
        ({"delay_steps": steps(1), "is_back": True}, True, []),
        ({"delay_steps": steps(1, 2), "is_back": True}, True, [("Delay", None, [0.0, 0.5], {})]),
        ({"delay_steps": steps(1), "is_back": True}, False, [("Delay", None, [0.5, 0.5], BACK)]),
        ({"delay_steps": steps(1)}, False, [("Delay", None, [0.5, 0.5], {})]),
        ({"target_delay_steps": steps(0, 2)}, True, [("Delay", None, [0.0, 1.0], SIDE)]),
        ({"target_delay_steps": steps(2)}, True, [("Delay", None, [1.0, 1.0], SIDE)]),
        ({"delay_steps": steps(1), "target_delay_steps": steps(2)}, True, [("Delay", None, [0.5, 0.5], {}), ("Delay", None, [1.0, 1.0], SIDE)]),
        ({"bias": some(2)}, True, [("Scale", None, None, {"nirbridge:bias": [1.0, 2.0]})]),
    ],
)  # fmt: skip
def test_a_plain_edge_has_nodes_for_what_it_does_only(own: Any, implicit: bool, nodes: Any) -> None:
    assert raised(Identity((2,)), implicit, **own) == nodes


def test_a_delay_behind_a_mixing_node_needs_a_mark_where_it_is_one_for_all() -> None:
    assert raised(DENSE, target_delay_steps=steps(1, 2)) == [
        ("Linear", None, None, {}),
        ("Delay", None, [0.5, 1.0], {}),
    ]
    assert raised(DENSE, target_delay_steps=steps(2, 2))[-1] == ("Delay", None, [1.0, 1.0], SIDE)
    scaled = Chain((DENSE, Scale(some(2))))
    assert raised(scaled, target_delay_steps=steps(1, 2))[-1] == ("Delay", None, [0.5, 1.0], {})
    assert raised(Scale(some(2)), target_delay_steps=steps(1, 2))[-1] == ("Delay", None, [0.5, 1.0], SIDE)


def test_the_first_node_of_a_part_has_its_name() -> None:
    flat = Chain((Reshape((2, 3, 4), (6, 4)), Scale(some(6, 4)), Reshape((6, 4), (24,)), Dense(some(1, 24))))
    names = ("r", "s", "t", "d")
    assert [(k, n) for k, n, *_ in raised(flat, nodes=names)] == [
        ("Flatten", "r"),
        ("Scale", "s"),
        ("Flatten", "t"),
        ("Linear", "d"),
    ]
    assert [(k, n) for k, n, *_ in raised(SPARSE, nodes=("w",))] == [("Flatten", "w"), ("Linear", None)]
    assert [n for _, n, *_ in raised(flat, nodes=("r",))] == [None] * 4
    late = raised(DENSE, nodes=("w",), delay_steps=steps(1), bias=some(2))
    assert [(k, n) for k, n, *_ in late] == [("Delay", None), ("Affine", "w")]


def test_weights_of_a_shape_alone_stay_views() -> None:
    wide = np.broadcast_to(np.float64(2.0), (2, 3))
    for operator, field in (
        (Dense(wide), "weight"),
        (Scale(wide), "scale"),
        (Dense(some(2, 3)), "weight"),
        (Dense(np.broadcast_to(np.float64(2), (1, 1))), "weight"),
        (Dense(np.broadcast_to(some(3), (2, 3))), "weight"),
    ):
        (one,) = raise_projection(Projection("a", "b", operator), operator.input_shape, 1.0, implicit_back=True)
        own = getattr(operator, field)
        made = getattr(one.node, field)
        assert made.tolist() == own.tolist()
        assert (made is own) is (0 in own.strides and own.size > 1)
        assert made.flags.writeable is not (made is own)


# -- operators and biases --------------------------------------------------------------------------------------------

BLOCKS = Sparse(freeze(np.arange(0, 13, 3)), freeze([0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]), some(12), (2, 3), (2, 2))


def test_whole_blocks_along_leading_axes_are_one_weight() -> None:
    weight = block_weight(BLOCKS)
    assert weight is not None
    assert weight.tolist() == some(2, 2, 3).tolist()
    wrong = [
        replace(BLOCKS, output_shape=(4,)),
        replace(BLOCKS, input_shape=(6,)),
        replace(BLOCKS, input_shape=(3, 2)),
        replace(BLOCKS, indices=freeze([0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 4, 5])),
        replace(BLOCKS, indices=freeze([3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2])),
        Sparse(freeze([0, 3, 6, 9, 9]), BLOCKS.indices[:9], some(9), (2, 3), (2, 2)),
        Sparse(freeze([0, 2, 6, 9, 12]), BLOCKS.indices, some(12), (2, 3), (2, 2)),
        replace(BLOCKS, input_shape=(1, 6), output_shape=(1, 4)),
    ]
    assert [block_weight(part) for part in wrong] == [None] * len(wrong)
    assert raised(BLOCKS) == [("Linear", None, None, {})]
    assert raised(BLOCKS, bias=some(2, 2))[0][0] == "Affine"


def test_a_sparse_matrix_is_a_dense_one_with_its_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = raise_projection(Projection("a", "b", SPARSE), (2, 3), 1.0, implicit_back=True)
    assert nodes[1].node.weight.tolist() == [[0, 0, 0, 0, 1, 0], [2, 0, 0, 0, 0, 3]]
    assert {k: v.tolist() for k, v in nodes[1].node.metadata.items()} == {
        "nirbridge:indptr": [0, 1, 3],
        "nirbridge:indices": [4, 0, 5],
    }
    assert raise_linear.DENSE_BYTES_MAX == 2 * 2**30  # the default of --max-bytes
    size = 12 * SPARSE.data.dtype.itemsize
    monkeypatch.setattr(raise_linear, "DENSE_BYTES_MAX", size)
    assert len(raised(SPARSE)) == 2
    monkeypatch.setattr(raise_linear, "DENSE_BYTES_MAX", size - 1)
    assert told(lambda: raised(SPARSE)) == [
        "projection 'a' -> 'b': a sparse [2, 6] matrix, NIR has dense ones only: "
        f"{size} bytes, at most {size - 1} are written; save the network as a .net.npz file"
    ]


@pytest.mark.parametrize(
    ("operator", "problem"),
    [
        (replace(SPARSE, input_shape=(6,), output_shape=(2, 1)), "a sparse matrix onto neurons of shape (2, 1), NIR has no node for it; flatten the neurons"),
        (Reshape((6,), (2, 3)), "a reshape from (6,) to (2, 3), NIR has no node for it; only neighbouring axes can be merged (Flatten)"),
        (Conv(some(1, 1, 1, 1, 1), (1,) * 3, ((0, 0),) * 3, (1,) * 3, 1, (1, 2, 2, 2)), "a convolution along 3 axes, NIR has no node for it; use one or two"),
        (SumPool((2,), (2,), ((0, 0),), (2, 4)), "a pooling along 1 axis, NIR has no node for it; use two"),
        (replace(CONV, padding=((1, 0),)), "a window with padding ((1, 0),), NIR has no node for it; pad both sides alike"),
        (replace(CONV, padding=((0, 1),), stride=(2,)), "a window with padding ((0, 1),), NIR has no node for it; pad both sides alike"),
        (replace(POOL, padding=((0, 0), (0, 1))), "a window with padding ((0, 0), (0, 1)), NIR has no node for it; pad both sides alike"),
    ],
)  # fmt: skip
def test_what_has_no_node_is_refused_in_words(operator: Any, problem: str) -> None:
    assert told(lambda: raised(operator)) == [f"projection 'a' -> 'b': {problem}"]


@pytest.mark.parametrize(
    ("own", "padding"),
    [({}, 0), ({"padding": ((1, 1),)}, 1), ({"padding": ((0, 1),)}, "same"), ({"padding": ((1, 2),), "dilation": (3,)}, "same"), ({"padding": ((1, 1),), "dilation": (2,)}, 1)],
)  # fmt: skip
def test_a_convolution_says_its_window(own: Any, padding: Any) -> None:
    conv = replace(CONV, **own)
    (one,) = raise_projection(Projection("a", "b", conv), (1, 4), 1.0, implicit_back=True)
    node: Any = one.node
    assert (node.padding, node.stride, node.dilation, node.groups, node.input_shape) == (
        padding,
        1,
        conv.dilation[0],
        1,
        4,
    )
    assert node.bias.tolist() == [0.0, 0.0]
    two = Conv(some(4, 1, 2, 3), (2, 1), ((1, 1), (0, 0)), (1, 2), 2, (2, 5, 6))
    (plane,) = raise_projection(Projection("a", "b", two), (2, 5, 6), 1.0, implicit_back=True)
    node = plane.node
    assert (node.padding, node.stride, node.dilation, node.groups, node.input_shape) == (
        (1, 0),
        (2, 1),
        (1, 2),
        2,
        (5, 6),
    )


@pytest.mark.parametrize(
    ("factor", "kind", "stored"),
    [(1.0, "SumPool2d", {}), (0.5, "AvgPool2d", {}), (0.25, "SumPool2d", {"nirbridge:factor": 0.25})],
)
def test_a_pool_sums_or_averages(factor: float, kind: str, stored: Any) -> None:
    assert raised(replace(POOL, factor=factor)) == [(kind, None, None, stored)]
    one = SumPool((1, 1), (1, 1), ((0, 0), (0, 0)), (2, 1, 4), factor)
    assert raised(one)[0][0] == "SumPool2d"


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((1, 1), (1,), (2,)), ((2, 1), (2, 1), (1, 1)), ((2, 1), (2,), (2,)), ((1, 2, 1), (1, 2), (1, 2)), ((1, 2, 1), (2, 1), (2, 1)),
        ((2, 3, 1, 4), (6, 4), (3, 1)), ((2, 3, 1, 4), (6, 1, 4), (2, 1, 1)), ((2, 3), (2,), None), ((2, 3), (2, 3, 1), None), ((), (), ()), ((), (1,), None), ((4,), (4, 1), None),
    ],
)  # fmt: skip
def test_axes_are_merged_with_their_neighbours(before: Any, after: Any, groups: Any) -> None:
    assert merged_axes(before, after) == groups


@pytest.mark.parametrize(
    ("parts", "bias", "at", "values"),
    [
        ([DENSE], [1.0, 0.0], 0, [1.0, 0.0]),
        ([DENSE], [0.0, 0.0], -1, None),
        ([DENSE], None, -1, None),
        ([Scale(some(2))], [1.0, 2.0], -1, None),
        ([Dense(some(3, 3)), DENSE, Scale(some(2))], [1.0, 4.0], 1, [1.0, 2.0]),
        ([DENSE, Scale(freeze([2.0, 0.0]))], [1.0, 0.0], 1 - 1, [0.5, 0.0]),
        ([DENSE, Scale(freeze([2.0, 0.0]))], [1.0, 1.0], -1, None),
        ([SPARSE], [1.0, 2.0], 0, [1.0, 2.0]),
        ([replace(SPARSE, input_shape=(6,), output_shape=(2, 1))], [[1.0], [2.0]], -1, None),
        ([replace(SPARSE, output_shape=(2, 1))], [[1.0], [2.0]], 0, [[1.0], [2.0]]),
        ([replace(SPARSE, output_shape=(1, 2))], [[1.0, 2.0]], -1, None),
        ([BLOCKS], [[1.0, 2.0], [3.0, 4.0]], 0, [[1.0, 2.0], [3.0, 4.0]]),
        ([CONV], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], 0, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]),
        ([CONV], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.1]], -1, None),
        ([CONV], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0 + 1e-6]], 0, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]),
        ([CONV, Scale(freeze([[0.0, 1.0, 4.0], [0.0, 0.0, 0.0]]))], [[0.0, 1.0, 4.0], [0.0, 0.0, 0.0]], 0, [[1.0] * 3, [0.0] * 3]),
    ],
)  # fmt: skip
def test_the_bias_that_a_node_can_say_is_found(parts: Any, bias: Any, at: int, values: Any) -> None:
    found = plain_bias(parts, None if bias is None else np.array(bias))
    assert found[0] == at
    assert (None if found[1] is None else found[1].tolist()) == values


def test_a_bias_that_is_a_rounding_off_is_stored_beside_it() -> None:
    exact = raised(Chain((DENSE, Scale(freeze([3.0, 7.0])))), bias=freeze([3.0, 7.0]))
    assert [m for *_, m in exact] == [{}, {}]
    off = raised(Chain((DENSE, Scale(freeze([3.0, 7.0])))), bias=freeze([0.1, 0.1]))
    assert [m for *_, m in off] in ([{}, {}], [{}, {"nirbridge:bias": [0.1, 0.1]}])
    assert raised(POOL, bias=some(2, 1, 2))[-1][3] == {"nirbridge:bias": [[[1.0, 2.0]], [[3.0, 4.0]]]}


# -- neurons ---------------------------------------------------------------------------------------------------------

NET = from_nir(chain(port(2), lif(2), out(2)))


def node_of(kind: str, shape: tuple[int, ...] = (2,), **own: Any) -> Any:
    return raise_neuron(Population("n", shape, neuron(kind, **own)), NET)


@pytest.mark.parametrize(
    ("kind", "own", "written"),
    [
        ("IF", {}, "IF"), ("IF", {"a_mem": 0.5}, "LIF"), ("IF", {"bias": 0.5}, "LIF"), ("IF", {"a_mem": [1.0, 0.5]}, "LIF"), ("IF", {"bias": [0.0, 0.5]}, "LIF"),
        ("LIF", {}, "LIF"), ("relay", {}, "IF"), ("I", {"theta": None}, "I"), ("I", {"theta": None, "a_mem": 0.5}, "LI"), ("I", {"theta": None, "bias": 1.0}, "LI"),
        ("LI", {"theta": None}, "LI"), ("CubaLIF", {}, "CubaLIF"), ("CubaLI", {"theta": None}, "CubaLI"), ("IF", {"a_syn": 0.5}, "CubaLIF"), ("IF", {"g_syn": [1.0, 2.0]}, "CubaLIF"),
        ("I", {"theta": None, "a_syn": [0.0, 0.5]}, "CubaLI"), ("Threshold", {"a_mem": 0.0}, "Threshold"), ("Threshold", {"a_mem": 0.0, "g_mem": 2.0}, "LIF"),
        ("Threshold", {"a_mem": 0.0, "bias": [0.0, 1.0]}, "LIF"), ("Threshold", {"a_mem": [0.0, 0.5]}, "LIF"), ("Threshold", {}, "IF"), ("LIF", {"a_mem": 0.0}, "LIF"),
    ],
)  # fmt: skip
def test_a_record_is_written_as_the_class_that_can_say_it(kind: str, own: Any, written: str) -> None:
    node = node_of(kind, **own)
    assert type(node).__name__ == written
    assert node.metadata.get("nirbridge:kind") == (None if kind == written else kind)


def test_what_plain_parameters_do_not_say_is_stored_field_by_field() -> None:
    node = node_of(
        "LIF",
        a_mem=0.5,
        reset="subtract",
        reset_amount=[1.0, 2.0],
        compare=">=",
        max_spikes=3,
        refractory_steps=[1, 2],
        v_init=0.5,
        i_init=[0.0, 1.0],
    )
    stored = {k: np.asarray(v).tolist() for k, v in node.metadata.items()}
    assert stored == {
        "nirbridge:reset": "subtract", "nirbridge:reset_amount": [1.0, 2.0], "nirbridge:compare": ">=", "nirbridge:max_spikes": 3,
        "nirbridge:refractory_steps": [1, 2], "nirbridge:v_init": 0.5, "nirbridge:i_init": [0.0, 1.0],
    }  # fmt: skip
    assert [type(node.metadata[f"nirbridge:{k}"]) for k in ("max_spikes", "v_init")] == [int, float]
    assert type(node_of("LIF", a_mem=0.5, refractory_steps=4).metadata["nirbridge:refractory_steps"]) is int
    zoh = replace(NET, timing=replace(NET.timing, integrator="zoh"))
    for a_mem, integrator in ((0.5, None), ([0.5, 0.0], "euler"), ([-0.5, 0.5], "euler")):
        made = raise_neuron(Population("n", (2,), neuron("LIF", a_mem=a_mem)), zoh)
        assert made.metadata.get("nirbridge:integrator") == integrator
    assert (
        raise_neuron(Population("n", (2,), neuron("LIF", a_mem=0.5, a_syn=0.0)), zoh).metadata.get(
            "nirbridge:integrator"
        )
        is None
    )
    assert (
        raise_neuron(Population("n", (2,), neuron("CubaLIF", a_mem=0.5, a_syn=[0.0, 0.5])), zoh).metadata[
            "nirbridge:integrator"
        ]
        == "euler"
    )


@pytest.mark.parametrize(("size", "is_view"), [(2**16, False), (2**16 + 1, True)])
def test_one_number_for_many_neurons_is_a_view(size: int, is_view: bool) -> None:
    node = node_of("IF", (size,), v_reset=np.zeros(size) if is_view else 0.0)
    assert (node.r.strides == (0,)) is is_view
    assert node.r.flags.writeable is not is_view
    assert (node.r.shape, node.r.dtype, float(node.r[-1])) == ((size,), np.float64, 1.0 / NET.dt)


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({"a_mem": [0.5, 1.5]}, "tau would be -0.0002"), ({"a_mem": [1.5, 0.5]}, "tau would be -0.0002"), ({"a_mem": 0.5, "g_mem": [1.0, 5e307]}, None),
        ({"a_mem": [0.5, 1.0], "bias": [0.0, 1e300]}, "v_leak would be inf"), ({"g_mem": [1.0, 1e305]}, "r would be inf"),
    ],
)  # fmt: skip
def test_parameters_that_nir_has_not_are_refused(own: Any, problem: str | None) -> None:
    kind = "IF" if "a_mem" not in own else "LIF"
    with np.errstate(over="ignore"):
        if problem is None:
            assert node_of(kind, **own).r.tolist() == [2.0, 1e308]
            return
        assert told(lambda: node_of(kind, **own)) == [
            f"population 'n': {problem}, NIR parameters are finite, time constants above 0; its decay must not exceed 1"
        ]


def test_what_should_never_be_asked_is_a_bug() -> None:
    with pytest.raises(Bug, match="^network: its timing is not resolved; report this"):
        raising.resolved_as_written(replace(NET, timing=replace(NET.timing, compare=None)))
    assert to_nir(NET).nodes["0"].metadata == {}
