"""A chip as SANA-FE's architecture (tiles, cores and their units, with energy and time), and the neurons on it.

Every tile of the mesh is there, used or not. Inputs are neurons of one more core in tile 0, at (0, 0), where the host's
spikes enter: its neurons, messages and barrier cost nothing, their hops and their work in other cores do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SYNAPSE_KINDS, Chip
from nirbridge.emitters.sanafe.model import COMPARTMENTS, Group, SanafePlan

BUFFER = 16
"""Messages that a link holds, as in SANA-FE's own description of Loihi; no chip file has it."""
_MISSING = 0.0


def architecture_text(chip: Chip, plan: SanafePlan) -> str:
    """The file ``architecture.yaml``."""
    mesh = chip.mesh
    tiles = mesh.width_tiles * mesh.height_tiles
    inputs = sum(group.size for group in plan.groups if group.id in plan.input_ids)
    lines = ["architecture:", "  name: chip", f"  attributes: {mapping_text(_network(chip))}", "  tile:"]
    lines += _tile("tile[0..0]", chip)
    lines += _cores(chip, plan)
    lines += _host_core(inputs)
    if tiles > 1:
        lines += _tile(f"tile[1..{tiles - 1}]", chip)
        lines += _cores(chip, plan)
    return "\n".join(lines) + "\n"


def _network(chip: Chip) -> Mapping[str, object]:
    barrier = chip.time.barrier_s
    table = isinstance(barrier, tuple)
    return {
        "topology": "mesh",
        "width": chip.mesh.width_tiles,
        "height": chip.mesh.height_tiles,
        "link_buffer_size": BUFFER,
        "sync_model": "table" if table else "fixed",
        "latency_sync": dict(barrier) if isinstance(barrier, tuple) else barrier or _MISSING,
    }


def _tile(name: str, chip: Chip) -> Iterator[str]:
    ways = {"north": "y", "south": "y", "east": "x", "west": "x"}
    figures = {}
    for way, axis in ways.items():
        figures[f"energy_{way}_hop"] = getattr(chip.energy, f"hop_{axis}_j") or _MISSING
        figures[f"latency_{way}_hop"] = getattr(chip.time, f"hop_{axis}_s") or _MISSING
    yield f"    - name: {name}"
    yield f"      attributes: {mapping_text(figures)}"
    yield "      core:"


def _cores(chip: Chip, plan: SanafePlan) -> Iterator[str]:
    units = units_of(chip, plan)
    position = {"buffer_position": "dendrite" if plan.delayed else "soma", "buffer_inside_unit": plan.delayed}
    energy, time = chip.energy, chip.time
    yield f"        - name: core[0..{chip.mesh.cores_per_tile - 1}]"
    yield f"          attributes: {mapping_text({**position, 'max_neurons_supported': units * COMPARTMENTS})}"
    yield from _unit("axon_in", "in", {"energy_message_in": _MISSING, "latency_message_in": time.axon_in_s})
    yield from (line for k, kind in enumerate(SYNAPSE_KINDS) for line in _synapse(kind, chip, first=k == 0))
    model = "accumulator_with_delay" if plan.delayed else "accumulator"
    free = {"model": model, "energy_update": _MISSING, "latency_update": _MISSING}
    yield from _unit("dendrite", f"accumulator[0..{units - 1}]", free)
    access = time.neuron_access_s  # a file without it has one figure for both, of every neuron
    soma = {
        "model": "leaky_integrate_fire",
        "energy_access_neuron": energy.neuron_access_j,
        "latency_access_neuron": time.neuron_update_s if access is None else access,
        "energy_update_neuron": energy.neuron_update_j,
        "latency_update_neuron": None if access is None else time.neuron_update_s,
        "energy_spike_out": energy.spike_j,
        "latency_spike_out": time.spike_s,
    }
    yield from _unit("soma", f"lif[0..{units - 1}]", soma)
    yield from _unit(
        "axon_out", "out", {"energy_message_out": energy.axon_out_j, "latency_message_out": time.axon_out_s}
    )


def units_of(chip: Chip, plan: SanafePlan) -> int:
    """Soma units, and dendrites, that a core needs: one holds ``COMPARTMENTS`` neurons."""
    largest = max((g.first + g.size for g in plan.groups if g.id not in plan.input_ids), default=1)
    return -(-max(largest, min(chip.core.neurons or largest, COMPARTMENTS)) // COMPARTMENTS)


def _synapse(kind: str, chip: Chip, *, first: bool) -> Iterator[str]:
    """The unit of a kind of synapse; a figure that the chip file lacks for it is that of dense synapses."""
    energy, time = (
        getattr(figures, f"synaptic_op_{kind}_{unit}", None) for figures, unit in ((chip.energy, "j"), (chip.time, "s"))
    )
    attributes = {
        "model": "current_based",
        "energy_process_spike": chip.energy.synaptic_op_j if energy is None else energy,
        "latency_process_spike": chip.time.synaptic_op_s if time is None else time,
    }
    yield from _unit("synapse" if first else "", kind, attributes)


def _host_core(inputs: int) -> Iterator[str]:
    free = ("energy_access_neuron", "latency_access_neuron", "energy_update_neuron", "latency_update_neuron")
    soma = {"model": "input", **dict.fromkeys((*free, "energy_spike_out", "latency_spike_out"), _MISSING)}
    count = max(inputs, 1)
    position = {"buffer_position": "soma", "buffer_inside_unit": False, "max_neurons_supported": count}
    yield "        - name: host[0..0]"
    yield f"          attributes: {mapping_text(position)}"
    yield from _unit("axon_in", "in", dict.fromkeys(("energy_message_in", "latency_message_in"), _MISSING))
    costs = dict.fromkeys(("energy_process_spike", "latency_process_spike"), _MISSING)
    yield from _unit("synapse", "unused", {"model": "current_based", **costs})
    free_dendrite = {"model": "accumulator", "energy_update": _MISSING, "latency_update": _MISSING}
    yield from _unit("dendrite", "accumulator", free_dendrite)
    yield from _unit("soma", f"spikes[0..{count - 1}]", soma)
    yield from _unit("axon_out", "out", dict.fromkeys(("energy_message_out", "latency_message_out"), _MISSING))


def _unit(section: str, name: str, attributes: Mapping[str, object]) -> Iterator[str]:
    """A unit of a core; a section that is empty goes on with the one before. A figure without a value is 0."""
    if section:
        yield f"          {section}:"
    known = {key: _MISSING if value is None else value for key, value in attributes.items()}
    yield f'            - {{name: "{name}", attributes: {mapping_text(known)}}}'


# -- network -------------------------------------------------------------------------------------------------------


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


# -- text ----------------------------------------------------------------------------------------------------------
# Text of SANA-FE's files: numbers and mappings of YAML that its reader takes as they are.


def number_text(value: float) -> str:
    """A double with a point, exactly: ``1.0e-09``, ``0.5``."""
    text = repr(float(value))
    if "e" in text:
        digits, _, exponent = text.partition("e")
        return f"{digits if '.' in digits else digits + '.0'}e{exponent}"
    return text


def value_text(value: object) -> str:
    """A value of a mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return mapping_text(value)
    if isinstance(value, int):
        return str(value)
    return number_text(value) if isinstance(value, float) else str(value)


def mapping_text(values: Mapping[str, object] | Mapping[int, float]) -> str:
    """A mapping in one line."""
    return "{" + ", ".join(f"{key}: {value_text(value)}" for key, value in values.items()) + "}"
