"""The integers that run on the cores of a mapped network."""

from __future__ import annotations

from nirbridge.errors import IllegalMapping
from nirbridge.mapping.model import MappedNetwork
from nirbridge.passes.retiming.retime import Retime, RetimedNetwork, with_hops
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize


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
    return quantize(_retimed(mapped), mapped.chip, QuantizationOptions(weight_bits=mapped.partition.weight_bits))


def _retimed(mapped: MappedNetwork) -> RetimedNetwork:
    """The network with the hops in its delays.

    A map without latencies is of a network in which no delay had to be changed: retiming it adds the hops alone.
    """
    keep = bool(mapped.early_spikes)
    if mapped.latency is None:
        limits = {"delay_steps_max": mapped.chip.core.delay_steps, "graded_spikes": mapped.chip.neuron.graded_spikes}
        return Retime(**limits, keep_early_spikes=keep).retimed(mapped.network)
    network = with_hops(mapped.network)
    return RetimedNetwork(network, mapped.latency, mapped.network, (), keep, mapped.early_spikes)
