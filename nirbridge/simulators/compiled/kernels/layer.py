"""Compiled layer: weighted sums of spikes and the neurons they drive, all steps in one call (numba, extra ``fast``).

A block of neurons is the outermost loop with all samples and steps inside, so that its weights stay in the cache; the
sums of a step go from registers straight into the neurons' update and are never stored.
"""

from __future__ import annotations

import numpy as np

from nirbridge.simulators.compiled.kernels.jit import FIRES, KEEP_I, KEEP_U, KEEP_V, borrowing, compiled
from nirbridge.simulators.compiled.kernels.neuron import is_usual, step, step_in_full
from nirbridge.simulators.compiled.kernels.simd import add_rows, aligned_row

STRIP = 1024
"""Neurons that are updated together: their arrays stay in the nearest cache."""


@borrowing
def keep(kept, does, at, n, u, uat, v, cur, vat) -> None:
    """Copies what is to be kept of v, u and i of n neurons to ``at``; ``kept``: three flat arrays."""
    kept_v, kept_u, kept_i = kept
    if does[KEEP_V]:
        for j in range(n):
            kept_v[at + j] = v[vat + j]
    if does[KEEP_U]:
        for j in range(n):
            kept_u[at + j] = u[uat + j]
    if does[KEEP_I]:
        for j in range(n):
            kept_i[at + j] = cur[vat + j]


@compiled
def dense_layer(indptr, idx, val, valued, w, shape, bias, v, cur, held, steps, coef, places, does, sent, kept) -> None:
    """Events ``indptr, idx, val`` of the items ``step * batch + sample`` through packed weights into neurons.

    ``w``: flat ``[blocks, pre, block]``; ``shape``: (batch, posts, pre, block in vectors); ``bias: [posts]`` or empty;
    ``v, cur, held``: flat ``[batch, posts padded to blocks]``; ``sent`` and ``kept`` flat ``[steps, batch, posts]``.
    The rest as ``advance`` takes it.
    """
    batch, n, pre, vectors = shape
    width = vectors * (64 // v.itemsize)
    items, blocks = indptr.shape[0] - 1, -(-n // width)
    x, u = aligned_row(width, v), aligned_row(width, v)
    nothing = np.empty(0, v.dtype)
    adds = bias, nothing, nothing
    usual, sends, keeps = is_usual(does), does[FIRES], does[KEEP_V] + does[KEEP_U] + does[KEEP_I]
    for k in range(blocks):
        first = k * width
        here = min(n - first, width)
        for b in range(batch):
            vat = b * blocks * width + first
            for item in range(b, items, batch):
                add_rows(x, w, first * pre, idx, val, indptr[item], indptr[item + 1], vectors, valued)
                at = item * n + first
                sat = at if sends else 0
                if usual:
                    step(x, 0, bias, nothing, nothing, 0, u, v, cur, vat, sent, sat, here, coef, places, first, does)
                else:
                    step_in_full(x, 0, adds, 0, u, v, cur, held, vat, sent, sat, here, coef, places, first, steps, does)
                if keeps:
                    keep(kept, does, at, here, u, 0, v, cur, vat)


@compiled
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


@compiled
def run_neurons(drive, v, cur, held, width, coef, places, steps, does, sent, kept) -> None:
    """Neurons driven by ``drive: [steps, batch, n]``; ``width``: numbers per sample of the state."""
    n = drive.shape[2]
    x, u = aligned_row(STRIP, v), aligned_row(STRIP, v)
    nothing = np.empty(0, v.dtype)
    adds = nothing, nothing, nothing
    usual, sends, keeps = is_usual(does), does[FIRES], does[KEEP_V] + does[KEEP_U] + does[KEEP_I]
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
                    step(x, 0, nothing, nothing, nothing, 0, u, v, cur, vat, sent, sat, here, coef, places, first, does)
                else:
                    step_in_full(x, 0, adds, 0, u, v, cur, held, vat, sent, sat, here, coef, places, first, steps, does)
                if keeps:
                    keep(kept, does, at, here, u, 0, v, cur, vat)
