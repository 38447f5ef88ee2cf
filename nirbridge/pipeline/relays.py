"""Pools mapped to relay neurons where a chip cannot hold the fan-in of a pool folded into the next layer."""

from __future__ import annotations

from dataclasses import replace

from nirbridge.chips.model import Chip
from nirbridge.errors import quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import SumPool
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.explain import oversized_neurons
from nirbridge.passes.base import run_passes
from nirbridge.passes.relay_pools import RelayProjection


def with_relays(network: Network, chip: Chip) -> Network:
    """Relays for the pools in front of populations of which one neuron has more input axons than a core holds.

    Populations whose fan-in fits stay as they are, and so does a network that fits without. Every relay is listed in
    ``Network.notes``, with its effect.
    """
    while (split := _heavy_pool(network, chip)) is not None:
        network = _relayed(network, split, chip)
    return network


def _heavy_pool(network: Network, chip: Chip) -> tuple[int, int] | None:
    """(projection, part) of a pool in front of a population that is too heavy; None: there is none."""
    problems = oversized_neurons(cost_model(network, chip, chip.synapses.weight_bits_default))
    heavy = {p.ids["population"] for p in problems}
    for index, projection in enumerate(network.projections):
        split = _pool_of(projection, index)
        if projection.target in heavy and split is not None:
            return split
    return None


def _pool_of(projection: Projection, index: int) -> tuple[int, int] | None:
    """(projection, part) of the last pool that is followed by another operator."""
    parts = parts_of(projection.operator)
    pools = [k for k, part in enumerate(parts[:-1]) if isinstance(part, SumPool)]
    return (index, pools[-1]) if pools else None


def _relayed(network: Network, split: tuple[int, int], chip: Chip) -> Network:
    index, part = split
    before = {p.name for p in network.populations}
    graded = chip.neuron.graded_spikes
    changed = run_passes(network, [RelayProjection(index, part, graded_spikes=graded)])
    name = next(p.name for p in changed.populations if p.name not in before)
    target = quoted(network.projections[index].target)
    effect = (
        "graded spikes carry its counts"
        if graded
        else "with one spike a step its counts are kept but spread over later steps: outputs can differ"
    )
    note = f"pool {quoted(name)} in front of {target} is mapped on relay neurons (fan-in); {effect}"
    return replace(changed, notes=(*changed.notes, note))
