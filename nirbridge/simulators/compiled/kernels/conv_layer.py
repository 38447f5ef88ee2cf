"""A layer after a map of spikes, all steps in one call (numba).

Sums lie channels-last with a margin for what falls beside the map, so that nothing tests for borders. A source reaches,
per kernel row, one run of neighbouring sums; the kernel is stored per stride phase, flipped, so that the weights of a
run lie side by side too. The sums of a step go straight into the neurons. Sources come in the order of the meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.simulators.compiled.kernels.conv import add_conv, clear
from nirbridge.simulators.compiled.kernels.conv_events import (
    BITS,
    LAST,
    PAIRS,
    USUAL,
    list_bits,
    list_last,
    list_pairs,
    list_pooled,
)
from nirbridge.simulators.compiled.kernels.conv_neuron import fire_rows, is_idle_stable, is_usual
from nirbridge.simulators.compiled.kernels.events import list_row
from nirbridge.simulators.compiled.kernels.jit import FIRES, borrowing, jitted
from nirbridge.simulators.compiled.kernels.layer import store_traces
from nirbridge.simulators.compiled.kernels.neuron import step_in_full
from nirbridge.simulators.compiled.kernels.simd_runs import NARROW, add_narrow


@borrowing
def add_bias(acc, shape, bias) -> None:
    """Adds ``bias: [neurons]`` of the projection (or empty) to the sums inside the map."""
    first, n = np.uint64(0), np.uint64(bias.shape[0])
    y = shape[0]
    while first < n:
        at, stop = np.uint64(y), np.uint64(y + shape[3])
        while at < stop:
            add_narrow(acc, at, bias, first, at, acc.dtype.type(1))
            at, first = at + np.uint64(NARROW), first + np.uint64(NARROW)
        y += shape[1]


@borrowing
def copy_map(acc, shape, x, first) -> None:
    """The sums inside the map, one row after the other, to ``x`` from ``first`` on."""
    to = np.uint64(first)
    for y in range(shape[2]):
        at = np.uint64(shape[0] + y * shape[1])
        for j in range(np.uint64(shape[3])):
            x[to + j] = acc[at + j]
        to += np.uint64(shape[3])


@borrowing
def list_item(source, scratch, at, idx, val) -> Any:
    """The sources of the item that begins at byte ``at``, to ``idx`` and ``val``. Returns how many.

    The rest as ``conv_layer`` takes it.
    """
    lies, flat, words, size, _, per, pool, factor = source
    room, line, heap, counts, fills = scratch
    if lies == USUAL:
        return list_row(flat, at, at + size, idx, 0)
    n, first = np.uint64(size // 8), np.uint64(at // 8)
    if lies == LAST:
        return list_last(words, first, n, per, room, heap, counts, fills, factor, idx, val)
    if lies == BITS:
        return list_bits(words, first, n, per, room, heap, counts, fills, factor, idx, val)
    if lies == PAIRS:
        return list_pairs(words, first, pool, per, room, heap, counts, fills, factor, idx, val)
    return list_pooled(words, first, pool, per, room, line, heap, counts, fills, factor, idx, val)


@jitted
def list_steps(source, scratch, batch, indptr, idx, val) -> None:
    """The sources of all items: ``indptr, idx, val`` are filled; the rest as ``conv_layer`` takes it."""
    size, pitch, count = source[3], source[4], 0
    for r in range(indptr.shape[0] - 1):
        indptr[r] = count
        at = r // batch * pitch + r % batch * size
        count += list_item(source, scratch, at, idx[count:], val[count:])
    indptr[indptr.shape[0] - 1] = count


@jitted
def conv_layer(
    lead, source, scratch, memory, weights, reach, plan, shape, bias, state, shared, steps, coefficients,
    coef_offsets, flags, packs,
    sent, traces,
) -> None:  # fmt: skip
    """All steps of a layer with a convolution; ``lead``: steps and samples.

    ``source``: how it lies (``USUAL`` to ``PAIRS``), its bytes flat, those as words, bytes per item, bytes from one
    time step to the next, words per place, pool, factor; ``scratch``: room, line, heap, counts, fills (see
    ``conv_events.py``); ``memory``: idx, val, sums, x and u; ``weights, reach, plan``: see ``add_conv``; ``shape``: the
    first sum inside the map, sums between rows, rows, sums per row; ``state``: v, i and refractory, flat; ``shared``:
    all neurons share all coefficients; ``packs``: eight spikes a byte, for usual neurons; the rest as in
    ``kernels.layer``.
    """
    idx, val, acc, x, u = memory
    count, batch = lead
    v, i_syn, refractory = state
    width, n = v.shape[0] // batch, shape[2] * shape[3]
    nothing = np.empty(0, acc.dtype)
    adds = nothing, nothing, nothing
    usual = shared and is_usual(flags)
    quiet = usual and is_idle_stable(coefficients, coef_offsets, flags)
    for b in range(batch):
        for t in range(count):
            r = t * batch + b
            sources = list_item(source, scratch, t * source[4] + b * source[3], idx, val)
            add_conv(acc, weights, idx, val, sources, reach, plan, source[0] > BITS)
            add_bias(acc, shape, bias)
            if usual:
                if t == count - 1:  # the state holds the i of the last time step
                    copy_map(acc, shape, i_syn, b * width)
                skips = quiet and t > 0  # apart from the call, where it would count references
                fire_rows(acc, shape, v, b * width, sent, r * n, coefficients, coef_offsets, flags, skips, packs)
                continue
            copy_map(acc, shape, x, 0)
            at = r * n if flags[FIRES] else 0
            step_in_full(x, 0, adds, 0, u, v, i_syn, refractory, b * width, sent, at, n, coefficients,
                         coef_offsets, 0, steps, flags)  # fmt: skip
            store_traces(traces, flags, r * n, n, u, 0, v, i_syn, b * width)
            clear(acc)
