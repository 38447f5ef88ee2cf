"""The plan of a C program: widths that hold every sum, histories as long as the longest delay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.c.plan import INPUT_SHIFT, CPlan, Neurons, Parameter, Source, Synapses, integer_type
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.quantization.model import AccumulatorBounds, FixedPopulation, FixedProjection, QuantizedNetwork
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
    wide = {p.name: _is_wide(p, bounds[p.name]) for p in quantized.populations}
    synapses: dict[str, list[Synapses]] = {p.name: [] for p in quantized.populations}
    for k, projection in enumerate(quantized.projections):
        if weights_of(projection.operator).any():  # else it adds nothing, and C has no arrays of no elements
            kind = "int64_t" if wide[projection.target] or _sums(projection, sent) > INT32_MAX else "int32_t"
            own_sum = projection.weight_exp < 0
            synapses[projection.target].append(Synapses(f"s{k}", sources[projection.source], projection, kind, own_sum))
    read = {r.source for r in quantized.reads}
    neurons = tuple(
        _neurons(p, sources[p.name], tuple(synapses[p.name]), wide[p.name], p.name in read)
        for p in quantized.populations
    )
    return CPlan(quantized, tuple(sources[p.name] for p in quantized.inputs), neurons)


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


def _is_wide(p: FixedPopulation, bounds: AccumulatorBounds) -> bool:
    """True where a sum of a time step of the neuron may not fit 32 bits."""
    n, drive = p.neuron, max(map(abs, bounds.a_in)) << INPUT_SHIFT
    current = (1 << n.u_bits) + drive
    if drive > 1 << n.u_bits:  # a larger drive takes the current out of its register for good
        current += max(map(abs, bounds.u))
    potential = (1 << (n.v_bits - 1)) + current + int(np.abs(n.bias).max(initial=0))
    values = [n.fires_above, n.reset_amount, n.spike_size, n.v_min, n.v_init, n.u_init]
    largest = max((int(np.abs(x).max(initial=0)) for x in values if x is not None), default=0)
    amount = n.max_spikes * int(np.abs(n.reset_amount).max(initial=0))
    return max(current, potential + amount, largest) > INT32_MAX


def _sums(projection: FixedProjection, sent: Mapping[str, OutputRange]) -> int:
    """The largest sum of a projection before its shift to the right, and of the values that are added up in it."""
    low, high = operator_bounds(projection.operator, sent[projection.source])
    one = int(np.abs(weights_of(projection.operator)).max(initial=0)) << max(0, projection.weight_exp)
    one *= max(abs(sent[projection.source].low), abs(sent[projection.source].high))
    return max(int(-low.min(initial=0)), int(high.max(initial=0)), one)


def _neurons(p: FixedPopulation, source: Source, into: tuple[Synapses, ...], wide: bool, shown: bool) -> Neurons:
    n = p.neuron
    if n.fires_above is not None and n.max_spikes > 1 and int(np.min(n.fires_above)) < -1:
        found = "several spikes in a time step, and a threshold below 0"
        raise ModelError.of(f"population {quoted(p.name)}", found, "C divides towards zero", "raise its threshold")
    values = {"keep_u": 4095 - n.du, "keep_v": 4096 - n.dv, "bias": n.bias, "u_init": n.u_init, "v_init": n.v_init}
    if n.fires_above is not None:
        values |= {"above": n.fires_above, "hold": n.refractory_steps}
        values |= {"amount": n.reset_amount} if n.reset == "subtract" else {}
        values |= {"size": np.maximum(n.spike_size, 1)} if n.max_spikes > 1 else {}
    if n.v_min is not None and n.fires_above is not None:
        values |= {"floor": n.v_min}
    parameters = {key: _parameter(np.asarray(x), p.shape) for key, x in values.items()}
    by_row = any(x.level == "row" for x in parameters.values())
    rows = p.shape[0] if by_row else 1
    kind = "int64_t" if wide else "int32_t"
    return Neurons(source.id, p, source, into, parameters, rows, p.size // rows, kind, shown)


def _parameter(values: Array, shape: Shape) -> Parameter:
    """A value in the shortest form that holds it."""
    full = np.broadcast_to(values, shape).reshape(shape[0] if shape else 1, -1)
    if (full == full.flat[0]).all():
        return Parameter((int(full.flat[0]),), "one")
    if full.shape[1] > 1 and (full == full[:, :1]).all():
        return Parameter(tuple(int(x) for x in full[:, 0]), "row")
    return Parameter(tuple(int(x) for x in full.reshape(-1)), "each")
