"""Compiled loop of a population that hears itself one step later: all steps in one call (numba, extra ``fast``)."""

from __future__ import annotations

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

from nirbridge.simulators.kernels_layer import STRIP, keep
from nirbridge.simulators.kernels_lists import ROOM, list_row
from nirbridge.simulators.kernels_neuron import advance
from nirbridge.simulators.kernels_update import KEEP_I, KEEP_U, KEEP_V, compiled
from nirbridge.simulators.kernels_vector import add_numbers, add_rows, scatter_rows


@compiled
def clear(x) -> None:
    """Zeros."""
    for j in range(x.shape[0]):
        x[j] = 0


@numba.njit(inline="always")
def add_currents(x, xat, bias, before, after, first, at, n) -> None:
    """What is added to the own sums of n neurons from ``first`` on; ``at``: where the step begins."""
    if bias.shape[0]:
        add_numbers(x, xat, bias, first, n)
    if before.shape[0]:
        add_numbers(x, xat, before, at + first, n)
    if after.shape[0]:
        add_numbers(x, xat, after, at + first, n)


@compiled
def run_loop(own, shape, past, before, after, bias, v, cur, held, coef, places, steps, does, sent, kept) -> None:
    """Spikes of the step before through the own matrix, and the neurons they drive.

    ``own``: packed dense weights, or ``starts, targets, weights`` by source; ``shape``: (batch, neurons, vectors per
    block (0: the sparse form), numbers per sample of the state). ``before, after``: flat ``[steps, batch, neurons]``,
    currents that come before and behind the own one in the order of projections, or empty; ``bias``: that of the own
    one or empty. ``past: uint8[batch * neurons]``: spikes of the step before. The rest as ``dense_layer`` takes it.
    """
    dense, starts, targets, weights = own
    batch, n, vectors, width = shape
    block = vectors * (64 // v.itemsize) if vectors else STRIP
    acc, u, idx = np.zeros(width, v.dtype), np.empty(block, v.dtype), np.empty(n + ROOM, np.uint32)
    keeps = does[KEEP_V] + does[KEEP_U] + does[KEEP_I]
    for item in range(sent.shape[0] // n):
        b, at, ago = item % batch, item * n, (item - batch) * n
        count = list_row(past, b * n, b * n + n, idx, 0) if ago < 0 else list_row(sent, ago, ago + n, idx, 0)
        if not vectors:
            scatter_rows(acc, idx, count, starts, targets, weights)
        for first in range(0, n, block):
            here, xat = min(n - first, block), first * (vectors == 0)
            if vectors:
                add_rows(acc, dense, first * n, idx, dense, 0, count, vectors, 0)
            add_currents(acc, xat, bias, before, after, first, at, here)
            vat, to = b * width + first, at + first
            advance(acc, xat, u, 0, v, cur, held, vat, sent, to, here, coef, places, first, steps, does)
            if keeps:
                keep(kept, does, to, here, u, 0, v, cur, vat)
        if not vectors:
            clear(acc)
