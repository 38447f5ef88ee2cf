"""Checks before a simulation, and the versions of the libraries that run it."""

from __future__ import annotations

from functools import cache
from importlib import metadata

import numpy as np

from nirbridge._version import __version__
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.network.model import Network
from nirbridge.simulators.types import SimulationState

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
    for (node, part), needed in blank.arrays.items():
        array = state.arrays.get((node, part))
        if array is None or array.shape != needed.shape or array.dtype != needed.dtype:
            found = "is missing" if array is None else f"{array.dtype} of shape {array.shape}"
            limit = f"this run needs {needed.dtype} of {needed.shape}"
            step = "give the state of a run of this network, with the same batch and dtype"
            problems.append(Diagnostic(f"state, {quoted(part)} of {quoted(node)}", found, limit, step))
    for node, part in state.arrays:
        if (node, part) not in blank.arrays:
            subject, limit = f"state, {quoted(part)} of {quoted(node)}", "this network has no such part"
            problems.append(Diagnostic(subject, "is of another network", limit, "give the state of a run of this one"))
    if problems:
        raise UsageError(*problems[:20])


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
