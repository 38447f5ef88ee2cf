"""CPU seconds that importing a model of 10 million parameters takes, beyond building it.

python -m benchmarks.importing [--only torch,norse] [--samples 256] [-o FILE.json]

Every importer reads the same three networks made of its framework's neurons; ``torch`` converts the ReLU networks, with
random calibration data. Process CPU time on one thread (threads that wait for each other would count too), single runs;
a small model is imported first, so that loading code does not count (its time is the row ``small``). A framework that
is not installed is named and left out.
"""

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy and torch are imported

import argparse  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Mapping, Sequence  # noqa: E402
from dataclasses import asdict, dataclass  # noqa: E402
from importlib.metadata import PackageNotFoundError, version  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

LIMIT_SECONDS = 5.0
SIZES = ("small", "mlp", "cnn", "vgg")
VGG = (64, 64, None, 128, 128, None, 256, 256, 256, None, 512, 512, 512, None)


@dataclass(frozen=True, slots=True)
class Row:
    """One import: what, how large, CPU seconds."""

    framework: str
    network: str
    parameters: int
    build_seconds: float
    import_seconds: float


def relu_network(size: str) -> tuple[list[Any], tuple[int, ...]]:
    """The layers of a network, and the shape of one input."""
    from torch.nn import AvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU

    if size in ("small", "mlp"):
        widths = (8, 8, 8, 4) if size == "small" else (784, 2220, 2220, 1550, 10)
        pairs = itertools.pairwise(widths)
        return [layer for a, b in pairs for layer in (Linear(a, b), ReLU())], (widths[0],)
    if size == "cnn":
        head = (Flatten(), Linear(4096, 2300), ReLU(), Linear(2300, 10), ReLU())
        first = (Conv2d(3, 64, 3, padding=1), ReLU(), Conv2d(64, 64, 3, padding=1), ReLU(), AvgPool2d(2))
        second = (Conv2d(64, 128, 3, padding=1), ReLU(), AvgPool2d(2))
        return [*first, *second, Conv2d(128, 256, 3, padding=1), ReLU(), AvgPool2d(2), *head], (3, 32, 32)
    layers: list[Any] = []
    before = 3
    for channels in VGG:
        if channels is None:
            layers.append(AvgPool2d(2))
            continue
        layers += [Conv2d(before, channels, 3, padding=1, bias=False), BatchNorm2d(channels), ReLU()]
        before = channels
    return [*layers, Flatten(), Linear(2048, 1024), ReLU(), Linear(1024, 10), ReLU()], (3, 32, 32)


def _with_neurons(layers: Sequence[Any], neuron: Callable[[], Any]) -> list[Any]:
    from torch.nn import ReLU

    return [neuron() if isinstance(layer, ReLU) else layer for layer in layers]


def _snntorch(layers: Sequence[Any]) -> Any:
    import snntorch
    from torch.nn import Sequential

    return Sequential(*_with_neurons(layers, lambda: snntorch.Leaky(beta=0.9, init_hidden=True)))


def _norse(layers: Sequence[Any]) -> Any:
    import norse.torch as norse

    return norse.SequentialState(*_with_neurons(layers, norse.LIFCell))


def _sinabs(layers: Sequence[Any]) -> Any:
    import sinabs.layers
    from torch.nn import Sequential

    return Sequential(*_with_neurons(layers, lambda: sinabs.layers.LIFSqueeze(tau_mem=10.0, batch_size=1)))


def _spikingjelly(layers: Sequence[Any]) -> Any:
    from spikingjelly.activation_based.neuron import LIFNode
    from torch.nn import Sequential

    return Sequential(*_with_neurons(layers, LIFNode))


def _rockpool(layers: Sequence[Any]) -> Any:
    from rockpool.nn.combinators import Sequential
    from rockpool.nn.modules.torch import LIFTorch, LinearTorch
    from torch.nn import Linear

    shapes = [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, Linear)]
    return Sequential(*(part for shape in shapes for part in (LinearTorch(shape), LIFTorch(shape[1:]))))


def _torch(layers: Sequence[Any]) -> Any:
    from torch.nn import Sequential

    return Sequential(*layers)


MODELS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "snntorch": _snntorch,
    "norse": _norse,
    "sinabs": _sinabs,
    "spikingjelly": _spikingjelly,
    "rockpool": _rockpool,
    "torch": _torch,
}
"""Framework -> what makes its model of a ReLU network's layers."""


def measured(framework: str, size: str, samples: int) -> Row:
    """Builds and imports one network."""
    import torch
    from torch.nn import Module

    from nirbridge.importers import importer

    torch.manual_seed(0)
    start = time.process_time()
    layers, shape = relu_network(size)
    model = MODELS[framework](layers).eval()
    built = time.process_time()
    sample = torch.zeros(1, *shape)
    data = np.random.default_rng(0).random((samples, *shape), np.float32)
    more = (data,) if framework == "torch" else ()
    read = importer(framework)
    before = time.process_time()
    read(model, sample, *more)
    count = sum(p.numel() for p in Module.parameters(model))
    return Row(framework, size, count, built - start, time.process_time() - before)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 if an import took longer than it may."""
    parser = argparse.ArgumentParser(prog="benchmarks.importing", description=__doc__)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    print(f"{'framework':<22} {'network':<8} {'parameters':>12} {'build s':>8} {'import s':>9}")
    for framework in options.only.split(","):
        try:
            name = f"{framework} {version(framework)}"
        except PackageNotFoundError:
            print(f"{framework} is not installed")
            continue
        for size in SIZES if framework != "rockpool" else SIZES[:2]:
            row = measured(framework, size, options.samples)
            rows.append(row)
            print(
                f"{name:<22} {size:<8} {row.parameters:>12,} {row.build_seconds:>8.2f} {row.import_seconds:>9.2f}",
                flush=True,
            )
    if options.output:
        options.output.write_text(json.dumps([asdict(r) for r in rows], indent=2) + "\n")
    return int(any(r.import_seconds > LIMIT_SECONDS for r in rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import
    sys.exit(main(sys.argv[1:]))
