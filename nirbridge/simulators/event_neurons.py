"""Neurons of the compiled backend: arrays in and out, the steps in ``kernels_update``."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron
from nirbridge.simulators.arrays_api import Space
from nirbridge.simulators.kernels_update import RESETS, neurons_kernel, scatter_spikes
from nirbridge.simulators.step import NeuronState, Ran


class Coefficients:
    """The coefficients of a population in the order that its rows lie in memory."""

    def __init__(self, population: Population, dtype: np.dtype[Any], channels_last: bool) -> None:
        n = population.neuron
        theta = np.zeros(()) if n.theta is None else n.theta
        values = (n.a_mem, n.g_mem, n.bias, theta, n.a_syn, n.g_syn, n.v_reset, n.reset_amount)
        self.shared = all(v.ndim == 0 for v in values)
        shape = () if self.shared else population.shape
        rows = [_row(np.asarray(v, dtype), shape, channels_last) for v in values]
        self.coef = np.ascontiguousarray(np.stack(rows))
        self.steps = _row(n.refractory_steps, n.refractory_steps.shape, channels_last).astype(np.int64)


def _row(values: Array, shape: tuple[int, ...], channels_last: bool) -> Array:
    full = np.broadcast_to(values, shape)
    return np.ascontiguousarray(np.moveaxis(full, 0, -1) if channels_last and full.ndim else full).reshape(-1)


def what_it_does(n: Neuron, wanted: frozenset[str]) -> tuple[int, ...]:
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


class EventNeurons:
    """See ``step.Neurons``."""

    def __init__(self, population: Population, space: Space) -> None:
        self.population, self.shape, self.size = population, population.shape, population.size
        self.dtype = np.dtype(space.float_name)
        self.usual = Coefficients(population, self.dtype, False)
        self.last = Coefficients(population, self.dtype, True) if len(self.shape) > 1 else self.usual
        self.sent_type = np.dtype(np.uint8) if population.neuron.max_spikes == 1 else self.dtype
        self._does: dict[frozenset[str], tuple[int, ...]] = {}
        places = np.arange(self.size).reshape(self.shape)
        self.places = np.ascontiguousarray(np.moveaxis(places, 0, -1)).reshape(-1).astype(np.uint32)

    def run(self, drive: Any, state: NeuronState, wanted: frozenset[str]) -> Ran:
        """Steps through ``drive: [steps, batch, *shape]``, which may lie channels-last in memory."""
        turned = len(self.shape) > 1 and not drive.flags.c_contiguous
        steps, batch = drive.shape[:2]
        rows = self._rows(drive, turned)
        v, cur, held = (self._rows(state[name][None], turned)[0].copy() for name in ("v", "i", "refractory"))
        c = self.last if turned else self.usual
        does = self.does(wanted)
        fires = self.population.neuron.fires
        sent = np.empty((steps if fires else 1, batch, self.size), self.sent_type)
        kept = [np.empty((steps if k else 1, batch, self.size), self.dtype) for k in does[-3:]]
        neurons_kernel(c.shared)(rows, v, cur, held, c.steps, c.coef, does, sent, *kept)
        traces = {name: self._back(x, turned) for name, x in zip("vui", kept, strict=True) if name in wanted}
        after = {"v": v, "i": cur, "refractory": held}
        out = self._sent(sent, turned) if fires else self._back(kept[0], turned)
        return Ran(out, traces, {name: self._back(x[None], turned)[0] for name, x in after.items()})

    def does(self, wanted: frozenset[str]) -> tuple[int, ...]:
        """``what_it_does``, kept."""
        if wanted not in self._does:
            self._does[wanted] = what_it_does(self.population.neuron, wanted)
        return self._does[wanted]

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
