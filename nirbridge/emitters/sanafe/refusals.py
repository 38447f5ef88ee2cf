"""Networks and maps that SANA-FE cannot express: every reason by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.emitters.sanafe.edges import SYNAPSES_MAX
from nirbridge.emitters.sanafe.model import DELAY_MAX
from nirbridge.emitters.sanafe.neurons import neuron_problems
from nirbridge.errors import Diagnostic, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.apply import synapse_bound
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

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
