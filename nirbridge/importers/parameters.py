"""Parameters of a framework's module as arrays of its population's shape, and the faults found on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronReader, NeuronSpec


def as_float64(value: Any) -> Array:
    """A tensor, array or number as a float64 array (float32 values are not changed)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, np.float64)


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings of a framework's own imports (deprecations), which a user of nirbridge cannot act on."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def version_of(package: str) -> str:
    """Package and version, such as ``norse 1.1.0``: the source that a graph states."""
    from importlib.metadata import version

    return f"{package} {version(package)}"


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

    def refusal(reason: str, hint: str) -> NeuronSpec:
        def read(module: Any, shape: Shape, dt: float) -> NoReturn:
            raise ModelError.of(type(module).__name__, reason, "NIR has no equivalent", hint)

        return NeuronSpec(read, is_refusal=True)

    return {
        getattr(package, name): refusal(reason, hint)
        for reason, hint, names in table
        for name in names
        if isinstance(getattr(package, name, None), type)
    }
