"""What a framework's module means: the seam between the tracer, the frameworks' readers and the builder.

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
    """What a population sends to itself: ``operator`` from its shape to its shape, ``bias`` of its shape or None.

    The bias acts from the first step on.
    """

    operator: Operator
    bias: Array | None = None
    delay_steps: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ImportedNeuron:
    """A module as a canonical neuron.

    ``operator``: what the module itself does to its input before all else, from its input's shape to the population's
    (a cell with input weights of its own; None: nothing).
    ``scale_in``: a factor on the input that the neuron's own gain can not carry (None: 1). ``scale_out``: what one
    spike is worth behind the neuron (None: 1). ``bias``: a constant that is added to the input (None: 0).
    ``notes``: what the reader should know, in words. ``deviations``: names of ``deviations.DEVIATIONS`` with what was
    found.
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
"""``read(module, shape, dt)``; raises ModelError with EVERY problem of that module (see ``module_values.problem``)."""


@dataclass(frozen=True, slots=True)
class NeuronSpec:
    """How a neuron class is called and read.

    Its real forward is run while tracing (on a copy), so that it may return what it likes. All tensors that it returns
    count in flat order (tuples, named tuples, lists, dicts entered): ``spikes`` is the position of its output;
    ``potential`` that of the membrane, if it returns one (a user may return it from the model). A module that returns
    fewer tensors has only the first ones. Positions may depend on the module: then they are functions of it.

    The input is the first positional argument; every other tensor argument is a state, and must be what the module
    itself returned in the step before (or a constant at the first step).

    ``layout``: the leading axes of input and output before the neuron's shape, words of ``batch`` and ``time`` (a
    sequence module has a time axis), or a function of the module that gives them; None: no time axis.

    ``is_refusal``: ``read`` does nothing but say why the class has no form, whatever it is given.
    """

    read: NeuronReader
    spikes: int | Callable[[Any], int | None] = 0
    potential: int | Callable[[Any], int | None] | None = None
    layout: tuple[str, ...] | Callable[[Any], tuple[str, ...] | None] | None = None
    is_refusal: bool = False


NeuronSpecs = Mapping[type, NeuronSpec]


_HARMLESS = frozenset({"_get_name", "extra_repr", "supported_backends"})
"""What a subclass may define anew without changing what its neurons do (beside its ``__init__``)."""


def neuron_spec_of(module: Any, forms: NeuronSpecs) -> NeuronSpec | None:
    """The form of the module's class, or of its nearest base; a subclass that changes what that does is refused."""
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
    """Methods and properties of ``base`` that ``cls`` defines anew."""
    for name, value in vars(cls).items():
        is_code = callable(value) or isinstance(value, property | staticmethod | classmethod)
        counts = name == "__call__" or not (name.startswith("__") or name in _HARMLESS)
        if is_code and counts and getattr(base, name, value) is not value:
            yield name


def _refused(base: type, names: Sequence[str]) -> NeuronSpec:
    def read(module: Any, shape: Shape, dt: float) -> NoReturn:
        found = f"its class defines {', '.join(names)} of {base.__name__} anew"
        raise ModelError.of(
            type(module).__name__, found, "only the framework's own code has a known form", f"use {base.__name__}"
        )

    return NeuronSpec(read, is_refusal=True)
