"""Constant tables of a C program as text, each in the narrowest type that holds its values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.c.plan import CPlan, Neurons, Synapses, integer_type
from nirbridge.network.operators import Conv, Dense, Sparse

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
    words = [_literal(int(x)) + "," for x in values]
    lines, line = [], "   "
    for word in words:
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = "   "
        line += " " + word
    return "\n".join([*lines, line.rstrip(",")])


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
        if parameter.level != "one":
            values = np.array(parameter.values, np.int64)
            note = "one per row" if parameter.level == "row" else "one per neuron"
            yield Table(f"{neurons.id}_{name}", integer_type(values), values, f"{note} of {neurons.id}")


def _of_synapses(synapses: Synapses) -> Iterator[Table]:
    name, operator = synapses.id, synapses.operator
    if synapses.delay is None:
        delays = synapses.delays.reshape(-1)
        yield Table(f"{name}_delay", integer_type(delays, signed=False), delays, "time steps, one per source")
    if not isinstance(operator, Dense | Conv):
        starts, targets, _ = by_source(operator)
        yield Table(f"{name}_start", integer_type(starts, signed=False), starts, "first synapse of each source")
        yield Table(f"{name}_target", integer_type(targets, signed=False), targets)
    yield weights_table(synapses)


def weights_table(synapses: Synapses) -> Table:
    """The weights in the order in which a spike needs them."""
    operator = synapses.operator
    if isinstance(operator, Dense):
        return _weights(synapses, operator.weight.T, "[source][target]")
    if isinstance(operator, Conv):
        order = "[input channel][row][column][output channel of the group]"
        return _weights(synapses, by_input_channel(operator), order)
    return _weights(synapses, by_source(operator)[2], "")


def _weights(synapses: Synapses, values: Array, note: str) -> Table:
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
