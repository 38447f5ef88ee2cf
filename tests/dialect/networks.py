"""Networks of the dyadic oracle beyond those of the emitters: several inputs, groups, long rows, no input."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from tests.emitters.oracles import ORACLES, TIMING, grid, lif

NAME = 'a "b"\\\n\0é漢%20'
"""A name that no text may hold unescaped."""


def several_ports(rng: np.random.Generator) -> Network:
    """Two inputs, two outputs of one population, one output of nothing, a name that has to be escaped."""
    a, b = Population(NAME, (3, 4), lif(reset="none", compare=">=")), Population("b", (), lif(v_min=-1 / 64))
    first = Dense(grid(rng, 12, 5))
    edges = (
        Projection("x", NAME, Chain((first, Reshape((12,), (3, 4)))), freeze(grid(rng, 3, 4)), nodes=("n", "m")),
        Projection("y", NAME, Scale(grid(rng, 3, 4)), delay_steps=freeze(np.arange(12).reshape(3, 4) % 3)),
        Projection(NAME, "b", Chain((Reshape((3, 4), (12,)), Dense(grid(rng, 1, 12)), Reshape((1,), ())))),
        Projection("b", "b", Identity(()), delay_steps=freeze(np.int64(1)), is_back=True, delay_nodes=("d",)),
        Projection(NAME, "o", Identity((3, 4))),
        Projection("y", "o", Identity((3, 4)), delay_steps=freeze(np.int64(2))),
        Projection("b", "p", Identity(())),
    )
    outputs = (Port("o", (3, 4)), Port("p", ()), Port("q", (2,)))
    return Network(1e-3, TIMING, (a, b), edges, (Port("x", (5,)), Port("y", (3, 4))), outputs, ("one",), ('two "\n',))


def one_axis(rng: np.random.Generator) -> Network:
    """Convolutions and pools over one axis, with groups, dilation and padding, and over two with many groups."""
    first = Conv(grid(rng, 6, 2, 3), (2,), ((2, 1),), (2,), 3, (6, 11))
    pool = SumPool((2,), (1,), ((1, 0),), first.output_shape, 0.5)
    image = (pool.output_shape[0], 2, pool.output_shape[1] // 2)
    second = Conv(grid(rng, 6, 1, 2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), 6, image)
    cut = Sparse(
        freeze(np.arange(np.prod(image) + 1)),
        freeze(np.arange(np.prod(image))),
        freeze(np.ones(np.prod(image))),
        pool.output_shape,
        image,
    )
    a = Population("a", first.output_shape, lif(theta=rng.integers(1, 9, first.output_shape) / 64))
    b = Population("b", second.output_shape, lif(max_spikes=2, reset="subtract"))
    edges = (
        Projection("in", "a", first),
        Projection("a", "b", Chain((pool, cut, second))),
        Projection("b", "out", Identity(second.output_shape)),
    )
    return Network(1e-3, TIMING, (a, b), edges, (Port("in", (6, 11)),), (Port("out", second.output_shape),))


def long_rows(rng: np.random.Generator) -> Network:
    """Sparse operators over many neurons: rows of one length, and one row that is much longer than all others."""
    size, fan = 1500, 3
    even = Sparse(
        freeze(np.arange(0, size * fan + 1, fan)),
        freeze(np.sort(rng.integers(0, size // fan, (size, fan)) + np.arange(fan) * (size // fan), 1).reshape(-1)),
        grid(rng, size * fan),
        (size,),
        (size,),
    )
    counts = np.ones(size, np.int64)
    counts[7] = 1000
    odd = Sparse(
        freeze(np.concatenate(([0], np.cumsum(counts)))),
        freeze(np.concatenate([np.arange(c) for c in counts])),
        grid(rng, int(counts.sum())),
        (size,),
        (size,),
    )
    a, b = Population("a", (size,), lif()), Population("b", (size,), lif())
    edges = (
        Projection("in", "a", even),
        Projection("a", "b", odd),
        Projection("b", "out", Identity((size,))),
    )
    return Network(1e-3, TIMING, (a, b), edges, (Port("in", (size,)),), (Port("out", (size,)),))


def no_input(rng: np.random.Generator) -> Network:
    """A population that its own bias drives."""
    a = Population("a", (4,), lif(bias=np.arange(4) / 64, a_syn=1 / 2, i_init=1 / 8))
    return Network(1e-3, TIMING, (a,), (Projection("a", "out", Identity((4,))),), (), (Port("out", (4,)),))


def late_sums(rng: np.random.Generator) -> Network:
    """Delays after operators: of an input, and on cycles whose operators take values of the same time step."""
    a, b = Population("a", (6,), lif()), Population("b", (4,), lif(reset="subtract", v_min=-1 / 32))
    edges = (
        Projection("in", "a", Dense(grid(rng, 6, 5)), target_delay_steps=freeze(np.arange(6) % 3)),
        Projection("a", "a", Dense(grid(rng, 6, 6)), target_delay_steps=freeze(np.arange(1, 7, dtype=np.uint8))),
        Projection(
            "b",
            "a",
            Chain((Dense(grid(rng, 6, 4)), Scale(grid(rng, 6)))),
            freeze(grid(rng, 6)),
            delay_steps=freeze(np.array([0, 2, 0, 1])),
            target_delay_steps=freeze(np.int64(2)),
            is_back=True,
        ),
        Projection("a", "b", Dense(grid(rng, 4, 6))),
        Projection("b", "out", Identity((4,)), target_delay_steps=freeze(np.arange(4))),
    )
    return Network(1e-3, TIMING, (a, b), edges, (Port("in", (5,)),), (Port("out", (4,)),))


NETWORKS: list[Any] = [*ORACLES, several_ports, one_axis, long_rows, no_input, late_sums]
