"""Accuracy of converted networks with MaxPool on scikit-learn's digits, beside sinabs and spikingjelly.

    python -m benchmarks.converting [--seeds 3] [--epochs 15]
    python -m benchmarks.converting --classic {resnet18,vgg11,alexnet} [--size 224]

Three small ReLU networks are trained as usual, then converted by each tool without further training, on the same 1,200
training images; every tool is given the images themselves in every time step, and decides for the largest sum of the
last layer's outputs. Of sinabs and spikingjelly, the default and the options that their documentation offers for such
networks are measured; BatchNorm is folded beforehand for sinabs, which would keep it.

The second command converts ResNet-18, VGG-11 or AlexNet, as their papers and torchvision publish them, with random
weights, for images of SIZE x SIZE, and prints CPU seconds and memory.
"""

from __future__ import annotations

import os

os.environ["TQDM_DISABLE"] = "1"  # before tqdm is imported

import argparse
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from examples import digits
from nirbridge.arrays import Array
from nirbridge.importers.ann.from_torch import convert_torch
from nirbridge.simulators.simulate import Probe, simulate

STEPS = (16, 32, 64)
BATCHES, RATE = 20, 1e-2


class Residual(nn.Module):
    """``relu(x + bn(conv(relu(bn(conv(x))))))``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = nn.Conv2d(size, size, 3, padding=1), nn.BatchNorm2d(size), nn.ReLU()
        self.conv2, self.bn2, self.relu2 = nn.Conv2d(size, size, 3, padding=1), nn.BatchNorm2d(size), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        return self.relu2(x + self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x))))))


def stage(before: int, after: int, pool: nn.Module | None = None) -> list[nn.Module]:
    """Convolution, normalization, ReLU, and a pool where one is given."""
    layers = [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return [*layers, pool] if pool else layers


def vgg_like() -> nn.Sequential:
    """Two convolutions, each with a MaxPool of disjoint windows; images ``[batch, 1, 8, 8]``."""
    layers = [*stage(1, 12, nn.MaxPool2d(2)), *stage(12, 24, nn.MaxPool2d(2))]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, 10))


def alexnet_like() -> nn.Sequential:
    """Five layers, MaxPools of overlapping windows."""
    layers = [*stage(1, 12, nn.MaxPool2d(3, 2)), *stage(12, 24), *stage(24, 24, nn.MaxPool2d(3, 2))]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))


def resnet_like() -> nn.Sequential:
    """Six layers with residual blocks, MaxPools of overlapping and of padded windows."""
    layers = [*stage(1, 16, nn.MaxPool2d(3, 2, 1)), Residual(16), nn.MaxPool2d(2), Residual(16)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


NETWORKS: Mapping[str, Callable[[], nn.Sequential]] = {
    "Two layers, MaxPool 2 x 2": vgg_like,
    "Five layers, MaxPool 3 x 3 of stride 2": alexnet_like,
    "Six layers, residual, MaxPool 3 x 3 with padding": resnet_like,
}


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images ``[1200, 1, 8, 8]`` and labels, 597 test images and labels."""
    images, labels, test, test_labels = (torch.from_numpy(a) for a in digits.load())
    return images.reshape(-1, 1, 8, 8), labels, test.reshape(-1, 1, 8, 8), test_labels


def trained(make: Callable[[], nn.Sequential], seed: int, epochs: int) -> nn.Sequential:
    """The network after cross-entropy training, in eval mode."""
    torch.manual_seed(seed)
    net = make()
    images, labels, _, _ = data()
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=epochs * BATCHES)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).chunk(BATCHES):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


# -- tools -----------------------------------------------------------------------------------------------------------
# Each gives the summed outputs after 1, 2, … time steps, ``[64, samples, 10]``, and its number of spiking neurons.

Outcome = tuple[Array, int]


def of_nirbridge(net: nn.Sequential, images: torch.Tensor, test: torch.Tensor, steps: int = 64) -> Outcome:
    """``convert_torch`` with its defaults, or tuned for fewer time steps."""
    network = convert_torch(net, images[:1], images, steps=steps).network
    fed = np.broadcast_to(test.numpy(), (max(STEPS), *test.shape))
    arrays = simulate(network, fed, record=[Probe("output_readout", ("v",))]).recording.arrays
    return arrays["output_readout", "v"], sum(p.size for p in network.populations if p.neuron.fires)


def folded(net: nn.Module) -> nn.Module:
    """A copy with every BatchNorm in the convolution before it."""
    net = deepcopy(net)
    for parent in net.modules():
        names = [name for name, _ in parent.named_children()]
        for before, name in pairwise(names):
            conv, norm = getattr(parent, before), getattr(parent, name)
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, before, nn.utils.fuse_conv_bn_eval(conv, norm))
                setattr(parent, name, nn.Identity())
    return net


def of_sinabs(net: nn.Sequential, images: torch.Tensor, test: torch.Tensor, *, gated: bool = False) -> Outcome:
    """``from_model``; ``gated``: with its ``SpikingMaxPooling2dLayer``, one spike per time step, normalized weights."""
    import sinabs.layers as sl
    from sinabs.activation import SingleSpike
    from sinabs.conversion import replace_module
    from sinabs.from_torch import from_model

    steps, ann = max(STEPS), folded(net)
    options: dict[str, Any] = {}
    if gated:
        normalize(ann, images)
        ann = replace_module(ann, nn.MaxPool2d, lambda pool: OverTime(pool, len(test)))
        options = {"spike_fn": SingleSpike}
    snn = from_model(ann, batch_size=len(test), **options).spiking_model
    with torch.no_grad():
        out = snn(test[:, None].expand(-1, steps, -1, -1, -1).flatten(0, 1))
    neurons = sum(layer.v_mem[0].numel() for layer in snn.modules() if isinstance(layer, sl.IAFSqueeze))
    return out.unflatten(0, (len(test), steps)).transpose(0, 1).cumsum(0).numpy(), neurons


def normalize(net: nn.Module, images: torch.Tensor) -> None:
    """Weights for which the 99th percentile of each ReLU is 1 (Rueckauer et al. 2017), biases included; in order.

    sinabs' own ``normalize_weights`` leaves the biases of later layers as they are.
    """
    chain, scale = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.ReLU)], 1.0
    peaks: dict[nn.Module, float] = {}
    hooks = [
        m.register_forward_hook(lambda m, _, y: peaks.update({m: float(torch.quantile(y.flatten()[::7], 0.99))}))
        for m in chain
        if isinstance(m, nn.ReLU)
    ]
    with torch.no_grad():
        wanted = net(images)
        for k, layer in enumerate(chain):
            if isinstance(layer, nn.ReLU):
                continue
            after = next((peaks[m] for m in chain[k:] if isinstance(m, nn.ReLU)), 1.0)
            layer.weight.mul_(scale / after)
            if layer.bias is not None:
                layer.bias.div_(after)
            scale = after
        assert torch.allclose(net(images), wanted, rtol=1e-3, atol=1e-3), "the function changed"
    for hook in hooks:
        hook.remove()


class OverTime(nn.Module):
    """sinabs' ``SpikingMaxPooling2dLayer``, which wants time first, on values ``[batch * time, …]``."""

    def __init__(self, pool: nn.MaxPool2d, batch: int) -> None:
        super().__init__()
        import sinabs.layers as sl

        self.batch = batch
        padding: Any = (pool.padding,) * 4
        self.pool = sl.SpikingMaxPooling2dLayer((pool.kernel_size,) * 2, (pool.stride,) * 2, padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pooled spikes."""
        spikes = x.unflatten(0, (self.batch, -1)).transpose(0, 1)
        return torch.stack([self.pool(spikes[:, k]) for k in range(self.batch)]).flatten(0, 1)


def of_spikingjelly(net: nn.Sequential, images: torch.Tensor, test: torch.Tensor, **options: Any) -> Outcome:
    """``ann2snn.Converter`` with the recipe of rate codes."""
    sys.modules.setdefault("requests", ModuleType("requests"))  # ann2snn imports it, for downloads alone
    from spikingjelly.activation_based import ann2snn, functional, neuron

    recipe = ann2snn.RateCodingRecipe(dataloader=[(images, 0)], **options)
    snn = ann2snn.Converter(recipe).convert(deepcopy(net))
    functional.reset_net(snn)
    with torch.no_grad():
        outputs = torch.stack([snn(test) for _ in range(max(STEPS))]).cumsum(0).numpy()
    potentials: list[Any] = [layer.v for layer in snn.modules() if isinstance(layer, neuron.BaseNode)]
    return outputs, sum(v[0].numel() for v in potentials)


GATED = "sinabs, gated pools, normalized weights"
BEST = {"mode": "99.9%", "channel_wise": True, "half_threshold": True, "pre_spike_maxpool": True}
TOOLS: Mapping[str, Callable[[nn.Sequential, torch.Tensor, torch.Tensor], Outcome]] = {
    "nirbridge": of_nirbridge,
    "nirbridge, `steps=32`": partial(of_nirbridge, steps=32),
    "sinabs, `from_model`": of_sinabs,
    GATED: partial(of_sinabs, gated=True),
    "spikingjelly, `mode='Max'`": of_spikingjelly,
    "spikingjelly, `mode='99.9%'`": partial(of_spikingjelly, mode="99.9%"),
    "spikingjelly, per channel, half threshold, pools of currents": partial(of_spikingjelly, **BEST),
}


# -- the classics ----------------------------------------------------------------------------------------------------
# Written anew. ``width`` scales the channels and hidden features, so that the whole structure can be tried in small.

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


def _conv(before: int, after: int, kernel: int, stride: int, padding: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, kernel, stride, padding), nn.ReLU(True)]


def alexnet(width: float = 1.0) -> nn.Module:
    """AlexNet in one column (Krizhevsky 2014)."""
    a, b, c, d, e = (max(1, int(n * width)) for n in (64, 192, 384, 256, 256))
    hidden = max(1, int(4096 * width))
    layers = [*_conv(3, a, 11, 4, 2), nn.MaxPool2d(3, 2), *_conv(a, b, 5, 1, 2), nn.MaxPool2d(3, 2)]
    layers += [*_conv(b, c, 3, 1, 1), *_conv(c, d, 3, 1, 1), *_conv(d, e, 3, 1, 1), nn.MaxPool2d(3, 2)]
    head = [nn.Dropout(), nn.Linear(e * 36, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, hidden)]
    return Classified(nn.Sequential(*layers), 6, nn.Sequential(*head, nn.ReLU(True), nn.Linear(hidden, CLASSES)))


CLASSICS: dict[str, Any] = {"resnet18": ResNet18, "vgg11": vgg11, "alexnet": alexnet}


def settled(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in eval mode, its batch normalizations with statistics of their own."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.uniform_(-0.3, 0.3, generator=generator)
            layer.running_var.uniform_(0.5, 2.0, generator=generator)
    return module.eval()


def measure_classic(name: str, size: int) -> None:
    """Convert one of ``CLASSICS`` with 16 random images; one thread."""
    torch.manual_seed(0)
    module, images = settled(CLASSICS[name]()), torch.rand(16, 3, size, size)
    before = time.process_time()
    conversion = convert_torch(module, images[:1], images)
    seconds, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    parameters = sum(p.numel() for p in module.parameters()) / 1e6
    print(
        f"{name}, {size} x {size}: {parameters:.1f} million parameters, {conversion.network.neurons / 1e6:.2f} million "
        f"neurons, {seconds:.0f} CPU seconds, {peak:.2f} GB at the peak"
    )


def main() -> None:
    """Train, convert, print a table for each network: mean over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--classic", choices=CLASSICS)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.classic:
        return measure_classic(options.classic, options.size)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    images, _, test, labels = data()
    for name, make in NETWORKS.items():
        nets = [trained(make, seed, options.epochs) for seed in range(options.seeds)]
        with torch.no_grad():
            wanted = [net(test).numpy() for net in nets]
        share = np.mean([accuracy(values, labels.numpy()) for values in wanted])
        print(f"\n{name}; the ANN: {share:.2%}\n")
        print("| tool | neurons | " + " | ".join(f"{t} time steps" for t in STEPS) + " | changed | error |")
        print("|---|---|" + "---|" * (len(STEPS) + 2))
        for tool, convert in TOOLS.items():
            if tool == GATED and make is resnet_like:
                continue  # branches of a sum would need the same scale
            print(f"| {tool} | {_cells([convert(net, images, test) for net in nets], wanted, labels.numpy())} |")


def accuracy(values: Array, labels: Array) -> float:
    """Share of the largest values that are at the label."""
    return float(np.mean(values.argmax(1) == labels))


def _cells(outcomes: list[Outcome], wanted: list[Array], labels: Array) -> str:
    """Neurons; for each number of time steps the accuracy, the points to the ANN, and the ratio.

    Then the share of changed decisions and the error of the outputs (share of their standard deviation) at the last.
    """
    cells, ann = [f"{outcomes[0][1]:,}"], np.mean([accuracy(values, labels) for values in wanted])
    for t in STEPS:
        found = np.mean([accuracy(values[t - 1], labels) for values, _ in outcomes])
        cells.append(f"{found:.2%} ({100 * (found - ann):+.2f}, {found / ann:.3f})")
    last = [values[max(STEPS) - 1] / max(STEPS) for values, _ in outcomes]
    changed = np.mean([np.mean(a.argmax(1) != b.argmax(1)) for a, b in zip(last, wanted, strict=True)])
    error = np.mean([np.sqrt(np.mean((a - b) ** 2)) / b.std() for a, b in zip(last, wanted, strict=True)])
    return " | ".join([*cells, f"{changed:.2%}", f"{error:.1%}"])


if __name__ == "__main__":
    main()
