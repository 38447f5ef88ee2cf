"""Neurons of a program and their cores as SANA-FE's ``network.yaml``; the edges are arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.sanafe.model import COMPARTMENTS, Group, SanafePlan
from nirbridge.emitters.sanafe.text import mapping_text


def network_text(plan: SanafePlan) -> str:
    """The file ``network.yaml``: groups, no edges, and the core and units of every neuron."""
    lines = ["network:", "  name: network", "  groups:"]
    for group in plan.groups:
        lines += _input(group) if group.id in plan.input_ids else _neurons(group)
    lines += ["  edges: []", "mappings:"]
    for group in plan.groups:
        lines += _input_units(group) if group.id in plan.input_ids else _units(group)
    return "\n".join(lines) + "\n"


def edge_arrays(plan: SanafePlan) -> dict[str, Array]:
    """The arrays of ``synapses.npz``: of each entry of ``edges`` in ``program.json``."""
    arrays: dict[str, Array] = {}
    for k, edges in enumerate(plan.edges):
        arrays[f"edges{k}.pre"] = edges.pre.astype(np.int32)
        arrays[f"edges{k}.post"] = edges.post.astype(np.int32)
        arrays[f"edges{k}.weight"] = edges.weight.astype(np.int32)
        if edges.delay.any():
            arrays[f"edges{k}.delay"] = edges.delay.astype(np.int8)
    return arrays


def _input(group: Group) -> Iterator[str]:
    yield f"    - name: {group.id}"
    yield "      attributes: {log_spikes: false}"
    yield "      neurons:"
    yield f"        - {_range(0, group.size)}: {{}}"


def _neurons(group: Group) -> Iterator[str]:
    """The group with the attributes of its first neuron, and those of all that differ from it."""
    values = {name: a for name, a in group.attributes.items() if not isinstance(a, str)}
    shared = {name: a if isinstance(a, str) else float(a.reshape(-1)[0]) for name, a in group.attributes.items()}
    yield f"    - name: {group.id}"
    yield f"      attributes: {mapping_text({**shared, **_whole(shared)})}"
    yield "      neurons:"
    own = {name: a for name, a in values.items() if a.ndim}
    if not own:
        yield f"        - {_range(0, group.size)}: {{}}"
        return
    table = np.stack(list(own.values()))
    cuts = [0, *(np.flatnonzero(np.any(table[:, 1:] != table[:, :-1], axis=0)) + 1).tolist(), group.size]
    for start, stop in pairwise(cuts):
        found = {name: float(a[start]) for name, a in own.items() if a[start] != shared[name]}
        yield f"        - {_range(start, stop)}: {mapping_text({**found, **_whole(found)})}"


def _whole(values: Mapping[str, str | float]) -> dict[str, int]:
    return {name: int(values[name]) for name in ("refractory_delay",) if name in values}


def _units(group: Group) -> Iterator[str]:
    """The core of the neurons, and the units that hold them: ``COMPARTMENTS`` each."""
    start = 0
    while start < group.size:
        unit = (group.first + start) // COMPARTMENTS
        stop = min(group.size, (unit + 1) * COMPARTMENTS - group.first)
        where = f'core: {group.place.text}, soma: "lif[{unit}]", dendrite: "accumulator[{unit}]"'
        yield f"  - {group.id}.{_range(start, stop)}: {{{where}}}"
        start = stop


def _input_units(group: Group) -> Iterator[str]:
    """SANA-FE's input model holds one spike train, so that every element is a unit."""
    for k in range(group.size):
        yield f'  - {group.id}.{k}: {{core: {group.place.text}, soma: "spikes[{group.first + k}]"}}'


def _range(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}..{stop - 1}"
