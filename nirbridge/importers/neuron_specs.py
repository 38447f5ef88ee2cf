"""Neuron classes of frameworks: the interface of tracer, readers and builder, and parameters of modules as arrays.

A framework's file offers ``neuron_specs() -> Mapping[type, NeuronSpec]`` and imports the framework inside. Classes are
looked up along the method resolution order; a subclass that overrides a method of its base is refused (see
``neuron_spec_of``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.importers.module_checks import Deviation
from nirbridge.network.axes import Axes
from nirbridge.network.neurons import Compare, Neuron
from nirbridge.network.operators import Operator, Scale


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """A recurrent connection with a delay of one time step.

    ``operator`` leads from the population's shape to itself, ``bias`` has its shape or is None. The bias acts from the
    first time step on.
    """

    operator: Operator
    bias: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ImportedNeuron:
    """A module as a canonical neuron.

    ``operator``: the module's own operator on its input, from the input's shape to the population's (input weights of a
    cell; None: none).
    ``input_delay``: time steps by which all that arrives, recurrences included, acts later.
    ``scale_out``: the value of one output spike (None: 1). ``bias``: a constant that is added to the input from
    the first time step on (None: 0).
    ``deviations``: names of ``module_checks.DEVIATIONS``, each with a description.
    ``membrane``: whether the module shows its membrane before the reset (``u``) or after it (``v``); empty: not known.
    """

    neuron: Neuron
    recurrences: tuple[Recurrence, ...] = ()
    scale_out: Array | float | None = None
    bias: Array | None = None
    operator: Operator | None = None
    deviations: tuple[tuple[str, str], ...] = ()
    input_delay: int = 0
    membrane: str = ""


NeuronReader = Callable[[Any, Shape, float], ImportedNeuron]
"""``read(module, shape, dt)``; raises ModelError with EVERY problem of that module (see ``reader``)."""


@dataclass(frozen=True, slots=True)
class NeuronSpec:
    """Call and conversion of a neuron class.

    Its own forward is run while tracing (on a copy). The tensors that it returns are numbered in flat order (through
    tuples, lists and dicts): the first one holds its spikes, ``potential`` is the position of the membrane if it
    returns one (a user may return it from the model). A module that returns fewer tensors has only the first ones.

    The input is the first positional argument; every other tensor argument is a state, and must be the one that the
    module returned in the previous time step (or a constant in the first time step).

    ``layout``: the leading axes of input and output before the neuron's shape, words of ``batch`` and ``time`` (a
    sequence module has a time axis), or a function of the module; None: no time axis.

    ``membrane``: the attribute that holds the membrane after a call, of a module that does not return it; it counts as
    the tensor after those returned, if it has their shape.

    ``is_refusal``: ``read`` always raises, with the reason why the class is not supported. ``has_dt``: attribute ``dt``
    of the module is the seconds per time step that its decays were computed with.
    """

    read: NeuronReader
    potential: int | None = None
    layout: tuple[str, ...] | Callable[[Any], tuple[str, ...] | None] | None = None
    is_refusal: bool = False
    has_dt: bool = False
    membrane: str = ""


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
    if not changed:
        return forms[base]
    found = f"its class defines {', '.join(changed)} of {base.__name__} anew"
    return _refusal(found, "only the framework's own classes are supported", f"use {base.__name__}")


def is_overriding(cls: type, forms: NeuronSpecs) -> bool:
    """True for a class that overrides methods of a neuron class."""
    base = next((base for base in cls.__mro__ if base in forms), None)
    return base is not None and any(
        True for inner in cls.__mro__[: cls.__mro__.index(base)] for _ in _changes(inner, base)
    )


def layout_of(form: NeuronSpec, module: Any) -> tuple[str, ...] | None:
    """The leading axes that a neuron wants."""
    return form.layout(module) if callable(form.layout) else form.layout


def module_dt(module: Any, forms: NeuronSpecs) -> float | None:
    """The dt of the first neuron of ``module`` that was made with one."""
    import torch

    timed = tuple(cls for cls, form in forms.items() if form.has_dt)
    dts: Any = (layer.dt for layer in torch.nn.Module.modules(module) if isinstance(layer, timed))
    return next(map(float, dts), None)


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


def _refusal(found: str, limit: str, hint: str) -> NeuronSpec:
    """A specification whose reader raises."""

    def read(module: Any, shape: Shape, dt: float) -> NoReturn:
        raise ModelError.of(type(module).__name__, found, limit, hint)

    return NeuronSpec(read, is_refusal=True)


def as_float64(value: Any) -> Array:
    """A tensor, array or number as a float64 array (float32 values are not changed)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()  # numpy has no bfloat16
    return np.asarray(value, np.float64)


quietly = partial(warnings.catch_warnings, record=False, action="ignore")
"""Context without warnings, such as those of a framework's own imports, which a user of nirbridge cannot act on."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """One module of ``shape`` neurons, to be imported with ``dt`` seconds per time step; collects its problems."""

    module: Any
    shape: Shape
    dt: float = 0.0
    problems: list[Diagnostic] = field(default_factory=list)

    def fault(self, found: str, limit: str = "", hint: str = "") -> None:
        """Add a problem of the module, under the name of its class."""
        self.problems.append(Diagnostic(type(self.module).__name__, found, limit, hint))

    def fitted(self, name: str, value: Any) -> Array:
        """``value`` as one number of shape ``()`` or one per neuron; a fault and 0 where it does not broadcast."""
        array = as_float64(value)
        if not bool(np.all(np.isfinite(array))):
            self.fault(f"{name} is not finite", "parameters are finite numbers", "correct it")
            return np.zeros(())
        if array.size == 1:
            return array.reshape(())
        while array.ndim > len(self.shape) and array.shape[0] == 1:
            array = array[0]
        try:
            return np.broadcast_to(array, self.shape)
        except ValueError:
            limit = f"its neurons have shape {self.shape}"
            self.fault(f"{name} has shape {array.shape}", limit, "give one value, or one per neuron")
            return np.zeros(())

    def check_square(self, name: str, weight: Any) -> None:
        """A fault unless ``weight`` holds the recurrent weights ``[post, pre]`` of a flat population."""
        shape = tuple(weight.shape)
        if len(self.shape) != 1 or shape != (self.shape[0], self.shape[0]):
            self.fault(f"{name} has shape {shape}", f"its neurons have shape {self.shape}", "use one axis of neurons")

    def check_dt(self) -> None:
        """A fault where the module was made with another dt than that of the import."""
        module_dt = float(self.module.dt)
        if module_dt != self.dt:
            limit = f"the network is imported with dt = {self.dt:g} s"
            self.fault(f"it was made with dt = {module_dt:g} s", limit, "leave dt out, or make the module with that dt")


def reader(read: Callable[[Parameters], ImportedNeuron]) -> NeuronReader:
    """The reader of a neuron class from a function that lists faults; it raises ModelError with all of them."""

    def read_module(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
        parameters = Parameters(module, shape, dt)
        reading = read(parameters)
        ModelError.raise_all(parameters.problems)
        return reading

    return read_module


def refusals(package: Any, table: Iterable[tuple[str, str, Iterable[str]]]) -> dict[type, NeuronSpec]:
    """``(reason, hint, class names)`` as forms that refuse, for those classes that the installed package has."""
    return {
        getattr(package, name): _refusal(reason, "NIR has no equivalent", hint)
        for reason, hint, names in table
        for name in names
        if isinstance(getattr(package, name, None), type)
    }


# -- late reset ----------------------------------------------------------------------------------------------------
# A subtraction that a framework makes after the decay of the next time step, as one that is made at once.


def late_subtraction(decay: Array, theta: Array, shape: Shape, gain: Any) -> tuple[Array, tuple[Recurrence, ...]]:
    """The amount th / b taken off at once; where b = 0, a connection of -th onto the neuron itself instead."""
    forgets = decay == 0
    amount = np.where(forgets, 0.0, theta / np.where(forgets, 1.0, decay))
    if not bool(np.any(forgets)):
        return amount, ()
    back = np.where(forgets, -theta / np.where(np.asarray(gain) == 0, 1.0, gain), 0.0)
    return amount, (Recurrence(Scale(freeze(np.broadcast_to(back, shape)))),)


# -- user functions ------------------------------------------------------------------------------------------------
# Functions of the user inside a framework's neurons, read from their values on numbers of all kinds.


def amount_taken_off(method: Any, shape: Shape) -> Array | None:
    """The constant c of ``method(z, v, v_reset, v_th)``, where that is ``v - z c``; None where it is not."""
    import torch

    source = torch.Generator().manual_seed(0)
    v, v_reset, v_th = torch.randn(3, 8, *shape, generator=source, dtype=torch.float64).unbind()
    z = (torch.rand(8, *shape, generator=source) < 0.5).double()
    try:
        with torch.no_grad():
            amount = -method(torch.ones_like(v), torch.zeros_like(v), v_reset, v_th)[0]
            found = method(z, v, v_reset, v_th)
    except Exception:  # a user's function may raise anything
        return None
    is_constant = isinstance(found, torch.Tensor) and torch.equal(found, v - z * amount)
    return compact(amount.numpy() + 0.0) if is_constant else None


def step_of(surrogate: Any) -> Compare | None:
    """The comparison with 0 that the user's own surrogate computes on numbers of all sizes; None for any other."""
    import torch

    sizes = torch.cat([2.0 ** torch.arange(-149, 127), torch.linspace(0, 4, 1025)])
    x = torch.cat([-sizes, sizes])
    try:
        with torch.no_grad():
            y = surrogate(x)
    except Exception:  # the user's code may raise anything
        return None
    steps: tuple[tuple[Compare, Any], ...] = ((">", x > 0), (">=", x >= 0))
    is_same = isinstance(y, torch.Tensor) and y.shape == x.shape
    return next((word for word, step in steps if is_same and torch.equal(y, step.to(y))), None)


# -- dataflow ------------------------------------------------------------------------------------------------------
# The data flow of a traced torch module in one time step: calls and their inputs, as frozen dataclasses.
#
# Shapes exclude batch and time. A time loop in the user's code becomes one time step: a value of an earlier one
# is a ``ValueRef`` with ``previous``. Layers are recorded by operation, not by class: a ``torch.nn.Linear``, a subclass
# of it and ``torch.nn.functional.linear`` are all a call of kind ``linear`` that carries its weight.
#
# Kinds of calls and their arguments (arrays are numpy, read-only):
#
# * ``input``: an argument of the module; no inputs.
# * ``neuron``: a module with a form; target: the user's module; starts_at_zero (forward gives its first state).
# * ``linear``: weight [post, pre], bias [post] or None; acts on the last axis.
# * ``conv``: weight [cout, cin // groups, *kernel], bias [cout] or None, stride, padding ((before, after), …),
#   dilation, groups.
# * ``avg_pool``: kernel, stride (one number per axis), padding ((before, after), …), factor (one over the divisor).
# * ``max_pool``: kernel, stride, dilation (one number per axis), padding ((before, after), …); or rows, columns, … of
#   ``matrix``; function: its name; is_least: the minimum is meant.
# * ``batch_norm``: mean, variance, weight, bias (each [channels], weight and bias may be None), epsilon.
# * ``reshape``: no arguments; the shape of the call says it.
# * ``gather``: indices [*shape]: flat (row-major) positions in the input (slices, permutations, flips); -1: zero.
# * ``pad``: indices as of ``gather``, constant [*shape] that is added.
# * ``matrix``: rows, columns, values of a matrix on flat values (rows ascending), shape of its result, factor: a number
#   or an array that broadcasts to that shape (sums and means over axes or windows, resampling).
# * ``conv_transpose``: weight [cin, cout // groups, *kernel], bias, stride, padding, output_padding, dilation, groups.
# * ``concat``: axis, of the shapes without batch.
# * ``add``: two inputs of equal shape; signs: a factor for each (1 where absent); is_choice: one of both is 0.
# * ``scale``: factor: a number or an array that broadcasts to the shape.
# * ``shift``: constant: a number or an array that broadcasts to the shape; sign: a factor on the input.
# * ``relu``: no arguments.
# * ``pair``: two inputs of equal shape; function: the name of the torch function (a product, a maximum, a comparison).
# * ``pointwise``: function: its name; of: the function itself, from an array of values to theirs; reason, hint: texts
#   of its refusal.
# * ``unknown``: function: the name of a torch function or module without a rule; reason, next_step: texts of the
#   message.


def place_label(path: str) -> str:
    """A place in a message, from the path of a module within the user's."""
    return f"module {quoted(path)}" if path else "the module's forward"


def distinct(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The problems without those that read the same as one before."""
    return list({str(p): p for p in problems}.values())


@dataclass(frozen=True, slots=True)
class ValueRef:
    """Output ``output`` (flat order, 0 except for neurons) of a call, ``previous`` time steps ago (0 at first)."""

    call: str
    output: int = 0
    previous: int = 0


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
    accept. ``loop``: the time loop. ``axes``: those of the data that forward takes, as ``network.axes``. ``host``: what
    forward computes from the outputs (``tracing.heads.HostPart``; None: nothing).
    """

    calls: tuple[Operation, ...]
    outputs: tuple[GraphOutput, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    loop: LoopSummary = LoopSummary()
    axes: Axes = ()
    host: Any = None

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
