"""The attribute ``nirbridge`` of an emitted class: what its importer reads besides the parameters, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import ModulePlan, PlannedSynapse
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Operator

FORM = 1
"""Of the attribute; another number is another meaning of it."""
WIDTH = 116


def facts_of(plan: ModulePlan) -> dict[str, Any]:
    """The facts of a module.

    A module of a framework is traced by its importer, which only lacks the names of the network and its time step. That
    of PyTorch alone says its structure too, since no other module has such neurons and delays.
    """
    network = plan.network
    facts: dict[str, Any] = {
        "form": FORM,
        "framework": plan.framework.name,
        "dt": network.dt,
        "timing": {key: value for key, value in asdict(network.timing).items() if key != "dt"},
        "inputs": {plan.ids[p.name]: p.name for p in network.inputs},
        "populations": {n.id: n.population.name for n in plan.neurons},
        "outputs": [p.name for p in network.outputs],
    }
    if plan.framework.delays:
        facts["shapes"] = {x.name: x.shape for x in (*network.inputs, *network.outputs)}
        facts["kinds"] = {n.id: n.population.neuron.kind for n in plan.neurons}
        facts["order"] = [p.name for p in network.populations]
        facts["projections"] = [_projection(s) for s in plan.synapses]
    return facts


def _projection(s: PlannedSynapse) -> dict[str, Any]:
    p = s.projection
    parts = zip(parts_of(p.operator), s.parts, strict=True)
    facts: dict[str, Any] = {"source": p.source, "target": p.target, "parts": [_part(*pair) for pair in parts]}
    if p.bias is not None:
        facts["bias"] = s.bias or f"{s.parts[-1]}.bias"
    for key, steps, member in (
        ("delay", p.delay_steps, s.source_delay),
        ("late", p.target_delay_steps, s.target_delay),
    ):
        if np.any(steps):
            facts[key] = member
    facts |= {"is_back": True} if p.is_back else {}
    names = {key: list(found) for key, found in (("nodes", p.nodes), ("delay_nodes", p.delay_nodes)) if found}
    return {**facts, **names}


_TYPES = ("Conv", "SumPool", "Reshape", "Sparse")


def _part(part: Operator, member: str) -> dict[str, Any]:
    """A part of an operator: its class, its member and type of numbers, and what its layer does not say."""
    facts: dict[str, Any] = {"kind": type(part).__name__}
    weights: Array | None = next((getattr(part, f) for f in ("weight", "data", "scale") if hasattr(part, f)), None)
    if member and weights is not None:
        facts |= {"member": member, "dtype": str(weights.dtype)}
    for name in ("shape", "input_shape", "output_shape", "kernel", "stride", "padding", "dilation", "groups", "factor"):
        is_field = name in type(part).__dataclass_fields__
        if is_field:
            facts[name] = getattr(part, name)
    return facts


def literal(value: Any, indent: int = 0) -> str:
    """A value as Python text in ASCII: strings, numbers, None, truth values, and containers of them."""
    flat = _flat(value)
    if indent + len(flat) <= WIDTH - 4 or not isinstance(value, Mapping | list):
        return flat
    inner = " " * (indent + 4)
    if isinstance(value, Mapping):
        items = [f"{key!a}: {literal(v, indent + 4)}" for key, v in value.items()]
        opened, closed = "{", "}"
    else:
        items, (opened, closed) = [literal(v, indent + 4) for v in value], "[]"
    lines = "".join(f"{inner}{item},\n" for item in items)
    return f"{opened}\n{lines}{' ' * indent}{closed}"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!a}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        inner = ", ".join(map(_flat, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return ascii(value)
