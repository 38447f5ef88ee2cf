"""Memory of imports and files: values are freed, constants stored once, bytes limited; weights are uncompressed."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers import load_nir, save_nir
from nirbridge.network import Network, from_nir
from nirbridge.network.equality import same_network

nir = pytest.importorskip("nir")
torch = pytest.importorskip("torch")
snn = pytest.importorskip("snntorch")

from nirbridge.importers.frameworks import snntorch  # noqa: E402
from nirbridge.importers.frameworks.snntorch import from_snntorch  # noqa: E402
from nirbridge.importers.lowering import described_graph  # noqa: E402
from nirbridge.importers.tracing import memory  # noqa: E402
from nirbridge.importers.tracing.run import record_forward  # noqa: E402
from nirbridge.importers.tracing.structures import LARGE, RandomResults  # noqa: E402


class Net(torch.nn.Module):
    """20-24-10, and its loop over the first axis."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.l1 = torch.nn.Linear(20, 24), snn.Leaky(0.9)
        self.fc2, self.l2 = torch.nn.Linear(24, 10), snn.Leaky(0.9)

    def forward(self, x: Any) -> Any:
        m1, m2, out = self.l1.init_leaky(), self.l2.init_leaky(), None
        for step in x:
            s1, m1 = self.l1(self.fc1(step), m1)
            out, m2 = self.l2(self.fc2(s1), m2)
        return out


def alive_at_most(steps: int) -> int:
    """The most tensors of neurons that are alive at one time in a loop of so many steps."""
    seen: list[weakref.ref[Any]] = []
    most = [0]

    def noise(tensor: Any) -> None:
        seen.append(weakref.ref(tensor))
        most[0] = max(most[0], sum(reference() is not None for reference in seen))

    net = Net()
    recording = record_forward(
        net, dict(net.named_modules()), snntorch.neuron_specs(), [{"x": torch.ones(steps, 2, 20)}], noise
    )
    assert sum(node.kind == "neuron" for node in recording.nodes) == 2 * steps
    return most[0]


def test_values_live_as_long_as_the_forward_needs_them() -> None:
    assert alive_at_most(60) == alive_at_most(10) < 12


def test_the_imported_network_is_gone_before_its_graph_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else three copies of the weights live during the check: of the network, of the graph, of the check's network."""
    made: list[weakref.ref[Network]] = []
    alive: list[bool] = []

    def emitted(network: Network, *_: Any) -> Network:
        made.append(weakref.ref(network))
        return network

    def check(*_: Any, **__: Any) -> dict[str, Any]:
        alive.extend(reference() is not None for reference in made)
        return {"outcome": "skipped", "text": "", "outputs": 0, "inputs": 0, "ties": []}

    monkeypatch.setattr(described_graph, "with_emitted_names", emitted)
    monkeypatch.setattr("nirbridge.verification.self_check.self_check", check)
    from_snntorch(Net(), torch.zeros(7, 4, 20))
    assert alive == [False]


def test_a_recording_over_its_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, "2000")
    with pytest.raises(ModelError) as caught:
        from_snntorch(Net(), torch.zeros(7, 4, 20))
    [problem] = caught.value.problems
    assert "bytes or more at one time" in problem.found
    assert "2,000 bytes" in problem.limit
    assert "one sample of one time step, or set NIRBRIDGE_RECORDING_BYTES=4000" in problem.hint
    monkeypatch.setenv(memory.VARIABLE, "many")
    with pytest.raises(UsageError, match=memory.VARIABLE):
        from_snntorch(Net(), torch.zeros(7, 4, 20))


def test_what_a_neuron_needs_inside_counts() -> None:
    budget = memory.MemoryBudget(1000)
    budget.check_room((torch.zeros(80),))
    with pytest.raises(memory.TooLarge):
        budget.check_room((torch.zeros(90),))


def test_bytes_of_freed_tensors_are_given_back() -> None:
    budget = memory.MemoryBudget(1000)
    for _ in range(5):
        budget.add(torch.zeros(200))
    assert (budget.held, budget.peak) == (0, 800)
    kept = torch.zeros(150)
    budget.add(kept)
    budget.add(kept[3:])  # a view has no bytes of its own
    assert budget.held == 600


def test_memory_that_large_tensors_leave_is_handed_back_while_a_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(memory, "trim_memory", lambda: trims.append(1))
    budget = memory.MemoryBudget(10**9)
    for _ in range(40):
        budget.add(torch.zeros(2**18))  # 1 MiB
    assert len(trims) == 2
    for _ in range(40):
        budget.add(torch.zeros(2**17))  # used again at once
    assert len(trims) == 2


def test_equal_constants_are_stored_once_as_they_were() -> None:
    constants = memory.TensorConstants(memory.MemoryBudget(10**9))
    tensor = torch.arange(6.0)
    first = constants.kept(tensor)
    assert constants.kept(tensor.clone()) is first
    tensor += 1
    assert first.tolist() == [0, 1, 2, 3, 4, 5]
    assert constants.kept(tensor) is not first
    assert constants.kept(tensor.double()).dtype == torch.float64
    uniform = constants.kept(torch.full((300, 400), 2.0))
    assert uniform.shape == (300, 400)
    assert uniform.untyped_storage().nbytes() == 4
    assert bool((uniform == 2).all())
    spread = constants.kept(torch.arange(3.0).reshape(3, 1).expand(3, 50))
    assert spread[:, 7].tolist() == [0, 1, 2]


def test_a_tensor_at_the_address_of_a_dead_one_is_another() -> None:
    known = memory.TensorIdentities()
    tensor = torch.zeros(3)
    known.set(tensor, "value")
    assert known.get(tensor) == "value"
    known.known[id(other := torch.zeros(3))] = known.known.pop(id(tensor))
    assert known.get(other) is None


class Counting(torch.nn.Module):
    """Its input is weighed by a number that each call changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.neuron = torch.nn.Linear(20, 10), snn.Leaky(0.9)
        self.register_buffer("count", torch.ones(20))

    def forward(self, x: Any) -> Any:
        state = self.neuron.init_leaky()
        spikes = []
        for step in x:
            out, state = self.neuron(self.fc(step * self.count), state)
            self.count += 1
            spikes.append(out)
        return torch.stack(spikes)


def test_a_constant_that_is_changed_in_place_later_is_seen_to_differ() -> None:
    with pytest.raises(ModelError, match="with inputs that are not computed alike in every time step"):
        from_snntorch(Counting(), torch.zeros(20))


class Kept(torch.nn.Module):
    """A neuron class whose copy is itself must stay whole."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.neuron = torch.nn.Linear(4, 3), snn.Leaky(0.9, init_hidden=True)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def forward(self, x: Any) -> Any:
        return self.neuron(self.fc(x))


def test_a_module_that_gives_itself_as_copy_is_left_whole() -> None:
    module = torch.nn.Sequential(Kept())
    from_snntorch(module, torch.zeros(4))
    assert module(torch.zeros(1, 4)).shape == (1, 3)


def test_large_layers_are_not_computed_and_small_ones_are() -> None:
    weight, x = torch.zeros(4096, 4096), torch.ones(2, 4096)
    torch.manual_seed(1)
    first = RandomResults().result(torch.nn.functional.linear, "linear", (x, weight), {})
    assert first.shape == (2, 4096)
    assert x.numel() * 4096 >= LARGE
    assert float(first.std()) == pytest.approx(1, abs=0.1)
    torch.manual_seed(2)
    assert not torch.equal(first, RandomResults().result(torch.nn.functional.linear, "linear", (x, weight), {}))
    small = RandomResults().result(torch.nn.functional.linear, "linear", (x[:, :3], weight[:5, :3]), {})
    assert not small.any()
    images = RandomResults().result(
        torch.nn.functional.conv2d, "conv2d", (torch.ones(2, 64, 64, 64), torch.ones(64, 64, 3, 3)), {"stride": 2}
    )
    assert images.shape == (2, 64, 31, 31)


def graph_of(weight: Any) -> Any:
    n = weight.shape[0]
    vector = np.ones(n)
    neuron = nir.LIF(
        tau=vector * 0.02, r=vector, v_leak=vector * 0, v_threshold=np.linspace(1, 2, n), v_reset=vector * -0.0
    )
    nodes = {
        "input": nir.Input({"input": np.array([weight.shape[1]])}),
        "fc": nir.Linear(weight),
        "lif": neuron,
        "output": nir.Output({"output": np.array([n])}),
    }
    return nir.NIRGraph(nodes, [("input", "fc"), ("fc", "lif"), ("lif", "output")], metadata={"note": "µ"})


def test_weights_are_stored_as_they_are_and_one_number_as_a_fill_value(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32)
    path = tmp_path / "a.nir"
    save_nir(graph_of(weight), path)
    with h5py.File(path) as file:
        node = file["node/nodes"]
        assert node["fc/weight"].compression is None
        assert node["lif/tau"].id.get_storage_size() == 0
        assert node["lif/v_threshold"][-1] == 2
    assert path.stat().st_size < weight.nbytes + 20_000 * 8 + 50_000


@pytest.mark.parametrize("rows", [30, 20_000])
def test_what_was_stored_is_read_back_by_both_readers(tmp_path: Path, rows: int) -> None:
    pattern = np.random.default_rng(0).normal(size=(rows, 50)).astype(np.float32)
    for k, weight in enumerate((pattern, np.ones((rows, 50), np.float32), np.asfortranarray(pattern), pattern > 1)):
        graph = graph_of(np.asarray(weight, np.float32))
        path = tmp_path / f"{k}.nir"
        save_nir(graph, path)
        for found in (load_nir(path), nir.read(path)):
            assert list(found.edges) == graph.edges
            assert found.metadata == {"note": "µ"}
            np.testing.assert_array_equal(found.nodes["fc"].weight, weight)
            for field in ("tau", "r", "v_leak", "v_threshold", "v_reset"):
                stored = getattr(found.nodes["lif"], field)
                assert stored.tobytes() == getattr(graph.nodes["lif"], field).tobytes(), field
        assert same_network(from_nir(load_nir(path)), from_nir(graph))


def test_many_zeros_are_packed(tmp_path: Path) -> None:
    weight = np.zeros((2000, 500), np.float32)
    weight[::7, 3] = np.arange(286)
    save_nir(graph_of(weight), tmp_path / "a.nir")
    assert (tmp_path / "a.nir").stat().st_size < weight.nbytes / 5
    np.testing.assert_array_equal(load_nir(tmp_path / "a.nir").nodes["fc"].weight, weight)


def test_one_changed_element_among_equal_ones_is_kept(tmp_path: Path) -> None:
    weight = np.zeros((20_000, 50), np.float32)
    weight[19_999, 49] = -0.0
    save_nir(graph_of(weight), tmp_path / "a.nir")
    assert load_nir(tmp_path / "a.nir").nodes["fc"].weight.tobytes() == weight.tobytes()


def test_saving_holds_the_weights_once_more_at_most(tmp_path: Path) -> None:
    graph = graph_of(np.random.default_rng(0).normal(size=(4000, 2500)).astype(np.float32))
    size = graph.nodes["fc"].weight.nbytes
    tracemalloc.start()
    try:
        save_nir(graph, tmp_path / "a.nir")
        assert tracemalloc.get_traced_memory()[1] < 1.3 * size
        tracemalloc.reset_peak()
        load_nir(tmp_path / "a.nir")
        assert tracemalloc.get_traced_memory()[1] < 1.3 * size
    finally:
        tracemalloc.stop()


def test_neurons_of_one_kind_cost_one_number() -> None:
    convolution = torch.nn.Conv2d(1, 8, 3, padding=1)
    module = torch.nn.Sequential(convolution, snn.Leaky(0.9, init_hidden=True))
    graph = from_snntorch(module, torch.zeros(1, 128, 128))
    assert graph.nodes["1"].tau.shape == (8, 128, 128)
    assert graph.nodes["1"].tau.strides == (0, 0, 0)


MEASURED = """
import os, resource, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
import torch, snntorch as snn
import nirbridge.importers.lowering.build
from nirbridge.importers import from_snntorch, load_nir, save_nir

def status(word):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(word))

def peak_of(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    result = work()
    return result, status("VmHWM") - before

def neuron():
    return snn.Leaky(0.9, init_hidden=True)

layers, channels = [], 3
for count in ({blocks}):
    if count:
        layers += [torch.nn.Conv2d(channels, count, 3, padding=1), neuron()]
        channels = count
    else:
        layers.append(torch.nn.AvgPool2d(2))
layers += [torch.nn.Flatten()]
for a, b in ({widths}):
    layers += [torch.nn.Linear(a, b), neuron()]
net = torch.nn.Sequential(*layers)
size = sum(p.numel() * 4 for p in net.parameters())
begin = time.process_time()
graph, imported = peak_of(lambda: from_snntorch(net, torch.zeros({sample})))
with tempfile.TemporaryDirectory() as folder:
    _, saved = peak_of(lambda: save_nir(graph, folder + "/a.nir"))
    seconds = time.process_time() - begin
    _, loaded = peak_of(lambda: load_nir(folder + "/a.nir"))
print(size, imported, saved, loaded, seconds)
"""


def measured(**parts: str) -> tuple[float, ...]:
    """(Bytes of the parameters, peaks of import, save and load, CPU seconds of import and save), in a new process."""
    code = MEASURED
    for name, text in parts.items():
        code = code.replace("{" + name + "}", text)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(float(word) for word in run.stdout.split())


def check_peaks(size: float, *peaks: float) -> None:
    assert all(peak <= 2.5 * size + 300e6 for peak in peaks), (size, peaks)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_peaks_of_a_small_network() -> None:
    *sizes, _ = measured(blocks="32, 0, 64, 0,", widths="(4096, 2000), (2000, 10),", sample="3, 32, 32")
    check_peaks(*sizes)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_peaks_of_large_layers_with_few_parameters() -> None:
    *sizes, _ = measured(blocks="32, 32, 0, 32,", widths="", sample="1, 3, 256, 256")
    check_peaks(*sizes)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_vgg16_at_224() -> None:
    """138 million parameters (Simonyan and Zisserman 2014, configuration D), with a neuron after every layer."""
    blocks = "64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0,"
    widths = "(25088, 4096), (4096, 4096), (4096, 1000),"
    *sizes, seconds = measured(blocks=blocks, widths=widths, sample="3, 224, 224")
    assert sizes[0] == 4 * 138_357_544
    check_peaks(*sizes)
    assert seconds < 20


class Joined(torch.nn.Module):
    """Two layers of neurons whose sum goes through a convolution of over 65,536 weights and a BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 96, 1), torch.nn.Conv2d(1, 96, 1)
        self.joined, self.norm = torch.nn.Conv2d(96, 96, 3, padding=1, bias=False), torch.nn.BatchNorm2d(96)
        self.l1, self.l2, self.l3 = (snn.Leaky(0.9, init_hidden=True) for _ in range(3))

    def forward(self, x: Any) -> Any:
        return self.l3(self.norm(self.joined(self.l1(self.first(x)) + self.l2(self.second(x)))))


def test_weights_behind_a_sum_of_spikes_are_held_once(tmp_path: Path) -> None:
    """In the graph, in the network that the check reads from it, and not in the file, which holds them as before."""
    graph = from_snntorch(Joined().eval(), torch.zeros(1, 5, 5), check=0)
    first, second = (
        node.weight for node in graph.nodes.values() if np.shape(getattr(node, "weight", 0))[:2] == (96, 96)
    )
    assert first is second
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
    weights = [p.operator.weight for p in from_nir(graph).projections if p.target == "l3"]
    assert len(weights) == 2
    assert all(weight is first for weight in weights)
    save_nir(graph, tmp_path / "net.nir")
    again = load_nir(tmp_path / "net.nir")
    first, second = (
        node.weight for node in again.nodes.values() if np.shape(getattr(node, "weight", 0))[:2] == (96, 96)
    )
    assert first is not second
    assert same_network(from_nir(again), from_nir(graph))
