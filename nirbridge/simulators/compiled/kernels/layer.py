"""Compiled layer: weighted sums of spikes and the neurons they drive, all steps in one call (numba).

A block of neurons is an outer loop with all samples and some steps inside, so that its weights stay in the cache, and
the events of these steps too, which every block reads; the sums of a step go from registers straight into the neurons'
update and are never stored.
"""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.compiled.kernels.conv import clear
from nirbridge.simulators.compiled.kernels.events import ROOM, list_row
from nirbridge.simulators.compiled.kernels.jit import FIRES, KEEP_I, KEEP_U, KEEP_V, borrowing, jitted
from nirbridge.simulators.compiled.kernels.neuron import is_usual, step, step_in_full
from nirbridge.simulators.compiled.kernels.simd import add_rows, aligned_row, scatter_rows

STRIP = 1024
"""Neurons that are updated together: their arrays stay in the nearest cache."""


@borrowing
def store_traces(traces, flags, at, n, u, uat, v, i_syn, vat) -> None:
    """Copies the recorded ones of v, u and i of n neurons to ``at``; ``traces``: three flat arrays."""
    v_trace, u_trace, i_trace = traces
    if flags[KEEP_V]:
        for j in range(n):
            v_trace[at + j] = v[vat + j]
    if flags[KEEP_U]:
        for j in range(n):
            u_trace[at + j] = u[uat + j]
    if flags[KEEP_I]:
        for j in range(n):
            i_trace[at + j] = i_syn[vat + j]


@jitted
def dense_layer(indptr, idx, val, valued, w, shape, bias, v, i_syn, refractory, steps, coefficients,
                coef_offsets, flags, sent, traces) -> None:  # fmt: skip
    """Events ``indptr, idx, val`` of the items ``step * batch + sample`` through packed weights into neurons.

    ``w``: flat ``[blocks, pre, block]``; ``shape``: (batch, posts, pre, block in vectors, items that all blocks take
    before the next ones: whole time steps); ``bias: [posts]`` or empty; ``v, i_syn, refractory``: flat ``[batch,
    posts padded to blocks]``; ``sent`` and ``traces`` flat ``[steps, batch, posts]``. The rest as ``advance`` takes it.
    """
    batch, n, pre, vectors, stretch = shape
    width = vectors * (64 // v.itemsize)
    items, blocks = indptr.shape[0] - 1, -(-n // width)
    x, u = aligned_row(width, v), aligned_row(width, v)
    nothing = np.empty(0, v.dtype)
    adds = bias, nothing, nothing
    usual, sends, keeps = is_usual(flags), flags[FIRES], flags[KEEP_V] + flags[KEEP_U] + flags[KEEP_I]
    for turn in range(-(-items // stretch) * blocks):
        begin, first = turn // blocks * stretch, turn % blocks * width
        here = min(n - first, width)
        for b in range(batch):
            vat = b * blocks * width + first
            for item in range(begin + b, min(begin + stretch, items), batch):
                add_rows(x, w, first * pre, idx, val, indptr[item], indptr[item + 1], vectors, valued)
                at = item * n + first
                sat = at if sends else 0
                if usual:
                    step(x, 0, bias, nothing, nothing, 0, u, v, i_syn, vat, sent, sat, here, coefficients,
                         coef_offsets, first, flags)  # fmt: skip
                else:
                    step_in_full(x, 0, adds, 0, u, v, i_syn, refractory, vat, sent, sat, here, coefficients,
                                 coef_offsets, first, steps, flags)  # fmt: skip
                if keeps:
                    store_traces(traces, flags, at, here, u, 0, v, i_syn, vat)


@jitted
def dense_sums(indptr, idx, val, valued, w, pre, vectors, out) -> None:
    """The sums alone: ``out: [items, posts]``."""
    width = vectors * (64 // w.itemsize)
    acc = aligned_row(width, w)
    n = out.shape[1]
    for first in range(0, n, width):
        for item in range(out.shape[0]):
            add_rows(acc, w, first * pre, idx, val, indptr[item], indptr[item + 1], vectors, valued)
            for j in range(min(width, n - first)):
                out[item, first + j] = acc[j]


@jitted
def run_neurons(drive, v, i_syn, refractory, width, coefficients, coef_offsets, steps, flags, sent,
                traces) -> None:  # fmt: skip
    """Neurons driven by ``drive: [steps, batch, n]``; ``width``: numbers per sample of the state."""
    n = drive.shape[2]
    x, u = aligned_row(STRIP, v), aligned_row(STRIP, v)
    nothing = np.empty(0, v.dtype)
    adds = nothing, nothing, nothing
    usual, sends, keeps = is_usual(flags), flags[FIRES], flags[KEEP_V] + flags[KEEP_U] + flags[KEEP_I]
    for b in range(drive.shape[1]):
        for first in range(0, n, STRIP):
            here = min(n - first, STRIP)
            vat = b * width + first
            for t in range(drive.shape[0]):
                for j in range(here):
                    x[j] = drive[t, b, first + j]
                at = (t * drive.shape[1] + b) * n + first
                sat = at if sends else 0
                if usual:
                    step(x, 0, nothing, nothing, nothing, 0, u, v, i_syn, vat, sent, sat, here, coefficients,
                         coef_offsets, first, flags)  # fmt: skip
                else:
                    step_in_full(x, 0, adds, 0, u, v, i_syn, refractory, vat, sent, sat, here, coefficients,
                                 coef_offsets, first, steps, flags)  # fmt: skip
                if keeps:
                    store_traces(traces, flags, at, here, u, 0, v, i_syn, vat)


@jitted
def run_loop(own, shape, past, before, after, bias, v, i_syn, refractory, coefficients, coef_offsets, steps,
             flags, sent, traces) -> None:  # fmt: skip
    """Spikes of the step before through the own matrix, and the neurons they drive.

    ``own``: packed dense weights, or ``starts, targets, weights`` by source; ``shape``: (batch, neurons, vectors per
    block (0: the sparse form), numbers per sample of the state). ``before, after``: flat ``[steps, batch, neurons]``,
    currents before and after the recurrent one in the order of projections, or empty; ``bias``: that of the own
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
                step_in_full(acc, xat, adds, to, u, v, i_syn, refractory, vat, sent, to, here, coefficients,
                             coef_offsets, first, steps, flags)  # fmt: skip
            if keeps:
                store_traces(traces, flags, to, here, u, 0, v, i_syn, vat)
        if not vectors:
            clear(acc)
