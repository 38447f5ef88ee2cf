"""Trained modules of frameworks as graphs, by the name of the framework, a plugin's too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge.errors import UsageError

if TYPE_CHECKING:
    from nirbridge.network.model import Network, Timing


def import_module(framework: str, module: Any, sample: Any, *, check: int | None = None, **options: Any) -> Any:
    """The ``nir.NIRGraph`` of a module; ``options`` as of the framework's importer.

    ``check``: random inputs to compare the import with the module on (0: none; None: the importer's default); an
    importer without a self-check (a conversion, a plugin's) is not given it.

    Raises:
        UnequalImport: the import does not compute the same as the module.
        UsageError: no importer of that name, or a package that it needs is not installed.
        ModelError: what the importer can not carry over exactly.
    """
    import inspect

    from nirbridge import plugins as registry

    function = registry.get("importers", framework)
    known = inspect.signature(function).parameters
    if "check" in known:
        options |= {"check": check}
    try:
        return function(module, sample, **options)
    except ModuleNotFoundError as error:
        found = f"needs the package {error.name}, which is not installed"
        raise UsageError.of(f"--from {framework}", found, "", f"install {error.name}") from error


def save_graph(graph: Any, path: str | Path) -> None:
    """Writes a graph as a ``.nir`` file, whole or not at all. Raises FileError or ModelError."""
    from nirbridge.importers import save

    save(graph, path)


def network_of_graph(graph: Any, timing: Timing | None = None) -> Network:
    """What a graph means; known faults of exporters that it shows are warned of and noted. Raises ModelError."""
    from nirbridge.importers.nirfile.faults import diagnose, sentences
    from nirbridge.network.nir.export_warning import warn_of_faults
    from nirbridge.network.nir.from_nir import from_nir
    from nirbridge.pipeline.load import noted

    faults = sentences(diagnose(graph))
    warn_of_faults(faults)
    return noted(from_nir(graph, timing), faults)
