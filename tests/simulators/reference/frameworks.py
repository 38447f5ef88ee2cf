"""snnTorch and Norse modules as networks, read from the modules' own parameters, and inputs to run both with.

The forms are those of ``docs/simulators-frameworks.md``. Nothing here goes through an exporter of a framework.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity, Operator, Scale

NEURONS, PRE, STEPS = 64, 32, 2000
NAME = "cells"
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
RESETS = {0: "subtract", 1: "to-value", 2: "none"}


def grid_weights(shape: tuple[int, ...], scale: float, seed: int) -> Array:
    """Float32 weights on a 2^-10 grid: sums of fewer than 2^13 of them are exact in any order."""
    values = np.random.default_rng(seed).normal(0.3 * scale, scale, shape)
    return (np.round(values * 1024) / 1024).astype(np.float32)


def random_weights(shape: tuple[int, ...], scale: float, seed: int) -> Array:
    """Float32 weights whose sums depend on the order."""
    return np.random.default_rng(seed).normal(0.3 * scale, scale, shape).astype(np.float32)


def random_spikes(seed: int, density: float = 0.2, steps: int = STEPS) -> Array:
    """Input spikes ``[steps, PRE]``, uint8."""
    return (np.random.default_rng(seed).random((steps, PRE)) < density).astype(np.uint8)


def ordered_currents(spikes: Array, weight: Array) -> Array:
    """``spikes @ weight.T`` in float32 with sources ascending, as semantics demand: ``[steps, post]``.

    A framework's matrix product adds in the order of its BLAS; given these currents it must agree on any weights.
    """
    total = np.zeros((len(spikes), len(weight)), np.float32)
    for source, column in enumerate(weight.T):
        total += spikes[:, source, None].astype(np.float32) * column
    return total


def network_of(record: Neuron, operator: Operator, *recurrent: Projection) -> Network:
    """Input -> operator -> one population (-> itself) -> output; read-outs record v."""
    size = operator.output_shape
    edges = (
        Projection("input", NAME, operator),
        *(replace(p, delay_steps=freeze(np.int64(1)), is_back=True) for p in recurrent),
        Projection(NAME, "output", Identity(size)),
    )
    inputs, outputs = (Port("input", operator.input_shape),), (Port("output", size),)
    return Network(TIMING.dt or 1.0, TIMING, (Population(NAME, size, record),), edges, inputs, outputs)


def dense(weight: Array) -> Dense:
    """All to all."""
    return Dense(freeze(weight))


def wired(record: Neuron) -> Network:
    """``NEURONS`` cells, each with its own current."""
    return network_of(record, Identity((NEURONS,)))


def feedback(operator: Operator, bias: Array | None = None) -> Projection:
    """A projection of the cells onto themselves."""
    return Projection(NAME, NAME, operator, None if bias is None else freeze(bias.astype(np.float64)))


def array(tensor: Any) -> Array:
    """A torch tensor's values."""
    return tensor.detach().numpy()


# --- snnTorch -------------------------------------------------------------------------------------------------------


def snntorch_record(module: Any) -> Neuron:
    """Leaky, Synaptic, RLeaky or Lapicque as the canonical neuron.

    A late subtraction of th at the next step is an early one of th / b: it decays by b before it counts. A late reset
    to zero is an early one for Leaky, which zeroes v before it decays; the others zero the whole new v, input and
    all, so they are silent for one step.
    """
    kind = type(module).__name__
    decay, gain = _lapicque(module) if kind == "Lapicque" else (array(module.beta.clamp(0, 1)), 1.0)
    theta, reset = array(module.threshold), RESETS[int(module.reset_mechanism_val)]
    late = getattr(module, "reset_delay", True)
    synaptic = kind == "Synaptic"
    return neuron(
        "CubaLIF" if synaptic else "LIF",
        a_mem=decay,
        g_mem=gain,
        a_syn=array(module.alpha.clamp(0, 1)) if synaptic else 0.0,
        theta=theta,
        reset=reset,
        reset_amount=theta.astype(np.float64) / decay if reset == "subtract" and late else theta,
        refractory_steps=1 if reset == "to-value" and late and kind != "Leaky" else 0,
    )


def _lapicque(module: Any) -> tuple[Array, Array]:
    """1 - dt / RC and the gain of the input, both in float32 as the module computes them."""
    rate = 1 / (module.R * module.C)
    return array(1 - module.time_step / (module.R * module.C)), array(module.R * rate * module.time_step)


def snntorch_feedback(module: Any) -> Projection:
    """What an RLeaky feeds back: a matrix with a bias, or one weight per neuron."""
    if module.all_to_all:
        return feedback(dense(array(module.recurrent.weight)), array(module.recurrent.bias))
    return feedback(Scale(freeze(np.broadcast_to(array(module.recurrent.V), (NEURONS,)).copy())))


def run_snntorch(module: Any, currents: Array) -> tuple[Array, Array]:
    """(spikes, membranes as the module returns them), each ``[steps, cells]``."""
    import torch

    states: list[Any] = {"Synaptic": [None, None], "RLeaky": [None, None]}.get(type(module).__name__, [None])
    spikes, membranes = [], []
    with torch.no_grad():
        for current in torch.from_numpy(np.asarray(currents)):
            if type(module).__name__ == "RLeaky":
                states = list(module(current, *states))
                spikes.append(states[0])
            else:
                spike, *states = module(current, *states)
                spikes.append(spike)
            membranes.append(states[-1])
    return array(torch.stack(spikes)).astype(np.uint8), array(torch.stack(membranes))


# --- Norse ----------------------------------------------------------------------------------------------------------


def norse_record(module: Any) -> Neuron:
    """LIFBoxCell, LIFCell, LIFRecurrentCell, IAFCell or LICell as the canonical neuron (Euler)."""
    kind = type(module).__name__
    p = module.p._asdict() if hasattr(module.p, "_asdict") else vars(module.p)
    value = {k: array(p[k]).astype(np.float64) for k in p if k.startswith(("tau", "v_"))}
    if kind == "IAFCell":
        return neuron("IF", theta=value["v_th"], v_reset=value["v_reset"], v_init=value["v_reset"])
    g = module.dt * value["tau_mem_inv"]
    leak = value["v_leak"]
    record = neuron("LIF", a_mem=1 - g, g_mem=g, bias=g * leak, v_init=leak)
    if kind != "LIFBoxCell":
        record = neuron(
            "CubaLIF", a_mem=1 - g, g_mem=g, bias=g * leak, v_init=leak, a_syn=1 - module.dt * value["tau_syn_inv"]
        )
    if kind == "LICell":
        return replace(record, kind="CubaLI", theta=None)
    return replace(record, theta=freeze(value["v_th"]), v_reset=freeze(value["v_reset"]))


def run_norse(module: Any, inputs: Array) -> tuple[Array, Array]:
    """(output, membranes after the reset), each ``[steps, cells]``; the output of LICell is its voltage."""
    import torch

    state, outputs, membranes = None, [], []
    with torch.no_grad():
        for current in torch.from_numpy(np.asarray(inputs)):
            output, state = module(current, state)
            outputs.append(output)
            membranes.append(state.v)
    return array(torch.stack(outputs)), array(torch.stack(membranes))


def cases(**options: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Every combination of the options."""
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]
