"""The plan of a program: groups of a map's slices, and every synapse that the cores hold as an edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.program import InputSpec, PopulationParts, ProcessPart, output_spec
from nirbridge.emitters.sanafe.edges import SYNAPSES_MAX, paddings, projection_edges, projection_kinds
from nirbridge.emitters.sanafe.model import DELAY_MAX, PADDING, Edges, Group, Place, SanafePlan
from nirbridge.emitters.sanafe.neurons import (
    keeps_current,
    neuron_attributes,
    neuron_problems,
    of_part,
    part_attributes,
    v_limit,
)
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.apply import synapse_bound
from nirbridge.partitioner.cost.listing import flat_indices
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork


def sanafe_plan(mapped: MappedNetwork, *, floating_currents: bool = False) -> SanafePlan:
    """Groups and edges of a map.

    Args:
        mapped: the map, of one chip.
        floating_currents: SANA-FE's own currents, which are not rounded; False: currents with memory are the host's.

    Raises:
        ModelError: everything that SANA-FE does not compute.
        IllegalMapping: only a placement.
    """
    quantized = integers_of(mapped)
    ModelError.raise_all(problems(quantized, mapped))
    chip = mapped.chip
    host = Place(0, chip.mesh.cores_per_tile)
    specs = tuple(InputSpec(x.name, x.shape, f"input{k}", 1, 1.0) for k, x in enumerate(quantized.inputs))
    groups, parts = _slices(quantized, mapped, floating_currents=floating_currents)
    first = 0
    for spec in specs:
        size = int(np.prod(spec.shape))
        parts[spec.name] = (ProcessPart(spec.id, np.arange(size)),)
        groups.append(Group(spec.id, host, first, size, {}))
        first += size
    edges = tuple(_edges(quantized, mapped, parts))
    delayed = any(bool(e.delay.any()) for e in edges)
    apart = paddings(edges, groups) if delayed else ()
    groups += [Group(PADDING, host, first, 1, {})] if apart else []
    nodes = tuple(_node(p, parts[p.name]) for p in quantized.populations)
    outputs = tuple(output_spec(port.name, port.shape, quantized.reads) for port in quantized.outputs)
    return SanafePlan(specs, nodes, outputs, tuple(groups), edges, host, delayed, apart, tuple(quantized.notes))


def _node(p: FixedPopulation, parts: tuple[ProcessPart, ...]) -> PopulationParts:
    n = p.neuron
    return PopulationParts(p.name, p.shape, parts, n.fires, n.max_spikes, n.scale, n.v_offset)


def _slices(
    quantized: QuantizedNetwork, mapped: MappedNetwork, *, floating_currents: bool
) -> tuple[list[Group], dict[str, tuple[ProcessPart, ...]]]:
    """One group per slice, core by core; and the groups of each population."""
    height = mapped.chip.mesh.height_tiles
    groups: list[Group] = []
    parts: dict[str, tuple[ProcessPart, ...]] = {p.name: () for p in quantized.populations}
    for block, core in zip(mapped.partition.blocks, mapped.cores, strict=True):
        first = 0
        for piece in block.slices:
            p = quantized.population(piece.population)
            places = flat_indices(p.shape, piece.box)
            order = mapped.partition.orders.get(p.name)
            at = places if order is None else np.asarray(order)[places]
            place = Place(core.x * height + core.y, core.core)
            group = _group(f"layer{len(groups)}", place, first, p, at, floating_currents=floating_currents)
            parts[p.name] += (ProcessPart(group.id, at),)
            groups.append(group)
            first += len(at)
    return groups, parts


def _group(id: str, place: Place, first: int, p: FixedPopulation, at: Array, *, floating_currents: bool) -> Group:
    n = p.neuron
    attributes = neuron_attributes(p)
    keeps = keeps_current(n)
    if keeps and floating_currents:
        attributes["input_decay"] = (4095 - n.du) / 4096
    limit = v_limit(n)
    return Group(
        id=id,
        place=place,
        first=first,
        size=len(at),
        attributes=part_attributes(attributes, p.size, at),
        decay=of_part(4095 - n.du, p.size, at) if keeps and not floating_currents else None,
        start=of_part(n.v_init, p.size, at),
        start_current=of_part(n.u_init, p.size, at),
        bias=of_part(n.bias, p.size, at),
        v_limit=None if limit is None else of_part(limit, p.size, at),
    )


def _edges(
    quantized: QuantizedNetwork, mapped: MappedNetwork, parts: Mapping[str, tuple[ProcessPart, ...]]
) -> Iterator[Edges]:
    kinds = projection_kinds(mapped)
    tables: dict[str, Any] = {}
    for name, pieces in parts.items():
        owner = np.empty(sum(0 if p.at is None else len(p.at) for p in pieces), np.int64)
        place = np.empty_like(owner)
        for k, piece in enumerate(pieces):
            owner[piece.at], place[piece.at] = k, np.arange(0 if piece.at is None else len(piece.at))
        tables[name] = ([piece.id for piece in pieces], owner, place)
    for projection in quantized.projections:
        stored = mapped.stored.get(projection.index)
        ends = tables[projection.source], tables[projection.target]
        yield from projection_edges(projection, stored, kinds[projection.index], *ends)


# -- refusals ------------------------------------------------------------------------------------------------------
# Networks and maps that SANA-FE cannot express: every reason by name.

_ENCODE = "encode its values as spikes (nirbridge.simulators.encoders)"
_WEIGHT_MAX = 2**31 - 1


def problems(quantized: QuantizedNetwork, mapped: MappedNetwork) -> Iterator[Diagnostic]:
    """What SANA-FE does not compute of a network, and what it has no hardware for of a map."""
    chips = {core.chip for core in mapped.cores}
    if chips - {0}:
        found = f"{len(chips)} chips" if len(chips) > 1 else "its cores are on another chip than the first"
        yield Diagnostic("map", found, "SANA-FE has one chip", "map it with --chips 1")
    for port in quantized.inputs:
        if port.graded:
            yield Diagnostic(f"input {quoted(port.name)}", "graded values", "SANA-FE sends spikes of 0 and 1", _ENCODE)
    for p in quantized.populations:
        yield from neuron_problems(p)
    silent = {p.name for p in quantized.populations if not p.neuron.fires}
    for projection in quantized.projections:
        yield from _projection_problems(projection, silent)


def _projection_problems(p: FixedProjection, silent: set[str]) -> Iterator[Diagnostic]:
    subject = f"projection {quoted(p.source)} to {quoted(p.target)}"
    longest = int(np.max(p.delay_steps, initial=1)) + int(np.max(p.target_delay_steps, initial=0))
    if longest > DELAY_MAX:
        hint = "put relay neurons between, or emit for lava"
        yield Diagnostic(subject, f"a delay of {longest} time steps", f"SANA-FE holds {DELAY_MAX}", hint)
    if p.source in silent:
        limit = "values of v are not sent on the chip"
        yield Diagnostic(subject, "its source is a readout", limit, "end the network there")
    if p.weight_exp < 0:
        found = f"weights with exponent {p.weight_exp}"
        yield Diagnostic(subject, found, "SANA-FE adds weights one by one", "use an exponent of 0 or more")
    elif _largest_weight(p) << p.weight_exp > _WEIGHT_MAX:
        yield Diagnostic(subject, "weights above 31 bits", "SANA-FE's Python interface takes 32", "use fewer bits")
    synapses = synapse_bound(p.operator)
    if synapses > SYNAPSES_MAX:
        limit = f"at most {SYNAPSES_MAX:,} are listed for SANA-FE"
        yield Diagnostic(subject, f"up to {synapses:,} synapses", limit, "profile it without SANA-FE")


def _largest_weight(p: FixedProjection) -> int:
    weights = getattr(p.operator, "weight", getattr(p.operator, "data", np.zeros(0)))
    return int(np.abs(np.asarray(weights)).max(initial=0))
