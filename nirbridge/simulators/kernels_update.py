"""Compiled neuron update and event lists (numba, extra ``fast``).

Every multiplication and addition is rounded on its own (no fastmath, no contraction), in the order of the neuron
record: ``i = a_syn*i + g_syn*x``, ``u = (a_mem*v + g_mem*i) + bias``. A step is several plain passes over a row of
neurons, which the compiler turns into vector code; what a population does not need is not run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

SYNAPSE, RESET, AT_LEAST, FIRES, MOST, HOLDS, KEEP_V, KEEP_U, KEEP_I = range(9)
"""Places in the tuple of whole numbers that says what a population's step does."""
RESETS = ("to-value", "subtract", "none")
A_MEM, G_MEM, BIAS, THETA, A_SYN, G_SYN, V_RESET, AMOUNT = range(8)
"""Rows of the coefficients ``[8, neurons]`` (``[8, 1]`` where all of them are shared)."""


def compiled(function: Callable[..., Any]) -> Any:
    """``numba.njit`` with a cache on disk where one can be written (beside the package, else the user's cache)."""
    try:
        return numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # no place for a cache
        return numba.njit(error_model="numpy")(function)


@compiled
def copy(to, values) -> None:
    """``to[:] = values`` for rows; the slice assignment is not vectorised."""
    for j in range(to.shape[0]):
        to[j] = values[j]


@compiled
def list_events(x, words, n, indptr, idx) -> None:
    """Sources that sent, row by row, ascending; empty words of 8 bytes are skipped.

    ``x: uint8[rows * n]``; ``words``: the same memory as uint64; ``indptr: int64[rows + 1]``;
    ``idx: uint32[events + 1]`` are filled.
    """
    count = 0
    for r in range(indptr.shape[0] - 1):
        indptr[r] = count
        start, stop = r * n, r * n + n
        first, last = (start + 7) // 8, stop // 8
        if first >= last:
            first = last = (stop + 7) // 8
        for p in range(start, min(8 * first, stop)):
            if x[p]:
                idx[count] = p - start
                count += 1
        for w in range(first, last):
            word = words[w]
            if word == 0:
                continue
            at = 8 * w - start
            for k in range(8):
                idx[count] = at + k
                count += ((word >> np.uint64(8 * k)) & np.uint64(255)) != 0
        for p in range(max(8 * last, start), stop):
            if x[p]:
                idx[count] = p - start
                count += 1
    indptr[indptr.shape[0] - 1] = count


@compiled
def list_values(x, indptr, idx, val) -> None:
    """As ``list_events`` for ``x: [rows, n]`` of any numbers: the sources that are not 0 and what they send."""
    count = 0
    for r in range(x.shape[0]):
        indptr[r] = count
        for p in range(x.shape[1]):
            if x[r, p] != 0:
                idx[count] = p
                val[count] = x[r, p]
                count += 1
    indptr[x.shape[0]] = count


@compiled
def value_of(x, n, indptr, idx, val) -> None:
    """The byte of every event of ``list_events``."""
    for r in range(indptr.shape[0] - 1):
        for e in range(indptr[r], indptr[r + 1]):
            val[e] = x[r * n + np.int64(idx[e])]


@compiled
def scatter_spikes(words, x, places, out) -> None:
    """Spikes ``x: uint8[rows, n]`` to ``out[row, places[j]]``; ``words``: x as uint64, as far as whole words go."""
    n = x.shape[1]
    for w in range(words.shape[0]):
        word = words[w]
        if word == 0:
            continue
        for k in range(8):
            if (word >> np.uint64(8 * k)) & np.uint64(1):
                row, j = divmod(8 * w + k, n)
                out[row, places[j]] = 1
    for p in range(8 * words.shape[0], x.shape[0] * n):
        row, j = divmod(p, n)
        if x[row, j]:
            out[row, places[j]] = 1


@compiled
def hold(u, held, v_reset) -> None:
    """Neurons in their refractory time stay at v_reset."""
    for j in range(u.shape[0]):
        if held[j] > 0:
            u[j] = v_reset[j % v_reset.shape[0]]


@compiled
def fire_many(u, v, sent, held, steps, coef, does) -> None:
    """Threshold and reset in full: several spikes a step, refractory time."""
    shared = coef.shape[1]
    real = u.dtype.type  # whole numbers would turn float32 into float64
    for j in range(u.shape[0]):
        c = j % shared
        theta = coef[THETA, c]
        fires = u[j] >= theta if does[AT_LEAST] else u[j] > theta
        if does[HOLDS]:
            if held[j] > 0:
                fires = False
                held[j] -= 1
            elif fires:
                held[j] = steps[j % steps.shape[0]]
        k = real(0)
        if fires:
            k = real(1)
            if does[MOST] > 1:
                k = min(real(np.floor(u[j] / theta)), real(does[MOST]))
        sent[j] = k
        v[j] = u[j]
        if does[RESET] == 1:
            v[j] = u[j] - coef[AMOUNT, c] * k
        elif does[RESET] == 0 and fires:
            v[j] = coef[V_RESET, c]


def _fire_once(shared: bool) -> Any:
    @compiled
    def run(u, v, sent, coef, does):
        n = u.shape[0]
        theta, v_reset, amount = coef[THETA], coef[V_RESET], coef[AMOUNT]
        th, vr, am = theta[0], v_reset[0], amount[0]
        if does[AT_LEAST]:
            for j in range(n):
                sent[j] = 1 if u[j] >= (th if shared else theta[j]) else 0
        else:
            for j in range(n):
                sent[j] = 1 if u[j] > (th if shared else theta[j]) else 0
        if does[RESET] == 0:
            for j in range(n):
                v[j] = (vr if shared else v_reset[j]) if sent[j] else u[j]
        elif does[RESET] == 1:
            for j in range(n):
                v[j] = u[j] - (am if shared else amount[j]) if sent[j] else u[j]
        else:
            copy(v, u)

    return run


@cache
def step_kernel(shared: bool) -> Any:
    """One step of a row of neurons; ``shared``: every coefficient is one value for all (``coef: [8, 1]``).

    Arguments: the input ``x`` (becomes u), ``v, cur`` (brought up to date), ``sent`` (filled), ``held, steps``
    (refractory), ``coef, does``.
    """
    fire_once = _fire_once(shared)

    @compiled
    def step(x, v, cur, sent, held, steps, coef, does):
        n = x.shape[0]
        a_mem, g_mem, bias, a_syn, g_syn = coef[A_MEM], coef[G_MEM], coef[BIAS], coef[A_SYN], coef[G_SYN]
        a0, g0, b0, as0, gs0 = a_mem[0], g_mem[0], bias[0], a_syn[0], g_syn[0]
        if does[SYNAPSE] == 0:
            copy(cur, x)
        else:
            for j in range(n):
                cur[j] = (as0 if shared else a_syn[j]) * cur[j] + (gs0 if shared else g_syn[j]) * x[j]
            copy(x, cur)
        for j in range(n):
            y = (a0 if shared else a_mem[j]) * v[j] + (g0 if shared else g_mem[j]) * x[j]
            x[j] = y + (b0 if shared else bias[j])
        if does[HOLDS]:
            hold(x, held, coef[V_RESET])
        if not does[FIRES]:
            copy(v, x)
        elif does[HOLDS] or does[MOST] > 1:
            fire_many(x, v, sent, held, steps, coef, does)
        else:
            fire_once(x, v, sent, coef, does)

    return step


@cache
def neurons_kernel(shared: bool) -> Any:
    """All steps of a population: ``drive: [steps, batch, n]`` (left as it is); the rest as ``step_kernel`` takes it.

    ``v, cur: [batch, n]``; ``held: int64[batch, n]``; ``sent: [steps, batch, n]``; ``kept_v, kept_u, kept_i`` likewise,
    or one row where they are not kept.
    """
    step = step_kernel(shared)

    @compiled
    def run(drive, v, cur, held, steps, coef, does, sent, kept_v, kept_u, kept_i):
        x = np.empty(drive.shape[2], drive.dtype)
        for b in range(drive.shape[1]):
            for t in range(drive.shape[0]):
                copy(x, drive[t, b])
                step(x, v[b], cur[b], sent[min(t, sent.shape[0] - 1), b], held[b], steps, coef, does)
                if does[KEEP_V]:
                    copy(kept_v[t, b], v[b])
                if does[KEEP_U]:
                    copy(kept_u[t, b], x)
                if does[KEEP_I]:
                    copy(kept_i[t, b], cur[b])

    return run
