"""Runs of weights added to sums in memory, a vector at a time (numba, extra ``fast``).

A plain loop asks, for every run, whether sums and weights may lie in the same place; that costs more than the sums do.
Here both are vectors of 16 or 8 numbers. An addition is one IEEE addition and a product is rounded before it is added
(no flags that would allow anything else), so the bits are those of the plain loop; a processor with narrower registers
gets the same code in parts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]
from numba.extending import intrinsic  # pyright: ignore[reportMissingImports]

WIDE, NARROW = 16, 8
"""Numbers per vector."""


def address(context: Any, builder: Any, kind: Any, array: Any, at: Any, lanes: int) -> Any:
    """The address of the vector that begins at ``array[at]``."""
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_data_type(kind.dtype), lanes)
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def spread(builder: Any, vector: Any, value: Any) -> Any:
    """One value in every lane."""
    undefined, lane = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(undefined, value, lane(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count))


def _adder(lanes: int) -> Any:
    """An intrinsic: ``to[at + j] += weights[first + j]`` for j below ``lanes``; nothing tests the bounds."""

    @intrinsic
    def add(typingctx: Any, to: Any, at: Any, weights: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = signature.args[0].dtype.bitwidth // 8
            sums = address(context, builder, signature.args[0], args[0], args[1], lanes)
            row = address(context, builder, signature.args[2], args[2], args[3], lanes)
            total = builder.fadd(builder.load(sums, align=size), builder.load(row, align=size))
            builder.store(total, sums, align=size)
            return context.get_dummy_value()

        return types.void(to, types.uint64, weights, types.uint64), generate

    return add


def _scaled_adder(lanes: int) -> Any:
    """As ``_adder`` for ``to[at + j] += weights[first + j] * x``."""

    @intrinsic
    def add(typingctx: Any, to: Any, at: Any, weights: Any, first: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = signature.args[0].dtype.bitwidth // 8
            sums = address(context, builder, signature.args[0], args[0], args[1], lanes)
            row = address(context, builder, signature.args[2], args[2], args[3], lanes)
            values = builder.load(row, align=size)
            product = builder.fmul(values, spread(builder, values.type, args[4]))
            builder.store(builder.fadd(builder.load(sums, align=size), product), sums, align=size)
            return context.get_dummy_value()

        return types.void(to, types.uint64, weights, types.uint64, to.dtype), generate

    return add


add_wide, add_narrow = _adder(WIDE), _adder(NARROW)
add_wide_scaled, add_narrow_scaled = _scaled_adder(WIDE), _scaled_adder(NARROW)


def _source_adder(rows: int, run: int, scaled: bool) -> Any:
    """An intrinsic that adds all weights of one source (``scaled``: times ``x``), so many rows of so many numbers."""

    @intrinsic
    def add(typingctx: Any, to: Any, at: Any, weights: Any, first: Any, pitch: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size, whole = signature.args[0].dtype.bitwidth // 8, ir.IntType(64)
            for row in range(rows):
                here = builder.add(args[1], builder.mul(args[4], whole(row)))
                sums = address(context, builder, signature.args[0], args[0], here, run)
                place = builder.add(args[3], whole(row * run))
                values = builder.load(address(context, builder, signature.args[2], args[2], place, run), align=size)
                if scaled:
                    values = builder.fmul(values, spread(builder, values.type, args[5]))
                builder.store(builder.fadd(builder.load(sums, align=size), values), sums, align=size)
            return context.get_dummy_value()

        return types.void(to, types.uint64, weights, types.uint64, types.uint64, to.dtype), generate

    return add


add_3_48, add_3_24 = _source_adder(3, 48, False), _source_adder(3, 24, False)
add_3_48_scaled, add_3_24_scaled = _source_adder(3, 48, True), _source_adder(3, 24, True)


@intrinsic
def _sending(typingctx: Any, words: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        many = ir.VectorType(ir.IntType(8), 64)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        values = builder.load(builder.bitcast(builder.gep(data, [args[1]]), many.as_pointer()), align=8)
        return builder.bitcast(builder.icmp_unsigned("!=", values, ir.Constant(many, [0] * 64)), ir.IntType(64))

    return types.uint64(words, types.uint64), generate


sending: Any = _sending
"""One bit per byte of the eight words (uint64) from a place on, set where it is not 0."""


@intrinsic
def _lowest_bit(typingctx: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


lowest_bit: Any = _lowest_bit
"""Number of the lowest bit that is set in a word (uint64) that is not 0."""
