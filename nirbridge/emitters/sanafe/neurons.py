"""Integer neurons as SANA-FE's ``leaky_integrate_fire``, whose potentials are multiples of 1/64.

In every time step SANA-FE computes, after the first one::

    v = trunc(64 * v * leak_decay) / 64        towards zero, as ``dec`` of quantization/model.py: v is exact
    v = v + bias + current                     spikes where v > threshold
    v = 0 (hard), v - threshold (soft)         then v is raised to reverse_threshold (saturate)

so an integer v is ``v / 64`` there, and the two agree in every bit. A current has no such rounding
(``current *= input_decay``): where a neuron's current has memory, the runner of the program keeps it, in the chip's
integers, and hands it to the neuron as its bias of the time step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.sanafe.model import GRID
from nirbridge.errors import Diagnostic, quoted
from nirbridge.quantization.decays import dec
from nirbridge.quantization.model import FixedNeuron, FixedPopulation

_NEVER = float(2**30)
"""Threshold of a readout: beyond every potential of 24 bits, and still an integer of 32 bits times 64 after a leak."""
_BELOW = 2.0**-13
"""Smaller than the step of ``v * leak_decay``, 1/4096: a threshold so much lower decides >=, and is cut off again."""


def keeps_current(neuron: FixedNeuron) -> bool:
    """True if any current of the population has memory (du below 4095)."""
    return bool(np.any(neuron.du < 4095))


def neuron_problems(p: FixedPopulation) -> Iterator[Diagnostic]:
    """Everything of a population that SANA-FE's neuron does not compute."""
    n, subject = p.neuron, f"population {quoted(p.name)}"
    held = bool(np.any(n.refractory_steps > 0))
    if n.max_spikes > 1:
        hint = "quantize for a chip with spikes of 0 and 1, for example loihi1"
        yield Diagnostic(subject, f"up to {n.max_spikes} spikes in a time step", "SANA-FE sends one", hint)
    if held and keeps_current(n):
        limit = "SANA-FE drops the input of a neuron that is refractory, and so its current"
        yield Diagnostic(subject, "a refractory period and a current with memory", limit, "leave one of them out")
    if held and n.reset != "zero":
        limit = "SANA-FE keeps the potential of a refractory neuron, a chip holds it at 0"
        yield Diagnostic(subject, f"a refractory period with reset {n.reset!r}", limit, "reset to a value")
    if n.fires_above is not None and n.reset == "subtract" and not _one_threshold(n):
        found = "a spike subtracts another amount than the threshold"
        yield Diagnostic(subject, found, "SANA-FE subtracts the threshold", "choose other weight bits, or reset to 0")
    yield from _width_problems(n, subject)


def _width_problems(n: FixedNeuron, subject: str) -> Iterator[Diagnostic]:
    if max(n.u_bits, n.v_bits) > 24:
        found = f"{max(n.u_bits, n.v_bits)} bits of state"
        yield Diagnostic(subject, found, "24 bits are exact in SANA-FE", "quantize for a chip of at most 24 bits")


def _one_threshold(n: FixedNeuron) -> bool:
    above = np.asarray(n.fires_above) - n.reset_amount
    return bool(np.all((above == 0) | (above == -1)))


def neuron_attributes(p: FixedPopulation) -> dict[str, Array | str]:
    """Attributes of SANA-FE's soma for the neurons of a population, one value or one per neuron."""
    n = p.neuron
    last = (1 << (n.v_bits - 1)) - 1
    low = np.full((), -last) if n.v_min is None else np.maximum(n.v_min, -last)
    found: dict[str, Array | str] = {
        "threshold": _threshold(n),
        "leak_decay": (4096 - n.dv) / 4096,
        "input_decay": np.zeros(()),
        "bias": n.bias / GRID,
        "potential": dec(n.v_init, n.dv) / GRID,  # SANA-FE does not leak in the first time step
        "reverse_threshold": low / GRID,
        "reverse_reset_mode": "saturate",
        "reset_mode": {"zero": "hard", "subtract": "soft", "none": "none"}[n.reset if n.fires else "none"],
    }
    if np.any(n.refractory_steps > 0):
        found["refractory_delay"] = n.refractory_steps + 1  # the time step of the spike counts
    return found


def _threshold(n: FixedNeuron) -> Array:
    if n.fires_above is None:
        return np.full((), _NEVER / GRID)
    if n.reset != "subtract":
        return n.fires_above / GRID
    return np.where(n.fires_above == n.reset_amount, n.reset_amount, n.reset_amount - _BELOW) / GRID


def v_limit(n: FixedNeuron) -> Array | None:
    """The largest potential after a reset for which no clipping at the top is possible; None: it has no effect."""
    last = (1 << (n.v_bits - 1)) - 1
    if not n.fires or n.reset == "none":
        return np.full((), last)
    return last - n.reset_amount if n.reset == "subtract" else None


def of_part(values: Array, size: int, at: Array) -> Array:
    """Values of a population, one or one per neuron, of the neurons ``at``."""
    return np.broadcast_to(np.asarray(values).reshape(-1) if np.ndim(values) else values, (size,))[at]


def part_attributes(attributes: Mapping[str, Array | str], size: int, at: Array) -> dict[str, Array | str]:
    """Attributes of some neurons; one value where all of them have the same."""
    found: dict[str, Array | str] = {}
    for name, values in attributes.items():
        if isinstance(values, str):
            found[name] = values
            continue
        some = of_part(values, size, at)
        found[name] = some[:1].reshape(()) if np.all(some == some[:1]) else some
    return found
