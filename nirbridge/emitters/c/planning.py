"""The plan of a C program: widths that hold every sum, histories as long as the longest delay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.c.plan import CPlan, Neurons, Parameter, Source, Synapses, integer_type
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.program.interval import first_values, fits, intervals
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Stepped, in_order
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, output_ranges, prove

WEIGHTS_MAX = 20_000_000
"""More stored weights than this are no text for a compiler (about 80 MB of source)."""
INT32_MAX = 2**31 - 1


def c_plan(quantized: QuantizedNetwork) -> CPlan:
    """The plan of a quantized network.

    Raises:
        ModelError: more weights than a compiler can be given as text.
    """
    count = sum(weights_of(p.operator).size for p in quantized.projections)
    if count > WEIGHTS_MAX:
        limit = f"a C program holds {WEIGHTS_MAX:,} at most"
        raise ModelError.of(
            "network", counted(count, "stored weight"), limit, "emit a part of the network, or use Lava"
        )
    sent = output_ranges(quantized.populations, _input_ranges(quantized))
    sources = _sources(quantized, sent)
    bounds = prove(quantized)
    steps = {p.name: in_halves(traced_step(p.neuron)) for p in quantized.populations}
    values = {
        p.name: intervals(steps[p.name], first_values(p.neuron, bounds[p.name].a_in)) for p in quantized.populations
    }
    wide = {name: not fits(found, 32) for name, found in values.items()}
    synapses: dict[str, list[Synapses]] = {p.name: [] for p in quantized.populations}
    for k, projection in enumerate(quantized.projections):
        if weights_of(projection.operator).any():  # else it adds nothing, and C has no arrays of no elements
            kind = "int64_t" if wide[projection.target] or _sums(projection, sent) > INT32_MAX else "int32_t"
            own_sum = projection.weight_exp < 0
            synapses[projection.target].append(Synapses(f"s{k}", sources[projection.source], projection, kind, own_sum))
    read = {r.source for r in quantized.reads}
    neurons = []
    for p in quantized.populations:
        parameters = _parameters(p, steps[p.name])
        rows = p.shape[0] if any(x.level == "row" for x in parameters.values()) else 1
        kind, into = "int64_t" if wide[p.name] else "int32_t", tuple(synapses[p.name])
        found = steps[p.name], values[p.name], parameters, rows, p.size // rows
        neurons.append(Neurons(sources[p.name].id, p, sources[p.name], into, *found, kind, p.name in read))
    return CPlan(quantized, tuple(sources[p.name] for p in quantized.inputs), tuple(neurons))


def _sources(quantized: QuantizedNetwork, sent: Mapping[str, OutputRange]) -> dict[str, Source]:
    """Inputs and populations by name."""
    depths = _depths(quantized)
    sources = {
        p.name: _source(f"in{k}", p.shape, depths[p.name], not p.graded, sent[p.name])
        for k, p in enumerate(quantized.inputs)
    }
    for k, p in enumerate(quantized.populations):
        binary = p.neuron.fires and p.neuron.max_spikes == 1
        sources[p.name] = _source(f"p{k}", p.shape, depths[p.name], binary, sent[p.name])
    return sources


def _depths(quantized: QuantizedNetwork) -> dict[str, int]:
    depths = {x.name: 0 for x in (*quantized.inputs, *quantized.populations)}
    for p in quantized.projections:
        depths[p.source] = max(depths[p.source], int(p.delay_steps.max(initial=1)))
    return depths


def _input_ranges(quantized: QuantizedNetwork) -> dict[str, OutputRange]:
    return {p.name: OutputRange(-p.value_max if p.graded else 0, p.value_max) for p in quantized.inputs}


def _source(name: str, shape: Shape, depth: int, binary: bool, reach: OutputRange) -> Source:
    slots = 1 << depth.bit_length() if depth else 0
    kind = "uint32_t" if binary else integer_type(np.array([reach.low, reach.high]))
    return Source(name, math.prod(shape), binary, slots, kind)


def _sums(projection: FixedProjection, sent: Mapping[str, OutputRange]) -> int:
    """The largest sum of a projection before its shift to the right, and of the values that are added up in it."""
    low, high = operator_bounds(projection.operator, sent[projection.source])
    one = int(np.abs(weights_of(projection.operator)).max(initial=0)) << max(0, projection.weight_exp)
    one *= max(abs(sent[projection.source].low), abs(sent[projection.source].high))
    return max(int(-low.min(initial=0)), int(high.max(initial=0)), one)


def _parameters(p: FixedPopulation, step: Stepped) -> dict[str, Parameter]:
    """The coefficients that a time step reads, and the first state."""
    n = p.neuron
    if n.fires_above is not None and n.max_spikes > 1 and int(np.min(n.fires_above)) < -1:
        found = "several spikes in a time step, and a threshold below 0"
        raise ModelError.of(f"population {quoted(p.name)}", found, "C has no negative spikes", "raise its threshold")
    values = {term.name: np.asarray(term.value) for term in in_order(step.ends) if term.op == "param"}
    if "refractory_steps" in values:  # no run has more time steps
        values["refractory_steps"] = np.minimum(values["refractory_steps"], INT32_MAX)
    values |= {"u_init": n.u_init, "v_init": n.v_init}
    return {name: _parameter(x, p.shape) for name, x in values.items()}


def _parameter(values: Array, shape: Shape) -> Parameter:
    """A value in the shortest form that holds it."""
    full = np.broadcast_to(values, shape).reshape(shape[0] if shape else 1, -1)
    if (full == full.flat[0]).all():
        return Parameter((int(full.flat[0]),), "one")
    if full.shape[1] > 1 and (full == full[:, :1]).all():
        return Parameter(tuple(int(x) for x in full[:, 0]), "row")
    return Parameter(tuple(int(x) for x in full.reshape(-1)), "each")
