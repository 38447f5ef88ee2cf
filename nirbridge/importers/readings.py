"""What a framework's module means: the seam between the tracer, the frameworks' readers and the builder.

A framework's file offers ``forms() -> Mapping[type, Form]`` and imports the framework inside. Classes are looked up
along the method resolution order, so a subclass that overrides ``forward`` is refused (see ``form_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge.arrays import Array
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Operator

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """What a population sends to itself: ``operator`` from its shape to its shape, ``bias`` of its shape or None.

    The bias acts from the first step on.
    """

    operator: Operator
    bias: Array | None = None
    delay_steps: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A module as a canonical neuron.

    ``operator``: what the module itself does to its input before all else, from its input's shape to the population's
    (a cell with input weights of its own; None: nothing).
    ``scale_in``: a factor on the input that the neuron's own gain can not carry (None: 1). ``scale_out``: what one
    spike is worth behind the neuron (None: 1). ``bias``: a constant that is added to the input (None: 0).
    ``notes``: what is not exact and why, in words.
    """

    neuron: Neuron
    recurrences: tuple[Recurrence, ...] = ()
    scale_in: Array | float | None = None
    scale_out: Array | float | None = None
    bias: Array | None = None
    notes: tuple[str, ...] = ()
    operator: Operator | None = None


Reader = Callable[[Any, Shape, float], Reading]
"""``read(module, shape, dt)``; raises ModelError with EVERY problem of that module (see ``module_problem``)."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a neuron class is called and read.

    Its real forward is run while tracing (on a copy), so that it may return what it likes. All tensors that it returns
    count in flat order (tuples, named tuples, lists, dicts entered): ``spikes`` is the position of its output;
    ``potential`` that of the membrane, if it returns one (a user may return it from the model). A module that returns
    fewer tensors has only the first ones. Positions may depend on the module: then they are functions of it.

    The input is the first positional argument; every other tensor argument is a state, and must be what the module
    itself returned in the step before (or a constant at the first step).

    ``layout``: the leading axes of input and output before the neuron's shape, words of ``batch`` and ``time`` (a
    sequence module has a time axis), or a function of the module that gives them; None: no time axis.
    """

    read: Reader
    spikes: int | Callable[[Any], int | None] = 0
    potential: int | Callable[[Any], int | None] | None = None
    layout: tuple[str, ...] | Callable[[Any], tuple[str, ...] | None] | None = None


Forms = Mapping[type, Form]


def form_of(module: Any, forms: Forms) -> Form | None:
    """The form of the module's class: its own, or that of the nearest base whose ``forward`` it still has."""
    for cls in type(module).__mro__:
        if cls in forms:
            return forms[cls] if type(module).forward is cls.forward else None
    return None
