"""Modules of user code around snnTorch's neurons: sums, branches, loops over time, several inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.equivalence_model import Model, first_of_whole, quiet, step_by_step, whole

with quiet():
    import snntorch as snn

IMAGE = ((1, 8, 8),)


def _lif(**options: Any) -> Any:
    return snn.Leaky(**{"beta": 0.75, "init_hidden": True, **options})


class Net(nn.Module):
    """The parts that the models below use."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.fc1, self.fc2, self.rec = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 6)
        self.lif1, self.lif2, self.lif3 = _lif(**options), _lif(**options), _lif(**options)


class Residual(Net):
    def forward(self, x: Any) -> Any:
        first = self.lif1(self.fc1(x))
        return self.lif3(self.head(self.lif2(self.fc2(first)) + first))


class ResidualCurrent(Net):
    def forward(self, x: Any) -> Any:
        current = self.fc1(x)
        return self.lif3(self.head(self.lif2(self.fc2(self.lif1(current)) + 0.5 * current - 0.25)))


class Branches(Net):
    def forward(self, x: Any) -> Any:
        first, other = self.lif1(self.fc1(x)), self.lif2(self.fc1(x.flip(1)))
        return self.lif3(self.head(torch.cat([first[:, :8], other[:, 8:]], dim=1)))


class Shared(Net):
    def forward(self, x: Any) -> Any:
        first = self.lif1(self.fc1(x))
        second = self.lif2(self.fc2(first))
        return self.lif3(self.head(self.fc2(second) + first))


class TwoAndTwo(Net):
    def forward(self, left: Any, right: Any) -> Any:
        first = self.lif1(self.fc1(left) + self.fc2(right))
        return {"slow": self.lif2(self.rec(first)), "fast": self.lif3(self.head(first))}


class Nested(nn.Module):
    """Blocks in blocks, the shape of a small residual network."""

    def __init__(self) -> None:
        super().__init__()
        block = lambda: nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), _lif(), nn.Conv2d(3, 3, 3, padding=1))  # noqa: E731
        self.stem = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), _lif())
        self.blocks = nn.ModuleList([block(), block()])
        self.lifs = nn.ModuleDict({"0": _lif(), "1": _lif()})
        self.head = nn.Sequential(nn.AvgPool2d(2), nn.Sequential(nn.Flatten(), nn.Linear(48, 6)), _lif())

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for k, block in enumerate(self.blocks):
            x = self.lifs[str(k)](block(x) + x)
        return self.head(x)


class Loop(Net):
    def __init__(self, **options: Any) -> None:
        super().__init__(init_hidden=False, **options)

    def forward(self, x: Any) -> Any:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes, membranes = [], []
        for step in range(x.size(0)):
            spk1, mem1 = self.lif1(self.fc1(x[step]), mem1)
            spk2, mem2 = self.lif2(self.head(spk1), mem2)
            spikes.append(spk2)
            membranes.append(mem2)
        return torch.stack(spikes, dim=0), torch.stack(membranes, dim=0)


class Handmade(Loop):
    def forward(self, x: Any) -> Any:
        mem, spk = self.lif1.init_leaky(), torch.zeros(x.size(1), 16)
        out = []
        for now in x:
            spk, mem = self.lif1(self.fc1(now) + self.rec(spk), mem)
            out.append(spk)
        return torch.stack(out)


class TopDown(Loop):
    """The layer above is heard one step late."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(6, 16)

    def forward(self, x: Any) -> Any:
        mem1, mem2, spk2, out = self.lif1.init_leaky(), self.lif2.init_leaky(), torch.zeros(x.size(1), 6), []
        for now in x:
            spk1, mem1 = self.lif1(self.fc1(now) + self.down(spk2), mem1)
            spk2, mem2 = self.lif2(self.head(spk1), mem2.detach())
            out.append(spk2)
        return torch.stack(out)


class Dense(nn.Module):
    """Every layer hears all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(n, 3, 3, padding=1) for n in (1, 4, 7)])
        self.lifs = nn.ModuleList([_lif() for _ in range(4)])
        self.head = nn.Linear(640, 6)

    def forward(self, x: Any) -> Any:
        for conv, lif in zip(self.convs, self.lifs, strict=False):
            x = torch.cat([x, lif(conv(x))], 1)
        return self.lifs[3](self.head(x.flatten(1)))


class Buffers(Loop):
    """Every time step is written into its place of a tensor."""

    def forward(self, x: Any) -> Any:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes = torch.zeros(x.size(0), x.size(1), 6)
        for step in range(x.size(0)):
            spk1, mem1 = self.lif1(self.fc1(x[step]), mem1)
            spk2, mem2 = self.lif2(self.head(spk1), mem2)
            spikes[step, :, :] = spk2
        return spikes


class Chunks(Loop):
    """Time steps are stacked by four, and the chunks joined."""

    def forward(self, x: Any) -> Any:
        mem, part, parts = self.lif1.init_leaky(), [], []
        for step, now in enumerate(x):
            spk, mem = self.lif1(self.fc1(now), mem)
            part.append(spk)
            if step % 4 == 3:
                parts.append(torch.stack(part))
                part = []
        return torch.cat(parts)


class Logging(Loop):
    """Own states in attributes, values that are read for a log and checked."""

    def __init__(self) -> None:
        super().__init__()
        self.mem, self.spk, self.log = None, None, []

    def forward(self, x: Any) -> Any:
        if self.mem is None:
            self.mem, self.spk = self.lif1.init_leaky(), torch.zeros(x.size(0), 16)
        self.spk, self.mem = self.lif1(self.fc1(x) + self.rec(self.spk), self.mem)
        self.log.append(self.mem.abs().max().item())
        assert not torch.isnan(self.mem).any()
        return self.spk


class Membrane(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.lif2 = _lif(init_hidden=False, reset_mechanism="none")

    def forward(self, x: Any) -> Any:
        return super().forward(x)[1]


def flow_models() -> Iterator[Model]:
    """Sums, branches, loops."""

    def row(name: str, make: Any, run: Any = step_by_step, *shapes: tuple[int, ...], **options: Any) -> Model:
        return Model("snnTorch", name, make, run, shapes or ((12,),), **{"scale": 0.7, **options})

    yield row("residual sum of spikes", Residual)
    yield row("residual sum of currents, factors and constants", ResidualCurrent)
    yield row("branches, flipped input, slices, joined", Branches)
    yield row("one layer used twice", Shared)
    yield row("two inputs, two outputs", TwoAndTwo, step_by_step, (12,), (16,))
    yield row("residual blocks, nested modules", Nested, step_by_step, *IMAGE)
    yield row("loop over time in forward", Loop, first_of_whole)
    yield row("loop over time, recurrence by hand", Handmade, whole)
    yield row("loop over time, feedback from the layer above", TopDown, whole)
    yield row("dense blocks, joins of joins", Dense, step_by_step, *IMAGE, scale=0.3)
    yield row("loop over time, steps written into a buffer", Buffers, whole)
    yield row("loop over time, chunks of time steps joined", Chunks, whole)
    yield row("own states in attributes, logging, assertions", Logging)
    yield row("loop over time, returns the membrane", Membrane, whole, kind="potential")


def _image() -> Any:
    return nn.Sequential(nn.Conv2d(1, 4, 3), _lif(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3, padding=1), _lif(),
                         nn.Flatten(), nn.Dropout(0.5), nn.Linear(54, 5), _lif())  # fmt: skip


def _odd() -> Any:
    return nn.Sequential(nn.Conv2d(2, 4, (3, 2), padding=1, stride=(1, 2)), _lif(reset_mechanism="zero"),
                         nn.Conv2d(4, 4, 3, padding="same", groups=2), _lif(), nn.Flatten(1, 2),
                         nn.Flatten(), nn.Linear(100, 5), _lif())  # fmt: skip


def _signal() -> Any:
    return nn.Sequential(nn.Conv1d(3, 4, 5, stride=2), _lif(), nn.AvgPool1d(2), nn.Conv1d(4, 4, 3, dilation=2),
                         _lif(), nn.Flatten(), nn.Linear(4, 5), _lif())  # fmt: skip


def _recurrent() -> Any:
    cells = snn.RLeaky(beta=0.5, conv2d_channels=3, kernel_size=3, init_hidden=True)
    return nn.Sequential(nn.Conv2d(1, 3, 3), cells, nn.Flatten(), nn.Linear(108, 5), _lif())


def _normalized() -> Any:
    norm = nn.BatchNorm2d(4, eps=0.0)
    norm.running_mean.fill_(0.125)
    norm.running_var.fill_(0.25)
    return nn.Sequential(nn.Conv2d(1, 4, 3), norm, _lif(), nn.Flatten(), nn.Linear(144, 5), _lif())


def layer_models() -> Iterator[Model]:
    """Convolutions, pools, normalization."""

    def row(name: str, make: Any, *shapes: tuple[int, ...]) -> Model:
        return Model("snnTorch", name, make, step_by_step, shapes or IMAGE, scale=0.8)

    yield row("Conv2d, AvgPool2d, Flatten, Dropout", _image)
    yield row("Conv2d with groups, strides, 'same' padding", _odd, (2, 5, 9))
    yield row("Conv1d, stride, dilation, AvgPool1d", _signal, (3, 23))
    yield row("RLeaky with a convolution", _recurrent)
    yield row("BatchNorm2d (factors that float32 holds)", _normalized)
