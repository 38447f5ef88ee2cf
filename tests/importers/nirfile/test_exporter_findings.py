"""Recognition of exporters on handmade nodes: every finding in full, and each condition on both sides."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.importers.nirfile.faults import (
    ADVICE,
    ExporterFinding,
    adds_one,
    diagnose_exporter,
    fault_sentences,
    leading_ones,
    node_value,
    port_shape,
    rockpool_dt,
    taus,
    unsettled_findings,
    walk_nodes,
)
from tests.importers.nirfile.nodes_by_hand import N, counter, cuba, each, end, lif, port, row


def said(graph: Any) -> list[tuple[str, str, str, str | None]]:
    return [(f.name, f.node, f.sure, f.repair) for f in diagnose_exporter(graph)]


# -- findings together ---------------------------------------------------------------------------------------------


def finding(name: str = "norse", node: str = "a", sure: Any = "likely", repair: Any = "norse") -> ExporterFinding:
    return ExporterFinding(name, node, f"node {node!r}: wrong", sure, repair)


def test_a_line_for_each_kind_of_finding() -> None:
    many = [finding(node=n) for n in "abc"]
    other = [finding("sinabs", "x", "possible"), finding(sure="certain", node="d"), finding("sinabs", "y", "possible")]
    assert fault_sentences([*many[:1], *other, *many[1:]]) == (
        f"in 3 nodes ('a', 'b', 'c'): wrong (likely); {ADVICE['norse']}",
        f"in 2 nodes ('x', 'y'): wrong (possible); {ADVICE['sinabs']}",
        f"node 'd': wrong (certain); {ADVICE['norse']}",
    )
    thousand = fault_sentences([finding(node=f"n{k}") for k in range(1235)])
    assert thousand == (f"in 1,235 nodes ('n0', 'n1', 'n2', 'n3' and 1,231 more): wrong (likely); {ADVICE['norse']}",)
    assert fault_sentences([]) == ()
    assert str(many[0]) == f"node 'a': wrong (likely); {ADVICE['norse']}"


@pytest.mark.parametrize(
    ("repairs", "left"),
    [
        ((), "batch-axis zero-dimensional missing-edge norse sinabs"),
        (("batch-axis",), "zero-dimensional missing-edge norse sinabs"),
        (("zero-dimensional",), "batch-axis missing-edge norse sinabs"),
        (("batch-axis", "zero-dimensional"), "missing-edge norse sinabs"),
        (("rockpool",), "batch-axis zero-dimensional missing-edge"),
        (("sinabs", "batch-axis"), "zero-dimensional missing-edge"),
    ],
)
def test_what_repairs_leave_open(repairs: tuple[str, ...], left: str) -> None:
    names = ("batch-axis", "zero-dimensional", "missing-edge", "norse", "sinabs")
    assert [f.name for f in unsettled_findings([finding(n) for n in names], repairs)] == left.split()


def test_a_graph_that_states_its_time_step_has_no_findings() -> None:
    graph = row(lif(tau=1e-5, r=1))
    assert said(graph)
    graph.metadata = {"nirbridge:dt": 1e-4}
    assert diagnose_exporter(graph) == ()
    graph.metadata = None
    assert said(graph)


def test_nodes_of_subgraphs_have_the_names_of_all_graphs_above() -> None:
    inner = row(lif())
    graph = row(nir.NIRGraph({"deep": inner, "b": lif()}, [], type_check=False), lif())
    assert [name for name, _ in walk_nodes(graph)] == ["in", "0.deep.in", "0.deep.0", "0.deep.out", "0.b", "1", "out"]


def test_values_of_nodes() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    node = lif(tau=np.array([1, 2], np.float32))
    node.r = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    assert node_value(node, "r").tolist() == [3.0, 4.0]
    assert node_value(node, "tau").dtype == node_value(node, "r").dtype == np.float64
    assert [t.tolist() for t in taus(node)] == [[1.0, 2.0]]
    assert [t.tolist() for t in taus(cuba())] == [[2e-3] * 2, [3e-3] * 2]
    assert taus(counter()) == []
    assert port_shape(port(2, 3)) == (2, 3)


# -- shapes --------------------------------------------------------------------------------------------------------

CONV = nir.Conv2d((4, 4), np.ones((2, 3, 1, 1)), 1, 0, 1, 1, np.ones(2))
CONV1 = nir.Conv1d(4, np.ones((2, 3, 1)), 1, 0, 1, 1, np.ones(2))
POOL = nir.AvgPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0]))
SUM = nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0]))
LINEAR = nir.Linear(np.ones((2, 3)))
FLAT = nir.Flatten({"input": np.array([2, 3])}, 0)


def pair(first: Any, second: Any, **more: Any) -> Any:
    return nir.NIRGraph({"a": first, "b": second, **more}, [("a", "b")], type_check=False)


SHAPES: list[tuple[Any, Any, dict[str, int]]] = [
    (port(1, 3), LINEAR, {"a": 1}),
    (port(1, 1, 3), nir.Affine(np.ones((2, 3)), np.ones(2)), {"a": 2}),
    (port(2, 3), LINEAR, {}),
    (port(2, 1, 3), LINEAR, {}),
    (port(1, 2, 3), LINEAR, {}),
    (port(3), LINEAR, {}),
    (port(1, 3, 4, 4), CONV, {"a": 1}),
    (port(3, 4, 4), CONV, {}),
    (port(1, 3, 4), CONV1, {"a": 1}),
    (port(1, 4), CONV1, {}),
    (port(1, 3, 4, 4), POOL, {"a": 1}),
    (port(1, 3, 4, 4), SUM, {"a": 1}),
    (port(1, 4, 4), POOL, {}),
    (port(1, 2), lif(), {"a": 1}),
    (port(1, 2), FLAT, {}),
    (LINEAR, end(1, 2), {"b": 1}),
    (lif(), end(1, 1, 2), {"b": 2}),
    (CONV, end(2, 4, 4), {}),
]


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: f"{type(case[0]).__name__}-{type(case[1]).__name__}")
def test_axes_of_size_one_that_a_port_has_more_than_its_neighbor(case: Any) -> None:
    first, second, found = case
    assert leading_ones(pair(first, second)) == found


def test_a_neuron_without_axes_has_those_of_what_leads_to_it() -> None:
    scalar = nir.IF(r=np.array(1.0), v_threshold=np.array(1.0))
    for before, shape, count in ((LINEAR, (1, 2), 1), (CONV, (1, 2, 4, 4), 1), (FLAT, (1, 2), None)):
        nodes = {"w": before, "x": scalar, "y": scalar, "out": end(*shape)}
        graph = nir.NIRGraph(nodes, list(pairwise(nodes)), type_check=False)
        assert leading_ones(graph) == ({} if count is None else {"out": count})
    loop = nir.NIRGraph({"x": scalar, "out": end(1, 2)}, [("x", "x"), ("x", "out")], type_check=False)
    assert leading_ones(loop) == {}
    alone = nir.NIRGraph({"x": scalar, "out": end(1, 2)}, [("gone", "x"), ("x", "out")], type_check=False)
    assert leading_ones(alone) == {}
    first = nir.NIRGraph(
        {"w": LINEAR, "v": CONV, "x": scalar, "out": end(1, 2)},
        [("w", "x"), ("v", "x"), ("x", "out")],
        type_check=False,
    )
    assert leading_ones(first) == {"out": 1}, "the first edge that leads there counts"
    missing = nir.NIRGraph({"in": port(1, 3)}, [("in", "gone")], type_check=False)
    assert leading_ones(missing) == {}


def test_ports_are_found_in_the_order_of_the_nodes() -> None:
    nodes = {"out": end(1, 2), "w": LINEAR, "in": port(1, 3)}
    graph = nir.NIRGraph(nodes, [("in", "w"), ("w", "out")], type_check=False)
    assert list(leading_ones(graph)) == ["out", "in"]
    found = [f for f in diagnose_exporter(graph) if f.name == "batch-axis"]
    assert [(f.node, f.sure, f.repair) for f in found] == [(n, "certain", "batch-axis") for n in ("out", "in")]
    assert found[0].what == "node 'out' (Output): its shape counts 1 axis of a batch or of time"


def test_parameters_without_an_axis_are_named() -> None:
    scalar = nir.IF(r=np.ones(N), v_threshold=np.ones(N))
    scalar.r, scalar.v_reset = np.array(1.0), np.array(0.0)
    found = [f for f in diagnose_exporter(row(lif(), scalar)) if f.name == "zero-dimensional"]
    assert [(f.node, f.sure, f.repair) for f in found] == [("1", "certain", "zero-dimensional")]
    assert found[0].what == "node '1' (IF): r, v_reset without an axis: nir cannot write it, other tools refuse it"


def test_lost_edges_on_both_sides() -> None:
    graph = row(lif(tau=1), lonely=lif(tau=1), begins=LINEAR, ends=LINEAR, edges=[("begins", "0"), ("0", "ends")])
    found = [
        (f.node, f.what.split("leads ")[1][:3].strip(" :"))
        for f in diagnose_exporter(graph)
        if f.name == "missing-edge"
    ]
    assert found == [("lonely", "in"), ("lonely", "out"), ("begins", "in"), ("ends", "out")]
    ports = nir.NIRGraph({"in": port(N), "out": end(N)}, [], type_check=False)
    lost = [f for f in diagnose_exporter(ports) if f.name == "missing-edge"]
    assert [(f.node, f.sure, f.repair) for f in lost] == [("in", "likely", None), ("out", "likely", None)]
    assert lost[0].what == ("node 'in' (Input): no edge leads out: the exporter may have lost it (residuals, branches)")


# -- one exporter --------------------------------------------------------------------------------------------------

NORSE = ("norse", "likely", "norse")
EXPORTERS: list[tuple[str, list[Any], list[tuple[str, str, str, str | None]]]] = [
    ("norse", [lif(9.9e-5, 1)], [("norse", "0", "likely", "norse")]),
    ("tau too long", [lif(1.1e-4, 1)], []),
    ("tau of the bound", [lif(1e-4, 1)], [("snntorch", "0", "possible", "snntorch-subtract")]),
    ("one tau of a population too long", [lif([1e-5, 1e-4], 1)], []),
    ("one population too long", [lif(1e-5, 1), lif(1e-3, 1)], []),
    ("another gain", [lif(1e-5, 1), lif(1e-5, 1.1)], []),
    ("norse beside a counter", [counter(), lif(1e-5, 1)], [("norse", "1", "likely", "norse")]),
    ("norse with currents", [cuba(1e-5, 5e-6, 1, 1)], [("norse", "0", "likely", "norse")]),
    ("currents with weights", [cuba(1e-5, 5e-6, 1, 2)], []),
    ("a long synapse", [cuba(1e-5, 5e-3, 1, 1)], []),
    ("sinabs", [lif(1, 1)], [("sinabs", "0", "likely", "sinabs")]),
    ("sinabs beside a counter", [lif(20, 1), counter(1)], [("sinabs", n, "likely", "sinabs") for n in "01"]),
    ("a counter of gain 1", [counter(1)], [("sinabs", "0", "possible", "sinabs")]),
    ("a counter of another gain", [counter(2)], []),
    ("a gain within rounding", [counter(1 + 9e-6)], [("sinabs", "0", "possible", "sinabs")]),
    ("a gain beyond rounding", [counter(1 + 1.1e-5)], []),
    ("less than a time step", [lif([20, 0.99], 1)], []),
    ("one other gain", [lif(20, 1), counter(2)], []),
    ("snntorch", [lif(1e-3, 10)], [("snntorch", "0", "possible", "snntorch-subtract")]),
    ("snntorch with currents", [cuba(1e-3, 2e-3, 10, 20)], [("snntorch", "0", "possible", "snntorch-subtract")]),
    ("currents of which one has another gain", [cuba(1e-3, 2e-3, 10, 21)], []),
    ("spikingjelly", [lif(1e-3, 10, v_reset=-1)], [("spikingjelly", "0", "possible", "spikingjelly")]),
    ("one neuron at another rest", [lif(1e-3, 10, v_leak=[0, 1])], [("spikingjelly", "0", "possible", "spikingjelly")]),
    ("a counter of 1e4", [counter(1e4)], [("spikingjelly", "0", "likely", "spikingjelly")]),
    (
        "leaky ones beside it",
        [counter(1e4), lif(1e-3, 10), lif(1e-3, 11)],
        [("spikingjelly", n, "likely", "spikingjelly") for n in "01"],
    ),
    ("a readout", [nir.LI(tau=each(1e-3), r=each(10), v_leak=each(0))], []),
]


@pytest.mark.parametrize("case", EXPORTERS, ids=lambda case: case[0])
def test_who_wrote_a_graph(case: Any) -> None:
    _, cells, found = case
    assert said(row(*cells)) == found


def test_findings_of_exporters_in_words() -> None:
    def what(*cells: Any) -> list[str]:
        return [f.what for f in diagnose_exporter(row(*cells))]

    norse = "Norse writes tau multiplied by its dt"
    assert what(lif([2e-5, 1e-5], 1)) == [f"node '0' (LIF): tau up to 2e-05 s with r = 1: {norse}"]
    assert what(cuba(1e-5, 5e-5, 1, 1)) == [
        f"node '0' (CubaLIF): tau up to 5e-05 s with r = 1: {norse}, "
        "and loses that an input spike adds 1 to the current"
    ]
    lost = "Sinabs' soft reset, several spikes per time step, norm_input, tau_syn and min_v_mem are not in the file"
    assert what(lif(5, 1)) == [f"node '0' (LIF): r = 1: Sinabs counts tau in steps; {lost}"]
    assert what(counter(1)) == [f"node '0' (IF): r = 1, as Sinabs (soft reset) and Norse (reset to 0) write it; {lost}"]
    jelly = "spikingjelly, which fires at v >= threshold and starts at v_reset"
    assert what(counter(1e4), lif(1e-3, 10)) == [
        f"node '0' (IF): r = 1e4: {jelly}",
        f"node '1' (LIF): r = tau / 1e-4 s: {jelly}",
    ]
    assert what(lif(1e-3, 10)) == [
        "node '0' (LIF): r = tau / 1e-4 s, as snnTorch and spikingjelly write it: "
        "the reset is not in the file and is read as a reset to v_reset in the time step of the spike"
    ]


def rockpool(dt: float, tau: float = 0.02) -> Any:
    return lif(tau, tau * np.exp(-dt / tau) / dt)


def test_the_time_step_that_rockpool_wrote() -> None:
    for dt in (1e-3, 2e-3, 1.5e-4, 0.01):
        assert rockpool_dt(rockpool(dt)) == dt
        currents = cuba(0.02, 0.01, 0.02 * np.exp(-dt / 0.02) / dt)
        assert rockpool_dt(currents) == dt
    assert rockpool_dt(rockpool(1.23e-3)) is None, "no short number"
    assert rockpool_dt(rockpool(1.0000005e-3)) == 1e-3
    for wrong in (0.0, -1.0):
        for place in range(N):
            gains, times = rockpool(1e-3).r, each(0.02)
            gains[place] = wrong
            assert rockpool_dt(lif(0.02, gains)) is None
            times[place] = wrong
            assert rockpool_dt(lif(times, rockpool(1e-3).r)) is None
    assert rockpool_dt(counter()) is None
    bare = rockpool(1e-3)
    bare.r = None
    assert rockpool_dt(bare) is None
    (found,) = diagnose_exporter(row(rockpool(2e-3)))
    assert found.what == (
        "node '0' (LIF): r = tau exp(-dt/tau) / dt with dt = 0.002 s: Rockpool's gain; "
        "its bias, its recurrent weights, soft reset and several spikes per time step are not in the file"
    )


def test_an_input_adds_one_within_rounding() -> None:
    for off, is_one in ((0.0, True), (9e-6, True), (-9e-6, True), (1.1e-5, False), (-1.1e-5, False)):
        assert adds_one(lif(1e-3, [10, 10 * (1 + off)])) is is_one
        assert adds_one(cuba(1e-3, 2e-3, 10, [20 * (1 + off), 20])) is is_one
        assert adds_one(cuba(1e-3, 2e-3, [10 * (1 + off), 10], 20)) is is_one
