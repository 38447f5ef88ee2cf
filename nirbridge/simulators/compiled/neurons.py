"""Neurons of the compiled backend: arrays in and out; their steps are in ``kernels.neuron``, by hand (decision 49)."""

from __future__ import annotations

import math
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from nirbridge.arrays import Array, kept
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron
from nirbridge.simulators.compiled.feature_map import FeatureMapLayout, FlatLayout, PackedSpikes
from nirbridge.simulators.compiled.kernels.conv_neuron import is_usual
from nirbridge.simulators.compiled.kernels.jit import FIRES, KEEP_V, RESETS
from nirbridge.simulators.compiled.kernels.layer import run_neurons
from nirbridge.simulators.compiled.kernels.simd import aligned_zeros, lanes_of
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import BlankState, LayerOutput, NeuronState

GAP = 3
"""Vectors between v and i in their block, so that they do not begin at the same place of a page."""
KEPT_BYTES = 2**20


class ReusableView(np.ndarray):
    """A view of ``rows``, which the part that made it may write to again when it gets the view back."""

    rows: Array


def aligned_empty(size: int, dtype: np.dtype[Any]) -> Array:
    """A row of any values that begins at a multiple of 64 bytes; ``aligned_zeros`` in a quarter of its time."""
    room = np.empty(size + 64 // dtype.itemsize, dtype)
    start = -addressof(c_char.from_buffer(room)) % 64 // dtype.itemsize  # pyright: ignore[reportArgumentType]
    return room[start : start + size]


class NeuronBuffers:
    """Coefficients and state of a population in the order of ``layout``, as ``kernels.neuron.step`` takes them.

    ``width``: numbers per sample of the state, a multiple of a vector.
    """

    def __init__(
        self, population: Population, dtype: np.dtype[Any], layout: FlatLayout | FeatureMapLayout, width: int = 0
    ) -> None:
        n, lanes = population.neuron, lanes_of(dtype)
        self.neuron, self.layout, self.dtype = n, layout, dtype
        self.width = width or -(-layout.size // lanes) * lanes
        theta = np.full((), math.inf) if n.theta is None else n.theta
        v_min = np.full((), -math.inf) if n.v_min is None else n.v_min
        values = (n.a_mem, n.g_mem, n.bias, theta, n.a_syn, n.g_syn, n.v_reset, n.reset_amount, v_min)
        rows = [layout.one(x.astype(dtype), math.inf if x is theta else 0.0) for x in values]
        self.is_shared = all(len(row) == 1 for row in rows)
        padded = [_padded(row, lanes) for row in rows]
        starts = np.cumsum([0, *map(len, padded)])[:-1]
        self.coefficients = aligned_zeros((sum(map(len, padded)),), dtype)
        self.coefficients[:] = np.concatenate(padded)
        self.coef_offsets = np.stack([starts, [len(row) > 1 for row in rows]], axis=1).astype(np.int64).reshape(-1)
        self.steps = layout.one(n.refractory_steps.astype(np.int64))
        self.sent_type = np.dtype(np.uint8) if n.max_spikes == 1 else dtype
        self._begun: dict[int, tuple[Any, Array]] = {}
        self._flags: dict[frozenset[str], tuple[int, ...]] = {}
        self.nothing, self.no_rest = np.zeros(1, dtype), np.zeros(1, np.int64)
        self.rests = bool(np.any(n.refractory_steps > 0)) and n.fires

    def flags(self, requested: frozenset[str]) -> tuple[int, ...]:
        """``neuron_flags``, kept."""
        if requested not in self._flags:
            self._flags[requested] = neuron_flags(self.neuron, requested)
        return self._flags[requested]

    def packs(self, flags: tuple[int, ...], requested: frozenset[str]) -> bool:
        """True where a convolution may send one bit per spike: the bytes are not recorded."""
        return self.is_shared and "s" not in requested and self.layout.size % 64 == 0 and bool(is_usual.py_func(flags))

    def opened(self, state: NeuronState) -> tuple[Array, Array, Array]:
        """Own copies of ``v, i, refractory``, flat, ``width`` numbers per sample; refractory only where it is read."""
        refractory = self._own(state["refractory"]) if self.rests else self.no_rest
        lent = getattr(state["v"], "rows", None), getattr(state["i"], "rows", None)
        size = len(state["v"]) * self.width
        if lent[0] is not None and lent[1] is not None and lent[0].size == lent[1].size == size:
            return lent[0], lent[1], refractory  # of an earlier stretch of the same run
        initial = self._filled(state)
        copies = aligned_empty(initial.size, self.dtype)
        copies[:] = initial
        return copies[:size], copies[-size:], refractory

    def closed(self, state: NeuronState, buffers: tuple[Array, Array, Array]) -> dict[str, Array]:
        """The state ``[batch, *shape]`` after the steps, of the arrays that ``opened`` made of ``state``."""
        v, i, refractory = buffers
        rests = self._lent(refractory) if self.rests else state["refractory"]
        return {"v": self._lent(v), "i": self._lent(i), "refractory": rests}

    def outputs(
        self, steps: int, batch: int, flags: tuple[int, ...], packs: bool = False
    ) -> tuple[Array, tuple[Array, ...]]:
        """Flat arrays for spikes (``packs``: one bit each) and for v, u and i where they are recorded."""
        total = steps * batch * self.layout.size
        sent = np.empty((total // 8 if packs else total) if flags[FIRES] else self.layout.size, self.sent_type)
        return sent, tuple(np.empty(total, self.dtype) if k else self.nothing for k in flags[KEEP_V:])

    def output(
        self, lead: tuple[int, int], sent: Array, trace_rows: tuple[Array, ...], after: Any, requested: frozenset[str],
        packs: bool = False,
    ) -> LayerOutput:  # fmt: skip
        """The arrays that a kernel filled, as views ``[steps, batch, *shape]``; ``after``: the state."""
        view = self.layout.view
        traces = {name: view(x, lead) for name, x in zip("vui", trace_rows, strict=True) if name in requested}
        if packs:
            return LayerOutput(PackedSpikes(sent, lead, self.layout), traces, after)
        return LayerOutput(view(sent if self.neuron.fires else trace_rows[0], lead), traces, after)

    def _own(self, values: Array) -> Array:
        """A copy; an array that an earlier chunk of the same run returned is used again."""
        rows = getattr(values, "rows", None)
        if rows is not None and rows.size == len(values) * self.width:
            return rows
        out = aligned_zeros((len(values), self.width), values.dtype)
        self.layout.view(out[:, : self.layout.size], (len(values),))[...] = values
        return out.reshape(-1)

    def _filled(self, state: NeuronState) -> Array:
        """The block of v and i; those of the beginnings of runs are kept for the next runs, by their batch."""
        batch = len(state["v"])
        cached = self._begun.get(batch)
        if cached is not None and cached[0] is state:
            return cached[1]
        size = batch * self.width
        block = np.zeros(2 * size + GAP * lanes_of(self.dtype), self.dtype)
        for part, values in ((block[:size], state["v"]), (block[-size:], state["i"])):
            rows = part.reshape(batch, self.width)[:, : self.layout.size]
            self.layout.view(rows, (batch,))[...] = values
        if isinstance(state, BlankState) and block.nbytes <= KEPT_BYTES:
            self._begun.pop(batch, None)
            kept(self._begun, batch, lambda: (state, block))
        return block

    def _lent(self, rows: Array) -> Array:
        rows_of_samples = rows.reshape(-1, self.width)
        shown = self.layout.view(rows_of_samples[:, : self.layout.size], (len(rows_of_samples),)).view(ReusableView)
        shown.rows = rows
        return shown


def _padded(row: Array, lanes: int) -> Array:
    """A row up to whole vectors; one value becomes a vector."""
    return np.repeat(row, lanes) if len(row) == 1 else np.concatenate([row, np.zeros(-len(row) % lanes, row.dtype)])


def neuron_flags(n: Neuron, requested: frozenset[str]) -> tuple[int, ...]:
    """The flags of ``kernels.jit``."""
    return (
        int(bool(np.any(n.a_syn != 0) or np.any(n.g_syn != 1))),
        RESETS.index(n.reset),
        int(n.compare == ">="),
        int(n.fires),
        n.max_spikes,
        int(bool(np.any(n.refractory_steps > 0)) and n.fires),
        int(n.v_min is not None),
        int("v" in requested or not n.fires),
        int("u" in requested),
        int("i" in requested),
    )


class EventNeurons:
    """See ``semantics.NeuronStepper``."""

    def __init__(self, population: Population, space: ArrayNamespace) -> None:
        dtype, shape = np.dtype(space.float_name), population.shape
        self.usual = NeuronBuffers(population, dtype, FlatLayout(shape))
        self.last = self.usual if len(shape) < 2 else NeuronBuffers(population, dtype, FeatureMapLayout(shape, 1))

    def run(self, drive: Any, state: NeuronState, requested: frozenset[str]) -> LayerOutput:
        """Steps through ``drive: [steps, batch, *shape]``, which may lie channels-last in memory."""
        lead = drive.shape[:2]
        c = self.usual if drive.flags.c_contiguous else self.last
        flags, buffers = c.flags(requested), c.opened(state)
        sent, trace_rows = c.outputs(lead[0], lead[1], flags)
        rows = c.layout.rows(drive, 2)
        run_neurons(rows, *buffers, c.width, c.coefficients, c.coef_offsets, c.steps, flags, sent, trace_rows)
        return c.output(lead, sent, trace_rows, c.closed(state, buffers), requested)
