"""Maps as files: ``*.map.json``, the same bytes for the same map, complete enough for an independent check."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from nirbridge._version import __version__
from nirbridge.chips.model import CoreId
from nirbridge.errors import Bug, FileError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import open_file, read_up_to
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.route import HOST_TILE, route_hops
from nirbridge.mapping.storage.record import SCHEMA, SCHEMA_MARKED, MapRecord, map_from_dict
from nirbridge.mapping.synapses import describe_operator, synapse_count
from nirbridge.network.model import Population, Port, Projection
from nirbridge.network.nir.timing import CHOICES
from nirbridge.partitioner.cost.axons import HOST
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES, Block

MAX_BYTES = 1 << 28

# -- writing -----------------------------------------------------------------------------------------------------


def write_map(mapped: MappedNetwork, path: str | os.PathLike[str], model_file: str, model_sha256: str) -> None:
    """Write the map file, whole or not at all. Raises FileError where the place cannot be written."""
    write_document(map_to_dict(mapped, model_file, model_sha256), path)


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a map document to ``path``, whole or not at all (``files.atomic``).

    Raises FileError where the place cannot be written, and Bug where a number is not finite.
    """
    subject = f"map file {quoted(Path(path).name)}"
    try:
        data = map_bytes(document)
    except ValueError as error:
        raise Bug.of(subject, str(error), hint="please report it") from error
    atomic_write_bytes(path, data, subject=subject)


def map_bytes(document: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON, keys sorted, one line per top-level key and per entry of a list of objects, newline at the end."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n  ".join(_line(entry) for entry in value)
            lines.append(f" {_line(key)}: [\n  {entries}\n ]")
        else:
            lines.append(f" {_line(key)}: {_line(value)}")
    # A name with a lone surrogate is no UTF-8; 'backslashreplace' writes just the escape that JSON has for it.
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "backslashreplace")


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> object:
    """Numpy's numbers and arrays and any mapping as plain values."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a map file")


# -- reading -----------------------------------------------------------------------------------------------------


def read_map(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> MapRecord:
    """Read and validate a map file.

    Raises:
        FileError: not readable, larger than ``max_bytes``, refused by ``parse_json``, or not of the form that
            docs/reference/map-file.md gives (every problem is listed).
    """
    file = Path(path)
    subject = f"map file {quoted(file.name)}"
    try:
        with open_file(file, stream=True) as handle:
            data = read_up_to(handle, max_bytes)
    except (OSError, ValueError) as error:  # ValueError: a text that is no path
        reason = getattr(error, "strerror", None) or f"cannot be read ({error})"
        raise FileError.of(subject, reason, hint="check the path") from error
    hint = "write it again with nirbridge map … -o"
    return map_from_dict(parse_json(data, subject, bytes_max=max_bytes, hint=hint), subject)


def core_text(core: CoreId | None) -> str:
    """A core in a message."""
    return "nowhere" if core is None else f"core {core.core} of tile ({core.x}, {core.y}) of chip {core.chip}"


# -- document ------------------------------------------------------------------------------------------------------
# A mapped network as the JSON document of a map file.


_ENTRY = CoreId(0, *HOST_TILE, 0)


def map_to_dict(mapped: MappedNetwork, model_file: str, model_sha256: str) -> dict[str, Any]:
    """The JSON document of a map.

    Of ``model_file`` only the base name is kept, so that the file holds no path of a machine. The document depends on
    ``mapped`` alone: no clock, no host name, no order of a hash.
    """
    network, chip = mapped.network, mapped.chip
    return {
        "schema": _schema(mapped),
        "nirbridge": __version__,
        "model": {"file": PurePath(model_file).name, "sha256": model_sha256},
        "timing": {"dt": float(network.dt), **{key: getattr(network.timing, key) for key in CHOICES}},
        "chip": dict(chip.record),
        "chips": mapped.chips,
        "objective": mapped.objective,
        "rates": mapped.rates,
        "weight_bits": mapped.partition.weight_bits,
        "splits": [{"population": name, "ways": ways} for name, ways in mapped.splits],
        **({} if mapped.latency is None else {"retimed": {"latency": dict(mapped.latency)}}),
        **({"placement_only": True} if mapped.placement_only else {}),
        **({"early_spikes": list(mapped.early_spikes)} if mapped.early_spikes else {}),
        "inputs": [_port(p) for p in network.inputs],
        "outputs": [_port(p) for p in network.outputs],
        "populations": [_population(p, mapped.partition.orders) for p in network.populations],
        "blocks": [_block(b, c) for b, c in zip(mapped.partition.blocks, mapped.cores, strict=True)],
        "projections": [
            _projection(p, mapped.partition.weight_bits) | ({"zeros": "dropped"} if k in mapped.stored else {})
            for k, p in enumerate(mapped.stored_network.projections)
        ],
        "routes": _routes(mapped),
        "totals": _totals(mapped),
        "proof": _proof(mapped),
        "approximate": list(chip.approximate),
        "assumed": list(network.assumed),
        "notes": list(network.notes),
    }


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": list(port.shape)}


def _schema(mapped: MappedNetwork) -> int:
    is_marked = mapped.placement_only or mapped.early_spikes or mapped.partition.orders or mapped.stored
    return SCHEMA_MARKED if is_marked else SCHEMA


def _population(p: Population, orders: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    relay = p.neuron.kind.lower() == "relay"
    entry = {"name": p.name, "shape": list(p.shape), "neurons": p.size, "kind": p.neuron.kind, "relay": relay}
    return {**entry, "order": list(orders[p.name])} if p.name in orders else entry


def _block(block: Block, core: CoreId) -> dict[str, Any]:
    return {
        "id": int(block.id),
        "core": core._asdict(),
        "slices": [{"population": s.population, "box": [[int(a), int(b)] for a, b in s.box]} for s in block.slices],
        "used": {name: int(block.used[name]) for name in sorted(block.used)},
    }


def _projection(p: Projection, weight_bits: int) -> dict[str, Any]:
    return {
        "source": p.source,
        "target": p.target,
        "operator": describe_operator(p.operator),
        "delay_steps": p.max_delay_steps,
        "weight_bits": weight_bits,
        "synapses": synapse_count(p.operator),
        "nodes": list(p.nodes),
        "is_back": p.is_back,
    }


def _routes(mapped: MappedNetwork) -> list[dict[str, Any]]:
    """One entry per (source block or input, target block), summed over the groups of the axon table."""
    axons, blocks = mapped.axons, len(mapped.partition.blocks)
    names = sorted(axons.names)
    ranks = {name: rank for rank, name in enumerate(names)}
    rank = np.array([ranks[name] for name in axons.names], np.int64)
    is_host = axons.source_block == HOST
    # sorted by source block, hosts (-1) first and by name, then by target block
    source = np.where(is_host, rank[axons.source_name] - len(names), axons.source_block)
    group = np.repeat(np.arange(len(source)), np.diff(axons.target_ptr))
    pairs, of = np.unique(source[group] * blocks + axons.targets, return_inverse=True)
    sums = [
        np.bincount(of, weights, minlength=len(pairs)).tolist()
        for weights in (axons.neurons[group], axons.synapses, axons.spikes_per_step[group])
    ]
    core = {int(b.id): core for b, core in zip(mapped.partition.blocks, mapped.cores, strict=True)}
    ends = [(int(pair // blocks), int(pair % blocks)) for pair in pairs.tolist()]
    return [
        {
            "source_block": None if block < 0 else block,
            "source_input": names[block] if block < 0 else None,
            "target_block": target,
            "neurons": int(neurons),
            "synapses": int(synapses),
            "spikes_per_step": spikes,
            "hops": route_hops(_ENTRY if block < 0 else core[block], core[target], mapped.chip),
        }
        for (block, target), neurons, synapses, spikes in zip(ends, *sums, strict=True)
    ]


def _totals(mapped: MappedNetwork) -> dict[str, Any]:
    blocks, costs = mapped.partition.blocks, mapped.costs
    limit = limits(mapped.chip)
    dead = {core for core in mapped.chip.dead_cores if core.chip < mapped.chips}
    totals: dict[str, Any] = {
        "cores_used": len(blocks),
        "cores_available": mapped.chip.mesh.cores * mapped.chips - len(dead),
        "unicast_traffic": costs.unicast_spikes_per_step,
        "multicast_hops": costs.multicast_hops_per_step,
        "max_link_load": costs.max_link_load_spikes_per_step,
        "mean_link_load": costs.mean_link_load_spikes_per_step,
        "energy_per_step_j": costs.energy_per_step_j,
        "time_per_step_s": costs.time_per_step_s,
        "energy_breakdown_j": dict(costs.energy_breakdown_j),
        "time_breakdown_s": dict(costs.time_breakdown_s),
    }
    for name in RESOURCES:
        used = [int(b.used[name]) for b in blocks]
        largest = max(used, default=0)
        where = int(blocks[used.index(largest)].id) if used else 0
        totals[name] = {"used": sum(used), "max": largest, "where_max": where, "limit": limit[name]}
    return totals


def _proof(mapped: MappedNetwork) -> dict[str, Any]:
    report = mapped.partition.report
    return {
        "cores_lower_bound": report.cores_lower_bound,
        "cores_lower_bound_sliced": report.cores_lower_bound_sliced,
        "cores_gap": report.cores - report.cores_lower_bound,
        "traffic_lower_bound": mapped.costs.traffic_lower_bound,
        "status": report.status,
        "method": report.method,
        "seed": report.seed,
        "solver": report.solver,
        "deterministic_time": report.deterministic_time,
        "bounds": dict(report.bounds),
        "binding": report.binding,
        **({"interrupted": True} if report.interrupted else {}),
    }
