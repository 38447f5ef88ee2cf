"""Sums of weight rows and the neurons' update in vector registers (numba).

In plain compiled loops every slice is counted, every loop asks whether its arrays may overlap, and running sums go
through memory. Here a block of sums stays in 1, 3 or 8 vectors of 64 bytes from the first event to the last, and arrays
are whole ones with offsets. Every addition is one IEEE addition and every product is rounded before it is added (no
flags that would allow anything else), sources come in the order of the events: the bits are those of a plain loop. A
processor with narrower registers gets the same code in halves or quarters. Nothing tests bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]
from numba.extending import intrinsic  # pyright: ignore[reportMissingImports]

VECTOR_BYTES = 64
VECTORS = (1, 3, 8)
"""Vectors per block that there is code for."""
INT = ir.IntType(64)
vectorised: Any = intrinsic
"""For functions that generate their own code; their first parameter is not among the caller's."""


def lanes_of(dtype: Any) -> int:
    """Numbers per vector."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def block_of(posts: int, dtype: Any) -> int:
    """Neurons per block: little padding and few passes through the events, of which each costs about two vectors."""
    blocks = {n: -(-posts // (n * lanes_of(dtype))) for n in VECTORS}
    return min(VECTORS, key=lambda n: blocks[n] * (n + 2)) * lanes_of(dtype)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with one value in every lane."""
    nothing, lane = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined), ir.IntType(32)
    single = builder.insert_element(nothing, value, lane(0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(lane, lanes), [0] * lanes))


class VectorCode:
    """The code of one intrinsic: its arguments, and vectors of the type of its first argument."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.b, number = builder, signature.args[0].dtype
        self.arrays = {
            k: context.make_array(kind)(context, builder, args[k])
            for k, kind in enumerate(signature.args)
            if isinstance(kind, types.Array)
        }
        self.args = [self.arrays[k].data if k in self.arrays else value for k, value in enumerate(args)]
        self.bytes = number.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.bytes
        self.vector = ir.VectorType(context.get_data_type(number), self.lanes)

    def size(self, argument: int) -> Any:
        """Elements of an array among the arguments."""
        return self.arrays[argument].nitems

    def at(self, data: Any, offset: Any) -> Any:
        """The address of the vector that begins at ``data[offset]``."""
        return self.b.bitcast(self.b.gep(data, [offset]), self.vector.as_pointer())

    def load(self, data: Any, offset: Any) -> Any:
        """The vector that begins at ``data[offset]``."""
        return self.b.load(self.at(data, offset), align=self.bytes)

    def store(self, values: Any, data: Any, offset: Any) -> None:
        """Writes a vector from ``data[offset]`` on."""
        self.b.store(values, self.at(data, offset), align=self.bytes)

    def load_some(self, data: Any, offset: Any, room: Any) -> Any:
        """As ``load``; only the first ``room`` lanes are read, the others are 0."""
        zeros = ir.Constant(self.vector, [0.0] * self.lanes)
        return self._some("load", self.vector, self.vector, data, offset, room, zeros)

    def store_some(self, values: Any, data: Any, offset: Any, room: Any) -> None:
        """Writes the first ``room`` lanes of a vector from ``data[offset]`` on."""
        self._some("store", values.type, ir.VoidType(), data, offset, room, values)

    def _some(self, what: str, vector: Any, result: Any, data: Any, offset: Any, room: Any, values: Any) -> Any:
        kind, small = vector.element, ir.IntType(32)
        place = self.b.bitcast(self.b.gep(data, [offset]), vector.as_pointer())
        numbers = ir.Constant(ir.VectorType(INT, self.lanes), list(range(self.lanes)))
        mask = self.b.icmp_signed("<", numbers, self.spread(room))
        named = f"i{kind.width}" if isinstance(kind, ir.IntType) else "f64" if self.bytes == 8 else "f32"
        name = f"llvm.masked.{what}.v{self.lanes}{named}.p0"
        size = small(kind.width // 8 if isinstance(kind, ir.IntType) else self.bytes)
        args = [place, size, mask, values] if what == "load" else [values, place, size, mask]
        call = self.b.module.globals.get(name)
        call = call or ir.Function(self.b.module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.b.call(call, args)

    def spread(self, value: Any) -> Any:
        """One value in every lane."""
        return spread(self.b, value, self.lanes)

    def each(self, start: Any, stop: Any, values: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """``values`` after ``values = body(e, values)`` for e from start to stop."""
        b, before = self.b, self.b.block
        again, done = b.append_basic_block("again"), b.append_basic_block("done")
        b.cbranch(b.icmp_signed("<", start, stop), again, done)
        b.position_at_end(again)
        e, now = b.phi(INT), [b.phi(v.type) for v in values]
        after, following = body(e, list(now)), b.add(e, INT(1))
        end = b.block
        b.cbranch(b.icmp_signed("<", following, stop), again, done)
        for phi, first, last in zip([e, *now], [start, *values], [following, *after], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(last, end)
        b.position_at_end(done)
        out = [b.phi(v.type) for v in values]
        for phi, first, last in zip(out, values, after, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(last, end)
        return out

    def flag(self, value: Any) -> Any:
        """A whole number as a condition."""
        return self.b.icmp_signed("!=", value, INT(0))


@vectorised
def add_rows(
    typingctx: Any, acc: Any, w: Any, row: Any, idx: Any, val: Any, start: Any, stop: Any, vectors: Any, valued: Any
) -> Any:
    """``acc: [block]`` becomes the sum of rows of weights over the events from start to stop.

    ``w`` is flat, its row of source p begins at ``row + p * block``, at a multiple of 64 bytes; the block is so many
    ``vectors``; ``valued``: rows are times ``val[e]``.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = VectorCode(context, builder, signature, args)
        for count in VECTORS:
            right = builder.icmp_signed("==", code.args[7], INT(count))
            for with_value in (False, True):
                asked = code.flag(code.args[8])
                with builder.if_then(builder.and_(right, asked if with_value else builder.not_(asked))):
                    _add_block(code, count, with_value)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(acc, w, whole, idx, val, whole, whole, whole, whole), generate


def _add_block(code: VectorCode, vectors: int, valued: bool) -> None:
    acc, w, row, idx, val, start, stop = code.args[:7]
    b = code.b

    def added(e: Any, sums: list[Any]) -> list[Any]:
        source = b.zext(b.load(b.gep(idx, [e])), INT)
        first = b.add(row, b.mul(source, INT(vectors * code.lanes)))
        places = [code.at(w, b.add(first, INT(k * code.lanes))) for k in range(vectors)]
        values = [b.load(place, align=VECTOR_BYTES) for place in places]
        if valued:
            factor = code.spread(b.load(b.gep(val, [e])))
            values = [b.fmul(x, factor) for x in values]
        return [b.fadd(s, x) for s, x in zip(sums, values, strict=True)]

    zeros = [ir.Constant(code.vector, [0.0] * code.lanes)] * vectors
    for k, total in enumerate(code.each(start, stop, zeros, added)):
        code.store(total, acc, INT(k * code.lanes))


@vectorised
def scatter_rows(typingctx: Any, acc: Any, idx: Any, count: Any, starts: Any, targets: Any, weights: Any) -> Any:
    """Adds ``weights[s]`` to ``acc[targets[s]]`` for all synapses s of the sources ``idx[:count]``.

    The synapses of source p are those from ``starts[p]`` to ``starts[p + 1]``; a later row is fetched ahead.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, b = VectorCode(context, builder, signature, args), builder
        acc, idx, count, starts, targets, weights = code.args

        def ends(e: Any) -> tuple[Any, Any]:
            source = b.zext(b.load(b.gep(idx, [e])), INT)
            return b.load(b.gep(starts, [source])), b.load(b.gep(starts, [b.add(source, INT(1))]))

        def row(e: Any, _: list[Any]) -> list[Any]:
            ahead = b.add(e, INT(2))
            first, last = ends(b.select(b.icmp_signed("<", ahead, count), ahead, e))
            for data in (targets, weights):
                _fetch(code, b.gep(data, [first]), b.gep(data, [last]))
            code.each(*ends(e), [], synapse)
            return []

        def synapse(s: Any, _: list[Any]) -> list[Any]:
            to = b.gep(acc, [b.zext(b.load(b.gep(targets, [s])), INT)])
            b.store(b.fadd(b.load(to), b.load(b.gep(weights, [s]))), to)
            return []

        code.each(INT(0), count, [], row)
        return context.get_dummy_value()

    return types.void(acc, idx, types.int64, starts, targets, weights), generate


def _fetch(code: VectorCode, first: Any, last: Any) -> None:
    """Asks for the cache lines from first to last."""
    b, pointer, small = code.b, ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, small, small, small])
    name = "llvm.prefetch.p0"
    ask = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    start, stop = (b.lshr(b.ptrtoint(p, INT), INT(6)) for p in (first, last))

    def line(n: Any, _: list[Any]) -> list[Any]:
        b.call(ask, [b.inttoptr(b.shl(n, INT(6)), pointer), small(0), small(3), small(1)])
        return []

    code.each(start, b.add(stop, INT(1)), [], line)


@numba.njit(inline="always")
def aligned_row(n, like) -> Any:
    """Memory for n numbers of the type of ``like`` that begins at a multiple of 64 bytes."""
    room = np.empty(n + 64 // like.itemsize, like.dtype)
    skip = (-room.ctypes.data % 64) // like.itemsize
    return room[skip : skip + n]


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.__array_interface__["data"][0] % 64
    return room[start : start + size].view(dtype).reshape(shape)


def pack_weights(weight: np.ndarray, block: int, dtype: Any) -> np.ndarray:
    """``weight: [post, pre]`` as ``[blocks, pre, block]``, padded with zeros, aligned."""
    post, pre = weight.shape
    blocks = -(-post // block)
    out = aligned_zeros((blocks, pre, block), dtype)
    for k in range(blocks):
        rows = weight[k * block : (k + 1) * block]
        out[k, :, : len(rows)] = rows.T
    return out
