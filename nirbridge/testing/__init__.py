"""For tests, also those of plugins: the conformance suite, and random networks (which need hypothesis, extra ``test``).

``check_plugin(PLUGIN)`` runs every name of a plugin through the registry on small networks; ``check_conformance(kind,
name)`` runs one. The strategies ``nir_graphs``, ``networks`` and ``chips`` are in ``nirbridge.testing.strategies``, and
here by name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nirbridge.testing.conformance import Example, check_conformance, check_plugin
from nirbridge.testing.examples import example_chips, example_inputs, example_models, example_networks

if TYPE_CHECKING:
    from nirbridge.testing.strategies import chips, networks, nir_graphs, random_neuron

__all__ = [
    "Example",
    "check_conformance",
    "check_plugin",
    "chips",
    "example_chips",
    "example_inputs",
    "example_models",
    "example_networks",
    "networks",
    "nir_graphs",
    "random_neuron",
]


def __getattr__(name: str) -> Any:
    """A strategy, imported with hypothesis when it is used."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.strategies"), name)
