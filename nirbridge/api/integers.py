"""Quantized and mapped networks, run in their integers."""

from __future__ import annotations

from typing import Any

from nirbridge.errors import UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Recording


def integers_of(mapped: MappedNetwork) -> QuantizedNetwork:
    """The integers that run on the cores of a mapped network. Raises ModelError, UsageError: only a placement."""
    from nirbridge.pipeline import retime
    from nirbridge.quantization.options import QuantizationOptions
    from nirbridge.quantization.quantize import quantize

    if mapped.placement_only or mapped.model is None:
        raise UsageError.of("map", "is a placement only", "it is not quantized, run or emitted", "map the network anew")
    relays = any(p.neuron.kind.lower() == "relay" for p in mapped.network.populations)
    early = bool(mapped.early_spikes)
    retimed = retime(mapped.model, mapped.chip, relays=relays, splits=dict(mapped.splits), keep_early_spikes=early)
    return quantize(retimed, mapped.chip, QuantizationOptions(weight_bits=mapped.partition.weight_bits))


def run_integers(model: QuantizedNetwork | MappedNetwork, inputs: Any, **options: Any) -> Recording:
    """The integers of a quantized network, or those of a mapped one, core by core."""
    if isinstance(model, QuantizedNetwork):
        from nirbridge.simulators.fixed.simulate import simulate_fixed

        return simulate_fixed(model, inputs, **options).recording
    from nirbridge.simulators.mapped.simulate import simulate_mapped

    return simulate_mapped(integers_of(model), model, inputs, **options)
