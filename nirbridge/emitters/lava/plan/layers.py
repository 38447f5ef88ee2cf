"""A population's integers as a neuron process of Lava, or as the custom one; widths are checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.lava.plan.model import Argument, LavaLayer
from nirbridge.errors import Diagnostic, quoted
from nirbridge.quantization.model import FixedNeuron, FixedPopulation, QuantizedNetwork

VTH_MAX = 2**17 - 1
"""Largest threshold of a LIF: 17 bits, unsigned."""
LIF_BITS = 24
"""Width of u and v of Lava's LIF; a chip with others has neurons of its own."""
STATE_BITS_MAX = 32
"""Widest u and v that the arrays of a program hold."""


def lava_layer(id: str, population: FixedPopulation, v_max: int | None = None) -> LavaLayer:
    """The process of one population; ``v_max``: what v is proved never to exceed (for a read-out)."""
    n = population.neuron
    shape = population.shape or (1,)
    state = {"u": uniform_number(n.u_init), "v": uniform_number(n.v_init)}
    vth = n.vth if n.vth is not None else np.int64(VTH_MAX)
    silent = n.fires or (v_max is not None and v_max <= VTH_MAX << 6)
    if population.process == "lif" and _as_wide_as_lif(n) and silent:
        plain = {"du": int(n.du), "dv": int(n.dv), "vth": int(vth)}
        bias = {"bias_mant": uniform_number(n.bias_mant), "bias_exp": n.bias_exp}
        return LavaLayer(id, "LIF", shape, {"shape": shape, **plain, **bias, **state})
    arguments: dict[str, Argument] = {
        "shape": shape,
        "du": uniform_number(n.du),
        "dv": uniform_number(n.dv),
        "bias": uniform_number(n.bias),
        "fires": n.fires,
        "fires_above": 0 if n.fires_above is None else uniform_number(n.fires_above),
        "reset": n.reset,
        "reset_amount": uniform_number(n.reset_amount),
        "max_spikes": n.max_spikes,
        "spike_size": uniform_number(n.spike_size),
        "refractory_steps": uniform_number(n.refractory_steps),
        "u_bits": n.u_bits,
        "v_bits": n.v_bits,
        **state,
    }
    return LavaLayer(id, "IntegerNeuron", shape, arguments)


def v_max(quantized: QuantizedNetwork, name: str) -> int | None:
    """The greatest v that the quantizer proved for a population; None where it proved nothing."""
    for entry in quantized.report:
        if entry.population == name and entry.bounds.proved:
            return entry.bounds.v[1]
    return None


def register_problems(population: FixedPopulation) -> Iterator[Diagnostic]:
    """Integers that do not fit their registers, which Lava on a CPU would accept silently."""
    n = population.neuron
    plain = population.process == "lif" and _as_wide_as_lif(n)
    half = 1 << (n.v_bits - 1)
    limits: list[tuple[str, Array, int, int]] = [
        ("du", n.du, 0, 4095),
        ("dv", n.dv, 0, 4095 if plain else 4096),
        *_bias_limits(n),
        ("v_init", n.v_init, -half + 1, half - 1),
        ("u_init", n.u_init, -(1 << (n.u_bits - 1)) + 1, 1 << (n.u_bits - 1)),
        ("refractory_steps", n.refractory_steps, 0, 2**31 - 1),
    ]
    limits += [("width of u and v", np.array([n.u_bits, n.v_bits]), 1, STATE_BITS_MAX)]
    if plain and n.vth is not None:
        limits.append(("vth", n.vth, 0, VTH_MAX))
    subject = f"population {quoted(population.name)}"
    for name, values, low, high in limits:
        lowest, highest = int(np.min(values)), int(np.max(values))
        if lowest < low or highest > high:
            found = f"{name} from {lowest:,} to {highest:,}"
            yield Diagnostic(subject, found, f"the register holds {low:,} to {high:,}", "quantize it again")
    if plain and not _is_plain(population):
        limit = "one du, dv and vth, reset to zero, no refractory time"
        yield Diagnostic(subject, "is marked as a plain LIF, but is not one", limit, "mark it 'custom'")


def _bias_limits(n: FixedNeuron) -> list[tuple[str, Array, int, int]]:
    """Of Loihi's registers; of a chip with other widths the bias lies within the membrane."""
    if _as_wide_as_lif(n):
        return [("bias_mant", n.bias_mant, -4096, 4095), ("bias_exp", np.asarray(n.bias_exp), 0, 7)]
    half = 1 << (n.v_bits - 1)
    return [("bias", n.bias, -half + 1, half - 1)]


def _is_plain(population: FixedPopulation) -> bool:
    n = population.neuron
    is_shared = all(a is None or a.ndim == 0 for a in (n.du, n.dv, n.fires_above))
    grid = n.fires_above is None or not np.any(n.fires_above % 64)
    reset = n.reset == "zero" or not n.fires
    return is_shared and grid and reset and n.max_spikes == 1 and not np.any(n.refractory_steps)


def _as_wide_as_lif(n: FixedNeuron) -> bool:
    return n.u_bits == n.v_bits == LIF_BITS


def uniform_number(values: Array) -> float | int | Array:
    """A plain number where all elements are equal, which is easier to read; else the array."""
    values = np.asarray(values)
    return values.flat[0].item() if values.size and bool(np.all(values == values.flat[0])) else values
