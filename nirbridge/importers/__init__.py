"""From files and frameworks to NIR graphs; nothing of a framework is imported before its importer is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nirbridge.files.attributes import load_attribute
from nirbridge.importers.framework_importers import FRAMEWORKS
from nirbridge.importers.load_repaired import load
from nirbridge.importers.nir_file import fingerprint
from nirbridge.importers.nir_save import save

if TYPE_CHECKING:
    from nirbridge.importers.norse import from_norse
    from nirbridge.importers.rockpool import from_rockpool
    from nirbridge.importers.sinabs import from_sinabs
    from nirbridge.importers.snntorch import from_snntorch
    from nirbridge.importers.spikingjelly import from_spikingjelly
    from nirbridge.importers.torch_ann import from_torch

__all__ = [
    "FRAMEWORKS",
    "fingerprint",
    "from_norse",
    "from_rockpool",
    "from_sinabs",
    "from_snntorch",
    "from_spikingjelly",
    "from_torch",
    "load",
    "save",
]


def importer(framework: str) -> Any:
    """The importer of a framework by name (KeyError if there is none)."""
    return load_attribute(FRAMEWORKS[framework])


def __getattr__(name: str) -> Any:
    """``from_snntorch`` and its kin, imported when they are asked for."""
    framework = name.removeprefix("from_")
    if name.startswith("from_") and framework in FRAMEWORKS:
        return importer(framework)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
