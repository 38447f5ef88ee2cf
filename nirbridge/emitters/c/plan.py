"""A C program as data: the types of its numbers, the histories of its sources, and the parameters of its neurons."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact
from nirbridge.emitters.c.outputs import direct_outputs
from nirbridge.emitters.c.pools import pool_apart
from nirbridge.emitters.c.timing import causal_names, first_states, without_hops
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.network.compose import part_weights, parts_of
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network, Population
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Sparse, SumPool
from nirbridge.program.interval import Bounds, Interval, first_values, fits, intervals
from nirbridge.program.rewrites import decided, in_halves, lowest_terms, rewritten
from nirbridge.program.rules import traced_step
from nirbridge.program.step import StepProgram, step_program
from nirbridge.program.terms import Stepped, in_order, is_truth
from nirbridge.quantization.model import FixedPopulation, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, prove

Level = Literal["one", "row", "each"]
FLOAT = "float"
"""The C type of real numbers."""


def single(values: object) -> Array:
    """Values in float32; those beyond its range are infinite, as in a run of the reference."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def suffix(kind: str) -> str:
    """What names of functions and sums of a C type end with: its bits, or f."""
    return "f" if kind == FLOAT else kind.removeprefix("int").removesuffix("_t")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of the neurons: one for all, one per row (the first axis of the population), or one for each."""

    values: tuple[float, ...]
    level: Level
    type: str

    @property
    def one(self) -> float | None:
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

    ``kind`` is the type of its sums. Reals have a ``factor`` of a pool, a ``bias`` and delays of targets (``late``),
    applied in this order but for the bias, which comes last; without an ``operator`` the bias is all.
    ``before``: earlier parts of a chain, whose sums are sources of the next.
    """

    id: str
    source: Source
    operator: Operator | None
    delays: Array
    weight_exp: int
    kind: str
    factor: float = 1.0
    bias: Parameter | None = None
    late: Array | None = None
    before: tuple[Sums, ...] = ()

    @property
    def late_slots(self) -> int:
        """Time steps of its sums that are kept for delays of targets, a power of two."""
        return 0 if self.late is None else 1 << int(self.late.max()).bit_length()

    @property
    def is_plain(self) -> bool:
        """True where its spikes may be added to the sums of others."""
        return self.factor == 1.0 and self.bias is None and self.late is None and self.weight_exp >= 0

    @property
    def even(self) -> int:
        """All weights are multiples of 2 to this power, and are stored without it (those of mixed signs are even)."""
        if not isinstance(self.operator, Dense | Sparse | Conv) or self.kind == FLOAT:
            return 0
        weights = weights_of(self.operator)
        bits = int(np.bitwise_or.reduce(np.abs(weights), axis=None)) if weights.size else 0
        return (bits & -bits).bit_length() - 1 if bits else 0

    @property
    def value_type(self) -> str:
        """The C type of a value that it multiplies: no product is narrower than 32 bits."""
        return "int32_t" if self.kind in ("int8_t", "int16_t") else self.kind

    @property
    def exponent(self) -> int:
        """Power of 2 of a stored weight."""
        return self.even + max(0, self.weight_exp)

    @property
    def delay(self) -> int | None:
        """The delay in time steps where it is the same for all sources."""
        return None if self.delays.ndim else int(self.delays)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums that no neuron takes: of an output, and of a pool or another part of a chain, which the next part reads.

    ``name``: of the output.
    """

    source: Source
    into: tuple[Synapses, ...]
    name: str = ""

    @property
    def id(self) -> str:
        """Its name in the program."""
        return self.source.id

    @property
    def sums(self) -> str:
        """The type of its sums."""
        return self.source.type

    @property
    def exponent(self) -> int:
        """The power of 2 that all sums have."""
        return 0


@dataclass(frozen=True, slots=True)
class Neurons:
    """A population and the parameters of its neurons.

    ``step``: one time step; ``values``: the proved least and greatest of each of its terms, by ``id``; ``kind``: their
    type. ``kept``: the types of the state that a time step reads, by name. ``sums``: the type of its sums, which are in
    units of ``2 ** exponent``.
    """

    population: FixedPopulation | Population
    source: Source
    into: tuple[Synapses, ...]
    step: Stepped
    values: Mapping[int, Interval]
    kept: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    kind: str
    sums: str
    is_shown: bool

    @property
    def id(self) -> str:
        """Its name in the program."""
        return self.source.id

    @property
    def name(self) -> str:
        """That of the population."""
        return self.population.name

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
        return min((s.exponent for s in self.into if not has_own_sum(self, s)), default=0) * (not self.has_parts)

    @property
    def has_parts(self) -> bool:
        """True where a projection has sums of its own."""
        return any(has_own_sum(self, s) for s in self.into)

    @property
    def traced(self) -> list[str]:
        """The variables that no time step reads: only traced builds have them."""
        return [name for name in self.step.variables if name not in self.kept]


Summed = Neurons | Sums
"""What projections lead to."""


def has_own_sum(target: Summed, s: Synapses) -> bool:
    """True for a projection whose sums are changed at the end or wider; of reals, for all but the first, in order."""
    return not s.is_plain or s.kind != target.sums or (s.kind == FLOAT and s is not target.into[0])


@dataclass(frozen=True, slots=True)
class CPlan:
    """A whole program: ``neurons`` in the order of a time step, and the outputs that are sums of their own."""

    model: Network | QuantizedNetwork
    inputs: tuple[Source, ...]
    neurons: tuple[Neurons, ...]
    outputs: tuple[Sums, ...] = ()

    @property
    def quantized(self) -> QuantizedNetwork:
        """The network in integers."""
        assert isinstance(self.model, QuantizedNetwork)
        return self.model

    @property
    def is_real(self) -> bool:
        """True for a program in float32."""
        return isinstance(self.model, Network)

    @property
    def shown(self) -> tuple[Neurons, ...]:
        """The populations that outputs read, in the order of the network."""
        return tuple(sorted((n for n in self.neurons if n.is_shown), key=lambda n: int(n.id[1:])))

    @property
    def targets(self) -> Iterator[Summed]:
        """Whatever projections lead to, in the order in which a time step computes it."""
        for target in (*self.neurons, *self.outputs):
            yield from (part for s in target.into for part in s.before)
            yield target

    @property
    def synapses(self) -> tuple[Synapses, ...]:
        """All projections and parts of them, by their targets."""
        return tuple(s for target in self.targets for s in target.into)


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


def c_plan(model: Network | QuantizedNetwork, *, hops: bool = True) -> CPlan:
    """The plan of a quantized network in its integers, or of a network in float32, which has no ``hops``.

    Raises:
        ModelError: more weights than a compiler can be given as text; see ``timing.py``.
    """
    if isinstance(model, Network):
        return real_plan(in_causal_order(model))
    quantized = model if hops else without_hops(model)
    _check_count(weights_of(p.operator).size for p in quantized.projections)
    program, bounds = step_program(model), prove(model)
    initial = program.initial if hops else {**program.initial, **first_states(model)}
    sent = {p.name: (-p.value_max if p.graded else 0, p.value_max) for p in quantized.inputs}
    steps, values = {}, {}
    for p in quantized.populations:
        steps[p.name], values[p.name] = _narrow(traced_step(p.neuron), first_values(p.neuron, bounds[p.name].a_in))
        step = steps[p.name]
        sent[p.name] = values[p.name][id(step.sent)]
        if p.neuron.fires and sent[p.name][0] < 0:
            found = "several spikes in a time step, and a threshold below 0"
            limit, hint = "C has no negative spikes", "raise its threshold"
            raise ModelError.of(f"population {quoted(p.name)}", found, limit, hint)
    sources, neurons = _sources(quantized, program, lambda name: integer_type(np.array(sent[name]))), []
    read, carried = {r.source for r in quantized.reads}, program.carried
    for p in _in_order(program.populations if hops else causal_names(quantized), quantized.populations):
        kind, step = "int32_t" if fits(values[p.name], 32) else "int64_t", steps[p.name]
        into = tuple(_synapses(quantized, p.name, sources, sent, kind))
        kept = _kept(step, [v for v in step.state if (p.name, v) in carried], kind)
        first = {f"{v}_init": _parameter(initial[p.name, v], p.shape, kind) for v in kept}
        found = step, values[p.name], kept, _parameters(p.shape, step, kind) | first
        n = Neurons(p, sources[p.name], into, *found, kind, kind, p.name in read)
        neurons.append(_with_narrow_sums(n, bounds[p.name].a_in))
    return CPlan(quantized, tuple(sources[p.name] for p in quantized.inputs), tuple(neurons))


def _with_narrow_sums(n: Neurons, a_in: Interval) -> Neurons:
    """Sums of 16 bits where ``a_in``, which bounds the sum of any of its inputs, fits."""
    if n.has_parts or max(-a_in[0], a_in[1]) >> n.exponent >= 1 << 15:
        return n
    return replace(n, sums="int16_t", into=tuple(replace(s, kind="int16_t") for s in n.into))


def _narrow(step: Stepped, args: Bounds) -> tuple[Stepped, dict[int, Interval]]:
    """A time step without choices that are always the same, and its values: in 32 bits where it can be."""
    step = lowest_terms(step)
    for form in (step, in_halves(step)):
        found = decided(form, intervals(form, args))
        values = intervals(found, args)
        if fits(values, 32):
            break
    return found, values


def _check_count(sizes: Iterable[int]) -> None:
    count = sum(sizes)
    if count > WEIGHTS_MAX:
        limit = f"a C program holds {WEIGHTS_MAX:,} at most"
        raise ModelError.of(
            "network", counted(count, "stored weight"), limit, "emit a part of the network, or use Lava"
        )


def _in_order(names: Iterable[str], populations: Sequence[Any]) -> list[Any]:
    """The populations in the order in which a time step computes them."""
    by_name = {p.name: p for p in populations}
    return [by_name[name] for name in names]


def _sources(
    model: Any, program: StepProgram, type_of: Callable[[str], str], copied: Collection[str] = ()
) -> dict[str, Source]:
    """Inputs and populations by name; the reads of the host and of the outputs ``copied`` remember nothing here."""
    depths: dict[str, int] = {}
    for p in (p for p in model.projections if p.target not in copied):
        depths[p.source] = max(depths.get(p.source, 0), int(np.max(p.delay_steps)))

    def source(id: str, p: Any, is_binary: bool) -> Source:
        kind = "uint32_t" if is_binary else type_of(p.name)
        return Source(id, math.prod(p.shape), is_binary, _slots(depths.get(p.name)), kind)

    is_real = isinstance(model, Network)
    found = {p.name: source(f"in{k}", p, not (is_real or p.graded)) for k, p in enumerate(model.inputs)}
    for k, p in enumerate(model.populations):
        found[p.name] = source(f"p{k}", p, is_truth(program.populations[p.name].sent))
    return found


def _slots(depth: int | None) -> int:
    """Time steps that are kept for delays of up to ``depth``; None: nothing reads them."""
    return 0 if depth is None else 1 << depth.bit_length()


def _synapses(
    model: QuantizedNetwork, target: str, sources: Mapping[str, Source], sent: Mapping[str, Interval], kind: str
) -> Iterator[Synapses]:
    """The currents of a population, in the order in which they are added; those without weights add nothing."""
    shapes = {x.name: x.shape for x in (*model.inputs, *model.populations)}
    for k, p in enumerate(model.projections):
        if p.target == target and weights_of(p.operator).any():  # C has no arrays of no elements
            is_wide = kind == "int64_t" or _largest(p.operator, p.weight_exp, sent[p.source]) > INT32_MAX
            own = "int64_t" if is_wide else "int32_t"
            s = Synapses(f"s{k}", sources[p.source], p.operator, compact(p.delay_steps), p.weight_exp, own)
            yield _pooled(s, shapes[p.source], sent[p.source])


def _pooled(s: Synapses, shape: Shape, sent: Interval) -> Synapses:
    """A projection that reads the sums of a pool, where its weights are those of one."""
    if (found := pool_apart(s.operator, shape)) is None:
        return s
    pool, rest = found
    most = np.array(sent) * math.prod(pool.kernel)
    sums = Source(f"{s.id}_0", math.prod(pool.output_shape), False, 1, integer_type(most))
    before = Synapses(sums.id, s.source, pool, s.delays, 0, sums.type)
    nothing = np.asarray(np.int64(0))
    return replace(s, source=sums, operator=rest, delays=nothing, before=(Sums(sums, (before,)),))


def _largest(operator: Any, shift: int, sent: Interval) -> int:
    """The largest sum of a projection before its shift to the right, and of the values that are added up in it."""
    low, high = operator_bounds(operator, OutputRange(*sent))
    one = int(np.abs(weights_of(operator)).max(initial=0)) << max(0, shift)
    return max(int(-low.min(initial=0)), int(high.max(initial=0)), one * max(map(abs, sent)))


def _kept(step: Stepped, names: Sequence[str], kind: str) -> dict[str, str]:
    """The C types of a state."""
    counts = [t.value.max() for t in in_order(step.ends) if t.op == "param" and t.kind == "count"]
    count = "int16_t" if max(counts, default=0) < 1 << 15 else "int32_t"
    return {name: count if step.state[name].kind == "count" else kind for name in names}


def _parameters(shape: Shape, step: Stepped, kind: str) -> dict[str, Parameter]:
    """The coefficients that a time step reads; no run has more time steps than a count holds."""
    types = {"count": "int32_t" if kind == FLOAT else kind}
    read = {t.name: t for t in in_order(step.ends) if t.op == "param"}
    clipped = {name: np.minimum(t.value, INT32_MAX) if t.kind == "count" else t.value for name, t in read.items()}
    return {name: _parameter(clipped[name], shape, types.get(t.kind, kind)) for name, t in read.items()}


def _parameter(values: Array, shape: Shape, kind: str) -> Parameter:
    """A value in the shortest form that holds it."""
    typed = single(values) if kind == FLOAT else np.asarray(values, np.int64)
    full = np.broadcast_to(typed, shape).reshape(shape[0] if shape else 1, -1)
    if (full == full.flat[0]).all():
        return Parameter((full.flat[0].item(),), "one", kind)
    if full.shape[1] > 1 and (full == full[:, :1]).all():
        return Parameter(tuple(full[:, 0].tolist()), "row", kind)
    return Parameter(tuple(full.reshape(-1).tolist()), "each", kind)


# -- reals ---------------------------------------------------------------------------------------------------------
# A network in float32 with the delays of its own. Sums keep the order of the reference: sources in ascending order,
# each projection by itself, part by part, then its bias, then the projections in their order.


def real_plan(network: Network) -> CPlan:
    """The plan of a network in causal order."""
    parts = [part for p in network.projections for part in parts_of(p.operator)]
    _check_count(w.size for part in parts if (w := part_weights(part)) is not None)
    program, neurons = step_program(network), []
    carried, direct = program.carried, direct_outputs(network)
    sources = _sources(network, program, lambda name: FLOAT, direct)
    for p in _in_order(program.populations, network.populations):
        step = rewritten(traced_step(p.neuron), lambda t: replace(t, name="current") if t.name == "i" else t)
        kept = _kept(step, [v for v in step.state if (p.name, v) in carried], FLOAT)
        first = {f"{v}_init": _parameter(program.initial[p.name, v], p.shape, _type_of(v)) for v in kept}
        found = step, {}, kept, _parameters(p.shape, step, FLOAT) | first
        into = tuple(_real_synapses(network, p.name, sources))
        neurons.append(Neurons(p, sources[p.name], into, *found, FLOAT, FLOAT, p.name in direct.values()))
    outputs = tuple(
        Sums(Source(f"out{k}", math.prod(p.shape), False, 0, FLOAT), tuple(_real_synapses(network, p.name, sources)),
             p.name)
        for k, p in enumerate(network.outputs) if p.name not in direct
    )  # fmt: skip
    return CPlan(network, tuple(sources[p.name] for p in network.inputs), tuple(neurons), outputs)


def _type_of(state: str) -> str:
    return "int32_t" if state == "refractory" else FLOAT


def _real_synapses(network: Network, target: str, sources: Mapping[str, Source]) -> Iterator[Synapses]:
    """The currents of a population or an output, in the order in which they are added."""
    for k, p in enumerate(network.projections):
        if p.target != target:
            continue
        shape = p.operator.output_shape
        bias = None if p.bias is None else _parameter(p.bias, shape, FLOAT)
        late = np.broadcast_to(p.target_delay_steps, shape) if np.any(p.target_delay_steps) else None
        current = _chained(f"s{k}", p, sources[p.source])
        if current.operator is not None or bias is not None:
            yield replace(current, bias=bias, late=None if current.operator is None else late)


def _chained(id: str, p: Any, source: Source) -> Synapses:
    """A projection without its bias: the parts of a chain one after the other, without an operator where one is 0."""
    parts = [x for x in parts_of(p.operator) if not isinstance(x, Identity | Reshape)]
    parts = parts or [Identity(p.operator.input_shape)]
    nothing = np.asarray(np.int64(0))
    if not all(w is None or single(w).any() for w in map(part_weights, parts)):
        return Synapses(id, source, None, nothing, 0, FLOAT)
    before: list[Sums] = []
    delays = compact(np.asarray(p.delay_steps))
    for j, part in enumerate(parts):
        name = id if j == len(parts) - 1 else f"{id}_{j}"
        factor = part.factor if isinstance(part, SumPool) else 1.0
        s = Synapses(name, source, part, delays, 0, FLOAT, factor)
        source, delays = Source(name, math.prod(part.output_shape), False, 1, FLOAT), nothing
        before.append(Sums(source, (s,)))
    return replace(before.pop().into[0], before=tuple(before))
