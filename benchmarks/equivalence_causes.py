"""Known causes of differences in other tools' readers: how their code interprets plain NIR.

Read in the code of snntorch 1.0.0 (import_nir), norse 1.1.0 (torch.utils.import_nir) and spikingjelly 2.0.0
(activation_based.nir_exchange).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nirbridge.network.model import Network
from nirbridge.network.neurons import Neuron

TEXTS: Mapping[str, str] = {
    "a": "the threshold adapts: plain NIR has none that does",
    "b": "the bias of a recurrence acts one time step late",
    "c": "spikes at v >= threshold where the original needs v > threshold, or the other way round",
    "d": "refractory time: plain NIR has none",
    "f": "its IF is a Leaky of beta = 0.9",
    "i": "the initial state: plain NIR has none",
    "l": "r of a LIF is not read, so its input is weaker by dt/tau",
    "m": "several spikes per time step: the tool sends at most one",
    "n": "the floor of the membrane: plain NIR has none",
    "r": "the reset: the tool resets to a value at once, where the original subtracts, or never resets",
    "t": "dt = 1e-4 s is written into its reader",
    "v": "v_reset is not read: it resets to 0",
}
"""Letter -> what it means."""

_Rule = Callable[[Neuron], bool]


def _any(values: Any) -> bool:
    return bool(np.any(np.asarray(values)))


def _fires(rule: _Rule) -> _Rule:
    return lambda n: n.fires and rule(n)


_COMMON: Mapping[str, _Rule] = {
    "a": lambda n: n.adaptation is not None,
    "d": lambda n: _any(n.refractory_steps > 0),
    "m": _fires(lambda n: n.max_spikes > 1),
    "n": lambda n: n.v_min is not None,
    "r": _fires(lambda n: _any(n.a_mem != 0) and n.reset != "to-value"),
}
_RULES: Mapping[str, Mapping[str, _Rule]] = {
    "snnTorch": {
        **_COMMON,
        "c": _fires(lambda n: n.compare == ">="),
        "f": lambda n: n.kind == "IF",
        "i": lambda n: _any(n.v_init != 0) or _any(n.i_init != 0),
        "v": _fires(lambda n: n.reset == "to-value" and _any(n.v_reset != 0)),
    },
    "Norse": {
        **_COMMON,
        "c": _fires(lambda n: n.compare == ">="),
        "i": lambda n: _any(n.v_init != n.bias / np.where(n.a_mem == 1, 1, 1 - n.a_mem)) or _any(n.i_init != 0),
        "l": lambda n: n.kind in ("LIF", "LI") and _any(~np.isclose(n.g_mem, 1 - n.a_mem)),
        "v": _fires(lambda n: n.reset == "to-value" and _any(n.v_reset != 0)),
    },
    "spikingjelly": {
        **_COMMON,
        "c": _fires(lambda n: n.compare == ">"),
        "i": lambda n: _any(n.v_init != n.v_reset) or _any(n.i_init != 0),
    },
}


def causes(network: Network, tool: str) -> tuple[str, ...]:
    """The letters of what is known to differ, in order."""
    neurons = [p.neuron for p in network.populations]
    found = {letter for letter, rule in _RULES[tool].items() if any(rule(n) for n in neurons)}
    if tool == "snnTorch" and network.dt != 1e-4:
        found.add("t")
    if any(p.is_back and p.bias is not None for p in network.projections):
        found.add("b")
    return tuple(sorted(found))
