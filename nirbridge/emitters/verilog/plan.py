"""A circuit as data: cores, the words of their memories, what a spike adds where, and the streams between them.

A population is a core. Its neurons stand in words of ``lanes`` neurons, place by place (rows, columns), the channels of
a place side by side; a population without places has one, and its neurons are channels. A token of a stream names a
neuron as {row, column, channel}, each a field of its own; an end token closes a time step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.verilog.neuron import NeuronModule, neuron_module
from nirbridge.emitters.verilog.operations import signed_bits
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.apply import matrix, synapse_bound
from nirbridge.network.operators import Conv
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange, operator_bounds, sent_ranges, total_input_range

LANES_MAX, WEIGHTS_MAX = 1024, 2**22
"""Wider words, and more stored weights, fit no board and are slow to read for every tool."""
DENSE_SHARE = 0.6
"""Rows of a table are stored whole where at least this share of their words holds a weight that is not 0."""


def index_bits(count: int) -> int:
    """Bits of a number below ``count``; at least 1."""
    return max(1, (count - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Layout:
    """Neurons or elements at ``rows`` x ``columns`` places of ``channels``, in words of ``lanes`` channels."""

    channels: int
    rows: int = 1
    columns: int = 1
    lanes: int = 1

    @property
    def words_of_place(self) -> int:
        """Words of the channels of one place."""
        return -(-self.channels // self.lanes)

    @property
    def words(self) -> int:
        """Words of all."""
        return self.rows * self.columns * self.words_of_place

    @property
    def fields(self) -> tuple[int, int, int]:
        """Bits of row, column and channel in the index of a token; a row or column that is the only one has none."""
        row, column = (0 if n == 1 else index_bits(n) for n in (self.rows, self.columns))
        return row, column, index_bits(self.channels)

    @property
    def bits(self) -> int:
        """Bits of an index."""
        return sum(self.fields)

    @property
    def indices(self) -> Array:
        """The index in tokens of each element in the order of the network: ``[size]``."""
        c, y, x = np.indices((self.channels, self.rows, self.columns)).reshape(3, -1)
        _, columns, channel = self.fields
        return (y << (columns + channel)) + (x << channel) + c

    @property
    def places(self) -> tuple[Array, Array]:
        """(word, lane) of each element in the order of the network: ``[size]`` each."""
        c, y, x = np.indices((self.channels, self.rows, self.columns)).reshape(3, -1)
        return (y * self.columns + x) * self.words_of_place + c // self.lanes, c % self.lanes

    def packed(self, values: Array) -> Array:
        """Values of elements in the order of the network as ``[words, lanes]``; 0 where a lane has no element."""
        word, lane = self.places
        found = np.zeros((self.words, self.lanes), np.int64)
        found[word, lane] = np.asarray(values).reshape(-1)
        return found


def layout_of(shape: Shape, lanes: int, *, has_places: bool) -> Layout:
    """The layout of a shape; ``has_places``: a convolution reads or writes it."""
    if has_places and len(shape) in (2, 3):
        rows, columns = shape[1:] if len(shape) == 3 else (1, shape[1])
        return Layout(shape[0], rows, columns, min(lanes, shape[0]))
    size = math.prod(shape)
    return Layout(size, lanes=min(lanes, size))


@dataclass(frozen=True, slots=True)
class Stream:
    """The tokens of an input or a population; ``value``: (least, greatest) of what they carry, (1, 1) of spikes."""

    id: str
    name: str
    shape: Shape
    layout: Layout
    value: tuple[int, int]

    @property
    def value_bits(self) -> int:
        """Bits of the value of a token, 0 of spikes."""
        return 0 if self.value == (1, 1) else signed_bits(self.value)

    @property
    def bits(self) -> int:
        """Bits of a token: last, index, value."""
        return 1 + self.layout.bits + self.value_bits


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows of weights, one for each source and delay.

    ``weights``: ``[entries, lanes]``. ``start``, ``count``: of the entries of a source, by its index in tokens; None
    where each has all words in order. ``words``: the word of sums of each entry, None in that case. ``delays``: by
    index, None where all are the same.
    """

    weights: Array
    start: Array | None = None
    count: Array | None = None
    words: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A convolution: the kernel once, and where the hits of a row, a column and a channel of the source begin.

    ``weights``: ``[channels x kernel rows x kernel columns x words, lanes]``. ``rows``, ``columns``: ``[n, 3]`` of
    hits, first kernel address, first word; ``channels``: ``[n, 2]`` of kernel address and word. The next hit of a row
    is ``row_steps`` = (kernel addresses, words) on and back, that of a column ``column_steps``. ``words``: of a hit.
    """

    weights: Array
    rows: Array
    columns: Array
    channels: Array
    row_steps: tuple[int, int]
    column_steps: tuple[int, int]
    words: int


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """What the tokens of a source add to the sums of a core: hits of words of weights.

    ``group``: of the sums; ``shift``: places that a stored weight is shifted by when it is added; ``delay``: in time
    steps, of all, or by index in tokens. ``fifo``: bits of the number of tokens that the link holds.
    """

    id: str
    source: Stream
    form: Table | Window
    delay: int | Array
    group: int
    shift: int
    fifo: int

    @property
    def most_hits(self) -> int:
        """The most hits of a token."""
        if isinstance(self.form, Window):
            return int(self.form.rows[:, 0].max()) * int(self.form.columns[:, 0].max()) * self.form.words
        if self.form.count is not None:
            return int(self.form.count.max())
        return len(self.form.weights) // (int(self.source.layout.indices.max(initial=0)) + 1)

    @property
    def weight_bits(self) -> int:
        """Bits of a stored weight."""
        return signed_bits((int(self.form.weights.min(initial=0)), int(self.form.weights.max(initial=0))))


@dataclass(frozen=True, slots=True)
class Sums:
    """A memory of sums: bits of one, and the power of 2 that the rule takes them times (below 0: it shifts right)."""

    bits: int
    exponent: int


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """A population as a circuit.

    ``slots``: time steps of sums that wait (1 where all delays are 1). ``neurons``: those that are computed side by
    side; words of sums have a multiple of them.
    """

    stream: Stream
    population: FixedPopulation
    neuron: NeuronModule
    walks: tuple[Walk, ...]
    sums: tuple[Sums, ...]
    slots: int
    is_shown: bool
    neurons: int

    @property
    def parts(self) -> int:
        """Steps in which the neurons of a word are computed, ``neurons`` of them in one."""
        return self.stream.layout.lanes // self.neurons

    @property
    def steps(self) -> int:
        """Steps in which all neurons are computed."""
        return self.stream.layout.words * self.parts

    @property
    def id(self) -> str:
        """Of its module."""
        return self.stream.id


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    """A whole network."""

    quantized: QuantizedNetwork
    inputs: tuple[Stream, ...]
    cores: tuple[Core, ...]

    @property
    def outputs(self) -> tuple[Core, ...]:
        """Cores whose streams leave the circuit."""
        return tuple(c for c in self.cores if c.is_shown)


# -- planning ------------------------------------------------------------------------------------------------------


Lanes = Mapping[str, tuple[int, int]]
"""By population: sums of a word, and neurons that are computed side by side, of which a word has a multiple."""


def circuit(quantized: QuantizedNetwork, lanes: Lanes, known: Circuit | None = None) -> Circuit:
    """The circuit of a quantized network; ``known``: one of other lanes, whose neurons are the same.

    Raises:
        ModelError: what a circuit cannot hold: every problem.
    """
    ModelError.raise_all(_refused(quantized))
    modules = {c.population.name: c.neuron for c in known.cores} if known else {}
    return _Planner(quantized, lanes, modules).circuit()


def _refused(quantized: QuantizedNetwork) -> Iterator[Diagnostic]:
    for noun, found in (("inputs", quantized.inputs), ("populations", quantized.populations)):
        if not found:
            yield Diagnostic("network", f"no {noun}", "a circuit takes tokens and computes neurons", "use --to c")
    shapes = _shapes(quantized)
    count = sum(
        weights_of(p.operator).size if _is_window(p, shapes) else synapse_bound(p.operator)
        for p in quantized.projections
    )
    if count > WEIGHTS_MAX:
        limit, hint = f"a circuit holds {WEIGHTS_MAX:,} at most", "emit a part of the network, or use --to c"
        yield Diagnostic("network", counted(count, "stored weight"), limit, hint)
    for p in quantized.projections:
        if int(p.delay_steps.min(initial=1)) + int(p.target_delay_steps.min(initial=0)) < 1:
            subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
            hint = "quantize for a chip whose spikes arrive one time step later, such as loihi2"
            yield Diagnostic(subject, "a delay of 0", "a spike arrives after 1 time step or later", hint)


def _shapes(quantized: QuantizedNetwork) -> dict[str, Shape]:
    return {x.name: tuple(x.shape) for x in (*quantized.inputs, *quantized.populations)}


def _is_window(p: FixedProjection, shapes: Mapping[str, Shape]) -> bool:
    """True for a convolution between the shapes of its ends, one delay for all; others become matrices."""
    op = p.operator
    uniform = not np.ptp(p.delay_steps) and not np.ptp(p.target_delay_steps)
    same = (tuple(op.input_shape), tuple(op.output_shape)) == (shapes[p.source], shapes[p.target])
    return isinstance(op, Conv) and uniform and same


class _Planner:
    """Builds the circuit: streams first, since walks need both of their ends."""

    def __init__(self, quantized: QuantizedNetwork, lanes: Lanes, modules: Mapping[str, NeuronModule]) -> None:
        self.q, self.lanes, self.neurons = quantized, lanes, dict(modules)
        self.streams: dict[str, Stream] = {}
        self.into: dict[str, list[FixedProjection]] = {p.name: [] for p in quantized.populations}
        for p in quantized.projections:
            if operator_bounds(p.operator, OutputRange(-1, 1))[1].any():  # else no weight, or none that hits a sum
                self.into[p.target].append(p)
        self.shapes = _shapes(quantized)
        conv = [p for into in self.into.values() for p in into if _is_window(p, self.shapes)]
        self.spatial = {p.source for p in conv} | {p.target for p in conv}
        for k, port in enumerate(quantized.inputs):
            value = (-port.value_max, port.value_max) if port.graded else (1, 1)
            layout = layout_of(self.shapes[port.name], 1, has_places=port.name in self.spatial)
            self.streams[port.name] = Stream(f"in{k}", port.name, self.shapes[port.name], layout, value)
        self.ranges = {s.name: OutputRange(min(0, s.value[0]), s.value[1]) for s in self.streams.values()}
        self._populations()

    def _populations(self) -> None:
        """Streams and neurons; what a population sends is known from its rule and its largest input."""
        sent = sent_ranges(self.q)
        for k, p in enumerate(self.q.populations):
            if p.name not in self.neurons:
                low, high = total_input_range(self.into[p.name], sent, p.size)
                drive = int(low.min(initial=0)), int(high.max(initial=0))
                self.neurons[p.name] = neuron_module(f"p{k}_neuron", p, drive)
            module = self.neurons[p.name]
            layout = layout_of(self.shapes[p.name], self.lanes[p.name][0], has_places=p.name in self.spatial)
            bits = module.sent.bits
            value = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if module.sent.signed else (0, (1 << bits) - 1)
            self.streams[p.name] = Stream(
                f"p{k}", p.name, self.shapes[p.name], layout, (1, 1) if value == (0, 1) else value
            )
            least, most = (0, p.neuron.max_spikes) if p.neuron.fires else module.intervals.get("state.v", value)
            self.ranges[p.name] = OutputRange(min(0, least), max(0, most))

    def circuit(self) -> Circuit:
        """All cores, their walks numbered in the order of the cores."""
        looped, shown = self._loops(), _reaching(self.q, self.into, {r.source for r in self.q.reads})
        cores: list[Core] = []
        for p in self.q.populations:
            groups, walks = _groups(self.into[p.name]), list[Walk]()
            first = sum(len(c.walks) for c in cores)
            for group, projections in enumerate(groups):
                least = min(_power(q, even) for q, even in projections)
                for projection, even in projections:
                    source, shift = self.streams[projection.source], _power(projection, even) - least
                    held = index_bits(3 + math.prod(source.shape) * looped(projection))
                    for form, delay in self._forms(projection, even):
                        walks.append(Walk(f"s{first + len(walks)}", source, form, delay, group, shift, held))
            sums = tuple(self._sums(projections) for projections in groups)
            longest = max((int(np.max(w.delay)) for w in walks), default=1)
            slots, ends = 1 << (longest - 1).bit_length(), (self.streams[p.name], p, self.neurons[p.name])
            side = math.gcd(ends[0].layout.lanes, self.lanes[p.name][1])
            cores.append(Core(*ends, tuple(walks), sums, slots, p.name in shown, side))
        return Circuit(self.q, tuple(self.streams[p.name] for p in self.q.inputs), tuple(cores))

    def _sums(self, projections: Sequence[tuple[FixedProjection, int]]) -> Sums:
        """The memory of a group: as wide as every sum on the way, in units of its power of 2."""
        least = min(_power(p, even) for p, even in projections)
        total: list[Array] = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
        for p, _ in projections:
            ends = operator_bounds(p.operator, self.ranges[p.source])
            scale = max(0, p.weight_exp) - least
            total = [t + (x << scale if scale >= 0 else x >> -scale) for t, x in zip(total, ends, strict=True)]
        bits = signed_bits((int(total[0].min(initial=0)), int(total[1].max(initial=0))))
        return Sums(bits, least + min(0, *(p.weight_exp for p, _ in projections)))

    def _loops(self) -> Callable[[FixedProjection], bool]:
        """Whether both ends of a projection are on one cycle: then the link holds a whole time step."""
        names = {p.name: k for k, p in enumerate(self.q.populations)}
        edges = [(names[p.source], names[t]) for t, into in self.into.items() for p in into if p.source in names]
        if not edges:
            return lambda p: False
        a, b = np.array(edges).T
        graph = coo_array((np.ones(len(a)), (a, b)), shape=(len(names), len(names)))
        _, part = connected_components(graph, connection="strong")
        return lambda p: p.source in names and bool(part[names[p.source]] == part[names[p.target]])

    def _forms(self, p: FixedProjection, even: int) -> list[tuple[Table | Window, int | Array]]:
        """The walks of a projection, one for each delay of targets."""
        source, target = self.streams[p.source].layout, self.streams[p.target].layout
        late, early = np.asarray(p.target_delay_steps), np.asarray(p.delay_steps)
        if isinstance(p.operator, Conv) and _is_window(p, self.shapes):
            return [(_window(p.operator, even, source, target), int(early.flat[0]) + int(late.flat[0]))]
        rows = matrix(p.operator)
        found: list[tuple[Table | Window, int | Array]] = []
        targets = np.broadcast_to(late, self.shapes[p.target]).reshape(-1)
        for more in np.unique(targets).tolist():
            kept = rows if not np.ptp(targets) else _only(rows, targets == more)
            if not kept.data.any():
                continue
            delay: int | Array = int(early.flat[0]) + more
            if np.ptp(early):
                delay = np.ones(1 << source.bits, np.int64)
                delay[source.indices] = np.broadcast_to(early, self.shapes[p.source]).reshape(-1) + more
            is_one = isinstance(delay, int)  # else a list of each source says its own
            found.append((_table(kept, even, source, target, can_be_whole=is_one), delay))
        return found


def _power(p: FixedProjection, even: int) -> int:
    """Power of 2 of a stored weight."""
    return even + max(0, p.weight_exp)


def _even(p: FixedProjection) -> int:
    """All weights are multiples of 2 to this power."""
    bits = int(np.bitwise_or.reduce(np.abs(weights_of(p.operator)), axis=None))
    return (bits & -bits).bit_length() - 1


def _groups(projections: Sequence[FixedProjection]) -> list[list[tuple[FixedProjection, int]]]:
    """Projections that share sums: all but those that are shifted to the right at the end."""
    known = [(p, _even(p)) for p in projections]
    shared = [x for x in known if x[0].weight_exp >= 0]
    return ([shared] if shared else []) + [[x] for x in known if x[0].weight_exp < 0]


def _reaching(quantized: QuantizedNetwork, into: Mapping[str, Sequence[FixedProjection]], read: set[str]) -> set[str]:
    """Populations whose streams leave the circuit: those that are read, and what else leads nowhere."""
    after: dict[str, set[str]] = {p.name: set() for p in quantized.populations}
    for target, projections in into.items():
        for source in {p.source for p in projections} & set(after):
            after[source].add(target)
    shown = {p.name for p in quantized.populations if p.name in read}
    for p in reversed(quantized.populations):
        reached, stack = {p.name}, [p.name]
        while stack:
            new = after[stack.pop()] - reached
            reached |= new
            stack += new
        if not reached & shown:
            shown.add(p.name)
    return shown


def _only(rows: csr_array, kept: Array) -> csr_array:
    """Other rows without weights."""
    found = rows.copy()
    found.data = np.where(np.repeat(kept, np.diff(rows.indptr)), rows.data, 0)
    return found


def _table(rows: csr_array, even: int, source: Layout, target: Layout, *, can_be_whole: bool) -> Table:
    """The table of a matrix ``[post, pre]``."""
    entries = rows.tocoo()
    used = entries.data != 0
    word, lane = (x[entries.coords[0][used]] for x in target.places)
    index = source.indices[entries.coords[1][used]]
    values = entries.data[used].astype(np.int64) >> even
    keys = index * target.words + word
    held, at = np.unique(keys, return_inverse=True)
    sources = 1 << source.bits
    if can_be_whole and len(held) >= DENSE_SHARE * len(source.indices) * target.words:
        weights = np.zeros((sources * target.words, target.lanes), np.int64)
        np.add.at(weights, (keys, lane), values)
        last = int(source.indices.max(initial=0)) + 1
        return Table(weights[: last * target.words])
    weights = np.zeros((len(held), target.lanes), np.int64)
    np.add.at(weights, (at, lane), values)
    count = np.bincount(held // target.words, minlength=sources)
    return Table(weights, np.cumsum(count) - count, count, held % target.words)


def _window(op: Conv, even: int, source: Layout, target: Layout) -> Window:
    """The kernel in words, and the hits of every row, column and channel."""
    two = len(op.kernel) == 2
    kernel, stride, dilation = ((1, *x)[-2:] for x in (op.kernel, op.stride, op.dilation))
    padding = op.padding if two else ((0, 0), *op.padding)
    out, per_group = target.channels, op.weight.shape[1]
    each = out // op.groups
    first = np.arange(source.channels) // per_group * each // target.lanes
    last = (np.arange(source.channels) // per_group * each + each - 1) // target.lanes
    words = int((last - first).max(initial=0)) + 1
    first = np.minimum(first, target.words_of_place - words)
    weights = np.zeros((source.channels, kernel[0] * kernel[1], words * target.lanes), np.int64)
    flat = np.asarray(op.weight, np.int64).reshape(out, per_group, -1) >> even
    for c in range(source.channels):
        own = np.arange(c // per_group * each, c // per_group * each + each)
        weights[c][:, own - first[c] * target.lanes] = flat[own, c % per_group].T
    taps = kernel[0] * kernel[1] * words
    channels = np.stack([np.arange(source.channels) * taps, first], axis=1)
    row, step_row = _hits(source.rows, target.rows, kernel[0], stride[0], padding[0][0], dilation[0])
    column, step_column = _hits(source.columns, target.columns, kernel[1], stride[1], padding[1][0], dilation[1])
    down, across = (kernel[1] * words, target.columns * target.words_of_place), (words, target.words_of_place)
    return Window(
        weights.reshape(-1, target.lanes), row * (1, *down), column * (1, *across), channels,
        (step_row[0] * down[0], step_row[1] * down[1]), (step_column[0] * across[0], step_column[1] * across[1]), words,
    )  # fmt: skip


def _hits(size: int, out: int, kernel: int, stride: int, before: int, dilation: int) -> tuple[Array, tuple[int, int]]:
    """By position of the source: (hits, first tap, first target), and (taps on, targets back) to the next hit."""
    shared = math.gcd(stride, dilation)
    step = (stride // shared, dilation // shared)
    found = np.zeros((size, 3), np.int64)
    for y in range(size):
        taps = [
            (k, (y + before - k * dilation) // stride)
            for k in range(kernel)
            if (y + before - k * dilation) % stride == 0 and 0 <= (y + before - k * dilation) // stride < out
        ]
        found[y] = (len(taps), *(taps[0] if taps else (0, 0)))
    return found, step
