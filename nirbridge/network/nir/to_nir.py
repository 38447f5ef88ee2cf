"""``Network`` -> ``nir.NIRGraph``, so that ``same_network(from_nir(to_nir(n)), n)``.

Plain NIR holds all that it can express, in full vectors without infinities; the rest is ``nirbridge:*`` metadata,
which other tools ignore. ``export_warnings`` lists the tools that would then run the model differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, same_array, stored_part
from nirbridge.errors import Bug, ModelError, quoted
from nirbridge.network.check import check_network
from nirbridge.network.graph import DelayArc, back_arcs
from nirbridge.network.model import Network, Population, Projection, Timing
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import Neuron, flat_fields
from nirbridge.network.nir.lower_neurons import lower_neuron
from nirbridge.network.nir.raise_linear import RaisedNode, raise_projection, spacer
from nirbridge.network.nir.timing import PREFIX, ResolvedTiming


def to_nir(network: Network) -> Any:
    """The network as a flat ``nir.NIRGraph`` that shares no array with it.

    Every projection gets nodes of its own, named as in ``Projection.nodes`` where that name is free. One array may
    be shared: weights that are a broadcast view (a network of shapes alone) stay that view. Nodes with equal large
    weights (a layer after a sum of spikes, which is a projection from each) share one array, which is read-only.

    Raises:
        ModelError: the network is not well formed, or has no NIR node for a part (a decay above 1, a reshape that
            is no Flatten, uneven padding …).
    """
    import nir

    check_network(network)
    nodes: dict[str, Any] = {p.name: nir.Input({"input": np.array(p.shape)}) for p in network.inputs}
    nodes |= {p.name: raise_neuron(p, network) for p in network.populations}
    nodes |= {p.name: nir.Output({"output": np.array(p.shape)}) for p in network.outputs}
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    implicit = _back_edges_are_implicit(network)
    reserved = {name for p in network.projections for name in p.nodes} | set(nodes)
    edges: list[tuple[str, str]] = []
    plain: set[tuple[str, str]] = set()
    known: dict[Any, list[Array]] = {}
    for p in network.projections:
        chain = raise_projection(p, shapes[p.source], network.dt, implicit_back=implicit)
        if not chain and (p.source, p.target) in plain:
            chain = [spacer(shapes[p.source])]
        plain |= set() if chain else {(p.source, p.target)}
        for node in (raised.node for raised in chain if np.size(getattr(raised.node, "weight", 0)) > _COPIED_MAX):
            node.weight = _once(node.weight, known.setdefault((node.weight.shape, node.weight.dtype), []))
        _connect(p, chain, nodes, edges, reserved)
    return nir.NIRGraph(nodes, edges, metadata=_graph_metadata(network), type_check=False)


def _once(weight: Array, alike: list[Array]) -> Array:
    """The first array of the same bits, which is read-only from then on; else the array, which joins ``alike``."""
    bits = f"u{weight.itemsize}"
    twin = next((known for known in alike if np.array_equal(known.view(bits), weight.view(bits))), None)
    if twin is None:
        alike.append(weight)
        return weight
    twin.flags.writeable = False
    return twin


def _connect(
    p: Projection, chain: Sequence[RaisedNode], nodes: dict[str, Any], edges: list[tuple[str, str]], reserved: set[str]
) -> None:
    before = p.source
    for raised in chain:
        is_free = raised.name and raised.name not in nodes
        name = raised.name if raised.name and is_free else fresh_name(f"{p.source}_{p.target}", reserved)
        reserved.add(name)
        nodes[name] = raised.node
        edges.append((before, name))
        before = name
    edges.append((before, p.target))


def _back_edges_are_implicit(network: Network) -> bool:
    """True if reading the graph back marks exactly the projections that are marked."""
    marks = [p.is_back for p in network.projections]
    arcs = [DelayArc(p.source, p.target, p.min_delay_steps - p.is_back) for p in network.projections]
    if any(p.is_back and int(p.delay_steps.min()) < 1 for p in network.projections):
        return False
    inputs, names = [p.name for p in network.inputs], [p.name for p in network.populations]
    return list(back_arcs(inputs, names, arcs)) == marks


def _graph_metadata(network: Network) -> dict[str, Any]:
    t = network.timing
    axes = {PREFIX + "axes": ",".join(network.axes)} if network.axes else {}
    return axes | {
        PREFIX + "dt": network.dt,
        PREFIX + "integrator": t.integrator,
        PREFIX + "reset": t.reset,
        PREFIX + "compare": t.compare,
        PREFIX + "if_gain": t.if_gain,
    }


# -- raise neurons -------------------------------------------------------------------------------------------------
# Raising of a canonical neuron record to a NIR neuron: plain parameters, and metadata for the rest.
#
# The inverse of ``lower_neurons``. The plain parameters give the coefficients up to a rounding; where the rounding
# shows, the exact coefficient is stored beside them.

_COPIED_MAX = 2**16
"""Neurons up to which one number for all of them is written out, so that the node's arrays can be changed in place."""
_NO_DECAY = 2.0**-60
"""Share of the way to rest that stands for no decay: in float64 the decay 1 - 2**-60 is exactly 1."""


@dataclass(frozen=True, slots=True)
class _PlainTime:
    """Time discretisation under which the plain parameters are read."""

    dt: float
    integrator: str
    per_step: bool


def raise_neuron(population: Population, network: Network) -> Any:
    """The NIR node of a population; every parameter is a float64 vector of the population's shape.

    Above 65,536 neurons one number for all of them is a read-only broadcast view, which takes no memory.

    Raises:
        ModelError: a coefficient that no NIR parameter gives (a decay above 1, an overflow).
    """
    import nir

    record = population.neuron
    kind = _nir_class(record)
    integrator = _usable_integrator(record, str(network.timing.integrator))
    time = _PlainTime(network.dt, integrator, network.timing.if_gain == "per-step")
    values = _parameters(kind, record, time)
    vectors = {k: _vector(v, population.shape) for k, v in values.items()}
    for name, vector in vectors.items():
        part = stored_part(vector)
        if not bool(np.all(np.isfinite(part))) or (name.startswith("tau") and not bool(np.all(part > 0))):
            found = f"{name} would be {_first_bad(vector, name):g}"
            limit = "NIR parameters are finite, time constants above 0"
            raise ModelError.of(f"population {quoted(population.name)}", found, limit, "its decay must not exceed 1")
    node = getattr(nir, kind)(**vectors)
    node.metadata = _metadata(node, population, network, integrator)
    return node


def _vector(values: Array, shape: tuple[int, ...]) -> Array:
    """A float64 vector of full shape: a copy, or a view of one number for many neurons."""
    if values.ndim == 0 and math.prod(shape) > _COPIED_MAX:
        return np.broadcast_to(values.astype(np.float64), shape)
    return np.array(np.broadcast_to(values, shape), np.float64)


def _first_bad(vector: Array, name: str) -> float:
    bad = ~np.isfinite(vector) | ((vector <= 0) & name.startswith("tau"))
    return float(vector[bad].flat[0])


def _nir_class(record: Neuron) -> str:
    """The class that a record is written as: its own where that suffices, else the next more general one."""
    integrates = _is(record.a_mem, 1.0) and _is(record.bias, 0.0)
    synapse = record.has_synapse or not (_is(record.a_syn, 0.0) and _is(record.g_syn, 1.0))
    if synapse:
        return "CubaLIF" if record.fires else "CubaLI"
    if not record.fires:
        return "I" if record.kind == "I" and integrates else "LI"
    stateless = _is(record.a_mem, 0.0) and _is(record.g_mem, 1.0) and _is(record.bias, 0.0)
    if record.kind == "Threshold" and stateless:
        return "Threshold"
    return "IF" if integrates and record.kind != "LIF" else "LIF"


def _is(array: Array, value: float) -> bool:
    return bool(np.all(array == value))


def _usable_integrator(record: Neuron, integrator: str) -> str:
    """Exponential decays are above 0; Euler expresses any decay up to 1."""
    decays = (record.a_mem, record.a_syn) if _nir_class(record).startswith("Cuba") else (record.a_mem,)
    return "euler" if any(bool(np.any(a <= 0)) for a in decays) else integrator


def _parameters(kind: str, record: Neuron, time: _PlainTime) -> dict[str, Array]:
    if kind == "Threshold":
        return {"threshold": np.asarray(record.theta)}
    out: dict[str, Array] = {}
    if kind in ("IF", "I"):
        out["r"] = record.g_mem if time.per_step else np.asarray(record.g_mem / time.dt)
    else:
        tau, share, gain = _time_constant(record.a_mem, time)
        out |= {"tau": tau, "r": record.g_mem / gain, "v_leak": record.bias / share}
    if kind.startswith("Cuba"):
        out["tau_mem"] = out.pop("tau")
        tau, _, gain = _time_constant(record.a_syn, time)
        out |= {"tau_syn": tau, "w_in": record.g_syn / gain}
    if record.theta is not None:
        out |= {"v_threshold": record.theta, "v_reset": record.v_reset}
    return out


def _time_constant(decay: Array, time: _PlainTime) -> tuple[Array, Array, Array]:
    """(tau, share, gain): time constant of a decay, share of v_leak and gain of a unit input per time step."""
    share = np.where(decay == 1.0, _NO_DECAY, 1.0 - decay)
    if time.integrator == "euler":
        return time.dt / share, share, share
    # the logarithm of the smaller of decay and share keeps every digit
    exponent = np.where(decay < 0.5, -np.log(np.minimum(decay, 0.5)), -np.log1p(-np.minimum(share, 0.5)))
    ratio = np.where(decay == 1.0, _NO_DECAY, exponent)
    return time.dt / ratio, share, (share if time.integrator == "zoh" else ratio)


def resolved_as_written(network: Network) -> ResolvedTiming:
    """The timing that ``from_nir`` will resolve for the exported graph."""
    t = network.timing
    if t.integrator is None or t.reset is None or t.compare is None or t.if_gain is None:
        raise Bug.of("network", "its timing is not resolved", "", "report this")  # check_network has ensured it
    return ResolvedTiming(network.dt, t.integrator, t.reset, t.compare, t.if_gain, Timing(), False, (), ())


def _metadata(node: Any, population: Population, network: Network, integrator: str) -> dict[str, Any]:
    """Fields that reading the plain node back does not restore, one key each."""
    metadata: dict[str, Any] = {}
    if integrator != network.timing.integrator:
        metadata[PREFIX + "integrator"] = integrator
    record = population.neuron
    plain = lower_neuron(population.name, node, population.shape, metadata, resolved_as_written(network))[0]
    known = flat_fields(plain)
    for name, exact in flat_fields(record).items():
        read = known.get(name)
        if isinstance(exact, np.ndarray):
            if not (isinstance(read, np.ndarray) and same_array(exact, read)):
                metadata[PREFIX + name] = _stored(exact, population.shape)
        elif exact is not read and exact != read:
            metadata[PREFIX + name] = exact
    return metadata


def _stored(value: Array, shape: tuple[int, ...]) -> Any:
    """One number where all are equal, else a vector of the population's shape."""
    return np.array(np.broadcast_to(value, shape)) if value.ndim else value.item()
