"""The four networks of the simulation suite with their inputs; weights on a 2^-10 grid (D: 2^-14).

On the grid every float32 sum of weights is exact in any order, so equal spikes can be demanded of every simulator
that has the same neuron formula.

A: 784-1000-10 LIF, 100 steps. B: the N-MNIST CNN of the NIR paper, 300 steps. C: 12-140 recurrent CubaLIF-10,
256 steps. D: 10,000 LIF neurons, 1 % random recurrent, 1000 steps, each neuron with a constant drive.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity, Sparse

CNN_FILE = Path("../shared/data/nir_paper/02_cnn/cnn_sinabs.nir")
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
BETA, ALPHA = 7 / 8, 3 / 4
D_DECAY = 31 / 32


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """A network of the suite and the weights that rivals are built from, by name."""

    name: str
    network: Network
    steps: int
    weights: dict[str, Array]


def on_grid(values: Array, bits: int = 10) -> Array:
    """Rounded to multiples of 2^-bits, float32."""
    return (np.round(np.asarray(values, np.float64) * 2**bits) / 2**bits).astype(np.float32)


def bernoulli(net: Net, density: float, batch: int, seed: int = 0) -> Array:
    """Independent input spikes ``[steps, batch, *input shape]``, uint8; without the batch axis for batch 1."""
    shape = net.network.inputs[0].shape
    spikes = (np.random.default_rng(seed).random((net.steps, batch, *shape)) < density).astype(np.uint8)
    return spikes[:, 0] if batch == 1 else spikes


def moving_blob(net: Net, density: float, batch: int, seed: int = 0) -> Array:
    """A blob on a circle, as an event camera sees a digit in saccades; ``density`` is the mean over all pixels."""
    rng = np.random.default_rng(seed)
    shape = net.network.inputs[0].shape
    rows, columns = np.indices(shape[1:])
    phase = rng.uniform(0, 2 * np.pi, batch) + 2 * np.pi * np.arange(net.steps)[:, None] / 100
    far = (rows - shape[1] / 2 - 6 * np.sin(phase)[..., None, None]) ** 2
    far = far + (columns - shape[2] / 2 - 6 * np.cos(phase)[..., None, None]) ** 2
    rate = np.exp(-far / 72)[:, :, None]
    rate = np.minimum(rate * density / rate.mean(), 0.9)
    spikes = (rng.random((net.steps, batch, *shape)) < rate).astype(np.uint8)
    return spikes[:, 0] if batch == 1 else spikes


def net_a() -> Net:
    """784-1000-10 LIF with decay 7/8, reset to zero."""
    rng = np.random.default_rng(1)
    w1 = on_grid(rng.normal(0.002, 0.03, (1000, 784)))
    w2 = on_grid(rng.normal(0.002, 0.03, (10, 1000)))
    cells = neuron("LIF", a_mem=BETA)
    layers = [("hidden", 1000, cells), ("out", 10, cells)]
    edges = [("input", "hidden", w1), ("hidden", "out", w2)]
    return Net("A", _dense_network((784,), layers, edges), 100, {"w1": w1, "w2": w2})


def net_c() -> Net:
    """12-140 recurrent-10 CubaLIF: synapse 3/4, membrane 7/8 with gain 1/8, reset to zero."""
    rng = np.random.default_rng(3)
    w1 = on_grid(rng.normal(0.1, 0.5, (140, 12)))
    recurrent = on_grid(rng.normal(0.0, 0.08, (140, 140)))
    np.fill_diagonal(recurrent, 0)  # Norse has no autapses
    w2 = on_grid(rng.normal(0.02, 0.12, (10, 140)))
    cells = neuron("CubaLIF", a_mem=BETA, g_mem=1 - BETA, a_syn=ALPHA)
    layers = [("hidden", 140, cells), ("out", 10, cells)]
    edges = [("input", "hidden", w1), ("hidden", "hidden", recurrent), ("hidden", "out", w2)]
    return Net("C", _dense_network((12,), layers, edges), 256, {"w1": w1, "recurrent": recurrent, "w2": w2})


def _dense_network(
    shape: tuple[int, ...], layers: list[tuple[str, int, Neuron]], edges: list[tuple[str, str, Array]]
) -> Network:
    populations = tuple(Population(name, (size,), record) for name, size, record in layers)
    projections = [_projection(source, target, Dense(freeze(weight))) for source, target, weight in edges]
    last = populations[-1]
    projections.append(Projection(last.name, "output", Identity(last.shape)))
    ports = (Port("input", shape),), (Port("output", last.shape),)
    return Network(1e-3, TIMING, populations, tuple(projections), *ports)


def _projection(source: str, target: str, operator: Dense | Sparse) -> Projection:
    if source != target:
        return Projection(source, target, operator)
    return Projection(source, target, operator, delay_steps=freeze(np.int64(1)), is_back=True)


def net_b(path: Path = CNN_FILE) -> Net:
    """The published N-MNIST CNN with its weights rounded to the grid (IF neurons, reset to zero, thresholds 1).

    Raises:
        FileNotFoundError: the file is not beside the checkout.
    """
    import nir

    from nirbridge.network.nir.from_nir import from_nir

    if not path.is_file():
        raise FileNotFoundError(path)
    graph = nir.read(path)
    weights = {}
    for name, node in graph.nodes.items():
        if hasattr(node, "weight"):
            node.weight, node.bias = on_grid(node.weight), on_grid(node.bias)
            weights[f"{name}.weight"], weights[f"{name}.bias"] = node.weight, node.bias
    return Net("B", from_nir(graph), 300, weights)


def net_d(neurons: int = 10_000, steps: int = 1000) -> Net:
    """A random recurrent network of LIF neurons with decay 31/32: 1 % of all pairs, a drive that varies by neuron."""
    rng = np.random.default_rng(4)
    fan_in = neurons // 100
    indices = np.sort(rng.integers(0, neurons, (neurons, fan_in)), axis=1)
    indices = _without_repeats(indices, neurons)
    data = on_grid(rng.normal(0.0, 0.03, indices.size), 14)
    indptr = np.arange(0, indices.size + 1, fan_in)
    drive = on_grid(rng.uniform(0.030, 0.036, neurons), 14)
    start = on_grid(rng.uniform(0, 1, neurons), 14)
    cells = neuron("LIF", a_mem=D_DECAY, bias=drive, v_init=start)
    matrix = Sparse(freeze(indptr), freeze(indices.ravel()), freeze(data), (neurons,), (neurons,))
    shape = (neurons,)
    network = Network(
        1e-3,
        TIMING,
        (Population("cells", shape, cells),),
        (_projection("cells", "cells", matrix), Projection("cells", "output", Identity(shape))),
        (),
        (Port("output", shape),),
    )
    weights = {"indptr": indptr, "indices": indices.ravel(), "data": data, "drive": drive, "start": start}
    return Net("D", network, steps, weights)


def _without_repeats(indices: Array, neurons: int) -> Array:
    """Rows of ascending, distinct sources: a repeated one moves on to the next free number."""
    for _ in range(indices.shape[1]):
        repeated = np.zeros(indices.shape, bool)
        repeated[:, 1:] = indices[:, 1:] == indices[:, :-1]
        if not repeated.any():
            return indices
        indices = np.sort((indices + repeated) % neurons, axis=1)
    raise ValueError(f"{neurons} neurons are too few for {indices.shape[1]} distinct sources each")
