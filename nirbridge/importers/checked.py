"""The self-check at the end of every import.

The checker simulates the network, which packages above this one do: it is named by ``module:attribute`` and loaded
when the first import is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from nirbridge.errors import UsageError
from nirbridge.files.attributes import load_attribute
from nirbridge.importers.deviations import accepted_in
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.network.nir.timing import PREFIX

CHECKER = "nirbridge.verification.self_check:self_check"
KEY = PREFIX + "self_check"
"""Where the graph's metadata holds the outcome, as JSON (see ``verification.self_check.SelfCheck``)."""

APPROXIMATE = MappingProxyType(
    {
        "outcome": "approximate",
        "text": "not made: spike rates approximate the values of the module; the conversion report says how closely",
        "outputs": 0,
        "inputs": 0,
        "ties": [],
    }
)
"""The outcome of a conversion, whose outputs are never equal to those of the module."""


def with_self_check(
    graph: Any,
    module: Any,
    sample: Any,
    forms: NeuronSpecs,
    inputs: int | None,
    *,
    private: Callable[[Any], Any] | None = None,
    are_axes_given: bool = False,
    accept: Sequence[str] = (),
) -> Any:
    """Compare ``graph`` with the module on random inputs, and store the outcome in its metadata.

    Args:
        graph: the imported graph.
        module: the user's module.
        sample: the sample that the importer was given.
        forms: the neuron classes of the framework.
        inputs: number of random inputs; 0: no check; None: the default, for modules that are cheap to run.
        private: makes a copy of the module that may be run (default: a deep copy).
        are_axes_given: the user stated which axes of the sample are batch and time.
        accept: names of accepted deviations; if the graph has one, a difference is stated, not raised.

    Raises:
        UnequalImport: the two differ by more than rounding.
        UsageError: ``inputs`` is no whole number from 0.
    """
    if inputs is not None and (isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 0):
        raise UsageError.of("check", f"{inputs!r}", "a whole number from 0 (no check)", "for example check=2")
    if inputs == 0:
        return graph
    deviates = bool(accept) and accepted_in(str(graph.metadata.get(PREFIX + "notes", "")))
    more = {"private": private, "accepted": tuple(accept) if deviates else (), "are_axes_given": are_axes_given}
    outcome = load_attribute(CHECKER)(module, sample, graph, forms, inputs, **more)
    graph.metadata[KEY] = json.dumps(outcome, sort_keys=True)
    return graph
