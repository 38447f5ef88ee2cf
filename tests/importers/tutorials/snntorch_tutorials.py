"""snnTorch's tutorials 1 to 7, from their published structure, with small layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import snntorch as snn
    from snntorch import surrogate

STEPS = 10
LAPICQUE: Any = {"R": 5.1, "C": 0.5, "time_step": 0.5}
RESETS = "forward resets its state in every time step"
CURRENTS = "a maximum of currents is not linear"
"""Part of the refusal of a maximum over values in front of neurons."""


class OneNeuron(nn.Module):
    """Tutorials 1 and 2: single neurons that are given encoded spikes, or a current, step by step."""

    def __init__(self, neuron: Any, weight: float = 0.5) -> None:
        super().__init__()
        self.lif, self.w = neuron, weight

    def forward(self, cur_in: Any) -> Any:
        mem, spk_rec, mem_rec = torch.zeros(1), [], []
        for step in range(cur_in.shape[0]):
            spk, mem = self.lif(cur_in[step] * self.w, mem)
            mem_rec.append(mem)
            spk_rec.append(spk)
        return torch.stack(spk_rec), torch.stack(mem_rec)


class FeedForward(nn.Module):
    """Tutorial 3: two layers whose spikes and membranes are kept in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(64, 20), snn.Leaky(beta=0.75)
        self.fc2, self.lif2 = nn.Linear(20, 10), snn.Leaky(beta=0.75)

    def forward(self, spk_in: Any) -> Any:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        mem2_rec, spk1_rec, spk2_rec = [], [], []
        for step in range(spk_in.size(0)):
            spk1, mem1 = self.lif1(self.fc1(spk_in[step].flatten(1)), mem1)
            spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
            mem2_rec.append(mem2)
            spk1_rec.append(spk1)
            spk2_rec.append(spk2)
        return torch.stack(spk1_rec), torch.stack(spk2_rec), torch.stack(mem2_rec)


class SecondOrder(nn.Module):
    """Tutorial 4: a neuron with a synaptic current, or of the alpha kind."""

    def __init__(self, *, is_alpha: bool = False) -> None:
        super().__init__()
        self.is_alpha = is_alpha
        self.lif1: Any = snn.Alpha(alpha=0.8, beta=0.75) if is_alpha else snn.Synaptic(alpha=0.9, beta=0.75)

    def forward(self, spk_in: Any) -> Any:
        state = self.lif1.init_alpha() if self.is_alpha else self.lif1.init_synaptic()
        spk_rec, mem_rec = [], []
        for step in range(spk_in.shape[0]):
            spk, *state = self.lif1(0.25 * spk_in[step], *state)
            spk_rec.append(spk)
            mem_rec.append(state[-1])
        return torch.stack(spk_rec), torch.stack(mem_rec)


class Trained(nn.Module):
    """Tutorial 5: static images, a fixed number of steps in forward, lists of spikes and membranes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(64, 20), snn.Leaky(beta=0.95)
        self.fc2, self.lif2 = nn.Linear(20, 10), snn.Leaky(beta=0.95)

    def forward(self, x: Any) -> Any:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spk2_rec, mem2_rec = [], []
        for _ in range(STEPS):
            cur1 = self.fc1(x)
            spk1, mem1 = self.lif1(cur1, mem1)
            cur2 = self.fc2(spk1)
            spk2, mem2 = self.lif2(cur2, mem2)
            spk2_rec.append(spk2)
            mem2_rec.append(mem2)
        return torch.stack(spk2_rec, dim=0), torch.stack(mem2_rec, dim=0)


def trained() -> nn.Module:
    """Tutorial 5 after three optimizer steps, with the states that its neurons were left with."""
    net = Trained()
    source = torch.Generator().manual_seed(2)
    images, targets = torch.rand((6, 64), generator=source), torch.arange(6)
    optimizer, loss_of = torch.optim.Adam(net.parameters(), lr=5e-3), nn.CrossEntropyLoss()
    for _ in range(3):
        _, mem_rec = net.train()(images)
        loss = sum((loss_of(mem_rec[step], targets) for step in range(STEPS)), torch.zeros(()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


class ConvNet(nn.Module):
    """Tutorial 6: convolutions, pooled before (as published) or after the neurons."""

    def __init__(self, *, pool_first: bool) -> None:
        super().__init__()
        grad = surrogate.fast_sigmoid(slope=25)
        self.conv1, self.lif1 = nn.Conv2d(1, 4, 3), snn.Leaky(beta=0.5, spike_grad=grad)
        self.conv2, self.lif2 = nn.Conv2d(4, 6, 2), snn.Leaky(beta=0.5, spike_grad=grad)
        self.fc1, self.lif3 = nn.Linear(6, 10), snn.Leaky(beta=0.5, spike_grad=grad)
        self.pool_first = pool_first

    def forward(self, x: Any) -> Any:
        mem1, mem2, mem3 = self.lif1.init_leaky(), self.lif2.init_leaky(), self.lif3.init_leaky()
        cur1 = F.max_pool2d(self.conv1(x), 2) if self.pool_first else self.conv1(x)
        spk1, mem1 = self.lif1(cur1, mem1)
        spk1 = spk1 if self.pool_first else F.max_pool2d(spk1, 2)
        cur2 = F.max_pool2d(self.conv2(spk1), 2) if self.pool_first else self.conv2(spk1)
        spk2, mem2 = self.lif2(cur2, mem2)
        spk2 = spk2 if self.pool_first else F.max_pool2d(spk2, 2)
        spk3, mem3 = self.lif3(self.fc1(spk2.view(x.shape[0], -1)), mem3)
        return spk3, mem3


def sequential(*, pool_first: bool) -> nn.Sequential:
    """Tutorials 6 and 7 with hidden states: layers in a Sequential."""
    grad = surrogate.atan()
    lifs = [snn.Leaky(beta=0.5, spike_grad=grad, init_hidden=True, output=k == 2) for k in range(3)]
    first, second = ([nn.MaxPool2d(2), lif] if pool_first else [lif, nn.MaxPool2d(2)] for lif in lifs[:2])
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), *first, nn.Conv2d(4, 6, 2), *second, nn.Flatten(), nn.Linear(6, 10), lifs[2]
    )


def forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any, wanted: str = "equal", **options: Any) -> Form:
        return Form("snntorch", name, make, shape, wanted, **options)

    yield row("tutorial 1, encoded spikes into one neuron", lambda: OneNeuron(snn.Leaky(beta=0.75)), (STEPS, 1))
    yield row("tutorial 2, Lapicque", lambda: OneNeuron(snn.Lapicque(**LAPICQUE), 4.0), (STEPS, 1))
    yield row("tutorial 2, Leaky", lambda: OneNeuron(snn.Leaky(beta=0.8), 0.9), (STEPS, 1))
    yield row(
        "tutorial 2, Leaky, reset to zero",
        lambda: OneNeuron(snn.Leaky(beta=0.8, reset_mechanism="zero"), 0.9),
        (STEPS, 1),
    )
    yield row("tutorial 3", FeedForward, (STEPS, 2, 1, 8, 8))
    yield row("tutorial 4, Synaptic", SecondOrder, (STEPS, 1))
    yield row("tutorial 4, Alpha", lambda: SecondOrder(is_alpha=True), (STEPS, 1), "Alpha.*use Synaptic")
    yield row("tutorial 5", Trained, (3, 64))
    yield row("tutorial 5, trained", trained, (3, 64))
    yield row("tutorial 6, maxima of currents", lambda: ConvNet(pool_first=True), (2, 1, 8, 8), RESETS)
    yield row("tutorial 6, maxima of spikes", lambda: ConvNet(pool_first=False), (2, 1, 8, 8), RESETS)
    yield row("tutorial 6, Sequential, maxima of currents", lambda: sequential(pool_first=True), (2, 2, 8, 8), CURRENTS)
    yield row("tutorial 7, maxima of currents", lambda: sequential(pool_first=True), (2, 2, 8, 8), CURRENTS)
    yield row("tutorial 7, maxima of spikes", lambda: sequential(pool_first=False), (2, 2, 8, 8))
