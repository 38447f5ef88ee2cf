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
from nirbridge.program.interval import Interval, first_values, fits, intervals
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Stepped, in_order
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, output_ranges, prove

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
    ``step``: one time step; ``values``: the proved least and greatest of each of its terms, by ``id``.
    """

    id: str
    population: FixedPopulation
    source: Source
    into: tuple[Synapses, ...]
    step: Stepped
    values: Mapping[int, Interval]
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
        return any(term.name == "state.u" for term in in_order(self.step.ends))

    @property
    def refractory_type(self) -> str:
        """The C type of the time steps that are left of a refractory period."""
        return "int16_t" if max(self.parameters["refractory_steps"].values) < 1 << 15 else "int32_t"


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


def integer_type(values: Array, *, signed: bool = True) -> str:
    """The narrowest of C's integer types that holds all values."""
    low, high = int(np.min(values, initial=0)), int(np.max(values, initial=0))
    for bits in (8, 16, 32, 64):
        if signed and -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return f"int{bits}_t"
        if not signed and low >= 0 and high < 1 << bits:
            return f"uint{bits}_t"
    raise ModelError.of("network", f"an integer of {max(abs(low), high):,}", "C's widest integers have 64 bits")


# -- planning ------------------------------------------------------------------------------------------------------
# The plan of a C program: widths that hold every sum, histories as long as the longest delay.

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
