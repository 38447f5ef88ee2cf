"""One module as one population after grid weights, simulated and compared with the module itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, NeuronSpecs, neuron_spec_of
from nirbridge.network.compose import compose
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.network.operators import Dense, Identity, Reshape
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.simulators.reference.frameworks import grid_weights

STEPS, BATCH, SEEDS = 100, 4, (0, 1, 2)
PRE, NEURONS = 24, 16
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
Run = Callable[[Array], Array]
"""Currents ``[steps, batch, *shape]`` of a module -> what it puts out, of the same axes."""


def spikes_in(seed: int, density: float = 0.3) -> Array:
    """Input spikes ``[STEPS, BATCH, PRE]``."""
    return (np.random.default_rng(seed).random((STEPS, BATCH, PRE)) < density).astype(np.uint8)


def network_of(reading: ImportedNeuron, weight: Array, shape: Shape, dt: float) -> Network:
    """Input -> weight (-> the module's own weights) -> the neurons, which hear themselves -> output."""
    parts: list[Any] = [Dense(freeze(weight))]
    if reading.operator is not None:
        parts.append(reading.operator)
    elif len(shape) > 1:
        parts.append(Reshape((weight.shape[0],), shape))
    operator, names = compose(parts, tuple(f"w{k}" for k in range(len(parts))), (weight.shape[1],))
    bias = None if reading.bias is None else freeze(np.broadcast_to(reading.bias, shape))
    edges = [Projection("input", "cells", operator, bias, nodes=names)]
    edges += [
        Projection("cells", "cells", r.operator, r.bias, freeze(np.int64(1)), is_back=True) for r in reading.recurrences
    ]
    edges.append(Projection("cells", "output", Identity(shape)))
    timing = Timing(dt, TIMING.integrator, TIMING.reset, TIMING.compare, TIMING.if_gain)
    ports = (Port("input", (weight.shape[1],)),), (Port("output", shape),)
    return Network(dt, timing, (Population("cells", shape, reading.neuron),), tuple(edges), *ports)


def ours(network: Network, spikes: Array) -> Array:
    """What the cells send, ``[steps, batch, *shape]`` float32 (counts; the potential of a read-out)."""
    variable = "s" if network.populations[0].neuron.fires else "v"
    run = simulate(network, spikes, record=[Probe("cells", (variable,))], backend="reference")
    return run.recording.arrays["cells", variable].astype(np.float32)


def form_of(module: Any, forms: NeuronSpecs) -> NeuronSpec:
    """How a module is read."""
    form = neuron_spec_of(module, forms)
    assert form is not None
    return form


def refusal(forms: NeuronSpecs, module: Any, dt: float = 1e-3) -> str:
    """Why a module is not read."""
    with pytest.raises(ModelError) as error:
        form_of(module, forms).read(module, (NEURONS,), dt)
    return str(error.value)


def measure(
    make: Callable[[], Any],
    forms: NeuronSpecs,
    run: Callable[[Any, Array], Array],
    *,
    shape: Shape = (NEURONS,),
    width: int | None = None,
    scale: float = 0.3,
    dt: float = 1e-3,
) -> tuple[Array, Array]:
    """(the module's outputs, ours), each ``[seeds, steps, batch, *shape]``, on weights of a 2^-10 grid.

    ``width``: features that the module takes, where it has weights of its own. The network is written to NIR and read
    back, which must change nothing.
    """
    theirs, mine = [], []
    for seed in SEEDS:
        module = make()
        reading = form_of(module, forms).read(module, shape, dt)
        weight = grid_weights((width or int(np.prod(shape)), PRE), scale, seed)
        network = network_of(reading, weight, shape, dt)
        if len(shape) == 1:  # NIR has no node that splits an axis
            back = from_nir(to_nir(network))
            assert network_differences(network, back) == ()
            network = back
        spikes = spikes_in(seed + 10)
        currents = spikes.astype(np.float32) @ weight.T
        theirs.append(run(module, currents.reshape(STEPS, BATCH, *((width,) if width else shape))))
        mine.append(ours(network, spikes))
    return np.stack(theirs), np.stack(mine)


def is_lively(spikes: Array) -> bool:
    """True if a fair part of the cells fires, and a fair part does not."""
    return 0.01 < float((spikes > 0).mean()) < 0.95
