"""A network as a NIR graph that says where it came from and what other tools would make of it."""

from __future__ import annotations

from typing import Any

from nirbridge.importers.export_warning import warn_of_tools
from nirbridge.network import Network, to_nir
from nirbridge.network.export_warnings import export_warnings
from nirbridge.network.timing import PREFIX


def to_graph(network: Network, source: str) -> Any:
    """The network as a NIR graph that says where it came from (``nirbridge:source``).

    ``nirbridge:notes`` is what the reader should know, ``nirbridge:warnings`` which tools would run the plain file
    differently: texts, one a line; an ``ExportWarning`` names the tools.
    """
    graph, differences = to_nir(network), export_warnings(network)
    texts = {"source": source, "notes": "\n".join(network.notes), "warnings": "\n".join(differences)}
    graph.metadata |= {PREFIX + key: text for key, text in texts.items() if text}
    warn_of_tools(differences)
    return graph
