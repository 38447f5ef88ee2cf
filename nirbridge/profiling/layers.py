"""The energy of a run shared out to inputs and populations: operations to their target, messages to their source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.mapping.cost import ENERGY_FIGURES
from nirbridge.mapping.cost.figures import figure, has_figure, own_kind
from nirbridge.mapping.cost.numbering import cost_model_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.cost.axons import synapse_kind
from nirbridge.partitioner.cost.connectivity import out_degrees
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.profiling.costing import CostCounter, Parts, RunCosts

Counts = Mapping[str, Array]
"""Messages of each neuron in a run, flat, by name of every input and population that sends."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Events of one input or population in a run, and its share of the energy in joules, by kind.

    ``work_s``: seconds that the busiest of its cores works in the run.
    """

    synaptic_ops: int
    energy_j: Parts
    work_s: float | None
    cores: int
    synapses: int
    words: int


def layer_costs(counter: CostCounter, costs: RunCosts, counts: Counts) -> dict[str, LayerCosts]:
    """By name of input and population; the energies of all add up to that of the run."""
    mapped, sizes = counter.mapped, cost_model_of(counter.mapped)
    chip = mapped.chip
    found: dict[str, LayerCosts] = {}
    for node in (*mapped.network.inputs, *mapped.network.populations):
        events = _sent(counter, node.name, counts.get(node.name), chip)
        slices = _slices(mapped, node.name)
        ops: dict[str, int] = {}
        synapses, words = 0, 0
        if node.name in sizes.incoming:
            ops, synapses = _received(sizes, node.name, counts, mapped)
            words = sum(sizes.cost(node.name, piece.box).synapse_words for _, piece in slices)
            events |= {"neuron accesses": node.size * costs.steps, "neuron updates": costs.updates[node.name]}
        blocks = sorted({block for block, _ in slices})
        work = max((float(costs.work_s[b]) for b in blocks), default=None) if costs.time() is not None else None
        found[node.name] = LayerCosts(
            sum(ops.values()), _priced(events | ops, chip), work, len(blocks), synapses, words
        )
    return found


def _priced(events: Mapping[str, int], chip: Chip) -> Parts:
    figures = {kind: figure(chip, key) for kind, key in ENERGY_FIGURES.items()}
    known = {k: events[k] * joules for k, joules in figures.items() if joules is not None and events.get(k)}
    return MappingProxyType(known)


def _sent(counter: CostCounter, name: str, counts: Array | None, chip: Chip) -> dict[str, int]:
    """Spikes and messages of a source, and the links of their paths; host inputs cost the host nothing."""
    if counts is None:
        return {}
    of = counter.counter
    columns = of.numbering.columns[name]
    begin, end = of.fanout.ptr[columns], of.fanout.ptr[columns + 1]

    def along(links: Array) -> int:
        done = np.concatenate(([0], np.cumsum(links[of.pair])))
        return int(counts @ (done[end] - done[begin]))

    x, y = along(of.paths.crossings_x), along(of.paths.crossings_y)
    between = has_figure(chip, ENERGY_FIGURES, "chip crossings")
    links = {
        "hops x": along(of.paths.hops_x) + (0 if between else x),
        "hops y": along(of.paths.hops_y) + (0 if between else y),
        "chip crossings": x + y if between else 0,
    }
    if any(port.name == name for port in counter.mapped.network.inputs):
        return links
    return links | {"spikes": int(counts.sum()), "axons out": int(counts @ (end - begin))}


def _received(sizes: CostModel, name: str, counts: Counts, mapped: MappedNetwork) -> tuple[dict[str, int], int]:
    """Synaptic operations into a population by kind, and its synapses."""
    ops: dict[str, int] = {}
    synapses, orders = 0, mapped.partition.orders
    for edge in sizes.incoming[name]:
        degrees = out_degrees(edge.form)
        synapses += int(degrees.sum())
        sent = counts.get(edge.source)
        if sent is not None:
            kind = own_kind(mapped.chip, ENERGY_FIGURES, synapse_kind(edge))
            in_order = sent[np.asarray(orders[edge.source])] if edge.source in orders else sent
            ops[kind] = ops.get(kind, 0) + int(degrees @ in_order)
    return ops, synapses


def _slices(mapped: MappedNetwork, name: str) -> list[tuple[int, Slice]]:
    """The slices of a population, each with its block."""
    blocks = enumerate(mapped.partition.blocks)
    return [(number, s) for number, block in blocks for s in block.slices if s.population == name]
