"""Runs of weights added to sums in memory, a vector at a time (numba).

A plain loop asks, for every run, whether sums and weights may lie in the same place; that costs more than the sums do.
Here both are vectors of 16 or 8 numbers. An addition is one IEEE addition and a product is rounded before it is added
(no flags that would allow anything else), so the bits are those of the plain loop; a processor with narrower registers
gets the same code in parts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]

from nirbridge.simulators.compiled.kernels.simd import spread, vectorised

WIDE, NARROW = 16, 8
"""Numbers per vector."""


def address(context: Any, builder: Any, kind: Any, array: Any, at: Any, lanes: int) -> Any:
    """The address of the vector that begins at ``array[at]``."""
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_data_type(kind.dtype), lanes)
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _adder(rows: int, run: int) -> Any:
    """An intrinsic: ``to[at + j] += weights[first + j] * x`` for ``rows`` rows of ``run`` numbers.

    Rows of ``to`` are ``pitch`` apart, those of ``weights`` follow each other. A factor of 1 changes no bit.
    Nothing tests the bounds.
    """

    @vectorised
    def add(typingctx: Any, to: Any, at: Any, weights: Any, first: Any, pitch: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size, int64 = signature.args[0].dtype.bitwidth // 8, ir.IntType(64)
            for row in range(rows):
                here = builder.add(args[1], builder.mul(args[4], int64(row)))
                sums = address(context, builder, signature.args[0], args[0], here, run)
                place = builder.add(args[3], int64(row * run))
                values = builder.load(address(context, builder, signature.args[2], args[2], place, run), align=size)
                values = builder.fmul(values, spread(builder, args[5], run))
                builder.store(builder.fadd(builder.load(sums, align=size), values), sums, align=size)
            return context.get_dummy_value()

        return types.void(to, types.uint64, weights, types.uint64, types.uint64, to.dtype), generate

    return add


add_wide, add_narrow, add_3_48, add_3_24 = _adder(1, WIDE), _adder(1, NARROW), _adder(3, 48), _adder(3, 24)


@vectorised
def sending(typingctx: Any, words: Any, at: Any) -> Any:
    """One bit per byte of the eight words (uint64) from ``at`` on, set where it is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        many = ir.VectorType(ir.IntType(8), 64)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        values = builder.load(builder.bitcast(builder.gep(data, [args[1]]), many.as_pointer()), align=8)
        return builder.bitcast(builder.icmp_unsigned("!=", values, ir.Constant(many, [0] * 64)), ir.IntType(64))

    return types.uint64(words, types.uint64), generate


@vectorised
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """Number of the lowest bit that is set in a word (uint64) that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate
