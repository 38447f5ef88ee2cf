"""Small networks whose spikes are known in advance."""

from __future__ import annotations

import itertools
from typing import Any

import nir
import numpy as np

from nirbridge.arrays import Array
from nirbridge.network import Network, from_nir
from tests.network.graphs import graph_of, lif, out, port

DT = 1e-4


def relay_layer(size: int) -> Any:
    """Neurons without memory that fire in the time step in which their input is above 1."""
    return lif(size, tau=DT, r=1.0, theta=1.0)


def dense(weight: Any) -> Any:
    return nir.Linear(weight=np.asarray(weight, np.float32))


def two_layers(first: Any, second: Any) -> Network:
    """in -> a -> b -> out, both layers without memory."""
    first, second = np.asarray(first), np.asarray(second)
    nodes = {
        "in": port(first.shape[1]),
        "w1": dense(first),
        "a": relay_layer(first.shape[0]),
        "w2": dense(second),
        "b": relay_layer(second.shape[0]),
        "out": out(second.shape[0]),
    }
    names = list(nodes)
    return from_nir(graph_of(nodes, list(itertools.pairwise(names)), dt=DT))


def readout_only(weight: Any) -> Network:
    """in -> li -> out: nothing fires."""
    weight = np.asarray(weight)
    n = weight.shape[0]
    leaky = nir.LI(tau=np.full(n, 1e-3), r=np.ones(n), v_leak=np.zeros(n))
    nodes = {"in": port(weight.shape[1]), "w": dense(weight), "li": leaky, "out": out(n)}
    names = list(nodes)
    return from_nir(graph_of(nodes, list(itertools.pairwise(names)), dt=DT))


def spikes(steps: int, samples: int, *shape: int, rate: float = 0.4, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random((steps, samples, *shape)) < rate).astype(np.uint8)
