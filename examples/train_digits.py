"""Train a small spiking network on scikit-learn's digits with snnTorch and write it as a NIR file.

    python examples/train_digits.py --model mlp --out examples/models

beta = 7/8 and weights on a grid of 1/64 (eight bits: -128/64 to 127/64) make every sum of inputs exact, so that the
order in which a simulator adds them cannot change a spike. A run takes about half a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import digits
import digits_nir
import numpy as np
import snntorch as snn
import torch
from snntorch import surrogate

from nirbridge.importers import save_nir

BETA = 0.875
GRID = 64
SEED = 7
SHAPES = {"mlp": (64,), "cnn": (1, 8, 8)}
# Epochs and learning rate; the second was chosen among four on 200 of the training images held out.
SCHEDULES = {"mlp": (60, 2e-3), "cnn": (30, 1e-2)}


def leaky() -> snn.Leaky:
    """A neuron that plain NIR can express: threshold 1, reset to zero."""
    return snn.Leaky(beta=BETA, reset_mechanism="zero", spike_grad=surrogate.fast_sigmoid(slope=10), init_hidden=True)


def build(model: str) -> torch.nn.Sequential:
    """The untrained network, to 10 spiking outputs."""
    linear, conv, pool = torch.nn.Linear, torch.nn.Conv2d, torch.nn.AvgPool2d
    if model == "mlp":
        return torch.nn.Sequential(linear(64, 64, bias=False), leaky(), linear(64, 10, bias=False), leaky())
    first = [conv(1, 8, 3, padding=1, bias=False), leaky(), pool(2)]
    second = [conv(8, 16, 3, padding=1, bias=False), leaky(), pool(2)]
    return torch.nn.Sequential(*first, *second, torch.nn.Flatten(), linear(64, 10, bias=False), leaky())


def spike_counts(net: torch.nn.Sequential, spikes: np.ndarray, shape: tuple[int, ...]) -> torch.Tensor:
    """Output spikes ``[batch, 10]`` summed over the steps of ``spikes [steps, batch, 64]``, from rest."""
    for layer in net:
        if isinstance(layer, snn.Leaky):
            layer.reset_mem()
    steps = torch.from_numpy(spikes).float().reshape(*spikes.shape[:2], *shape)
    return torch.stack([net(step) for step in steps]).sum(0)


def train(net: torch.nn.Sequential, shape: tuple[int, ...], epochs: int, learning_rate: float) -> None:
    """Cross-entropy on spike counts, new input spikes every epoch; leaves the weights on their grid."""
    images, labels, _, _ = digits.load()
    generator = np.random.default_rng(SEED)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for batch in np.array_split(generator.permutation(len(images)), 20):
            counts = spike_counts(net, digits.encode(images[batch], digits.STEPS, generator), shape)
            loss = torch.nn.functional.cross_entropy(counts / 4, torch.from_numpy(labels[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_((weight * GRID).round().clamp(-128, 127) / GRID)


def accuracy(net: torch.nn.Sequential, shape: tuple[int, ...]) -> float:
    """Share of the test images whose label spikes most often (ties: the lower label)."""
    spikes, labels = digits.test_spikes()
    with torch.no_grad():
        counts = spike_counts(net, spikes, shape).numpy()
    return float(np.mean(counts.argmax(1) == labels))


def train_and_save(model: str, folder: Path, epochs: int | None = None) -> tuple[torch.nn.Sequential, Path, float]:
    """The trained network, the NIR file written for it, and its test accuracy."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net, shape = build(model), SHAPES[model]
    default_epochs, learning_rate = SCHEDULES[model]
    train(net, shape, epochs or default_epochs, learning_rate)
    measured = accuracy(net, shape)
    about = {"accuracy": measured, "steps": digits.STEPS, "seed": SEED, "test_seed": digits.TEST_SEED}
    about |= {"dataset": "scikit-learn digits, test images 1200 to 1796", "encoding": "Bernoulli, pixel / 16"}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"digits_{model}.nir"
    save_nir(digits_nir.to_graph(net, shape, about), path)
    return net, path, measured


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(SHAPES), default="mlp")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "models")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    _, path, measured = train_and_save(options.model, options.out, options.epochs)
    print(f"{path}: test accuracy {measured:.1%}")


if __name__ == "__main__":
    main()
