"""Train a small spiking network on scikit-learn's digits with snnTorch and write it as a NIR file.

    python examples/train_digits.py --model mlp --out examples/models

The file is built from the modules' own parameters. ``snn.Leaky`` that resets to zero is, step for step, a NIR LIF
neuron under the Euler rule with ``tau = dt / (1 - beta)`` and ``r = tau / dt``. beta = 7/8 and weights on a grid of
1/64 (eight bits: -128/64 to 127/64) make every sum of inputs exact, so that any simulator gets the same spikes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import digits
import nir
import numpy as np
import snntorch as snn
import torch
from snntorch import surrogate

DT_S = 1e-4
BETA = 0.875
GRID = 64
SEED = 7
HYPER = {"mlp": (60, 2e-3), "cnn": (30, 4e-3)}  # epochs, learning rate


def leaky() -> snn.Leaky:
    """A neuron that plain NIR can say: threshold 1, reset to zero."""
    return snn.Leaky(
        beta=BETA,
        reset_mechanism="zero",
        spike_grad=surrogate.fast_sigmoid(slope=10),
        init_hidden=True,
    )


def build(model: str) -> torch.nn.Sequential:
    """The untrained network: spikes ``[batch, 64]`` (mlp) or ``[batch, 1, 8, 8]`` (cnn) to 10 spiking outputs."""
    if model == "mlp":
        layers = [
            torch.nn.Linear(64, 64, bias=False),
            leaky(),
            torch.nn.Linear(64, 10, bias=False),
            leaky(),
        ]
        return torch.nn.Sequential(*layers)
    layers = [
        torch.nn.Conv2d(1, 8, 3, padding=1, bias=False),
        leaky(),
        torch.nn.AvgPool2d(2),
    ]
    layers += [
        torch.nn.Conv2d(8, 16, 3, padding=1, bias=False),
        leaky(),
        torch.nn.AvgPool2d(2),
    ]
    layers += [torch.nn.Flatten(), torch.nn.Linear(64, 10, bias=False), leaky()]
    return torch.nn.Sequential(*layers)


def shape_of(model: str) -> tuple[int, ...]:
    """Shape of one step's input."""
    return (64,) if model == "mlp" else (1, 8, 8)


def spike_counts(
    net: torch.nn.Sequential, spikes: np.ndarray, shape: tuple[int, ...]
) -> torch.Tensor:
    """Output spikes ``[batch, 10]`` summed over the steps of ``spikes [steps, batch, 64]``, from rest."""
    for layer in net:
        if isinstance(layer, snn.Leaky):
            layer.reset_mem()
    steps = torch.from_numpy(spikes).float().reshape(*spikes.shape[:2], *shape)
    return torch.stack([net(step) for step in steps]).sum(0)


def train(
    net: torch.nn.Sequential, shape: tuple[int, ...], epochs: int, learning_rate: float
) -> None:
    """Cross-entropy on spike counts, new input spikes every epoch; leaves the weights on their grid."""
    images, labels, _, _ = digits.load()
    generator = np.random.default_rng(SEED)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for batch in np.array_split(generator.permutation(len(images)), 20):
            counts = spike_counts(
                net, digits.encode(images[batch], digits.STEPS, generator), shape
            )
            loss = torch.nn.functional.cross_entropy(
                counts / 4, torch.from_numpy(labels[batch])
            )
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


def to_node(layer: torch.nn.Module, shape: tuple[int, ...]) -> nir.NIRNode:
    """The NIR node of one module whose input has ``shape``."""
    if isinstance(layer, snn.Leaky):
        decay, threshold = float(layer.beta), float(layer.threshold)
        tau = np.full(shape, DT_S / (1 - decay))
        zero = np.zeros(shape)
        return nir.LIF(
            tau=tau,
            r=tau / DT_S,
            v_leak=zero,
            v_threshold=np.full(shape, threshold),
            v_reset=zero,
        )
    if isinstance(layer, torch.nn.Linear):
        return nir.Linear(weight=layer.weight.detach().numpy())
    if isinstance(layer, torch.nn.Conv2d):
        weight = layer.weight.detach().numpy()
        no_bias = np.zeros(layer.out_channels, np.float32)
        return nir.Conv2d(
            shape[1:],
            weight,
            layer.stride,
            layer.padding,
            layer.dilation,
            layer.groups,
            no_bias,
        )
    if isinstance(layer, torch.nn.AvgPool2d):
        return nir.AvgPool2d(
            *(
                np.array([n, n])
                for n in (layer.kernel_size, layer.stride, layer.padding)
            )
        )
    return nir.Flatten(input_type={"input": np.array(shape)}, start_dim=0, end_dim=-1)


def to_graph(
    net: torch.nn.Sequential, shape: tuple[int, ...], measured: float
) -> nir.NIRGraph:
    """The network as NIR, with all that NIR can not say in its metadata."""
    nodes: dict[str, Any] = {"input": nir.Input({"input": np.array(shape)})}
    x = torch.zeros(1, *shape)
    for i, layer in enumerate(net):
        nodes[f"{type(layer).__name__.lower()}_{i}"] = to_node(
            layer, tuple(x.shape[1:])
        )
        x = torch.zeros_like(layer(x))
    nodes["output"] = nir.Output({"output": np.array(x.shape[1:])})
    metadata = {
        "nirbridge:dt": DT_S,
        "nirbridge:integrator": "euler",
        "nirbridge:reset": "to-value",
    }
    metadata |= {
        "nirbridge:compare": ">",
        "nirbridge:source": f"snntorch {snn.__version__} snntorch.Leaky",
    }
    metadata |= {
        "accuracy": measured,
        "steps": digits.STEPS,
        "seed": SEED,
        "test_seed": digits.TEST_SEED,
    }
    metadata |= {
        "dataset": "scikit-learn digits, test images 1200 to 1796",
        "encoding": "Bernoulli, pixel / 16",
    }
    return nir.NIRGraph(
        nodes, list(zip(list(nodes), list(nodes)[1:], strict=False)), metadata=metadata
    )


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(HYPER), default="mlp")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "models")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    epochs, learning_rate = HYPER[options.model]
    net, shape = build(options.model), shape_of(options.model)
    train(net, shape, options.epochs or epochs, learning_rate)
    measured = accuracy(net, shape)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"digits_{options.model}.nir"
    nir.write(path, to_graph(net, shape, measured))
    print(f"{path}: test accuracy {measured:.1%}")


if __name__ == "__main__":
    main()
