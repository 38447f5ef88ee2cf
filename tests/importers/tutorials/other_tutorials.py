"""Norse's task nets, spikingjelly's example nets, sinabs' and rockpool's, from their published structure, small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import norse.torch as norse
    import sinabs
    import sinabs.from_torch
    import sinabs.layers as sl
    from rockpool.nn.networks.synnet import SynNet
    from sinabs.activation import MembraneSubtract, SingleSpike
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

STEPS = 6


# -- Norse ---------------------------------------------------------------------------------------------------------


class ConvNet4(nn.Module):
    """Norse's ConvNet4: maxima of spikes, a factor, a buffer of potentials."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3, 1), nn.Conv2d(3, 4, 3, 1)
        self.features = 2
        self.fc1, self.out = nn.Linear(self.features**2 * 4, 12), norse.LILinearCell(12, 5)
        parameters = norse.LIFParameters(method="super", alpha=torch.tensor(100.0), v_th=torch.as_tensor(0.5))
        self.lif0, self.lif1, self.lif2 = (norse.LIFCell(p=parameters) for _ in range(3))
        self.dtype = torch.float

    def forward(self, x: Any) -> Any:
        seq_length, batch_size = x.shape[0], x.shape[1]
        s0, s1, s2, so = None, None, None, None
        voltages = torch.zeros(seq_length, batch_size, 5, device=x.device, dtype=self.dtype)
        for ts in range(seq_length):
            z = self.conv1(x[ts, :])
            z, s0 = self.lif0(z, s0)
            z = F.max_pool2d(z, 2, 2)
            z = 10 * self.conv2(z)
            z, s1 = self.lif1(z, s1)
            z = F.max_pool2d(z, 2, 2)
            z = z.view(-1, self.features**2 * 4)
            z = self.fc1(z)
            z, s2 = self.lif2(z, s2)
            v, so = self.out(F.relu(z), so)
            voltages[ts, :, :] = v
        return voltages


class CifarNet(nn.Module):
    """The CIFAR task: two SequentialStates over a static image, potentials in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        p = norse.LIFParameters(v_th=torch.as_tensor(0.4))
        self.features = norse.SequentialState(
            nn.Conv2d(3, 4, 3, padding=1, bias=False), norse.LIFCell(p),
            nn.Conv2d(4, 4, 3, padding=1, bias=False), norse.LIFCell(p), nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1, bias=False), norse.LIFCell(p), nn.MaxPool2d(2), nn.Flatten())  # fmt: skip
        self.classification = norse.SequentialState(nn.Linear(24, 5, bias=False), norse.LICell())

    def forward(self, x: Any) -> Any:
        voltages = torch.empty(STEPS, x.shape[0], 5, device=x.device, dtype=x.dtype)
        sf, sc = None, None
        for ts in range(STEPS):
            out_f, sf = self.features(x, sf)
            out_c, sc = self.classification(out_f, sc)
            voltages[ts, :, :] = out_c
        return voltages


class MemoryNet(nn.Module):
    """The memory task: a recurrent layer and a read-out, whose steps are put together in chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = norse.LIFRecurrentCell(8, 8, p=norse.LIFParameters(v_th=torch.as_tensor(0.5)), dt=0.001)
        self.readout, self.seq_length = norse.LILinearCell(8, 4), 3

    def forward(self, x: Any) -> Any:
        sl, sr, seq_spikes, step_spikes, seq_readouts, step_readouts = None, None, [], [], [], []
        for index, x_step in enumerate(x.unbind(1)):
            spikes, sl = self.layer(x_step, sl)
            seq_spikes.append(spikes)
            v, sr = self.readout(spikes, sr)
            seq_readouts.append(v)
            if (index + 1) % self.seq_length == 0:
                step_spikes.append(torch.stack(seq_spikes))
                seq_spikes = []
                step_readouts.append(torch.stack(seq_readouts))
                seq_readouts = []
        return torch.cat(step_spikes), torch.stack(step_readouts)


class SpeechNet(nn.Module):
    """The speech commands task: a cell and a read-out in a loop, the last potential returned."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.readout = norse.LIFRecurrentCell(8, 10), norse.LILinearCell(10, 4)

    def forward(self, x: Any) -> Any:
        s, so, v = None, None, None
        for ts in range(x.shape[0]):
            z, s = self.cell(x[ts, :], s)
            v, so = self.readout(z, so)
        return v


def norse_lifted() -> nn.Module:
    """A SequentialState of lifted layers over whole sequences."""
    return norse.SequentialState(
        norse.Lift(nn.Conv2d(1, 3, 3)), norse.LIF(), norse.Lift(nn.MaxPool2d(2)), norse.Lift(nn.Flatten()),
        norse.Lift(nn.Linear(27, 6)), norse.LIF(), norse.Lift(nn.Linear(6, 4)), norse.LI())  # fmt: skip


def norse_forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any, wanted: str = "equal") -> Form:
        return Form("norse", name, make, shape, wanted, scale=16.0)

    yield row("ConvNet4", ConvNet4, (STEPS, 2, 1, 14, 14))
    yield row("CIFAR task", CifarNet, (2, 3, 8, 8))
    yield row("memory task", MemoryNet, (2, 12, 8))
    yield row("speech commands task", SpeechNet, (STEPS, 2, 8))
    yield row("SequentialState of Lift", norse_lifted, (STEPS, 2, 1, 8, 8))


# -- spikingjelly ----------------------------------------------------------------------------------------------------


class FashionNet(nn.Module):
    """conv_fashion_mnist: a static image repeated over time, maxima of spikes, the mean rate."""

    def __init__(self, steps: int = 4, channels: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.conv_fc = nn.Sequential(
            layer.Conv2d(1, channels, 3, padding=1, bias=False), layer.BatchNorm2d(channels),
            neuron.IFNode(surrogate_function=surrogate.ATan()), layer.MaxPool2d(2, 2),
            layer.Conv2d(channels, channels, 3, padding=1, bias=False), layer.BatchNorm2d(channels),
            neuron.IFNode(surrogate_function=surrogate.ATan()), layer.MaxPool2d(2, 2), layer.Flatten(),
            layer.Linear(channels * 4, 12, bias=False), neuron.IFNode(surrogate_function=surrogate.ATan()),
            layer.Linear(12, 10, bias=False), neuron.IFNode(surrogate_function=surrogate.ATan()))  # fmt: skip
        functional.set_step_mode(self, step_mode="m")

    def forward(self, x: Any) -> Any:
        x_seq = x.unsqueeze(0).expand(self.steps, -1, -1, -1, -1)
        return self.conv_fc(x_seq).mean(0)


def plif_net(mode: str) -> nn.Module:
    """The PLIF networks: parametric time constants, maxima, dropout, votes."""

    def cell() -> Any:
        return neuron.ParametricLIFNode(init_tau=2.0, detach_reset=True, surrogate_function=surrogate.ATan())

    net = nn.Sequential(
        layer.Conv2d(2, 4, 3, padding=1, bias=False), layer.BatchNorm2d(4), cell(), layer.MaxPool2d(2, 2),
        layer.Conv2d(4, 4, 3, padding=1, bias=False), layer.BatchNorm2d(4), cell(), layer.MaxPool2d(2, 2),
        layer.Flatten(), layer.Dropout(0.5), layer.Linear(16, 12), cell(), layer.Dropout(0.5),
        layer.Linear(12, 20), cell(), layer.VotingLayer(4))  # fmt: skip
    functional.set_step_mode(net, mode)
    return net


class SewBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int, cnf: str) -> None:
        super().__init__()
        self.conv1 = layer.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1, self.sn1 = layer.BatchNorm2d(after), neuron.IFNode()
        self.conv2 = layer.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2, self.sn2 = layer.BatchNorm2d(after), neuron.IFNode()
        self.downsample = None
        if stride > 1 or before != after:
            self.downsample = nn.Sequential(
                layer.Conv2d(before, after, 1, stride, bias=False), layer.BatchNorm2d(after)
            )
            self.downsample_sn = neuron.IFNode()
        self.cnf = cnf

    def forward(self, x: Any) -> Any:
        out = self.sn1(self.bn1(self.conv1(x)))
        out = self.sn2(self.bn2(self.conv2(out)))
        identity = x if self.downsample is None else self.downsample_sn(self.downsample(x))
        if self.cnf == "ADD":
            return identity + out
        return identity * out if self.cnf == "AND" else identity * (1.0 - out)


class SewNet(nn.Module):
    """SEW-ResNet: a stem with a maximum, blocks, the mean over positions and a classifier."""

    def __init__(self, cnf: str, *, stem_pool: bool = True) -> None:
        super().__init__()
        self.conv1, self.bn1, self.sn1 = layer.Conv2d(2, 4, 3, 1, 1, bias=False), layer.BatchNorm2d(4), neuron.IFNode()
        self.maxpool = layer.MaxPool2d(3, 2, 1) if stem_pool else nn.Identity()
        self.layer1, self.layer2 = SewBlock(4, 4, 1, cnf), SewBlock(4, 6, 2, cnf)
        self.avgpool, self.fc = layer.AdaptiveAvgPool2d((1, 1)), layer.Linear(6, 5)
        functional.set_step_mode(self, "m")

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.sn1(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(x, 2))


def jelly_forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any, wanted: str = "equal", **options: Any) -> Form:
        return Form("spikingjelly", name, make, shape, wanted, **options)

    yield row("conv_fashion_mnist", FashionNet, (2, 1, 8, 8))
    yield row("PLIF net, whole sequences", lambda: plif_net("m"), (STEPS, 2, 2, 8, 8), scale=4.0)
    yield row("PLIF net, single steps", lambda: plif_net("s"), (2, 2, 8, 8), scale=4.0)
    for cnf in ("ADD", "AND", "IAND"):
        yield row(f"SEW-ResNet, {cnf}", lambda cnf=cnf: SewNet(cnf), (STEPS, 2, 2, 8, 8))
    yield row("SEW-ResNet, ADD, without maximum", lambda: SewNet("ADD", stem_pool=False), (STEPS, 2, 2, 8, 8))


# -- sinabs ----------------------------------------------------------------------------------------------------------


def nmnist(**options: Any) -> nn.Module:
    """The NMNIST notebook: an ANN with average pools, made spiking by from_model."""
    ann = nn.Sequential(
        nn.Conv2d(2, 4, 5, bias=False), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3, bias=False), nn.ReLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 10, bias=False), nn.ReLU())  # fmt: skip
    return sinabs.from_torch.from_model(ann, input_shape=(2, 14, 14), batch_size=2, **options).spiking_model


def gesture() -> nn.Module:
    """The DVS gesture notebook: squeezed IAF layers of single spikes with a floor, and pools."""

    def cell() -> Any:
        return sl.IAFSqueeze(batch_size=2, min_v_mem=-1.0, spike_fn=SingleSpike, reset_fn=MembraneSubtract())

    return nn.Sequential(
        nn.Conv2d(2, 4, 2, 2, bias=False), cell(), nn.Conv2d(4, 4, 3, padding=1, bias=False), cell(), nn.AvgPool2d(2),
        nn.Dropout(0.1), nn.Conv2d(4, 6, 3, padding=1, bias=False), cell(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(6 * 4, 8, bias=False), cell(), nn.Linear(8, 11, bias=False), cell())  # fmt: skip


def sinabs_forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any, wanted: str = "equal", **options: Any) -> Form:
        return Form("sinabs", name, make, shape, wanted, **options)

    yield row("NMNIST, from_model, min_v_mem = -1", nmnist, (2, 2, 14, 14))
    yield row("NMNIST, from_model, no floor", lambda: nmnist(min_v_mem=None), (2, 2, 14, 14))
    yield row("DVS gesture, min_v_mem = -1", gesture, (2, 2, 16, 16))


# -- rockpool --------------------------------------------------------------------------------------------------------


def synnet() -> nn.Module:
    """A SynNet with weights on the grid that make it fire."""
    net = SynNet(n_channels=8, n_classes=3, size_hidden_layers=[12, 8], time_constants_per_layer=[2, 4])
    for name, parameter in nn.Module.named_parameters(net):
        if name.endswith("weight"):
            parameter.data = torch.round(torch.randn(parameter.shape) * 1024) / 1024
    return net


def rock_forms() -> Iterator[Form]:
    yield Form("rockpool", "SynNet", synnet, (2, 10, 8))


def forms() -> Iterator[Form]:
    yield from norse_forms()
    yield from jelly_forms()
    yield from sinabs_forms()
    yield from rock_forms()
