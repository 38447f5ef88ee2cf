"""From a trained snnTorch network to NIR, from the modules' own parameters.

``snn.Leaky`` that resets to zero, ``v = beta * v * (1 - S[t-1]) + x; S = v > threshold``, is step for step a NIR LIF
neuron under the Euler rule with ``tau = dt / (1 - beta)``, ``r = tau / dt`` and a reset to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import nir
import numpy as np
import snntorch as snn
import torch

DT_S = 1e-4
TIMING = {
    "nirbridge:dt": DT_S,
    "nirbridge:integrator": "euler",
    "nirbridge:reset": "to-value",
    "nirbridge:compare": ">",
    "nirbridge:source": f"snntorch {snn.__version__} snntorch.Leaky",
}


def to_graph(net: torch.nn.Sequential, shape: tuple[int, ...], about: Mapping[str, Any]) -> nir.NIRGraph:
    """The network for inputs of ``shape`` as NIR; the timing and ``about`` are stored as metadata."""
    nodes: dict[str, nir.NIRNode] = {"input": nir.Input({"input": np.array(shape)})}
    x = torch.zeros(1, *shape)
    for i, layer in enumerate(net):
        nodes[f"{type(layer).__name__.lower()}_{i}"] = to_node(layer, tuple(x.shape[1:]))
        x = torch.zeros_like(layer(x))
    nodes["output"] = nir.Output({"output": np.array(x.shape[1:])})
    return nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={**TIMING, **about})


def to_node(layer: torch.nn.Module, shape: tuple[int, ...]) -> nir.NIRNode:
    """The NIR node of one module whose input has ``shape``."""
    if isinstance(layer, snn.Leaky):
        return _lif(layer, shape)
    if isinstance(layer, torch.nn.Linear):
        return nir.Linear(weight=layer.weight.detach().numpy())
    if isinstance(layer, torch.nn.Conv2d):
        weight, no_bias = layer.weight.detach().numpy(), np.zeros(layer.out_channels, np.float32)
        return nir.Conv2d(shape[1:], weight, layer.stride, layer.padding, layer.dilation, layer.groups, no_bias)
    if isinstance(layer, torch.nn.AvgPool2d):
        return nir.AvgPool2d(*(np.array([n, n]) for n in (layer.kernel_size, layer.stride, layer.padding)))
    if isinstance(layer, torch.nn.Flatten):
        return nir.Flatten(input_type={"input": np.array(shape)}, start_dim=0, end_dim=-1)
    raise TypeError(f"no NIR node for {type(layer).__name__}")


def _lif(layer: snn.Leaky, shape: tuple[int, ...]) -> nir.LIF:
    if layer.reset_mechanism != "zero":
        raise ValueError(f"reset_mechanism {layer.reset_mechanism!r} is not plain NIR; use 'zero'")
    tau = np.full(shape, DT_S / (1 - float(layer.beta)))
    threshold, zero = np.full(shape, float(layer.threshold)), np.zeros(shape)
    return nir.LIF(tau=tau, r=tau / DT_S, v_leak=zero, v_threshold=threshold, v_reset=zero)
