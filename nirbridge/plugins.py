"""Names of what plugins add: one entry-point group, one frozen ``Plugin`` of lazy strings per distribution.

A distribution adds names with, in its pyproject.toml::

    [project.entry-points."nirbridge.plugins"]
    my_chips = "my_package.nirbridge_plugin:PLUGIN"

where ``PLUGIN = Plugin(chips={"my_chip": "my_package:data/my_chip.toml"})``. Nothing is registered by importing a
module. Two plugins with one name are an error that names both; a plugin that can not be loaded only matters when a
name is asked for that nobody else has.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import metadata, resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.chips.load import builtin_chips
from nirbridge.chips.load import read_chip as load_known_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import Bug, Diagnostic, NirbridgeError, UsageError, did_you_mean, quoted
from nirbridge.files.attributes import load_attribute

GROUP = "nirbridge.plugins"
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plugin:
    """What one distribution adds, by name; a clash with a name of nirbridge or of another plugin is an error.

    ``chips``: ``"package:path/to/file.toml"``, a file inside a package. All others: ``"module:attribute"`` of a
    function, imported when its name is asked for:

    * ``importers`` (``nirbridge import --from NAME``): ``(module, sample, **options) -> nir.NIRGraph``; ``module`` is
      what the user named, ``sample`` zeros of one step's input; options are ``dt`` where it was given;
    * ``passes`` (``--passes TEXT``): a frozen dataclass whose fields are the options of the pass and whose instances
      are ``(network) -> Network`` (``passes.base.Pass``);
    * ``partitioners`` (``map --method NAME``): ``(network, chip, partitioner.PartitionOptions) ->
    partitioner.Partition``; the
      checker sees what comes of it;
    * ``emitters`` (``emit --to NAME``): ``(quantized, mapped) -> emitters.artifact.Artifact``;
    * ``simulators`` (``simulate --backend NAME``): ``(network, inputs, *, steps, record, progress) ->
      simulators.Recording``.
    """

    chips: Mapping[str, str] = field(default_factory=lambda: _NONE)
    importers: Mapping[str, str] = field(default_factory=lambda: _NONE)
    passes: Mapping[str, str] = field(default_factory=lambda: _NONE)
    partitioners: Mapping[str, str] = field(default_factory=lambda: _NONE)
    emitters: Mapping[str, str] = field(default_factory=lambda: _NONE)
    simulators: Mapping[str, str] = field(default_factory=lambda: _NONE)


KINDS: tuple[str, ...] = tuple(f.name for f in fields(Plugin))


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin that was found: its distribution, and either the plugin or why it can not be loaded."""

    distribution: str
    plugin: Plugin | None
    trouble: str = ""


def installed_plugins(entry_points: Iterable[metadata.EntryPoint] | None = None) -> tuple[LoadedPlugin, ...]:
    """Every plugin of the environment, by distribution name; broken ones say why instead of raising."""
    found = metadata.entry_points(group=GROUP) if entry_points is None else entry_points
    return tuple(sorted((_load(point) for point in found), key=lambda p: (p.distribution, p.trouble)))


def chip_names(plugins: tuple[LoadedPlugin, ...] | None = None) -> tuple[str, ...]:
    """Names of all chips, built-in and from plugins, in alphabetical order."""
    known = installed_plugins() if plugins is None else plugins
    return tuple(sorted({*builtin_chips(), *(name for _, names in _of_kind("chips", known) for name in names)}))


def find_chip(name_or_path: str | Path, plugins: tuple[LoadedPlugin, ...] | None = None) -> Chip:
    """A chip by name (built-in or from a plugin) or from a TOML file.

    Raises ChipError for what is wrong with the chip, UsageError for a name that two distributions use and for a
    plugin that names no file.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        return load_known_chip(name_or_path)
    known = installed_plugins() if plugins is None else plugins
    builtin = ("nirbridge",) if text in builtin_chips() else ()
    owner = _one("chips", text, known, builtin)
    if owner is not None:
        return load_known_chip(_resource(text, owner[1]))
    if not builtin and any(p.plugin is None for p in known):
        raise UsageError(Diagnostic(f"chip {quoted(text)}", "unknown", hint=_troubles(known)))
    return load_known_chip(text, {name: Path() for name in chip_names(known)})


def builtin(kind: str) -> Mapping[str, str]:
    """Names of a kind that nirbridge has itself, chips left out, in the form that plugins have."""
    if kind == "importers":
        from nirbridge.importers import FRAMEWORKS

        return FRAMEWORKS
    if kind == "passes":
        from nirbridge.passes import PASSES

        return PASSES
    if kind == "partitioners":
        from nirbridge.partitioner import METHODS

        return dict.fromkeys(METHODS, "nirbridge.partitioner:partition")
    if kind == "simulators":
        from nirbridge.simulators.simulate import BACKENDS

        own = {name: f"nirbridge.simulators.{name}.simulate:simulate_{name}" for name in ("fixed", "mapped")}
        return dict.fromkeys(("auto", *BACKENDS), "nirbridge.simulators.simulate:simulate") | own
    return {"lava": "nirbridge.emitters.lava.emit:emit"} if kind == "emitters" else _NONE


def names(kind: str, plugins: tuple[LoadedPlugin, ...] | None = None) -> tuple[str, ...]:
    """Names of a kind: nirbridge's own in their order, then those of plugins in alphabetical order."""
    own, known = builtin(kind), installed_plugins() if plugins is None else plugins
    return (*own, *sorted({name for _, table in _of_kind(kind, known) for name in table} - set(own)))


def get(kind: str, name: str, plugins: tuple[LoadedPlugin, ...] | None = None) -> Any:
    """The object behind a name, nirbridge's own or a plugin's. Raises UsageError (see ``find``)."""
    return find(kind, name, builtin(kind), plugins)


def find(kind: str, name: str, builtin: Mapping[str, str], plugins: tuple[LoadedPlugin, ...] | None = None) -> Any:
    """The object behind a name of ``kind`` ("partitioners" …), imported now.

    ``builtin`` has nirbridge's own names, in the same form as a plugin's. Raises UsageError for an unknown name, a name
    that two distributions use, and an object that can not be imported.
    """
    known = installed_plugins() if plugins is None else plugins
    owner = _one(kind, name, known, ("nirbridge",) if name in builtin else ())
    if owner is not None:
        who, where = owner
        return _guarded(_import(kind, name, where), f"{_singular(kind)} {quoted(name)} of {who}")
    if name not in builtin:
        names = sorted({*builtin, *(n for _, table in _of_kind(kind, known) for n in table)})
        step = "; ".join(text for text in (did_you_mean(name, names), _troubles(known)) if text)
        shown = ", ".join(quoted(known_name)[1:-1] for known_name in names)
        raise UsageError(Diagnostic(f"{_singular(kind)} {quoted(name)}", "unknown", f"known: {shown}", step))
    return _import(kind, name, builtin[name])


def _guarded(function: Any, subject: str) -> Any:
    """The function of a plugin; what it raises by mistake is said to be the plugin's."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except (NirbridgeError, ModuleNotFoundError):
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise Bug(Diagnostic(subject, found, hint="please report it to its authors")) from error

    return called if callable(function) and not isinstance(function, type) else function


def _load(point: metadata.EntryPoint) -> LoadedPlugin:
    distribution = point.dist.name if point.dist is not None else point.name
    try:
        plugin = point.load()
    except Exception as error:
        return LoadedPlugin(distribution, None, f"{type(error).__name__}: {error}")
    if not isinstance(plugin, Plugin):
        return LoadedPlugin(distribution, None, f"{point.value} is a {type(plugin).__name__}, not a nirbridge Plugin")
    wrong = [kind for kind in KINDS if not _is_table(getattr(plugin, kind))]
    if wrong:
        return LoadedPlugin(
            distribution, None, f"its {', '.join(wrong)} are not names with text such as 'module:attribute'"
        )
    return LoadedPlugin(distribution, plugin)


def _is_table(table: object) -> bool:
    return isinstance(table, Mapping) and all(isinstance(x, str) for pair in table.items() for x in pair)


def _of_kind(kind: str, plugins: tuple[LoadedPlugin, ...]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for loaded in plugins:
        if loaded.plugin is not None:
            yield loaded.distribution, getattr(loaded.plugin, kind)


def _one(kind: str, name: str, plugins: tuple[LoadedPlugin, ...], builtin: tuple[str, ...]) -> tuple[str, str] | None:
    """Whose ``name`` is and where, None where no plugin has it; a clash is an error that names all who have it."""
    found = [(who, table[name]) for who, table in _of_kind(kind, plugins) if name in table]
    owners = [*builtin, *(who for who, _ in found)]
    if found and len(owners) > 1:
        step = f"uninstall all but one of {', '.join(owners)}"
        subject = f"{_singular(kind)} {quoted(name)}"
        raise UsageError(Diagnostic(subject, f"defined by {' and by '.join(owners)}", "a name has one owner", step))
    return found[0] if found else None


def _resource(name: str, where: str) -> Path:
    package, _, path = where.partition(":")
    try:
        file = resources.files(package).joinpath(path)
    except (ImportError, TypeError, ValueError, OSError) as error:
        found = f"its package {quoted(package)} cannot be imported ({quoted(error, 200)})"
        raise UsageError(Diagnostic(f"chip {quoted(name)}", found)) from error
    return Path(str(file))


def _import(kind: str, name: str, where: str) -> Any:
    try:
        return load_attribute(where)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        subject = f"{_singular(kind)} {quoted(name)}"
        said = quoted(error, 200)
        raise UsageError(Diagnostic(subject, f"{quoted(where)} cannot be imported ({said})")) from error


def _troubles(plugins: tuple[LoadedPlugin, ...]) -> str:
    broken = [f"{p.distribution} ({quoted(p.trouble, 200)[1:-1]})" for p in plugins if p.plugin is None]
    return f"plugins that can not be loaded: {', '.join(broken)}" if broken else ""


def _singular(kind: str) -> str:
    return "pass" if kind == "passes" else kind.removesuffix("s")
