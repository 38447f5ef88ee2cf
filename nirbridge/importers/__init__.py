"""From files and frameworks to NIR graphs."""

from nirbridge.importers.nir_file import fingerprint, load
from nirbridge.importers.nir_save import save

__all__ = ["fingerprint", "load", "save"]
