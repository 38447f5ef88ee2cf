"""The networks of the page of the compiler stack: half of them set the estimate's constants, half are held out.

Weights are on a grid of 2^-10, where every float32 sum of weights is exact in any order, except those of the trained
models. ``drawn(seed)`` is a network of random shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

import nirbridge as nb
from benchmarks import sim_nets
from benchmarks.programs_nets import ROOT, delayed
from benchmarks.sim_nets import TIMING, on_grid
from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool

LEAK, THETA = 7 / 8, 1 / 4


def _whole(shape: tuple[int, ...], populations: list[Population], edges: list[Projection]) -> Network:
    last = populations[-1]
    edges = [*edges, Projection(last.name, "output", Identity(last.shape))]
    ports = (Port("input", shape),), (Port("output", last.shape),)
    return Network(1e-3, TIMING, tuple(populations), tuple(edges), *ports)


def _weights(rng: np.random.Generator, post: int, pre: int, gain: float = 1.0) -> Array:
    return freeze(on_grid(rng.normal(0.06 * gain / pre**0.5, gain / pre**0.5, (post, pre))))


def _lif(**changes: Any) -> Any:
    return neuron("LIF", **{"a_mem": LEAK, "theta": THETA, **changes})


def dense(*sizes: int, seed: int = 0) -> Network:
    """Fully connected layers of LIF neurons."""
    rng = np.random.default_rng(seed)
    populations = [Population(f"l{k}", (n,), _lif()) for k, n in enumerate(sizes[1:])]
    names = ["input", *(p.name for p in populations)]
    edges = [
        Projection(names[k], names[k + 1], Dense(_weights(rng, post, pre)))
        for k, (pre, post) in enumerate(pairwise(sizes))
    ]
    return _whole(sizes[:1], populations, edges)


def recurrent(inputs: int, size: int, outputs: int, seed: int = 0) -> Network:
    """A layer that drives itself one time step later, and a layer after it."""
    rng = np.random.default_rng(seed)
    back = Dense(_weights(rng, size, size, 0.5))
    edges = [
        Projection("input", "hidden", Dense(_weights(rng, size, inputs))),
        Projection("hidden", "hidden", back, delay_steps=freeze(np.int64(1)), is_back=True),
        Projection("hidden", "last", Dense(_weights(rng, outputs, size))),
    ]
    return _whole((inputs,), [Population("hidden", (size,), _lif()), Population("last", (outputs,), _lif())], edges)


def convolutional(shape: tuple[int, int, int], channels: int, kernel: int, outputs: int, seed: int = 0) -> Network:
    """A convolution, a pool of its spikes, a fully connected layer."""
    rng = np.random.default_rng(seed)
    taps = shape[0] * kernel * kernel
    weights = _weights(rng, channels, taps).reshape(channels, shape[0], kernel, kernel)
    first = Conv(freeze(weights), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, shape)
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), first.output_shape, 0.25)
    flat = int(np.prod(pool.output_shape))
    chain = Chain((pool, Reshape(pool.output_shape, (flat,)), Dense(_weights(rng, outputs, flat, 3.0))))
    populations = [Population("maps", first.output_shape, _lif()), Population("last", (outputs,), _lif())]
    return _whole(shape, populations, [Projection("input", "maps", first), Projection("maps", "last", chain)])


def elementwise(size: int, seed: int = 0) -> Network:
    """CubaLIF neurons with thresholds of their own, one synapse each from the input and one from the layer before."""
    rng = np.random.default_rng(seed)
    cells = neuron(
        "CubaLIF", a_mem=LEAK, g_mem=1 / 8, a_syn=3 / 4, theta=on_grid(rng.uniform(0.01, 0.1, size)), reset="subtract"
    )
    populations = [Population("a", (size,), cells), Population("b", (size,), cells)]
    scales = [Scale(freeze(on_grid(rng.uniform(0.2, 1.0, size)))) for _ in range(2)]
    return _whole((size,), populations, [Projection("input", "a", scales[0]), Projection("a", "b", scales[1])])


def few_synapses(pre: int, post: int, fan_in: int, seed: int = 0) -> Network:
    """Neurons with a few random sources each, as a sparse matrix."""
    rng = np.random.default_rng(seed)
    sources = np.sort(np.stack([rng.choice(pre, fan_in, replace=False) for _ in range(post)]), axis=1)
    data = on_grid(rng.uniform(0.1, 0.5, post * fan_in))
    matrix = Sparse(
        freeze(np.arange(0, post * fan_in + 1, fan_in)), freeze(sources.reshape(-1)), freeze(data), (pre,), (post,)
    )
    return _whole((pre,), [Population("cells", (post,), _lif(theta=1.0))], [Projection("input", "cells", matrix)])


def drawn(seed: int) -> Network:
    """A network of random shape: dense, recurrent or convolutional, of 16 to 2,048 neurons a layer."""
    rng = np.random.default_rng([seed, 16])
    size = lambda least, most: int(2 ** rng.uniform(np.log2(least), np.log2(most)))  # noqa: E731
    kind = rng.integers(4)
    if kind == 0:
        return recurrent(size(16, 1024), size(16, 1024), size(4, 64), seed)
    if kind == 1:
        side = size(6, 24)
        return convolutional((size(1, 4), side, side), size(2, 16), 3, size(4, 64), seed)
    return dense(*(size(16, 2048) for _ in range(int(rng.integers(2, 5)))), size(4, 64), seed=seed)


def _digits(name: str) -> Network:
    return nb.load(ROOT / "examples" / "models" / f"{name}.nir")


def _cnn_sinabs() -> Network:
    return sim_nets.net_b(ROOT.parent / "shared" / "data" / "nir_paper" / "02_cnn" / "cnn_sinabs.nir").network


TUNED: Mapping[str, Callable[[], Network]] = MappingProxyType(
    {
        "net_a": lambda: sim_nets.net_a().network,
        "digits_mlp": partial(_digits, "digits_mlp"),
        "narrow": partial(dense, 256, 512, 10),
        "wide": partial(dense, 2048, 2048, 10),
        "recurrent": lambda: delayed().network,
        "conv": partial(convolutional, (2, 16, 16), 8, 3, 10),
        "elementwise": partial(elementwise, 4096),
        "few_synapses": partial(few_synapses, 2048, 4096, 8),
    }
)
HELD_OUT: Mapping[str, Callable[[], Network]] = MappingProxyType(
    {
        "digits_cnn": partial(_digits, "digits_cnn"),
        "cnn_sinabs": _cnn_sinabs,
        "tall": partial(dense, 4096, 256, 10),
        "deep": partial(dense, 512, 512, 512, 512, 10),
        "reservoir": partial(recurrent, 700, 900, 20),
        "elementwise_1k": partial(elementwise, 1000),
        "fan_in_40": partial(few_synapses, 3000, 3000, 40),
        **{f"drawn_{seed}": partial(drawn, seed) for seed in range(5)},
    }
)
"""Networks that the constants of the estimate have not seen."""


def spikes(network: Network, rate: float, batch: int, steps: int, seed: int = 0) -> dict[str, Array]:
    """Independent spikes ``[steps, batch, *shape]`` of every input, float32."""
    rng = np.random.default_rng(seed)
    return {p.name: (rng.random((steps, batch, *p.shape)) < rate).astype(np.float32) for p in network.inputs}
