"""States that forward passes to neurons: exactly those that they returned, else refused without the self-check."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers import from_norse, from_snntorch, from_spikingjelly
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
    snn = pytest.importorskip("snntorch", reason="snntorch is not installed")
    norse = pytest.importorskip("norse.torch", reason="norse is not installed")
    jelly = pytest.importorskip("spikingjelly.activation_based.neuron", reason="spikingjelly is not installed")
    from norse.torch.functional.lif import LIFFeedForwardState, LIFState

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
STEPS, BATCH = 7, 2
Given = Callable[..., Any]
"""(outputs of the neuron, number of the time step) -> the states that it is given next."""


class Net(nn.Module):
    """A layer and a neuron. ``given``: see above; ``is_loop``: forward is the time loop, else its states are kept."""

    def __init__(self, neuron: Any, given: Given, start: Any, *, is_loop: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.lif = nn.Linear(6, 4), neuron
        with torch.no_grad():
            self.fc.weight.mul_(4)
        self.given, self.start, self.is_loop = given, start, is_loop
        self.kept: Any = None
        self.count = 0

    def step(self, x: Any, states: Any, k: int) -> Any:
        """Spikes, and the states of the next time step."""
        out = self.lif(self.fc(x), *states)
        return out[0], self.given(out, k)

    def forward(self, x: Any) -> Any:
        if not self.is_loop:
            states = self.start(x[..., :4] * 0) if self.kept is None else self.kept
            out, self.kept = self.step(x, states, self.count)
            return out
        states, spikes = self.start(x[0, ..., :4] * 0), []
        for k, now in enumerate(x):
            out, states = self.step(now, states, k)
            spikes.append(out)
        return torch.stack(spikes)


def leaky() -> Any:
    return snn.Leaky(beta=0.75)


def synaptic() -> Any:
    return snn.Synaptic(alpha=0.5, beta=0.75)


def recurrent() -> Any:
    return snn.RLeaky(beta=0.75, all_to_all=False, V=-0.5)


def recurrent_synaptic() -> Any:
    return snn.RSynaptic(alpha=0.5, beta=0.75, all_to_all=False, V=-0.5)


def zeros(count: int) -> Callable[[Any], Any]:
    return lambda like: (torch.zeros_like(like),) * count


def nothing(like: Any) -> Any:
    return (None,)


Case = tuple[Callable[[], Any], Given, Callable[[Any], Any]]
RIGHT: dict[str, Case] = {
    "Leaky": (leaky, lambda out, k: out[1:], zeros(1)),
    "Leaky, a copy": (leaky, lambda out, k: [out[1].detach().clone().contiguous()], zeros(1)),
    "Synaptic": (synaptic, lambda out, k: [*out[1:]], zeros(2)),
    "Synaptic, copies": (synaptic, lambda out, k: (out[1].clone(), out[2].detach()), zeros(2)),
    "RLeaky": (recurrent, lambda out, k: out, zeros(2)),
    "RSynaptic": (recurrent_synaptic, lambda out, k: out, zeros(3)),
    "Lapicque": (lambda: snn.Lapicque(beta=0.75), lambda out, k: out[1:], zeros(1)),
    "LIFCell": (norse.LIFCell, lambda out, k: (out[1],), nothing),
    "LIFCell, made anew": (norse.LIFCell, lambda out, k: (LIFFeedForwardState(out[1].v, out[1].i.clone()),), nothing),
    "LIFRecurrentCell": (lambda: norse.LIFRecurrentCell(4, 4), lambda out, k: (out[1],), nothing),
    "LIFRecurrentCell, made anew": (
        lambda: norse.LIFRecurrentCell(4, 4), lambda out, k: (LIFState(z=out[0], v=out[1].v, i=out[1].i),), nothing,
    ),
}  # fmt: skip


def scaled(out: Any, scale: Callable[[Any], Any]) -> Any:
    scale(out[1])
    return out[1:]


WRONG: dict[str, tuple[Case, str]] = {
    "Leaky, its spikes": ((leaky, lambda out, k: (out[0],), zeros(1)), "its spikes in place of its membrane potential"),
    "Lapicque, its spikes": (
        (lambda: snn.Lapicque(beta=0.75), lambda out, k: (out[0],), zeros(1)), "its spikes in place of its membrane",
    ),
    "Synaptic, swapped": (
        (synaptic, lambda out, k: (out[2], out[1]), zeros(2)),
        "its membrane potential in place of its synaptic current",
    ),
    "RLeaky, its membrane twice": (
        (recurrent, lambda out, k: (out[1], out[1]), zeros(2)), "its membrane potential in place of its spikes",
    ),
    "RSynaptic, swapped": (
        (recurrent_synaptic, lambda out, k: (out[0], out[2], out[1]), zeros(3)),
        "its membrane potential in place of its synaptic current",
    ),
    "Leaky, half of it": ((leaky, lambda out, k: (out[1] * 0.5,), zeros(1)), "a result of 'mul'"),
    "Leaky, halved in place": ((leaky, lambda out, k: scaled(out, lambda v: v.mul_(0.5)), zeros(1)), "its state|mul"),
    "Leaky, data halved": (
        (leaky, lambda out, k: scaled(out, lambda v: v.data.mul_(0.5)), zeros(1)), "a result of 'overwritten'",
    ),
    "Leaky, a detached one halved": (
        (leaky, lambda out, k: scaled(out, lambda v: v.detach().mul_(0.5)), zeros(1)), "a result of 'overwritten'",
    ),
    "Leaky, a view halved": (
        (leaky, lambda out, k: scaled(out, lambda v: v.view(-1).mul_(0.5)), zeros(1)), "a result of 'overwritten'",
    ),
    "Synaptic, the current from zero": (
        (synaptic, lambda out, k: (torch.zeros_like(out[1]), out[2]), zeros(2)), "zeros",
    ),
    "LIFCell, swapped": (
        (norse.LIFCell, lambda out, k: (LIFFeedForwardState(v=out[1].i, i=out[1].v),), nothing),
        "its synaptic current in place of its membrane potential",
    ),
    "LIFCell, the current from a number": (
        (norse.LIFCell, lambda out, k: (LIFFeedForwardState(v=out[1].v, i=0.0),), nothing), "zeros",
    ),
    "LIFCell, started at a number": (
        (norse.LIFCell, lambda out, k: (out[1],), lambda like: (LIFFeedForwardState(v=0.5, i=torch.zeros_like(like)),)),
        "values that are not zero in place of its membrane potential",
    ),
    "LIFRecurrentCell, swapped": (
        (lambda: norse.LIFRecurrentCell(4, 4), lambda out, k: (LIFState(z=out[1].v, v=out[0], i=out[1].i),), nothing),
        "its membrane potential in place of its spikes",
    ),
}  # fmt: skip


def load(name: str, module: Any, sample: Any) -> Any:
    return (from_norse if name.startswith("LIF") else from_snntorch)(module, sample, check=0)


@pytest.mark.parametrize("is_loop", [True, False])
@pytest.mark.parametrize("name", WRONG)
def test_other_values_in_place_of_a_state_are_refused_without_the_check(name: str, is_loop: bool) -> None:
    (neuron, given, start), words = WRONG[name]
    module = Net(neuron(), given, start, is_loop=is_loop)
    with pytest.raises(ModelError, match=f"'lif'.*(state passed to it in time step .*{words}|state is reset)"):
        load(name, module, torch.zeros((STEPS, BATCH, 6) if is_loop else (BATCH, 6)))


@pytest.mark.parametrize("name", RIGHT)
def test_states_that_are_handed_on_are_imported_and_exact(name: str) -> None:
    neuron, given, start = RIGHT[name]
    torch.manual_seed(3)
    cell = neuron()
    network = from_nir(load(name, Net(cell, given, start), torch.zeros(STEPS, BATCH, 6)))
    load(name, Net(cell, given, start, is_loop=False), torch.zeros(BATCH, 6))
    x = (np.random.default_rng(1).random((60, BATCH, 6)) < 0.5).astype(np.float32)
    with torch.no_grad():
        wanted = Net(cell, given, start)(torch.from_numpy(x)).numpy()
    (found,) = simulate(network, x).recording.arrays.values()
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


# -- parameters and attributes ---------------------------------------------------------------------------------------


class Changed(nn.Module):
    """Changes something in every time step before the neuron is called."""

    def __init__(self, neuron: Any, change: Callable[[Any], None]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.lif, self.change = nn.Linear(6, 4), neuron, change

    def forward(self, x: Any) -> Any:
        self.change(self)
        return self.lif(self.fc(x))


def hidden() -> Any:
    return snn.Leaky(beta=0.75, init_hidden=True)


def set_threshold(net: Any) -> None:
    net.lif.v_threshold = 0.75


def set_beta(net: Any) -> None:
    net.lif.beta = torch.tensor(0.5)


def new_weights(net: Any) -> None:
    net.fc.weight.data = net.fc.weight.data * 0.5


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], None], str]] = {
    "another beta": (hidden, set_beta, "'lif'.*forward changes its 'beta', parameters of a network are fixed"),
    "beta in place": (hidden, lambda net: net.lif.beta.mul_(0.5), "forward changes its 'beta'"),
    "a number": (jelly.LIFNode, set_threshold, "forward changes its 'v_threshold'"),
    "weights in place": (hidden, lambda net: net.fc.weight.mul_(0.5), "a value that forward keeps between calls"),
    "data of weights": (hidden, lambda net: net.fc.weight.data.mul_(0.5), "a value that forward keeps between calls"),
    "other weights": (hidden, new_weights, "a value that forward keeps between calls"),
    "the state in place": (hidden, lambda net: net.lif.mem.zero_(), "forward resets its state in every time step"),
    "data of the state": (hidden, lambda net: net.lif.mem.data.mul_(0.5), "resets its state in every time step"),
    "nothing": (hidden, lambda net: None, ""),
    "a bound that holds": (hidden, lambda net: net.lif.beta.data.clamp_(0, 1), ""),
    "a bound of weights": (hidden, lambda net: net.fc.weight.data.clamp_(-0.125, 0.125), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_module_is_left_as_it_is_and_its_changes_are_refused(name: str) -> None:
    neuron, change, words = CHANGES[name]
    module = Changed(neuron(), change)
    before = copy.deepcopy(module.state_dict())
    attributes = {p: dict(vars(m)) for p, m in module.named_modules()}
    load_module = from_spikingjelly if neuron is jelly.LIFNode else from_snntorch
    if words:
        with pytest.raises(ModelError, match=words):
            load_module(module, torch.zeros(BATCH, 6), check=0)
    else:
        graph = load_module(module, torch.zeros(BATCH, 6), check=0)
        bound = 0.125 if name == "a bound of weights" else 1.0
        (weight,) = (node.weight for node in graph.nodes.values() if hasattr(node, "weight"))
        np.testing.assert_array_equal(weight, module.fc.weight.detach().clamp(-bound, bound).numpy())
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    assert attributes == {p: dict(vars(m)) for p, m in module.named_modules()}
