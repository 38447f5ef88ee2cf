"""Notes of an import: from a graph to its network, and back to the graph that is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nirbridge.network.model import Network
from nirbridge.network.nir.timing import PREFIX

IMPORT = "import: "
"""How notes of the import begin: the text of a file is never taken for a note of another stage."""


def with_import_notes(network: Network, graph: Any) -> Network:
    """The network of a graph with the lines of its ``nirbridge:notes``, other than those that it has already."""
    metadata = graph.metadata if isinstance(graph.metadata, Mapping) else {}
    text = metadata.get(f"{PREFIX}notes", "")
    lines = dict.fromkeys(text.split("\n")) if isinstance(text, str) else ()
    notes = [IMPORT + line for line in lines if line and line not in network.notes]
    return replace(network, notes=(*notes, *network.notes)) if notes else network


def store_import_notes(graph: Any, network: Network) -> None:
    """Writes the notes of the import of a network into the metadata of its graph, where ``with_import_notes`` reads."""
    lines = [note.removeprefix(IMPORT) for note in network.notes if note.startswith(IMPORT)]
    if lines:
        graph.metadata[f"{PREFIX}notes"] = "\n".join(lines)
