"""Compiled step of the canonical neuron on strips of neurons (numba, extra ``fast``).

Every multiplication and addition is rounded on its own, in the order of the neuron record:
``i = a_syn*i + g_syn*x``, ``u = (a_mem*v + g_mem*i) + bias``. Arrays are flat; the state of a sample is padded to whole
vectors, so only what is sent needs care at its end.

Coefficients lie in one flat array: one vector where all neurons share a value, else a padded row. ``places: int64[16]``
says for each of ``A_MEM`` to ``AMOUNT`` where it begins and whether it goes on (1) or stays (0) from neuron to neuron.
"""

from __future__ import annotations

from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]

from nirbridge.simulators.kernels_update import (
    A_MEM,
    A_SYN,
    AMOUNT,
    AT_LEAST,
    BIAS,
    FIRES,
    G_MEM,
    G_SYN,
    HOLDS,
    MOST,
    RESET,
    SYNAPSE,
    THETA,
    V_RESET,
    compiled,
)
from nirbridge.simulators.kernels_vector import INT, Code, vectorised


def _coefficients(code: Code, coef: Any, places: Any, first: Any, rows: tuple[int, ...]) -> Any:
    """A function (row, neuron from ``first`` on) -> vector."""
    b, found = code.b, {}
    for row in rows:
        place, moves = (b.load(b.gep(places, [INT(2 * row + k)])) for k in (0, 1))
        found[row] = b.add(place, b.mul(moves, first)), moves
    return lambda row, j: code.load(coef, b.add(found[row][0], b.mul(found[row][1], j)))


def _vectors(code: Code, n: Any) -> Any:
    """Whole vectors that hold n numbers."""
    return code.b.sdiv(code.b.add(n, INT(code.lanes - 1)), INT(code.lanes))


@vectorised
def integrate(
    typingctx: Any, x: Any, xat: Any, u: Any, uat: Any, v: Any, cur: Any, vat: Any, n: Any, coef: Any, places: Any,
    first: Any, synapse: Any,
) -> Any:  # fmt: skip
    """``cur`` (``x`` itself where there is no synapse) and ``u`` of the n neurons from ``first`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, b = Code(context, builder, signature, args), builder
        x, xat, u, uat, v, cur, vat, n, coef, places, first, synapse = code.args
        of = _coefficients(code, coef, places, first, (A_MEM, G_MEM, BIAS, A_SYN, G_SYN))

        def vector(k: Any, _: list[Any]) -> list[Any]:
            j = b.mul(k, INT(code.lanes))
            here, current = b.add(vat, j), code.load(x, b.add(xat, j))
            decayed = b.fadd(b.fmul(of(A_SYN, j), code.load(cur, here)), b.fmul(of(G_SYN, j), current))
            current = b.select(code.flag(synapse), decayed, current)
            code.store(current, cur, here)
            mixed = b.fadd(b.fmul(of(A_MEM, j), code.load(v, here)), b.fmul(of(G_MEM, j), current))
            code.store(b.fadd(mixed, of(BIAS, j)), u, b.add(uat, j))
            return []

        code.each(INT(0), _vectors(code, n), [], vector)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(x, whole, u, whole, v, cur, whole, whole, coef, places, whole, whole), generate


@vectorised
def fire(
    typingctx: Any, u: Any, uat: Any, v: Any, vat: Any, sent: Any, sat: Any, n: Any, coef: Any, places: Any,
    first: Any, at_least: Any, reset: Any,
) -> Any:  # fmt: skip
    """Threshold and reset of neurons that send 0 or 1 and do not rest; exactly n numbers are written to ``sent``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, b = Code(context, builder, signature, args), builder
        u, uat, v, vat, sent, sat, n, coef, places, first, at_least, reset = code.args
        of = _coefficients(code, coef, places, first, (THETA, V_RESET, AMOUNT))
        equal = code.flag(at_least)
        subtracts = b.icmp_signed("==", reset, INT(1))
        resets = code.spread(b.icmp_signed("!=", reset, INT(2)))

        def vector(k: Any, _: list[Any]) -> list[Any]:
            j = b.mul(k, INT(code.lanes))
            potential, theta = code.load(u, b.add(uat, j)), of(THETA, j)
            fired = [b.fcmp_ordered(test, potential, theta) for test in (">=", ">")]
            fired = b.select(equal, *fired)
            after = b.select(subtracts, b.fsub(potential, of(AMOUNT, j)), of(V_RESET, j))
            code.store(b.select(b.and_(fired, resets), after, potential), v, b.add(vat, j))
            _send(code, fired, sent, b.add(sat, j), b.sub(n, j))
            return []

        code.each(INT(0), _vectors(code, n), [], vector)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(u, whole, v, whole, sent, whole, whole, coef, places, whole, whole, whole), generate


def _send(code: Code, fired: Any, sent: Any, at: Any, room: Any) -> None:
    """Writes 0 or 1 for as many lanes as there is room."""
    b, kind = code.b, sent.type.pointee
    many = ir.VectorType(kind, code.lanes)
    values = b.zext(fired, many) if isinstance(kind, ir.IntType) else b.uitofp(fired, many)
    with b.if_else(b.icmp_signed(">=", room, INT(code.lanes))) as (fits, over):
        with fits:
            b.store(values, b.bitcast(b.gep(sent, [at]), many.as_pointer()), align=1)
        with over:

            def one(k: Any, _: list[Any]) -> list[Any]:
                b.store(b.extract_element(values, k), b.gep(sent, [b.add(at, k)]))
                return []

            code.each(INT(0), room, [], one)


@compiled
def _value(coef, places, row, j):
    return coef[places[2 * row] + places[2 * row + 1] * j]


@compiled
def fire_in_full(u, uat, v, held, vat, sent, sat, n, coef, places, first, steps, does) -> None:
    """Hold, threshold and reset with several spikes a step and refractory time; read-outs, which send nothing."""
    real = u.dtype.type  # whole numbers would turn float32 into float64
    for j in range(n):
        p, at, k = u[uat + j], vat + j, real(0)
        resting = does[HOLDS] and held[at] > 0
        if resting:
            held[at] -= 1
            p = u[uat + j] = _value(coef, places, V_RESET, first + j)
        v[at] = p
        if not does[FIRES]:
            continue
        theta = _value(coef, places, THETA, first + j)
        if not resting and (p >= theta if does[AT_LEAST] else p > theta):
            if does[HOLDS]:
                held[at] = steps[(first + j) % steps.shape[0]]
            k = min(real(np.floor(p / theta)), real(does[MOST])) if does[MOST] > 1 else real(1)
            if does[RESET] == 0:
                v[at] = _value(coef, places, V_RESET, first + j)
        sent[sat + j] = k
        if does[RESET] == 1:
            v[at] = p - _value(coef, places, AMOUNT, first + j) * k


@numba.njit(inline="always")
def advance(x, xat, u, uat, v, cur, held, vat, sent, sat, n, coef, places, first, steps, does) -> None:
    """One step of the n neurons from ``first`` (a multiple of a vector) on; ``*at`` says where each array begins.

    ``x`` (input) is left as it is, ``u`` is filled, ``v, cur, held`` are brought up to date (``cur`` is the input where
    there is no synapse), exactly n numbers of ``sent`` are filled. ``steps``: refractory, ``[1]`` or one per neuron.
    """
    integrate(x, xat, u, uat, v, cur, vat, n, coef, places, first, does[SYNAPSE])
    if does[FIRES] and not does[HOLDS] and does[MOST] == 1:
        fire(u, uat, v, vat, sent, sat, n, coef, places, first, does[AT_LEAST], does[RESET])
    else:
        fire_in_full(u, uat, v, held, vat, sent, sat, n, coef, places, first, steps, does)
