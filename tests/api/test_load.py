"""``load`` of modules of any framework, graphs, files and networks, and of arguments that are not models."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.importers.frameworks import framework_of, is_torch_module
from nirbridge.network.equality import same_network
from nirbridge.network.nir.import_notes import with_import_notes
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.pipeline import import_module, network_of_graph, network_of_shapes
from nirbridge.report.inspect import inspect_graph

torch: Any = pytest.importorskip("torch")
SAMPLE = np.zeros((1, 4), np.float32)


def _modules(framework: str) -> Any:
    """A small module of a framework."""
    pytest.importorskip(framework)
    linear = torch.nn.Linear(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if framework == "snntorch":
            import snntorch as snn

            return torch.nn.Sequential(linear, snn.Leaky(beta=0.5, init_hidden=True))
        if framework == "norse":
            import norse.torch as norse

            return norse.SequentialState(linear, norse.LIFBoxCell())
        if framework == "sinabs":
            import sinabs.layers as sl

            return torch.nn.Sequential(linear, sl.LIFSqueeze(tau_mem=10.0, batch_size=1))
        if framework == "spikingjelly":
            from spikingjelly.activation_based import neuron

            return torch.nn.Sequential(linear, neuron.IFNode())
        from rockpool.nn.combinators import Sequential
        from rockpool.nn.modules import LIFTorch, LinearTorch

        return Sequential(LinearTorch((4, 3)), LIFTorch((3,), dt=1e-3))


@pytest.mark.parametrize("framework", ["snntorch", "norse", "sinabs", "spikingjelly", "rockpool"])
def test_the_framework_is_recognised(framework: str) -> None:
    module = _modules(framework)
    assert framework_of(module) == framework
    assert framework_of(torch.nn.ModuleList([torch.nn.ReLU(), module])) == framework


def test_a_subclass_of_a_neuron_is_of_its_framework() -> None:
    snn = pytest.importorskip("snntorch")

    class Mine(snn.Leaky):
        pass

    assert framework_of(torch.nn.Sequential(Mine(beta=0.5))) == "snntorch"


def test_other_values_have_no_framework() -> None:
    assert framework_of(torch.nn.ReLU()) == "torch"
    assert framework_of(torch.nn.ReLU) is None
    assert framework_of(np.zeros(3)) is None
    assert not is_torch_module(torch.zeros(3))


@pytest.mark.parametrize("framework", ["norse", "sinabs", "rockpool", "spikingjelly", "torch"])
def test_neurons_of_another_framework_are_named(framework: str) -> None:
    """In one message, with what to write, and not as operations that cannot be traced."""
    module = _modules("snntorch")
    pytest.importorskip(framework)
    options: dict[str, Any] = {"convert": np.ones((2, 4), np.float32)} if framework == "torch" else {}
    with pytest.raises(nb.errors.NirbridgeError) as raised:
        nb.load(module, sample=SAMPLE, framework=framework, **options)
    (problem,) = raised.value.problems
    assert problem.hint == "use --from snntorch, framework='snntorch' or from_snntorch"
    if framework != "torch":
        assert isinstance(raised.value, nb.errors.UsageError)
        assert problem.found == f"it has neurons of snntorch, none of {framework}"
    assert nb.load(module, sample=SAMPLE, framework="snntorch").neurons == 3


def test_the_notes_of_an_import_are_those_of_the_network(tmp_path: Path) -> None:
    """Also through the file that ``nirbridge import`` writes; a line that the network states itself is said once."""
    graph = to_nir(network_of_shapes("4 dense3 lif dense2 lif"))
    before = network_of_graph(graph)
    graph.metadata["nirbridge:notes"] = "output 'out': first\nexporter: no fault\noutput 'out': first"
    said = ("import: output 'out': first", "import: exporter: no fault")
    network = nb.load(graph)
    assert network.notes == (*said, *before.notes)
    assert same_network(network, before)
    assert "- import: exporter: no fault" in network.summary()
    with warnings.catch_warnings(action="ignore"):
        nb.save(graph, tmp_path / "net.nir")
        nb.save(network, tmp_path / "saved.nir")
    assert nb.load(tmp_path / "net.nir").notes == nb.load(tmp_path / "saved.nir").notes == network.notes
    assert inspect_graph(graph, nb.Timing())["notes"] == list(network.notes)
    graph.metadata["nirbridge:notes"] = "new\nknown"
    assert with_import_notes(replace(before, notes=("known",)), graph).notes == ("import: new", "known")
    graph.metadata["nirbridge:notes"] = 3
    assert network_of_graph(graph).notes == before.notes


def test_parts_of_two_frameworks_are_a_question() -> None:
    both = torch.nn.Sequential(_modules("snntorch"), _modules("spikingjelly"))
    with pytest.raises(nb.errors.UsageError, match=r"parts of snntorch and of spikingjelly.*framework='snntorch'"):
        framework_of(both)
    with pytest.raises(nb.errors.UsageError, match="parts of snntorch and of spikingjelly"):
        nb.load(both, sample=SAMPLE)


def test_a_module_is_imported_as_its_importer_does_it() -> None:
    module = _modules("snntorch")
    expected = network_of_graph(import_module("snntorch", module, SAMPLE))
    assert same_network(nb.load(module, sample=SAMPLE), expected)
    assert nb.load(module, sample=SAMPLE, dt=2e-3).dt == 2e-3
    assert nb.load(module, sample=SAMPLE, framework="snntorch", check=0).file is None


def test_progress_of_an_import_is_told_and_not_recorded() -> None:
    """What the caller's own function computes with torch is no operation of the module."""
    module, said = _modules("snntorch"), []

    def progress(stage: str, done: float | None) -> None:
        said.append((stage.partition(":")[0], done))
        torch.zeros(3) + 1

    expected = nb.load(module, sample=SAMPLE)
    assert same_network(nb.load(module, sample=SAMPLE, progress=progress), expected)
    assert [*dict.fromkeys(stage for stage, _ in said)] == [
        "running the module",
        "building the network",
        "running the module to compare",
    ]
    assert all(done is None or 0 <= done <= 1 for _, done in said)
    before = len(said)
    nb.load(module, sample=SAMPLE)
    assert len(said) == before


def test_a_network_without_spikes_is_never_converted_by_itself() -> None:
    plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    with pytest.raises(nb.errors.UsageError, match=r"no neurons that spike.*convert= .*, typical inputs of shape"):
        nb.load(plain, sample=SAMPLE)
    data = np.random.default_rng(0).random((20, 4)).astype(np.float32)
    network = nb.load(plain, sample=SAMPLE, convert=data, steps=16)
    assert network.neurons == 5
    with pytest.raises(nb.errors.UsageError, match="'convert': does not apply here"):
        nb.load(_modules("snntorch"), sample=SAMPLE, convert=data)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no sample, shapes are inferred from an input"),
        ({"sample": SAMPLE, "framework": "snntorchh"}, "importer 'snntorchh'"),
        ({"sample": SAMPLE, "repairs": ["x"]}, "'repairs': does not apply here"),
        ({"sample": SAMPLE, "time_axes": 1}, "'time_axes': does not apply here.*time_axis"),
        ({"sample": SAMPLE, "dt": -1.0}, "dt"),
        ({"sample": SAMPLE, "dt": float("nan")}, "dt"),
        ({"sample": object()}, "sample"),
        ({"sample": "x"}, "sample"),
        ({"sample": []}, "sample"),
        ({"sample": (4,)}, r"\(4,\), a tensor or an array, not its shape; give torch.zeros"),
    ],
)
def test_what_is_wrong_with_a_module_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(nb.errors.NirbridgeError, match=said):
        nb.load(_modules("snntorch"), **options)


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
def test_graphs_files_and_networks_are_the_same_network(tmp_path: Path) -> None:
    network = network_of_shapes("4 dense3 lif")
    network.save(tmp_path / "a.nir")
    assert nb.load(network) is network
    assert same_network(nb.load(to_nir(network)), network)
    assert same_network(nb.load(tmp_path / "a.nir"), network)
    assert same_network(nb.load(str(tmp_path / "a.nir"), sample=SAMPLE), network)
    assert nb.load(tmp_path / "a.nir", timing=nb.Timing(dt=1e-4)).dt == 1e-4
    assert nb.load(tmp_path / "a.nir", dt=1e-4, timing=nb.Timing(reset="none")).timing.reset == "none"
    with pytest.raises(nb.errors.UsageError, match=r"0\.002 s, timing says 0\.0001 s"):
        nb.load(tmp_path / "a.nir", dt=2e-3, timing=nb.Timing(dt=1e-4))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a.map.json", "load_map"),
        ("a.q.npz", "load_quantized"),
        ("a.npz", "load_recording"),
        *((f"state.{end}", r"load_weights\(net, PATH\), nb.load\(net, s") for end in ("pt", "ckpt", "safetensors")),
        ("net.py", "give the module"),
        ("net.py:net", "give the module"),
        ("net.onnx", "No such file"),
        ("none.nir", "No such file"),
    ],
)
def test_other_files_name_their_function(path: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(nb.errors.NirbridgeError, match=said):
        nb.load(tmp_path / path)


def test_weights_alone_are_not_a_module() -> None:
    state = torch.nn.Linear(4, 3).state_dict()
    for given in (state, {"state_dict": state, "epoch": 3}):
        with pytest.raises(nb.errors.UsageError, match="build the module and give it: net.load_state_dict"):
            nb.load(given)


def test_a_node_is_not_a_graph() -> None:
    nir = pytest.importorskip("nir")
    with pytest.raises(nb.errors.UsageError, match="a LIF, .*wrap it with nir.NIRGraph.from_list"):
        nb.load(nir.LIF(*[np.ones(3)] * 4))


def test_what_a_file_of_weights_names_loads_them(tmp_path: Path) -> None:
    module = torch.nn.Linear(4, 3)
    torch.save({"state_dict": {f"module.{k}": v + 1 for k, v in module.state_dict().items()}}, tmp_path / "last.ckpt")
    with pytest.raises(nb.errors.UsageError) as raised:
        nb.load(tmp_path / "last.ckpt")
    called = raised.value.problems[0].hint.partition("give it: ")[2].partition("(net, PATH)")[0]
    room, _, name = called.rpartition(".")
    before = module.weight.detach().clone()
    getattr(importlib.import_module(room), name)(module, tmp_path / "last.ckpt")
    assert torch.equal(module.weight, before + 1)


def test_a_class_of_modules_is_not_a_module() -> None:
    with pytest.raises(nb.errors.UsageError, match="give an instance, not the class"):
        nb.load(torch.nn.ReLU)


def test_results_are_not_models() -> None:
    network = network_of_shapes("4 dense3 lif")
    with pytest.raises(nb.errors.UsageError, match="a MappedNetwork, .*give the network that it was made from"):
        nb.map(nb.map(network, "loihi1"), "loihi1")  # pyright: ignore[reportArgumentType]


def test_chips_by_name_path_and_value(root: Path) -> None:
    assert nb.chip("loihi2").name == "loihi2"
    mine = nb.chip(root / "examples" / "chips" / "my_chip.toml")
    assert nb.chip(mine) is mine
    assert len(nb.chip(mine, without=[0, 3]).dead_cores) == 2
    with pytest.raises(nb.errors.ChipError, match="loihi2"):
        nb.chip("loihi22")


@pytest.mark.parametrize(
    ("steps", "loops", "said"), [(16, None, "the time steps of its input"), (1, 9, "9 time steps")]
)
def test_a_loop_is_told_with_no_number_that_is_not_its_own(steps: int, loops: int | None, said: str) -> None:
    """The tracer runs a loop over time on as many time steps as it likes."""
    snn = pytest.importorskip("snntorch")

    class Looped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.lif = torch.nn.Linear(4, 3), snn.Leaky(0.9)

        def forward(self, x):
            membrane, spikes = self.lif.init_leaky(), []
            for step in range(loops or x.shape[0]):
                fired, membrane = self.lif(self.fc(x if loops else x[step]), membrane)
                spikes.append(fired)
            return torch.stack(spikes)

    shape = (2, 4) if loops else (steps, 2, 4)
    network = nb.load(Looped(), sample=torch.zeros(shape))
    assert [note for note in network.notes if "loops over" in note] == [
        f"import: forward loops over {said}: imported as one time step"
    ]
