"""Notes of an import: from a graph to its network, and back to the graph that is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nirbridge.errors import FileError
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.network.model import Network
from nirbridge.network.nir.timing import PREFIX

_CHECK = "self-check: "
_PARTIAL = ("reduced", "sampled", "skipped", "not-run", "noise")
"""Outcomes of a self-check (``verification.self_check.SelfCheck``) that a network states."""
IMPORT = "import: "
"""How notes of the import begin: the text of a file is never taken for a note of another stage."""


def with_import_notes(network: Network, graph: Any) -> Network:
    """The network of a graph with the lines of its ``nirbridge:notes``, other than those that it has already.

    And with the outcome of its self-check, where that was no whole one.
    """
    metadata = graph.metadata if isinstance(graph.metadata, Mapping) else {}
    text = metadata.get(f"{PREFIX}notes", "")
    lines = dict.fromkeys([*(text.split("\n") if isinstance(text, str) else ()), _partial_check(metadata)])
    notes = [IMPORT + line for line in lines if line and line not in network.notes]
    return replace(network, notes=(*notes, *network.notes)) if notes else network


def partial_checks(notes: Iterable[str]) -> list[str]:
    """In a few words, the self-checks that notes of an import state: the kind of the outcome, not its numbers."""
    starts = [note.removeprefix(f"{IMPORT}{_CHECK}") for note in notes if note.startswith(f"{IMPORT}{_CHECK}")]
    return [_CHECK + start.partition(":")[0].partition(" (")[0] for start in starts]


def _partial_check(metadata: Mapping[Any, Any]) -> str:
    """The outcome of a self-check that was not made, or made on a part; empty for others, and where there is none."""
    try:
        outcome = parse_json(metadata.get(f"{PREFIX}self_check", ""), "self-check", bytes_max=ANSWER_BYTES_MAX)
        is_partial = outcome["outcome"] in _PARTIAL
        return f"{_CHECK}{' '.join(outcome['text'].split())}" if is_partial else ""
    except (FileError, TypeError, KeyError, AttributeError):
        return ""  # the text of a file may be anything


def store_import_notes(graph: Any, network: Network) -> None:
    """Writes the notes of the import of a network into the metadata of its graph, where ``with_import_notes`` reads."""
    lines = [note.removeprefix(IMPORT) for note in network.notes if note.startswith(IMPORT)]
    if lines:
        graph.metadata[f"{PREFIX}notes"] = "\n".join(lines)
