"""Fine-tuning for integers: the values in torch's forward are those of the chip, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import digits
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError
from nirbridge.network.operators import Dense
from nirbridge.passes import Retime
from nirbridge.pipeline import load_network
from nirbridge.quantization import QuantizationOptions, quantize
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.qat import attach, detach, factor_of, real_weights, scales_of
from nirbridge.simulators.fixed.simulate import simulate_fixed
from tests.quantization.nets import layer, lif

torch = pytest.importorskip("torch", reason="fine-tuning is of torch models")


class Step(torch.autograd.Function):
    """A spike above 1; in backward a triangle around it."""

    @staticmethod
    def forward(ctx: Any, v: Any) -> Any:
        ctx.save_for_backward(v)
        return (v > 1.0).to(v.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (v,) = ctx.saved_tensors
        return grads[0] * torch.clamp(1.0 - (v - 1.0).abs(), min=0.0)


class Model(torch.nn.Module):
    """The digits MLP in plain torch: two layers without biases, decay 0.875, reset to 0."""

    def __init__(self, weights: list[Any]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(w.shape[1], w.shape[0], bias=False) for w in weights)
        for own, w in zip(self.layers, weights, strict=True):
            own.weight.data = torch.tensor(w, dtype=torch.float32)  # type: ignore[union-attr]

    def forward(self, spikes: Any) -> Any:
        potentials = [torch.zeros(spikes.shape[1], own.out_features) for own in self.layers]  # type: ignore[union-attr]
        total = torch.zeros_like(potentials[-1])
        for x in spikes:
            for k, own in enumerate(self.layers):
                v = 0.875 * potentials[k] + own(x)
                x = Step.apply(v)
                potentials[k] = torch.where(x > 0, torch.zeros_like(v), v)
            total = total + x
        return total


def accuracy(q: Any, spikes: Any, labels: Any) -> float:
    late = q.latency["output"]
    longer = np.concatenate([spikes, np.zeros((late, *spikes.shape[1:]), spikes.dtype)])
    counts = simulate_fixed(q, longer).recording.arrays["output", "s"][late:].sum(0, dtype=int)
    return float((counts.argmax(-1) == labels).mean())


@pytest.mark.parametrize("bits", [4, pytest.param(2, marks=pytest.mark.slow)])
def test_digits_fine_tuned_are_the_integers_that_were_trained(root: Path, bits: int) -> None:
    data, chip = digits, read_chip("loihi1")
    network = load_network(root / "examples" / "models" / "digits_mlp.nir")
    first = quantize(Retime().retimed(network), chip, QuantizationOptions(weight_bits=bits))
    model = Model([np.asarray(weights_of(p.operator)) for p in network.projections[:2]])  # type: ignore[arg-type]
    factors = [factor_of(first, p.source, p.target) for p in first.projections]
    for own, (factor, width, mode) in zip(model.layers, factors, strict=True):
        attach(own, width, factor=factor, mode=mode)
    for k, own in enumerate(model.layers):  # before any training: exactly the integers of the first model
        wanted = real_weights(first, first.projections[k].index).astype(np.float32)
        np.testing.assert_array_equal(own.weight.detach().numpy(), wanted)
    before = [w.copy() for w in (real_weights(first, p.index) for p in first.projections)]
    train(model, data, steps=12)
    for own, (factor, width, _) in zip(model.layers, factors, strict=True):
        whole = own.weight.detach().double().numpy() * factor / 2 ** (9 - width)
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-4)
        detach(own)
    tuned = with_weights_of(network, model)
    last = quantize(Retime().retimed(tuned), chip, QuantizationOptions(weight_bits=bits, scales=scales_of(first)))
    for k, own in enumerate(model.layers):
        found = real_weights(last, last.projections[k].index)
        np.testing.assert_array_equal(found.astype(np.float32), own.weight.detach().numpy())
        assert not np.array_equal(found, before[k])
    spikes, labels = data.test_spikes()
    gained = accuracy(last, spikes, labels) - accuracy(first, spikes, labels)
    assert gained > (0.1 if bits == 2 else -0.01)


def train(model: Any, data: Any, steps: int) -> None:
    images, labels, _, _ = data.load()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        some = rng.choice(len(images), 64, replace=False)
        spikes = torch.tensor(data.encode(images[some], data.STEPS, rng), dtype=torch.float32)
        loss = torch.nn.functional.cross_entropy(model(spikes), torch.tensor(labels[some]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def with_weights_of(network: Any, model: Any) -> Any:
    """The network with the model's weights."""
    made = [
        replace(p, operator=Dense(freeze(own.weight.detach().double().numpy())))
        for p, own in zip(network.projections[:2], model.layers, strict=True)
    ]
    return replace(network, projections=(*made, *network.projections[2:]))


def test_a_scale_that_the_chip_does_not_hold_is_refused() -> None:
    net = layer(np.random.default_rng(0).normal(size=(3, 4)), lif(a_mem=0.9))
    chip = read_chip("loihi1")
    first = quantize(net, chip)
    again = quantize(net, chip, QuantizationOptions(scales=scales_of(first)))
    np.testing.assert_array_equal(weights_of(again.projections[0].operator), weights_of(first.projections[0].operator))
    half = quantize(net, chip, QuantizationOptions(scales={"p": scales_of(first)["p"] / 2}))
    assert float(half.populations[0].neuron.scale) == float(first.populations[0].neuron.scale) / 2
    with pytest.raises(ModelError, match=r"population 'p': a scale of 1e\+12 was requested, .* allows less"):
        quantize(net, chip, QuantizationOptions(scales={"p": 1e12}))
    with pytest.raises(ModelError, match="scale of 'q'"):
        quantize(net, chip, QuantizationOptions(scales={"q": 1.0}))
    with pytest.raises(ModelError, match="scale of 'p'"):
        quantize(net, chip, QuantizationOptions(scales={"p": float("nan")}))


@pytest.mark.parametrize("seed", range(20))
def test_weights_at_the_ends_of_the_grid_keep_their_integers(seed: int) -> None:
    """Single precision may put the last weight of a grid a little beyond its end: that is no wider range."""
    rng = np.random.default_rng(seed)
    chip, bits = read_chip("loihi1"), int(rng.choice([8, 4, 3]))
    first = quantize(layer(rng.normal(size=(6, 30)), lif()), chip, QuantizationOptions(weight_bits=bits))
    factor, _, mode = factor_of(first, "in", "p")
    tuned = attach(torch.nn.Linear(30, 6, bias=False), bits, factor=factor, mode=mode)
    with torch.no_grad():
        tuned.get_parameter("parametrizations.weight.original").copy_(torch.tensor(rng.normal(0, 3, (6, 30))))
    weight = detach(tuned).weight.detach().numpy()
    net = layer(weight.astype(np.float64), lif())
    last = quantize(net, chip, QuantizationOptions(weight_bits=bits, scales=scales_of(first)))
    np.testing.assert_array_equal(real_weights(last, 0).astype(np.float32), weight)
