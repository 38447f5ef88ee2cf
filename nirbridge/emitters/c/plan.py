"""A C program as data: the widths of its integers, the histories of its sources, and the parameters of its neurons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.program.interval import Interval, first_values, fits, intervals
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import traced_step
from nirbridge.program.step import StepProgram, step_program
from nirbridge.program.terms import Stepped, in_order, is_truth
from nirbridge.quantization.model import FixedPopulation, IntegerOperator, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, prove

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
    """One current: what an operator makes of its source's values ``delays`` time steps ago, times 2 to ``weight_exp``.

    ``kind`` is the type of its sums.
    """

    id: str
    source: Source
    operator: IntegerOperator
    delays: Array
    weight_exp: int
    kind: str

    @property
    def even(self) -> int:
        """All weights are multiples of 2 to this power, and are stored without it (those of mixed signs are even)."""
        weights = weights_of(self.operator)
        bits = int(np.bitwise_or.reduce(np.abs(weights), axis=None)) if weights.size else 0
        return (bits & -bits).bit_length() - 1 if bits else 0

    @property
    def exponent(self) -> int:
        """Power of 2 of a stored weight."""
        return self.even + max(0, self.weight_exp)

    @property
    def delay(self) -> int | None:
        """The delay in time steps where it is the same for all sources."""
        return None if self.delays.ndim else int(self.delays)


@dataclass(frozen=True, slots=True)
class Neurons:
    """A population and the parameters of its neurons.

    ``step``: one time step; ``values``: the proved least and greatest of each of its terms, by ``id``; ``kind``: their
    type. ``kept``: the types of the state that a time step reads, by name. Sums are in units of ``2 ** exponent``.
    """

    population: FixedPopulation
    source: Source
    into: tuple[Synapses, ...]
    step: Stepped
    values: Mapping[int, Interval]
    kept: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    kind: str
    is_shown: bool

    @property
    def id(self) -> str:
        """Its name in the program."""
        return self.source.id

    @property
    def rows(self) -> int:
        """Rows of ``row`` neurons each that share values; 1 where no value is one per row."""
        has_rows = any(x.level == "row" for x in self.parameters.values())
        return self.population.shape[0] if has_rows else 1

    @property
    def row(self) -> int:
        """Neurons of a row."""
        return self.source.size // self.rows

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
        return s.weight_exp < 0 or s.kind != self.kind

    @property
    def traced(self) -> list[str]:
        """The variables that no time step reads: only traced builds have them."""
        return [name for name in self.step.variables if name not in self.kept]


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
    program, bounds = step_program(quantized), prove(quantized)
    sent = {p.name: (-p.value_max if p.graded else 0, p.value_max) for p in quantized.inputs}
    steps, values = {}, {}
    for p in quantized.populations:
        steps[p.name] = step = in_halves(traced_step(p.neuron))
        values[p.name] = intervals(step, first_values(p.neuron, bounds[p.name].a_in))
        sent[p.name] = values[p.name][id(step.sent)]
        if p.neuron.fires and sent[p.name][0] < 0:
            found = "several spikes in a time step, and a threshold below 0"
            limit, hint = "C has no negative spikes", "raise its threshold"
            raise ModelError.of(f"population {quoted(p.name)}", found, limit, hint)
    sources, neurons = _sources(quantized, program, sent), []
    read, carried = {r.source for r in quantized.reads}, program.carried
    for p in quantized.populations:
        kind, step = "int32_t" if fits(values[p.name], 32) else "int64_t", steps[p.name]
        into = _synapses(program.populations[p.name], sources, sent, kind)
        kept = _kept(step, [v for v in step.state if (p.name, v) in carried], kind)
        first = {f"{v}_init": _parameter(program.initial[p.name, v], p.shape) for v in kept}
        found = step, values[p.name], kept, _parameters(p.shape, step) | first
        neurons.append(Neurons(p, sources[p.name], into, *found, kind, p.name in read))
    return CPlan(quantized, tuple(sources[p.name] for p in quantized.inputs), tuple(neurons))


def _sources(quantized: QuantizedNetwork, program: StepProgram, sent: Mapping[str, Interval]) -> dict[str, Source]:
    """Inputs and populations by name; the reads of the host remember nothing here."""
    depths: dict[str, int] = {}
    for term in in_order([end for step in program.populations.values() for end in step.ends]):
        if term.op == "past":
            name, longest = term.value.key[0], int(term.value.delays.max())
            depths[name] = max(depths.get(name, 0), longest)

    def source(id: str, p: Any, is_binary: bool) -> Source:
        depth = depths.get(p.name, 0)
        kind = "uint32_t" if is_binary else integer_type(np.array(sent[p.name]))
        return Source(id, math.prod(p.shape), is_binary, 1 << depth.bit_length() if depth else 0, kind)

    found = {p.name: source(f"in{k}", p, not p.graded) for k, p in enumerate(quantized.inputs)}
    for k, p in enumerate(quantized.populations):
        found[p.name] = source(f"p{k}", p, is_truth(program.populations[p.name].sent))
    return found


def _synapses(
    step: Stepped, sources: Mapping[str, Source], sent: Mapping[str, Interval], kind: str
) -> tuple[Synapses, ...]:
    """The currents of a population, in the order in which they are added; those without weights add nothing."""
    terms, found = list(in_order(step.ends)), []
    last = {term.name: term for term in terms}
    for term in terms:
        if term.op == "linear" and weights_of(term.value).any():  # C has no arrays of no elements
            past, current = term.args[0].value, last[term.name]
            shift = 0 if current is term else int(current.args[1].value) * (1 if current.op == "shl" else -1)
            is_wide = kind == "int64_t" or _sums(term.value, shift, sent[past.key[0]]) > INT32_MAX
            own = "int64_t" if is_wide else "int32_t"
            found.append(Synapses(f"s{term.name[1:]}", sources[past.key[0]], term.value, past.delays, shift, own))
    return tuple(found)


def _sums(operator: IntegerOperator, shift: int, sent: Interval) -> int:
    """The largest sum of a projection before its shift to the right, and of the values that are added up in it."""
    low, high = operator_bounds(operator, OutputRange(*sent))
    one = int(np.abs(weights_of(operator)).max(initial=0)) << max(0, shift)
    return max(int(-low.min(initial=0)), int(high.max(initial=0)), one * max(map(abs, sent)))


def _kept(step: Stepped, names: Sequence[str], kind: str) -> dict[str, str]:
    """The C types of a state."""
    counts = [t.value.max() for t in in_order(step.ends) if t.op == "param" and t.kind == "count"]
    types = {"int": kind, "count": "int16_t" if max(counts, default=0) < 1 << 15 else "int32_t"}
    return {name: types[step.state[name].kind] for name in names}


def _parameters(shape: Shape, step: Stepped) -> dict[str, Parameter]:
    """The coefficients that a time step reads."""
    last = {"int": None, "count": INT32_MAX}  # no run has more time steps
    read = {t.name: np.clip(t.value, None, last[t.kind]) for t in in_order(step.ends) if t.op == "param"}
    return {name: _parameter(values, shape) for name, values in read.items()}


def _parameter(values: Array, shape: Shape) -> Parameter:
    """A value in the shortest form that holds it."""
    full = np.broadcast_to(values, shape).reshape(shape[0] if shape else 1, -1)
    if (full == full.flat[0]).all():
        return Parameter((int(full.flat[0]),), "one")
    if full.shape[1] > 1 and (full == full[:, :1]).all():
        return Parameter(tuple(int(x) for x in full[:, 0]), "row")
    return Parameter(tuple(int(x) for x in full.reshape(-1)), "each")
