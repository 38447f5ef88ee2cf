"""Loading of NIR files with requested repairs of exporter faults, and with the faults that were found."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nirbridge.importers.nirfile import reader as nir_file
from nirbridge.importers.nirfile.faults import ExporterFinding, diagnose_exporter, fault_sentences
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, DEFAULT_MAX_EDGES, DEFAULT_MAX_NODES, Path
from nirbridge.importers.nirfile.repairs import repair_graph
from nirbridge.network.nir.portability import warn_of_faults

BATCH = "batch-axis"


def load_nir(
    path: Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_nodes: int = DEFAULT_MAX_NODES,
    max_edges: int = DEFAULT_MAX_EDGES,
    drop_batch: bool = False,
) -> Any:
    """See ``nir_file.load``; warns (``ExporterFaultWarning``) of each known fault of exporters that the file shows."""
    limits = {"max_bytes": max_bytes, "max_nodes": max_nodes, "max_edges": max_edges}
    graph = nir_file.read_nir(path, **limits, drop_batch=drop_batch)
    warn_of_faults(fault_sentences(diagnose_exporter(graph)))
    return graph


def load_repaired(
    path: Path, repairs: Collection[str] = (), *, dt: float | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[Any, tuple[ExporterFinding, ...]]:
    """The graph of a file, repaired only by the names in ``repairs``, and what ``diagnose_exporter`` finds in the file.

    Args:
        path: as of ``nir_file.load``.
        repairs: as of ``exporter_repairs.repair``; ``batch-axis`` also lets a file be read whose ports count a batch.
        dt: seconds per time step, if it is not the exporter's default.
        max_bytes: as of ``nir_file.load``.

    Raises:
        FileError: it cannot be read.
        UsageError, ModelError: as of ``repair_graph``.
    """
    graph = nir_file.read_nir(path, max_bytes=max_bytes, drop_batch=BATCH in repairs)
    findings = diagnose_exporter(graph)
    return (repair_graph(graph, repairs, dt=dt) if repairs else graph), findings
