"""Files of the frameworks' exporters: faults found, repaired on request, and compared with the framework."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.importers import load_nir
from nirbridge.importers.nirfile.faults import ExporterFinding, diagnose_exporter
from nirbridge.importers.nirfile.repairs import repair_graph
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package
from tests.simulators.reference.frameworks import grid_weights

nir = pytest.importorskip("nir", reason="nir is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("nirtorch", reason="the exporters need nirtorch")

STEPS, BATCH, PRE = 100, 4, 8
pytestmark = pytest.mark.filterwarnings("ignore")  # what the exporters themselves warn of is not this project's


def spikes() -> Array:
    return (np.random.default_rng(0).random((STEPS, BATCH, PRE)) < 0.3).astype(np.float32)


def weights(post: int, pre: int, seed: int, scale: float) -> Any:
    return torch.from_numpy(grid_weights((post, pre), scale, seed))


def linear(pre: int, post: int, seed: int, scale: float, kind: Any = torch.nn.Linear) -> Any:
    layer = kind(pre, post, bias=False)
    layer.weight.data = weights(post, pre, seed, scale)
    return layer


def ours(graph: Any) -> Array:
    network = graph if isinstance(graph, nb.Network) else from_nir(graph)
    run = simulate(network, spikes().astype(np.uint8), backend="reference")
    (found,) = run.recording.arrays.values()
    return found.astype(np.float32)


def names(found: Iterable[ExporterFinding]) -> set[str]:
    return {f.name for f in found}


def check(graph: Any, theirs: Array, shapes: tuple[str, ...], framework: str) -> None:
    """Repairs of shape alone let it run, and wrongly; with the framework named every output is the module's."""
    assert (theirs > 0).mean() > 0.01
    assert set(shapes) <= names(diagnose_exporter(graph))
    assert (ours(repair_graph(graph, shapes)) != theirs).sum() > 10
    repaired = repair_graph(graph, (*shapes, framework))
    np.testing.assert_array_equal(ours(repaired), theirs)
    assert diagnose_exporter(repaired) == ()
    np.testing.assert_array_equal(ours(to_nir(from_nir(repaired))), theirs)
    loaded = nb.load(graph, repairs=(*shapes, framework))  # the exporter's own graph, never a file
    assert (loaded.notes[-1], loaded.dt) == (
        f"repaired on request: {', '.join((*shapes, framework))}",
        nb.load(repaired).dt,
    )
    np.testing.assert_array_equal(ours(loaded), theirs)


# --- Norse ----------------------------------------------------------------------------------------------------------


def norse_model() -> tuple[Any, Any]:
    norse = package("norse.torch")
    box = norse.LIFBoxCell(norse.LIFBoxParameters(v_leak=torch.as_tensor(0.1)))
    layers = (linear(PRE, 6, 1, 0.6), norse.LIFCell(), linear(6, 5, 2, 4), box, linear(5, 4, 3, 0.5), norse.IAFCell())
    return norse, norse.SequentialState(*layers)


def test_norse_writes_tau_times_dt_scalars_and_the_batch(tmp_path: Path) -> None:
    norse, model = norse_model()
    state, out = None, []
    with torch.no_grad():
        for x in torch.from_numpy(spikes()):
            y, state = model(x, state)
            out.append(y)
    graph = norse.to_nir(model, torch.zeros(1, PRE))
    assert {f.repair for f in diagnose_exporter(graph)} == {"batch-axis", "zero-dimensional", "norse"}
    with pytest.raises(TypeError, match="Scalar"):
        nir.write(tmp_path / "never.nir", graph)
    check(graph, torch.stack(out).numpy(), ("batch-axis", "zero-dimensional"), "norse")


def test_a_graph_in_memory_that_counts_the_batch_names_its_repair() -> None:
    norse, model = norse_model()
    graph = norse.to_nir(model, torch.zeros(1, PRE))
    with pytest.raises(
        ModelError, match=r"ports 'input', 'output': have an axis of .*repairs=\['batch-axis'\]"
    ) as raised:
        nb.load(graph)
    assert len(raised.value.problems) == 3
    assert "repaired on request: batch-axis" in nb.load(graph, repairs=["batch-axis"]).notes
    with pytest.raises(UsageError, match="unknown"):
        nb.load(graph, repairs=["magic"])
    with pytest.raises(UsageError, match="'max_bytes': does not apply here"):
        nb.load(graph, max_bytes=5)


def test_a_file_that_counts_the_batch_is_read_on_request(tmp_path: Path) -> None:
    norse = package("norse.torch")
    vectors = [torch.full((3,), value) for value in (200.0, 100.0, 0.0, 1.0, 0.0)]
    model = norse.SequentialState(linear(4, 3, 1, 1), norse.LIFCell(norse.LIFParameters(*vectors)))
    nir.write(tmp_path / "norse.nir", norse.to_nir(model, torch.zeros(1, 4)))
    with pytest.raises(FileError, match=r"Input puts out shape \(1, 4\)"):
        load_nir(tmp_path / "norse.nir")
    graph = load_nir(tmp_path / "norse.nir", drop_batch=True)
    assert names(diagnose_exporter(graph)) == {"norse"}
    cell = repair_graph(graph, ["norse"]).nodes["1"]
    np.testing.assert_allclose(cell.tau_mem, 0.01, rtol=1e-6)
    np.testing.assert_allclose(cell.w_in, 5, rtol=1e-6)
    np.testing.assert_allclose(graph.nodes["1"].tau_mem, 1e-5, rtol=1e-6)  # the graph itself stays


# --- snnTorch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_snntorch_loses_the_reset(reset: str) -> None:
    snn, export = package("snntorch"), package("snntorch.export_nir")

    def each(size: int, value: float) -> Any:
        return torch.full((size,), value)

    options = {"reset_mechanism": reset, "init_hidden": True}
    recurrent = snn.RLeaky(0.8, linear_features=4, output=True, **options)
    recurrent.recurrent.weight.data = weights(4, 4, 4, 0.2)
    recurrent.recurrent.bias.data.zero_()
    model = torch.nn.Sequential(
        linear(PRE, 6, 1, 0.5), snn.Leaky(each(6, 0.9), threshold=each(6, 1), **options),
        linear(6, 5, 2, 0.5), snn.Synaptic(each(5, 0.8), each(5, 0.7), threshold=each(5, 1), **options),
        linear(5, 4, 3, 1), recurrent,
    )  # fmt: skip
    graph = export.export_to_nir(model, torch.zeros(1, PRE), ignore_dims=[0])
    package("snntorch.utils").reset(model)
    with torch.no_grad():
        theirs = torch.stack([model(x)[0] for x in torch.from_numpy(spikes())]).numpy()
    assert [f.node for f in diagnose_exporter(graph) if f.repair == "snntorch-subtract"] == ["1", "3", "5.lif"]
    check(graph, theirs, (), f"snntorch-{reset}")


# --- Sinabs ---------------------------------------------------------------------------------------------------------


def test_sinabs_counts_tau_in_steps_and_loses_the_soft_reset() -> None:
    layers, exporter = package("sinabs.layers"), package("sinabs.nir")
    model = torch.nn.Sequential(
        linear(PRE, 6, 1, 4), layers.LIFSqueeze(tau_mem=20.0, batch_size=BATCH),
        linear(6, 5, 2, 0.6), layers.IAFSqueeze(batch_size=BATCH),
        linear(5, 4, 3, 0.5), layers.ExpLeakSqueeze(tau_mem=10.0, batch_size=BATCH),
    )  # fmt: skip
    with torch.no_grad():
        flat = torch.from_numpy(spikes()).transpose(0, 1).flatten(0, 1)
        theirs = model(flat).unflatten(0, (BATCH, STEPS)).transpose(0, 1).numpy()
    for layer in model:
        if hasattr(layer, "reset_states"):
            layer.reset_states()
    graph = exporter.to_nir(model, torch.zeros(BATCH, PRE))
    assert [f.node for f in diagnose_exporter(graph) if f.repair == "sinabs"] == ["1", "3", "5"]
    repaired = repair_graph(graph, ["zero-dimensional", "sinabs"])
    np.testing.assert_allclose(ours(repaired), theirs, rtol=0, atol=1e-5)
    assert np.abs(ours(repair_graph(graph, ["zero-dimensional"])) - theirs).max() > 0.1
    del model[5], model[4]
    with torch.no_grad():
        theirs = model(flat).unflatten(0, (BATCH, STEPS)).transpose(0, 1).numpy()
    assert theirs.max() > 1
    model[1].reset_states()
    model[3].reset_states()
    check(exporter.to_nir(model, torch.zeros(BATCH, PRE)), theirs, ("zero-dimensional",), "sinabs")


# --- spikingjelly ---------------------------------------------------------------------------------------------------


def test_spikingjelly_fires_at_the_threshold() -> None:
    """Weights on a coarse grid, so that the threshold is met exactly."""
    jelly = package("spikingjelly.activation_based")
    exchange = package("spikingjelly.activation_based.nir_exchange")
    first, second = (linear(a, b, s, 0.5, jelly.layer.Linear) for a, b, s in ((PRE, 6, 1), (6, 4, 2)))
    for layer in (first, second):
        layer.weight.data = torch.round(layer.weight.data * 4) / 4
    model = torch.nn.Sequential(first, jelly.neuron.IFNode(v_reset=-0.25), second, jelly.neuron.IFNode())
    graph = exchange.export_to_nir(model, torch.zeros(1, PRE))
    jelly.functional.reset_net(model)
    with torch.no_grad():
        theirs = torch.stack([model(x) for x in torch.from_numpy(spikes())]).numpy()
    assert [f.node for f in diagnose_exporter(graph) if f.repair == "spikingjelly"] == ["_1", "_3"]
    check(graph, theirs, (), "spikingjelly")


# --- Rockpool -------------------------------------------------------------------------------------------------------


def test_rockpool_writes_gains_that_hold_for_its_own_dt_only() -> None:
    modules, exporter = package("rockpool.nn.modules.torch"), package("rockpool.nn.modules.torch.nir")
    combinators = package("rockpool.nn.combinators")
    model = combinators.Sequential(
        modules.LinearTorch((PRE, 6), weight=weights(PRE, 6, 1, 0.1)),
        modules.LIFTorch(6, tau_mem=0.02, tau_syn=0.01, dt=2e-3),
        modules.LinearTorch((6, 4), weight=weights(6, 4, 2, 0.4)),
        modules.LIFNeuronTorch(4, dt=2e-3),
    )
    with torch.no_grad():
        theirs = model(torch.from_numpy(spikes()).transpose(0, 1).contiguous())[0].transpose(0, 1).numpy()
    model.reset_state()
    graph = exporter.to_nir(model, torch.zeros(1, 1, PRE))
    found = [f for f in diagnose_exporter(graph) if f.repair == "rockpool"]
    assert [f.node for f in found] == ["1_LIFTorch", "3_LIFNeuronTorch"]
    assert "dt = 0.002 s" in found[0].what
    check(graph, theirs, ("batch-axis",), "rockpool")


def rockpool_lif(dt: float, tau: float = 0.02, **changes: float) -> Any:
    fields = {"tau": tau, "r": tau * np.exp(-dt / tau) / dt, "v_leak": 0.0, "v_threshold": 1.0} | changes
    return nir.LIF(**{name: np.full(2, number) for name, number in fields.items()})


def row(*cells: Any) -> Any:
    """Cells one behind the other, named '0', '1' …"""
    nodes = {str(k): cell for k, cell in enumerate(cells)}
    nodes = {"in": nir.Input({"input": np.array([2])}), **nodes, "out": nir.Output({"output": np.array([2])})}
    return nir.NIRGraph(nodes, list(pairwise(nodes)), type_check=False)


def test_rockpool_is_found_where_every_neuron_has_its_gain_at_one_dt() -> None:
    counter = nir.IF(r=np.ones(2), v_threshold=np.ones(2))
    found = diagnose_exporter(row(rockpool_lif(2e-3), counter, rockpool_lif(2e-3, tau=0.05)))
    assert [(f.name, f.node, f.sure, f.repair) for f in found] == [
        ("rockpool", "0", "likely", "rockpool"),
        ("rockpool", "2", "likely", "rockpool"),
    ]
    assert all("r = tau exp(-dt/tau) / dt with dt = 0.002 s" in f.what for f in found)
    for other in (rockpool_lif(1e-3), rockpool_lif(2e-3, r=3.0), rockpool_lif(2e-3, r=-1.0)):
        assert names(diagnose_exporter(row(rockpool_lif(2e-3), other))) == set()
        assert names(diagnose_exporter(row(other, rockpool_lif(2e-3)))) == set()
    assert names(diagnose_exporter(row(counter))) == {"sinabs"}
    uneven = rockpool_lif(2e-3)
    uneven.r[1] *= 1.01
    assert names(diagnose_exporter(row(uneven))) == set()


# --- without a framework --------------------------------------------------------------------------------------------


def plain(**changes: float) -> Any:
    values = {"tau": 0.02, "r": 1.0, "v_leak": 0.0, "v_threshold": 1.0} | changes
    cell = nir.LIF(**{name: np.full(2, value) for name, value in values.items()})
    return nir.NIRGraph.from_list(nir.Linear(np.ones((2, 3))), cell)


def test_an_ordinary_graph_has_no_findings() -> None:
    assert diagnose_exporter(plain()) == ()
    assert diagnose_exporter(to_nir(from_nir(plain(tau=1e-5)))) == ()


def test_a_leaky_that_is_only_called_lif_waits_for_nothing() -> None:
    """snnTorch writes RLeaky as ``x.lif`` beside ``x.w_rec``; a Leaky of that name in a block has no such neighbour."""
    cell = plain(tau=1e-3, r=10.0).nodes["lif"]
    eye = {
        "w": nir.Linear(np.eye(2)),
        "in": nir.Input({"input": np.array([2])}),
        "out": nir.Output({"output": np.array([2])}),
    }
    edges = [("in", "w"), ("w", "block.lif"), ("block.lif", "out")]
    alone = nir.NIRGraph({**eye, "block.lif": cell}, edges, type_check=False)
    loop = [("block.lif", "block.w_rec"), ("block.w_rec", "block.lif")]
    fed = nir.NIRGraph(
        {**eye, "block.lif": cell, "block.w_rec": nir.Linear(np.eye(2))}, [*edges, *loop], type_check=False
    )
    for graph, waits in ((alone, 0), (fed, 1)):
        (population,) = from_nir(repair_graph(graph, ["snntorch-zero"])).populations
        assert population.neuron.refractory_steps == waits
        (population,) = from_nir(repair_graph(graph, ["snntorch-zero-early"])).populations
        assert population.neuron.refractory_steps == 0


def test_decays_that_float32_blurred_are_found_again() -> None:
    betas = np.linspace(0.5, 0.999, 500, dtype=np.float32)
    tau = np.float32(1e-4) / (1 - betas)
    ones = np.ones(500)
    cell = nir.LIF(tau=tau, r=tau / np.float32(1e-4), v_leak=0 * ones, v_threshold=ones)
    neuron = from_nir(repair_graph(nir.NIRGraph.from_list(cell), ["snntorch-subtract"])).populations[0].neuron
    np.testing.assert_array_equal(neuron.a_mem, betas)
    np.testing.assert_array_equal(neuron.g_mem, 1.0)
    np.testing.assert_array_equal(neuron.reset_amount, 1 / betas.astype(np.float64))


def test_an_integrator_or_a_reset_elsewhere_tells_spikingjelly_from_snntorch() -> None:
    leaky, resting = (
        plain(tau=1e-3, r=10.0).nodes["lif"],
        plain(tau=1e-3, r=10.0, v_reset=-0.5, v_leak=-0.5).nodes["lif"],
    )
    counter = nir.IF(r=np.full(2, 1e4), v_threshold=np.ones(2))
    assert names(diagnose_exporter(row(leaky))) == {"snntorch"}
    assert {(f.node, f.name, f.sure) for f in diagnose_exporter(row(leaky, counter))} == {
        ("0", "spikingjelly", "likely"),
        ("1", "spikingjelly", "likely"),
    }
    assert {(f.name, f.sure) for f in diagnose_exporter(row(resting))} == {("spikingjelly", "possible")}


def test_published_files_show_who_wrote_them_and_nothing_else(shared_data: Path) -> None:
    folder = shared_data / "nir_paper"
    shown = {path.name: {(f.name, f.sure) for f in diagnose_exporter(load_nir(path))} for path in folder.rglob("*.nir")}
    assert shown == {
        "lif_norse.nir": set(),
        "cnn_sinabs.nir": {("sinabs", "possible")},
        "braille_noDelay_bias_zero.nir": {("snntorch", "possible")},
    }


def test_a_node_without_an_edge_is_found() -> None:
    graph = plain()
    graph.edges = [e for e in graph.edges if e[1] != "output"]
    found = [f for f in diagnose_exporter(graph) if f.name == "missing-edge"]
    assert {f.node for f in found} == {"lif", "output"}
    assert all(f.repair is None for f in found)


def test_names_of_repairs_are_checked() -> None:
    with pytest.raises(UsageError) as error:
        repair_graph(plain(), ["norse", "sinabs", "magic"], dt=-1)
    assert len(error.value.problems) == 3
    with pytest.raises(ModelError, match="its gains are not Rockpool's"):
        repair_graph(plain(), ["rockpool"])
    with pytest.raises(ModelError, match="the decay must be above 0"):
        repair_graph(plain(tau=1e-4), ["snntorch-subtract"])
