"""Objects of plugins: held to the attributes of their kind, and blamed by name for exceptions that are not ours."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from nirbridge.errors import Bug, NirbridgeError, UsageError, type_text

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
