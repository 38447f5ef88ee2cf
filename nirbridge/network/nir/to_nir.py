"""``Network`` -> ``nir.NIRGraph``, so that ``same_network(from_nir(to_nir(n)), n)``.

Plain NIR holds all that it can express, in full vectors without infinities; the rest is ``nirbridge:*`` metadata,
which other tools ignore. ``export_warnings`` lists the tools that would then run the model differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nirbridge.network.check import check_network
from nirbridge.network.graph import DelayArc, back_arcs
from nirbridge.network.model import Network, Projection
from nirbridge.network.naming import fresh_name
from nirbridge.network.nir.raise_linear import RaisedNode, raise_projection, spacer
from nirbridge.network.nir.raise_neurons import raise_neuron
from nirbridge.network.nir.timing import PREFIX


def to_nir(network: Network) -> Any:
    """The network as a flat ``nir.NIRGraph`` that shares no array with it.

    Every projection gets nodes of its own, named as in ``Projection.nodes`` where that name is free. One array may
    be shared: weights that are a broadcast view (a network of shapes alone) stay that view.

    Raises:
        ModelError: the network is not well formed, or has no NIR node for a part (a decay above 1, a reshape that
            is no Flatten, uneven padding …).
    """
    import nir

    check_network(network)
    nodes: dict[str, Any] = {p.name: nir.Input({"input": np.array(p.shape)}) for p in network.inputs}
    nodes |= {p.name: raise_neuron(p, network) for p in network.populations}
    nodes |= {p.name: nir.Output({"output": np.array(p.shape)}) for p in network.outputs}
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    implicit = _back_edges_are_implicit(network)
    reserved = {name for p in network.projections for name in p.nodes} | set(nodes)
    edges: list[tuple[str, str]] = []
    plain: set[tuple[str, str]] = set()
    for p in network.projections:
        chain = raise_projection(p, shapes[p.source], network.dt, implicit_back=implicit)
        if not chain and (p.source, p.target) in plain:
            chain = [spacer(shapes[p.source])]
        plain |= set() if chain else {(p.source, p.target)}
        _connect(p, chain, nodes, edges, reserved)
    return nir.NIRGraph(nodes, edges, metadata=_graph_metadata(network), type_check=False)


def _connect(
    p: Projection, chain: Sequence[RaisedNode], nodes: dict[str, Any], edges: list[tuple[str, str]], reserved: set[str]
) -> None:
    before = p.source
    for raised in chain:
        is_free = raised.name and raised.name not in nodes
        name = raised.name if raised.name and is_free else fresh_name(f"{p.source}_{p.target}", reserved)
        reserved.add(name)
        nodes[name] = raised.node
        edges.append((before, name))
        before = name
    edges.append((before, p.target))


def _back_edges_are_implicit(network: Network) -> bool:
    """True if reading the graph back marks exactly the projections that are marked."""
    marks = [p.is_back for p in network.projections]
    arcs = [DelayArc(p.source, p.target, p.min_delay_steps - p.is_back) for p in network.projections]
    if any(p.is_back and int(p.delay_steps.min()) < 1 for p in network.projections):
        return False
    inputs, names = [p.name for p in network.inputs], [p.name for p in network.populations]
    return list(back_arcs(inputs, names, arcs)) == marks


def _graph_metadata(network: Network) -> dict[str, Any]:
    t = network.timing
    axes = {PREFIX + "axes": ",".join(network.axes)} if network.axes else {}
    return axes | {
        PREFIX + "dt": network.dt,
        PREFIX + "integrator": t.integrator,
        PREFIX + "reset": t.reset,
        PREFIX + "compare": t.compare,
        PREFIX + "if_gain": t.if_gain,
    }
