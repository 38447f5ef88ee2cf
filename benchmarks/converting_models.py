"""ResNet-18, VGG-11 and AlexNet as their papers and torchvision publish them, written anew, with random weights.

    python -m benchmarks.converting_models {resnet18,vgg11,alexnet} [SIZE]

The command converts one of them for images of SIZE x SIZE (default 224) and prints CPU seconds and memory. ``width``
scales the channels and hidden features, so that the whole structure can be tried in small.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import torch
from torch import nn

CLASSES = 1000


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut (He et al. 2016, figure 5, left)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        is_same = stride == 1 and before == after
        shortcut = [] if is_same else [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)]
        self.downsample = nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.downsample(x)
        return self.relu(y)


class ResNet18(nn.Module):
    """ResNet-18 (He et al. 2016, table 1)."""

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        a, b, c, d = (max(1, int(n * width)) for n in (64, 128, 256, 512))
        self.conv1, self.bn1 = nn.Conv2d(3, a, 7, 2, 3, bias=False), nn.BatchNorm2d(a)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        sizes = ((a, a, 1), (a, b, 2), (b, c, 2), (c, d, 2))
        stages = [nn.Sequential(BasicBlock(i, o, s), BasicBlock(o, o, 1)) for i, o, s in sizes]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(d, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images ``[batch, 3, height, width]`` to values of the classes."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Classified(nn.Module):
    """Features, an adaptive average pool and a classifier, as VGG and AlexNet have them."""

    def __init__(self, features: nn.Module, size: int, classifier: nn.Module) -> None:
        super().__init__()
        self.features, self.avgpool, self.classifier = features, nn.AdaptiveAvgPool2d((size, size)), classifier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images ``[batch, 3, height, width]`` to values of the classes."""
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def vgg11(width: float = 1.0) -> nn.Module:
    """VGG-11, configuration A (Simonyan and Zisserman 2015, table 1)."""
    layers: list[nn.Module] = []
    before = 3
    for size in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        after = max(1, int(size * width))
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)] if size else [nn.MaxPool2d(2, 2)]
        before = after if size else before
    hidden = max(1, int(4096 * width))
    head = [nn.Linear(before * 49, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, hidden)]
    return Classified(
        nn.Sequential(*layers), 7, nn.Sequential(*head, nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, CLASSES))
    )


def alexnet(width: float = 1.0) -> nn.Module:
    """AlexNet in one column (Krizhevsky 2014)."""
    a, b, c, d, e = (max(1, int(n * width)) for n in (64, 192, 384, 256, 256))
    hidden = max(1, int(4096 * width))
    layers: list[nn.Module] = [nn.Conv2d(3, a, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2)]
    layers += [
        nn.Conv2d(a, b, 5, padding=2),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(b, c, 3, padding=1),
        nn.ReLU(True),
    ]
    layers += [
        nn.Conv2d(c, d, 3, padding=1),
        nn.ReLU(True),
        nn.Conv2d(d, e, 3, padding=1),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2),
    ]
    head = [
        nn.Dropout(),
        nn.Linear(e * 36, hidden),
        nn.ReLU(True),
        nn.Dropout(),
        nn.Linear(hidden, hidden),
        nn.ReLU(True),
    ]
    return Classified(nn.Sequential(*layers), 6, nn.Sequential(*head, nn.Linear(hidden, CLASSES)))


MODELS: dict[str, Any] = {"resnet18": ResNet18, "vgg11": vgg11, "alexnet": alexnet}


def settled(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in eval mode, its batch normalizations with statistics of their own."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.uniform_(-0.3, 0.3, generator=generator)
            layer.running_var.uniform_(0.5, 2.0, generator=generator)
    return module.eval()


def main(name: str, size: str = "224") -> None:
    """Convert with 16 random images; one thread."""
    from nirbridge.importers.ann.from_torch import convert_torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, images = settled(MODELS[name]()), torch.rand(16, 3, int(size), int(size))
    before = time.process_time()
    conversion = convert_torch(module, images[:1], images)
    seconds, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    parameters = sum(p.numel() for p in module.parameters()) / 1e6
    print(
        f"{name}, {size} x {size}: {parameters:.1f} million parameters, {conversion.network.neurons / 1e6:.2f} million "
        f"neurons, {seconds:.0f} CPU seconds, {peak:.2f} GB at the peak"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
