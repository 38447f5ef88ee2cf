"""Checks before a simulation, and the versions of the libraries that run it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata

import numpy as np

from nirbridge._version import __version__
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.network.model import Network
from nirbridge.simulators.types import Key, SimulationState

DISTRIBUTIONS = {"torch": "torch", "jax": "jax", "cupy": "cupy", "dpnp": "dpnp", "array_api_strict": "array-api-strict"}
STEPS_MAX = 2**62
"""The last time step that a state may be of."""


def check_neurons(network: Network) -> None:
    """Raise ModelError for several spikes per time step at a threshold that is not above 0."""
    problems = []
    for p in network.populations:
        theta = p.neuron.theta
        if p.neuron.max_spikes > 1 and theta is not None and bool(np.any(theta <= 0)):
            found = f"up to {p.neuron.max_spikes:,} spikes per time step, and a threshold of {float(theta.min()):g}"
            limit = "several spikes per time step need a threshold above 0"
            problems.append(
                Diagnostic(f"population {quoted(p.name)}", found, limit, "raise it, or set max_spikes to 1")
            )
    ModelError.raise_all(problems)


def check_state(state: SimulationState, blank: SimulationState) -> None:
    """Raise UsageError for a state that is not of the form of ``blank``: another network, batch or dtype."""
    problems = []
    if not 0 <= state.step <= STEPS_MAX:
        problems.append(Diagnostic("state", f"is of time step {state.step:,}", f"0 to {STEPS_MAX:,} are counted"))
    for key, needed in blank.arrays.items():
        found = _form(state.arrays.get(key))
        if found != _form(needed):
            limit = f"this run needs {needed.dtype} of {needed.shape}"
            step = "give the state of a run of this network, with the same batch and dtype"
            problems.append(Diagnostic(_part(key), found, limit, step))
    for key in (key for key in state.arrays if key not in blank.arrays):
        limit = "this network has no such part"
        problems.append(Diagnostic(_part(key), "is of another network", limit, "give the state of a run of this one"))
    UsageError.raise_all(problems[:20])


def check_finite_state(state: SimulationState) -> None:
    """Raise UsageError for parts of a state with NaN or infinity."""
    limit, step = "states are finite numbers", "give a state from before the overflow"
    UsageError.raise_all(
        Diagnostic(_part(key), "has NaN or infinity", limit, step)
        for key, array in state.arrays.items()
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all()
    )


def check_limits(state: SimulationState, limits: Mapping[Key, tuple[int, int]]) -> None:
    """Raise UsageError for parts of a state with a value that is below or above their limits."""
    problems = []
    for key, (low, high) in limits.items():
        array = state.arrays.get(key, np.empty(0))
        least, most = (int(array.min()), int(array.max())) if array.size else (low, high)
        if least < low or most > high:
            found, limit = least if least < low else most, f"runs of this network have {low:,} to {high:,}"
            problems.append(Diagnostic(_part(key), f"{found:,}", limit, "give the state of a run of this network"))
    UsageError.raise_all(problems[:20])


def _form(array: object) -> str:
    if isinstance(array, np.ndarray):
        return f"{array.dtype} of shape {array.shape}"
    return "is missing" if array is None else f"is of type {type(array).__name__}"


def _part(key: object) -> str:
    """A part of a state, as the subject of a message."""
    names = key[::-1] if isinstance(key, tuple) else (key,)
    return f"state, {' of '.join(quoted(str(name)) for name in names)}"


@cache
def versions(library: str) -> dict[str, str]:
    """Versions of nirbridge, numpy, scipy and the array library."""
    names = ["numpy", "scipy", *([DISTRIBUTIONS[library]] if library in DISTRIBUTIONS else [])]
    numbers = {"nirbridge": __version__}
    for name in names:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            numbers[name] = "unknown"
    return numbers
