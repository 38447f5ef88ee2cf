"""A second simulator, slow and plain: one scalar at a time, written from the semantics text alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import SumPool

Traces = dict[tuple[str, str], Array]


class Rows:
    """One linear part: for every target its (source, weight) in ascending order, and a factor behind the sum."""

    def __init__(self, part: Any, real: Any) -> None:
        self.factor = real(part.factor) if isinstance(part, SumPool) else None
        table = matrix(replace(part, factor=1.0) if isinstance(part, SumPool) else part)
        self.rows = []
        for k in range(table.shape[0]):
            span = slice(table.indptr[k], table.indptr[k + 1])
            self.rows.append([(int(j), real(w)) for j, w in zip(table.indices[span], table.data[span], strict=True)])
        self.real = real

    def __call__(self, x: list[Any]) -> list[Any]:
        out = []
        for row in self.rows:
            total = self.real(0)
            for j, w in row:
                total = total + w * x[j]
            out.append(total if self.factor is None else total * self.factor)
        return out


class Slow:
    """One sample of a network, step by step."""

    def __init__(self, network: Network, real: Any = np.float32) -> None:
        self.network, self.real = network, real
        self.parts = [[Rows(part, real) for part in parts_of(p.operator)] for p in network.projections]
        self.sent: dict[str, list[list[Any]]] = {p.name: [] for p in (*network.inputs, *network.populations)}
        self.v = {p.name: self._each(p, p.neuron.v_init) for p in network.populations}
        self.i = {p.name: self._each(p, p.neuron.i_init) for p in network.populations}
        self.wait = {p.name: [0] * p.size for p in network.populations}

    def _each(self, p: Population, values: Array) -> list[Any]:
        return [self.real(x) for x in np.broadcast_to(values, p.shape).reshape(-1)]

    def run(self, inputs: dict[str, Array]) -> Traces:
        steps = len(next(iter(inputs.values())))
        out: dict[tuple[str, str], list[Any]] = {}
        for t in range(steps):
            for port in self.network.inputs:
                self.sent[port.name].append([self.real(x) for x in inputs[port.name][t].reshape(-1)])
            for p in self.network.populations:
                found = self._population(p, self._drive(p.name, p.size, t))
                for variable, values in found.items():
                    out.setdefault((p.name, variable), []).append(np.array(values).reshape(p.shape))
            for port in self.network.outputs:
                values = np.array(self._drive(port.name, port.size, t)).reshape(port.shape)
                out.setdefault((port.name, "s"), []).append(values)
        return {key: np.stack(values) for key, values in out.items()}

    def _drive(self, target: str, size: int, t: int) -> list[Any]:
        total = None
        for p, parts in zip(self.network.projections, self.parts, strict=True):
            if p.target == target:
                current = self._current(p, parts, t)
                total = current if total is None else [a + b for a, b in zip(total, current, strict=True)]
        return [self.real(0)] * size if total is None else total

    def _current(self, p: Projection, parts: list[Rows], t: int) -> list[Any]:
        before = np.broadcast_to(p.delay_steps, p.operator.input_shape).reshape(-1)
        behind = np.broadcast_to(p.target_delay_steps, p.operator.output_shape).reshape(-1)
        out: list[Any] = [self.real(0)] * len(behind)
        for late in sorted(set(map(int, behind))):
            steps = [t - late - int(d) for d in before]
            x = [self.sent[p.source][s][j] if s >= 0 else self.real(0) for j, s in enumerate(steps)]
            for part in parts:
                x = part(x)
            for j in np.flatnonzero(behind == late):
                out[j] = x[j]
        if p.bias is None:
            return out
        return [a + self.real(b) for a, b in zip(out, p.bias.reshape(-1), strict=True)]

    def _population(self, p: Population, drive: list[Any]) -> dict[str, list[Any]]:
        n, found = p.neuron, {"s": [], "v": [], "u": [], "i": []}
        each = {f: self._each(p, getattr(n, f)) for f in ("a_mem", "g_mem", "bias", "a_syn", "g_syn", "v_reset")}
        theta = None if n.theta is None else self._each(p, n.theta)
        amount, hold = self._each(p, n.reset_amount), np.broadcast_to(n.refractory_steps, p.shape).reshape(-1)
        for j, x in enumerate(drive):
            i = each["a_syn"][j] * self.i[p.name][j] + each["g_syn"][j] * x
            u = each["a_mem"][j] * self.v[p.name][j] + each["g_mem"][j] * i + each["bias"][j]
            k = self.real(0)
            if self.wait[p.name][j]:
                self.wait[p.name][j] -= 1
                u = each["v_reset"][j]
            elif theta is not None and (u > theta[j] if n.compare == ">" else u >= theta[j]):
                k = self.real(min(n.max_spikes, int(np.floor(u / theta[j])))) if n.max_spikes > 1 else self.real(1)
                self.wait[p.name][j] = int(hold[j])
            v = u
            if k and n.reset == "to-value":
                v = each["v_reset"][j]
            elif k and n.reset == "subtract":
                v = u - k * amount[j]
            if n.v_min is not None and v < self._each(p, n.v_min)[j]:
                v = self._each(p, n.v_min)[j]
            self.i[p.name][j], self.v[p.name][j] = i, v
            for variable, value in (("s", u if theta is None else k), ("v", v), ("u", u), ("i", i)):
                found[variable].append(value)
        self.sent[p.name].append(found["s"])
        return found
