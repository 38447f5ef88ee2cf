"""Importers of the frameworks by name, so that listing them imports no framework."""

from types import MappingProxyType
from typing import Any

from nirbridge.files.attributes import load_attribute

FRAMEWORKS = MappingProxyType(
    {
        "snntorch": "nirbridge.importers.frameworks.snntorch:from_snntorch",
        "norse": "nirbridge.importers.frameworks.norse:from_norse",
        "torch": "nirbridge.importers.ann.from_torch:from_torch",
        "sinabs": "nirbridge.importers.frameworks.sinabs:from_sinabs",
        "spikingjelly": "nirbridge.importers.frameworks.spikingjelly:from_spikingjelly",
        "rockpool": "nirbridge.importers.frameworks.rockpool:from_rockpool",
    }
)
"""Framework -> its importer, as "module:function"."""

_STORE_DT = ("norse", "rockpool")


def stored_dt(framework: str, module: Any) -> float | None:
    """Seconds per time step that a module was built with; None where its framework counts time steps alone."""
    if framework not in _STORE_DT:
        return None
    return load_attribute(f"nirbridge.importers.frameworks.{framework}:module_dt")(module)
