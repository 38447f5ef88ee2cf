"""Small networks, retimed by hand: every hop takes a time step."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity

TIMING = Timing(1.0, "euler", "to-value", ">", "per-second")


def one(steps: int = 1) -> Any:
    return freeze(np.int64(steps))


def layer(weight: Any, cell: Neuron, bias: Any = None, loop: Any = None) -> Network:
    """An input, one population behind a dense projection, maybe a loop of delay 1, an output."""
    weight = np.asarray(weight, np.float64)
    posts, pres = weight.shape
    given = None if bias is None else freeze(np.asarray(bias, np.float64))
    projections = [Projection("in", "p", Dense(freeze(weight)), bias=given, delay_steps=one())]
    if loop is not None:
        projections.append(
            Projection("p", "p", Dense(freeze(np.asarray(loop, np.float64))), delay_steps=one(), is_back=True)
        )
    projections.append(Projection("p", "out", Identity((posts,))))
    populations = (Population("p", (posts,), cell),)
    return Network(1.0, TIMING, populations, tuple(projections), (Port("in", (pres,)),), (Port("out", (posts,)),))


def lif(**fields: Any) -> Neuron:
    return neuron(fields.pop("kind", "LIF"), **fields)
