"""PyTorch alone: one class of neurons, which computes whatever the reference simulates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import Framework, HeldNeuron, LayerCall
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron

REALS = ("a_mem", "g_mem", "bias", "theta", "a_syn", "g_syn", "v_reset", "reset_amount", "v_init", "i_init", "v_min")
"""Fields of a neuron that are parameters of the class; ``theta`` and ``v_min`` are left out where they are None."""


def hold(population: Population, dt: float) -> HeldNeuron:
    """Any population."""
    n = population.neuron
    tensors = {**_reals(n), "refractory_steps": np.asarray(n.refractory_steps)}
    return HeldNeuron(
        call=LayerCall(_text(population, tensors), tensors),
        neuron=n,
        start="state_{id} = self.{id}.start({like})",
        step="spk_{id}, state_{id} = self.{id}({current}, state_{id})",
    )


def _reals(n: Neuron) -> dict[str, Array]:
    found: Mapping[str, Array | None] = {name: getattr(n, name) for name in REALS}
    return {name: np.asarray(values) for name, values in found.items() if values is not None}


def _text(population: Population, tensors: Mapping[str, Array]) -> str:
    """The call; a value of its own per neuron is named."""
    n = population.neuron
    options = [str(population.shape)]
    options += [] if n.fires else ["fires=False"]
    options += [f"reset={n.reset!r}"] if n.reset != "to-value" else []
    options += [f"compare={n.compare!r}"] if n.compare != ">" else []
    options += [f"max_spikes={n.max_spikes}"] if n.max_spikes != 1 else []
    options += ["has_floor=True"] if n.v_min is not None else []
    each = tuple(name for name, values in tensors.items() if values.ndim)
    options += [f"each={each}"] if each else []
    return f"Neurons({', '.join(options)})"


TORCH = Framework(
    name="torch",
    package="torch",
    imports=(),
    hold=hold,
    delays=True,
    support=("torch_neurons.py",),
    records=MappingProxyType({"s": (0,), "v": (1, 0)}),
    surrogate="the derivative of a fast sigmoid, 1 / (1 + slope d)^2, d the distance to the thresholds",
)
