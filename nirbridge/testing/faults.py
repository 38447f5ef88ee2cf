"""Faults of an object that claims to keep to a Protocol, collected so that one run reports all of them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Bug, Diagnostic, NirbridgeError, NotConforming, type_text
from nirbridge.simulators.types import Recording

FAILED: Any = object()
"""Result of ``Faults.call`` for a call that failed."""
HINT = "see docs/plugins.md"


class Faults:
    """The faults of one object, by name; the same fault is counted once."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._found: dict[tuple[str, str], Diagnostic] = {}

    def add(self, found: str, limit: str) -> None:
        """One fault: the observation, and the requirement of the Protocol."""
        self._found.setdefault((found, limit), Diagnostic(self.subject, found, limit, HINT))

    def raise_if_any(self) -> None:
        """Raises NotConforming with every fault."""
        NotConforming.raise_all(self._found.values())

    def call(self, action: str, function: Callable[[], Any]) -> Any:
        """The result of a call that has to succeed; ``FAILED`` after an exception, which is a fault.

        A module that is not installed is no fault: ModuleNotFoundError goes on to the caller.
        """
        try:
            return function()
        except ModuleNotFoundError:
            raise
        except Exception as error:
            self.add(f"{action} raised {_told(error)}", "it returns a result")
            return FAILED

    def refuses(self, argument: str, function: Callable[[], Any]) -> None:
        """A call with a wrong argument has to raise an error of nirbridge."""
        limit = "a wrong argument is a UsageError, or another error of nirbridge.errors"
        try:
            function()
        except Bug as error:
            self.add(f"{argument} raised {_told(error)}", limit)
        except NirbridgeError:
            return
        except Exception as error:
            self.add(f"{argument} raised {_told(error)}", limit)
        else:
            self.add(f"{argument} was accepted", limit)

    def is_a(self, action: str, value: object, kind: type) -> bool:
        """True if the value is of a type; False, and a fault, where it is of another."""
        if isinstance(value, kind):
            return True
        if value is not FAILED:
            self.add(f"{action} returned {type_text(value)}", f"it returns a {kind.__name__}")
        return False

    def unchanged(self, argument: str, before: str, after: object) -> None:
        """An argument has to have the fingerprint that it had before the call."""
        if fingerprint(after) != before:
            self.add(f"{argument} was changed", "arguments are left unchanged")

    def repeatable(self, result: str, first: object, second: object) -> None:
        """Two calls with the same arguments have to give the same."""
        if FAILED not in (first, second) and fingerprint(first) != fingerprint(second):
            self.add(f"{result} differs from one call to the next", "the same arguments give the same result")

    def equal(self, action: str, recording: object, expected: Recording) -> None:
        """A recording has to hold exactly the arrays of the expected one."""
        if not self.is_a(action, recording, Recording):
            return
        assert isinstance(recording, Recording)
        if set(recording.arrays) != set(expected.arrays):
            self.add(f"{action} recorded {_keys(recording)}", f"it records {_keys(expected)}")
        for key, array in expected.arrays.items():
            difference = _difference(recording.arrays.get(key), array)
            if difference:
                node, variable = key
                self.add(f"{action}: {variable} of {node!r} {difference}", "every bit is that of the reference")


def _difference(array: Array | None, expected: Array) -> str:
    if array is None:
        return ""
    if not isinstance(array, np.ndarray):
        return f"is {type_text(array)}, not an array"
    if array.shape != expected.shape:
        return f"has shape {array.shape} instead of {expected.shape}"
    if array.dtype.kind not in "biuf":
        return f"has type {array.dtype}"
    different = np.argwhere(array.astype(np.float64) != expected.astype(np.float64))
    if not len(different):
        return ""
    place = tuple(int(i) for i in different[0])
    return f"differs in {len(different):,} values, first at {place}: {array[place]:g} instead of {expected[place]:g}"


def _keys(recording: Recording) -> str:
    return ", ".join(sorted(f"{variable} of {node!r}" for node, variable in recording.arrays)) or "nothing"


def _told(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}{': ' + text[0][:300] if text else ''}"


def fingerprint(value: object) -> str:
    """A digest of a value of arrays, dataclasses, mappings and sequences: equal for equal values, bit for bit.

    The order of a mapping is not counted.
    """
    digest = hashlib.sha256()
    _feed(value, digest.update)
    return digest.hexdigest()


def _feed(value: Any, take: Callable[[bytes], None]) -> None:
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        take(f"array {np.asarray(value).dtype.str} {np.shape(value)} ".encode())
        take(np.ascontiguousarray(value).tobytes())
        return
    parts = _parts(value)
    take(f"{_kind(value)} {'' if parts is not None else _text(value)} (".encode("utf-8", "replace"))
    for part in parts or ():
        _feed(part, take)
    take(b")")


def _kind(value: Any) -> str:
    """The type by name; one name for all mappings, and for all sequences."""
    if isinstance(value, Mapping):
        return "mapping"
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return "sequence" if is_sequence else type(value).__name__


def _parts(value: Any) -> Sequence[Any] | None:
    """The parts of a value in order; None: it has no parts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [part for f in dataclasses.fields(value) for part in (f.name, getattr(value, f.name, None))]
    if isinstance(value, Mapping):
        return [part for pair in sorted(value.items(), key=lambda pair: repr(pair[0])) for part in pair]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _text(value: Any) -> str:
    """A text of a value that has no parts: never one with an address of memory."""
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    return str(getattr(value, "__qualname__", ""))
