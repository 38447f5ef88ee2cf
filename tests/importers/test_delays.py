"""Delays of published models: spikingjelly's ``layer.Delay``, histories, convolutions over time, DCLS."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError, UnequalImport
from nirbridge.importers.neuron_specs import quietly
from nirbridge.network import Network, apply, from_nir
from nirbridge.simulators.simulate import simulate
from tests.importers.small_nets import FEATURES, imported, nn, notes_of_equal, snn, spikes, torch

with quietly():
    pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    from spikingjelly.activation_based import functional, layer, neuron
pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 20


def drawn(module: Any) -> Any:
    """The module in eval mode with parameters on a grid, biases among them, so large that neurons fire."""
    source = torch.Generator().manual_seed(0)
    for value in (p for p in module.parameters() if p.numel() > 1):
        value.data = torch.randint(-40, 60, value.shape, generator=source) / 32
    return module.eval()


def delays(network: Network) -> set[int]:
    return {int(p.max_delay_steps) for p in network.projections}


def synapses_of(network: Network, target: str) -> int:
    found = [p.operator for p in network.projections if p.target == target]
    return sum(np.count_nonzero(apply(operator, np.eye(*operator.input_shape * 2))) for operator in found)


def equal_import(module: Any, framework: str = "spikingjelly", *, sample: Any = None) -> Network:
    """The import of a module that takes (time, batch, values), compared with a run of it besides the self-check."""
    x = spikes(STEPS, 2, FEATURES) if sample is None else sample
    graph = imported(module, x, framework)
    notes_of_equal(graph)
    network = from_nir(graph)
    functional.reset_net(module)
    with torch.no_grad():
        original = module(x).numpy()
    assert original.any()
    assert np.array_equal(simulate(network, x.numpy()).recording["output", "s"], original)
    return network


class Delayed(nn.Module):
    """Two layers and a delay at one of three places, called in a loop over time or all time steps at once."""

    def __init__(self, place: int, steps: int = 3, mode: str = "s") -> None:
        super().__init__()
        parts = [layer.Linear(FEATURES, 10), neuron.LIFNode(), layer.Linear(10, 4), neuron.LIFNode()]
        parts.insert(place, layer.Delay(steps))
        self.net = drawn(nn.Sequential(*parts))
        functional.set_step_mode(self, mode)
        self.mode = mode

    def forward(self, x: Any) -> Any:
        return self.net(x) if self.mode == "m" else torch.stack([self.net(now) for now in x])


@pytest.mark.parametrize("mode", ["s", "m"])
@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_a_delay_module_is_a_delay(place: int, mode: str) -> None:
    assert delays(equal_import(Delayed(place, mode=mode))) == {0, 3}


def test_a_delay_module_may_be_longer_than_the_trace() -> None:
    assert delays(equal_import(Delayed(2, 15))) == {0, 15}


def test_a_constant_in_front_of_a_delay_is_late_too() -> None:
    network = equal_import(Delayed(1))
    always = network.population("always")
    assert (always.size, bool(always.neuron.bias > always.neuron.theta)) == (1, True)


def test_a_delay_that_is_called_once_per_time_step() -> None:
    graph = imported(drawn(Delayed(2).net), spikes(2, FEATURES), "spikingjelly")
    notes_of_equal(graph)
    assert delays(from_nir(graph)) == {0, 3}


class Twice(nn.Module):
    """One queue for the values of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.cell, self.late = layer.Linear(FEATURES, FEATURES), neuron.LIFNode(), layer.Delay(2)

    def forward(self, x: Any) -> Any:
        return torch.stack([self.late(self.cell(self.fc(self.late(now)))) for now in x])


def test_a_delay_called_twice_per_time_step_is_refused() -> None:
    with pytest.raises(ModelError, match="module 'late': a delay called 24 times in 12 time steps"):
        imported(drawn(Twice()), spikes(STEPS, 2, FEATURES), "spikingjelly")


# -- histories -----------------------------------------------------------------------------------------------------


class History(nn.Module):
    """Two layers of snnTorch in a loop over time; ``past`` has what the second one is given."""

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.fc1, self.fc2, self.fc3 = nn.Linear(FEATURES, 10), nn.Linear(10, 4), nn.Linear(10, 4)
        self.lif1, self.lif2 = snn.Leaky(beta=0.75, threshold=0.5), snn.Leaky(beta=0.5, threshold=0.5)
        drawn(self)

    def forward(self, x: Any) -> Any:
        mem1, mem2, out = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        self.begin(x)
        for t in range(x.shape[0]):
            spk, mem1 = self.lif1(self.fc1(self.seen(x, t)), mem1)
            spk, mem2 = self.lif2(self.past(spk, t), mem2)
            out.append(spk)
        return torch.stack(out)

    def begin(self, x: Any) -> None:
        self.history: Any = []

    def seen(self, x: Any, t: int) -> Any:
        return x[t]

    def past(self, spk: Any, t: int) -> Any:
        return self.fc2(spk)


class Queue(History):
    def begin(self, x: Any) -> None:
        self.history = collections.deque([torch.zeros(x.shape[1], 10)] * (self.steps + 1), maxlen=self.steps + 1)

    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(self.history[0]) + self.fc3(self.history[-2])


class Spikes(History):
    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(self.history[t - self.steps] if t >= self.steps else torch.zeros_like(spk))


class Skipped(Spikes):
    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        current = self.fc3(spk)
        if t >= self.steps:
            current = current + nn.functional.linear(self.history[t - self.steps], self.fc2.weight)
        return current


class Pointer(History):
    """A ring with a pointer: the place that is read is written next."""

    def begin(self, x: Any) -> None:
        self.history = torch.zeros(self.steps, x.shape[1], 10)

    def past(self, spk: Any, t: int) -> Any:
        late = self.fc2(self.history[t % self.steps].clone())
        self.history[t % self.steps] = spk
        return late


class Ring(History):
    """A tensor of the last spikes, [steps, batch, values]."""

    def begin(self, x: Any) -> None:
        self.history = torch.zeros(self.steps + 1, x.shape[1], 10)


class Rolled(Ring):
    def past(self, spk: Any, t: int) -> Any:
        self.history = torch.roll(self.history, 1, 0)
        self.history[0] = spk
        return self.fc2(self.history[-1]) + self.fc3(self.history[1])


class Pushed(Ring):
    def past(self, spk: Any, t: int) -> Any:
        self.history = torch.cat([self.history[1:], spk.unsqueeze(0)])
        return self.fc2(self.history[0]) + self.fc3(self.history[-2])


class PushedInFront(Ring):
    def past(self, spk: Any, t: int) -> Any:
        self.history = torch.cat((spk[None], self.history[:-1]), dim=0)
        return self.fc2(self.history[self.steps])


class AllDelays(History):
    """A Linear over the spikes of several time steps, from a rolled tensor [batch, values, steps]."""

    def __init__(self) -> None:
        super().__init__()
        self.fc2 = drawn(nn.Linear(30, 4, bias=False))

    def begin(self, x: Any) -> None:
        self.history = torch.zeros(x.shape[1], 10, self.steps + 1)

    def past(self, spk: Any, t: int) -> Any:
        self.history = self.history.roll(1, dims=2)
        self.history[:, :, 0] = spk
        return self.fc2(self.history[:, :, [0, 2, 4]].transpose(1, 2).flatten(1))


class Window(AllDelays):
    """The same with the whole tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.fc2 = drawn(nn.Linear(50, 4, bias=False))

    def past(self, spk: Any, t: int) -> Any:
        self.history = self.history.roll(1, dims=2)
        self.history[:, :, 0] = spk
        return self.fc2(self.history.flatten(1))


class PerNeuron(History):
    """Axonal delays: each neuron has its own."""

    def past(self, spk: Any, t: int) -> Any:
        self.history = [spk, *(self.history or [torch.zeros_like(spk)] * self.steps)[: self.steps]]
        return self.fc2(torch.stack([self.history[k % (self.steps + 1)][:, k] for k in range(10)], dim=1))


class Inputs(History):
    def seen(self, x: Any, t: int) -> Any:
        return x[t] + (x[t - self.steps] if t >= self.steps else torch.zeros_like(x[0]))


HISTORIES = {
    Queue: {0, 1, 4},
    Spikes: {0, 4},
    Skipped: {0, 4},
    Pointer: {0, 4},
    Rolled: {0, 1, 4},
    Pushed: {0, 1, 4},
    PushedInFront: {0, 4},
    AllDelays: {0, 2, 4},
    Window: {0, 1, 2, 3, 4},
    PerNeuron: {0, 1, 2, 3, 4},
    Inputs: {0, 4},
}


@pytest.mark.parametrize("kind", HISTORIES, ids=lambda kind: kind.__name__)
def test_a_history_is_a_delay(kind: Any) -> None:
    assert delays(equal_import(kind(), "snntorch")) == HISTORIES[kind]


@pytest.mark.parametrize("kind", [Queue, Spikes, Skipped, Pointer, Rolled, Pushed], ids=lambda kind: kind.__name__)
def test_a_history_may_be_longer_than_the_trace(kind: Any) -> None:
    assert max(delays(equal_import(kind(14), "snntorch"))) == 14


class Recurrent(History):
    def forward(self, x: Any) -> Any:
        mem, out = self.lif1.init_leaky(), [torch.zeros(x.shape[1], 10)] * self.steps
        for now in x:
            spk, mem = self.lif1(self.fc1(now) + out[-self.steps] @ self.fc3.weight.T @ self.fc2.weight, mem)
            out.append(spk)
        return torch.stack(out[self.steps :])


def test_neurons_may_hear_themselves_several_time_steps_later() -> None:
    assert delays(equal_import(Recurrent(), "snntorch")) == {0, 4}


class Growing(Spikes):
    """All spikes so far: no delay, since their number grows."""

    def past(self, spk: Any, t: int) -> Any:
        self.history.append(spk)
        return self.fc2(sum(0.5**k * old for k, old in enumerate(reversed(self.history))))


class Burnt(History):
    def forward(self, x: Any) -> Any:
        return super().forward(x)[2:].permute(1, 0, 2).flatten(1)


class Listed(History):
    def forward(self, x: Any) -> Any:
        return torch.cat(list(super().forward(x))[2:], dim=1)


@pytest.mark.parametrize("kind", [Growing, Burnt, Listed], ids=lambda kind: kind.__name__)
def test_what_depends_on_the_number_of_time_steps_is_refused(kind: Any) -> None:
    with pytest.raises(ModelError) as error:
        imported(kind(), spikes(STEPS, 2, FEATURES))
    assert not isinstance(error.value, UnequalImport)


class Waiting(Queue):
    """A module of one time step: the queue is kept between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.lif1, self.lif2 = (snn.Leaky(beta=beta, threshold=0.5, init_hidden=True) for beta in (0.75, 0.5))
        self.history = collections.deque(maxlen=self.steps)

    def forward(self, x: Any) -> Any:
        late = self.history[0] if len(self.history) == self.steps else torch.zeros(x.shape[0], 10)
        self.history.append(self.lif1(self.fc1(x)))
        return self.lif2(self.fc2(late))


def test_a_queue_that_is_kept_between_calls() -> None:
    graph = imported(drawn(Waiting()), spikes(2, FEATURES))
    assert "imported as connections delayed by up to 4 time steps" in notes_of_equal(graph)
    assert delays(from_nir(graph)) == {0, 4}


# -- along the time axis -------------------------------------------------------------------------------------------


class Shifted(nn.Module):
    """Two layers on whole sequences, ``how`` a function of the spikes between them, [time, batch, values]."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        parts = [layer.Linear(FEATURES, 10), neuron.LIFNode(), layer.Linear(10, 4), neuron.LIFNode()]
        self.fc1, self.cell1, self.fc2, self.cell2 = drawn(nn.ModuleList(parts))
        functional.set_step_mode(self, "m")
        self.how = how

    def forward(self, x: Any) -> Any:
        return self.cell2(self.fc2(self.how(self.cell1(self.fc1(x)))))


def rolled(s: Any) -> Any:
    late = torch.roll(s, 3, 0)
    late[:3] = 0
    return late


def written(s: Any) -> Any:
    late = torch.zeros_like(s)
    late[3:] = s[:-3]
    return late


LATE = {
    "roll and zeros": rolled,
    "written into zeros": written,
    "zeros in front": lambda s: torch.cat([torch.zeros_like(s[:3]), s[:-3]]),
    "padding": lambda s: nn.functional.pad(s, (0, 0, 0, 0, 3, 0))[: len(s)],
    "functional.delay": lambda s: functional.delay(s, 3),
    "time steps one by one": lambda s: torch.stack([torch.zeros_like(s[0])] * 3 + [s[t] for t in range(len(s) - 3)]),
    "through other axes": lambda s: nn.functional.pad(s.permute(1, 2, 0), (3, 0))[..., :-3].permute(2, 0, 1),
    "in two parts": lambda s: functional.delay(functional.delay(s, 1), 2),
}
NOT_LATE = {
    "around": lambda s: torch.roll(s, 3, 0),
    "to the past": lambda s: torch.cat([s[3:], torch.zeros_like(s[:3])]),
    "the first time steps removed": lambda s: torch.cat([torch.zeros_like(s[:3]), s[3:]]),
    "half of the sequence": lambda s: torch.cat([torch.zeros_like(s[: len(s) // 2]), s[: -(len(s) // 2)]]),
    "backwards": lambda s: s.flip(0),
    "ones in front": lambda s: torch.cat([torch.ones_like(s[:3]), s[:-3]]),
}


@pytest.mark.parametrize("how", LATE)
def test_a_shift_along_time_is_a_delay(how: str) -> None:
    assert delays(equal_import(Shifted(LATE[how]))) == {0, 3}


@pytest.mark.parametrize("how", NOT_LATE)
def test_other_moves_along_time_are_refused(how: str) -> None:
    with pytest.raises(ModelError) as error:
        imported(Shifted(NOT_LATE[how]), spikes(STEPS, 2, FEATURES), "spikingjelly")
    assert not isinstance(error.value, UnequalImport)


class Causal(nn.Module):
    """A causal convolution over time in front of or between layers, in one of the ways to pad it."""

    def __init__(self, way: str, *, between: bool = False, **options: Any) -> None:
        super().__init__()
        self.way, self.between, kernel = way, between, 5
        self.reach = (kernel - 1) * options.get("dilation", 1)
        options["padding"] = self.reach if way == "cut" else 0
        self.fc = layer.Linear(FEATURES, FEATURES, step_mode="m")
        self.conv = nn.Conv1d(FEATURES, FEATURES, kernel, **options)
        self.cell1, self.cell2 = neuron.LIFNode(step_mode="m"), neuron.LIFNode(step_mode="m")
        drawn(self)

    def forward(self, x: Any) -> Any:  # [time, batch, channels]
        if self.between:
            x = self.cell1(self.fc(x))
        x, zeros = x.permute(1, 2, 0), x.new_zeros(x.shape[1], FEATURES, self.reach)
        padded = {
            "pad": lambda: nn.functional.pad(x, (self.reach, 0)),
            "module": lambda: nn.ConstantPad1d((self.reach, 0), 0.0)(x),
            "zeros": lambda: torch.cat([zeros, x], dim=2),
            "cut": lambda: x,
        }
        y = self.conv(padded[self.way]())
        return self.cell2((y[..., : -self.reach] if self.way == "cut" else y).permute(2, 0, 1))


@pytest.mark.parametrize("way", ["pad", "module", "zeros", "cut"])
@pytest.mark.parametrize("between", [False, True])
def test_a_causal_convolution_over_time(way: str, between: bool) -> None:
    assert delays(equal_import(Causal(way, between=between))) == {0, 1, 2, 3, 4}


def test_dilated_and_depthwise_convolutions_over_time() -> None:
    assert delays(equal_import(Causal("pad", dilation=3))) == {0, 3, 6, 9, 12}
    net = Causal("cut", groups=FEATURES, bias=False)
    assert synapses_of(equal_import(net), "cell2") == np.count_nonzero(net.conv.weight.detach())


def test_a_convolution_that_is_not_causal_is_refused() -> None:
    net = Causal("pad")
    net.conv.padding, net.reach = (2,), 0
    with pytest.raises(ModelError, match="module 'cell2': it is given values moved along time, no delay"):
        imported(net, spikes(STEPS, 2, FEATURES), "spikingjelly")


# -- DCLS ----------------------------------------------------------------------------------------------------------


class Kernel(nn.Module):
    """The kernel of DCLS: each weight spread around its position along time, on one time step where that is whole."""

    def __init__(self, size: int, version: str) -> None:
        super().__init__()
        self.size, self.version = size, version

    def forward(self, weight: Any, positions: Any, width: Any) -> Any:
        places = torch.arange(self.size).reshape(-1, 1, 1, 1) - (positions[0] + self.size // 2)
        if self.version == "gauss":
            spread = (-0.5 * (places / (width[0].abs() + 0.27)) ** 2).exp()
        else:
            spread = ((width[0].abs() if self.version == "max" else 0.0) + 1.0 - places.abs()).relu()
        spread = spread if self.version == "v1" else spread / (spread.sum(0) + 1e-7)
        return (spread * weight).sum(-1).permute(1, 2, 0)


class Dcls1d(nn.Module):
    """A layer of the published structure of ``DCLS.construct.modules.Dcls1d``."""

    def __init__(self, cin: int, cout: int, count: int, size: int, groups: int = 1, version: str = "max") -> None:
        super().__init__()
        source = torch.Generator().manual_seed(cin + cout)
        self.groups, self.kernel_count, self.dilated_kernel_size, self.version = groups, count, (size,), version
        shape = (cout, cin // groups, count)
        self.weight = nn.Parameter(torch.randint(-20, 60, shape, generator=source) / 32)
        self.P = nn.Parameter((torch.rand((1, *shape), generator=source) - 0.5) * size)
        self.SIG = nn.Parameter(torch.full((1, *shape), 0.4))
        self.DCK = Kernel(size, version)

    def rounded(self) -> Any:
        half = self.dilated_kernel_size[0] // 2
        self.P.data = self.P.data.round().clamp(-half, half)
        self.SIG.data = self.SIG.data * 0
        self.version = self.DCK.version = "v1" if self.version == "v1" else "max"
        return self

    def forward(self, x: Any) -> Any:
        return nn.functional.conv1d(x, self.DCK(self.weight, self.P, self.SIG), groups=self.groups)


class DelaysLearned(nn.Module):
    """The network of the DCLS authors: convolution, BatchNorm, LIF; all on sequences, [time, batch, values]."""

    def __init__(self, size: int = 7, right: int = 0, version: str = "max", count: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.size, self.right = size, right
        self.axonal = Dcls1d(FEATURES, FEATURES, count, size, FEATURES, version) if groups > 1 else None
        self.conv1, self.conv2 = (
            Dcls1d(FEATURES, 10, count, size, version=version),
            Dcls1d(10, 4, count, size, version=version),
        )
        self.norm, self.drop = layer.BatchNorm1d(10, step_mode="m"), layer.Dropout(0.4, step_mode="m")
        self.norm.running_mean.data, self.norm.weight.data = torch.arange(10) / 32, torch.full((10,), 1.5)
        cell: Any = {"tau": 2.0, "v_threshold": 1.0, "step_mode": "m", "decay_input": False}
        self.cell0, self.cell1, self.cell2 = (neuron.LIFNode(**cell) for _ in range(3))
        self.eval()

    def rounded(self) -> Any:
        for inner in (m for m in self.modules() if isinstance(m, Dcls1d)):
            inner.rounded()
        return self

    def late(self, conv: Any, x: Any) -> Any:
        padded = nn.functional.pad(x.permute(1, 2, 0), (self.size - 1, self.right), "constant", 0)
        return conv(padded).permute(2, 0, 1)

    def forward(self, x: Any) -> Any:
        if self.axonal is not None:
            x = self.cell0(self.late(self.axonal, x))
        x = self.norm(self.late(self.conv1, x).unsqueeze(3)).squeeze()
        return self.cell2(self.late(self.conv2, self.drop(self.cell1(x))))


@pytest.mark.parametrize("version", ["max", "gauss", "v1"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("groups", [1, FEATURES])
def test_dcls_with_rounded_positions(version: str, count: int, groups: int) -> None:
    network = equal_import(DelaysLearned(version=version, count=count, groups=groups).rounded())
    assert delays(network) == {0, 1, 2, 3, 4, 5, 6}
    assert synapses_of(network, "cell1") <= count * 10 * FEATURES


def test_delays_of_dcls_may_be_longer_than_the_trace() -> None:
    network = equal_import(DelaysLearned(25).rounded(), sample=spikes(40, 2, FEATURES))
    assert max(delays(network)) > 20


@pytest.mark.parametrize("version", ["max", "gauss", "v1"])
def test_positions_between_time_steps_are_refused(version: str) -> None:
    with pytest.raises(ModelError) as error:
        imported(DelaysLearned(version=version), spikes(STEPS, 2, FEATURES), "spikingjelly")
    assert [p.subject for p in error.value.problems] == ["module 'conv1'", "module 'conv2'"]
    assert "round the positions before the import" in str(error.value)


# -- on chips ------------------------------------------------------------------------------------------------------

MAPPED: dict[str, tuple[Any, str]] = {
    "DCLS": (lambda: DelaysLearned().rounded(), "spikingjelly"),
    "longer than the chip's delays": (lambda: DelaysLearned(25).rounded(), "spikingjelly"),
    "layer.Delay": (lambda: Delayed(1), "spikingjelly"),
    "history": (Queue, "snntorch"),
    "convolution over time": (lambda: Causal("pad", between=True), "spikingjelly"),
    "shift": (lambda: Shifted(rolled), "spikingjelly"),
}


@pytest.mark.parametrize("chip", ["loihi2", "crossbar256"])
@pytest.mark.parametrize("name", MAPPED)
def test_delays_on_chips_that_have_them(name: str, chip: str) -> None:
    make, framework = MAPPED[name]
    x = spikes(STEPS, 2, FEATURES)
    network = from_nir(imported(make(), x, framework))
    found = nb.verify(network, chip, x.numpy())
    assert found.holds
    fixed, mapped = (found.recordings[side]["output", "s"] for side in ("fixed", "mapped"))
    assert fixed.any()
    assert np.array_equal(fixed, mapped)
