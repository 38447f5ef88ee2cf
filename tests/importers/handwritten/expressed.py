"""The canonical neuron of a rule as a network of nirbridge, so that what a test expects can be expressed at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity
from tests.importers.handwritten.canonical import Cell
from tests.importers.handwritten.rules import cell_of

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")


def neuron_of(cell: Cell) -> Neuron:
    """The record of a cell."""

    def plain(value: Any) -> Any:
        return value.detach().numpy() if hasattr(value, "detach") else value

    names = ("a_mem", "g_mem", "bias", "theta", "a_syn", "g_syn", "v_reset", "v_init", "v_min")
    kind = "CubaLIF" if cell.a_syn else "LIF"
    return neuron(
        kind,
        **{name: plain(getattr(cell, name)) for name in names},
        reset=cell.reset,  # type: ignore[arg-type]
        reset_amount=plain(cell.amount),
        compare=cell.compare,  # type: ignore[arg-type]
        max_spikes=cell.max_spikes,
        refractory_steps=cell.refractory,
    )


def network_of(net: Any) -> Network:
    """The network of a rule's module."""
    cells = [cell_of(net.c, neurons) for neurons in net.cells]
    shapes = [(neurons.size,) for neurons in net.cells]
    populations = [Population(f"l{k}", shapes[k], neuron_of(cell)) for k, cell in enumerate(cells)]
    source, delay, projections = "input", 0, []
    for k, (fc, cell) in enumerate(zip(net.fcs, cells, strict=True)):
        projections.append(_projection(source, f"l{k}", Dense(fc.weight.detach().numpy()), delay))
        source, delay = f"l{k}", cell.delay
    if net.rec is not None:
        weight = net.rec.weight.detach().numpy()
        projections.append(_projection("l0", "l0", Dense(weight), 1 + delay, is_back=True))
    projections.append(_projection(source, "output", Identity(shapes[-1]), delay))
    ports = (Port("input", (net.fcs[0].weight.shape[1],)),), (Port("output", shapes[-1]),)
    return Network(1e-3, TIMING, tuple(populations), tuple(projections), *ports)


def _projection(source: str, target: str, operator: Any, delay: int, *, is_back: bool = False) -> Projection:
    return Projection(source, target, operator, delay_steps=np.asarray(delay, np.int64), is_back=is_back)
