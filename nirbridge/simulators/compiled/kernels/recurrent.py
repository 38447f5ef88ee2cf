"""Kernel for a self-recurrent population with a delay of one time step (numba, extra ``fast``)."""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.compiled.kernels.conv_sums import clear
from nirbridge.simulators.compiled.kernels.events import ROOM, list_row
from nirbridge.simulators.compiled.kernels.jit import KEEP_I, KEEP_U, KEEP_V, compiled
from nirbridge.simulators.compiled.kernels.layer import STRIP, store_traces
from nirbridge.simulators.compiled.kernels.neuron import is_usual, step, step_in_full
from nirbridge.simulators.compiled.kernels.simd import add_rows, aligned_row, scatter_rows


@compiled
def run_loop(own, shape, past, before, after, bias, v, i_syn, refractory_left, coefficients, coef_offsets, steps,
             flags, sent, traces) -> None:  # fmt: skip
    """Spikes of the step before through the own matrix, and the neurons they drive.

    ``own``: packed dense weights, or ``starts, targets, weights`` by source; ``shape``: (batch, neurons, vectors per
    block (0: the sparse form), numbers per sample of the state). ``before, after``: flat ``[steps, batch, neurons]``,
    currents that come before and behind the own one in the order of projections, or empty; ``bias``: that of the own
    one or empty. ``past: uint8[batch * neurons]``: spikes of the step before. The rest as ``dense_layer`` takes it.
    """
    dense, starts, targets, weights = own
    batch, n, vectors, width = shape
    block = vectors * (64 // v.itemsize) if vectors else STRIP
    acc, u, idx = aligned_row(width, v), aligned_row(block, v), np.empty(n + ROOM, np.uint32)
    clear(acc)
    adds = bias, before, after
    usual, keeps = is_usual(flags), flags[KEEP_V] + flags[KEEP_U] + flags[KEEP_I]
    for item in range(sent.shape[0] // n):
        b, at, ago = item % batch, item * n, (item - batch) * n
        count = list_row(past, b * n, b * n + n, idx, 0) if ago < 0 else list_row(sent, ago, ago + n, idx, 0)
        if not vectors:
            scatter_rows(acc, idx, count, starts, targets, weights)
        for first in range(0, n, block):
            here, xat = min(n - first, block), first * (vectors == 0)
            if vectors:
                add_rows(acc, dense, first * n, idx, dense, 0, count, vectors, 0)
            vat, to = b * width + first, at + first
            if usual:
                step(acc, xat, bias, before, after, to, u, v, i_syn, vat, sent, to, here, coefficients, coef_offsets,
                     first, flags)  # fmt: skip
            else:
                step_in_full(acc, xat, adds, to, u, v, i_syn, refractory_left, vat, sent, to, here, coefficients,
                             coef_offsets, first, steps, flags)  # fmt: skip
            if keeps:
                store_traces(traces, flags, to, here, u, 0, v, i_syn, vat)
        if not vectors:
            clear(acc)
