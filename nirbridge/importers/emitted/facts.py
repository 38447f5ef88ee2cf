"""The attribute ``nirbridge`` of an emitted class: names and time step, which an importer cannot see otherwise.

Nothing that computes is taken from it where a module is traced, and the self-check runs the module in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.network.model import Network

ATTRIBUTE, FORM = "nirbridge", 1
OWN = "torch"
"""The framework of modules whose neurons are nirbridge's own."""


def emitted_facts(module: Any) -> Mapping[str, Any] | None:
    """The facts of a module that nirbridge wrote, None for any other."""
    facts = getattr(type(module), ATTRIBUTE, None)
    return facts if isinstance(facts, Mapping) and facts.get("form") == FORM else None


def is_emitted(module: Any) -> bool:
    """True for a module of PyTorch alone that nirbridge wrote: a network of spikes although no framework's."""
    facts = emitted_facts(module)
    return facts is not None and facts.get("framework") == OWN


def emitted_dt(module: Any) -> float | None:
    """Seconds per time step of the network that a module was written from; None for any other module."""
    dt = (emitted_facts(module) or {}).get("dt")
    return float(dt) if isinstance(dt, int | float) and not isinstance(dt, bool) and 0 < dt < float("inf") else None


def with_emitted_names(network: Network, flow: DataflowGraph, module: Any) -> Network:
    """The network with the names that it had when the module was written, where all of them still fit."""
    facts = emitted_facts(module)
    if facts is None:
        return network
    names = _populations(flow, facts) | _ports(network, facts)
    ends = [p.name for p in (*network.inputs, *network.populations, *network.outputs)]
    renamed = [names.get(name, name) for name in ends]
    if len(set(renamed)) < len(ends) or not all(isinstance(name, str) for name in renamed):
        return network
    return _renamed(network, dict(zip(ends, renamed, strict=True)))


def _populations(flow: DataflowGraph, facts: Mapping[str, Any]) -> dict[str, str]:
    known = facts.get("populations")
    table = known if isinstance(known, Mapping) else {}
    return {c.name: table[c.path] for c in flow.calls if c.kind == "neuron" and c.path in table}


def _ports(network: Network, facts: Mapping[str, Any]) -> dict[str, str]:
    """A single input or output has one name, whatever importers call it; several are named by their arguments."""
    inputs, outputs = facts.get("inputs"), facts.get("outputs")
    if not isinstance(inputs, Mapping) or not isinstance(outputs, list | tuple):
        return {}
    names = {p.name: inputs[p.name] for p in network.inputs if p.name in inputs}
    if len(inputs) == len(network.inputs) == 1:
        names = {network.inputs[0].name: next(iter(inputs.values()))}
    if len(outputs) == len(network.outputs) == 1:
        return {**names, network.outputs[0].name: outputs[0]}
    return names | {f"output_{name}": name for name in outputs}


def _renamed(network: Network, names: Mapping[str, str]) -> Network:
    return replace(
        network,
        populations=tuple(replace(p, name=names[p.name]) for p in network.populations),
        inputs=tuple(replace(p, name=names[p.name]) for p in network.inputs),
        outputs=tuple(replace(p, name=names[p.name]) for p in network.outputs),
        projections=tuple(replace(p, source=names[p.source], target=names[p.target]) for p in network.projections),
    )
