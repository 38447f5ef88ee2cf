"""The integer neuron, compiled (numba): in 64 bits for every rule, in 32 bits for the usual one.

32 bits do where a neuron sends 0 or 1, states have 24 bits and the input of a step is proved to be below 2**18: then no
sum on the way is wider than 27 bits. The decay ``(|x| * keep) >> 12`` is taken in two halves of x, exactly:
``(|x| >> 12) * keep + (((|x| & 4095) * keep) >> 12)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.quantization.formats import INPUT_SHIFT
from nirbridge.quantization.model import FixedPopulation
from nirbridge.simulators.compiled.kernels.jit import jitted
from nirbridge.simulators.fixed.semantics import FixedState

_RESETS = {"zero": 0, "subtract": 1, "none": 2}
NARROW_INPUT = 2**18
_NARROW = 2**24
_WORTH = 2048
"""Neurons times steps of a call from which turning the state into 32 bits and back pays."""


@jitted
def _decayed(x, keep):
    size = x if x >= 0 else -x
    left = (size >> 12) * keep + (((size & 4095) * keep) >> 12)
    return left if x >= 0 else -left


@jitted
def _wrapped(x, half):
    if x > half:
        return x - 2 * half
    return x + 2 * half if x <= -half else x


@jitted
def _fired(y, refractory, above, most, size):
    """Spikes of a neuron; -1 while it is held after its last spike."""
    if refractory > 0:
        return np.int64(-1)
    if y <= above:
        return np.int64(0)
    return min(most, y // max(size, 1)) if most > 1 else np.int64(1)


@jitted
def _after(y, k, reset, amount):
    if k < 0 or (k > 0 and reset == 0):
        return np.int64(0)
    return y - k * amount if reset == 1 else y


@jitted
def _update(a_in, u, v, refractory, numbers, limits, sent, u_trace, v_trace):
    """``numbers``: parts of 4096 kept by du and dv, bias, fires_above, amount, size, hold, v_min of each neuron."""
    half, last, reset, most, fires = limits
    keep_u, keep_v, bias, above, amount, size, hold, v_min = numbers
    for t in range(a_in.shape[0]):
        for b in range(a_in.shape[1]):
            for n in range(a_in.shape[2]):
                x = _wrapped(_decayed(u[b, n], keep_u[n]) + (np.int64(a_in[t, b, n]) << INPUT_SHIFT), half)
                y = min(max(_decayed(v[b, n], keep_v[n]) + x + bias[n], -last), last)
                k = y
                if fires:
                    k = _fired(y, refractory[b, n], above[n], most, size[n])
                    refractory[b, n] = hold[n] if k > 0 else max(refractory[b, n] - 1, 0)
                    y, k = max(_after(y, k, reset, amount[n]), v_min[n]), max(k, 0)
                u[b, n], v[b, n], sent[t, b, n] = x, y, k
                if u_trace.shape[0]:
                    u_trace[t, b, n] = x
                if v_trace.shape[0]:
                    v_trace[t, b, n] = y


@jitted
def _part(x, keep):
    """``_decayed`` in 32 bits."""
    size = np.int32(abs(x))
    low = np.int32(np.int32(np.int32(size & np.int32(4095)) * keep) >> np.int32(12))
    decayed = np.int32(np.int32(np.int32(size >> np.int32(12)) * keep) + low)
    return decayed if x >= 0 else np.int32(-decayed)


@jitted
def _charge(a_in, u, v, keep_u, keep_v, bias, limits):
    """One row of neurons up to the threshold."""
    half, last = limits
    for n in range(a_in.shape[0]):
        x = np.int32(_part(u[n], keep_u[n]) + np.int32(a_in[n] << INPUT_SHIFT))
        x = np.int32(x - 2 * half) if x > half else x
        x = np.int32(x + 2 * half) if x <= -half else x
        y = np.int32(np.int32(_part(v[n], keep_v[n]) + x) + bias[n])
        y = last if y > last else y
        u[n], v[n] = x, -last if y < -last else y


@jitted
def _fire(v, refractory, above, taken, zero, v_min, holds, hold, sent):
    """One row: spikes, and v after them: 0 where ``zero`` is 0, else less ``taken``; ``v_min`` at least."""
    for n in range(v.shape[0]):
        held = holds and refractory[n] > 0
        k = (not held) and v[n] > above[n]
        left = np.int32(np.int32(v[n] - taken[n]) * zero)
        y = left if k else v[n]
        y = np.int32(0) if held else y
        v[n] = y if y > v_min[n] else v_min[n]
        sent[n] = k
    if holds:
        for n in range(v.shape[0]):
            refractory[n] = hold[n] if sent[n] != 0 else max(refractory[n] - 1, 0)


@jitted
def _narrow(a_in, u, v, refractory, numbers, firing, limits, sent, u_trace, v_trace):
    """Every step of ``_update`` where 32 bits do."""
    keep_u, keep_v, bias = numbers
    above, taken, zero, v_min, holds, hold = firing
    for t in range(a_in.shape[0]):
        for b in range(a_in.shape[1]):
            _charge(a_in[t, b], u[b], v[b], keep_u, keep_v, bias, limits)
            _fire(v[b], refractory[b], above, taken, zero, v_min, holds, hold, sent[t, b])
            if u_trace.shape[0]:
                u_trace[t, b] = u[b]
            if v_trace.shape[0]:
                v_trace[t, b] = v[b]


class FastFixedNeurons:
    """The integer neuron by the kernels."""

    def __init__(self, population: FixedPopulation, reach: int) -> None:
        n = population.neuron
        flat = {"du": n.du, "dv": n.dv, "bias": n.bias, "amount": n.reset_amount, "size": n.spike_size}
        flat |= {
            "hold": n.refractory_steps,
            "v_min": np.full((), -(1 << 62)) if n.v_min is None else n.v_min,
            "above": np.zeros((), np.int64) if n.fires_above is None else n.fires_above,
        }
        flat = {k: np.broadcast_to(x, population.shape).reshape(-1) for k, x in flat.items()}
        rows = [
            4095 - flat["du"],
            4096 - flat["dv"],
            *(flat[k] for k in ("bias", "above", "amount", "size", "hold", "v_min")),
        ]
        self.numbers = tuple(np.ascontiguousarray(row, np.int64) for row in rows)
        last = (1 << (n.v_bits - 1)) - 1
        self.limits = (1 << (n.u_bits - 1), last, _RESETS[n.reset], n.max_spikes, n.fires_above is not None)
        small = all(int(np.abs(flat[k]).max(initial=0)) < _NARROW for k in ("bias", "amount", "hold"))
        usual = n.fires_above is not None and n.max_spikes == 1 and n.u_bits == n.v_bits == 24
        self.narrow = _narrowed(self.numbers, n.reset) if small and usual and reach < NARROW_INPUT else None

    def __call__(self, a_in: Array, state: FixedState, sent: Array, traces: Mapping[str, Array]) -> None:
        """See ``Steps``."""
        empty = np.zeros((0, 0, 0), np.int64)
        trace_arrays = (traces.get("u", empty), traces.get("v", empty))
        if self.narrow is None or a_in.size < _WORTH or _wide(state):
            _update(a_in, state["u"], state["v"], state["refractory"], self.numbers, self.limits, sent, *trace_arrays)
            return
        u, v = state["u"].astype(np.int32), state["v"].astype(np.int32)
        limits = np.int32(self.limits[0]), np.int32(self.limits[1])
        _narrow(a_in, u, v, state["refractory"], *self.narrow, limits, sent, *trace_arrays)
        state["u"][:], state["v"][:] = u, v


def _wide(state: FixedState) -> bool:
    """True for an initial state that 24 bits do not hold."""
    return any(int(np.abs(state[k]).max(initial=0)) > 2**23 for k in ("u", "v"))


def _narrowed(numbers: tuple[Array, ...], reset: str) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
    """The arguments of ``_narrow``; thresholds beyond all states stay beyond them."""
    keep_u, keep_v, bias, above, amount, _, hold, v_min = numbers
    taken = amount if reset == "subtract" else np.zeros_like(amount)
    charge = tuple(x.astype(np.int32) for x in (keep_u, keep_v, bias))
    above, v_min = (np.clip(x, -_NARROW, _NARROW).astype(np.int32) for x in (above, v_min))
    return charge, (above, taken.astype(np.int32), np.int32(reset != "zero"), v_min, bool(hold.any()), hold)
