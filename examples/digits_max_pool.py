"""Train a CNN with MaxPool2d over spikes on scikit-learn's digits, import it, map it and verify it: the same accuracy.

    python examples/digits_max_pool.py --epochs 30

A maximum of spikes is a threshold population (sum > 0.5), so nothing about the trained network changes: its spikes are
those of snnTorch, on the mapped cores too, where each pool is one more hop.
"""

from __future__ import annotations

import argparse
import warnings

import digits
import numpy as np
import torch

import nirbridge as nb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
    import train_digits

SHAPE = (1, 8, 8)
IMAGES = 100
"""Images that are run on the mapped cores."""


def build() -> torch.nn.Sequential:
    """The untrained network, to 10 spiking outputs."""
    linear, conv, pool, leaky = torch.nn.Linear, torch.nn.Conv2d, torch.nn.MaxPool2d, train_digits.leaky
    first = [conv(1, 8, 3, padding=1, bias=False), leaky(), pool(2)]
    second = [conv(8, 16, 3, padding=1, bias=False), leaky(), pool(2)]
    return torch.nn.Sequential(*first, *second, torch.nn.Flatten(), linear(64, 10, bias=False), leaky())


def main() -> None:
    """Train, import, map, verify."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    torch.manual_seed(train_digits.SEED)
    torch.set_num_threads(1)
    net = build()
    train_digits.train(net, SHAPE, options.epochs, 1e-2)
    spikes, labels = digits.test_spikes()
    with torch.no_grad():
        trained = train_digits.spike_counts(net, spikes, SHAPE).numpy()

    network = nb.load(net, sample=torch.zeros(1, *SHAPE))
    inputs = spikes.reshape(*spikes.shape[:2], *SHAPE)
    imported = nb.simulate(network, inputs)["output"].sum(axis=0)
    print(f"accuracy: snnTorch {np.mean(trained.argmax(1) == labels):.2%}, ", end="")
    print(f"imported {np.mean(imported.argmax(1) == labels):.2%}, ", end="")
    print(f"spike counts equal: {np.array_equal(trained, imported)}")
    print(nb.map(network, "loihi2"))
    print(nb.verify(network, chip="loihi2", inputs=inputs[:, :IMAGES]))


if __name__ == "__main__":
    main()
