"""Neurons of the compiled backend: arrays in and out, the steps in ``kernels_neuron``."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron
from nirbridge.simulators.compiled.kernels.jit import FIRES, KEEP_V, RESETS, scatter_spikes
from nirbridge.simulators.compiled.kernels.layer import run_neurons
from nirbridge.simulators.compiled.kernels.memory import aligned_zeros
from nirbridge.simulators.compiled.kernels.simd import lanes_of
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
    """A population's neurons as ``kernels_neuron.advance`` takes them; ``channels_last``: in that order in memory."""

    def __init__(self, population: Population, dtype: np.dtype[Any], channels_last: bool = False) -> None:
        n = population.neuron
        self.neuron, self.size, self.dtype = n, population.size, dtype
        theta = np.zeros(()) if n.theta is None else n.theta
        values = (n.a_mem, n.g_mem, n.bias, theta, n.a_syn, n.g_syn, n.v_reset, n.reset_amount)
        rows = [_padded(_row(np.asarray(v, dtype), channels_last), lanes_of(dtype)) for v in values]
        starts = np.cumsum([0, *map(len, rows)])[:-1]
        self.coefficients = aligned_zeros((sum(map(len, rows)),), dtype)
        self.coefficients[:] = np.concatenate(rows)
        self.coef_offsets = np.stack([starts, [v.ndim > 0 for v in values]], axis=1).astype(np.int64).reshape(-1)
        self.steps = _row(n.refractory_steps, channels_last).astype(np.int64)
        self.sent_type = np.dtype(np.uint8) if n.max_spikes == 1 else dtype
        self._begun: tuple[Any, int, Array] = None, 0, np.empty(0, dtype)
        self._flags: dict[frozenset[str], tuple[int, ...]] = {}
        self.nothing, self.no_rest = np.zeros(1, dtype), np.zeros(1, np.int64)
        self.rests = bool(np.any(n.refractory_steps > 0)) and n.fires

    def flags(self, wanted: frozenset[str]) -> tuple[int, ...]:
        """``neuron_flags``, kept."""
        if wanted not in self._flags:
            self._flags[wanted] = neuron_flags(self.neuron, wanted)
        return self._flags[wanted]

    def opened(self, state: NeuronState, width: int) -> tuple[Array, Array, Array]:
        """Own copies of ``v, i, refractory``, flat, ``width`` numbers per sample; refractory only where it is read."""
        refractory_left = self._own(state["refractory"], width) if self.rests else self.no_rest
        lent = getattr(state["v"], "rows", None), getattr(state["i"], "rows", None)
        size = len(state["v"]) * width
        if lent[0] is not None and lent[1] is not None and lent[0].size == lent[1].size == size:
            return lent[0], lent[1], refractory_left  # of an earlier stretch of the same run
        filled = self._filled(state, width)
        own = aligned_empty(filled.size, self.dtype)
        own[:] = filled
        return own[:size], own[-size:], refractory_left

    def closed(
        self, state: NeuronState, own: tuple[Array, Array, Array], shape: tuple[int, ...], width: int
    ) -> dict[str, Array]:
        """The state ``[batch, *shape]`` of what ``opened`` made of ``state``."""
        v, i, refractory_left = own
        waits = state["refractory"]
        rests = (
            self._lent(refractory_left, shape, width)
            if self.rests
            else waits
            if waits.shape == shape
            else waits.reshape(shape)
        )
        return {"v": self._lent(v, shape, width), "i": self._lent(i, shape, width), "refractory": rests}

    def outputs(self, steps: int, batch: int, flags: tuple[int, ...]) -> tuple[Array, tuple[Array, Array, Array]]:
        """Flat arrays for what is sent and for v, u and i where they are kept."""
        total = steps * batch * self.size
        sent = np.empty(total if flags[FIRES] else self.size, self.sent_type)
        trace_rows = tuple(np.empty(total, self.dtype) if k else self.nothing for k in flags[KEEP_V:])
        return sent, trace_rows  # pyright: ignore[reportReturnType]

    def _own(self, values: Array, width: int) -> Array:
        """A copy, but of what an earlier stretch of the same run left behind."""
        rows = getattr(values, "rows", None)
        if rows is not None and rows.size == len(values) * width:
            return rows
        out = aligned_zeros((len(values), width), values.dtype)
        out[:, : self.size] = values.reshape(len(values), self.size)
        return out.reshape(-1)

    def _filled(self, state: NeuronState, width: int) -> Array:
        """The block of v and i; that of a run's beginning is kept for the next run."""
        kept = self._begun  # read once: runs of other threads may change it
        if kept[0] is state and kept[1] == width:
            return kept[2]
        batch = len(state["v"])
        size = batch * width
        block = np.zeros(2 * size + GAP * lanes_of(self.dtype), self.dtype)
        for part, values in ((block[:size], state["v"]), (block[-size:], state["i"])):
            part.reshape(batch, width)[:, : self.size] = values.reshape(batch, self.size)
        if isinstance(state, BlankState) and block.nbytes <= KEPT_BYTES:
            self._begun = state, width, block
        return block

    def _lent(self, rows: Array, shape: tuple[int, ...], width: int) -> Array:
        shown = rows.reshape(-1, width)[:, : self.size].reshape(shape).view(ReusableView)
        shown.rows = rows
        return shown


def _row(values: Array, channels_last: bool) -> Array:
    return np.ascontiguousarray(np.moveaxis(values, 0, -1) if channels_last and values.ndim else values).reshape(-1)


def _padded(row: Array, lanes: int) -> Array:
    """A row up to whole vectors; one value becomes a vector."""
    return np.repeat(row, lanes) if len(row) == 1 else np.concatenate([row, np.zeros(-len(row) % lanes, row.dtype)])


def neuron_flags(n: Neuron, wanted: frozenset[str]) -> tuple[int, ...]:
    """The flags of ``kernels_update``."""
    return (
        int(bool(np.any(n.a_syn != 0) or np.any(n.g_syn != 1))),
        RESETS.index(n.reset),
        int(n.compare == ">="),
        int(n.fires),
        n.max_spikes,
        int(bool(np.any(n.refractory_steps > 0)) and n.fires),
        int("v" in wanted or not n.fires),
        int("u" in wanted),
        int("i" in wanted),
    )


def layer_output(
    cells: NeuronBuffers, shape: tuple[int, ...], sent: Array, trace_rows: tuple[Array, ...], after: Mapping[str, Any],
    wanted: frozenset[str],
) -> LayerOutput:  # fmt: skip
    """What a kernel filled, as ``[steps, batch, *shape]``."""
    traces = {name: x.reshape(shape) for name, x in zip("vui", trace_rows, strict=True) if name in wanted}
    return LayerOutput(sent.reshape(shape) if cells.neuron.fires else trace_rows[0].reshape(shape), traces, after)


class EventNeurons:
    """See ``step.Neurons``."""

    def __init__(self, population: Population, space: ArrayNamespace) -> None:
        self.shape, self.size = population.shape, population.size
        self.dtype = np.dtype(space.float_name)
        self.usual = NeuronBuffers(population, self.dtype)
        self.last = NeuronBuffers(population, self.dtype, True) if len(self.shape) > 1 else self.usual
        self.width = len(_padded(np.zeros(self.size + 1), lanes_of(self.dtype)))
        places = np.arange(self.size).reshape(self.shape)
        self.places = np.ascontiguousarray(np.moveaxis(places, 0, -1)).reshape(-1).astype(np.uint32)

    def run(self, drive: Any, state: NeuronState, wanted: frozenset[str]) -> LayerOutput:
        """Steps through ``drive: [steps, batch, *shape]``, which may lie channels-last in memory."""
        turned = len(self.shape) > 1 and not drive.flags.c_contiguous
        steps, batch = drive.shape[:2]
        c = self.last if turned else self.usual
        flags = c.flags(wanted)
        now = {name: self._rows(state[name][None], turned)[0] for name in ("v", "i", "refractory")}
        opened = c.opened(now, self.width)
        sent, trace_rows = c.outputs(steps, batch, flags)
        run_neurons(
            self._rows(drive, turned),
            *opened,
            self.width,
            c.coefficients,
            c.coef_offsets,
            c.steps,
            flags,
            sent,
            trace_rows,
        )
        after = c.closed(now, opened, (1, batch, self.size), self.width)
        lead = (steps, batch, self.size)
        traces = {n: self._back(x.reshape(lead), turned) for n, x in zip("vui", trace_rows, strict=True) if n in wanted}
        fires = c.neuron.fires
        out = self._sent(sent.reshape(lead), turned) if fires else self._back(trace_rows[0].reshape(lead), turned)
        return LayerOutput(out, traces, {name: self._back(x, turned)[0] for name, x in after.items()})

    def _rows(self, values: Array, turned: bool) -> Array:
        values = np.moveaxis(values, 2, -1) if turned else values
        return np.ascontiguousarray(values).reshape(*values.shape[:2], self.size)

    def _back(self, rows: Array, turned: bool) -> Array:
        if not turned:
            return rows.reshape(*rows.shape[:2], *self.shape)
        last = rows.reshape(*rows.shape[:2], *self.shape[1:], self.shape[0])
        return np.moveaxis(last, -1, 2)

    def _sent(self, sent: Array, turned: bool) -> Array:
        """Spikes in the usual order of memory: events are listed in the order of sources."""
        if turned and sent.dtype == np.uint8:
            out = np.zeros(sent.shape, np.uint8)
            scatter_spikes(_words(sent), sent.reshape(-1, self.size), self.places, out.reshape(-1, self.size))
            sent = out
        elif turned:
            return np.ascontiguousarray(self._back(sent, True))
        return sent.reshape(*sent.shape[:2], *self.shape)


def _words(sent: Array) -> Array:
    flat = sent.reshape(-1)
    return flat[: flat.size // 8 * 8].view(np.uint64)
