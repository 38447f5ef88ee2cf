"""Loops that take their time step by an index of several parts, and networks that reshape neurons to images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import norse.torch as norse
    import snntorch as snn
    from spikingjelly.activation_based import layer, neuron

STEPS, BATCH = 12, 2


def leaky(threshold: Any = 1.0) -> Any:
    return snn.Leaky(beta=0.75, threshold=threshold, reset_mechanism="zero")


class Indexed(nn.Module):
    """Two layers; ``at(input, t)`` is the input of a time step."""

    def __init__(self, at: Any, features: int) -> None:
        super().__init__()
        self.fc1, self.lif1, self.fc2, self.lif2 = nn.Linear(features, 8), leaky(), nn.Linear(8, 4), leaky()
        self.at = at

    def forward(self, x: Any) -> Any:
        mem1, mem2, out = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        for t in range(STEPS):
            spk, mem1 = self.lif1(self.fc1(self.at(x, t).flatten(1)), mem1)
            spk, mem2 = self.lif2(self.fc2(spk), mem2)
            out.append(spk)
        return torch.stack(out)


class Autoencoder(nn.Module):
    """Convolution, flat code, and a decoder from flat neurons through an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.code, self.back = nn.Conv2d(1, 4, 3, 2, 1), nn.Linear(64, 10), nn.Linear(10, 64)
        self.enlarge = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.split, self.last = nn.Unflatten(1, (4, 4, 4)), nn.Conv2d(3, 1, 3, padding=1)
        self.lifs = nn.ModuleList(leaky() for _ in range(5))

    def forward(self, x: Any) -> Any:
        lifs: list[Any] = list(self.lifs)
        mems, out = [lif.init_leaky() for lif in lifs], []
        for now in x:
            spk = now
            layers = (self.conv, lambda s: self.code(s.flatten(1)), self.back, lambda s: self.enlarge(self.split(s)))
            for k, part in enumerate((*layers, self.last)):
                spk, mems[k] = lifs[k](part(spk), mems[k])
            out.append(spk)
        return torch.stack(out)


class Decoder(nn.Module):
    """Flat neurons, recurrent or with a threshold each, that an image and a Linear read."""

    def __init__(self, *, recurrent: bool) -> None:
        super().__init__()
        self.fc, self.conv, self.flat = nn.Linear(6, 18), nn.ConvTranspose2d(2, 3, 3), nn.Linear(18, 5)
        rleaky: Any = snn.RLeaky(beta=0.75, linear_features=18, reset_mechanism="zero")
        self.lif1, self.lif2, self.lif3 = rleaky if recurrent else leaky(torch.linspace(0.5, 1.5, 18)), leaky(), leaky()
        self.recurrent = recurrent

    def forward(self, x: Any) -> Any:
        state: Any = self.lif1.init_rleaky() if self.recurrent else (self.lif1.init_leaky(),)
        mem2, mem3, images, flats = self.lif2.init_leaky(), self.lif3.init_leaky(), [], []
        for now in x:
            found = self.lif1(self.fc(now), *state)
            state = found if self.recurrent else found[1:]
            image, mem2 = self.lif2(self.conv(found[0].view(-1, 2, 3, 3)), mem2)
            flat, mem3 = self.lif3(self.flat(found[0]), mem3)
            images.append(image)
            flats.append(flat)
        return torch.stack(images), torch.stack(flats)


class Signals(nn.Module):
    """Flat neurons as channels of a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif1, self.conv, self.lif2 = nn.Linear(6, 12), leaky(), nn.ConvTranspose1d(3, 2, 4, 2), leaky()

    def forward(self, x: Any) -> Any:
        mem1, mem2, out = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        for now in x:
            spk, mem1 = self.lif1(self.fc(now), mem1)
            spk, mem2 = self.lif2(self.conv(spk.view(-1, 3, 4)), mem2)
            out.append(spk)
        return torch.stack(out)


class Encoded(nn.Module):
    """Norse's MNIST task: an encoder of constant currents on flat pixels, then a convolution."""

    def __init__(self, *, is_flat: bool) -> None:
        super().__init__()
        self.encoder, self.conv, self.lif = norse.ConstantCurrentLIFEncoder(STEPS), nn.Conv2d(1, 3, 3), norse.LIFCell()
        self.fc, self.out, self.is_flat = nn.Linear(108, 5), norse.LICell(), is_flat

    def forward(self, x: Any) -> Any:
        encoded = self.encoder((x.view(-1, 64) if self.is_flat else x) * 2.0)
        encoded = encoded.reshape(STEPS, x.shape[0], 1, 8, 8)
        state, last, out = None, None, []
        for t in range(STEPS):
            spk, state = self.lif(30 * self.conv(encoded[t]), state)
            voltage, last = self.out(self.fc(spk.flatten(1)), last)
            out.append(voltage)
        return torch.stack(out)


def klif(**options: Any) -> nn.Module:
    nodes = [neuron.KLIFNode(step_mode="m", **options) for _ in range(2)]
    for node in nodes:
        node.k.data.fill_(1.25)
    linear = (layer.Linear(6, 8, step_mode="m"), layer.Linear(8, 4, step_mode="m"))
    return nn.Sequential(linear[0], nodes[0], linear[1], nodes[1])


def indices() -> Iterator[tuple[str, Any, tuple[int, ...], int]]:
    yield "index_select", lambda x, t: torch.index_select(x, 1, torch.tensor([t])), (BATCH, STEPS, 6), 6
    yield "x[:, [t]]", lambda x, t: x[:, [t]], (BATCH, STEPS, 6), 6
    yield "x[[t]]", lambda x, t: x[[t]].squeeze(0), (STEPS, BATCH, 6), 6
    yield "x[:, torch.tensor(t)]", lambda x, t: x[:, torch.tensor(t)], (BATCH, STEPS, 6), 6
    yield "x[:, 0, t, :]", lambda x, t: x[:, 0, t, :], (BATCH, 1, STEPS, 6), 6
    yield "x[:, 1, t]", lambda x, t: x[:, 1, t], (BATCH, 3, STEPS, 6), 6
    yield "x[:, t, 1]", lambda x, t: x[:, t, 1], (BATCH, STEPS, 3, 6), 6
    yield "x[:, t, 0:3]", lambda x, t: x[:, t, 0:3], (BATCH, STEPS, 6), 3
    yield "x[t, :, ::2]", lambda x, t: x[t, :, ::2], (STEPS, BATCH, 6), 3
    yield "x[t][:, [0, 2, 5]]", lambda x, t: x[t][:, [0, 2, 5]], (STEPS, BATCH, 6), 3
    yield "x[:, t, None]", lambda x, t: x[:, t, None], (BATCH, STEPS, 6), 6
    yield "x[..., :3, t]", lambda x, t: x[..., :3, t], (BATCH, 6, STEPS), 3
    yield "x[:, 1][:, t]", lambda x, t: x[:, 1][:, t], (BATCH, 2, STEPS, 6), 6
    yield "x[..., ::2, :][..., t]", lambda x, t: x[..., ::2, :][..., t], (BATCH, 6, STEPS), 3
    yield "x[:, t:t + 1, 0:3]", lambda x, t: x[:, t : t + 1, 0:3], (BATCH, STEPS, 6), 3


def forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any = (STEPS, BATCH, 6)) -> Form:
        return Form("snntorch", name, make, shape)

    for name, at, shape, features in indices():
        yield row(f"a time step by {name}", lambda at=at, n=features: Indexed(at, n), shape)
    yield row("autoencoder", Autoencoder, (STEPS, BATCH, 1, 8, 8))
    yield row("decoder, a threshold per neuron", lambda: Decoder(recurrent=False))
    yield row("decoder, recurrent", lambda: Decoder(recurrent=True))
    yield row("decoder, one axis", Signals)
    for is_flat in (True, False):
        name = f"encoder of constant currents, {'flat' if is_flat else 'image'}"
        yield Form("norse", name, lambda f=is_flat: Encoded(is_flat=f), (BATCH, 1, 8, 8), scale=8.0)
    for options in (
        {},
        {"scale_reset": True},
        {"v_reset": None},
        {"v_reset": None, "scale_reset": True},
        {"tau": 3.0, "decay_input": False, "v_reset": 0.25},
        {"tau": 3.0, "v_reset": 0.25, "scale_reset": True},
    ):
        name = ", ".join(["KLIFNode", *(f"{key}={value}" for key, value in options.items())])
        yield Form("spikingjelly", name, lambda o=options: klif(**o), (STEPS, BATCH, 6))
