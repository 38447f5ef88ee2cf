"""Causal order of a network: which projections close a cycle, and the delays that follow from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.cycles import Arc, back_arcs, causal_order
from nirbridge.network.model import Network, Projection


def in_causal_order(network: Network) -> Network:
    """Marks back edges (one step of delay each), orders populations causally and projections by target.

    A projection that is already marked stays marked and keeps its delay. Within a target the order is kept.
    """
    names = [p.name for p in network.populations]
    inputs, outputs = [p.name for p in network.inputs], [p.name for p in network.outputs]
    arcs = [Arc(p.source, p.target, _shortest(p)) for p in network.projections]
    found = back_arcs(inputs, names, arcs)
    projections = [_one_later(p) if back else p for p, back in zip(network.projections, found, strict=True)]
    order = causal_order(names, arcs, [p.is_back for p in projections])
    rank = {name: k for k, name in enumerate((*order, *outputs))}
    by_name = {p.name: p for p in network.populations}
    return replace(
        network,
        populations=tuple(by_name[name] for name in order),
        projections=tuple(sorted(projections, key=lambda p: rank[p.target])),
    )


def _shortest(p: Projection) -> int:
    return int(p.delay_steps.min()) + int(p.target_delay_steps.min())


def _one_later(p: Projection) -> Projection:
    return replace(p, delay_steps=freeze(p.delay_steps + 1, np.int64), is_back=True)
