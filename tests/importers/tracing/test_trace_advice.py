"""Untraceable models: one error that lists every operation by module path, each once, with a hint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.ann.from_torch import from_torch
from nirbridge.importers.frameworks.snntorch import from_snntorch
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn
functional = nn.functional


def lif() -> Any:
    return snn.Leaky(beta=0.9, init_hidden=True)


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.gate, self.lif = nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.Sigmoid(), lif()
        self.fc, self.norm, self.out, self.soft = nn.Linear(64, 8), nn.LayerNorm(8), lif(), nn.Softmax(dim=1)

    def forward(self, x: Any) -> Any:
        hidden = self.gate(self.lif(self.pool(self.conv(x)))).flatten(1)
        return self.soft(self.out(self.norm(self.fc(hidden))))


class Gates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.cell, self.fc, self.lif = nn.LSTM(6, 8), nn.GRUCell(8, 8), nn.Linear(8, 3), lif()

    def forward(self, x: Any) -> Any:
        return self.lif(self.fc(self.cell(self.rnn(x.unsqueeze(0))[0][0])))


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.first, self.second = nn.Linear(6, 6), lif(), lif()

    def forward(self, x: Any) -> Any:
        hidden = self.first(self.fc(x))
        if hidden.sum() > 2:
            hidden = hidden * 2
        hidden = torch.where(x > 0.5, hidden, torch.zeros_like(hidden)).clamp(0, 1)
        return self.second(hidden.max(dim=1, keepdim=True)[0] + hidden)


class Assigns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.first, self.second = nn.Linear(6, 6), lif(), lif()

    def forward(self, x: Any) -> Any:
        hidden = self.first(self.fc(x))
        hidden += 1  # followed: a constant
        hidden[:, 0] = 0  # followed: a constant in fixed places
        return self.second(hidden / hidden.norm())


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.one, self.first, self.gate, self.last = nn.Linear(6, 6), nn.Linear(6, 1), lif(), lif(), lif()

    def forward(self, x: Any) -> Any:
        hidden = self.first(self.fc(x))
        gate = self.gate(self.one(x))
        joined = torch.cat([hidden, torch.ones(x.shape[0], 1)], 1)
        return self.last((self.fc(x) + gate) * hidden + torch.sqrt(self.fc(x)) + joined[:, :6].cumprod(1))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.up, self.lif = nn.ConvTranspose2d(1, 2, 2), nn.Upsample(scale_factor=2), lif()
        self.norm, self.curve = nn.GroupNorm(1, 2), nn.PReLU()
        self.mirror = nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Any) -> Any:
        return self.lif(self.mirror(self.curve(self.norm(self.up(self.wide(x))))))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif, self.alpha = nn.Linear(6, 6), lif(), snn.Alpha(0.9, 0.8, init_hidden=True)
        self.norm = nn.BatchNorm1d(6, track_running_stats=False)

    def forward(self, x: Any) -> Any:
        hidden = self.lif(self.lif(self.fc(x)))
        hidden = functional.dropout(self.alpha(self.norm(torch.exp(self.fc(hidden)))), 0.5, training=True)
        return torch.topk(hidden, 3)[0], hidden.argmax(1)


WHOLE = "the module's forward"
CASES = (
    (
        Vision,
        (1, 8, 8),
        (("'pool'", "maximum"), ("'norm'", "layer_norm")),
    ),
    (Gates, (6,), (("'rnn'", "lstm"), ("'cell'", "gru_cell"))),
    (
        Branch,
        (6,),
        (
            (WHOLE, "value of a tensor (bool)"),
            *((WHOLE, word) for word in ("gt", "where", "clamp", "max")),
        ),
    ),
    (Assigns, (6,), ((WHOLE, "norm"), (WHOLE, "div"))),
    (Sums, (6,), ((WHOLE, "mul"), (WHOLE, "sqrt"), (WHOLE, "cumprod"))),
    (
        Images,
        (1, 4, 4),
        (
            ("'norm'", "group_norm"),
            ("'curve'", "prelu"),
        ),
    ),
    (
        Twice,
        (6,),
        (
            ("'lif'", "called 2 times"),
            ("'alpha'", "Alpha"),
            ("'norm'", "batch_norm"),
            (WHOLE, "exp"),
            (WHOLE, "dropout"),
            (WHOLE, "topk"),
        ),
    ),
)


CONVERTED = {
    *((Vision, word) for word in ("maximum", "softmax")),
    *((Branch, word) for word in ("clamp", "max")),
    (Images, "prelu"),
}
"""What is no neuron, and becomes rectifiers where a network without spikes is converted."""


@pytest.mark.parametrize(("kind", "shape", "places"), CASES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("framework", ["snntorch", "torch"])
def test_every_place_is_listed_once_and_says_what_to_do(
    kind: Any, shape: tuple[int, ...], places: tuple[tuple[str, str], ...], framework: str
) -> None:
    module, sample = kind().eval(), torch.zeros(shape)
    with pytest.raises(ModelError) as caught:
        _ = from_torch(module, sample, torch.rand(4, *shape)) if framework == "torch" else from_snntorch(module, sample)
    lines = [str(p) for p in caught.value.problems]
    assert len(set(lines)) == len(lines)
    assert all(p.hint for p in caught.value.problems)
    for subject, word in places:
        if framework == "torch" and (kind, word) in CONVERTED:
            assert not any(subject in line and word in line for line in lines), word
            continue
        wanted = {"Alpha": "alpha"}.get(word, word) if framework == "torch" else word
        assert any(subject in line and wanted in line for line in lines), (subject, wanted, lines)
    spiking = [name for name, inner in module.named_modules() if type(inner).__module__.startswith("snntorch")]
    for name in spiking if framework == "torch" else ():
        assert sum(f"'{name}'" in line and "a spiking neuron is not an activation" in line for line in lines) == 1
    if framework == "snntorch":
        assert len(lines) == len(places) + (kind is Twice)  # Alpha stands behind a neuron that is called twice


def test_what_the_messages_advise_is_followed() -> None:
    class Advised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.one, self.first, self.gate, self.last = nn.Linear(6, 6), nn.Linear(6, 1), lif(), lif(), lif()

        def forward(self, x: Any) -> Any:
            hidden, gate = self.first(self.fc(x)), self.gate(self.one(x))
            wide = (hidden + gate.expand_as(hidden)).repeat_interleave(2, dim=1)
            return self.last(torch.cat([wide, hidden[:, 1:]], 1).view_as(torch.zeros(x.shape[0], 17)))

    torch.manual_seed(0)
    module = Advised().eval()
    with torch.no_grad():
        for layer in (module.fc, module.one):
            layer.weight.copy_(torch.round(torch.randn_like(layer.weight) * 1024) / 1024)
            layer.bias.copy_(torch.round(layer.bias * 1024) / 1024)
        inputs = (torch.rand(40, 2, 6) < 0.5).float()
        graph = from_snntorch(module, inputs[0])
        wanted = torch.stack([module(now) for now in inputs]).numpy()
    found = simulate(from_nir(graph), inputs.numpy()).recording.arrays["output", "s"]
    assert 0.05 < wanted.mean() < 0.95
    np.testing.assert_array_equal(found, wanted)
