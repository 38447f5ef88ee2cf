"""A C program as data: the widths of its integers, the histories of its sources, and the parameters of its neurons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.program.interval import Interval
from nirbridge.program.terms import Stepped, in_order
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of

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
