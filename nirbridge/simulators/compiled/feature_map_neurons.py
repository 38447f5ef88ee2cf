"""The neurons of a map as ``kernels_neuron.advance`` takes them, channels-last with filling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population
from nirbridge.simulators.compiled.feature_map import FeatureMapLayout, PackedSpikes
from nirbridge.simulators.compiled.kernels.conv_neuron import is_usual
from nirbridge.simulators.compiled.kernels.jit import FIRES, KEEP_V
from nirbridge.simulators.compiled.kernels.memory import aligned_zeros
from nirbridge.simulators.compiled.kernels.simd import lanes_of
from nirbridge.simulators.compiled.neurons import KEPT_BYTES, ReusableView, aligned_empty, neuron_flags
from nirbridge.simulators.reference.semantics import BlankState, LayerOutput, NeuronState


class MapNeuronBuffers:
    """Coefficients and state; ``width``: numbers per sample of the state, whole vectors."""

    def __init__(self, population: Population, bias: Array | None, dtype: np.dtype[Any]) -> None:
        self.neuron, self.layout, self.dtype = population.neuron, FeatureMapLayout(population.shape), dtype
        n, one, lanes = population.neuron, self.layout.one, lanes_of(dtype)
        self.width = -(-self.layout.size // lanes) * lanes
        theta = np.full((), math.inf) if n.theta is None else n.theta
        values = (n.a_mem, n.g_mem, n.bias, theta, n.a_syn, n.g_syn, n.v_reset, n.reset_amount)
        rows = [one(x.astype(dtype), math.inf if x is theta else 0.0) for x in values]
        full = [np.repeat(row, lanes) if len(row) == 1 else np.resize(row, self.width) for row in rows]
        self.coefficients = aligned_zeros((sum(map(len, full)),), dtype)
        self.coefficients[:] = np.concatenate(full)
        starts = np.cumsum([0, *map(len, full)])[:-1]
        self.coef_offsets = np.stack([starts, [len(row) > 1 for row in rows]], axis=1).astype(np.int64).reshape(-1)
        self.steps = one(n.refractory_steps.astype(np.int64))
        self.is_shared = all(len(row) == 1 for row in rows)
        plain = np.zeros(0) if bias is None else one(np.broadcast_to(bias, population.shape))
        self.bias = plain.astype(dtype)
        self.sent_type = np.dtype(np.uint8) if n.max_spikes == 1 else dtype
        self._flags: dict[frozenset[str], tuple[int, ...]] = {}
        self.rests = bool(np.any(n.refractory_steps > 0)) and n.fires
        self.nothing = np.zeros(1, dtype)
        self._begun: tuple[Any, Array, Array] = None, self.nothing, self.nothing

    def flags(self, wanted: frozenset[str]) -> tuple[int, ...]:
        """``neuron_flags``, kept."""
        if wanted not in self._flags:
            self._flags[wanted] = neuron_flags(self.neuron, wanted)
        return self._flags[wanted]

    def opened(self, state: NeuronState) -> tuple[Array, Array, Array]:
        """Own v, i and refractory, ``[batch, width]``; one number alone for refractory that nobody reads."""
        refractory_left = self._own(state["refractory"]) if self.rests else np.zeros((1, 1), np.int64)
        if not isinstance(state, BlankState):
            return self._own(state["v"]), self._own(state["i"]), refractory_left
        begun = self._begun
        if begun[0] is not state:
            begun = state, self._own(state["v"]), self._own(state["i"])
            if begun[1].nbytes > KEPT_BYTES:
                return begun[1], begun[2], refractory_left
            self._begun = begun
        return _copy(begun[1]), _copy(begun[2]), refractory_left

    def _own(self, values: Array) -> Array:
        """A copy, but of what an earlier stretch of the same run left behind."""
        rows = getattr(values, "rows", None)
        if rows is not None and rows.shape == (len(values), self.width):
            return rows
        rows = aligned_zeros((len(values), self.width), values.dtype)
        self.layout.view(rows[:, : self.layout.size])[...] = values
        return rows

    def closed(self, state: NeuronState, own: tuple[Array, Array, Array]) -> dict[str, Array]:
        """The state behind the last step, in the usual order of axes."""
        v, i = self._lent(own[0]), self._lent(own[1])
        return {"v": v, "i": i, "refractory": self._lent(own[2]) if self.rests else state["refractory"]}

    def _lent(self, rows: Array) -> Array:
        shown = self.layout.view(rows[:, : self.layout.size]).view(ReusableView)
        shown.rows = rows
        return shown

    def packs(self, flags: tuple[int, ...], wanted: frozenset[str]) -> bool:
        """True where one bit per spike is enough: nobody asked for bytes."""
        asked = "s" in wanted or self.layout.size % 64 != 0
        return bool(self.is_shared and not asked and is_usual.py_func(flags))

    def outputs(self, steps: int, batch: int, flags: tuple[int, ...], packs: bool) -> tuple[Array, tuple[Array, ...]]:
        """Flat arrays for what is sent and for v, u and i where they are kept."""
        total = steps * batch * self.layout.size
        sent = np.empty((total // 8 if packs else total) if flags[FIRES] else self.layout.size, self.sent_type)
        return sent, tuple(np.empty(total, self.dtype) if k else self.nothing for k in flags[KEEP_V:])

    def ran(
        self,
        lead: tuple[int, int],
        sent: Array,
        trace_rows: tuple[Array, ...],
        state: Any,
        wanted: frozenset[str],
        packs: bool,
    ) -> LayerOutput:
        """What a kernel filled, as views in the usual order of axes."""
        size, view = self.layout.size, self.layout.view
        traces = {
            name: view(x.reshape(*lead, size)) for name, x in zip("vui", trace_rows, strict=True) if name in wanted
        }
        if packs:
            return LayerOutput(PackedSpikes(sent, lead, self.layout), traces, state)
        out = sent if self.neuron.fires else trace_rows[0]
        return LayerOutput(view(out.reshape(*lead, size)), traces, state)


def _copy(rows: Array) -> Array:
    out = aligned_empty(rows.size, rows.dtype).reshape(rows.shape)
    out[...] = rows
    return out
