"""A framework's module as a NIR graph that states its source, its notes and how other tools would read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nirbridge.importers.checked import with_self_check
from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.importers.deviations import check_accepted
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.importers.parameters import version_of
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.importers.tracing.trace import trace_module
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
        traced: the module to trace in place of the user's, and its neuron classes.
        edit: changes the data flow before it is built.
        private: makes a copy of the module for the check (default: a deep copy).

    Raises:
        ModelError: every operation that cannot be traced or represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument.
    """
    names = check_accepted(accept)
    source, traced_forms = traced or (module, forms)
    flow = edit(trace_module(source, sample, traced_forms, batched=batched, time_axis=time_axis))
    graph = to_graph(build_network(flow, traced_forms, dt, accept=names), version_of(package))
    is_given = batched is not None or time_axis is not None
    return with_self_check(graph, module, sample, forms, check, private=private, accept=names, are_axes_given=is_given)


def to_graph(network: Network, source: str) -> Any:
    """The network as a NIR graph with its source (``nirbridge:source``).

    ``nirbridge:notes`` are remarks for the user, ``nirbridge:warnings`` name tools that would run the plain file
    differently: texts, one per line; saving the graph warns of them.
    """
    graph, differences = to_nir(network), export_warnings(network)
    texts = {"source": source, "notes": "\n".join(network.notes), "warnings": "\n".join(differences)}
    graph.metadata |= {PREFIX + key: text for key, text in texts.items() if text}
    return graph
