"""A chip file as SANA-FE's architecture: tiles, cores and their units, with the chip's figures of energy and time.

Every tile of the mesh is there, used or not. Inputs are neurons of one more core in tile 0, at (0, 0), where the host's
spikes enter: its neurons, messages and barrier cost nothing, their hops and their work in other cores do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nirbridge.chips.model import SYNAPSE_KINDS, Chip
from nirbridge.emitters.sanafe.model import COMPARTMENTS, SanafePlan
from nirbridge.emitters.sanafe.text import mapping_text

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
