"""A framework's module as a NIR graph that states its source, its notes and how other tools would read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from nirbridge.errors import UsageError
from nirbridge.files.attributes import load_attribute
from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.importers.deviations import accepted_in, check_accepted
from nirbridge.importers.emitted.facts import with_emitted_names
from nirbridge.importers.frameworks import check_framework
from nirbridge.importers.labelled_data import LabelledData, labelled_data
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.importers.own_states import trace_after_reset
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.importers.tracing.run import deep_copy
from nirbridge.network import Network, to_nir
from nirbridge.network.nir.portability import export_warnings
from nirbridge.network.nir.timing import PREFIX


def module_to_graph(
    module: Any,
    sample: Any,
    forms: NeuronSpecs,
    *,
    package: str,
    dt: float,
    batched: bool | None,
    time_axis: TimeAxis,
    accept: Sequence[str],
    check: int | None,
    measure: Any = None,
    traced: tuple[Any, NeuronSpecs] | None = None,
    edit: Callable[[DataflowGraph], DataflowGraph] = lambda flow: flow,
    private: Callable[[Any], Any] | None = None,
) -> Any:
    """``module`` as a ``nir.NIRGraph``, checked against the module; see ``from_snntorch`` for the user's arguments.

    Args:
        module: the user's module.
        sample: as the module takes it.
        forms: the neuron classes of the framework.
        package: the framework's distribution, whose version the graph states.
        dt: seconds per time step.
        batched: whether the sample has a batch axis.
        time_axis: the axis of the sample that is time.
        accept: names of accepted deviations.
        check: random inputs to run the module and the import on.
        measure: labelled data, ``(inputs, labels)`` or a mapping with ``labels``, on which both are measured.
        traced: the module to trace in place of the user's, and its neuron classes.
        edit: changes the data flow before it is built.
        private: makes a copy of the module for the check (default: a deep copy).

    Raises:
        ModelError: every operation that cannot be traced or represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument, or a module whose neurons are of another framework.
    """
    names, data = check_accepted(accept), labelled_data(measure, check)
    check_framework(module, package)
    source, traced_forms = traced or (module, forms)
    flow, reset = trace_after_reset(source, sample, traced_forms, batched=batched, time_axis=time_axis)
    flow = edit(flow)
    network = with_emitted_names(build_network(flow, traced_forms, dt, accept=names), flow, module)
    graph = to_graph(network, f"{package} {version(package)}")
    del flow, network  # the check reads the graph, and its own copy of the weights takes their place
    is_given = batched is not None or time_axis is not None
    own: dict[str, Any] = {"private": lambda original, copy=deep_copy: reset((private or copy)(original))}
    own |= {"accept": names}
    return with_self_check(graph, module, sample, forms, check, are_axes_given=is_given, measure=data, **own)


def to_graph(network: Network, source: str) -> Any:
    """The network as a NIR graph with its source (``nirbridge:source``).

    ``nirbridge:notes`` are remarks for the user, ``nirbridge:warnings`` name tools that would run the plain file
    differently: texts, one per line; saving the graph warns of them.
    """
    graph, differences = to_nir(network), export_warnings(network)
    texts = {"source": source, "notes": "\n".join(network.notes), "warnings": "\n".join(differences)}
    graph.metadata |= {PREFIX + key: text for key, text in texts.items() if text}
    return graph


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
    private: Callable[..., Any] | None = None,
    are_axes_given: bool = False,
    accept: Sequence[str] = (),
    measure: LabelledData | None = None,
) -> Any:
    """Compare ``graph`` with the module on random inputs, and store the outcome in its metadata.

    Args:
        graph: the imported graph.
        module: the user's module.
        sample: the sample that the importer was given.
        forms: the neuron classes of the framework.
        inputs: number of random inputs; 0: no check; None: the default, for modules that are cheap to run.
        private: makes a copy of the module that may be run (default: a deep copy), with the function given, if any.
        are_axes_given: the user stated which axes of the sample are batch and time.
        accept: names of accepted deviations; if the graph has one, a difference is stated, not raised.
        measure: labelled data on which both are measured; then the check is made whatever it costs.

    Raises:
        UnequalImport: the two differ by more than rounding.
        UsageError: ``inputs`` is no whole number from 0.
    """
    check_count(inputs)
    if inputs == 0:
        return graph
    deviates = bool(accept) and accepted_in(str(graph.metadata.get(PREFIX + "notes", "")))
    more: dict[str, Any] = {"private": private, "accepted": tuple(accept) if deviates else ()}
    more |= {"are_axes_given": are_axes_given} | ({} if measure is None else {"measure": measure})
    outcome = load_attribute(CHECKER)(module, sample, graph, forms, inputs, **more)
    graph.metadata[KEY] = json.dumps(outcome, sort_keys=True)
    return graph


def check_count(inputs: int | None) -> None:
    """Raises UsageError for a number of random inputs that is no whole number from 0 (None: the default)."""
    if inputs is not None and (isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 0):
        raise UsageError.of("check", f"{inputs!r}", "a whole number from 0 (no check)", "for example check=2")
