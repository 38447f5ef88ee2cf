"""Framework -> its importer, by name, so that nothing of a framework is imported to know of it."""

from types import MappingProxyType

FRAMEWORKS = MappingProxyType(
    {
        "snntorch": "nirbridge.importers.snntorch:from_snntorch",
        "norse": "nirbridge.importers.norse:from_norse",
        "torch": "nirbridge.importers.torch_ann:from_torch",
        "sinabs": "nirbridge.importers.sinabs:from_sinabs",
        "spikingjelly": "nirbridge.importers.spikingjelly:from_spikingjelly",
        "rockpool": "nirbridge.importers.rockpool:from_rockpool",
    }
)
"""Framework -> where its importer is ("module:function")."""
