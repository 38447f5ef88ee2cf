"""Properties of a module and a network that the self-check uses: constants, dropout, cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import synapse_bound
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.operators import Conv, Dense, Sparse

_GRADIENTS_ONLY = frozenset({"learning_window"})
"""Attributes of neurons (rockpool) that no forward uses: a decay of the same value is not theirs."""


def module_tensors(module: Any, most: float = math.inf) -> list[Array]:
    """Every tensor of up to ``most`` values and number that the module computes with, in float64."""
    import torch

    numbers: list[Array] = []
    for inner in module.modules():
        values = {**vars(inner), **inner._parameters, **inner._buffers}
        for value in (value for name, value in values.items() if name not in _GRADIENTS_ONLY):
            if isinstance(value, torch.Tensor) and value.is_floating_point() and 0 < value.numel() <= most:
                numbers.append(value.detach().to("cpu", torch.float64).numpy())
            elif isinstance(value, int | float) and not isinstance(value, bool):
                numbers.append(np.array(float(value)))
    return numbers


def has_active_dropout(module: Any) -> bool:
    """True if dropout would act in the mode that the module is in."""
    return any("Dropout" in type(m).__name__ and m.training and getattr(m, "p", 0) for m in module.modules())


def network_multiplications(network: Network) -> int:
    """Multiplications of one time step of one sample."""
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    weighted = (part for part in parts if isinstance(part, Dense | Conv | Sparse))
    return network.neurons + sum(synapse_bound(part) for part in weighted)


CALL = 10_000
"""Multiplications that take as long as one call of a layer without any (some 30 microseconds)."""
VALUE_BYTES = 200
"""Bytes for each neuron or port, sample and time step: in the records of both runs, their limits and copies (measured
for neurons of all kinds: 150 to 180)."""
PARAMETER_BYTES = 24
"""Bytes for each parameter beyond those that the import takes: copies in float64 of the module and of the network, and
the numbers among which constants are looked up."""


def trial_bytes(network: Network, module: Any, steps: int, samples: int) -> int:
    """Bytes that a trial of ``steps`` time steps and ``samples`` samples takes."""
    return run_bytes(network, parameter_count(module), steps, samples)


def run_bytes(network: Network, parameters: int, steps: int, samples: int) -> int:
    """The same for a module with ``parameters`` parameters."""
    values = network.neurons + sum(math.prod(p.shape) for p in (*network.inputs, *network.outputs))
    return PARAMETER_BYTES * parameters + VALUE_BYTES * values * steps * samples


def parameter_count(module: Any) -> int:
    """Number of parameters."""
    import torch

    return sum(value.numel() for _, value in torch.nn.Module.named_parameters(module))


def leaf_modules(module: Any) -> int:
    """Modules without modules inside."""
    return sum(not any(True for _ in inner.children()) for inner in module.modules())
