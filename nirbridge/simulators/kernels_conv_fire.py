"""The usual step of a map of neurons, a vector at a time (numba, extra ``fast``).

For neurons without a synapse that send 0 or 1, do not rest and share all coefficients; others take ``kernels_neuron``.
Products and sums are rounded one by one in the order of the neuron record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingImports]
from numba import types  # pyright: ignore[reportMissingImports]
from numba.extending import intrinsic  # pyright: ignore[reportMissingImports]

from nirbridge.simulators.kernels_conv_vector import NARROW, WIDE, address, spread
from nirbridge.simulators.kernels_update import (
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
    V_RESET,
    borrowing,
)


def _firing(lanes: int) -> Any:
    """An intrinsic for the neurons ``v[j]`` to ``v[j + lanes - 1]``: sums from ``x[at]``, spikes to ``sent[k]``.

    ``c``: a_mem, g_mem, bias, theta, v_reset, amount; ``least``: ``>=`` and not ``>``; ``value``: reset to v_reset.
    """

    @intrinsic
    def fire(typingctx: Any, x: Any, at: Any, v: Any, j: Any, sent: Any, k: Any, c: Any, least: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = signature.args[0].dtype.bitwidth // 8
            sums = address(context, builder, signature.args[0], args[0], args[1], lanes)
            potentials = address(context, builder, signature.args[2], args[2], args[3], lanes)
            bits = address(context, builder, signature.args[4], args[4], args[5], lanes)
            total, old = builder.load(sums, align=size), builder.load(potentials, align=size)
            a, g, b, th, vr, am = (
                spread(builder, total.type, builder.extract_value(args[6], i)) for i in range(signature.args[6].count)
            )
            u = builder.fadd(builder.fadd(builder.fmul(a, old), builder.fmul(g, total)), b)
            above, reached = builder.fcmp_ordered(">", u, th), builder.fcmp_ordered(">=", u, th)
            fires = builder.select(args[7], reached, above)
            after = builder.select(args[8], vr, builder.fsub(u, am))
            builder.store(builder.select(fires, after, u), potentials, align=size)
            kind = bits.type.pointee
            sends = builder.zext if isinstance(kind.element, ir.IntType) else builder.uitofp
            builder.store(sends(fires, kind), bits, align=signature.args[4].dtype.bitwidth // 8)
            return context.get_dummy_value()

        kinds = x, types.uint64, v, types.uint64, sent, types.uint64, c, types.boolean, types.boolean
        return types.void(*kinds), generate

    return fire


_fire_wide, _fire_narrow = _firing(WIDE), _firing(NARROW)


@borrowing
def fire_rows(acc, shape, v, own, sent, out, coef, places, does) -> None:
    """One step of the neurons from ``v[own]`` on; ``acc, shape``: where their input lies (``kernels_conv_layer``).

    What they send is written from ``sent[out]`` on; ``coef, places, does``: see ``kernels_neuron``.
    """
    c = (
        coef[places[2 * A_MEM]],
        coef[places[2 * G_MEM]],
        coef[places[2 * BIAS]],
        coef[places[2 * THETA]],
        coef[places[2 * V_RESET]],
        coef[places[2 * AMOUNT]],
    )
    least, value = does[AT_LEAST] == 1, does[RESET] == 0
    width, j, k = np.uint64(shape[3]), np.uint64(own), np.uint64(out)
    for y in range(shape[2]):
        at = np.uint64(shape[0] + y * shape[1])
        stop = at + width
        while at + np.uint64(WIDE) <= stop:
            _fire_wide(acc, at, v, j, sent, k, c, least, value)
            at, j, k = at + np.uint64(WIDE), j + np.uint64(WIDE), k + np.uint64(WIDE)
        if at < stop:
            _fire_narrow(acc, at, v, j, sent, k, c, least, value)
            j, k = j + np.uint64(NARROW), k + np.uint64(NARROW)


@borrowing
def is_usual(does) -> bool:
    """True where ``fire_rows`` does all that is asked for, if all coefficients are shared."""
    if does[SYNAPSE] or does[HOLDS] or does[KEEP_V] or does[KEEP_U] or does[KEEP_I]:
        return False
    return does[FIRES] and does[MOST] == 1 and does[RESET] != 2
