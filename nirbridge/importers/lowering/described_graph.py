"""A module as a NIR graph that says where it came from and how other tools would read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nirbridge.importers.deviations import check_accepted
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.neuron_specs import NeuronSpecs
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
    dt: float,
    source: str,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
) -> Any:
    """``module`` as a ``nir.NIRGraph`` (see ``to_graph``).

    Raises:
        ModelError: what can not be followed or represented, every place.
        UsageError: an argument that makes no sense.
    """
    names = check_accepted(accept)
    flow = trace_module(module, sample, forms, batched=batched, time_axis=time_axis)
    return to_graph(build_network(flow, forms, dt, accept=names), source)


def to_graph(network: Network, source: str) -> Any:
    """The network as a NIR graph that says where it came from (``nirbridge:source``).

    ``nirbridge:notes`` is what the reader should know, ``nirbridge:warnings`` which tools would run the plain file
    differently: texts, one a line. Who saves the graph is warned of them.
    """
    graph, differences = to_nir(network), export_warnings(network)
    texts = {"source": source, "notes": "\n".join(network.notes), "warnings": "\n".join(differences)}
    graph.metadata |= {PREFIX + key: text for key, text in texts.items() if text}
    return graph
