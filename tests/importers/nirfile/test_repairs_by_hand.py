"""Repairs of exporters' graphs on handmade nodes: every parameter and setting that they change."""

from __future__ import annotations

import copy
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers.nirfile.repairs import MOST_SPIKES, NORSE_DT, REPAIRS, repair_graph
from nirbridge.network.nir.from_nir import from_nir
from tests.importers.nirfile.exporter_models import SIZES, Case, inputs, package, stack
from tests.importers.nirfile.nodes_by_hand import counter, cuba, each, end, lif, port, row


def narrow(values: Any) -> Any:
    return np.asarray(values, np.float32)


def settings(subject: Any) -> dict[str, Any]:
    """What metadata says, without the prefix; arrays as lists."""
    found = {key.removeprefix("nirbridge:"): setting for key, setting in (subject.metadata or {}).items()}
    return {key: setting.tolist() if hasattr(setting, "tolist") else setting for key, setting in found.items()}


def fields(node: Any, *names: str) -> list[Any]:
    return [getattr(node, name).tolist() for name in names]


def mended(name: str, *cells: Any, dt: float | None = None, **named: Any) -> tuple[dict[str, Any], list[Any]]:
    graph = row(*cells, **named)
    before = copy.deepcopy(graph)
    found = repair_graph(graph, [name], dt=dt)
    for key, node in graph.nodes.items():  # the graph itself stays
        for field, own in vars(node).items():
            np.testing.assert_equal(own, getattr(before.nodes[key], field))
    assert graph.metadata == before.metadata
    return settings(found), [node for key, node in found.nodes.items() if key not in ("in", "out")]


# -- what is asked for ---------------------------------------------------------------------------------------------


def test_every_wrong_request_is_named() -> None:
    assert (NORSE_DT, MOST_SPIKES) == (1e-3, 65536)
    with pytest.raises(UsageError) as caught:
        repair_graph(row(lif()), ["magic", "sinabs", "batch-axis", "norse", "odd"], dt=0.0)
    known = "known repairs: batch-axis, zero-dimensional, " + ", ".join(REPAIRS)
    assert [str(p) for p in caught.value.problems] == [
        f"repair 'magic': unknown, {known}; choose one",
        f"repair 'odd': unknown, {known}; choose one",
        "repairs: more than one framework: norse, sinabs, one wrote the file; choose one of them",
        "repair option dt: 0, a finite number of seconds above 0; correct it",
    ]
    for wrong in (-1.0, np.inf, np.nan):
        with pytest.raises(UsageError, match="repair option dt"):
            repair_graph(row(lif()), [], dt=wrong)
    assert settings(repair_graph(row(lif()), [], dt=1e-9)) == {}
    assert settings(repair_graph(row(lif()), ["batch-axis", "zero-dimensional"])) == {}


def test_every_wrong_choice_of_nodes_is_named() -> None:
    graph = row(lif(), lif(), lif())
    with pytest.raises(UsageError) as caught:
        repair_graph(graph, ["snntorch-zero=0,x", "snntorch-none=0", "batch-axis=1", "snntorch-zero-early="])
    assert [str(p) for p in caught.value.problems] == [
        "repair 'batch-axis': given with nodes, it is made of all nodes; give --repair batch-axis",
        "repair of node 'x': no such neuron, its neurons: '0', '1', '2'",
        "repair of node '': no such neuron, its neurons: '0', '1', '2'",
        "repair of node '0': given twice; give one",
        "repairs: no repair of '1' and of 1 more, one framework wrote all neurons; name them, or give the repair of "
        "the others without nodes",
    ]
    with pytest.raises(UsageError, match="more than one framework: norse, sinabs"):
        repair_graph(graph, ["norse", "sinabs=0"])
    with pytest.raises(UsageError, match="more than one repair of all neurons: snntorch-subtract, snntorch-zero"):
        repair_graph(graph, ["snntorch-zero", "snntorch-subtract"])


@pytest.mark.parametrize("names", [
    ["snntorch-none", "snntorch-subtract=1", "snntorch-zero=2"],
    ["snntorch-none=0", "snntorch-zero=2", "snntorch-subtract=1"],
    ["snntorch-subtract", "snntorch-none=0", "snntorch-zero=2"],
])  # fmt: skip
def test_each_neuron_has_a_reset_of_its_own(names: list[str]) -> None:
    cells = [lif(tau=each(1e-3), r=each(10.0)) for _ in range(3)]
    network = from_nir(repair_graph(row(*cells), names))
    assert [p.neuron.reset for p in network.populations] == ["none", "subtract", "to-value"]
    assert network.dt == 1e-4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mixed", [True, False])
def test_mixed_resets_of_snntorch_are_exact(mixed: bool) -> None:
    """One repair for the whole file left the resets of one of both layers wrong."""
    for name in ("snntorch", "nirtorch"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    import torch

    snn, export = package("snntorch"), package("snntorch.export_nir")

    def cell(size: int) -> Any:
        reset = "subtract" if size == SIZES[1] else "none"
        values = {"beta": torch.full((size,), 0.75), "threshold": torch.ones(size)}
        return snn.Leaky(**values, reset_mechanism=reset, init_hidden=True)

    module = stack(cell, 0.3)
    with torch.no_grad():
        graph = export.export_to_nir(module, torch.zeros(1, SIZES[0]), ignore_dims=[0])
        package("snntorch.utils").reset(module)
        theirs = torch.stack([module(x) for x in torch.from_numpy(inputs())]).numpy()
    lif_of = [name for name, node in graph.nodes.items() if isinstance(node, nir.LIF)]
    names = ["snntorch-subtract", f"snntorch-none={lif_of[1]}"] if mixed else ["snntorch-subtract"]
    case = Case("snnTorch", "mixed", "", graph, theirs)
    assert case.spikes > 100
    assert (case.differ(tuple(names)) == 0.0) == mixed


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    node, weight = lif(), nir.Affine(np.ones((2, 2)), np.ones(2))
    node.tau, node.v_reset = torch.full((2,), 2e-3, dtype=torch.float32), None
    weight.weight, weight.bias = torch.nn.Parameter(torch.eye(2)), torch.ones(2, dtype=torch.float16)
    plain = nir.Linear(np.ones((2, 2), np.float32))
    found = repair_graph(row(weight, node, plain), []).nodes
    assert (type(found["0"].weight), found["0"].weight.dtype, found["0"].bias.dtype) == (
        np.ndarray, np.float32, np.float16,
    )  # fmt: skip
    assert (found["1"].tau.dtype, found["1"].tau.tolist(), found["1"].v_reset) == (
        np.float64,
        [float(np.float32(2e-3))] * 2,
        None,
    )
    assert found["2"].weight.dtype == np.float32


def test_ports_lose_the_axes_that_their_neighbors_lack() -> None:
    weight = nir.Linear(np.ones((2, 3)))
    graph = nir.NIRGraph(
        {"in": port(1, 1, 3), "w": weight, "out": end(2)}, [("in", "w"), ("w", "out")], type_check=False
    )
    assert repair_graph(graph, []).nodes["in"].input_type["input"].tolist() == [1, 1, 3]
    found = repair_graph(graph, ["batch-axis"]).nodes["in"]
    assert [shape.tolist() for kind in (found.input_type, found.output_type) for shape in kind.values()] == [[3], [3]]


def test_neurons_and_factors_without_axes_get_those_of_their_input() -> None:
    scalar = nir.LIF(tau=np.array(2.0), r=np.array(3.0), v_leak=np.array(0.0), v_threshold=np.array(4.0))
    scalar.v_reset = None
    nodes = {"in": port(2, 3), "x": scalar, "s": nir.Scale(np.array(5.0)), "out": end(2, 3)}
    graph = nir.NIRGraph(nodes, [("in", "x"), ("x", "s"), ("s", "out")], type_check=False)
    found = repair_graph(graph, ["zero-dimensional"]).nodes
    assert fields(found["x"], "tau", "r", "v_threshold") == [[[n] * 3] * 2 for n in (2.0, 3.0, 4.0)]
    assert (found["x"].v_reset, found["s"].scale.tolist()) == (None, [[5.0] * 3] * 2)
    for name in "xs":
        assert (found[name].input_type["input"].tolist(), found[name].output_type["output"].tolist()) == ([2, 3],) * 2
    assert found["in"].input_type["input"].tolist() == [2, 3]
    assert repair_graph(graph, []).nodes["x"].tau.tolist() == 2.0


# -- frameworks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dt", "step"), [(None, 1e-3), (5e-4, 5e-4)])
def test_norse(dt: float | None, step: float) -> None:
    cells = [lif(1e-5, 1, v_leak=[0.1, 0.2]), cuba(1e-5, 5e-6, 1, 1, v_leak=0.3), counter(), nir.I(r=each(1))]
    cells.append(nir.LI(tau=each(2e-5), r=each(1), v_leak=each(0)))
    said, nodes = mended("norse", *cells, dt=dt)
    assert said == {"dt": step, "integrator": "euler", "reset": "to-value", "compare": ">"}
    leaky, current, readout = nodes[0], nodes[1], nodes[-1]
    np.testing.assert_allclose(leaky.tau, 1e-5 / step)
    np.testing.assert_allclose(current.tau_mem, 1e-5 / step)
    np.testing.assert_allclose(current.tau_syn, 5e-6 / step)
    np.testing.assert_allclose(current.w_in, 5e-6 / step / step)
    np.testing.assert_allclose(readout.tau, 2e-5 / step)
    assert [settings(n) for n in nodes] == [
        {"v_init": [0.1, 0.2]}, {"v_init": [0.3, 0.3]}, {"if_gain": "per-step"}, {"if_gain": "per-step"},
        {"v_init": [0.0, 0.0]},
    ]  # fmt: skip


BETA = narrow([0.75, 0.5])
TAU = np.float64(1e-4) / (1 - BETA.astype(np.float64))
LEAKY = {"tau": TAU, "r": TAU / 1e-4}
CURRENT = {"tau_mem": TAU, "tau_syn": TAU[::-1], "r": TAU / 1e-4, "w_in": TAU[::-1] / 1e-4}
ONES, DECAYS = [1.0, 1.0], [0.75, 0.5]


@pytest.mark.parametrize(
    ("name", "reset", "leaky", "waits"),
    [
        ("snntorch-subtract", "to-value", {"reset": "subtract", "reset_amount": [4.0, 6.0]}, ("", "")),
        ("snntorch-zero", "to-value", {}, ("cuba", "loop cuba-loop")),
        ("snntorch-zero-early", "to-value", {}, ("", "cuba-loop")),
        ("snntorch-none", "none", {}, ("", "")),
    ],
)
def test_snntorch(name: str, reset: str, leaky: dict[str, Any], waits: tuple[str, str]) -> None:
    """Leaky, Synaptic, and both with recurrent weights, which the exporter calls ``x.lif`` beside ``x.w_rec``."""
    eye = nir.Linear(np.eye(2))
    threshold = {"v_threshold": [3.0, 3.0]}
    named = {
        "count": counter(1e4), "leaky": lif(**LEAKY, **threshold), "cuba": cuba(**CURRENT, **threshold),
        "loop.lif": lif(**LEAKY, **threshold), "loop.w_rec": eye,
        "cuba-loop.lif": cuba(**CURRENT, **threshold), "cuba-loop.w_rec": eye,
        "block.lif": lif(**LEAKY, **threshold), "w_rec": eye,
    }  # fmt: skip
    said, _ = mended(name, **named)
    assert said == {"dt": 1e-4, "integrator": "euler", "reset": reset, "compare": ">"}
    found = repair_graph(row(**named), [name]).nodes
    both = {"a_mem": DECAYS, "g_mem": ONES}
    current = {**both, "a_syn": DECAYS[::-1], "g_syn": ONES}
    subtract = {"reset": "subtract", "reset_amount": [4.0, 6.0]} if leaky else {}
    waiting = " ".join(waits).split()
    for key, own in (("leaky", both), ("cuba", current), ("loop", both), ("cuba-loop", current), ("block", both)):
        node = found.get(key) or found[f"{key}.lif"]
        wait = {"refractory_steps": 1} if key in waiting else {}
        assert settings(node) == {**own, **subtract, **wait}, key
    assert settings(found["count"]) == settings(found["loop.w_rec"]) == {}


def test_snntorch_with_another_time_step_or_other_gains_keeps_the_gains_of_the_file() -> None:
    said, (node,) = mended("snntorch-zero", lif(tau=TAU * 10, r=TAU / 1e-4), dt=1e-3)
    assert said["dt"] == 1e-3
    assert settings(node) == {"a_mem": DECAYS}
    _, (node,) = mended("snntorch-zero", lif(tau=TAU, r=TAU / 1e-4 * 1.1))
    assert settings(node) == {"a_mem": DECAYS}
    _, (node,) = mended("snntorch-zero", lif(tau=TAU, r=TAU / 1e-4), dt=1e-4)
    assert settings(node) == {"a_mem": DECAYS, "g_mem": ONES}


def test_decays_of_both_precisions_and_of_none() -> None:
    beta = narrow([0.9, 0.654321])
    short = np.float32(1e-4) / (1 - beta)  # as Leaky computes it
    wide = 1e-4 / (1 - beta.astype(np.float64))  # as RLeaky does
    for tau in (short, wide):
        _, (node,) = mended("snntorch-none", lif(tau=tau))
        assert settings(node)["a_mem"] == beta.astype(float).tolist()
    odd = np.array([1e-3, np.pi * 1e-3])
    _, (node,) = mended("snntorch-none", lif(tau=odd))
    assert settings(node)["a_mem"] == (1 - 1e-4 / odd).tolist()


def test_a_late_subtraction_needs_a_decay_above_zero_in_every_neuron() -> None:
    cells = [lif(tau=[1e-3, 1e-4]), lif(), cuba(tau_mem=[5e-5, 1e-3])]
    with pytest.raises(ModelError) as caught:
        repair_graph(row(*cells), ["snntorch-subtract"])
    rest = (
        ", and its late subtraction stands for one of threshold / decay, the decay must be above 0; "
        "give --dt where it is not 1e-4 s, or import the model itself"
    )
    assert [str(p) for p in caught.value.problems] == [
        f"node '0' (LIF): its decay is 0{rest}",
        f"node '2' (CubaLIF): its decay is -1{rest}",
    ]
    for name in ("snntorch-zero", "snntorch-none"):
        repair_graph(row(*cells), [name])


@pytest.mark.parametrize(
    ("name", "normed"),
    [("sinabs", "LIF"), ("sinabs-normalized", "LIF LI"), ("sinabs-unnormalized", "")],
)
def test_sinabs(name: str, normed: str) -> None:
    readout = nir.LI(tau=each([20, 5]), r=each(1), v_leak=each(0))
    said, nodes = mended(name, lif([20, 5], 1), counter(1), readout)
    assert said == {"dt": 1.0, "integrator": "zoh", "reset": "subtract", "compare": ">="}
    most, gain = {"max_spikes": 65536}, {"g_mem": ONES}
    plain = (1 / (1 - np.exp(-1 / np.array([20.0, 5.0])))).tolist()
    kinds = normed.split()
    assert settings(nodes[0]) == (most if "LIF" in kinds else {**most, **gain})
    assert settings(nodes[1]) == {**most, "if_gain": "per-step"}
    assert settings(nodes[2]) == ({} if "LI" in kinds else gain)
    np.testing.assert_allclose(nodes[0].r, ONES if "LIF" in kinds else plain)
    np.testing.assert_allclose(nodes[1].r, ONES)
    np.testing.assert_allclose(nodes[2].r, ONES if "LI" in kinds else plain)


def rock(dt: float, tau: float = 0.02) -> Any:
    return lif(tau, tau * np.exp(-dt / tau) / dt)


@pytest.mark.parametrize("dt", [None, 4e-3])
def test_rockpool(dt: float | None) -> None:
    step = dt or 2e-3
    current = cuba(0.02, 0.01, 0.02 * np.exp(-2e-3 / 0.02) / 2e-3)
    readout = nir.LI(tau=each(0.05), r=each(0.05 * np.exp(-2e-3 / 0.05) / 2e-3), v_leak=each(0))
    said, nodes = mended("rockpool", rock(2e-3), current, readout, dt=dt)
    assert said == {"dt": step, "integrator": "exponential", "reset": "subtract", "compare": ">="}
    assert [settings(n) for n in nodes] == [{"max_spikes": 65536}, {"max_spikes": 65536}, {}]
    np.testing.assert_allclose(nodes[0].r, 0.02 / step)
    np.testing.assert_allclose(nodes[1].r, 0.02 / step)
    np.testing.assert_allclose(nodes[1].w_in, 0.01 / step * np.exp(-step / 0.01))
    np.testing.assert_allclose(nodes[2].r, 0.05 / step * np.exp(-step / 0.05))
    _, after = mended("rockpool", readout, rock(2e-3))
    assert settings(after[1]) == {"max_spikes": 65536}


def test_rockpool_needs_one_time_step() -> None:
    for cells, found in (
        ([rock(1e-3), rock(2e-3), rock(2e-3)], "2 different dt in the gains"),
        ([lif()], "its gains are not Rockpool's"),
    ):
        with pytest.raises(ModelError) as caught:
            repair_graph(row(*cells), ["rockpool"])
        assert str(caught.value) == f"graph: {found}, r = tau exp(-dt/tau) / dt with one dt; give dt"
    said, _ = mended("rockpool", rock(1e-3), rock(2e-3), dt=3e-3)
    assert said["dt"] == 3e-3


@pytest.mark.parametrize(("dt", "step"), [(None, 1e-4), (2e-3, 2e-3)])
def test_spikingjelly(dt: float | None, step: float) -> None:
    bare = counter(1e4)
    bare.v_reset = None
    readout = nir.LI(tau=each(1e-3), r=each(10), v_leak=each(0))
    said, nodes = mended("spikingjelly", bare, lif(1e-3, 10, v_reset=[-1.0, -2.0]), readout, dt=dt)
    assert said == {"dt": step, "integrator": "euler", "reset": "to-value", "compare": ">="}
    assert [settings(n) for n in nodes] == [{}, {"v_init": [-1.0, -2.0]}, {}]


def test_metadata_that_is_there_stays() -> None:
    node = lif(1e-5, 1)
    node.metadata = {"own": 1, "nirbridge:v_init": 9}
    graph = row(node)
    graph.metadata = {"made": "by hand", "nirbridge:compare": "never"}
    found = repair_graph(graph, ["norse"])
    assert settings(found) == {
        "made": "by hand", "dt": 1e-3, "integrator": "euler", "reset": "to-value", "compare": ">",
    }  # fmt: skip
    assert settings(found.nodes["0"]) == {"own": 1, "v_init": [0.0, 0.0]}
    assert settings(graph.nodes["0"]) == {"own": 1, "v_init": 9}
