"""Framework -> its importer, by name, so that nothing of a framework is imported to know of it."""

from types import MappingProxyType

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
"""Framework -> where its importer is ("module:function")."""
