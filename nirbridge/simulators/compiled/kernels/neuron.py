"""Compiled step of the canonical neuron on strips of neurons (numba).

Every multiplication and addition is rounded on its own, in the order of the neuron record:
``i = a_syn*i + g_syn*x``, ``u = (a_mem*v + g_mem*i) + bias``. Arrays are flat; the state of a sample is padded to whole
vectors, so only the spikes need care at their end.

Coefficients lie in one flat array: one vector where all neurons share a value, else a padded row. ``coef_offsets:
int64[18]`` says for each of ``A_MEM`` to ``V_MIN`` where it begins and whether it goes on (1) or stays (0) from neuron
to neuron.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]

from nirbridge.simulators.compiled.kernels.jit import (
    A_MEM,
    A_SYN,
    AMOUNT,
    AT_LEAST,
    BIAS,
    FIRES,
    FLOOR,
    G_MEM,
    G_SYN,
    HOLDS,
    KEEP_U,
    MOST,
    RESET,
    SYNAPSE,
    THETA,
    V_MIN,
    V_RESET,
    borrowing,
)
from nirbridge.simulators.compiled.kernels.simd import INT, VectorCode, vectorised


def _coefficients(code: VectorCode, coefficients: Any, coef_offsets: Any, first: Any, rows: tuple[int, ...]) -> Any:
    """A function (row, neuron from ``first`` on) -> vector."""
    b, offsets = code.b, {}
    for row in rows:
        place, moves = (b.load(b.gep(coef_offsets, [INT(2 * row + k)])) for k in (0, 1))
        offsets[row] = b.add(place, b.mul(moves, first)), moves
    return lambda row, j: code.load(coefficients, b.add(offsets[row][0], b.mul(offsets[row][1], j)))


def _vectors(code: VectorCode, n: Any) -> Any:
    """Whole vectors that hold n numbers."""
    return code.b.sdiv(code.b.add(n, INT(code.lanes - 1)), INT(code.lanes))


class _NeuronStep:
    """The step of a vector of neurons: its arguments (see ``_stepper``), and its parts."""

    def __init__(self, code: VectorCode, args: list[Any]) -> None:
        self.code = code
        self.x, self.xat, self.adds, self.at, self.u, self.v, self.i_syn, self.vat, self.sent, self.sat = args[:10]
        self.n, coefficients, coef_offsets, self.first, self.flags = args[10:]
        rows = A_MEM, G_MEM, BIAS, A_SYN, G_SYN, THETA, V_RESET, AMOUNT, V_MIN
        self.of = _coefficients(code, coefficients, coef_offsets, self.first, rows)

    def flag(self, name: int) -> Any:
        """A number of ``flags``."""
        return self.code.b.extract_value(self.flags, name)

    def potential(self, j: Any) -> Any:
        """Membranes before the reset of the vector at j; ``i_syn`` is brought up to date."""
        code, b, of = self.code, self.code.b, self.of
        here, current = b.add(self.vat, j), code.load(self.x, b.add(self.xat, j))
        for data, start in zip(self.adds, (self.first, self.at, self.at), strict=True):
            current = self._added(current, data, b.add(start, j), b.sub(self.n, j))
        decayed = b.fadd(b.fmul(of(A_SYN, j), code.load(self.i_syn, here)), b.fmul(of(G_SYN, j), current))
        current = b.select(code.flag(self.flag(SYNAPSE)), decayed, current)
        code.store(current, self.i_syn, here)
        mixed = b.fadd(b.fmul(of(A_MEM, j), code.load(self.v, here)), b.fmul(of(G_MEM, j), current))
        return b.fadd(mixed, of(BIAS, j))

    def _added(self, total: Any, data: Any, offset: Any, room: Any) -> Any:
        """``total`` and what ``data`` (flat; empty: nothing) holds from ``offset`` on, at most ``room`` numbers."""
        code, b = self.code, self.code.b
        numbers, size = data
        before = b.block
        with b.if_then(b.icmp_signed(">", size, INT(0))):
            fits_vector = b.icmp_signed(">=", room, INT(code.lanes))
            with b.if_else(fits_vector) as (fits, over):
                with fits:
                    full, at_full = code.load(numbers, offset), b.block
                with over:
                    some, at_some = code.load_some(numbers, offset, room), b.block
            addend = b.phi(code.vector)
            addend.add_incoming(full, at_full)
            addend.add_incoming(some, at_some)
            more, inside = b.fadd(total, addend), b.block
        out = b.phi(code.vector)
        out.add_incoming(total, before)
        out.add_incoming(more, inside)
        return out

    def fire(self, potential: Any, j: Any) -> None:
        """Threshold, reset and floor of neurons that send 0 or 1 and do not rest; ``u`` is written where it is kept."""
        code, b, of = self.code, self.code.b, self.of
        with b.if_then(code.flag(self.flag(KEEP_U))):
            code.store(potential, self.u, j)
        fired = [b.fcmp_ordered(test, potential, of(THETA, j)) for test in (">=", ">")]
        fired = b.select(code.flag(self.flag(AT_LEAST)), *fired)
        subtracts = b.icmp_signed("==", self.flag(RESET), INT(1))
        resets = code.spread(b.icmp_signed("!=", self.flag(RESET), INT(2)))
        after = b.select(subtracts, b.fsub(potential, of(AMOUNT, j)), of(V_RESET, j))
        settled, floor = b.select(b.and_(fired, resets), after, potential), of(V_MIN, j)
        settled = b.select(b.fcmp_ordered("<", settled, floor), floor, settled)
        code.store(settled, self.v, b.add(self.vat, j))
        _send(code, fired, self.sent, b.add(self.sat, j), b.sub(self.n, j))


def _stepper(usual: bool) -> Any:
    """An intrinsic for the n neurons from ``first`` (a multiple of a vector) on; ``*at``: where each array begins.

    ``usual``: the whole step of neurons that send 0 or 1 and do not rest; else u alone. Their input is ``x``, which is
    left as it is, and ``bias: [neurons]``, ``before`` and ``after`` (of all steps and samples), added in this order;
    empty ones are left out. ``u`` is filled where it is kept; ``v`` and ``i_syn`` are brought up to date (``i_syn`` is
    the input where there is no synapse), exactly n numbers of ``sent`` are filled.

    Compiled loops call it as it is: a function around it would count references to every array in every step.
    """

    @vectorised
    def run(
        typingctx: Any, x: Any, xat: Any, bias: Any, before: Any, after: Any, at: Any, u: Any, v: Any, i_syn: Any,
        vat: Any, sent: Any, sat: Any, n: Any, coefficients: Any, coef_offsets: Any, first: Any, flags: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = VectorCode(context, builder, signature, args)
            adds = [(code.args[k], code.size(k)) for k in (2, 3, 4)]
            step = _NeuronStep(code, [*code.args[:2], adds, *code.args[5:]])

            def vector(k: Any, _: list[Any]) -> list[Any]:
                j = builder.mul(k, INT(code.lanes))
                potential = step.potential(j)
                if usual:
                    step.fire(potential, j)
                else:
                    code.store(potential, step.u, j)
                return []

            code.each(INT(0), _vectors(code, step.n), [], vector)
            return context.get_dummy_value()

        i = types.int64
        kinds = x, i, bias, before, after, i, u, v, i_syn, i, sent, i, i, coefficients, coef_offsets, i, flags
        return types.void(*kinds), generate

    return run


step, _integrate = _stepper(True), _stepper(False)


def _send(code: VectorCode, fired: Any, sent: Any, at: Any, room: Any) -> None:
    """Writes 0 or 1 for as many lanes as there is room."""
    b, kind = code.b, sent.type.pointee
    many = ir.VectorType(kind, code.lanes)
    values = b.zext(fired, many) if isinstance(kind, ir.IntType) else b.uitofp(fired, many)
    with b.if_else(b.icmp_signed(">=", room, INT(code.lanes))) as (fits, over):
        with fits:
            b.store(values, b.bitcast(b.gep(sent, [at]), many.as_pointer()), align=1)
        with over:
            code.store_some(values, sent, at, room)


@borrowing
def _value(coefficients, coef_offsets, row, j):
    return coefficients[coef_offsets[2 * row] + coef_offsets[2 * row + 1] * j]


@borrowing
def fire_in_full(u, v, refractory, vat, sent, sat, n, coefficients, coef_offsets, first, steps, flags) -> None:
    """Hold, threshold, reset, floor, several spikes per time step and refractory time; readouts."""
    real = u.dtype.type  # whole numbers would turn float32 into float64
    for j in range(n):
        p, at, k = u[j], vat + j, real(0)
        held = flags[HOLDS] and refractory[at] > 0
        if held:
            refractory[at] -= 1
            p = u[j] = _value(coefficients, coef_offsets, V_RESET, first + j)
        v[at] = p
        if not flags[FIRES]:
            continue
        theta = _value(coefficients, coef_offsets, THETA, first + j)
        if not held and (p >= theta if flags[AT_LEAST] else p > theta):
            if flags[HOLDS]:
                refractory[at] = steps[(first + j) % steps.shape[0]]
            k = min(real(np.floor(p / theta)), real(flags[MOST])) if flags[MOST] > 1 else real(1)
            if flags[RESET] == 0:
                v[at] = _value(coefficients, coef_offsets, V_RESET, first + j)
        sent[sat + j] = k
        if flags[RESET] == 1:
            v[at] = p - _value(coefficients, coef_offsets, AMOUNT, first + j) * k
        if flags[FLOOR]:
            v[at] = max(v[at], _value(coefficients, coef_offsets, V_MIN, first + j))


@borrowing
def is_usual(flags) -> bool:
    """True where ``step`` suffices; else ``step_in_full`` is needed."""
    return flags[FIRES] and not flags[HOLDS] and flags[MOST] == 1


@borrowing
def step_in_full(x, xat, adds, at, u, v, i_syn, refractory, vat, sent, sat, n, coefficients, coef_offsets, first,
                 steps, flags) -> None:  # fmt: skip
    """As ``step``, for all neurons; ``refractory``, ``steps``: steps to rest now, and after a spike."""
    bias, before, after = adds
    _integrate(
        x, xat, bias, before, after, at, u, v, i_syn, vat, sent, sat, n, coefficients, coef_offsets, first, flags
    )
    fire_in_full(u, v, refractory, vat, sent, sat, n, coefficients, coef_offsets, first, steps, flags)
