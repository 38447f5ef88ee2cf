"""Compiled lists of events (numba): 64 bytes of spikes at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]

from nirbridge.arrays import Array
from nirbridge.simulators.compiled.kernels.jit import jitted
from nirbridge.simulators.compiled.kernels.simd import INT, VectorCode, vectorised

ROOM = 8
"""Room that a list needs after its last event: numbers are written in groups."""


@vectorised
def list_row(typingctx: Any, x: Any, start: Any, stop: Any, idx: Any, count: Any) -> Any:
    """Writes the sources ``p - start`` of the bytes ``x[start:stop]`` that send to ``idx``, after ``idx[:count]``.

    Returns how many ``idx`` holds now.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, b = VectorCode(context, builder, signature, args), builder
        start, stop, idx, count = code.args[1:]
        words = b.sdiv(b.add(b.sub(stop, start), INT(63)), INT(64))

        def word(k: Any, held: list[Any]) -> list[Any]:
            base = b.mul(k, INT(64))
            at = b.add(start, base)
            bits = _bits(code, at, b.sub(stop, at))
            return [_write(code, bits, b.trunc(base, ir.IntType(32)), held[0])]

        def _write(code: VectorCode, bits: Any, base: Any, held: Any) -> Any:
            many = b.ctpop(bits)

            def group(k: Any, left: list[Any]) -> list[Any]:
                (rest,), at = left, b.add(held, b.mul(k, INT(ROOM)))
                for j in range(ROOM):
                    lowest = b.cttz(rest, ir.Constant(ir.IntType(1), 0))
                    b.store(b.add(base, b.trunc(lowest, ir.IntType(32))), b.gep(idx, [b.add(at, INT(j))]))
                    rest = b.and_(rest, b.sub(rest, INT(1)))
                return [rest]

            code.each(INT(0), b.sdiv(b.add(many, INT(ROOM - 1)), INT(ROOM)), [bits], group)
            return b.add(held, many)

        (total,) = code.each(INT(0), words, [count], word)
        return total

    return types.int64(x, types.int64, types.int64, idx, types.int64), generate


def _bits(code: VectorCode, at: Any, left: Any) -> Any:
    """One bit per byte of the first argument from ``at`` on, as many as are left; nothing beyond its end is read."""
    b, x = code.b, code.args[0]
    fits = b.icmp_signed("<=", b.add(at, INT(64)), code.size(0))
    with b.if_else(fits) as (whole, end):
        with whole:
            sends = b.icmp_unsigned("!=", code.load(x, at), ir.Constant(code.vector, [0] * code.lanes))
            mask = b.sub(b.shl(INT(1), left), INT(1))
            every = b.bitcast(sends, INT)
            full, at_full = b.select(b.icmp_signed("<", left, INT(64)), b.and_(every, mask), every), b.block
        with end:

            def byte(k: Any, found: list[Any]) -> list[Any]:
                sent = b.icmp_unsigned("!=", b.load(b.gep(x, [b.add(at, k)])), ir.IntType(8)(0))
                return [b.or_(found[0], b.shl(b.zext(sent, INT), k))]

            less = b.select(b.icmp_signed("<", left, INT(64)), left, INT(64))
            (some,) = code.each(INT(0), less, [INT(0)], byte)
            at_some = b.block
    out = b.phi(INT)
    out.add_incoming(full, at_full)
    out.add_incoming(some, at_some)
    return out


@jitted
def list_spikes(x, shape, indptr, idx) -> None:
    """Sources that sent, row by row of the flat bytes ``x``, ascending.

    ``shape``: rows per time step, side by side, bytes per row, and bytes from one time step to the next.
    ``indptr: int64[rows + 1]`` and ``idx: uint32[events + ROOM]`` are filled.
    """
    batch, n, pitch = shape
    count, sample, at = 0, 0, 0
    for r in range(indptr.shape[0] - 1):
        indptr[r] = count
        count = list_row(x, at, at + n, idx, count)
        at, sample = at + n, sample + 1
        if sample == batch:
            at, sample = at + pitch - batch * n, 0
    indptr[indptr.shape[0] - 1] = count


@cache
def sparse_kernel(valued: bool) -> Any:
    """The kernel for a matrix stored by source: events ``indptr, idx, val`` into ``out: [rows, posts]``.

    ``starts: int64[pre + 1]``, ``targets`` (unsigned, so that no sign has to be tested) and ``weights`` per synapse.
    """

    @jitted
    def run(indptr, idx, val, starts, targets, weights, out):
        for row in range(out.shape[0]):
            acc = out[row]
            for j in range(acc.shape[0]):
                acc[j] = 0
            for e in range(indptr[row], indptr[row + 1]):
                source = idx[e]
                to = targets[starts[source] : starts[source + 1]]  # indices from 0: no test of their sign
                row = weights[starts[source] : starts[source + 1]]
                x = val[e if valued else 0]
                for j in range(row.shape[0]):
                    acc[to[j]] += row[j] * x if valued else row[j]

    return run


@jitted
def count_kernel(indptr, idx, val, window, out) -> None:
    """Spikes per window: ``window: int64[pre]`` says which one a source is in (-1: none).

    ``out: uint8[rows, posts]`` of zeros is filled. Sources send at most 1, so a window of up to 255 sources
    cannot overflow.
    """
    for row in range(out.shape[0]):
        for e in range(indptr[row], indptr[row + 1]):
            at = window[idx[e]]
            if at >= 0:
                out[row, at] += 1


def smallest_unsigned(count: int) -> type:
    """The narrowest unsigned type for indices below ``count``."""
    return np.uint16 if count <= 1 << 16 else np.uint32


def by_source(indptr: Array, indices: Array, data: Array, pre: int, dtype: Any) -> tuple[Array, Array, Array]:
    """Compressed rows ``[post, pre]`` as ``starts, targets, weights`` per source, targets ascending."""
    from scipy.sparse import csr_array

    posts = len(indptr) - 1
    columns = csr_array((np.asarray(data, dtype), indices, indptr), shape=(posts, pre)).tocsc()
    return columns.indptr.astype(np.int64), columns.indices.astype(smallest_unsigned(posts)), columns.data
