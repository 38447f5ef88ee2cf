"""NIR graphs from files and from modules of frameworks; a framework is imported only when its importer is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nirbridge.files.attributes import load_attribute
from nirbridge.importers.frameworks import FRAMEWORKS, JAX_FRAMEWORKS
from nirbridge.importers.nirfile.reader import file_sha256, load_nir, save_nir

if TYPE_CHECKING:
    from nirbridge.importers.ann.from_torch import from_torch
    from nirbridge.importers.frameworks.norse import from_norse
    from nirbridge.importers.frameworks.rockpool import from_rockpool
    from nirbridge.importers.frameworks.sinabs import from_sinabs
    from nirbridge.importers.frameworks.snnax import from_snnax
    from nirbridge.importers.frameworks.snntorch import from_snntorch
    from nirbridge.importers.frameworks.spikingjelly import from_spikingjelly
    from nirbridge.importers.frameworks.spyx import from_spyx

__all__ = [
    "FRAMEWORKS",
    "JAX_FRAMEWORKS",
    "file_sha256",
    "from_norse",
    "from_rockpool",
    "from_sinabs",
    "from_snnax",
    "from_snntorch",
    "from_spikingjelly",
    "from_spyx",
    "from_torch",
    "load_nir",
    "save_nir",
]


def importer(framework: str) -> Any:
    """The importer of a framework by name (KeyError if there is none)."""
    return load_attribute({**FRAMEWORKS, **JAX_FRAMEWORKS}[framework])


def __getattr__(name: str) -> Any:
    """``from_snntorch`` and the other importers, loaded on first use."""
    framework = name.removeprefix("from_")
    if name.startswith("from_") and framework in {**FRAMEWORKS, **JAX_FRAMEWORKS}:
        return importer(framework)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
