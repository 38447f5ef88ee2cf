"""Networks for the tests of network files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from nirbridge.arrays import freeze
from nirbridge.network import sparse_operator
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, SumPool
from tests.quantization.nets import TIMING, lif, one


def small() -> Network:
    """Every operator, a chain, delays of each element, a floor, values of each neuron, notes."""
    rng = np.random.default_rng(0)
    conv = Conv(
        freeze(rng.normal(size=(2, 1, 2, 2)).astype(np.float32)), (1, 1), ((0, 0), (0, 1)), (1, 1), 1, (1, 3, 3)
    )
    pool = SumPool((1, 1), (1, 1), ((0, 0), (0, 0)), conv.output_shape, 0.25)
    first = conv.output_shape
    size = int(np.prod(first))
    flat = Chain(
        (Reshape(first, (size,)), Scale(freeze(rng.normal(size=size))), Dense(freeze(rng.normal(size=(3, size)))))
    )
    loop = sparse_operator(sparse.csr_array(np.array([[0.0, 1, 0], [2, 0, 0], [0, 0, 0]])))
    cell = neuron("CubaLIF", a_mem=0.5, a_syn=0.5, bias=rng.normal(0, 0.1, 3), theta=rng.uniform(1, 2, 3), v_min=-1.0)
    populations = (Population("a", first, lif(a_mem=0.9, refractory_steps=2)), Population("b", (3,), cell))
    projections = (
        Projection("in", "a", Chain((conv, pool)), bias=freeze(rng.normal(size=first)), nodes=("c", "p")),
        Projection("a", "b", flat, delay_steps=freeze(rng.integers(1, 4, first)), nodes=("r", "s", "d")),
        Projection("b", "b", loop, delay_steps=one(2), target_delay_steps=freeze([0, 1, 2], np.int64), is_back=True),
        Projection("b", "out", Identity((3,)), delay_nodes=("late",)),
    )
    ports = (Port("in", (1, 3, 3)),), (Port("out", (3,)),)
    return Network(1.0, TIMING, populations, projections, *ports, assumed=("one",), notes=("two", "é"))


def reservoir(neurons: int, fan_in: int, seed: int = 0) -> Network:
    """Random recurrent synapses between neurons of one kind, and an input for each neuron."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, neurons, neurons * fan_in)
    rows = np.repeat(np.arange(neurons), fan_in)
    weights = rng.normal(size=neurons * fan_in).astype(np.float32)
    loop = sparse_operator(sparse.coo_array((weights, (rows, columns)), shape=(neurons, neurons)))
    shape = (neurons,)
    projections = (
        Projection("in", "r", Identity(shape)),
        Projection("r", "r", loop, delay_steps=one(), is_back=True),
        Projection("r", "out", Identity(shape)),
    )
    ends = (Port("in", shape),), (Port("out", shape),)
    return Network(1e-3, replace(TIMING, dt=1e-3), (Population("r", shape, lif(a_mem=0.9)),), projections, *ends)
