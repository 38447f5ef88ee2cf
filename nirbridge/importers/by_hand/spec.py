"""The class of neurons written by hand, as the tracer and the builder of networks look it up."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    ImportedNeuron,
    NeuronSpec,
    NeuronSpecs,
    is_overriding,
    place_label,
)
from nirbridge.importers.tracing.structures import torch_tensor, untracked
from nirbridge.network.neurons import Neuron, flat_fields, with_arrays

DT = 1e-3
"""Seconds per time step where none are given: such neurons count time steps."""
COMPARING = frozenset({"gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "heaviside", "sign"})
"""Functions that a neuron may compare its state with."""
_LIBRARIES = frozenset({"nirbridge", "torch"})
_FRAMES = 6
_PLAIN = frozenset({"x", "input", "inputs", "input_", "data", "tensor", "value", "v_minus_th"})
"""Names of arguments of surrogates, which say nothing of a state."""
_SPIKING = COMPARING | {"floor", "round", "ceil", "trunc", "sgn", "floor_divide", "floordiv", "bernoulli"}
"""Functions that spikes are made by."""
_FOUND = "and a threshold were found"
_PROOFS = ("identical", "reduced", "sampled", "accepted")


@dataclass(frozen=True, slots=True, eq=False)
class OwnNeuron:
    """A neuron that was recognised in a trace; its class is looked up, it is never run.

    ``neuron``: its canonical form, arrays with the leading axes of the trace (None: it has none, ``reason`` says why).
    ``state``: the name of its state in the user's code. ``delay``: time steps from an input to its effect.
    """

    path: str
    state: str
    neuron: Neuron | None
    reason: str = ""
    delay: int = 0

    def __eq__(self, other: object) -> bool:
        """True for the same parameters."""
        if not isinstance(other, OwnNeuron) or (self.path, self.reason, self.delay) != (
            other.path, other.reason, other.delay
        ):  # fmt: skip
            return False
        if self.neuron is None or other.neuron is None:
            return self.neuron is other.neuron
        own, others = flat_fields(self.neuron), flat_fields(other.neuron)
        return own.keys() == others.keys() and all(np.array_equal(own[name], others[name]) for name in own)

    __hash__ = None  # type: ignore[assignment]

    def children(self) -> tuple[()]:
        """Modules inside of it: none."""
        return ()

    @property
    def found(self) -> str:
        """What was recognised, and what has no form."""
        name = f"a state {self.state!r}" if self.state else "a state"
        return f"{name} {_FOUND}; {self.reason}"


def own_specs(specs: NeuronSpecs | None = None, module: Any = None) -> NeuronSpecs:
    """The neuron classes and neurons written by hand, such as subclasses in ``module`` that override methods."""
    parts = () if module is None else {type(part) for part in module.modules()}
    traced: Any = {cls: None for cls in parts if specs and is_overriding(cls, specs)}
    return {**(specs or {}), **traced, OwnNeuron: NeuronSpec(_read, potential=1)}


def show_operations(copy: Any, specs: NeuronSpecs) -> None:
    """Lets subclasses in a copy of a module compute by single operations.

    spikingjelly has a compiled time step for its own surrogates: a subclass of these, equal in all else, has none.
    """
    for part in (part for part in copy.modules() if specs.get(type(part), part) is None):
        surrogate: Any = getattr(part, "surrogate_function", None)
        if hasattr(surrogate, "forward"):
            surrogate.__class__ = type(type(surrogate).__name__, (type(surrogate),), {})


def reads_own(specs: NeuronSpecs) -> bool:
    """True if neurons written by hand are among the classes."""
    return OwnNeuron in specs


def is_own(module: Any) -> bool:
    """True for a neuron written by hand."""
    return isinstance(module, OwnNeuron)


def check_of_own(check: int | None) -> int | None:
    """The number of random inputs that an import is compared on. Raises UsageError for none."""
    if check == 0:
        limit = "neurons written by hand are recognised by their values, so the import is always compared"
        raise UsageError.of("check", "0", limit, "leave out check=0 (--no-check)")
    return check


def found_alone(error: ModelError, other: ModelError) -> ModelError:
    """The error with what was found of neurons without form alone, as all else follows from it; ``other`` if none."""
    found = tuple(problem for problem in error.problems if _FOUND in str(problem))
    return type(error)(*found) if found else other


def checked_own(graph: Any) -> Any:
    """The graph. Raises ModelError where its self-check compared nothing."""
    outcome: Any = parse_json(str(graph.metadata["nirbridge:self_check"]), "self-check", bytes_max=ANSWER_BYTES_MAX)
    if outcome["outcome"] not in _PROOFS:
        limit = "an import of neurons written by hand is compared with the module"
        raise ModelError.of("module", f"its self-check is {outcome['text']}", limit, "give check=2")
    return graph


def with_neurons(flow: DataflowGraph, module: Any) -> DataflowGraph:
    """The data flow. Raises UsageError for a module without neurons."""
    if any(call.kind == "neuron" and is_own(call.target) for call in flow.calls):
        return flow
    if not flow.calls:
        ModelError.raise_all(flow.problems)
    words = list(dict.fromkeys(str(call.arguments.get("function", "")).strip("_") for call in flow.calls))
    steps = [word for word in words if word in _SPIKING]
    if steps or any("kept from the previous call" in str(problem) for problem in flow.problems):
        what = f"{', '.join(map(quoted, steps))} of values" if steps else "values that are kept between calls"
        found = f"{what}, and no state with a threshold and a reset that NIR has"
        hint = "spikes are comparisons of a state that is carried from one time step to the next"
        ModelError.raise_all((Diagnostic(place_label(""), found, "", hint), *flow.problems))
    limit = "a network without spikes is converted to spike rates only on request"
    data = "typical inputs of shape [samples, *shape], some hundreds of training samples"
    hint = f"give convert= (nirbridge import --calibrate DATA.npz), {data}"
    raise UsageError.of(f"module {quoted(type(module).__name__)}", "no neurons that spike", limit, hint)


def formless(modules: Iterable[Any]) -> list[Diagnostic]:
    """A problem for each neuron written by hand that has no form."""
    limit = "no form in NIR is the same"
    hint = "write it as one decay, one threshold and a reset to a value or by an amount, or leave it out"
    own = [module for module in modules if is_own(module) and module.neuron is None]
    return [Diagnostic(place_label(module.path), module.found, limit, hint) for module in own]


def _read(module: OwnNeuron, shape: Shape, dt: float) -> ImportedNeuron:
    ModelError.raise_all(formless([module]))
    assert module.neuron is not None, "it has a form"
    return _with_bias(with_arrays(module.neuron, lambda values: _fitted(values, shape)), module.delay)


def _fitted(values: Array, shape: Shape) -> Array:
    """Values without the leading axes of batch and time."""
    array = np.asarray(values)
    while array.ndim > len(shape):
        array = array[0]
    return compact(np.broadcast_to(array, shape)) if array.ndim else array


def _with_bias(record: Neuron, delay: int) -> ImportedNeuron:
    """The neuron; a constant of one that does not leak is added to its input, from a current that is there at once."""
    if not bool(np.any(record.bias != 0)) or not bool(np.any(record.a_mem == 1)):
        return ImportedNeuron(record, input_delay=delay)
    constant = np.asarray(record.bias / record.g_mem)
    start = compact(record.i_init + constant) if record.has_synapse else record.i_init
    rest = replace(record, bias=compact(np.zeros(())), i_init=start)
    return ImportedNeuron(rest, bias=np.asarray(constant * (1.0 - record.a_syn)), input_delay=delay)


# -- places in the user's code --------------------------------------------------------------------------------------


def is_initial(args: tuple[Any, ...]) -> bool:
    """True for a comparison of a fixed tensor that holds one number throughout, as an initial state does."""
    state: Any = args[0] if args else None
    if not isinstance(state, torch_tensor()) or (
        len(args) > 1 and isinstance(args[1], torch_tensor()) and args[1].ndim
    ):
        return False
    with untracked():
        is_state = state.ndim > 0 and state.is_floating_point() and state.numel() > 1 and not state.requires_grad
        return is_state and bool((state == state.reshape(-1)[0]).all())


def _frames() -> list[Any]:
    """The innermost functions of the user's code."""
    frames: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(frames) < _FRAMES:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _LIBRARIES:
            frames.append(frame)
        frame = frame.f_back
    return frames


def place_in_code(is_wanted: bool = True) -> Any:
    """The place of a call in the user's code."""
    return is_wanted and tuple((f.f_code.co_filename, f.f_code.co_firstlineno, f.f_lasti) for f in _frames())


def note_names(recorder: Any, *, is_wanted: bool) -> None:
    """Note the names of values in the functions of the user's code."""
    names = recorder.recording.names
    for frame in _frames() if is_wanted else ():
        owner = frame.f_locals.get("self")
        for scope in (vars(owner) if hasattr(owner, "__dict__") else {}, frame.f_locals):
            for name, tensor in scope.items():
                if name in _PLAIN:
                    continue
                value = recorder.values.get(tensor) if isinstance(tensor, torch_tensor()) else None
                if value is not None:
                    names.setdefault((value.node.index, value.output), name)
