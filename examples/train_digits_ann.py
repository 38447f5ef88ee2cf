"""Train two ordinary (not spiking) networks on scikit-learn's digits with PyTorch, to be converted to spikes.

    python examples/train_digits_ann.py --out examples/models

A plain convolutional network and a residual one, with batch normalization and ReLU. Weights and the accuracy on 597
held-out images go into a ``.npz`` file each. A run takes some seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import digits
import numpy as np
import torch
from torch import nn

SEED = 7
EPOCHS = 40
BATCHES = 20
LEARNING_RATE = 1e-2
SHAPE = (1, 8, 8)


class Residual(nn.Module):
    """``relu(shortcut(x) + conv(relu(conv(x))))``, each convolution followed by batch normalization."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1, bias=False)
        self.first = nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        return torch.relu(self.shortcut(x) + self.second(self.first(x)))


def stage(before: int, after: int) -> list[nn.Module]:
    """Convolution, normalization, ReLU and pooling by two."""
    return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.AvgPool2d(2)]


def build(model: str) -> nn.Sequential:
    """The untrained network, ``[batch, 1, 8, 8]`` to ten values; the largest is the answer."""
    if model == "cnn":
        return nn.Sequential(*stage(1, 12), *stage(12, 24), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, 10))
    blocks = [*stage(1, 12), Residual(12, 12), Residual(12, 24), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 10))


def images_as_tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images ``[1200, 1, 8, 8]`` and labels, test images and labels."""
    images, labels, test_images, test_labels = (torch.from_numpy(a) for a in digits.load())
    return images.reshape(-1, *SHAPE), labels, test_images.reshape(-1, *SHAPE), test_labels


def train(net: nn.Module, epochs: int) -> None:
    """Cross-entropy; leaves the network in eval mode."""
    images, labels, _, _ = images_as_tensors()
    optimizer = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=epochs * BATCHES)
    net.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).chunk(BATCHES):
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    net.eval()


def accuracy(net: nn.Module) -> float:
    """Share of the 597 test images that the network gets right."""
    _, _, images, labels = images_as_tensors()
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).double().mean())


def load(path: Path) -> tuple[nn.Sequential, float]:
    """A trained network in eval mode, and the accuracy that its file states."""
    with np.load(path) as stored:
        values = {name: torch.from_numpy(stored[name].copy()) for name in stored.files if name != "accuracy"}
        measured = float(stored["accuracy"])
    net = build(path.stem.removeprefix("digits_ann_"))
    net.load_state_dict(values)
    return net.eval(), measured


def train_and_save(model: str, folder: Path, epochs: int = EPOCHS) -> tuple[Path, float]:
    """Trains, measures, writes."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = build(model)
    train(net, epochs)
    measured = accuracy(net)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"digits_ann_{model}.npz"
    values = {name: value.numpy() for name, value in net.state_dict().items()}
    np.savez_compressed(path, allow_pickle=False, accuracy=np.float64(measured), **values)
    return path, measured


def main() -> None:
    """Both networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "models")
    options = parser.parse_args()
    for model in ("cnn", "residual"):
        path, measured = train_and_save(model, options.out)
        print(f"{path}: test accuracy {measured:.1%}")


if __name__ == "__main__":
    main()
