"""The attribute ``nirbridge`` of an emitted class: names and time step, which an importer cannot see otherwise.

Nothing that computes is taken from it where a module is traced, and the self-check runs the module in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import ModelError, quoted
from nirbridge.importers.neuron_specs import DataflowGraph
from nirbridge.network import Network, Neuron, Population, Port, Projection, Timing, check_network
from nirbridge.network.compose import compose
from nirbridge.network.neurons import Adaptation
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool

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


# -- structure -----------------------------------------------------------------------------------------------------
# Modules of PyTorch alone that nirbridge wrote, as networks: every number from the module, its structure as stated.
#
# The class states which of its members a projection consists of; shapes, options and numbers are those of the members.
# Whether forward still computes that is not believed but run: the self-check compares the two on random inputs.

HINT = "emit it again, or import with the names and members that it was written with"
_RESETS, _COMPARES = ("to-value", "subtract", "none"), (">", ">=")


def network_of(module: Any, dt: float | None = None) -> Network:
    """The network of a module that ``emit --to torch`` wrote, with its present parameters.

    Raises:
        ModelError: members or options that it was not written with.
    """
    facts: Any = emitted_facts(module)
    try:
        network = _network(module, facts, dt)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {quoted(error, 200)[1:-1]}"
        found = f"its members are not those that its attribute 'nirbridge' states ({reason})"
        raise ModelError.of("module", found, "", HINT) from None
    check_network(network)
    return network


def _network(module: Any, facts: Mapping[str, Any], dt: float | None) -> Network:
    members, seconds = dict(facts["populations"]), float(facts["dt"] if dt is None else dt)
    by_name = {name: _population(module, key, name, facts["kinds"][key]) for key, name in members.items()}
    shapes = {name: _shape(shape) for name, shape in facts["shapes"].items()}
    ends = {**shapes, **{name: p.shape for name, p in by_name.items()}}
    return Network(
        seconds,
        Timing(dt=seconds, **facts["timing"]),
        tuple(by_name[name] for name in facts["order"]),
        tuple(_projection(module, p, ends) for p in facts["projections"]),
        tuple(Port(name, shapes[name]) for name in facts["inputs"].values()),
        tuple(Port(name, shapes[name]) for name in facts["outputs"]),
    )


def _shape(values: Any) -> Shape:
    return tuple(map(int, values))


def _array(value: Any, dtype: Any = np.float64) -> Array:
    """A tensor in a type of numbers, which must be finite."""
    array = value.detach().cpu().numpy().astype(dtype)
    if array.dtype.kind == "f" and not bool(np.all(np.isfinite(array))):
        raise ValueError("a parameter is not finite")
    return array


# -- neurons -------------------------------------------------------------------------------------------------------


def _population(module: Any, key: str, name: str, kind: str) -> Population:
    own = module.get_submodule(key)
    shape = _shape(own.shape)
    if own.reset not in _RESETS or own.compare not in _COMPARES or own.max_spikes < 1:
        raise ValueError(f"options of {key}")
    values: dict[str, Any] = {"kind": str(kind), "theta": None}
    for f in fields(Neuron):
        if hasattr(own, f.name) or (f.name not in values and f.default is MISSING):
            value = getattr(own, f.name)
            values[f.name] = _compact(value) if hasattr(value, "detach") else value
    if hasattr(own, "b_init"):
        parts = (_compact(x) for x in (own.b_decay, own.b_jump, own.b_init))
        values["adaptation"] = Adaptation(*parts, in_reset=bool(own.in_reset))
    return Population(name, shape, Neuron(**values))


def _compact(value: Any) -> Array:
    return compact(_array(value, np.float64 if value.is_floating_point() else np.int64))


# -- projections ---------------------------------------------------------------------------------------------------


def _projection(module: Any, facts: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Projection:
    source, target = facts["source"], facts["target"]
    parts: list[Operator] = []
    for part in facts["parts"]:
        parts.append(_READERS[part["kind"]](module, part))
    operator, _ = compose(parts, [""] * len(parts), shapes[source])
    if len(parts) == 1:
        (operator,) = parts
    bias = None
    if "bias" in facts:
        bias = _bias(_tensor(module, facts["bias"]), shapes[target])
    return Projection(
        source,
        target,
        operator,
        bias,
        _delay(module, facts.get("delay", 0)),
        _delay(module, facts.get("late", 0)),
        is_back=bool(facts.get("is_back", False)),
        nodes=tuple(facts.get("nodes", ())),
        delay_nodes=tuple(facts.get("delay_nodes", ())),
    )


def _tensor(module: Any, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    return getattr(module.get_submodule(owner), name)


def _bias(value: Any, shape: Shape) -> Array:
    """One number per element; that of a convolution is one per channel."""
    array = _array(value)
    if array.shape != shape:
        array = np.broadcast_to(array.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return freeze(np.array(array))


def _delay(module: Any, value: Any) -> Array:
    return freeze(_array(_tensor(module, value), np.int64) if isinstance(value, str) else np.int64(value))


def _weights(module: Any, part: Mapping[str, Any], name: str = "weight") -> Array:
    if part["dtype"] not in ("float32", "float64", "float16"):
        raise ValueError(f"numbers of type {part['dtype']}")
    return freeze(_array(_tensor(module, f"{part['member']}.{name}" if name else part["member"]), part["dtype"]))


def _pairs(values: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(low), int(high)) for low, high in values)


def _conv(module: Any, part: Mapping[str, Any]) -> Conv:
    return Conv(
        _weights(module, part),
        _shape(part["stride"]),
        _pairs(part["padding"]),
        _shape(part["dilation"]),
        int(part["groups"]),
        _shape(part["input_shape"]),
    )


def _pool(module: Any, part: Mapping[str, Any]) -> SumPool:
    kernel, stride, shape = (_shape(part[key]) for key in ("kernel", "stride", "input_shape"))
    return SumPool(kernel, stride, _pairs(part["padding"]), shape, float(part["factor"]))


def _sparse(module: Any, part: Mapping[str, Any]) -> Sparse:
    """The table of each target's sources; the place after the last source stands for none."""
    shapes = _shape(part["input_shape"]), _shape(part["output_shape"])
    table = _array(_tensor(module, f"{part['member']}.sources"), np.int64)
    sources = table.reshape(len(table), -1).T
    weights = _weights(module, part).reshape(len(table), -1).T
    there = sources < int(np.prod(shapes[0]))
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return Sparse(freeze(indptr, np.int64), freeze(sources[there]), freeze(weights[there]), *shapes)


_READERS: Mapping[str, Any] = {
    "Identity": lambda module, part: Identity(_shape(part["shape"])),
    "Reshape": lambda module, part: Reshape(_shape(part["input_shape"]), _shape(part["output_shape"])),
    "Scale": lambda module, part: Scale(_weights(module, part, "")),
    "Dense": lambda module, part: Dense(_weights(module, part)),
    "Conv": _conv,
    "SumPool": _pool,
    "Sparse": _sparse,
}
