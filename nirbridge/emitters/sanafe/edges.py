"""Every synapse of a projection as an edge, with its weight in units of the potential and its delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseKind
from nirbridge.emitters.sanafe.model import Edges, Group, Padding, Place
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Operator
from nirbridge.partitioner.cost.axons import synapse_kind
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.quantization.model import FixedProjection

SYNAPSES_MAX = 50_000_000
"""Synapses of one projection that are listed; SANA-FE takes about a kilobyte for each."""
Table = tuple[Sequence[str], Array, Array]
"""Groups of a node, and of each of its neurons the number of its group and its place there."""


def synapse_lists(projection: FixedProjection, stored: Operator | None) -> tuple[Array, Array, Array]:
    """(target, source, weight) of every synapse that the cores hold, weights of 0 among them unless left out.

    ``stored``: the structure that the map keeps of the projection; None: all of its operator.
    """
    weights = matrix(projection.operator, SYNAPSES_MAX)
    if stored is None:
        rows = weights.tocoo()
        return rows.row.astype(np.int64), rows.col.astype(np.int64), rows.data.astype(np.int64)
    held = matrix(stored, SYNAPSES_MAX).tocoo()
    values = np.asarray(weights[held.row, held.col]).reshape(-1).astype(np.int64)
    return held.row.astype(np.int64), held.col.astype(np.int64), values


def synapse_delays(projection: FixedProjection, target: Array, source: Array) -> Array:
    """Time steps from a spike to its arrival, of each synapse."""
    late = projection.delay_steps, projection.target_delay_steps
    of_source, of_target = (np.asarray(d).reshape(-1) if np.ndim(d) else np.asarray(d) for d in late)
    return (of_source[source] if of_source.ndim else of_source) + (of_target[target] if of_target.ndim else of_target)


def projection_kinds(mapped: MappedNetwork) -> dict[int, SynapseKind]:
    """How the cores of a map store each projection, by its index in the network."""
    sizes = cost_model(mapped.stored_network, mapped.chip, mapped.partition.weight_bits)
    return {edge.index: synapse_kind(edge) for edges in sizes.incoming.values() for edge in edges}


def projection_edges(
    projection: FixedProjection, stored: Operator | None, kind: SynapseKind, sources: Table, targets: Table
) -> Iterator[Edges]:
    """The edges of a projection, by pair of groups."""
    target, source, weight = synapse_lists(projection, stored)
    delay = np.broadcast_to(synapse_delays(projection, target, source), target.shape) - 1
    weight = weight << projection.weight_exp
    source_names, source_group, source_place = sources
    target_names, target_group, target_place = targets
    pair = source_group[source] * len(target_names) + target_group[target]
    order = np.lexsort((target_place[target], source_place[source], pair))
    cuts = np.flatnonzero(np.diff(pair[order])) + 1
    for some in np.split(order, cuts) if len(order) else ():
        at = int(pair[some[0]])
        yield Edges(
            source=source_names[at // len(target_names)],
            target=target_names[at % len(target_names)],
            kind=kind,
            pre=source_place[source[some]],
            post=target_place[target[some]],
            weight=weight[some],
            delay=delay[some],
        )


def paddings(edges: Sequence[Edges], groups: Sequence[Group]) -> tuple[Padding, ...]:
    """Edges that move the addresses of a core's synapse units apart.

    SANA-FE keeps the delay of a synapse by its address in its unit, so that the units of a core would overwrite one
    another's. Edges of a neuron that never fires take the addresses of the units before; they cost nothing.
    """
    places = {group.id: group.place for group in groups}
    counts: dict[Place, dict[SynapseKind, int]] = {}
    example: dict[tuple[Place, SynapseKind], str] = {}
    for e in edges:
        of_core = counts.setdefault(places[e.target], {})
        of_core[e.kind] = of_core.get(e.kind, 0) + len(e.weight)
        example.setdefault((places[e.target], e.kind), e.target)
    found = []
    for place, of_core in counts.items():
        before = np.cumsum([0, *of_core.values()]).tolist()
        kinds = list(of_core)[1:]
        found += [Padding(example[place, kind], kind, n) for kind, n in zip(kinds, before[1:], strict=False)]
    return tuple(found)
