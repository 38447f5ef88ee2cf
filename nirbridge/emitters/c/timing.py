"""Integers in the network's own time: a chip's hops taken out of the delays again."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.graph import DelayArc, causal_order
from nirbridge.network.model import Projection
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Key, Probe, SimulationState

Edge = TypeVar("Edge", Projection, FixedProjection)


def without_hops(quantized: QuantizedNetwork) -> QuantizedNetwork:
    """The network in which each node is as early as in the reference: delays without latencies, which become 0.

    Its populations start in ``first_states``.

    Raises:
        ModelError: a spike that would arrive before it is sent.
    """
    latency = quantized.latency

    def earlier(p: Edge) -> Edge:
        delays = p.delay_steps - (latency.get(p.target, 0) - latency.get(p.source, 0))
        if int(np.min(delays)) < 0:
            subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
            limit, hint = "a spike cannot arrive before it is sent", "emit it with hops"
            raise ModelError.of(subject, f"a delay of {int(np.min(delays))} time steps without hops", limit, hint)
        return replace(p, delay_steps=freeze(delays))

    return replace(
        quantized,
        projections=tuple(earlier(p) for p in quantized.projections),
        reads=tuple(earlier(p) for p in quantized.reads),
        latency=MappingProxyType(dict.fromkeys(latency, 0)),
    )


def causal_names(quantized: QuantizedNetwork) -> tuple[str, ...]:
    """The populations so that each comes after those whose spikes reach it in the same time step."""
    arcs = [DelayArc(p.source, p.target, int(np.min(p.delay_steps))) for p in quantized.projections]
    return causal_order([p.name for p in quantized.populations], arcs, [False] * len(arcs))


def first_states(quantized: QuantizedNetwork) -> dict[Key, Array]:
    """The state of each population after as many time steps without input as its latency.

    Raises:
        ModelError: a population that sends something before its first time step, as ``--keep-early-spikes`` allows.
    """
    found: dict[Key, Array] = {}
    state: SimulationState | None = None
    done, latency = 0, {p.name: quantized.latency.get(p.name, 0) for p in quantized.populations}
    sends = {p.name: "s" if p.neuron.fires else "v" for p in quantized.populations}
    heard = {p.source for p in quantized.projections} | {p.source for p in quantized.reads if np.any(p.delay_steps)}
    for steps in sorted({*latency.values()} - {0}):
        silent = {p.name: np.zeros((steps - done, *p.shape)) for p in quantized.inputs}
        record = [Probe(name, (sends[name],)) for name, late in latency.items() if late >= steps]
        result = simulate_fixed(quantized, silent, steps=steps - done, state=state, record=record)
        recorded = result.recording.arrays.items()
        early = [name for (name, _), sent in recorded if name in heard and sent.any()]
        ModelError.raise_all(_problem(name, latency[name]) for name in early)
        state, done = result.state, steps
        found |= {key: values[0] for key, values in state.arrays.items() if latency.get(key[0]) == steps}
    return found


def _problem(name: str, steps: int) -> Diagnostic:
    found = f"sends spikes in the {counted(steps, 'time step')} before its first one"
    return Diagnostic(f"population {quoted(name)}", found, "without hops there are none", "emit it with hops")
