"""A network in lines of text: one line per input, population, projection and output."""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Projection
from nirbridge.report.inspect import shape_text


def network_lines(network: Network) -> list[str]:
    """The network in lines: its size, then inputs, populations, projections and outputs in order, then its notes."""
    return [
        f"neurons: {network.neurons:,}, populations: {len(network.populations):,}, "
        f"projections: {len(network.projections):,}, dt {network.dt:g} s",
        *(f"input {quoted(p.name)}: {shape_text(p.shape)}" for p in network.inputs),
        *(_population(p) for p in network.populations),
        *(_projection(p) for p in network.projections),
        *(f"output {quoted(p.name)}: {shape_text(p.shape)}" for p in network.outputs),
        *(f"note: {text}" for text in network.notes),
    ]


def _population(p: Population) -> str:
    n = p.neuron
    parts = [shape_text(p.shape), n.kind, f"decay {_range(n.a_mem)}"]
    if n.has_synapse:
        parts.append(f"synaptic decay {_range(n.a_syn)}")
    if n.theta is None:
        return f"population {quoted(p.name)}: {', '.join([*parts, 'readout'])}"
    return f"population {quoted(p.name)}: {', '.join([*parts, f'threshold {_range(n.theta)}', f'reset {n.reset}'])}"


def _projection(p: Projection) -> str:
    operators = ", ".join(type(part).__name__ for part in parts_of(p.operator))
    delay = _range(p.delay_steps + p.target_delay_steps.min()) if p.target_delay_steps.ndim == 0 else "per target"
    marks = ["bias"] * (p.bias is not None) + ["closes a cycle"] * p.is_back
    return ", ".join([f"{quoted(p.source)} -> {quoted(p.target)}: {operators}", f"delay {delay}", *marks])


def _range(values: Array) -> str:
    low, high = np.min(values).item(), np.max(values).item()
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
