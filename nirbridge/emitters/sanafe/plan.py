"""The plan of a program: groups of a map's slices, and every synapse that the cores hold as an edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseKind
from nirbridge.emitters.program import InputSpec, PopulationParts, ProcessPart, output_spec
from nirbridge.emitters.sanafe.model import DELAY_MAX, GRID, PADDING, Edges, Group, Padding, Place, SanafePlan
from nirbridge.emitters.target import other_fields
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.apply import matrix, synapse_bound
from nirbridge.network.operators import Operator
from nirbridge.partitioner.cost.axons import synapse_kind
from nirbridge.partitioner.cost.connectivity import flat_indices
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.quantization.decays import dec
from nirbridge.quantization.model import FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork


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


# -- edges ---------------------------------------------------------------------------------------------------------

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


# -- neurons -------------------------------------------------------------------------------------------------------
# Integer neurons as SANA-FE's ``leaky_integrate_fire``, whose potentials are multiples of 1/64.
#
# In every time step SANA-FE computes, after the first one::
#
#     v = trunc(64 * v * leak_decay) / 64        towards zero, as ``dec`` of quantization/model.py: v is exact
#     v = v + bias + current                     spikes where v > threshold
#     v = 0 (hard), v - threshold (soft)         then v is raised to reverse_threshold (saturate)
#
# so an integer v is ``v / 64`` there, and the two agree in every bit. A current has no such rounding
# (``current *= input_decay``): where a neuron's current has memory, the runner of the program keeps it, in the chip's
# integers, and hands it to the neuron as its bias of the time step.

_NEVER = float(2**30)
"""Threshold of a readout: beyond every potential of 24 bits, and still an integer of 32 bits times 64 after a leak."""
_BELOW = 2.0**-13
"""Smaller than the step of ``v * leak_decay``, 1/4096: a threshold so much lower decides >=, and is cut off again."""


def keeps_current(neuron: FixedNeuron) -> bool:
    """True if any current of the population has memory (du below 4095)."""
    return bool(np.any(neuron.du < 4095))


def neuron_problems(p: FixedPopulation) -> Iterator[Diagnostic]:
    """Everything of a population that SANA-FE's neuron does not compute."""
    n, subject = p.neuron, f"population {quoted(p.name)}"
    held = bool(np.any(n.refractory_steps > 0))
    if n.max_spikes > 1:
        hint = "quantize for a chip with spikes of 0 and 1, for example loihi1"
        yield Diagnostic(subject, f"up to {n.max_spikes} spikes in a time step", "SANA-FE sends one", hint)
    if held and keeps_current(n):
        limit = "SANA-FE drops the input of a neuron that is refractory, and so its current"
        yield Diagnostic(subject, "a refractory period and a current with memory", limit, "leave one of them out")
    if held and n.reset != "zero":
        limit = "SANA-FE keeps the potential of a refractory neuron, a chip holds it at 0"
        yield Diagnostic(subject, f"a refractory period with reset {n.reset!r}", limit, "reset to a value")
    if n.fires_above is not None and n.reset == "subtract" and not _one_threshold(n):
        found = "a spike subtracts another amount than the threshold"
        yield Diagnostic(subject, found, "SANA-FE subtracts the threshold", "choose other weight bits, or reset to 0")
    for other in other_fields(n, "u_bits", "v_bits", "v_min"):
        yield Diagnostic(subject, other, "SANA-FE's neuron does not compute it", "emit for lava")
    if max(n.u_bits, n.v_bits) > 24:
        found = f"{max(n.u_bits, n.v_bits)} bits of state"
        yield Diagnostic(subject, found, "24 bits are exact in SANA-FE", "quantize for a chip of at most 24 bits")


def _one_threshold(n: FixedNeuron) -> bool:
    above = np.asarray(n.fires_above) - n.reset_amount
    return bool(np.all((above == 0) | (above == -1)))


def neuron_attributes(p: FixedPopulation) -> dict[str, Array | str]:
    """Attributes of SANA-FE's soma for the neurons of a population, one value or one per neuron."""
    n = p.neuron
    last = (1 << (n.v_bits - 1)) - 1
    low = np.full((), -last) if n.v_min is None else np.maximum(n.v_min, -last)
    found: dict[str, Array | str] = {
        "threshold": _threshold(n),
        "leak_decay": (4096 - n.dv) / 4096,
        "input_decay": np.zeros(()),
        "bias": n.bias / GRID,
        "potential": dec(n.v_init, n.dv) / GRID,  # SANA-FE does not leak in the first time step
        "reverse_threshold": low / GRID,
        "reverse_reset_mode": "saturate",
        "reset_mode": {"zero": "hard", "subtract": "soft", "none": "none"}[n.reset if n.fires else "none"],
    }
    if np.any(n.refractory_steps > 0):
        found["refractory_delay"] = n.refractory_steps + 1  # the time step of the spike counts
    return found


def _threshold(n: FixedNeuron) -> Array:
    if n.fires_above is None:
        return np.full((), _NEVER / GRID)
    if n.reset != "subtract":
        return n.fires_above / GRID
    return np.where(n.fires_above == n.reset_amount, n.reset_amount, n.reset_amount - _BELOW) / GRID


def v_limit(n: FixedNeuron) -> Array | None:
    """The largest potential after a reset for which no clipping at the top is possible; None: it has no effect."""
    last = (1 << (n.v_bits - 1)) - 1
    if not n.fires or n.reset == "none":
        return np.full((), last)
    return last - n.reset_amount if n.reset == "subtract" else None


def of_part(values: Array, size: int, at: Array) -> Array:
    """Values of a population, one or one per neuron, of the neurons ``at``."""
    return np.broadcast_to(np.asarray(values).reshape(-1) if np.ndim(values) else values, (size,))[at]


def part_attributes(attributes: Mapping[str, Array | str], size: int, at: Array) -> dict[str, Array | str]:
    """Attributes of some neurons; one value where all of them have the same."""
    found: dict[str, Array | str] = {}
    for name, values in attributes.items():
        if isinstance(values, str):
            found[name] = values
            continue
        some = of_part(values, size, at)
        found[name] = some[:1].reshape(()) if np.all(some == some[:1]) else some
    return found
