"""One time step of one core: sum the arrived weights, step the neurons, store spikes in ring buffers."""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.quantization.model import FixedNeuron, FixedPopulation
from nirbridge.simulators.mapped.tables import CoreSlice, LoadedCore, SynapseMemory, concatenated_ranges


class RingBuffer:
    """Weights of one memory that arrive in later time steps: row ``step % length``, one column per slot of the core."""

    def __init__(self, memory: SynapseMemory, length: int, slots: int) -> None:
        self.memory, self.length, self.slots = memory, length, slots
        self.sums = np.zeros(length * slots, np.int64)

    def take(self, step: int) -> Array:
        """Remove and return the weights that arrive in this time step, per slot."""
        row = self.sums[step % self.length * self.slots :][: self.slots]
        arrived = row << self.memory.weight_exp if self.memory.weight_exp >= 0 else row >> -self.memory.weight_exp
        row[:] = 0
        return arrived

    def add(self, step: int, axons: Array, counts: Array, now: int = 0) -> None:
        """Add the synapses of spiking input axons to the time steps of their delays; ``now``: the first one to come."""
        m = self.memory
        spike, entry = concatenated_ranges(m.first[axons], m.first[axons + 1] - m.first[axons])
        if step + 1 < now:
            to_come = step + m.delay[entry] >= now
            spike, entry = spike[to_come], entry[to_come]
        positions = (step + m.delay[entry]) % self.length * self.slots + m.slot[entry]
        np.add.at(self.sums, positions, m.weight[entry] * counts[spike])


class CoreNeurons:
    """The neurons of one piece of a population on a core: their integers, their state, and their step."""

    def __init__(self, population: FixedPopulation, piece: CoreSlice) -> None:
        n = population.neuron

        def own(values: Array) -> Array:
            return np.broadcast_to(values, population.shape).reshape(-1)[piece.neurons].astype(np.int64)

        self.neuron, self.piece = n, piece
        self.du, self.dv, self.bias, self.hold = own(n.du), own(n.dv), own(n.bias), own(n.refractory_steps)
        self.limit = None if n.fires_above is None else own(n.fires_above)
        self.amount, self.size = own(n.reset_amount), own(n.spike_size)
        self.v_min = None if n.v_min is None else own(n.v_min)
        self.adapts = n.adaptation
        if n.adaptation is not None:
            a = n.adaptation
            self.b, self.b_lost, self.b_jump = own(a.init), 4096 - own(a.decay), own(a.jump)
        self.u, self.v, self.refractory = own(n.u_init), own(n.v_init), np.zeros(len(piece.neurons), np.int64)

    def step(self, arrived: Array) -> Array:
        """Spikes of each neuron in one time step, given the summed weights that arrived."""
        n = self.neuron
        self.u = _wrapped(_decayed(self.u, self.du + 1) + (arrived << 6), n.u_bits)
        limit = (1 << (n.v_bits - 1)) - 1
        self.v = np.clip(_decayed(self.v, self.dv) + self.u + self.bias, -limit, limit)
        if self.limit is None:
            return np.zeros(len(self.v), np.int64)
        waiting = self.refractory > 0
        self.v = np.where(waiting, 0, self.v)
        raised = np.zeros_like(self.v) if self.adapts is None else self.b
        fired = (self.v > self.limit + raised) & ~waiting
        sent = self._sent(fired, n, raised)
        self.refractory = np.where(sent > 0, self.hold, self.refractory - waiting)
        if n.reset == "zero":
            self.v = np.where(sent > 0, 0, self.v)
        elif n.reset == "subtract":
            own = raised if self.adapts is not None and self.adapts.in_reset else 0
            self.v = self.v - sent * (self.amount + own)
        if self.v_min is not None:
            self.v = np.maximum(self.v, self.v_min)
        if self.adapts is not None:
            self.b = _decayed(self.b, self.b_lost) + self.b_jump * sent
        return sent

    def _sent(self, fired: Array, n: FixedNeuron, raised: Array) -> Array:
        if n.max_spikes == 1:
            return fired.astype(np.int64)
        return np.where(fired, np.minimum(n.max_spikes, self.v // np.maximum(self.size + raised, 1)), 0)


def _decayed(x: Array, k: Array) -> Array:
    """Towards zero by k of 4096 parts, truncated towards zero."""
    size, keep = np.abs(x), 4096 - k
    return np.sign(x) * ((size >> 12) * keep + (((size & 4095) * keep) >> 12))


def _wrapped(u: Array, bits: int) -> Array:
    """Once around where it leaves the range; +2 ** (bits - 1) stays."""
    half = 1 << (bits - 1)
    return u - (u > half) * (2 * half) + (u <= -half) * (2 * half)


class RunningCore:
    """One core during a run."""

    def __init__(self, core: LoadedCore, populations: dict[str, FixedPopulation], longest_delay: int) -> None:
        self.slots = core.slots
        self.rings = [RingBuffer(m, longest_delay + 1, core.slots) for m in core.memories]
        self.cells = [CoreNeurons(populations[piece.population], piece) for piece in core.pieces]
        self.sent = np.zeros(core.slots, np.int64)

    def step(self, step: int) -> None:
        """Step the neurons; their spikes are in ``sent``."""
        arrived = np.zeros(self.slots, np.int64)
        for ring in self.rings:
            arrived += ring.take(step)
        for cells in self.cells:
            here = slice(cells.piece.start, cells.piece.stop)
            self.sent[here] = cells.step(arrived[here])

    def receive(self, step: int, axons: Array, counts: Array, now: int) -> None:
        """Take spikes of time step ``step`` on input axons; ``now``: see ``RingBuffer.add``."""
        for ring in self.rings:
            ring.add(step, axons, counts, now)
