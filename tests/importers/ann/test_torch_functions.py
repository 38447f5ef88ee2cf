"""Functions of torch with positional, named and omitted arguments, compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.ann.replay import walk_populations
from tests.importers.ann.plain import read_ann

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional


class Calls(nn.Module):
    """``function`` on the input, between two layers; ``p`` holds constants of any shape."""

    def __init__(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.function, self.p = function, nn.ParameterDict()
        generator = torch.Generator().manual_seed(2)
        sizes = {"rows": (3, 6), "square": (6, 6), "six": (6,), "two": (2,), "two2": (2,), "one": (1,)}
        sizes |= {
            "kernel": (4, 2, 3, 2),
            "grouped": (4, 1, 3, 2),
            "line": (4, 2, 3),
            "odd": (4, 2, 3, 5),
            "four": (4,),
            "image": (2, 6, 6),
        }
        for name, size in sizes.items():
            self.p[name] = nn.Parameter(torch.rand(size, generator=generator) + 0.25)
        with torch.no_grad():
            made = function(self, torch.zeros(1, *shape))
        self.last = nn.Linear(made[0].numel(), 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.function(self, x).flatten(1))


FLAT, LINE, IMAGE = (6,), (2, 9), (2, 6, 6)
CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "linear": (lambda m, x: F.linear(x, m.p["rows"]), FLAT),
    "linear, bias": (lambda m, x: F.linear(x, m.p["square"], bias=m.p["six"]), FLAT),
    "matmul": (lambda m, x: torch.matmul(x, m.p["rows"].t()), FLAT),
    "mm": (lambda m, x: x.mm(m.p["square"]), FLAT),
    "@": (lambda m, x: x @ m.p["square"], FLAT),
    "addmm": (lambda m, x: torch.addmm(m.p["six"], x, m.p["square"]), FLAT),
    "conv1d": (lambda m, x: F.conv1d(x, m.p["line"]), LINE),
    "conv1d, all": (lambda m, x: F.conv1d(x, m.p["line"], m.p["four"], 2, 1, 2), LINE),
    "conv2d": (lambda m, x: F.conv2d(x, m.p["kernel"]), IMAGE),
    "conv2d, by place": (lambda m, x: F.conv2d(x, m.p["kernel"], m.p["four"], (2, 1), (1, 0), (1, 2)), IMAGE),
    "conv2d, by name": (lambda m, x: F.conv2d(x, m.p["grouped"], groups=2, padding=1, stride=2, dilation=2), IMAGE),
    "conv2d, same": (lambda m, x: F.conv2d(x, m.p["odd"], padding="same"), IMAGE),
    "conv2d, same, dilated": (lambda m, x: F.conv2d(x, m.p["odd"], padding="same", dilation=(1, 2)), IMAGE),
    "conv2d, valid": (lambda m, x: F.conv2d(x, m.p["kernel"], padding="valid"), IMAGE),
    "avg_pool1d": (lambda m, x: F.avg_pool1d(x, 2), LINE),
    "avg_pool1d, all": (lambda m, x: F.avg_pool1d(x, 3, 2, 1), LINE),
    "avg_pool2d": (lambda m, x: F.avg_pool2d(x, 2), IMAGE),
    "avg_pool2d, stride": (lambda m, x: F.avg_pool2d(x, (2, 3), (1, 2)), IMAGE),
    "avg_pool2d, padding": (lambda m, x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d, divisor": (lambda m, x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg_pool2d, no padding counted": (lambda m, x: F.avg_pool2d(x, 2, count_include_pad=False), IMAGE),
    "avg_pool2d, ceil that fits": (lambda m, x: F.avg_pool2d(x, 2, 2, 0, True), IMAGE),
    "lp_pool2d": (lambda m, x: F.lp_pool2d(x + 1.0, 1, 2), IMAGE),
    "lp_pool1d, stride": (lambda m, x: F.lp_pool1d(x + 1.0, 1.0, 3, stride=2), LINE),
    "adaptive_avg_pool2d": (lambda m, x: F.adaptive_avg_pool2d(x, 3), IMAGE),
    "adaptive_avg_pool2d, two": (lambda m, x: F.adaptive_avg_pool2d(x, (2, 3)), IMAGE),
    "adaptive_avg_pool2d, None": (lambda m, x: F.adaptive_avg_pool2d(x, (None, 2)), IMAGE),
    "adaptive_avg_pool1d": (lambda m, x: F.adaptive_avg_pool1d(x, 3), LINE),
    "batch_norm": (lambda m, x: F.batch_norm(x, m.p["two"].data, m.p["two2"].data), IMAGE),
    "batch_norm, all": (
        lambda m, x: F.batch_norm(x, m.p["two"].data, m.p["two2"].data, m.p["two2"], m.p["two"], False, 0.3, 0.5),
        IMAGE,
    ),
    "dropout that is off": (lambda m, x: F.dropout(x, 0.5, False), FLAT),
    "dropout of nothing": (lambda m, x: F.dropout(x, p=0.0), FLAT),
    "dropout by name": (lambda m, x: F.dropout(x, training=m.training), FLAT),
    "relu": (lambda m, x: torch.relu(x - 0.4), FLAT),
    "clamp": (lambda m, x: torch.clamp(x - 0.4, 0), FLAT),
    "clamp, by name": (lambda m, x: (x - 0.4).clamp(min=0), FLAT),
    "clamp_min": (lambda m, x: (x - 0.4).clamp_min(0.0), FLAT),
    "clamp from above": (lambda m, x: x.clamp(0, 1) + x.clamp(max=0.5), FLAT),
    "clamp elsewhere": (lambda m, x: x.clamp(0.25), FLAT),
    "clamp on both sides": (lambda m, x: (x - 0.4).clamp(-0.3, 0.2), FLAT),
    "leaky": (lambda m, x: F.leaky_relu(x - 0.4, 0.3) + F.leaky_relu(x - 0.5, -0.2), FLAT),
    "leaky in place": (lambda m, x: F.leaky_relu(x - 0.4, inplace=True), FLAT),
    "prelu": (lambda m, x: F.prelu(x - 0.4, -m.p["one"]), FLAT),
    "prelu of channels": (lambda m, x: F.prelu(x - 0.4, m.p["two"]), IMAGE),
    "rrelu": (lambda m, x: F.rrelu(x - 0.4, training=False), FLAT),
    "abs": (lambda m, x: (x - 0.4).abs(), FLAT),
    "hardsigmoid": (lambda m, x: F.hardsigmoid(9 * x - 4), FLAT),
    "softshrink": (lambda m, x: F.softshrink(x - 0.4, 0.2), FLAT),
    "hardtanh": (lambda m, x: F.hardtanh(x - 0.4, -0.25, 0.125), FLAT),
    "maximum": (lambda m, x: torch.maximum(x, x @ m.p["square"] - 2), FLAT),
    "minimum": (lambda m, x: torch.min(x, x @ m.p["square"] - 2), FLAT),
    "max_pool1d": (lambda m, x: F.max_pool1d(x - 0.4, 3, 2, 1), LINE),
    "max_pool2d": (lambda m, x: F.max_pool2d(x - 0.4, (2, 3), 1, (1, 0), ceil_mode=True), IMAGE),
    "max_pool2d, dilated": (lambda m, x: F.max_pool2d(x.relu(), 3, 2, 1, 2, ceil_mode=True), IMAGE),
    "max_pool2d, more at the end": (lambda m, x: F.max_pool2d(x.relu(), 3, 2, ceil_mode=True), IMAGE),
    "max_pool2d, no window at the end": (lambda m, x: F.max_pool2d(x[..., :5], 2, 2, 1, ceil_mode=True), IMAGE),
    "max_pool2d, of one": (lambda m, x: F.max_pool2d(x, 1, 2), IMAGE),
    "adaptive_max_pool2d": (lambda m, x: F.adaptive_max_pool2d(x, (4, 3)), IMAGE),
    "amax": (lambda m, x: x.amax((2, 3)) + x.amin((2, 3)), IMAGE),
    "amax of channels": (lambda m, x: (x - 0.4).max(1)[0] - x.amin(1), IMAGE),
    "amax of many": (
        lambda m, x: F.conv2d(x, m.p["odd"], padding="same").amax((1, 3)) - (x[..., :4] - 0.4).amin((1, 3)),
        IMAGE,
    ),
    "amax of all": (lambda m, x: (x - 0.4).amax((1, 2, 3), keepdim=True), IMAGE),
    "amax, axes kept": (lambda m, x: x.amax(1, keepdim=True).amax(3, keepdim=True), IMAGE),
    "double, float": (lambda m, x: x.double().float(), FLAT),
    "to": (lambda m, x: x.to(torch.float64).to(torch.float32), FLAT),
    "add": (lambda m, x: x + m.p["six"], FLAT),
    "add, number": (lambda m, x: 2 + x, FLAT),
    "add, alpha": (lambda m, x: torch.add(x, m.p["six"], alpha=3), FLAT),
    "add values": (lambda m, x: torch.add(F.linear(x, m.p["square"]), x, alpha=0.5), FLAT),
    "sub": (lambda m, x: x - m.p["six"], FLAT),
    "sub values": (lambda m, x: F.linear(x, m.p["square"]) - x, FLAT),
    "sub, alpha": (lambda m, x: torch.sub(x, m.p["six"], alpha=2), FLAT),
    "sub from": (lambda m, x: m.p["six"] - x, FLAT),
    "rsub": (lambda m, x: torch.rsub(x, 1.5), FLAT),
    "rsub, alpha": (lambda m, x: torch.rsub(x, 1.5, alpha=2), FLAT),
    "rsub, number": (lambda m, x: 1.5 - x, FLAT),
    "mul": (lambda m, x: x * m.p["six"], FLAT),
    "mul from": (lambda m, x: m.p["six"] * x, FLAT),
    "mul by one": (lambda m, x: x * m.p["one"], FLAT),
    "mul per channel": (lambda m, x: x * m.p["two"].view(2, 1, 1), IMAGE),
    "mul per place": (lambda m, x: x * m.p["image"], IMAGE),
    "div": (lambda m, x: x / 4, FLAT),
    "div by one each": (lambda m, x: torch.div(x, m.p["six"]), FLAT),
    "neg": (lambda m, x: -x, FLAT),
    "cat": (lambda m, x: torch.cat([x, 2 * x], 1), FLAT),
    "cat, last": (lambda m, x: torch.cat((x, 3 * x, x), dim=-1), IMAGE),
    "cat, by name": (lambda m, x: torch.cat([x, -x], dim=2), IMAGE),
    "mean of positions": (lambda m, x: x.mean((2, 3)), IMAGE),
    "mean of positions, kept": (lambda m, x: x.mean((-2, -1), keepdim=True), IMAGE),
    "mean of a line": (lambda m, x: x.mean(-1), LINE),
    "permute": (lambda m, x: x.permute(0, 2, 3, 1), IMAGE),
    "transpose": (lambda m, x: x.transpose(1, 2), IMAGE),
    "movedim": (lambda m, x: torch.movedim(x, 1, -1), IMAGE),
    "flip": (lambda m, x: x.flip(2), IMAGE),
    "roll": (lambda m, x: torch.roll(x, 2, 1), FLAT),
    "part": (lambda m, x: x[:, 1:5:2], FLAT),
    "part of an image": (lambda m, x: x[:, 1, :, 2:], IMAGE),
    "narrow": (lambda m, x: x.narrow(1, 2, 3), FLAT),
    "select": (lambda m, x: x.select(1, 1), IMAGE),
    "index_select": (lambda m, x: x.index_select(1, torch.tensor([4, 0, 0])), FLAT),
    "chunk": (lambda m, x: x.chunk(3, 1)[2], FLAT),
    "split": (lambda m, x: torch.split(x, [1, 2, 3], 1)[1], FLAT),
    "unbind": (lambda m, x: x.unbind(1)[1], IMAGE),
    "expand": (lambda m, x: x[:, :, :1].expand(-1, -1, 4, -1), IMAGE),
    "repeat": (lambda m, x: x.repeat(1, 3), FLAT),
    "repeat_interleave": (lambda m, x: x.repeat_interleave(2, 1), FLAT),
    "reshape": (lambda m, x: x.reshape(-1, 3, 24), IMAGE),
    "unflatten": (lambda m, x: x.unflatten(1, (2, 3)), FLAT),
    "squeeze": (lambda m, x: x.unsqueeze(1).squeeze(1), FLAT),
    "average without padding": (lambda m, x: F.avg_pool2d(x, 2, 2, 1, False, False), IMAGE),
    "cut window": (lambda m, x: F.avg_pool2d(x, 4, 4, 0, True), IMAGE),
    "einsum": (lambda m, x: torch.einsum("bi,ij->bj", x, m.p["square"]), FLAT),
    "cumsum": (lambda m, x: x.cumsum(1), FLAT),
    "diff": (lambda m, x: x.diff(dim=1), FLAT),
    "overlapping windows": (lambda m, x: x.unfold(1, 3, 1).flatten(1), FLAT),
    "stack": (lambda m, x: torch.stack((x, x.flip(1)), 1), FLAT),
    "stack, summed": (lambda m, x: torch.stack((x, x.flip(1))).sum(0), FLAT),
    "cat with a constant": (lambda m, x: torch.cat((x, torch.ones(len(x), 2)), 1), FLAT),
    "lerp": (lambda m, x: torch.lerp(x, x.flip(1), 0.25), FLAT),
    "addcmul": (lambda m, x: torch.addcmul(x, x.flip(1), m.p["six"], value=2.0), FLAT),
    "where, fixed": (lambda m, x: torch.where(m.p["six"] > 0, x, x.flip(1)), FLAT),
    "masked_fill, fixed": (lambda m, x: x.masked_fill(m.p["six"] > 0, 0.5), FLAT),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_computes_what_torch_computes(name: str) -> None:
    function, shape = CASES[name]
    torch.manual_seed(1)
    module = Calls(function, shape).eval()
    x = torch.rand(5, *shape, generator=torch.Generator().manual_seed(7))
    network = read_ann(module, x[:1], 1e-4)
    with torch.no_grad():
        wanted = module(x).numpy()
    found = walk_populations(network, {network.inputs[0].name: x.numpy()})[network.outputs[0].name]
    assert np.allclose(found, wanted, atol=2e-5)
    assert np.ptp(wanted) > 1e-3


REFUSED: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "dropout that is on": (lambda m, x: F.dropout(x), FLAT, "a dropout that is always on"),
    "dropout that is on, by place": (lambda m, x: F.dropout(x, 0.25, True), FLAT, "a dropout that is always on"),
    "power average": (lambda m, x: F.lp_pool2d(x, 2.0, 2), IMAGE, "a power-average pool"),
    "batch statistics": (lambda m, x: F.batch_norm(x, None, None, training=True), IMAGE, "those of the batch"),
    "half": (lambda m, x: x.to(torch.float16).float(), FLAT, "number format to torch.float16"),
    "round": (lambda m, x: (3 * x).round(), FLAT, "not linear|comparison"),
    "product": (lambda m, x: x * x, FLAT, "a product of two values"),
    "division by a value": (lambda m, x: 1.0 / (x + 1.0), FLAT, "it has no equivalent neuron or linear layer"),
    "addmm with factors": (
        lambda m, x: torch.addmm(m.p["six"], x, m.p["square"], beta=2.0), FLAT, "addmm with factors"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_network_computes_is_refused(name: str) -> None:
    function, shape, words = REFUSED[name]
    module = Calls(function, shape).eval()
    with pytest.raises(ModelError, match=words):
        read_ann(module, torch.rand(1, *shape), 1e-4)
