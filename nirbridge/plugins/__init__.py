"""Names of chips, importers, passes, partitioners, simulators and emitters, nirbridge's own and those of plugins.

A distribution adds names with, in its pyproject.toml::

    [project.entry-points."nirbridge.plugins"]
    my_chips = "my_package.nirbridge_plugin:PLUGIN"

where ``PLUGIN = Plugin(chips={"my_chip": "my_package:data/my_chip.toml"})``. Nothing is registered by importing a
module, and nothing is imported before one of its names is used. Two distributions with one name are an error that names
both. nirbridge's own names are a ``Plugin`` too (``BUILTIN``), found by the same code. docs/plugins.md has the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nirbridge.errors import did_you_mean
from nirbridge.plugins.protocols import Emitter, Importer, Partitioner, Simulator
from nirbridge.plugins.record import BUILTIN, KINDS, LoadedPlugin, Plugin
from nirbridge.plugins.registry import GROUP, chip_names, find_chip, get, guarded, installed_plugins, names, unknown

if TYPE_CHECKING:
    from nirbridge.passes.base import Pass

__all__ = [
    "BUILTIN",
    "GROUP",
    "KINDS",
    "Emitter",
    "Importer",
    "LoadedPlugin",
    "Partitioner",
    "Pass",
    "Plugin",
    "Simulator",
    "chip_names",
    "did_you_mean",
    "find_chip",
    "get",
    "guarded",
    "installed_plugins",
    "names",
    "unknown",
]


def __getattr__(name: str) -> Any:
    """``Pass``, imported with the passes when it is used."""
    if name == "Pass":
        from nirbridge.passes.base import Pass

        return Pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
