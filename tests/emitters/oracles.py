"""Networks of the dyadic oracle: weights on a grid of 2^-10, dt/tau = 1/8, so that every sum is exact in float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
LEAK = 7 / 8
"""1 - dt/tau of the dyadic oracle: with weights on a grid of 2^-10 every sum is exact in float32."""


def grid(rng: np.random.Generator, *shape: int) -> Array:
    return freeze(rng.integers(-300, 700, shape) / 1024)


def lif(**changes: Any) -> Any:
    return neuron("LIF", **{"a_mem": LEAK, "g_mem": 1 / 8, "theta": 1 / 16, **changes})


def dense(rng: np.random.Generator) -> Network:
    a, b = Population("a", (12,), lif()), Population("b", (5,), lif(reset="subtract", reset_amount=1 / 16))
    edges = (
        Projection("in", "a", Dense(grid(rng, 12, 9)), freeze(grid(rng, 12))),
        Projection("a", "b", Dense(grid(rng, 5, 12))),
    )
    return whole((a, b), edges, "b", (9,))


def convolutions(rng: np.random.Generator) -> Network:
    first = Conv(grid(rng, 4, 1, 3, 3), (2, 1), ((1, 0), (0, 1)), (1, 2), 2, (2, 9, 8))
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), first.output_shape, 0.25)
    a = Population("a", first.output_shape, lif(compare=">=", refractory_steps=2))
    flat = int(np.prod(pool.output_shape))
    chain = Chain((pool, Reshape(pool.output_shape, (flat,)), Dense(grid(rng, 6, flat))))
    return whole(
        (a, Population("b", (6,), lif())), (Projection("in", "a", first), Projection("a", "b", chain)), "b", (2, 9, 8)
    )


def recurrent(rng: np.random.Generator) -> Network:
    a = Population("a", (7,), lif(theta=np.arange(1, 8) / 32, v_reset=-1 / 16, v_init=1 / 64))
    delays = freeze(np.arange(1, 8))
    edges = (
        Projection("in", "a", Dense(grid(rng, 7, 6)), delay_steps=freeze(np.array([0, 2, 1, 0, 3, 1]))),
        Projection("a", "a", Dense(grid(rng, 7, 7)), delay_steps=delays, target_delay_steps=freeze(np.arange(7) % 3)),
        Projection("in", "a", Dense(grid(rng, 7, 6)), delay_steps=freeze(np.int64(2))),
    )
    return whole((a,), edges, "a", (6,))


def residual(rng: np.random.Generator) -> Network:
    """Two branches, currents of their own, floors, several spikes, a readout that drives, two outputs."""
    a = Population(
        "a", (6,), neuron("CubaLIF", a_mem=LEAK, g_mem=1 / 8, a_syn=1 / 2, g_syn=1.0, theta=1 / 32, v_min=-1 / 8)
    )
    b = Population("b", (6,), lif(max_spikes=3, theta=1 / 8, reset="subtract", bias=1 / 64))
    c = Population("c", (6,), lif(theta=None))
    d = Population("d", (6,), lif(reset="none"))
    indptr, indices = np.arange(0, 13, 2), np.array([0, 3, 1, 4, 2, 5, 0, 1, 2, 3, 4, 5])
    sparse = Sparse(freeze(indptr), freeze(indices), grid(rng, 12), (6,), (6,))
    edges = (
        Projection("in", "a", Identity((6,))),
        Projection("a", "b", Dense(grid(rng, 6, 6))),
        Projection("in", "b", Scale(grid(rng, 6))),
        Projection("b", "c", sparse),
        Projection("a", "c", Dense(grid(rng, 6, 6)), delay_steps=freeze(np.int64(4))),
        Projection("c", "d", Identity((6,))),
    )
    network = whole((a, b, c, d), edges, "d", (6,))
    more = Projection("c", "sum", Identity((6,))), Projection("b", "sum", Dense(grid(rng, 6, 6)), freeze(grid(rng, 6)))
    return replace(network, outputs=(*network.outputs, Port("sum", (6,))), projections=(*network.projections, *more))


def whole(
    populations: tuple[Population, ...], edges: tuple[Projection, ...], last: str, shape: tuple[int, ...]
) -> Network:
    end = next(p for p in populations if p.name == last)
    edges = (*edges, Projection(last, "out", Identity(end.shape)))
    return Network(1e-3, TIMING, populations, edges, (Port("in", shape),), (Port("out", end.shape),))


ORACLES = [dense, convolutions, recurrent, residual]
