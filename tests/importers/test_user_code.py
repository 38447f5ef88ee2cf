"""Models in the style of tutorials and papers: equal to the original over three seeds, or refused by name."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers import from_norse, from_snntorch, from_spikingjelly
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.simulate import simulate

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
    snn = pytest.importorskip("snntorch", reason="snntorch is not installed")
    norse = pytest.importorskip("norse.torch", reason="norse is not installed")
    jelly = pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    from spikingjelly.activation_based import functional, layer, neuron
nn = torch.nn

from benchmarks.equivalence_structures import flow_models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
Forward = Callable[[Any, Any], Any]


class Net(nn.Module):
    """Parts for forwards that are written as functions below."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 16), nn.Linear(16, 6)
        self.lif1 = snn.Leaky(beta=0.8, spike_grad=snn.surrogate.fast_sigmoid(slope=25))
        self.lif2 = snn.Leaky(beta=0.7, reset_mechanism="zero", learn_beta=True)


def with_forward(forward: Forward) -> Callable[[], Any]:
    return type("Written", (Net,), {"forward": forward})


def detached(net: Any, x: Any) -> Any:
    mem, out = net.lif1.init_leaky(), []
    for now in x:
        spk, mem = net.lif1(net.fc1(now), mem)
        mem = mem.detach()
        out.append(spk.clone())
    return torch.stack(out)


def layer_by_layer(net: Any, x: Any) -> Any:
    current, mem, hidden = net.fc1(x), net.lif1.init_leaky(), []
    for now in current.unbind(0):
        spk, mem = net.lif1(now, mem)
        hidden.append(spk)
    current, mem, out = net.fc2(torch.stack(hidden)), torch.zeros(x.size(1), 6), []
    for step in range(x.size(0)):
        spk, mem = net.lif2(current[step], mem)
        out.append(spk)
    return torch.stack(out)


def pipelined(net: Any, x: Any) -> Any:
    mem1, mem2, spk1, out = net.lif1.init_leaky(), net.lif2.init_leaky(), torch.zeros(x.size(1), 16), []
    for now in x:
        spk2, mem2 = net.lif2(net.fc2(spk1), mem2)
        spk1, mem1 = net.lif1(net.fc1(now), mem1)
        out.append(spk2)
    return torch.stack(out)


def batch_first(net: Any, x: Any) -> Any:
    mem1, mem2, out = net.lif1.init_leaky(), net.lif2.init_leaky(), []
    for step in range(x.size(1)):
        spk1, mem1 = net.lif1(net.fc1(x[:, step]), mem1)
        spk2, mem2 = net.lif2(net.fc2(spk1), mem2)
        out.append(spk2)
    return torch.stack(out, dim=1)


class NorseTutorial(nn.Module):
    """Norse's MNIST tutorial in small, its ReLU of spikes included."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc, self.out = nn.Conv2d(1, 4, 3), nn.Linear(36, 12), norse.LILinearCell(12, 5)
        self.lif0, self.lif1 = norse.LIFCell(), norse.LIFCell()

    def forward(self, x: Any) -> Any:
        s0 = s1 = so = None
        voltages = []
        for now in x:
            z, s0 = self.lif0(self.conv(now), s0)
            z = nn.functional.avg_pool2d(nn.functional.relu(z), 2, 2)
            z, s1 = self.lif1(self.fc(z.view(-1, 36)), s1)
            v, so = self.out(nn.functional.relu(z), so)
            voltages.append(v)
        return torch.stack(voltages)


def hand_made_trace(net: Any, x: Any) -> Any:
    mem, trace, out = net.lif1.init_leaky(), torch.zeros(x.size(1), 12), []
    for now in x:
        trace = 0.9 * trace + now
        spk, mem = net.lif1(net.fc1(trace), mem)
        out.append(spk)
    return torch.stack(out)


def first(module: Any, inputs: Any) -> Any:
    found = module(inputs[0])
    return found[0] if isinstance(found, tuple) else found


def batch_in_front(module: Any, inputs: Any) -> Any:
    return module(inputs[0].transpose(0, 1)).transpose(0, 1)


def measured(framework: str, make: Callable[[], Any], run: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    from benchmarks.equivalence_measure import measure
    from benchmarks.equivalence_model import Model

    return measure(Model(framework, "user", make, run, shapes or ((12,),), **options), others=False)


@pytest.mark.parametrize(
    "forward",
    [detached, layer_by_layer, pipelined, hand_made_trace],
    ids=lambda f: f.__name__,
)
def test_loops_over_time(forward: Forward) -> None:
    cell = measured("snnTorch", with_forward(forward), first, scale=1.0).reference
    assert cell.equal == cell.cells


def test_a_loop_with_the_batch_in_front() -> None:
    """A sample with a batch axis of one is no sequence of one step."""
    cell = measured("snnTorch", with_forward(batch_first), batch_in_front, scale=1.0).reference
    assert cell.equal == cell.cells


@pytest.mark.parametrize("model", list(flow_models()), ids=lambda model: model.name)
def test_a_structure_of_the_page_of_equivalence(model: Any) -> None:
    from benchmarks.equivalence_measure import measure

    cell = measure(model, others=False).reference
    assert cell.equal == cell.cells


def test_a_relu_of_spikes_changes_nothing() -> None:
    row = measured("Norse", NorseTutorial, first, (1, 8, 8), kind="potential", dt=None)
    assert row.reference.worst < 1e-5 * row.span
    with pytest.raises(ModelError, match="ReLU"):
        from_norse(norse.SequentialState(nn.Linear(4, 4), nn.ReLU(), norse.LIFCell()), torch.zeros(1, 4))


def test_votes() -> None:
    """spikingjelly's VotingLayer splits an axis and pools it; NIR cannot split, so it is a matrix."""
    from benchmarks.equivalence_models_jelly import stepped

    make = lambda: nn.Sequential(layer.Linear(12, 20), neuron.IFNode(), layer.VotingLayer(5))  # noqa: E731
    cell = measured("spikingjelly", make, stepped, scale=1.0).reference
    assert cell.equal == cell.cells


class Static(nn.Module):
    """spikingjelly's tutorial: one image, repeated for all steps, and the mean rate."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.body = nn.Sequential(
            layer.Conv2d(1, 4, 3, bias=False), neuron.IFNode(), layer.AvgPool2d(2), layer.Flatten(),
            layer.Linear(36, 5, bias=False), neuron.IFNode(),
        )  # fmt: skip
        functional.set_step_mode(self, "m")

    def forward(self, x: Any) -> Any:
        return self.body(x.unsqueeze(0).repeat(self.steps, 1, 1, 1, 1)).mean(0)


def test_one_image_for_all_steps() -> None:
    from benchmarks.equivalence_model import fill

    steps, net = 50, Static(50)
    fill(net, 2.0, 0, grid=True)
    image = (np.random.default_rng(0).random((4, 1, 8, 8)) < 0.5).astype(np.float32)
    with torch.no_grad():
        wanted = net(torch.from_numpy(image)).numpy() * steps
    network = from_nir(from_spikingjelly(net, image[:1]))
    fed = np.broadcast_to(image, (steps, *image.shape))
    (found,) = simulate(network, fed).recording.arrays.values()
    assert 0.05 < wanted.mean() / steps < 0.95
    np.testing.assert_allclose(found.sum(0), wanted, atol=1e-4)


class OtherMembrane(snn.Leaky):
    def _base_state_function(self, input_: Any) -> Any:
        return self.beta * self.mem + 2 * input_


class CurvedMembrane(snn.Leaky):
    def _base_state_function(self, input_: Any) -> Any:
        return self.beta * self.mem * self.mem + input_


class OtherName(snn.Leaky):
    def extra_repr(self) -> str:
        return "mine"


def test_a_subclass_that_changes_the_neuron_is_read_as_it_computes_or_refused() -> None:
    def make(kind: Any) -> Any:
        return nn.Sequential(nn.Linear(12, 8), kind(beta=0.5, init_hidden=True))

    with pytest.raises(ModelError, match="'1'.*a threshold were found; it depends on mul of its state"):
        from_snntorch(make(CurvedMembrane), torch.zeros(12))
    graph = from_snntorch(make(OtherMembrane), torch.zeros(12))
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == "identical"
    from_snntorch(make(OtherName), torch.zeros(12))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: snn.Leaky(beta=0.5, threshold=-0.5, init_hidden=True), "a threshold below zero with a reset"),
        (lambda: snn.Synaptic(alpha=0.5, beta=0.0, init_hidden=True), "beta = 0 after a current"),
        (lambda: snn.RSynaptic(alpha=0.5, beta=0.0, linear_features=8, init_hidden=True), "beta = 0 after a current"),
    ],
)
def test_corners_without_a_form(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        from_snntorch(nn.Sequential(nn.Linear(12, 8), make()), torch.zeros(12))


def reset_every_tenth(net: Any, x: Any) -> Any:
    mem, out = net.lif1.init_leaky(), []
    for step in range(x.size(0)):
        mem = net.lif1.init_leaky() if step % 10 == 0 else mem
        spk, mem = net.lif1(net.fc1(x[step]), mem)
        out.append(spk)
    return torch.stack(out)


def warm_up(net: Any, x: Any) -> Any:
    mem, out = net.lif1.init_leaky(), []
    for step in range(x.size(0)):
        spk, mem = net.lif1(net.fc1(x[step]) * (0.0 if step < 5 else 1.0), mem)
        out.append(spk)
    return torch.stack(out)


@pytest.mark.parametrize("forward", [reset_every_tenth, warm_up], ids=lambda f: f.__name__)
def test_steps_that_are_not_alike_are_refused(forward: Forward) -> None:
    with pytest.raises(ModelError):
        from_snntorch(with_forward(forward)(), torch.zeros(1, 12))
