"""Parameters of torch modules as arrays of a population's shape, and what is wrong with a module as problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError
from nirbridge.importers.neuron_specs import NeuronSpec


def as_float64(value: Any) -> Array:
    """A tensor, array or number as a float64 array (float32 values stay what they are)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, np.float64)


@contextmanager
def quietly() -> Iterator[None]:
    """What a framework's own imports warn of (deprecations) is nothing that a user of nirbridge can change."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def version_of(package: str) -> str:
    """``norse 1.1.0``: where a graph says that it came from."""
    from importlib.metadata import version

    return f"{package} {version(package)}"


def module_problem(module: Any, found: str, limit: str = "", hint: str = "") -> Diagnostic:
    """What is wrong with a module, under the name of its class."""
    return Diagnostic(type(module).__name__, found, limit, hint)


def per_neuron(module: Any, name: str, value: Any, shape: Shape, problems: list[Diagnostic]) -> Array:
    """``value`` as one number of shape ``()`` or one per neuron; what does not broadcast is added to ``problems``."""
    array = as_float64(value)
    if not bool(np.all(np.isfinite(array))):
        problems.append(module_problem(module, f"{name} is not finite", "parameters are finite numbers", "correct it"))
        return np.zeros(())
    if array.size == 1:
        return array.reshape(())
    while array.ndim > len(shape) and array.shape[0] == 1:
        array = array[0]
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        limit = f"its neurons have shape {shape}"
        problems.append(
            module_problem(module, f"{name} has shape {array.shape}", limit, "give one value, or one per neuron")
        )
        return np.zeros(())


def refuse(problems: Sequence[Diagnostic]) -> None:
    """Nothing, or every problem at once.

    Raises:
        ModelError: there is one.
    """
    if problems:
        raise ModelError(*problems)


def refusal(reason: str, hint: str) -> NeuronSpec:
    """The form of a class that has no exact meaning in NIR: reading it says why."""

    def read(module: Any, shape: Shape, dt: float) -> NoReturn:
        raise ModelError(module_problem(module, reason, "NIR has no form for it", hint))

    return NeuronSpec(read, is_refusal=True)


def refusals(package: Any, table: Iterable[tuple[str, str, Iterable[str]]]) -> dict[type, NeuronSpec]:
    """``(reason, next step, class names)`` as forms, for those classes that the installed package has."""
    return {
        getattr(package, name): refusal(reason, hint)
        for reason, hint, names in table
        for name in names
        if isinstance(getattr(package, name, None), type)
    }


def recurrent_weights(module: Any, name: str, weight: Any, shape: Shape, problems: list[Diagnostic]) -> Array:
    """Recurrent weights ``[post, pre]`` of a flat population, float64."""
    array = as_float64(weight)
    if len(shape) != 1 or array.shape != (shape[0], shape[0]):
        limit = f"its neurons have shape {shape}"
        problems.append(module_problem(module, f"{name} has shape {array.shape}", limit, "use one axis of neurons"))
    return array
