"""snnTorch 1.0.0: Leaky and Synaptic, each where ``importers.frameworks.snntorch`` shows it to be exact.

``Leaky`` adds its input to a decaying potential; a late subtraction of th is one of th / beta at once, a reset to zero
is the same late or early. ``Synaptic`` filters its input first; a late reset to zero loses a whole time step (a rest of
one), an early one does not. Neither has a gain, a bias, a floor, a rest of more steps, or a first state other than 0.
"""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.modules.outside import Rewritten, as_float32, rewritten
from nirbridge.emitters.modules.plan import ELSEWHERE, Framework, HeldNeuron, LayerCall
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron, Reset

_MECHANISMS = {"subtract": "subtract", "to-value": "zero", "none": "none"}
_NUMBERS = {"subtract": 0, "to-value": 1, "none": 2}


def hold(population: Population, dt: float) -> HeldNeuron:
    """A population as Leaky or Synaptic.

    Raises:
        ModelError: every property that neither has.
    """
    found = rewritten(population).unit_gain()
    found = found.from_rest() if population.neuron.fires else found
    found = found.without_bias().comparing(">")
    if found.neuron.reset == "subtract" and not _subtracts_itself(found.neuron):
        found = found.without_subtraction()
    ModelError.raise_all(_problems(population, found.neuron))
    is_synaptic = bool(np.any(found.neuron.a_syn) or np.any(found.neuron.refractory_steps)) or found.neuron.has_synapse
    return _synaptic(population, found) if is_synaptic else _leaky(population, found)


def _subtracts_itself(n: Neuron) -> bool:
    """True where the class's own late subtraction takes off the amount."""
    if n.theta is None or np.any(n.a_mem == 0):
        return False
    theta, decay = as_float32(n.theta), as_float32(n.a_mem)
    return bool(np.all(theta >= 0)) and bool(np.all(theta / decay == n.reset_amount))


def _problems(population: Population, n: Neuron) -> list[Diagnostic]:
    """What neither class has."""
    subject = f"population {quoted(population.name)}"
    filtered = bool(np.any(n.a_syn))
    faults = {
        f"{n.max_spikes} spikes in a time step": n.max_spikes > 1,
        "a decay outside of 0 to 1": bool(np.any((n.a_mem < 0) | (n.a_mem > 1) | (n.a_syn < 0) | (n.a_syn > 1))),
        "a current that does not start at 0": bool(np.any(n.i_init)) and filtered,
        "a potential that does not start at 0": bool(np.any(n.v_init)),
        "a bias after a current of its own": bool(np.any(n.bias)),
        "a reset to another value than its first potential": n.reset == "to-value" and bool(np.any(n.v_reset)),
        "a reset by another amount than threshold / decay, after a current of its own": _other_amount(n, filtered),
        "a threshold below 0 with a reset": _resets_at_once(n),
        f"a rest of {_range(n.refractory_steps)} time steps after a spike": _other_rest(n),
    }
    limit = "no class of snntorch computes it"
    return [Diagnostic(subject, fault, limit, ELSEWHERE) for fault, is_there in faults.items() if is_there]


def _other_amount(n: Neuron, filtered: bool) -> bool:
    return n.reset == "subtract" and (filtered or n.max_spikes > 1) and not _subtracts_itself(n)


def _resets_at_once(n: Neuron) -> bool:
    return n.theta is not None and n.reset != "none" and bool(np.any(n.theta < 0))


def _other_rest(n: Neuron) -> bool:
    """True unless there is none, or one time step for all after a reset to a value."""
    steps = n.refractory_steps
    is_one = bool(np.all(steps == 1)) and n.reset == "to-value"
    return n.fires and bool(np.any(steps)) and not is_one


def _range(values: Array) -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low} to {high}"


def _leaky(population: Population, found: Rewritten) -> HeldNeuron:
    n = found.neuron
    options, tensors = _options(n, beta=n.a_mem)
    step = "spk_{id}, mem_{id} = self.{id}({current}, mem_{id})"
    return _held(population, found, f"snn.Leaky({options})", tensors, "mem_{id} = self.{id}.reset_mem()", step)


def _synaptic(population: Population, found: Rewritten) -> HeldNeuron:
    n = found.neuron
    is_early = n.reset == "to-value" and not np.any(n.refractory_steps)
    options, tensors = _options(n, alpha=n.a_syn, beta=n.a_mem)
    options += ", reset_delay=False" if is_early else ""
    start = "syn_{id}, mem_{id} = self.{id}.reset_mem()"
    step = "spk_{id}, syn_{id}, mem_{id} = self.{id}({current}, syn_{id}, mem_{id})"
    return _held(population, found, f"snn.Synaptic({options})", tensors, start, step)


def _options(n: Neuron, **decays: Array) -> tuple[str, dict[str, Array]]:
    """Arguments as text, and the whole state dict of the neuron."""
    reset: Reset = n.reset if n.fires else "none"
    theta = n.theta if n.theta is not None else np.ones(())
    values = {name: np.asarray(v, np.float32) for name, v in {**decays, "threshold": theta}.items()}
    texts = [f"{name}={_text(v)}" for name, v in values.items()]
    texts += [f'reset_mechanism="{_MECHANISMS[reset]}"'] if reset != "subtract" else []
    fixed = {"graded_spikes_factor": np.float32(1), "reset_mechanism_val": np.int64(_NUMBERS[reset])}
    return ", ".join(texts), {**values, **{name: np.asarray(v) for name, v in fixed.items()}}


def _text(values: Array) -> str:
    """One number, or as many ones as the state dict replaces."""
    return repr(float(values)) if values.ndim == 0 else f"torch.ones({', '.join(map(str, values.shape))})"


def _held(
    population: Population, found: Rewritten, text: str, tensors: dict[str, Array], start: str, step: str
) -> HeldNeuron:
    output = "spk_{id}" if population.neuron.fires else "mem_{id}"
    return HeldNeuron(LayerCall(text, tensors), found.neuron, start, step, output, found.outside, found.notes)


SNNTORCH = Framework(
    name="snntorch",
    package="snntorch",
    imports=("import snntorch as snn",),
    hold=hold,
    surrogate="snnTorch's default, the derivative of an arc tangent; `spike_grad=` of each neuron sets another. "
    "Its spikes are float32, which layers of float64 do not take",
)
