"""C functions of projections, the spikes of a source added to the sums of their targets, and constant tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.c.plan import FLOAT, CPlan, Neurons, Parameter, Source, Summed, Synapses, integer_type, single
from nirbridge.network.operators import Conv, Dense, Identity, Scale, Sparse, SumPool

GROUP = 8
"""Spikes whose rows of a matrix are added at once: each sum is then loaded and stored once for all of them."""
GROUPED_TARGETS = 128
"""Targets from which on a matrix is worth it (measured: 1,000 targets in 0.66 of the time, 64 in 1.03)."""


def sent_text(source: Source, delay: str = "") -> str:
    """What a source sent in this time step, or a delay before."""
    if source.slots == 1:
        return f"m->{source.id}_sent[0]"
    step = f"(m->step - {delay})" if delay else "m->step"
    return f"m->{source.id}_sent[{step} & {source.slots - 1}u]"


def synapse_functions(n: Summed, s: Synapses) -> Iterator[str]:
    """The functions of a projection into ``n``.

    ``NAME_event`` adds one spike, ``NAME_events`` of a matrix ``GROUP`` of them, ``NAME_add`` all spikes that arrive.
    """
    scale = 1 << (s.exponent - n.exponent)
    yield f"/* {_title(s)} */"
    yield from _event(s, scale)
    yield ""
    if is_grouped(s):
        yield from _events(s, scale)
        yield ""
    yield from _add(s)
    yield ""


def _title(s: Synapses) -> str:
    operator: Any = s.operator
    kinds = {Dense: "dense", Sparse: "sparse", Conv: "convolution", SumPool: "pool", Scale: "factors"}
    kind = kinds.get(type(operator), "copy")
    after = f"{s.delay} time step{'s' if s.delay != 1 else ''}" if s.delay is not None else "a delay per source"
    sources, targets = math.prod(operator.input_shape), math.prod(operator.output_shape)
    times = "" if s.kind == FLOAT else f", times 2 to the {s.weight_exp}"
    return f"{s.id}: {kind}, {sources} -> {targets}, after {after}{times}"


def _event(s: Synapses, scale: int) -> Iterator[str]:
    value = "" if s.source.is_binary else f", {s.value_type} value"
    operator = s.operator
    apart = "NB_APART " * (isinstance(operator, Conv | SumPool) and not is_partition(operator))
    yield f"static {apart}void {s.id}_event({s.kind} *sums, uint32_t source{value})"
    yield "{"
    if isinstance(operator, Dense):
        yield from _dense(s, scale, operator.weight.shape[0])
    elif isinstance(operator, SumPool) and is_partition(operator):
        yield from _pool(s, operator)
    elif isinstance(operator, Conv | SumPool):
        yield from _conv(s, scale, operator)
    elif isinstance(operator, Identity | Scale):
        weight = "1.0f" if isinstance(operator, Identity) else f"{s.id}_weight[source]"
        yield f"    {_plus(s, 'sums[source]', _term(s, scale, weight))}"
    else:
        yield from _sparse(s, scale)
    yield "}"


def _plus(s: Synapses, place: str, term: str) -> str:
    """A statement that adds to a sum; operators of C widen narrow types to int."""
    if s.kind == s.value_type:
        return f"{place} += {term};"
    return f"{place} = ({s.kind})({place} + {f'({term})' if ' * ' in term else term});"


def _term(s: Synapses, scale: int, weight: str) -> str:
    """One stored weight in units of the sums, times the value that was sent."""
    if weight in ("1", "1.0f") and scale == 1:
        return weight if s.source.is_binary else "value"
    factors = [*([] if s.source.is_binary else ["value"]), *([str(scale)] if scale > 1 else [])]
    if not factors:
        return weight
    cast = "" if s.kind == FLOAT else f"({s.value_type})"
    return f"{cast}{weight} * {' * '.join(factors)}"


def _dense(s: Synapses, scale: int, targets: int) -> Iterator[str]:
    yield f"    const uint32_t first = source * {targets}u;"
    yield f"    for (uint32_t i = 0; i < {targets}u; ++i)"
    yield f"        {_plus(s, 'sums[i]', _term(s, scale, f'{s.id}_weight[first + i]'))}"


def is_grouped(s: Synapses) -> bool:
    """True for a matrix of many targets whose source sends spikes that arrive together."""
    operator = s.operator
    is_wide = isinstance(operator, Dense) and operator.weight.shape[0] >= GROUPED_TARGETS
    return is_wide and s.source.is_binary and s.delay is not None and s.source.size >= GROUP


def _events(s: Synapses, scale: int) -> Iterator[str]:
    """Sums of weights, of 9 bits at most, stay narrow until they are added: compilers take vectors of 16 bits."""
    operator: Any = s.operator
    targets, kind = operator.output_shape[0], weights_table(s).type
    total = " + ".join(f"row{k}[i]" for k in range(GROUP))
    if scale > 1:
        total = f"({s.value_type})({total}) * {scale}"
    # reals are added one after the other
    add = f"sums[i] = sums[i] + {total};" if kind == FLOAT else _plus(s, "sums[i]", total)
    yield f"static void {s.id}_events({s.kind} *restrict sums, const uint32_t *sources)"
    yield "{"
    for k in range(GROUP):
        yield f"    const {kind} *const row{k} = {s.id}_weight + (sources[{k}] * {targets}u);"
    yield ""
    yield f"    for (uint32_t i = 0; i < {targets}u; ++i)"
    yield f"        {add}"
    yield "}"


def _sparse(s: Synapses, scale: int) -> Iterator[str]:
    yield f"    for (uint32_t k = {s.id}_start[source]; k < {s.id}_start[source + 1u]; ++k)"
    yield f"        {_plus(s, f'sums[{s.id}_target[k]]', _term(s, scale, f'{s.id}_weight[k]'))}"


def is_partition(pool: Conv | SumPool) -> bool:
    """True for a pool where each source is in one window at most, without a border."""
    return isinstance(pool, SumPool) and pool.stride == pool.kernel and not np.any(pool.padding)


def _pool(s: Synapses, pool: SumPool) -> Iterator[str]:
    """The one window of a source; what is left at the ends of rows and columns is in none."""
    flat = len(pool.kernel) == 1
    height, width = (1, *pool.input_shape[1:]) if flat else pool.input_shape[1:]
    rows, columns = (1, *pool.output_shape[1:]) if flat else pool.output_shape[1:]
    down, along = (1, *pool.kernel) if flat else pool.kernel
    yield f"    const uint32_t y = source / {width}u % {height}u / {down}u;"
    yield f"    const uint32_t x = source % {width}u / {along}u;"
    place = f"((((source / {height * width}u) * {rows}u) + y) * {columns}u) + x"
    inside = "    "
    if height % down or width % along:
        yield f"    if ((y < {rows}u) && (x < {columns}u))"
        inside = "        "
    one = "value" if not s.source.is_binary else "1.0f" if s.kind == FLOAT else "1"
    yield f"{inside}{_plus(s, f'sums[{place}]', one)}"


def _conv(s: Synapses, scale: int, conv: Conv | SumPool) -> Iterator[str]:
    """Every tap of the kernel that leads from this pixel to one of the targets."""
    lengths = (conv.input_shape[1:], conv.output_shape[1:], conv.kernel, conv.stride, conv.dilation)
    (height, width), (rows, columns), kernel, strides, dilations = ((1, *x)[-2:] for x in lengths)
    (top, _), (left, _) = ((0, 0), *conv.padding)[-2:]
    channels, groups = conv.input_shape[0], conv.groups if isinstance(conv, Conv) else conv.input_shape[0]
    fan_out, plane, target, weight = conv.output_shape[0] // groups, rows * columns, "sums", "1.0f"
    yield f"    const uint32_t channel = source / {height * width}u;"
    if groups > 1:
        target = "first"
        yield f"    {s.kind} *const first = &sums[channel / {channels // groups}u * {fan_out * plane}u];"
    for name, place, padding in (("y", f"source / {width}u % {height}u", top), ("x", f"source % {width}u", left)):
        yield f"    const uint32_t {name}_sent = {place};"
        yield f"    const int32_t {name} = (int32_t){name}_sent{f' + {padding}' * bool(padding)};"
    yield from ("    " + line for line in _taps("a", "y", "down", kernel[0], rows, strides[0], dilations[0]))
    yield from ("        " + line for line in _taps("b", "x", "along", kernel[1], columns, strides[1], dilations[1]))
    if isinstance(conv, Conv):
        weight = f"{s.id}_weight[tap + c]"
        tap = f"(((channel * {kernel[0]}u) + (uint32_t)a) * {kernel[1]}u) + (uint32_t)b"
        yield f"            const uint32_t tap = ({tap}) * {fan_out}u;"
    place = f"({_index('down', strides[0])} * {columns}u) + {_index('along', strides[1])}"
    yield f"            {s.kind} *const to = &{target}[{place}];"
    yield f"            for (uint32_t c = 0; c < {fan_out}u; ++c)"
    yield f"                {_plus(s, f'to[c * {plane}u]', _term(s, scale, weight))}"


def _taps(tap: str, start: str, at: str, count: int, size: int, stride: int, dilation: int) -> Iterator[str]:
    """The loop over the taps of an axis; without dilation those that lead to a target are a stride apart."""
    first, step, off = "0", f"++{tap}", ""
    if stride > 1 and dilation == 1:
        first, step = f"{start} % {stride}", f"{tap} += {stride}"
    elif stride > 1:
        off = f" || (({at} % {stride}) != 0)"
    yield f"for (int32_t {tap} = {first}; {tap} < {count}; {step})"
    yield f"    const int32_t {at} = {start} - {tap if dilation == 1 else f'({tap} * {dilation})'};"
    yield f"    if (({at} < 0) || ({at} >= {size * stride}){off})"
    yield "        continue;"


def _index(name: str, stride: int) -> str:
    return f"(uint32_t){name}" if stride == 1 else f"((uint32_t){name} / {stride}u)"


def _add(s: Synapses) -> Iterator[str]:
    yield f"static void {s.id}_add(const nb_model *m, {s.kind} *sums)"
    yield "{"
    source, sent = s.source, sent_text(s.source, f"{s.delay}u" if s.delay else "")
    if s.delay is None:
        yield from _add_by_delays(s)
    elif is_grouped(s):
        yield from _add_in_groups(s, sent)
    elif source.is_binary:
        yield f"    const uint32_t *const spikes = {sent};"
        yield f"    for (uint32_t w = 0; w < {source.words}u; ++w)"
        yield "        for (uint32_t left = spikes[w]; left != 0u; left &= left - 1u)"
        yield f"            {s.id}_event(sums, (32u * w) + nb_lowest(left));"
    else:
        yield f"    const {source.type} *const sent = {sent};"
        yield f"    for (uint32_t i = 0; i < {source.size}u; ++i)"
        yield f"        if ({differs(source, 'sent[i]')})"
        yield f"            {s.id}_event(sums, i, {_as_kind(s, 'sent[i]')});"
    yield "}"


def differs(source: Source, value: str) -> str:
    """True for a value other than 0; nothing else compares reals for being equal."""
    return f"({value} < 0.0f) || ({value} > 0.0f)" if source.type == FLOAT else f"{value} != 0"


def _add_in_groups(s: Synapses, sent: str) -> Iterator[str]:
    yield f"    const uint32_t *const spikes = {sent};"
    yield f"    uint32_t sources[{GROUP}];"
    yield "    uint32_t count = 0;"
    yield ""
    yield f"    for (uint32_t w = 0; w < {s.source.words}u; ++w)"
    yield "        for (uint32_t left = spikes[w]; left != 0u; left &= left - 1u)"
    yield "            sources[count] = (32u * w) + nb_lowest(left);"
    yield "            ++count;"
    yield f"            if (count == {GROUP}u)"
    yield f"                {s.id}_events(sums, sources);"
    yield "                count = 0;"
    yield "    for (uint32_t k = 0; k < count; ++k)"
    yield f"        {s.id}_event(sums, sources[k]);"


def _add_by_delays(s: Synapses) -> Iterator[str]:
    source = s.source
    yield f"    for (uint32_t i = 0; i < {source.size}u; ++i)"
    sent = sent_text(source, f"{s.id}_delay[i]")
    if source.is_binary:
        yield f"        const uint32_t *const spikes = {sent};"
        yield "        if (((spikes[i / 32u] >> (i % 32u)) & 1u) != 0u)"
        yield f"            {s.id}_event(sums, i);"
    else:
        yield f"        const {source.type} value = {sent}[i];"
        yield f"        if ({differs(source, 'value')})"
        yield f"            {s.id}_event(sums, i, {_as_kind(s, 'value')});"


def _as_kind(s: Synapses, text: str) -> str:
    return text if s.source.type == s.value_type else f"({s.value_type}){text}"


# -- tables --------------------------------------------------------------------------------------------------------
# Constant tables of a C program as text, each in the narrowest type that holds its values.

WIDTH = 112
BYTES = {
    "int8_t": 1,
    "uint8_t": 1,
    "int16_t": 2,
    "uint16_t": 2,
    "int32_t": 4,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
    FLOAT: 4,
}


@dataclass(frozen=True, slots=True)
class Table:
    """A constant array of a C program: its name, the type of its values, and the values, flat."""

    name: str
    type: str
    values: Array
    note: str = ""

    @property
    def bytes(self) -> int:
        """Its size in the program."""
        return BYTES[self.type] * self.values.size

    def text(self) -> str:
        """The definition, lines of at most ``WIDTH`` characters."""
        head = f"/* {self.note} */\n" if self.note else ""
        return f"{head}static const {self.type} {self.name}[{self.values.size}] = {{\n{_lines(self.values)}\n}};\n"


def _lines(values: Array) -> str:
    words = [(float_text(x) if values.dtype.kind == "f" else _literal(int(x))) + "," for x in values]
    lines, line = [], "   "
    for word in words:
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = "   "
        line += " " + word
    return "\n".join([*lines, line.rstrip(",")])


def float_text(value: float) -> str:
    """A constant in float32, in the fewest digits that name it; ``INFINITY`` is of ``math.h``."""
    number = single(value)[()]
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number}f"


def _literal(value: int) -> str:
    """A constant without a suffix fits; the least 32-bit and wider integers need care in C."""
    if value > 2**31 - 1 or value < -(2**31 - 1):
        return f"INT64_C({value})" if value > -(2**63) else "(-INT64_C(9223372036854775807) - 1)"
    return str(value)


def tables(plan: CPlan) -> Iterator[Table]:
    """All tables of a program, those of the neurons first."""
    for neurons in plan.neurons:
        yield from _of_neurons(neurons)
    for synapses in plan.synapses:
        yield from _of_synapses(synapses)


def _of_neurons(neurons: Neurons) -> Iterator[Table]:
    for name, parameter in neurons.parameters.items():
        yield from _of_parameter(f"{neurons.id}_{name}", parameter, neurons.id)


def _of_parameter(name: str, parameter: Parameter, of: str) -> Iterator[Table]:
    if parameter.level != "one":
        values = single(parameter.values) if parameter.type == FLOAT else np.array(parameter.values, np.int64)
        note = "one per row" if parameter.level == "row" else "one per neuron"
        yield Table(name, _type_of(values), values, f"{note} of {of}")


def _type_of(values: Array) -> str:
    return FLOAT if values.dtype.kind == "f" else integer_type(values)


def _of_synapses(synapses: Synapses) -> Iterator[Table]:
    name, operator = synapses.id, synapses.operator
    if synapses.delay is None:
        delays = synapses.delays.reshape(-1)
        yield Table(f"{name}_delay", integer_type(delays, signed=False), delays, "time steps, one per source")
    if synapses.late is not None:
        late = synapses.late.reshape(-1)
        yield Table(f"{name}_later", integer_type(late, signed=False), late, "time steps, one per target")
    if synapses.bias is not None:
        yield from _of_parameter(f"{name}_bias", synapses.bias, f"the targets of {name}")
    if isinstance(operator, Sparse):
        starts, targets, _ = by_source(operator)
        yield Table(f"{name}_start", integer_type(starts, signed=False), starts, "first synapse of each source")
        yield Table(f"{name}_target", integer_type(targets, signed=False), targets)
    if operator is not None and not isinstance(operator, Identity | SumPool):
        yield weights_table(synapses)


def weights_table(synapses: Synapses) -> Table:
    """The weights in the order in which a spike needs them."""
    operator = synapses.operator
    if isinstance(operator, Dense):
        return _weights(synapses, operator.weight.T, "[source][target]")
    if isinstance(operator, Conv):
        order = "[input channel][row][column][output channel of the group]"
        return _weights(synapses, by_input_channel(operator), order)
    if isinstance(operator, Scale):
        return _weights(synapses, operator.scale, "one per source")
    assert isinstance(operator, Sparse)
    return _weights(synapses, by_source(operator)[2], "")


def _weights(synapses: Synapses, values: Array, note: str) -> Table:
    if synapses.kind == FLOAT:
        return Table(f"{synapses.id}_weight", FLOAT, single(values).reshape(-1), note)
    flat = np.ascontiguousarray(values).reshape(-1) >> synapses.even
    unit = f"in units of {1 << synapses.exponent}"
    return Table(f"{synapses.id}_weight", integer_type(flat), flat, ", ".join(filter(None, (note, unit))))


def by_input_channel(conv: Conv) -> Array:
    """The kernels as ``[cin, height, width, cout // groups]``: all targets of a tap lie side by side."""
    kernel = conv.kernel if len(conv.kernel) == 2 else (1, *conv.kernel)
    cout, fan = conv.weight.shape[:2]
    weight = conv.weight.reshape(conv.groups, cout // conv.groups, fan, *kernel)
    return weight.transpose(0, 2, 3, 4, 1).reshape(conv.groups * fan, *kernel, cout // conv.groups)


def by_source(sparse: Sparse) -> tuple[Array, Array, Array]:
    """(start, target, weight) by columns: the synapses of a source lie side by side, in the order of their targets."""
    rows = np.repeat(np.arange(len(sparse.indptr) - 1), np.diff(sparse.indptr))
    order = np.argsort(sparse.indices, kind="stable")
    counts = np.bincount(sparse.indices, minlength=int(np.prod(sparse.input_shape)))
    return np.concatenate(([0], np.cumsum(counts))), rows[order], sparse.data[order]
