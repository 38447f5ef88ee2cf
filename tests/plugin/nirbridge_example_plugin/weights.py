"""A framework whose modules are lists of weight matrices, with a LIF neuron behind each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nir
import numpy as np

from nirbridge.network.model import Network


def from_weights(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    """The graph of a list of matrices."""
    nodes: list[Any] = [nir.Input(np.array(sample.shape))]
    for weight in module:
        ones = np.ones(len(weight))
        nodes += [nir.Linear(np.array(weight, float)), nir.LIF(10 * dt * ones, ones, 0 * ones, ones)]
    graph = nir.NIRGraph.from_list(*nodes, nir.Output(np.array([len(module[-1])])))
    graph.metadata["nirbridge:dt"] = dt
    return graph


def louder(network: Network) -> Network:
    """A pass: says that it was here."""
    return replace(network, notes=(*network.notes, "louder"))
