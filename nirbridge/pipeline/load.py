"""From files and names: graphs, networks, chips, rates, labels.

Trained modules of frameworks as graphs, by the name of the framework, a plugin's too.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge import plugins as registry
from nirbridge._types import IMPORT_PROGRESS, Progress
from nirbridge.chips import Chip, with_values, without_cores
from nirbridge.dialect.model_files import network_loader, source_of
from nirbridge.errors import ExportWarning, ModelError, UsageError
from nirbridge.importers import save_nir
from nirbridge.importers.frameworks import FRAMEWORKS, stored_dt
from nirbridge.importers.frameworks import framework_of as importer_of
from nirbridge.importers.nirfile.faults import (
    ExporterFinding,
    batch_problems,
    diagnose_exporter,
    fault_sentences,
    unsettled_findings,
)
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, load_repaired
from nirbridge.importers.nirfile.repairs import repair_graph
from nirbridge.network import Network, Timing, from_nir, to_nir
from nirbridge.network.nir.import_notes import with_import_notes
from nirbridge.network.nir.portability import export_warnings, warn_of_faults
from nirbridge.network.nir.tensors import without_tensors

FAULT = "exporter: "
"""How notes begin that tell of a known fault of the framework that wrote a model file."""


def load_graph(
    path: str | Path, *, max_bytes: int | None = None, repairs: Sequence[str] = (), dt: float | None = None
) -> Any:
    """A ``nir.NIRGraph`` from a file, scanned before anything is built.

    ``repairs``: names of exporter faults to mend (``importers.nirfile.repairs``), with ``dt`` seconds per time step;
    nothing else is mended. Known faults of exporters that stay are each an ``ExporterFaultWarning``. Raises FileError;
    UsageError or ModelError for repairs that are none or do not fit.
    """
    graph, findings = load_repaired(path, repairs, dt=dt, max_bytes=max_bytes or DEFAULT_MAX_BYTES)
    warn_of_faults(fault_sentences(unsettled_findings(findings, repairs)))
    return graph


def load_network(
    path: str | Path,
    timing: Timing | None = None,
    *,
    max_bytes: int | None = None,
    repairs: Sequence[str] = (),
    rewrite: Callable[[Network], Network] | None = None,
) -> Network:
    """A network from a ``.nir`` file, repaired and warned of as of ``load_graph``; its notes say so, and the import's.

    A ``.net.npz`` file holds the network itself, in discrete time, as does a ``.mlir`` file (of nirbridge's dialect or
    of snn-mlir), a ``.net`` file one of lava-dl: repairs and another timing are refused.

    ``rewrite``: applied to the network of the file (passes on request); None: the network as it is read.

    Raises FileError (unreadable), ModelError (no exact meaning) or UsageError (repairs).
    """
    load = network_loader(path)
    if load is not None:
        network = load(path, timing, repairs, max_bytes=max_bytes)
    else:
        limit = max_bytes or DEFAULT_MAX_BYTES
        graph, findings = load_repaired(path, repairs, dt=timing and timing.dt, max_bytes=limit)
        network = _noted(graph, timing, findings, repairs)
    return network if rewrite is None else rewrite(network)


def with_fault_notes(network: Network, faults: Sequence[str], repairs: Sequence[str] = ()) -> Network:
    """The network, with the known faults of its exporter and the repairs made among its notes."""
    notes = [FAULT + sentence for sentence in faults]
    notes += [f"repaired on request: {', '.join(repairs)}"] if repairs else []
    return replace(network, notes=(*network.notes, *notes)) if notes else network


def faults_of(notes: Sequence[Any]) -> tuple[str, ...]:
    """The notes of a network, map or recording that tell of faults of the exporter of its model."""
    return tuple(note for note in notes if isinstance(note, str) and note.startswith(FAULT))


def network_of_shapes(text: str, timing: Timing | None = None) -> Network:
    """A network of shapes alone from a line of text (``importers.shapes``). Raises UsageError."""
    from nirbridge.importers.shapes import graph_of_shapes

    return from_nir(graph_of_shapes(text), timing)


def load_chip(
    chip: Chip | str | Path, without: tuple[int, ...] = (), values: Mapping[str, Any] = MappingProxyType({})
) -> Chip:
    """A chip by name, from a TOML file or as it is, with other values by dotted key.

    ``without``: cores to mask out (flat indices on chip 0). Raises ChipError.
    """
    found = with_values(chip if isinstance(chip, Chip) else registry.find_chip(chip), values)
    return without_cores(found, without) if without else found


def import_module(
    framework: str,
    module: Any,
    sample: Any,
    *,
    check: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Any:
    """The ``nir.NIRGraph`` of a module; ``options`` as of the framework's importer.

    ``check``: random inputs to compare the import with the module on (0: none; None: the importer's default); an
    importer without a self-check (a conversion, a plugin's) is not given it. ``progress``: called with a stage and the
    share that is done (None: unknown); None: that of the caller, ``IMPORT_PROGRESS``.

    Raises:
        UnequalImport: the import does not compute the same as the module.
        UsageError: no importer of that name, or a package that it needs is not installed.
        ModelError: what the importer cannot carry over exactly.
    """
    function = registry.get("importers", framework)
    parameters = inspect.signature(function).parameters
    progress = progress or IMPORT_PROGRESS.get()
    known = {"check": check, "progress": progress}
    options |= {name: value for name, value in known.items() if name in parameters}
    token = IMPORT_PROGRESS.set(progress)
    try:
        return function(module, sample, **options)
    except ModuleNotFoundError as error:
        found = f"needs the package {error.name}, which is not installed"
        raise UsageError.of(f"--from {framework}", found, "", f"install {error.name}") from error
    finally:
        IMPORT_PROGRESS.reset(token)


def assumes_dt(framework: str, module: Any, dt: float | None) -> bool:
    """True if an import takes a default time step: none is requested, and the module stores none.

    Of a plugin's importer nothing is known, so nothing is claimed.
    """
    return dt is None and framework in FRAMEWORKS and stored_dt(framework, module) is None


def framework_of(module: Any) -> str | None:
    """The name of the importer for a module: see ``importers.frameworks``. Raises UsageError: parts of several."""
    return importer_of(module, registry.names("importers"))


def save_graph(graph: Any, path: str | Path, *, warn: bool = True) -> None:
    """Writes a graph as a ``.nir`` file, whole or not at all. Raises FileError or ModelError.

    ``warn``: whether an ``ExportWarning`` says what of an imported graph other tools drop.
    """
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore", ExportWarning)
        save_nir(graph, path)


def graph_of_text(path: str | Path, timing: Timing | None = None) -> tuple[Any, bool]:
    """The ``nir.NIRGraph`` of a ``.mlir`` file or a ``.net`` file of lava-dl; whether its dt is a default.

    Raises:
        FileError: the file cannot be read.
        ModelError: a module that is no network here, or that NIR cannot express.
    """
    network = load_network(path, timing)
    graph = to_nir(network)
    graph.metadata |= {
        "nirbridge:source": source_of(path),
        "nirbridge:warnings": "\n".join(export_warnings(network)),
    }
    return graph, bool(network.assumed)


def network_of_graph(graph: Any, timing: Timing | None = None, *, repairs: Sequence[str] = ()) -> Network:
    """The network of a graph, with the notes of its import; known faults of exporters are warned of and noted.

    Tensors in it (``sinabs.nir.to_nir`` leaves them there) are read as arrays of the same values. ``repairs``: as of
    ``load_network``. Raises ModelError; UsageError for repairs.
    """
    graph = without_tensors(graph)
    findings = diagnose_exporter(graph)
    graph = repair_graph(graph, repairs, dt=timing and timing.dt) if repairs else graph
    try:
        return _noted(graph, timing, findings, repairs)
    except ModelError as error:
        raise ModelError(*error.problems, *batch_problems(graph)) from None


def _noted(graph: Any, timing: Timing | None, findings: Sequence[ExporterFinding], repairs: Sequence[str]) -> Network:
    """The network of a graph that was repaired; warns of the findings that no repair settles, and notes all of it."""
    faults = fault_sentences(unsettled_findings(findings, repairs))
    warn_of_faults(faults)
    return with_fault_notes(with_import_notes(from_nir(graph, timing), graph), faults, repairs)
