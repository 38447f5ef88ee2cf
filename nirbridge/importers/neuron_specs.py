"""Specifications of neuron classes: the interface between the tracer, the frameworks' readers and the builder.

A framework's file offers ``neuron_specs() -> Mapping[type, NeuronSpec]`` and imports the framework inside. Classes are
looked up along the method resolution order; a subclass that overrides a method of its base is refused (see
``neuron_spec_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Operator


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """A recurrent connection: ``operator`` from the population's shape to itself, ``bias`` of its shape or None.

    The bias acts from the first time step on.
    """

    operator: Operator
    bias: Array | None = None
    delay_steps: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ImportedNeuron:
    """A module as a canonical neuron.

    ``operator``: the module's own operator on its input, from the input's shape to the population's (input weights of a
    cell; None: none).
    ``scale_in``: a factor on the input that the neuron's gain cannot express (None: 1). ``scale_out``: the value of one
    output spike (None: 1). ``bias``: a constant that is added to the input (None: 0).
    ``notes``: remarks for the user. ``deviations``: names of ``deviations.DEVIATIONS``, each with a description.
    """

    neuron: Neuron
    recurrences: tuple[Recurrence, ...] = ()
    scale_in: Array | float | None = None
    scale_out: Array | float | None = None
    bias: Array | None = None
    notes: tuple[str, ...] = ()
    operator: Operator | None = None
    deviations: tuple[tuple[str, str], ...] = ()


NeuronReader = Callable[[Any, Shape, float], ImportedNeuron]
"""``read(module, shape, dt)``; raises ModelError with EVERY problem of that module (see ``parameters.reader``)."""


@dataclass(frozen=True, slots=True)
class NeuronSpec:
    """How a neuron class is called and converted.

    Its own forward is run while tracing (on a copy). The tensors that it returns are numbered in flat order (through
    tuples, lists and dicts): ``spikes`` is the position of its output, ``potential`` that of the membrane if it returns
    one (a user may return it from the model). A module that returns fewer tensors has only the first ones. Positions
    may be functions of the module.

    The input is the first positional argument; every other tensor argument is a state, and must be the one that the
    module returned in the previous time step (or a constant in the first time step).

    ``layout``: the leading axes of input and output before the neuron's shape, words of ``batch`` and ``time`` (a
    sequence module has a time axis), or a function of the module; None: no time axis.

    ``is_refusal``: ``read`` always raises, with the reason why the class is not supported.
    """

    read: NeuronReader
    spikes: int | Callable[[Any], int | None] = 0
    potential: int | Callable[[Any], int | None] | None = None
    layout: tuple[str, ...] | Callable[[Any], tuple[str, ...] | None] | None = None
    is_refusal: bool = False


NeuronSpecs = Mapping[type, NeuronSpec]


_HARMLESS = frozenset({"_get_name", "extra_repr", "supported_backends"})
"""Methods that a subclass may override without changing the neuron (besides ``__init__``)."""


def neuron_spec_of(module: Any, forms: NeuronSpecs) -> NeuronSpec | None:
    """The form of the module's class, or of its nearest base; a subclass that overrides its methods is refused."""
    classes = type(module).__mro__
    base = next((cls for cls in classes if cls in forms), None)
    if base is None:
        return None
    changed = [name for cls in classes[: classes.index(base)] for name in _changes(cls, base)]
    return _refused(base, changed) if changed else forms[base]


def is_refused(module: Any, forms: NeuronSpecs) -> bool:
    """True for a module of a class that is refused by name."""
    form = neuron_spec_of(module, forms)
    return form is not None and form.is_refusal


def _changes(cls: type, base: type) -> Iterator[str]:
    """Methods and properties of ``base`` that ``cls`` overrides."""
    for name, value in vars(cls).items():
        is_code = callable(value) or isinstance(value, property | staticmethod | classmethod)
        counts = name == "__call__" or not (name.startswith("__") or name in _HARMLESS)
        if is_code and counts and getattr(base, name, value) is not value:
            yield name


def _refused(base: type, names: Sequence[str]) -> NeuronSpec:
    def read(module: Any, shape: Shape, dt: float) -> NoReturn:
        found = f"its class defines {', '.join(names)} of {base.__name__} anew"
        raise ModelError.of(
            type(module).__name__, found, "only the framework's own classes are supported", f"use {base.__name__}"
        )

    return NeuronSpec(read, is_refusal=True)
