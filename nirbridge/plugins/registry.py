"""Look-up of names: the distribution that defines a name, and its object, held to the attributes of its kind."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from nirbridge.chips import Chip, read_chip
from nirbridge.errors import Bug, Diagnostic, NirbridgeError, UsageError, did_you_mean, quoted, type_text
from nirbridge.files.attributes import load_attribute
from nirbridge.plugins.record import KINDS, OWN, LoadedPlugin, Plugin

if TYPE_CHECKING:
    from nirbridge.passes.base import Pass
    from nirbridge.plugins.protocols import Emitter, Importer, Partitioner, Simulator


GROUP = "nirbridge.plugins"
Plugins = tuple[LoadedPlugin, ...] | None
"""The plugins to search besides nirbridge's own names; None: those of the environment."""


def installed_plugins(entry_points: Iterable[metadata.EntryPoint] | None = None) -> tuple[LoadedPlugin, ...]:
    """Every plugin of the environment, by distribution name; broken ones say why instead of raising."""
    points = _points(metadata.entry_points, _folders()) if entry_points is None else entry_points
    return tuple(sorted((_load(point) for point in points), key=lambda p: (p.distribution, p.trouble)))


@lru_cache(maxsize=1)
def _points(read: Callable[..., Any], folders: object) -> tuple[metadata.EntryPoint, ...]:
    """Reading them opens a file of each installed distribution: once, until one of ``folders`` changes."""
    return tuple(read(group=GROUP))


def _folders() -> tuple[tuple[str, int | None], ...]:
    """Where packages are found, each folder with the time of its last change, which an installation alters."""
    return tuple((os.path.abspath(path), _changed(path)) for path in sys.path)


def _changed(path: str) -> int | None:
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return None


def names(kind: str, plugins: Plugins = None) -> tuple[str, ...]:
    """Names of a kind: nirbridge's own in their order, then those of plugins in alphabetical order."""
    builtin, *others = _tables(kind, plugins)
    return (*builtin[1], *sorted({name for _, table in others for name in table} - set(builtin[1])))


def chip_names(plugins: Plugins = None) -> tuple[str, ...]:
    """Names of all chips, built-in and from plugins, in alphabetical order."""
    return tuple(sorted(names("chips", plugins)))


def find_chip(name_or_path: str | Path, plugins: Plugins = None) -> Chip:
    """A chip by name (built-in or from a plugin) or from a TOML file.

    Raises ChipError for what is wrong with the chip, UsageError for a name that two distributions use and for a
    plugin that names no file.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        return read_chip(name_or_path)
    searched = installed_plugins() if plugins is None else plugins
    owner = _owner("chips", text, searched)
    if owner is not None and owner[0] != OWN.distribution:
        return read_chip(_resource(text, owner[1]))
    if owner is None and any(p.plugin is None for p in searched):
        raise UsageError(Diagnostic(f"chip {quoted(text)}", "unknown", hint=_troubles(searched)))
    return read_chip(text, {name: Path() for name in chip_names(searched)})


@overload
def get(kind: Literal["importers"], name: str, plugins: Plugins = None) -> Importer: ...
@overload
def get(kind: Literal["passes"], name: str, plugins: Plugins = None) -> type[Pass]: ...
@overload
def get(kind: Literal["partitioners"], name: str, plugins: Plugins = None) -> Partitioner: ...
@overload
def get(kind: Literal["emitters"], name: str, plugins: Plugins = None) -> Emitter: ...
@overload
def get(kind: Literal["simulators"], name: str, plugins: Plugins = None) -> Simulator: ...
@overload
def get(kind: str, name: str, plugins: Plugins = None) -> Any: ...
def get(kind: str, name: str, plugins: Plugins = None) -> Any:
    """The object of a name of a kind other than chips, imported now.

    Raises UsageError for an unknown name, a name that two distributions use, and an object that cannot be imported or
    is not of its kind.
    """
    searched = installed_plugins() if plugins is None else plugins
    owner = _owner(kind, name, searched)
    if owner is None:
        raise unknown(kind, name, searched)
    distribution, place = owner
    target = _imported(kind, name, place)
    subject = f"{_subject(kind, name)} of {distribution}"
    check_form(kind, target, subject)
    return target if distribution == OWN.distribution else guarded(target, subject)


def unknown(kind: str, name: str, plugins: Plugins = None) -> UsageError:
    """The error for an unknown name, with the known ones and the nearest of them."""
    searched = installed_plugins() if plugins is None else plugins
    known_names = sorted(names(kind, searched))
    shown = ", ".join(quoted(known)[1:-1] for known in known_names)
    hints = [text for text in (did_you_mean(name, known_names), _troubles(searched)) if text]
    return UsageError(Diagnostic(_subject(kind, name), "unknown", f"known {kind}: {shown}", "; ".join(hints)))


def _load(point: metadata.EntryPoint) -> LoadedPlugin:
    distribution = point.dist.name if point.dist is not None else point.name
    try:
        plugin = point.load()
    except Exception as error:
        return LoadedPlugin(distribution, None, f"{type(error).__name__}: {error}")
    if not isinstance(plugin, Plugin):
        return LoadedPlugin(distribution, None, f"{point.value} is {type_text(plugin)}, not a nirbridge Plugin")
    wrong = [kind for kind in KINDS if not _is_table(getattr(plugin, kind))]
    if wrong:
        return LoadedPlugin(
            distribution, None, f"its {', '.join(wrong)} are not names with text such as 'module:attribute'"
        )
    return LoadedPlugin(distribution, plugin)


def _is_table(table: object) -> bool:
    return isinstance(table, Mapping) and all(isinstance(x, str) for pair in table.items() for x in pair)


def _tables(kind: str, plugins: Plugins) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(distribution, its names of a kind) of nirbridge first, then of every plugin that was loaded."""
    for loaded in (OWN, *(installed_plugins() if plugins is None else plugins)):
        if loaded.plugin is not None:
            yield loaded.distribution, getattr(loaded.plugin, kind)


def _owner(kind: str, name: str, plugins: tuple[LoadedPlugin, ...]) -> tuple[str, str] | None:
    """The distribution that defines ``name`` and its place, None for an unknown name; a clash is an error."""
    holders = [(who, table[name]) for who, table in _tables(kind, plugins) if name in table]
    if len(holders) > 1:
        owners = [distribution for distribution, _ in holders]
        hint = f"uninstall all but one of {', '.join(owners)}"
        text = f"defined by {' and by '.join(owners)}"
        raise UsageError(Diagnostic(_subject(kind, name), text, "a name has one owner", hint))
    return holders[0] if holders else None


def _resource(name: str, place: str) -> Path:
    package, _, path = place.partition(":")
    try:
        file = resources.files(package).joinpath(path)
    except (ImportError, TypeError, ValueError, OSError) as error:
        found = f"its package {quoted(package)} cannot be imported ({quoted(error, 200)})"
        raise UsageError(Diagnostic(f"chip {quoted(name)}", found)) from error
    return Path(str(file))


def _imported(kind: str, name: str, place: str) -> Any:
    try:
        return load_attribute(place)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        found = f"{quoted(place)} cannot be imported ({quoted(error, 200)})"
        raise UsageError(Diagnostic(_subject(kind, name), found)) from error


def _troubles(plugins: tuple[LoadedPlugin, ...]) -> str:
    broken = [f"{p.distribution} ({quoted(p.trouble, 200)[1:-1]})" for p in plugins if p.plugin is None]
    return f"plugins that cannot be loaded: {', '.join(broken)}" if broken else ""


def _subject(kind: str, name: str) -> str:
    return f"{'pass' if kind == 'passes' else kind.removesuffix('s')} {quoted(name)}"


# -- guard ---------------------------------------------------------------------------------------------------------

HINT = "see docs/plugins.md"
NEEDS: dict[str, tuple[str, ...]] = {
    "importers": ("__call__",),
    "passes": ("pass_name", "promise", "__call__"),
    "partitioners": ("__call__",),
    "emitters": ("takes", "options", "records", "emit", "run"),
    "simulators": ("takes", "__call__"),
}
"""Attributes that the object of a name must have, by kind."""


def check_form(kind: str, target: object, subject: str) -> None:
    """Raises UsageError for an object that is not of its kind: attributes that it lacks, a pass that is no class."""
    lacks = [name for name in NEEDS[kind] if not hasattr(target, name)]
    if lacks:
        raise UsageError.of(subject, f"has no {', '.join(lacks)}", "its kind needs them", HINT)
    if kind == "passes" and not (isinstance(target, type) and is_dataclass(target)):
        raise UsageError.of(subject, f"is {type_text(target)}", "a pass is a frozen dataclass", HINT)


def guarded(target: Any, subject: str) -> Any:
    """The object of a plugin; an exception that it raises by mistake is a ``Bug`` that names the plugin.

    Classes (passes) are returned as they are: what runs their instances guards these.
    """
    if isinstance(target, type):
        return target
    return _guarded_function(target, subject) if inspect.isroutine(target) else _Guarded(target, subject)


def _guarded_function(function: Callable[..., Any], subject: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except (NirbridgeError, ModuleNotFoundError):
            raise
        except Exception as error:
            hint = "please report it to its authors"
            raise Bug.of(subject, f"{type(error).__name__}: {error}", "", hint) from error

    return called


class _Guarded:
    """An object whose methods are guarded, and whose other attributes are its own."""

    def __init__(self, target: Any, subject: str) -> None:
        self._found, self._subject = target, subject

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        return _guarded_function(value, self._subject) if inspect.isroutine(value) else value

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _guarded_function(self._found.__call__, self._subject)(*args, **options)
