"""The integers that run on the cores of a mapped network."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace

from nirbridge.chips.model import Chip
from nirbridge.errors import IllegalMapping
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network, Projection
from nirbridge.passes.retiming.retime import Retime, RetimedNetwork, with_hops
from nirbridge.quantization import QuantizationOptions, QuantizedNetwork, quantize


def integers_of(mapped: MappedNetwork) -> QuantizedNetwork:
    """``mapped.quantized`` where it is given, else the integers of the mapped network that no data was used for.

    Raises:
        IllegalMapping: only a placement.
        ModelError: what the chip cannot compute.
    """
    if mapped.placement_only:
        hint = "map the network for a chip that can run it, without placement_only"
        raise IllegalMapping.of("map", "is a placement only", "nothing runs it", hint)
    if mapped.quantized is not None:
        return mapped.quantized
    facts = mapped.partition.weight_bits, mapped.latency, mapped.early_spikes
    return default_integers(mapped.network, mapped.chip, *facts)


def default_integers(
    network: Network, chip: Chip, weight_bits: int, latency: Mapping[str, int] | None, early_spikes: tuple[str, ...]
) -> QuantizedNetwork:
    """The integers of the network of a map, where none are given with it. Raises ModelError."""
    retimed = _retimed(network, chip, latency, early_spikes)
    return quantize(retimed, chip, QuantizationOptions(weight_bits=weight_bits))


def _retimed(
    network: Network, chip: Chip, latency: Mapping[str, int] | None, early_spikes: tuple[str, ...]
) -> RetimedNetwork:
    """The network with the hops in its delays.

    A map without latencies is of a network in which no delay had to be changed: retiming it adds the hops alone. It
    also puts copies of a population into causal order, but the integers name projections by their place in the map.
    """
    keep = bool(early_spikes)
    if latency is None:
        limits = {"delay_steps_max": chip.core.delay_steps, "graded_spikes": chip.neuron.graded_spikes}
        retimed = Retime(**limits, keep_early_spikes=keep).retimed(network)
        return replace(retimed, network=_in_order_of(network, retimed.network))
    return RetimedNetwork(with_hops(network), latency, network, (), keep, early_spikes)


def _in_order_of(network: Network, retimed: Network) -> Network:
    """The retimed network with its populations and projections in the order of the map's network.

    Retiming puts populations into causal order and projections by target; within a target it keeps their order.
    """
    place = {p.name: k for k, p in enumerate(network.populations)}
    by_target: dict[str, deque[Projection]] = defaultdict(deque)
    for projection in retimed.projections:
        by_target[projection.target].append(projection)
    return replace(
        retimed,
        populations=tuple(sorted(retimed.populations, key=lambda p: place[p.name])),
        projections=tuple(by_target[p.target].popleft() for p in network.projections),
    )
