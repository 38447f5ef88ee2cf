"""The integer simulator compiled (numba): only sources that send something cost anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv, Dense
from nirbridge.quantization.model import FixedProjection
from nirbridge.quantization.operators import weights_of, with_weights
from nirbridge.simulators.compiled.kernels.events import by_source
from nirbridge.simulators.compiled.kernels.jit import jitted
from nirbridge.simulators.fixed.kernels_neuron import FastFixedNeurons
from nirbridge.simulators.fixed.kernels_sums import TiledDense, fast_for_spikes
from nirbridge.simulators.fixed.semantics import FixedBackend, ReferenceFixedAccumulate


@jitted
def _add_rows(history, depth, delays, ends, places, weights, out):
    """Lists of targets: source j reaches ``places[ends[j]:ends[j + 1]]``."""
    for t in range(out.shape[0]):
        for b in range(out.shape[1]):
            row = out[t, b]
            for j in range(history.shape[2]):
                s = history[depth + t - delays[j], b, j]
                if s != 0:
                    for e in range(ends[j], ends[j + 1]):
                        row[places[e]] += np.int64(s) * weights[e]


@jitted
def _add_dense(history, depth, delays, weights, out):
    """``weights: [source, target]``."""
    for t in range(out.shape[0]):
        for b in range(out.shape[1]):
            row = out[t, b]
            for j in range(history.shape[2]):
                s = history[depth + t - delays[j], b, j]
                if s == 1:
                    w = weights[j]
                    for k in range(row.shape[0]):
                        row[k] += w[k]
                elif s != 0:
                    w = weights[j]
                    for k in range(row.shape[0]):
                        row[k] += np.int64(s) * w[k]


@jitted
def _taps(at, pad, stride, apart, kernel, size, taps, outs):
    """The taps that take a source position to an output position of one axis; their number."""
    count = 0
    for k in range(kernel):
        place = at + pad - k * apart
        if place >= 0 and place % stride == 0 and place // stride < size:
            taps[count], outs[count] = k, place // stride
            count += 1
    return count


@jitted
def _add_conv(history, depth, delays, weights, form, out):
    """``weights: [cout, cin of a group, ky, kx]``; ``form``: h, w, oh, ow, strides, pads, dilations, groups."""
    h, w, oh, ow, sy, sx, py, px, dy, dx, groups = form
    cout, cin, ky, kx = weights.shape
    ty, oy, tx, ox = np.zeros(ky, np.int64), np.zeros(ky, np.int64), np.zeros(kx, np.int64), np.zeros(kx, np.int64)
    per = cout // groups
    for t in range(out.shape[0]):
        for b in range(out.shape[1]):
            row = out[t, b]
            for j in range(history.shape[2]):
                s = np.int64(history[depth + t - delays[j], b, j])
                if s == 0:
                    continue
                c, y, x = j // (h * w), (j // w) % h, j % w
                ny = _taps(y, py, sy, dy, ky, oh, ty, oy)
                nx = _taps(x, px, sx, dx, kx, ow, tx, ox)
                first = (c // cin) * per
                for o in range(first, first + per):
                    for a in range(ny):
                        at = (o * oh + oy[a]) * ow
                        for e in range(nx):
                            row[at + ox[e]] += s * weights[o, c % cin, ty[a], tx[e]]


class FastFixedAccumulate:
    """A projection by the kernels; weights are multiplied by the exponent beforehand where that is exact."""

    def __init__(self, projection: FixedProjection, kind: type, spikes: bool) -> None:
        operator, self.exponent = projection.operator, min(0, projection.weight_exp)
        self.delays = ReferenceFixedAccumulate(projection, kind, spikes).delays.astype(np.int64)
        up = max(0, projection.weight_exp)
        raised = with_weights(operator, weights_of(operator) << up)
        self.many = fast_for_spikes(raised, self.delays, kind) if spikes else None
        self.kernel: Any = None
        self.arrays: tuple[Any, ...] = ()
        if isinstance(self.many, TiledDense):
            return
        if isinstance(operator, Dense):
            self.kernel, self.arrays = _add_dense, (np.ascontiguousarray(operator.weight.T << up, _half_as_wide(kind)),)
        elif isinstance(operator, Conv):
            self.kernel, self.arrays = _add_conv, _conv_arrays(operator, up, kind)
        else:
            tables = operator.indptr, operator.indices, operator.data << up, len(self.delays)
            self.kernel, self.arrays = _add_rows, by_source(*tables, _half_as_wide(kind))

    def __call__(self, history: Array, depth: int, a_in: Array) -> None:
        """See ``FixedAccumulate``."""
        sums = a_in if self.exponent == 0 else np.zeros_like(a_in)
        if isinstance(self.many, TiledDense) or (self.many is not None and self.many.pays(history, depth, a_in)):
            self.many(history, depth, sums)
        else:
            self.kernel(history, depth, self.delays, *self.arrays, sums)
        if self.exponent:
            a_in += sums >> -self.exponent


def _half_as_wide(kind: type) -> type:
    """The type of weights: half as wide as the sums, because adding rows waits for memory."""
    return np.int16 if kind is np.int32 else np.int32


def _conv_arrays(operator: Conv, up: int, kind: type) -> tuple[Array, tuple[int, ...]]:
    """Weights with two spatial axes, and the numbers of ``_add_conv``."""
    line = len(operator.kernel) == 1
    weight = operator.weight.reshape(*operator.weight.shape[:2], 1, -1) if line else operator.weight
    unit, zero = ((1,), (0,)) if line else ((), ())
    pads = (*zero, *(low for low, _ in operator.padding))
    sizes = (*unit, *operator.input_shape[1:], *unit, *operator.output_shape[1:])
    form = (*sizes, *unit, *operator.stride, *pads, *unit, *operator.dilation, operator.groups)
    return np.ascontiguousarray(weight << up, _half_as_wide(kind)), tuple(int(x) for x in form)


FAST = FixedBackend("fast", FastFixedAccumulate, FastFixedNeurons)
"""The compiled backend."""
