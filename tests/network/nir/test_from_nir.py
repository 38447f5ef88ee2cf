from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import nir
import numpy as np
import pytest
from hypothesis import given, settings

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, NirbridgeError
from nirbridge.importers import load_nir
from nirbridge.network import Network, Timing, apply, check_network, from_nir
from nirbridge.network.nir.fields import LINEAR, kind_of
from nirbridge.network.nir.flatten import FlatGraph, flatten_graph
from nirbridge.network.nir.shapes import infer_shapes
from nirbridge.network.nir.windows import window_of
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from nirbridge.testing import nir_graphs
from tests.cases import cases
from tests.network.graphs import chain, graph_of, lif, out, port, run, snapshot

# -- against a second evaluation of the graph ----------------------------------------------------------------------


def window_sum(name: str, node: Any, x: Array, shape: tuple[int, ...]) -> Array:
    """Convolution or pooling by gathering, output element by output element."""
    w = window_of(name, node)
    padded = np.pad(x, ((0, 0), *w.padding))
    result = np.zeros(shape)
    for at in np.ndindex(*shape[1:]):
        cut = tuple(
            slice(o * s, o * s + (k - 1) * d + 1, d)
            for o, s, k, d in zip(at, w.stride, w.kernel, w.dilation, strict=True)
        )
        seen = padded[(slice(None), *cut)]
        if kind_of(node).endswith("Pool2d"):
            count = seen[0].size if kind_of(node) == "AvgPool2d" else 1
            result[(slice(None), *at)] = seen.reshape(len(x), -1).sum(axis=1) / count
            continue
        own = node.weight.shape[1]
        for c in range(shape[0]):
            first = c // (shape[0] // w.groups) * own
            result[(c, *at)] = (node.weight[c].astype(float) * seen[first : first + own]).sum() + node.bias[c]
    return result


def linear_value(name: str, node: Any, x: Array, shape: tuple[int, ...]) -> Array:
    kind = kind_of(node)
    if kind == "Delay":
        return x
    if kind == "Scale":
        return x * node.scale
    if kind == "Flatten":
        return x.reshape(shape)
    if kind in ("Linear", "Affine"):
        y = np.einsum("...oi,...i->...o", node.weight.astype(float), x)
        return y + node.bias if kind == "Affine" else y
    return window_sum(name, node, x, shape)


def summed_inputs(flat: FlatGraph, signal: dict[str, Array]) -> dict[str, Array]:
    """What arrives at every neuron and output if every source puts out ``signal`` for ever, node by node."""
    shapes = infer_shapes(flat)
    value = dict(signal)

    def arriving(name: str) -> Array:
        total = np.zeros(shapes[name].input_shape)
        for source, target in flat.edges:
            if target == name:
                total = total + known(source)
        return total

    def known(name: str) -> Array:
        if name not in value:
            value[name] = linear_value(name, flat.nodes[name], arriving(name), shapes[name].output_shape)
        return value[name]

    return {
        n: arriving(n) for n, node in flat.nodes.items() if kind_of(node) not in LINEAR and kind_of(node) != "Input"
    }


@given(nir_graphs())
@settings(max_examples=cases(50, 150))
def test_projections_sum_to_what_the_nodes_compute(graph: nir.NIRGraph) -> None:
    before = snapshot(graph)
    network = from_nir(graph)
    assert snapshot(graph) == before
    check_network(network)
    rng = np.random.default_rng(1)
    sources = (*network.inputs, *network.populations)
    signal = {p.name: rng.integers(-2, 3, size=p.shape).astype(float) for p in sources}
    expected = summed_inputs(flatten_graph(graph), signal)
    for target in (*network.populations, *network.outputs):
        total = np.zeros(target.shape)
        for p in network.projections:
            if p.target == target.name:
                total = total + apply(p.operator, signal[p.source]) + (0 if p.bias is None else p.bias)
        assert total == pytest.approx(expected[target.name], abs=1e-9)


@given(nir_graphs())
@settings(max_examples=cases(20, 50))
def test_nothing_of_the_graph_is_kept(graph: nir.NIRGraph) -> None:
    network = from_nir(graph)
    before = [apply(p.operator, np.ones(p.operator.input_shape)) for p in network.projections]
    for node in flatten_graph(graph).nodes.values():
        for value in vars(node).values():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.writeable:
                value[...] = 1e6
    after = [apply(p.operator, np.ones(p.operator.input_shape)) for p in network.projections]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


# -- real files ----------------------------------------------------------------------------------------------------


def real(shared_data: Path, name: str) -> Network:
    return from_nir(load_nir(shared_data / "nir_paper" / name))


def test_cnn_sinabs(shared_data: Path) -> None:
    network = real(shared_data, "02_cnn/cnn_sinabs.nir")
    assert network.dt == 1.0
    assert [(p.name, p.shape) for p in network.populations] == [
        ("1", (16, 16, 16)),
        ("3", (16, 16, 16)),
        ("6", (8, 8, 8)),
        ("10", (256,)),
        ("12", (10,)),
    ]
    assert all(p.neuron.g_mem == 1.0 and p.neuron.a_mem == 1.0 for p in network.populations)
    kinds = [tuple(type(x).__name__ for x in getattr(p.operator, "parts", (p.operator,))) for p in network.projections]
    assert kinds == [
        ("Conv",),
        ("Conv",),
        ("SumPool", "Conv"),
        ("SumPool", "Reshape", "Dense"),
        ("Dense",),
        ("Identity",),
    ]
    assert network.projections[3].nodes == ("7", "8", "9")
    assert all(p.bias is None and not p.is_back and p.max_delay_steps == 0 for p in network.projections)


def test_braille_reads_its_loop_one_step_later(shared_data: Path) -> None:
    network = real(shared_data, "03_rnn/braille_noDelay_bias_zero.nir")
    loops = [p for p in network.projections if p.is_back]
    assert [(p.source, p.target, p.nodes, p.max_delay_steps) for p in loops] == [
        ("lif1.lif", "lif1.lif", ("lif1.w_rec",), 1)
    ]
    assert [p.source for p in network.projections] == ["lif1.lif", "input", "lif1.lif", "lif2"]
    # in this file w_in = tau_syn/dt and r = tau_mem/dt, so that a spike adds its weight to i and i adds to v
    for population in network.populations:
        assert float(population.neuron.g_syn) == pytest.approx(1.0, rel=1e-12)
        assert float(population.neuron.g_mem) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("platform", "integrator", "scale"), [("norse", "euler", 1.0), ("nengo", "zoh", 10.0)])
def test_lif_norse_gives_the_published_voltages(
    shared_data: Path, platform: str, integrator: Literal["euler", "zoh"], scale: float
) -> None:
    folder = shared_data / "nir_paper" / "01_lif"
    network = from_nir(load_nir(folder / "lif_norse.nir"), Timing(integrator=integrator))
    given, voltage, spikes = np.loadtxt(folder / f"lif_{platform}.csv", delimiter=",").T
    result = run(network, {"input": given[:, None]}, len(given))
    assert np.array_equal(result["1"][:, 0], spikes != 0)
    assert scale * result["1/v"][:, 0] == pytest.approx(voltage, abs=2e-7)


# -- paths -----------------------------------------------------------------------------------------------------------


def test_a_residual_is_two_projections_in_the_order_of_the_file() -> None:
    nodes = {
        "in": port(2),
        "a": lif(2),
        "fc": nir.Affine(np.eye(2), np.array([1.0, 2.0])),
        "b": lif(2),
        "out": out(2),
    }
    edges = [("in", "a"), ("a", "b"), ("a", "fc"), ("fc", "b"), ("b", "out")]
    network = from_nir(graph_of(nodes, edges))
    into_b = [p for p in network.projections if p.target == "b"]
    assert [type(p.operator).__name__ for p in into_b] == ["Identity", "Dense"]
    assert into_b[0].bias is None
    assert into_b[1].bias is not None
    assert into_b[1].bias.tolist() == [1.0, 2.0]
    turned = from_nir(graph_of(nodes, [edges[0], edges[2], edges[3], edges[1], edges[4]]))
    assert [type(p.operator).__name__ for p in turned.projections if p.target == "b"] == ["Dense", "Identity"]


def test_a_bias_counts_once_for_each_way_behind_its_node() -> None:
    nodes = {
        "x": port(2),
        "y": port(2),
        "fc": nir.Affine(np.eye(2), np.array([1.0, 10.0])),
        "s2": nir.Scale(np.full(2, 2.0)),
        "s3": nir.Scale(np.full(2, 3.0)),
        "b": lif(2),
        "out": out(2),
    }
    edges = [("y", "fc"), ("x", "fc"), ("fc", "s3"), ("fc", "s2"), ("s3", "b"), ("s2", "b"), ("b", "out")]
    network = from_nir(graph_of(nodes, edges))
    into_b = [(p.source, p.nodes, None if p.bias is None else p.bias.tolist()) for p in network.projections[:4]]
    assert into_b == [
        ("y", ("fc", "s3"), [3.0, 30.0]),
        ("x", ("fc", "s3"), None),
        ("y", ("fc", "s2"), [2.0, 20.0]),
        ("x", ("fc", "s2"), None),
    ]


def test_forms_of_operators() -> None:
    rng = np.random.default_rng(0)
    graph = chain(
        port(2, 5, 6),
        nir.Conv2d((5, 6), rng.normal(size=(3, 2, 2, 2)).astype(np.float32), 1, "same", 1, 1, np.zeros(3)),
        nir.AvgPool2d(kernel_size=np.array([2, 3]), stride=np.array([2, 3]), padding=np.array([1, 0])),
        nir.Scale(np.full((3, 3, 2), 0.5)),
        nir.Scale(rng.normal(size=(3, 3, 2))),
        nir.Flatten({"input": np.array([3, 3, 2])}, 0, 1),
        nir.Flatten({"input": np.array([9, 2])}, 0, -1),
        nir.Linear(rng.normal(size=(4, 18))),
        lif(4),
        out(4),
    )
    operator = from_nir(graph).projections[0].operator
    assert isinstance(operator, Chain)
    conv, pool, scale, flat, dense = operator.parts
    assert isinstance(conv, Conv)
    assert (conv.weight.dtype, conv.padding) == (np.float32, ((0, 1), (0, 1)))
    assert isinstance(pool, SumPool)
    assert (pool.kernel, pool.stride, pool.padding, pool.factor) == ((2, 3), (2, 3), ((1, 1), (0, 0)), 1 / 6)
    assert isinstance(scale, Scale)
    assert isinstance(flat, Reshape)
    assert (flat.input_shape, flat.output_shape) == ((3, 3, 2), (18,))
    assert isinstance(dense, Dense)
    assert from_nir(graph).projections[0].nodes == ("0", "1", "2", "4", "6")


def test_a_weight_with_leading_axes_is_block_diagonal() -> None:
    weight = np.arange(12.0).reshape(2, 2, 3)
    network = from_nir(chain(port(2, 3), nir.Affine(weight, np.array([[1.0, 2.0], [3.0, 4.0]])), lif(2, 2), out(2, 2)))
    p = network.projections[0]
    assert isinstance(p.operator, Sparse)
    x = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]])
    assert apply(p.operator, x).tolist() == [(weight[0] @ x[0]).tolist(), (weight[1] @ x[1]).tolist()]
    assert p.bias is not None
    assert p.bias.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_an_input_may_lead_straight_to_an_output() -> None:
    network = from_nir(chain(port(3), out(3)))
    assert network.populations == ()
    assert isinstance(network.projections[0].operator, Identity)


def test_branches_that_multiply_are_refused_at_once() -> None:
    nodes: dict[str, Any] = {"in": port(1), "n": lif(1), "out": out(1)}
    edges = [("n", "out")]
    last = "in"
    for k in range(60):
        for side in "ab":
            nodes[f"{side}{k}"] = nir.Scale(np.ones(1))
            edges.append((last, f"{side}{k}"))
        nodes[f"m{k}"] = nir.Scale(np.ones(1))
        edges += [(f"a{k}", f"m{k}"), (f"b{k}", f"m{k}")]
        last = f"m{k}"
    edges.append((last, "n"))
    with pytest.raises(
        ModelError,
        match=r"^graph: more than 10\^15 paths of linear nodes between neurons, at most 10,000; put neurons between "
        r"the branches, or merge them$",
    ):
        from_nir(graph_of(nodes, edges))


def test_long_chains_of_linear_nodes_are_one_operator() -> None:
    scales = [nir.Scale(np.full(1, 2.0 if k % 2 else 0.5)) for k in range(3000)]
    network = from_nir(chain(port(1), *scales, lif(1), out(1)))
    assert isinstance(network.projections[0].operator, Identity)


def test_a_loop_of_linear_nodes_is_refused() -> None:
    nodes = {"in": port(1), "a": nir.Scale(np.ones(1)), "b": nir.Scale(np.ones(1)), "n": lif(1), "out": out(1)}
    edges = [("in", "a"), ("a", "b"), ("b", "a"), ("b", "n"), ("n", "out")]
    with pytest.raises(
        ModelError,
        match=r"^graph: linear nodes feed each other in a loop: 'b' -> 'a' -> 'b', a loop needs a neuron in it; ",
    ):
        from_nir(graph_of(nodes, edges))


def test_a_constant_from_nowhere_is_refused_and_a_silent_node_is_noted() -> None:
    nodes = {"in": port(1), "n": lif(1), "out": out(1), "fc": nir.Affine(np.eye(1), np.ones(1))}
    edges = [("in", "n"), ("n", "out"), ("fc", "n")]
    with pytest.raises(
        ModelError, match=r"^node 'fc' \(Affine\): it has a bias, but no input or neuron leads to it; connect an Input"
    ):
        from_nir(graph_of(nodes, edges))
    nodes["fc"] = nir.Linear(np.eye(1))
    assert from_nir(graph_of(nodes, edges)).notes == (
        "node 'fc' (Linear) lies on no path between inputs, neurons and outputs: left out",
    )


def test_arrays_beyond_the_limit_are_refused_before_they_are_copied() -> None:
    wide = nir.Linear(np.broadcast_to(np.float32(1.0), (2000, 50)))
    graph = chain(port(50), wide, lif(2000), out(2000))
    with pytest.raises(
        ModelError, match=r"^graph: its arrays hold 10,00\d elements, at most 9,000; raise max_elements"
    ):
        from_nir(graph, max_elements=9_000)
    network = from_nir(graph, max_elements=20_000)  # the broadcast weight counts as one element
    operator = network.projections[0].operator
    assert isinstance(operator, Dense)
    assert operator.weight.strides == (0, 0)


def test_names_are_carried_as_they_are() -> None:
    names = ["it's", "x/y", "a\nb", "..", "层", '"', "a.b"]
    nodes: dict[str, Any] = {"in": port(1), "out": out(1)} | {name: lif(1) for name in names}
    edges = [("in", names[0]), *pairwise(names), (names[-1], "out")]
    network = from_nir(graph_of(nodes, edges))
    assert [p.name for p in network.populations] == names


def test_nested_graphs_get_full_names_and_their_metadata_holds_inside() -> None:
    inner = graph_of({"i": port(2), "lif": lif(2), "o": out(2)}, [("i", "lif"), ("lif", "o")], reset="subtract")
    graph = graph_of(
        {"in": port(2), "sub": inner, "last": lif(2), "out": out(2)}, [("in", "sub"), ("sub", "last"), ("last", "out")]
    )
    network = from_nir(graph)
    assert [(p.name, p.neuron.reset) for p in network.populations] == [("sub.lif", "subtract"), ("last", "to-value")]


def test_dead_parts_are_kept_and_said() -> None:
    nodes = {"in": port(1), "n": lif(1), "out": out(1), "end": lif(1), "alone": lif(1), "in2": port(1), "out2": out(1)}
    network = from_nir(graph_of(nodes, [("in", "n"), ("n", "out"), ("n", "end"), ("alone", "n")]))
    assert {p.name for p in network.populations} == {"n", "end", "alone"}
    assert network.notes == (
        "population 'alone': no input reaches it",
        "population 'end': no output can be reached from it",
        "input 'in2': no output can be reached from it",
        "output 'out2': no input reaches it",
    )


def test_a_read_out_that_feeds_neurons_is_said() -> None:
    li = nir.LI(tau=np.full(1, 1e-3), r=np.ones(1), v_leak=np.zeros(1))
    network = from_nir(chain(port(1), li, lif(1), out(1)))
    assert network.notes == ("population '0' never fires: it feeds '1' with its potential",)


def test_every_problem_of_the_nodes_is_listed() -> None:
    a, b = lif(1), lif(1)
    a.metadata, b.metadata = {"nirbridge:reset": "x"}, {"nirbridge:compare": "y"}
    with pytest.raises(ModelError) as caught:
        from_nir(chain(port(1), a, b, out(1)))
    assert len(caught.value.problems) == 2


def test_timing_given_by_the_caller_is_kept() -> None:
    asked = Timing(1e-3, "zoh", "subtract", ">=", "per-step")
    assert from_nir(chain(port(1), lif(1), out(1)), asked).timing == asked


HOSTILE = (
    np.nan,
    np.inf,
    -1,
    0,
    10**30,
    "x",
    b"\xff",
    np.zeros((2, 3)),
    np.array([]),
    np.array(["a"]),
    None,
    [1, "a"],
    {},
)
KEYS = ("dt", "integrator", "reset", "compare", "if_gain", "reset_amount", "max_spikes", "refractory_steps", "v_init")
MORE_KEYS = ("i_init", "kind", "a_mem", "theta", "bias", "factor", "indptr", "indices", "side", "is_back")


@pytest.mark.parametrize("key", [*KEYS, *MORE_KEYS])
def test_hostile_metadata_is_an_error_of_ours_or_a_valid_network(key: str) -> None:
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    for value in HOSTILE:
        nodes = [
            port(1, 2, 2),
            pool,
            nir.Flatten({"input": np.array([1, 1, 1])}, 0, -1),
            nir.Linear(np.ones((2, 1))),
            nir.Delay(np.full(2, 1e-4)),
            lif(2),
            nir.IF(np.ones(2), np.ones(2)),
            out(2),
        ]
        for node in nodes:
            node.metadata = {f"nirbridge:{key}": value}
        graph = chain(*nodes, **{key: value})
        with suppress(NirbridgeError):  # anything else, warnings of numpy too, fails here
            check_network(from_nir(graph))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            lif(1, tau=1e-320),
            r"^node '0' \(LIF\): its parameters make bias infinite at this dt, coefficients are finite; ",
        ),
        (lif(1, tau=1e-4, r=1e308), None),
        (nir.IF(np.full(1, 1e308), np.ones(1)), None),
    ],
)
def test_extreme_parameters(node: Any, message: str | None) -> None:
    graph = chain(port(1), node, out(1))
    if message is None:
        check_network(from_nir(graph))
        return
    with pytest.raises(ModelError, match=message):
        from_nir(graph)


def test_a_constant_that_overflows_is_refused() -> None:
    big = nir.Affine(np.full((1, 1), 1e200), np.full(1, 1e200))
    with pytest.raises(
        ModelError, match=r"^projection 0 'in' -> '2': its bias of shape \(1,\) is wrong, finite numbers"
    ):
        from_nir(chain(port(1), big, big, lif(1), out(1)))


def test_a_mark_on_a_delay_of_zero_steps_means_nothing() -> None:
    late = nir.Delay(np.zeros(1))
    late.metadata = {"nirbridge:is_back": 1}
    assert not from_nir(chain(port(1), late, lif(1), out(1))).projections[0].is_back
