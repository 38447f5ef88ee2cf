"""Streams as numbers: the tokens of arrays, in files and in what a simulation prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.verilog.neuron import Field
from nirbridge.emitters.verilog.plan import Core, Layout, Stream


def token_lines(s: Stream, values: Array, *, more: int = 0) -> Iterator[str]:
    """The tokens of whole numbers ``[steps, *shape]`` as lines; ``more``: empty time steps after them."""
    order = np.argsort(s.layout.indices, kind="stable")
    index, shift = s.layout.indices[order], s.value_bits
    end, mask = f"{1 << (s.bits - 1):x}\n", (1 << shift) - 1
    for step in np.asarray(values, np.int64).reshape(len(values), -1)[:, order]:
        for k in np.flatnonzero(step).tolist():
            yield f"{(int(index[k]) << shift) | (int(step[k]) & mask):x}\n"
        yield end
    yield from (end for _ in range(more))


def mark(s: Stream) -> str:
    """The line that ends a sample: one bit above those of a token."""
    return f"{1 << s.bits:x}\n"


def traced(core: Core, lines: Sequence[str], steps: int) -> dict[str, Array]:
    """The variables of a core from the words that a simulation prints: ``[steps, neurons]`` in the network's order.

    Raises ValueError where words are missing.
    """
    layout, n = core.stream.layout, core.neuron
    count = steps * core.steps
    if len(lines) < count:
        raise ValueError(f"{core.id} computed {len(lines)} of {count} steps")
    fields = [*n.variables, n.sent]
    bits = _bits(lines[:count], core.neurons * sum(f.bits for f in fields))
    by_lane = bits.reshape(count, core.neurons, -1)
    found, first = {}, 0
    for f in fields:
        name = "s" if f is n.sent else f.name.removeprefix("value_")
        found[name] = _ordered(layout, _number(by_lane[:, :, first : first + f.bits], f), steps)
        first += f.bits
    return found


def _bits(lines: Sequence[str], bits: int) -> Array:
    """Words in hexadecimal digits as bits ``[words, bits]``, the lowest first."""
    digits = -(-bits // 4)
    text = "".join(line.rjust(digits + digits % 2, "0") for line in lines)
    rows = np.frombuffer(bytes.fromhex(text), np.uint8).reshape(len(lines), -1)
    return np.unpackbits(rows, axis=1)[:, ::-1][:, :bits]


def _number(bits: Array, field: Field) -> Array:
    weights = np.int64(1) << np.arange(field.bits, dtype=np.int64)
    if field.signed:
        weights[-1] = -weights[-1]
    return bits.astype(np.int64) @ weights


def _ordered(layout: Layout, words: Array, steps: int) -> Array:
    word, lane = layout.places
    return words.reshape(steps, layout.words, layout.lanes)[:, word, lane]
