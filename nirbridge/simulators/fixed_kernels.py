"""The integer simulator compiled (numba, extra ``fast``): only sources that send something cost anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.operators import Conv, Dense
from nirbridge.quantization.model import FixedPopulation, FixedProjection
from nirbridge.simulators.fixed_step import INPUT_SHIFT, FixedParts, FixedState, ReferenceAdds, ReferenceSteps
from nirbridge.simulators.kernels_update import compiled

_RESETS = {"zero": 0, "subtract": 1, "none": 2}


@compiled
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


@compiled
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


@compiled
def _taps(at, pad, stride, apart, kernel, size, taps, outs):
    """The taps that take a source position to an output position of one axis; their number."""
    found = 0
    for k in range(kernel):
        place = at + pad - k * apart
        if place >= 0 and place % stride == 0 and place // stride < size:
            taps[found], outs[found] = k, place // stride
            found += 1
    return found


@compiled
def _add_conv(history, depth, delays, weights, form, out):
    """``weights: [cout, cin of a group, ky, kx]``; ``form``: h, w, oh, ow, strides, pads, dilations, groups."""
    h, w, oh, ow, sy, sx, py, px, dy, dx, groups = form
    cout, own, ky, kx = weights.shape
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
                first = (c // own) * per
                for o in range(first, first + per):
                    for a in range(ny):
                        at = (o * oh + oy[a]) * ow
                        for e in range(nx):
                            row[at + ox[e]] += s * weights[o, c % own, ty[a], tx[e]]


@compiled
def _decayed(x, keep):
    return (x * keep) >> 12 if x >= 0 else -((-x * keep) >> 12)


@compiled
def _wrapped(x, half):
    if x > half:
        return x - 2 * half
    return x + 2 * half if x <= -half else x


@compiled
def _fired(y, waits, above, most, size):
    """Spikes of a neuron; -1 while it is held after its last spike."""
    if waits > 0:
        return np.int64(-1)
    if y <= above:
        return np.int64(0)
    return min(most, y // max(size, 1)) if most > 1 else np.int64(1)


@compiled
def _after(y, k, reset, amount):
    if k < 0 or (k > 0 and reset == 0):
        return np.int64(0)
    return y - k * amount if reset == 1 else y


@compiled
def _update(a_in, u, v, waits, numbers, limits, sent, u_trace, v_trace):
    """``numbers``: what du, dv keep of 4096, bias, fires_above, amount, size, hold of each neuron."""
    half, last, reset, most, fires = limits
    keep_u, keep_v, bias, above, amount, size, hold = numbers
    for t in range(a_in.shape[0]):
        for b in range(a_in.shape[1]):
            for n in range(a_in.shape[2]):
                x = _wrapped(_decayed(u[b, n], keep_u[n]) + (np.int64(a_in[t, b, n]) << INPUT_SHIFT), half)
                y = min(max(_decayed(v[b, n], keep_v[n]) + x + bias[n], -last), last)
                k = y
                if fires:
                    k = _fired(y, waits[b, n], above[n], most, size[n])
                    waits[b, n] = hold[n] if k >= 0 and y > above[n] else max(waits[b, n] - 1, 0)
                    y, k = _after(y, k, reset, amount[n]), max(k, 0)
                u[b, n], v[b, n], sent[t, b, n] = x, y, k
                if u_trace.shape[0]:
                    u_trace[t, b, n] = x
                if v_trace.shape[0]:
                    v_trace[t, b, n] = y


class FastAdds:
    """A projection by the kernels; weights are multiplied by the exponent beforehand where that is exact."""

    def __init__(self, projection: FixedProjection, kind: type) -> None:
        operator, self.exponent = projection.operator, min(0, projection.weight_exp)
        self.delays = ReferenceAdds(projection, kind).delays.astype(np.int64)
        up = max(0, projection.weight_exp)
        if isinstance(operator, Dense):
            self.kernel, self.arrays = _add_dense, (_stored(operator.weight.T << up, kind),)
        elif isinstance(operator, Conv):
            self.kernel, self.arrays = _add_conv, _conv_arrays(operator, up, kind)
        else:
            rows = np.repeat(np.arange(len(operator.indptr) - 1), np.diff(operator.indptr))
            order = np.argsort(operator.indices, kind="stable")
            counts = np.bincount(operator.indices, minlength=len(self.delays))
            ends = np.concatenate(([0], np.cumsum(counts)))
            self.kernel, self.arrays = _add_rows, (ends, rows[order], _stored((operator.data << up)[order], kind))

    def __call__(self, history: Array, depth: int, a_in: Array) -> None:
        """See ``Adds``."""
        kernel: Any = self.kernel
        if self.exponent == 0:
            kernel(history, depth, self.delays, *self.arrays, a_in)
            return
        own = np.zeros_like(a_in)
        kernel(history, depth, self.delays, *self.arrays, own)
        a_in += own >> -self.exponent


def _stored(weights: Array, kind: type) -> Array:
    """Weights half as wide as the sums: memory is what adding rows waits for."""
    return np.ascontiguousarray(weights, np.int16 if kind is np.int32 else np.int32)


def _conv_arrays(operator: Conv, up: int, kind: type) -> tuple[Array, tuple[int, ...]]:
    """Weights with two spatial axes, and the numbers of ``_add_conv``."""
    line = len(operator.kernel) == 1
    weight = operator.weight.reshape(*operator.weight.shape[:2], 1, -1) if line else operator.weight
    one, none = ((1,), (0,)) if line else ((), ())
    pads = (*none, *(low for low, _ in operator.padding))
    sizes = (*one, *operator.input_shape[1:], *one, *operator.output_shape[1:])
    form = (*sizes, *one, *operator.stride, *pads, *one, *operator.dilation, operator.groups)
    return _stored(weight << up, kind), tuple(int(x) for x in form)


class FastSteps:
    """The integer neuron by the kernel."""

    def __init__(self, population: FixedPopulation) -> None:
        n, flat = population.neuron, ReferenceSteps(population).flat
        rows = [4095 - flat["du"], 4096 - flat["dv"], *(flat[k] for k in ("bias", "above", "amount", "size", "hold"))]
        self.numbers = tuple(np.ascontiguousarray(row, np.int64) for row in rows)
        last = (1 << (n.v_bits - 1)) - 1
        self.limits = (1 << (n.u_bits - 1), last, _RESETS[n.reset], n.max_spikes, n.fires_above is not None)

    def __call__(self, a_in: Array, state: FixedState, sent: Array, traces: Mapping[str, Array]) -> None:
        """See ``Steps``."""
        empty = np.zeros((0, 0, 0), np.int64)
        kept = (traces.get("u", empty), traces.get("v", empty))
        _update(a_in, state["u"], state["v"], state["refractory"], self.numbers, self.limits, sent, *kept)


def fast_fixed() -> FixedParts:
    """The compiled backend."""
    return FixedParts("fast", FastAdds, FastSteps)
