"""Compiled loop of a population that hears itself one step later: all steps in one call (numba, extra ``fast``)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nirbridge.simulators.kernels_dense import add_rows
from nirbridge.simulators.kernels_update import KEEP_I, KEEP_U, KEEP_V, compiled, copy, step_kernel


@compiled
def compact_spikes(spikes, words, idx) -> int:
    """Positions of the bytes that are not 0, ascending, into ``idx``; ``words``: the same memory as uint64."""
    count = 0
    for w in range(words.shape[0]):
        word = words[w]
        if word == 0:
            continue
        for k in range(8):
            idx[count] = 8 * w + k
            count += ((word >> np.uint64(8 * k)) & np.uint64(255)) != 0
    return count


def _add_dense(block: int) -> Any:
    add = add_rows(block, False)

    @compiled
    def run(acc, idx, count, packed, targets, weights):
        for k in range(packed.shape[0]):
            add(acc[k * block : k * block + block], packed[k], idx, weights, 0, count)

    return run


@compiled
def _add_sparse(acc, idx, count, starts, targets, weights) -> None:
    for e in range(count):
        source = idx[e]
        to = targets[starts[source] : starts[source + 1]]  # indices from 0: no test of their sign
        row = weights[starts[source] : starts[source + 1]]
        for j in range(row.shape[0]):
            acc[to[j]] += row[j]


@compiled
def _sum_up(x, acc, before, after, bias, has, t, b) -> None:
    """The whole input of a step: the own current with its bias between those that come before and behind it."""
    n = x.shape[0]
    for j in range(n):
        x[j] = acc[j]
    if has[1]:
        for j in range(n):
            x[j] = x[j] + bias[j]
    if has[0]:
        row = before[t, b]
        for j in range(n):
            x[j] = row[j] + x[j]
    if has[2]:
        row = after[t, b]
        for j in range(n):
            x[j] = x[j] + row[j]


@compiled
def _keep(kept, does, t, b, v, x, cur) -> None:
    if does[KEEP_V]:
        copy(kept[0][t, b], v[b])
    if does[KEEP_U]:
        copy(kept[1][t, b], x)
    if does[KEEP_I]:
        copy(kept[2][t, b], cur[b])


@cache
def loop_kernel(shared: bool, block: int) -> Any:
    """The loop; ``block``: of packed dense weights, 0 for a sparse matrix stored by source.

    ``before, after: [steps, batch, n]`` (or one row, see ``has``): currents that come before and behind the own one in
    the order of projections; ``bias: [n]`` belongs to the own one; ``has``: which of the three there are.
    ``fresh: uint8[n up to whole words]`` and ``acc: [n up to whole blocks]`` are scratch, ``past: uint8[batch, n]`` the
    spikes of the step before. The rest as ``neurons_kernel`` takes it.
    """
    step, add = step_kernel(shared), _add_dense(block) if block else _add_sparse

    @compiled
    def run(own, past, before, after, bias, has, fresh, acc, v, cur, held, steps, coef, does, sent, kept):
        n = sent.shape[2]
        x, idx, words = np.empty(n, v.dtype), np.empty(fresh.shape[0] + 1, np.uint32), fresh.view(np.uint64)
        for b in range(sent.shape[1]):
            copy(fresh[:n], past[b])
            for t in range(sent.shape[0]):
                count = compact_spikes(fresh, words, idx)
                for j in range(acc.shape[0]):
                    acc[j] = 0
                add(acc, idx, count, own[0], own[1], own[2])
                _sum_up(x, acc, before, after, bias, has, t, b)
                step(x, v[b], cur[b], fresh[:n], held[b], steps, coef, does)
                copy(sent[t, b], fresh)
                _keep(kept, does, t, b, v, x, cur)

    return run
