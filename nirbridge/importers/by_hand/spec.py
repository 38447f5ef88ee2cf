"""The class of neurons written by hand, as the tracer and the builder of networks look it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact
from nirbridge.errors import Diagnostic, ModelError, UsageError
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, NeuronSpecs, is_overriding, place_label
from nirbridge.network.neurons import Neuron

FOUND = "and a threshold were found"
_PROOFS = ("identical", "reduced", "sampled", "accepted")
_ARRAYS = ("a_mem", "g_mem", "bias", "theta", "a_syn", "v_reset", "reset_amount", "v_init", "i_init", "v_min")


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
        pairs = ((getattr(self.neuron, name), getattr(other.neuron, name)) for name in _ARRAYS)
        return self.neuron.reset == other.neuron.reset and all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def children(self) -> tuple[()]:
        """Modules inside of it: none."""
        return ()

    @property
    def found(self) -> str:
        """What was recognised, and what has no form."""
        name = f"a state {self.state!r}" if self.state else "a state"
        return f"{name} {FOUND}; {self.reason}"


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
        surrogate = getattr(part, "surrogate_function", None)
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


def found_alone(error: ModelError) -> ModelError:
    """The error with what was found of neurons without form alone: all else follows from it."""
    found = tuple(problem for problem in error.problems if FOUND in str(problem))
    return type(error)(*found) if found else error


def checked_own(graph: Any) -> Any:
    """The graph. Raises ModelError where its self-check compared nothing."""
    outcome: Any = parse_json(str(graph.metadata["nirbridge:self_check"]), "self-check", bytes_max=ANSWER_BYTES_MAX)
    if outcome["outcome"] not in _PROOFS:
        limit = "an import of neurons written by hand is compared with the module"
        raise ModelError.of("module", f"its self-check is {outcome['text']}", limit, "give check=2")
    return graph


def formless(modules: Iterable[Any]) -> list[Diagnostic]:
    """A problem for each neuron written by hand that has no form."""
    limit = "no form in NIR is the same"
    hint = "write it as one decay, one threshold and a reset to a value or by an amount, or leave it out"
    own = [module for module in modules if is_own(module) and module.neuron is None]
    return [Diagnostic(place_label(module.path), module.found, limit, hint) for module in own]


def _read(module: OwnNeuron, shape: Shape, dt: float) -> ImportedNeuron:
    ModelError.raise_all(formless([module]))
    assert module.neuron is not None, "it has a form"
    given = {name: getattr(module.neuron, name) for name in _ARRAYS}
    fitted: Mapping[str, Any] = {name: _fitted(value, shape) for name, value in given.items() if value is not None}
    return _with_bias(replace(module.neuron, **fitted), module.delay)


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
