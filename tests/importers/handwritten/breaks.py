"""Changes of one part of a rule that leave no canonical neuron."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch


def _reset(reset: Any, mem: Any, spk: Any, x: Any) -> Any:
    return reset(mem, spk)


@dataclass(frozen=True)
class Break:
    """Parts in place of those of the rule.

    ``current(current, state)``; ``membrane(mem, state)`` before the comparison; ``spikes(fire, mem, state)``;
    ``reset(reset, mem, spk, x)``; ``after(state, spk)``, the states of the next time step. ``needs``: choices without
    which the change would do nothing, or leave something canonical.
    """

    current: Callable[[Any, Any], Any] = lambda current, state: current
    membrane: Callable[[Any, Any], Any] = lambda mem, state: mem
    spikes: Callable[[Any, Any, Any], Any] = lambda fire, mem, state: fire(mem)
    reset: Callable[[Any, Any, Any, Any], Any] = _reset
    after: Callable[[Any, Any], Any] = lambda state, spk: state
    needs: tuple[tuple[str, Any], ...] = ()

    def choices(self, drawn: Any) -> Any:
        """The choices with those that the change needs: a reset in the same time step, no counter and no floor."""
        written = drawn.written if drawn.reset in ("zero", "value") else "product"
        common = {"when": "now", "refractory": 0, "floor": None, "reset": "zero", "written": written}
        return replace(drawn, **(common | dict(self.needs)))


_SUBTRACTS = (("reset", "subtract"), ("written", "minus"))
BREAKS = MappingProxyType(
    {
        "": Break(),
        "spikes of both signs": Break(spikes=lambda fire, m, state: fire(m) - (m < -0.5).float()),
        "noise": Break(membrane=lambda m, state: m + 0.3 * torch.randn_like(m)),
        "spikes by chance": Break(spikes=lambda fire, m, state: torch.bernoulli(torch.sigmoid(4.0 * (m - 1.0)))),
        "reset by half": Break(reset=lambda reset, m, s, x: m - 0.5 * m * s),
        "reset to the input": Break(reset=lambda reset, m, s, x: torch.where(s > 0, x, m)),
        "reset of all": Break(reset=lambda reset, m, s, x: reset(m, s.amax(-1, keepdim=True))),
        "mean taken off": Break(membrane=lambda m, state: m - 0.5 * m.mean(-1, keepdim=True)),
        "saturating membrane": Break(membrane=lambda m, state: 1.5 * torch.tanh(m)),
        "quadratic membrane": Break(membrane=lambda m, state: (m + 0.25 * m * m).clamp(-4.0, 4.0)),
        "gated input": Break(current=lambda x, state: x * torch.sigmoid(state["mem"])),
        "threshold follows the membrane": Break(spikes=lambda fire, m, state: fire(m - 0.3 * state["mem"])),
        "synapse resets": Break(
            after=lambda state, s: {**state, "syn": state["syn"] * (1.0 - s)}, needs=(("synapse", "first"),)
        ),
        "rounded levels": Break(spikes=lambda fire, m, state: torch.round(m.clamp(0.0, 3.0)), needs=_SUBTRACTS),
        "the highest fires": Break(spikes=lambda fire, m, state: fire(m) * (m == m.amax(-1, keepdim=True)).float()),
        "graded spikes": Break(spikes=lambda fire, m, state: fire(m) * m, needs=_SUBTRACTS),
        "a band fires": Break(spikes=lambda fire, m, state: fire(m) * (m < 2.25).float()),
        "every other time step": Break(
            membrane=lambda m, state: torch.where(state["count"] % 2 > 0, 0.5 * m, m),
            after=lambda state, s: {**state, "count": state["count"] + 1},
        ),
    }
)
"""What a rule is broken by; '' changes nothing."""
