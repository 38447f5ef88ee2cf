"""Convert a trained PyTorch network to spikes, and measure its accuracy after 4 to 64 time steps.

    python examples/convert_ann.py [cnn | residual]

The networks are those of ``train_digits_ann.py``; the accuracy is that on their test images.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import train_digits_ann as digits_ann

from nirbridge.importers.ann.from_torch import convert_torch
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import Probe, simulate

STEPS = 64


def outputs(graph: object, images: np.ndarray) -> np.ndarray:
    """The spiking network's estimates of the ANN's outputs after 1, 2, … time steps, ``[64, images, 10]``."""
    network = from_nir(graph)
    inputs = np.broadcast_to(images, (STEPS, *images.shape))  # the image itself, in every time step
    arrays = simulate(network, inputs, record=[Probe("output_readout", ("v",))]).recording.arrays
    return arrays["output_readout", "v"] / np.arange(1, STEPS + 1).reshape(-1, 1, 1)


def main(model: str = "cnn") -> None:
    net, accuracy = digits_ann.load(Path(__file__).parent / "models" / f"digits_ann_{model}.npz")
    images, _, test_images, labels = (tensor.numpy() for tensor in digits_ann.images_as_tensors())
    conversion = convert_torch(net, images[:1], images)
    print(conversion.report)
    estimates = outputs(conversion.graph, test_images)
    print(f"original: {accuracy:.2%} of {len(labels)} test images")
    for steps in (4, 8, 16, 32, 64):
        converted = float(np.mean(estimates[steps - 1].argmax(1) == labels))
        print(f"{steps:>2} time steps: {converted:.2%} ({100 * (converted - accuracy):+.2f} points)")


if __name__ == "__main__":
    main(*sys.argv[1:2])
