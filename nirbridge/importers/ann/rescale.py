"""An ANN in the form of a network -> spiking neurons of threshold 1, one spike of a neuron standing for its scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.importers.ann.spiking import rescale
from nirbridge.importers.ann.start import HALF
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Identity, Reshape

Readout = Literal["potential", "spikes"]


def spiking(ann: Network, scales: Mapping[str, Array], dt: float, readout: Readout) -> Network:
    """The spiking network of an ANN, every potential starting at half the threshold.

    ``scales``: by population, and by output where ``readout`` is ``spikes``. A source's scale goes into the weights
    behind it, a target's divides the weights and constants in front of it, so that all thresholds are 1 and the
    branches of a sum arrive on one scale. Potentials of read-outs are in the ANN's own units.
    """
    populations = [Population(p.name, p.shape, fires()) for p in ann.populations]
    projections = [_scaled(p, scales) for p in ann.projections]
    names = {p.name for p in (*ann.populations, *ann.inputs, *ann.outputs)}
    for port in ann.outputs:
        if readout == "spikes" and _is_plain(ann, port):
            continue
        name = fresh_name(f"{port.name}_readout", names)
        names.add(name)
        populations.append(Population(name, port.shape, fires() if readout == "spikes" else integrates()))
        projections = [replace(p, target=name) if p.target == port.name else p for p in projections]
        projections.append(Projection(name, port.name, Identity(port.shape)))
    timing = Timing(dt, "euler", "subtract", ">", "per-second")
    return replace(
        ann, dt=dt, timing=timing, populations=tuple(populations), projections=tuple(projections), assumed=()
    )


def fires(start: Array | float = HALF) -> Neuron:
    """An integrate-and-fire neuron of threshold 1 with soft reset, ``start`` its potential before the first step."""
    return neuron("IF", theta=1.0, reset="subtract", compare=">", v_init=start)


def integrates() -> Neuron:
    """A read-out that sums its input and is never reset."""
    return neuron("I", theta=None, reset="none")


def _scaled(p: Projection, scales: Mapping[str, Array]) -> Projection:
    one = np.ones(())
    source, target = scales.get(p.source, one), 1.0 / scales.get(p.target, one)
    bias = None if p.bias is None else freeze(p.bias * target, np.float64)
    operator = rescale(p.operator, source, target)
    return replace(p, operator=operator, bias=bias, nodes=())


def _is_plain(ann: Network, port: Port) -> bool:
    """True if the output is a population as it is, so that its spikes need no read-out."""
    return sends_plainly(ann, port.name) is not None


def sends_plainly(ann: Network, output: str) -> str | None:
    """The population that an output shows as it is (in the same order), or None."""
    into = [p for p in ann.projections if p.target == output]
    populations = {p.name for p in ann.populations}
    if len(into) != 1 or into[0].bias is not None or into[0].source not in populations:
        return None
    return into[0].source if all(isinstance(q, Identity | Reshape) for q in parts_of(into[0].operator)) else None
