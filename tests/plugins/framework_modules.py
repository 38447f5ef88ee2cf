"""A small trained module of every framework that nirbridge imports."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from nirbridge.testing import Example

SIZES = (6, 5, 4)
PACKAGES = {
    "snntorch": "snntorch",
    "norse": "norse.torch",
    "torch": "torch",
    "sinabs": "sinabs.layers",
    "spikingjelly": "spikingjelly.activation_based",
    "rockpool": "rockpool.nn.modules.torch",
}
"""The module of the framework that its example needs."""


def example(name: str) -> Example:
    """A module with two layers of neurons; the test is skipped, by name, where its framework is not installed."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of what the frameworks import are not this project's
        framework = pytest.importorskip(PACKAGES[name], reason=f"{name} is not installed")
        torch.manual_seed(0)
        module = MODULES[name](framework, torch.nn)
    for key, parameter in torch.nn.Module.named_parameters(module):
        if "weight" in key:
            parameter.data = torch.round(torch.randn_like(parameter) * 64) / 64
    options = {"calibration": np.random.default_rng(0).random((8, SIZES[0]))} if name == "torch" else {}
    return Example(module, torch.zeros(SIZES[0]), options)


def _snntorch(snn: Any, nn: Any) -> Any:
    first, second = (snn.Leaky(beta=beta, init_hidden=True) for beta in (0.75, 0.5))
    return nn.Sequential(nn.Linear(*SIZES[:2]), first, nn.Linear(*SIZES[1:]), second)


def _norse(norse: Any, nn: Any) -> Any:
    layers = (nn.Linear(*SIZES[:2]), norse.LIFCell(), nn.Linear(*SIZES[1:]), norse.LIFCell())
    return norse.SequentialState(*layers)


def _torch(torch: Any, nn: Any) -> Any:
    return nn.Sequential(nn.Linear(*SIZES[:2]), nn.ReLU(), nn.Linear(*SIZES[1:]))


def _sinabs(layers: Any, nn: Any) -> Any:
    return nn.Sequential(nn.Linear(*SIZES[:2]), layers.LIF(10.0), nn.Linear(*SIZES[1:]), layers.IAF())


def _spikingjelly(jelly: Any, nn: Any) -> Any:
    from spikingjelly.activation_based import layer, neuron

    return nn.Sequential(layer.Linear(*SIZES[:2]), neuron.LIFNode(), layer.Linear(*SIZES[1:]), neuron.IFNode())


def _rockpool(modules: Any, nn: Any) -> Any:
    from rockpool.nn.combinators import Sequential

    first, second = (modules.LinearTorch(shape) for shape in (SIZES[:2], SIZES[1:]))
    return Sequential(first, modules.LIFTorch(SIZES[1]), second, modules.LIFTorch(SIZES[2]))


MODULES = {
    "snntorch": _snntorch,
    "norse": _norse,
    "torch": _torch,
    "sinabs": _sinabs,
    "spikingjelly": _spikingjelly,
    "rockpool": _rockpool,
}
