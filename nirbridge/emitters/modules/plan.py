"""A module as it is planned: layers, populations in the order of their calls, and the paths between them.

The interface of a framework is ``Framework``: one function from a population to ``HeldNeuron``, which refuses by name
whatever the framework's classes do not compute. All else, from layers to files and runs, is common to all frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.target import other_fields
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Neuron

ELSEWHERE = "emit --to torch, which holds every neuron"
_NONE: Mapping[str, Array] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LayerCall:
    """The text that makes a layer or a neuron, and its entries of the state dict, by their name within it."""

    text: str
    tensors: Mapping[str, Array] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """Arithmetic in front of a neuron that its class does not have: ``gain * current + offset - back * s[t - 1]``.

    Each is None, or one number or one per neuron. ``back`` takes the reset by subtraction off in the next time step.
    """

    gain: Array | None = None
    offset: Array | None = None
    back: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeldNeuron:
    """A population as a framework's class holds it.

    ``call`` makes the neuron. ``start`` and ``step`` are lines of forward, with ``{id}`` for the neuron's attribute and
    ``{current}`` for its input; ``step`` defines ``spk_{id}``, or for a readout the variable that ``output`` names.
    ``start`` may use ``{like}``, an input ``[time, batch, …]``. ``neuron``: the record that the class computes, without
    ``outside``. ``notes``: what was moved or rounded, one sentence each. ``own_class``: the class that
    ``call`` makes as ``Neurons``, ``NAME`` in this text, where the framework has none; equal ones become one.
    """

    call: LayerCall
    neuron: Neuron
    start: str
    step: str
    output: str = "spk_{id}"
    outside: Outside = field(default_factory=Outside)
    notes: tuple[str, ...] = ()
    own_class: str = ""


@dataclass(frozen=True, slots=True)
class Framework:
    """What an emitter needs to know of a framework.

    ``name``: of the emitter and of the importer that reads the module again. ``package``: the distribution to install.
    ``imports``: lines at the head of ``model.py``. ``hold``: a population as the framework's class, for time steps of a
    ``dt`` in seconds; it raises ModelError with every reason why there is none. ``carries``: optional fields of a
    neuron that some class has, None: every field. ``delays``: whether the module holds delays other than those of one
    time step. ``support``: templates whose text follows the imports; ``blocks``: lines of their marks. ``records``:
    variables of a population that a run records, each with its place in what the neuron returns. ``reset``: lines that
    begin forward. ``surrogate``: a sentence on the gradient of a spike, for the README.
    """

    name: str
    package: str
    imports: tuple[str, ...]
    hold: Callable[[Population, float], HeldNeuron]
    carries: tuple[str, ...] | None = ()
    delays: bool = False
    support: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    records: Mapping[str, tuple[int | str, ...]] = field(default_factory=lambda: MappingProxyType({"s": (0,)}))
    reset: tuple[str, ...] = ()
    surrogate: str = ""

    def held(self, population: Population, dt: float) -> HeldNeuron:
        """``hold``, with a refusal of each optional field that no class carries."""
        limit, subject = f"no class of {self.name} computes it", f"population {quoted(population.name)}"
        others = [] if self.carries is None else other_fields(population.neuron, *self.carries)
        problems = [Diagnostic(subject, other, limit, ELSEWHERE) for other in others]
        try:
            found = self.hold(population, dt)
        except ModelError as error:
            raise ModelError(*problems, *error.problems) from None
        ModelError.raise_all(problems)
        return found


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """An attribute of the module: a layer or neuron, or a plain parameter or buffer of a shape."""

    id: str
    call: LayerCall
    comment: str = ""
    kind: Literal["module", "parameter", "buffer"] = "module"

    @property
    def tensors(self) -> dict[str, Array]:
        """Its entries of the state dict of the whole module."""
        return {f"{self.id}.{key}" if key else self.id: np.asarray(a) for key, a in self.call.tensors.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSynapse:
    """A projection: members that it needs, and its path as texts with ``{}`` for the value so far.

    ``source_delay`` and ``target_delay``: one number of time steps, or the buffer that holds one per element. ``parts``
    names the member of each part of the operator ("" for a part without weights), ``bias`` that of a separate bias.
    """

    id: str
    projection: Projection
    members: tuple[PlannedMember, ...]
    path: tuple[str, ...]
    parts: tuple[str, ...]
    bias: str
    source_delay: int | str = 0
    target_delay: int | str = 0


@dataclass(frozen=True, slots=True, eq=False)
class PlannedNeurons:
    """A population with its identifier."""

    id: str
    population: Population
    held: HeldNeuron
    members: tuple[PlannedMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModulePlan:
    """Everything of a module; ``ids``: the identifier of each input, population and output by its name.

    ``neurons`` are in the order of their calls, ``synapses`` in that of the network's projections. ``classes``: names
    of the module's own classes of neurons by their texts.
    """

    network: Network
    framework: Framework
    ids: Mapping[str, str]
    neurons: tuple[PlannedNeurons, ...]
    synapses: tuple[PlannedSynapse, ...]
    classes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def members(self) -> tuple[PlannedMember, ...]:
        """Every attribute of the module, layers in front of the neurons that they lead to."""
        found: list[PlannedMember] = []
        targets: tuple[Population | Port, ...] = (*(n.population for n in self.neurons), *self.network.outputs)
        neurons = {n.population.name: n for n in self.neurons}
        for target in targets:
            found += [m for s in self.synapses if s.projection.target == target.name for m in s.members]
            found += neurons[target.name].members if target.name in neurons else ()
        return tuple(found)

    @property
    def tensors(self) -> dict[str, Array]:
        """The state dict of the module."""
        return {key: array for member in self.members for key, array in member.tensors.items()}

    def shape_of(self, name: str) -> Shape:
        """The shape of an input, a population or an output."""
        ends = (*self.network.inputs, *self.network.populations, *self.network.outputs)
        return next(x.shape for x in ends if x.name == name)
