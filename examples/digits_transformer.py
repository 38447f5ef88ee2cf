"""Train a spike-driven transformer on scikit-learn's digits, import it, map it, verify it and profile it.

    python examples/digits_transformer.py --epochs 20

The structure is that of the Spike-Driven Transformer (Yao et al., NeurIPS 2023) at the size of the digits: a patch
embedding of convolutions, neurons and a MaxPool of spikes; blocks of spike-driven attention (masks and sums of spikes,
no multiplication of values) and of an MLP, each with a shortcut of membranes; a mean over the tokens and a Linear.
After the training every BatchNorm is folded into its convolution, and weights are rounded to a grid of 1/64, which
makes every sum exact: no rounding decides a spike.
"""

from __future__ import annotations

import argparse

import digits
import numpy as np
import torch
from spikingjelly.activation_based import functional, neuron, surrogate
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import nirbridge as nb

STEPS, SEED, GRID = 10, 7, 64
VERIFIED = 20
"""Images that are run on the mapped cores."""


def lif(threshold: float = 1.0) -> neuron.LIFNode:
    """The neuron of the published code, over whole sequences ``[time, batch, ...]``."""
    step = surrogate.ATan()
    return neuron.LIFNode(2.0, v_threshold=threshold, surrogate_function=step, detach_reset=True, step_mode="m")


def layer(conv: nn.Module, width: int, x: torch.Tensor) -> torch.Tensor:
    """A convolution and its BatchNorm on every time step."""
    return conv(x.flatten(0, 1)).reshape(*x.shape[:2], width, *x.shape[3:])


def conv_bn(before: int, after: int, kernel: int = 1) -> nn.Sequential:
    """A convolution that keeps the size of the image, and a BatchNorm."""
    return nn.Sequential(nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(after))


class Embedding(nn.Module):
    """From pixels ``[time, batch, 1, 8, 8]`` to membranes ``[time, batch, dim, 4, 4]``: 16 tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.first, self.second, self.position = (
            conv_bn(1, dim // 2, 3),
            conv_bn(dim // 2, dim, 3),
            conv_bn(dim, dim, 3),
        )
        self.lif1, self.lif2, self.pool = lif(), lif(), nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Membranes of the tokens."""
        x = self.lif1(layer(self.first, self.dim // 2, x))
        x = self.pool(x.flatten(0, 1)).reshape(*x.shape[:3], 4, 4)
        x = layer(self.second, self.dim, x)
        return x + layer(self.position, self.dim, self.lif2(x))


class Attention(nn.Module):
    """Spike-driven attention: q masks the channels whose k and v meet in enough tokens."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        self.q, self.k, self.v, self.proj = (conv_bn(dim, dim) for _ in range(4))
        self.lif, self.q_lif, self.k_lif, self.v_lif, self.attention_lif = lif(), lif(), lif(), lif(), lif(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Membranes, with what the attention adds to them."""
        spikes = self.lif(x)
        q, k, v = (
            fire(layer(part, self.dim, spikes)).flatten(3).unflatten(2, (self.heads, -1)).transpose(-1, -2)
            for part, fire in ((self.q, self.q_lif), (self.k, self.k_lif), (self.v, self.v_lif))
        )  # [time, batch, heads, tokens, channels of a head]
        masked = q * self.attention_lif((k * v).sum(dim=-2, keepdim=True))
        return x + layer(self.proj, self.dim, masked.transpose(-1, -2).reshape(x.shape))


class Mlp(nn.Module):
    """Two layers of neurons before weights."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.dim, self.hidden = dim, hidden
        self.fc1, self.fc2, self.lif1, self.lif2 = conv_bn(dim, hidden), conv_bn(hidden, dim), lif(), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Membranes, with what the MLP adds to them."""
        return x + layer(self.fc2, self.dim, self.lif2(layer(self.fc1, self.hidden, self.lif1(x))))


class Transformer(nn.Module):
    """The classes' currents ``[time, batch, 10]`` of images ``[time, batch, 1, 8, 8]``."""

    def __init__(self, dim: int = 32, heads: int = 4, blocks: int = 1) -> None:
        super().__init__()
        self.embedding = Embedding(dim)
        self.blocks = nn.Sequential(*(nn.Sequential(Attention(dim, heads), Mlp(dim, 2 * dim)) for _ in range(blocks)))
        self.lif, self.head = lif(), nn.Linear(dim, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One score per class and time step; their sum decides."""
        return self.head(self.lif(self.blocks(self.embedding(x)).flatten(3).mean(3)))


def scores(net: nn.Module, spikes: np.ndarray) -> torch.Tensor:
    """``[batch, 10]``, summed over the time steps of ``spikes [steps, batch, 64]``, from rest."""
    functional.reset_net(net)
    return net(torch.from_numpy(spikes).float().unflatten(2, (1, 8, 8))).sum(0)


def train(net: nn.Module, epochs: int) -> None:
    """Cross-entropy on the mean of the scores, new input spikes every epoch."""
    images, labels, _, _ = digits.load()
    generator, optimizer = np.random.default_rng(SEED), torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in np.array_split(generator.permutation(len(images)), 12):
            spikes = digits.encode(images[batch], STEPS, generator)
            loss = nn.functional.cross_entropy(scores(net, spikes) * 2 / STEPS, torch.from_numpy(labels[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    net.eval()
    fold(net)
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_((weight * GRID).round() / GRID)


def fold(net: nn.Module) -> None:
    """Every convolution with its BatchNorm as one convolution, in place."""
    for name, part in net.named_children():
        if isinstance(part, nn.Sequential) and isinstance(part[-1], nn.BatchNorm2d):
            setattr(net, name, fuse_conv_bn_eval(*part))
        else:
            fold(part)


def main() -> None:
    """Train, import, map, verify, profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--chip", default="loihi2")
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = Transformer(blocks=options.blocks)
    train(net, options.epochs)
    spikes, labels = digits.test_spikes()
    spikes = spikes[:STEPS]
    with torch.no_grad():
        trained = scores(net, spikes).numpy()

    functional.reset_net(net)
    network = nb.load(net, sample=torch.zeros(STEPS, 2, 1, 8, 8))
    inputs = spikes.reshape(*spikes.shape[:2], 1, 8, 8)
    imported = nb.simulate(network, inputs)["output"].sum(axis=0)
    print(network)
    print(f"accuracy: spikingjelly {np.mean(trained.argmax(1) == labels):.2%}, ", end="")
    print(f"imported {np.mean(imported.argmax(1) == labels):.2%}, ", end="")
    print(f"scores that differ: {np.count_nonzero(trained != imported)} of {trained.size}")
    print(nb.map(network, options.chip))
    print(nb.verify(network, options.chip, inputs[:, :VERIFIED]))
    print(nb.profile(network, options.chip, inputs, labels).summary())


if __name__ == "__main__":
    main()
