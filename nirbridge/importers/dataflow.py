"""The data flow of a traced torch module in one time step: calls and their inputs, as frozen dataclasses.

Shapes exclude batch and time. A time loop in the user's code becomes one time step: a value of the previous time step
is a ``ValueRef`` with ``previous``. Layers are recorded by operation, not by class: a ``torch.nn.Linear``, a subclass
of it and ``torch.nn.functional.linear`` are all a call of kind ``linear`` that carries its weight.

Kinds of calls and their arguments (arrays are numpy, read-only):

* ``input``: an argument of the module; no inputs.
* ``neuron``: a module with a form; target: the user's module; starts_at_zero (forward gives its first state).
* ``linear``: weight [post, pre], bias [post] or None; acts on the last axis.
* ``conv``: weight [cout, cin // groups, *kernel], bias [cout] or None, stride, padding ((before, after), …), dilation,
  groups.
* ``avg_pool``: kernel, stride (one number per axis), padding ((before, after), …), factor (one over the divisor).
* ``max_pool``: kernel, stride, dilation (one number per axis), padding ((before, after), …); or rows, columns, … of
  ``matrix``; function: its name; is_least: the minimum is meant.
* ``batch_norm``: mean, variance, weight, bias (each [channels], weight and bias may be None), epsilon.
* ``reshape``: no arguments; the shape of the call says it.
* ``gather``: indices [*shape]: flat (row-major) positions in the input (slices, permutations, flips); -1: zero.
* ``pad``: indices as of ``gather``, constant [*shape] that is added.
* ``matrix``: rows, columns, values of a matrix on flat values (rows ascending), shape of its result, factor: a number
  or an array that broadcasts to that shape (sums and means over axes or windows, resampling).
* ``conv_transpose``: weight [cin, cout // groups, *kernel], bias, stride, padding, output_padding, dilation, groups.
* ``concat``: axis, of the shapes without batch.
* ``add``: two inputs of equal shape; signs: a factor for each (1 where absent); is_choice: one of both is 0.
* ``scale``: factor: a number or an array that broadcasts to the shape.
* ``shift``: constant: a number or an array that broadcasts to the shape; sign: a factor on the input.
* ``relu``: no arguments.
* ``pair``: two inputs of equal shape; function: the name of the torch function (a product, a maximum, a comparison).
* ``pointwise``: function: its name; of: the function itself, from an array of values to theirs; reason, hint: texts of
  its refusal.
* ``unknown``: function: the name of a torch function or module without a rule; reason, next_step: texts of the message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.deviations import Deviation
from nirbridge.network.axes import Axes


def place_label(path: str) -> str:
    """A place in a message, from the path of a module within the user's."""
    return f"module {quoted(path)}" if path else "the module's forward"


def distinct(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The problems without those that read the same as one before."""
    return list({str(p): p for p in problems}.values())


@dataclass(frozen=True, slots=True)
class ValueRef:
    """Output ``output`` (flat order, 0 except for neurons) of a call; of the previous time step if ``previous``."""

    call: str
    output: int = 0
    previous: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One call.

    ``name`` is unique, made from ``path``, the path of the module within the user's (``""``: in its own forward).
    ``target`` is the user's module at ``path`` (never the tracer's copy; for a function: the module that called it).
    ``inputs`` are its operands; the states of a neuron are not among them. ``shape``: that of output 0.
    """

    name: str
    path: str
    kind: str
    target: Any
    inputs: tuple[ValueRef, ...]
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    shape: Shape = ()

    @property
    def subject(self) -> str:
        """Its name in a message."""
        return place_label(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class GraphOutput:
    """One value that the module returns in every time step; ``name`` is unique among outputs."""

    name: str
    ref: ValueRef


@dataclass(frozen=True, slots=True)
class LoopSummary:
    """The time loop of forward: ``iterations`` iterations; ``follows``: each takes the next time step.

    ``has_only_part``: it takes the only slice of an axis of its input, as a loop over a single time step does.
    ``time_steps``: the size of the time axis that the loop iterates over, 0 if there is none.
    """

    iterations: int = 1
    follows: bool = False
    has_only_part: bool = False
    time_steps: int = 0

    @property
    def leaves_steps_out(self) -> bool:
        """True if the loop ends before the time axis does."""
        return self.time_steps > self.iterations


@dataclass(frozen=True, slots=True, eq=False)
class DataflowGraph:
    """The data flow of a module in one time step: ``calls`` in order of execution (inputs among them).

    ``notes``: remarks for the user (a folded loop, layers never called …). ``problems``: operations that could not be
    traced; the builder raises them with its own. ``deviations``: differences from the module that the user may
    accept. ``loop``: the time loop. ``axes``: those of the data that forward takes, as ``network.axes``.
    """

    calls: tuple[Operation, ...]
    outputs: tuple[GraphOutput, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    loop: LoopSummary = LoopSummary()
    axes: Axes = ()

    @property
    def inputs(self) -> tuple[Operation, ...]:
        """The calls of kind ``input``."""
        return tuple(c for c in self.calls if c.kind == "input")


def graph_multiplications(flow: DataflowGraph) -> int:
    """Multiplications by weights per time step and sample."""
    return sum(
        int(call.arguments["weight"].size) * math.prod(call.shape[1:] if call.kind == "conv" else call.shape[:-1])
        for call in flow.calls
        if call.kind in ("linear", "conv")
    )
