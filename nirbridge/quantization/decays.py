"""The integer decay and its inverse."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, quoted
from nirbridge.network.neurons import floored
from nirbridge.quantization.formats import DECAY_ONE, signed_max
from nirbridge.quantization.model import FixedNeuron


def dec(x: Array, k: Array) -> Array:
    """``sign(x) * ((|x| * (4096 - k)) >> 12)``: the decay of Lava's ``fixed_pt`` models, of every int64.

    In two halves of x, since a current far beyond its register has a product of more than 64 bits.
    """
    size, keep = np.abs(x), DECAY_ONE - k
    return np.sign(x) * ((size >> 12) * keep + (((size & (DECAY_ONE - 1)) * keep) >> 12))


def undo(y: Array, k: Array) -> Array:
    """The x of least size with ``dec(x, k) == y``; 0 where k is 4096 and nothing is kept.

    There always is one: with ``r = 4096 / (4096 - k)``, at least 1, dec gives y for ``|y| r <= |x| < (|y| + 1) r``,
    a stretch that holds a whole number.
    """
    keeps = np.maximum(DECAY_ONE - k, 1)
    size = -((-np.abs(y) * DECAY_ONE) // keeps)
    return np.where(k >= DECAY_ONE, 0, np.sign(y) * size)


def decay_of(factor: Array, most_parts: int) -> Array:
    """The parts of 4096 that a factor of 0 to 1 loses per time step, rounded to the nearest legal value."""
    return freeze(np.clip(np.rint((1.0 - factor) * DECAY_ONE), 0, most_parts).astype(np.int64))


def initial_integers(neuron: FixedNeuron, name: str, latency: int) -> tuple[Array, Array, Diagnostic | None]:
    """(v_init, u_init) from which ``latency`` idle time steps lead exactly to the neuron's own v_init and u_init.

    Solved backwards: the one-step map is onto, so an initial state always exists; the problem says where a neuron
    would fire on the way or its initial state exceeds the chip's numbers.
    """
    voltages, currents = _backwards(neuron, latency)
    v = voltages[-1]
    wide = max(int(np.max(np.abs(x))) for x in voltages) > signed_max(neuron.v_bits)
    wide = wide or max(int(np.max(np.abs(x))) for x in currents) > signed_max(neuron.u_bits)
    reached = _forwards(neuron, v, currents[-1], latency)
    low = any(bool(np.any((x != floored(neuron, x)) & (neuron.dv < DECAY_ONE))) for x in reached)
    fires = neuron.fires_above is not None and any(bool(np.any(x > neuron.fires_above)) for x in reached)
    subject = f"population {quoted(name)}"
    if not (wide or fires or low):
        return freeze(v), freeze(currents[-1]), None
    needs = "need an initial state below its floor" if low else "need an initial state wider than the chip's numbers"
    action = "fire" if fires else needs
    found = f"its constant drive would make it {action} in the {latency} time steps before its first input"
    limit = "a chip runs all neurons from the first time step on"
    step = "make its bias or its initial v smaller, or give --keep-early-spikes"
    ids = MappingProxyType({"population": name, "rule": "early", "steps": latency})
    return freeze(v), freeze(currents[-1]), Diagnostic(subject, found, limit, step, ids)


def _backwards(neuron: FixedNeuron, steps: int) -> tuple[list[Array], list[Array]]:
    """The values of v and of the current that end at the neuron's initial state, latest first.

    They end early where a time step changes nothing: all before it are the same. In a network of n layers the latencies
    add up to n squared time steps, and most neurons rest.
    """
    memory, bias = neuron.du < DECAY_ONE - 1, neuron.bias
    currents, voltages = [np.where(memory, neuron.u_init, 0)], [np.asarray(neuron.v_init)]
    for _ in range(steps):
        voltages.append(undo(voltages[-1] - currents[-1] - bias, neuron.dv))
        currents.append(np.where(memory, undo(currents[-1], neuron.du + 1), 0))
        if _same(voltages[-1], voltages[-2]) and _same(currents[-1], currents[-2]):
            break
    return voltages, currents


def _forwards(neuron: FixedNeuron, v: Array, u: Array, steps: int) -> list[Array]:
    """The values of v in time steps without input; they end early where a time step changes nothing."""
    voltages, bias = [], neuron.bias
    for _ in range(steps):
        before = v, u
        u = dec(u, neuron.du + 1)
        v = dec(v, neuron.dv) + u + bias
        voltages.append(v)
        v = floored(neuron, v)
        if _same(v, before[0]) and _same(u, before[1]):
            break
    return voltages


def _same(a: Array, b: Array) -> bool:
    """Equal values, of shapes that may still grow from one for all to one for each."""
    return a.shape == b.shape and bool((a == b).all())
