"""The usual step of a map of neurons, a vector at a time (numba).

For neurons without synaptic filter and refractory time that send 0 or 1 and share all coefficients; others take
``kernels.neuron``.
Products and sums are rounded one by one in the order of the neuron record. By hand (decision 49): vectors in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]

from nirbridge.simulators.compiled.kernels.jit import (
    A_MEM,
    AMOUNT,
    AT_LEAST,
    BIAS,
    FIRES,
    G_MEM,
    HOLDS,
    KEEP_I,
    KEEP_U,
    KEEP_V,
    MOST,
    RESET,
    SYNAPSE,
    THETA,
    V_MIN,
    V_RESET,
    borrowing,
)
from nirbridge.simulators.compiled.kernels.simd import spread, vectorised
from nirbridge.simulators.compiled.kernels.simd_runs import NARROW, WIDE, address


def _firing(lanes: int) -> Any:
    """An intrinsic for the neurons ``v[j]`` to ``v[j + lanes - 1]``: sums from ``x[at]``, spikes to ``sent[k]``.

    The sums are 0 afterwards.

    ``packs``: one bit per spike, in the bytes from ``sent[k / 8]`` on; ``c``: a_mem, g_mem, bias, theta, v_reset,
    amount, floor (-inf: none); ``least``: ``>=`` and not ``>``; ``value``: reset to v_reset.
    """

    @vectorised
    def fire(
        typingctx: Any, x: Any, at: Any, v: Any, j: Any, sent: Any, k: Any, packs: Any, c: Any, least: Any, value: Any
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = signature.args[0].dtype.bitwidth // 8
            sums = address(context, builder, signature.args[0], args[0], args[1], lanes)
            potentials = address(context, builder, signature.args[2], args[2], args[3], lanes)
            total, old = builder.load(sums, align=size), builder.load(potentials, align=size)
            builder.store(ir.Constant(total.type, [0.0] * lanes), sums, align=size)
            a, g, b, th, vr, am, least_v = (
                spread(builder, builder.extract_value(args[7], i), lanes) for i in range(signature.args[7].count)
            )
            u = builder.fadd(builder.fadd(builder.fmul(a, old), builder.fmul(g, total)), b)
            above, reached = builder.fcmp_ordered(">", u, th), builder.fcmp_ordered(">=", u, th)
            fires = builder.select(args[8], reached, above)
            after = builder.select(args[9], vr, builder.fsub(u, am))
            settled = builder.select(fires, after, u)
            floored = builder.select(builder.fcmp_ordered("<", settled, least_v), least_v, settled)
            builder.store(floored, potentials, align=size)
            _send(context, builder, signature.args[4], args[4:7], fires)
            return context.get_dummy_value()

        flag = types.boolean
        kinds = x, types.uint64, v, types.uint64, sent, types.uint64, flag, c, flag, flag
        return types.void(*kinds), generate

    return fire


def _send(context: Any, builder: Any, sent: Any, args: Any, fires: Any) -> None:
    """Writes a vector of conditions: bits or one number each."""
    lanes = fires.type.count
    with builder.if_else(args[2]) as (packed, each):
        with packed:
            data = context.make_array(sent)(context, builder, args[0]).data
            place = builder.bitcast(data, ir.IntType(8).as_pointer())
            place = builder.gep(place, [builder.lshr(args[1], ir.IntType(64)(3))])
            mask = builder.bitcast(fires, ir.IntType(lanes))
            builder.store(mask, builder.bitcast(place, mask.type.as_pointer()), align=1)
        with each:
            numbers = address(context, builder, sent, args[0], args[1], lanes)
            kind = numbers.type.pointee
            sends = builder.zext if isinstance(kind.element, ir.IntType) else builder.uitofp
            builder.store(sends(fires, kind), numbers, align=sent.dtype.bitwidth // 8)


_fire_wide, _fire_narrow = _firing(WIDE), _firing(NARROW)
GROUP = 16
"""Wide vectors that are passed over together."""


@vectorised
def passed_over(typingctx: Any, x: Any, at: Any, sent: Any, k: Any, packs: Any) -> Any:
    """True where a group of sums is 0; then it has sent nothing from ``sent[k]`` on (``packs``: see ``_firing``)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = signature.args[0].dtype.bitwidth // 8
        bits = ir.VectorType(ir.IntType(8 * size), WIDE)
        some = None
        for vector in range(GROUP):
            place = builder.add(args[1], ir.IntType(64)(vector * WIDE))
            data = address(context, builder, signature.args[0], args[0], place, WIDE)
            numbers = builder.load(builder.bitcast(data, bits.as_pointer()), align=size)
            some = numbers if some is None else builder.or_(some, numbers)
        twice = builder.add(some, some)  # the sign of a zero does not count
        set_ = builder.icmp_unsigned("!=", twice, ir.Constant(bits, [0] * WIDE))
        nothing = builder.icmp_unsigned("==", builder.bitcast(set_, ir.IntType(WIDE)), ir.IntType(WIDE)(0))
        with builder.if_then(nothing):
            conditions = ir.Constant(ir.VectorType(ir.IntType(1), GROUP * WIDE), [0] * GROUP * WIDE)
            _send(context, builder, signature.args[2], args[2:5], conditions)
        return nothing

    return types.boolean(x, types.uint64, sent, types.uint64, types.boolean), generate


@borrowing
def is_idle_stable(coefficients, coef_offsets, flags) -> bool:
    """True for neurons that do nothing in a step without input, once they have made one: no decay, no bias.

    What they are reset to lies below the threshold, and so does their floor.
    """
    keeps = coefficients[coef_offsets[2 * A_MEM]] == 1 and coefficients[coef_offsets[2 * BIAS]] == 0
    top = max(coefficients[coef_offsets[2 * V_RESET]], coefficients[coef_offsets[2 * V_MIN]])
    return keeps and flags[RESET] == 0 and top < coefficients[coef_offsets[2 * THETA]]


@borrowing
def fire_rows(acc, shape, v, own, sent, out, coefficients, coef_offsets, flags, skips, packs) -> None:
    """One step of the neurons from ``v[own]`` on; ``acc, shape``: where their input lies (``conv_layer.py``).

    The input is 0 afterwards. What they send is written from ``sent[out]`` on; ``coefficients, coef_offsets, flags``:
    see ``kernels.neuron``; ``skips``: those without input do nothing; ``packs``: eight spikes a byte,
    ``out`` is a multiple of 8.
    """
    c = (
        coefficients[coef_offsets[2 * A_MEM]],
        coefficients[coef_offsets[2 * G_MEM]],
        coefficients[coef_offsets[2 * BIAS]],
        coefficients[coef_offsets[2 * THETA]],
        coefficients[coef_offsets[2 * V_RESET]],
        coefficients[coef_offsets[2 * AMOUNT]],
        coefficients[coef_offsets[2 * V_MIN]],
    )
    least, value = flags[AT_LEAST] == 1, flags[RESET] == 0
    width, j, k, many = np.uint64(shape[3]), np.uint64(own), np.uint64(out), np.uint64(GROUP * WIDE)
    for y in range(shape[2]):
        at = np.uint64(shape[0] + y * shape[1])
        stop = at + width
        while at + np.uint64(WIDE) <= stop:
            if skips and at + many <= stop and passed_over(acc, at, sent, k, packs):
                at, j, k = at + many, j + many, k + many
                continue
            _fire_wide(acc, at, v, j, sent, k, packs, c, least, value)
            at, j, k = at + np.uint64(WIDE), j + np.uint64(WIDE), k + np.uint64(WIDE)
        if at < stop:
            _fire_narrow(acc, at, v, j, sent, k, packs, c, least, value)
            j, k = j + np.uint64(NARROW), k + np.uint64(NARROW)


@borrowing
def is_usual(flags) -> bool:
    """True where ``fire_rows`` suffices, if all coefficients are shared."""
    if flags[SYNAPSE] or flags[HOLDS] or flags[KEEP_V] or flags[KEEP_U] or flags[KEEP_I]:
        return False
    return flags[FIRES] and flags[MOST] == 1 and flags[RESET] != 2
