"""A C program as data: the widths of its integers, the histories of its sources, and the parameters of its neurons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, output_ranges, prove

INPUT_SHIFT = 6
WEIGHTS_MAX = 20_000_000
"""More stored weights than this are no text for a compiler (about 80 MB of source)."""
INT32_MAX = 2**31 - 1
Level = Literal["one", "row", "each"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of the neurons: one for all, one per row (the first axis of the population), or one for each."""

    values: tuple[int, ...]
    level: Level

    @property
    def one(self) -> int | None:
        """The value where it is the same for all neurons."""
        return self.values[0] if self.level == "one" else None


@dataclass(frozen=True, slots=True)
class Source:
    """An input or a population as the sender of spikes.

    ``slots`` time steps of its output are kept, a power of two above the longest delay; 0: nothing reads it.
    ``type`` is the C type of one value; of spikes, 0 and 1, the words of 32 bits that hold one bit each.
    """

    id: str
    size: int
    is_binary: bool
    slots: int
    type: str

    @property
    def words(self) -> int:
        """Words of 32 bits for one time step of spikes."""
        return -(-self.size // 32)


@dataclass(frozen=True, slots=True)
class Synapses:
    """One projection; ``kind`` is the type of its sums, ``own_sum`` where they are shifted to the right at the end."""

    id: str
    source: Source
    projection: FixedProjection
    kind: str
    own_sum: bool

    @property
    def even(self) -> int:
        """All weights are multiples of 2 to this power, and are stored without it (those of mixed signs are even)."""
        weights = weights_of(self.projection.operator)
        bits = int(np.bitwise_or.reduce(np.abs(weights), axis=None)) if weights.size else 0
        return (bits & -bits).bit_length() - 1 if bits else 0

    @property
    def exponent(self) -> int:
        """Power of 2 of a stored weight."""
        return self.even + max(0, self.projection.weight_exp)

    @property
    def delay(self) -> int | None:
        """The delay in time steps where it is the same for all sources."""
        delays = np.unique(self.projection.delay_steps)
        return int(delays[0]) if len(delays) == 1 else None


@dataclass(frozen=True, slots=True)
class Neurons:
    """A population and the parameters of its neurons.

    It has ``rows`` times ``row`` neurons; ``kind`` is the type of their state. Sums are in units of ``2 ** exponent``.
    """

    id: str
    population: FixedPopulation
    source: Source
    into: tuple[Synapses, ...]
    parameters: Mapping[str, Parameter]
    rows: int
    row: int
    kind: str
    is_shown: bool

    @property
    def out_type(self) -> str:
        """The C type of one value of the population in the outputs of the program."""
        return "uint8_t" if self.source.is_binary else self.source.type

    @property
    def exponent(self) -> int:
        """The power of 2 that all sums have."""
        return min((s.exponent for s in self.into if not self.has_own_sum(s)), default=0) * (not self.has_parts)

    @property
    def has_parts(self) -> bool:
        """True where a projection has sums of its own."""
        return any(self.has_own_sum(s) for s in self.into)

    def has_own_sum(self, s: Synapses) -> bool:
        """True for a projection that is shifted to the right at the end, or needs wider sums."""
        return s.own_sum or s.kind != self.kind

    @property
    def keeps_current(self) -> bool:
        """False where the current has no memory, so that no state holds it."""
        return any(keep > 0 for keep in self.parameters["keep_u"].values)

    @property
    def rests(self) -> bool:
        """True where neurons have a refractory period."""
        return self.population.neuron.fires and max(self.parameters["hold"].values) > 0


@dataclass(frozen=True, slots=True)
class CPlan:
    """A whole program."""

    quantized: QuantizedNetwork
    inputs: tuple[Source, ...]
    neurons: tuple[Neurons, ...]

    @property
    def shown(self) -> tuple[Neurons, ...]:
        """The populations that outputs read."""
        return tuple(n for n in self.neurons if n.is_shown)

    @property
    def synapses(self) -> tuple[Synapses, ...]:
        """All projections, by their targets."""
        return tuple(s for n in self.neurons for s in n.into)


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
    depths = _depths(quantized)
    sent = output_ranges(quantized.populations, _input_ranges(quantized))
    inputs = {
        p.name: _source(f"in{k}", p.shape, depths[p.name], not p.graded, sent[p.name])
        for k, p in enumerate(quantized.inputs)
    }
    bounds = prove(quantized)
    wide = {p.name: _is_wide(p, max(map(abs, bounds[p.name].a_in))) for p in quantized.populations}
    sources = dict(inputs)
    for k, p in enumerate(quantized.populations):
        last = (1 << (p.neuron.v_bits - 1)) - 1
        reach = sent[p.name] if p.neuron.fires else OutputRange(-last, last)
        binary = p.neuron.fires and p.neuron.max_spikes == 1
        sources[p.name] = _source(f"p{k}", p.shape, depths[p.name], binary, reach)
    synapses: dict[str, list[Synapses]] = {p.name: [] for p in quantized.populations}
    for k, projection in enumerate(quantized.projections):
        kind = "int64_t" if wide[projection.target] or _sums(projection, sent) > INT32_MAX else "int32_t"
        synapses[projection.target].append(
            Synapses(f"s{k}", sources[projection.source], projection, kind, projection.weight_exp < 0)
        )
    read = {r.source for r in quantized.reads}
    neurons = tuple(
        _neurons(p, sources[p.name], tuple(synapses[p.name]), wide[p.name], p.name in read)
        for p in quantized.populations
    )
    return CPlan(quantized, tuple(inputs.values()), neurons)


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


def _is_wide(p: FixedPopulation, reach: int) -> bool:
    """True where a sum of a time step of the neuron may not fit 32 bits."""
    n = p.neuron
    current = (1 << n.u_bits) + (reach << INPUT_SHIFT)
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


def integer_type(values: Array, *, signed: bool = True) -> str:
    """The narrowest of C's integer types that holds all values."""
    low, high = int(np.min(values, initial=0)), int(np.max(values, initial=0))
    for bits in (8, 16, 32, 64):
        if signed and -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return f"int{bits}_t"
        if not signed and low >= 0 and high < 1 << bits:
            return f"uint{bits}_t"
    raise ModelError.of("network", f"an integer of {max(abs(low), high):,}", "C's widest integers have 64 bits")
