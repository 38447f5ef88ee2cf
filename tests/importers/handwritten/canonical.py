"""The canonical neuron in torch, for what a neuron written by hand must compute: no line of it is nirbridge's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Value = Any
"""A number, or a tensor with a value per neuron or channel."""


@dataclass(frozen=True)
class Cell:
    """Parameters as those of ``nirbridge.network.neurons.Neuron``; ``delay``: time steps from spike to output."""

    a_mem: Value = 1.0
    g_mem: Value = 1.0
    bias: Value = 0.0
    theta: Value | None = 1.0
    a_syn: Value = 0.0
    g_syn: Value = 1.0
    reset: str = "to-value"
    v_reset: Value = 0.0
    amount: Value | None = None
    compare: str = ">"
    max_spikes: int = 1
    refractory: int = 0
    v_init: Value = 0.0
    v_min: Value | None = None
    b_decay: Value = 0.0
    b_jump: Value = 0.0
    b_init: Value = 0.0
    b_in_reset: bool = False
    delay: int = 0

    def __call__(self, currents: Any, feedback: Callable[[Any], Any] | None = None) -> Any:
        """What the neurons send, ``[time, batch, *shape]`` as ``currents``; ``feedback``: of the step before."""
        v, i = torch.zeros_like(currents[0]) + self.v_init, torch.zeros_like(currents[0])
        b, held = torch.zeros_like(v) + self.b_init, torch.zeros_like(currents[0], dtype=torch.int64)
        sent = [torch.zeros_like(currents[0])] * (1 + self.delay)
        for current in currents:
            x = current if feedback is None else current + feedback(sent[-1 - self.delay])
            i = self.a_syn * i + self.g_syn * x
            u = self.a_mem * v + self.g_mem * i + self.bias
            out, v, held = self._fire(u, held, b)
            b = self.b_decay * b + self.b_jump * out
            sent.append(out)
        return torch.stack(sent[1 : len(currents) + 1])

    def _fire(self, u: Any, held: Any, b: Any) -> tuple[Any, Any, Any]:
        if self.theta is None:
            return u, u, held
        theta = self.theta + b
        fires = (u > theta if self.compare == ">" else u >= theta) & (held == 0)
        u = torch.where(held > 0, torch.as_tensor(self.v_reset), u)
        k = fires.float() * ((u / self.theta).floor().clamp(max=self.max_spikes) if self.max_spikes > 1 else 1.0)
        v = u
        if self.reset == "to-value":
            v = torch.where(fires, torch.as_tensor(self.v_reset), u)
        elif self.reset == "subtract":
            v = u - k * ((self.theta if self.amount is None else self.amount) + (b if self.b_in_reset else 0.0))
        v = v if self.v_min is None else v.clamp(min=self.v_min)
        return k, v, torch.where(fires, self.refractory, (held - 1).clamp(min=0))


def each_step(layer: Callable[[Any], Any], x: Any) -> Any:
    """A layer on every time step of ``[time, batch, ...]``."""
    return torch.stack([layer(now) for now in x])
