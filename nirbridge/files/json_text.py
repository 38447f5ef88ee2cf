"""JSON and TOML texts of files, read with limits: what is refused is named with its place."""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from nirbridge.errors import FileError, quoted
from nirbridge.files.regular import open_regular

DEPTH_MAX = 64
"""Lists and objects within each other."""
ANSWER_BYTES_MAX = 2**26
"""Of what a process of ours answers, and of texts in the metadata of a model."""
WHOLE_RANGE = (-(2**63), 2**64 - 1)
"""Whole numbers of 64 bits, with or without a sign."""
_LONG = re.compile(r"[0-9]{19}")


class _Refused(ValueError):
    """Text that is JSON to Python, but not here."""


def parse_json(data: bytes | str, subject: str, *, bytes_max: int, hint: str = "") -> Any:
    """The value of a JSON text; names may hold lone surrogates, as names of NIR files do.

    Raises:
        FileError: more than ``bytes_max``, no UTF-8, no JSON, a key twice, more than ``DEPTH_MAX`` levels, a number
            that is not finite, or a whole number of more than 64 bits.
    """
    if len(data) > bytes_max:
        raise FileError.of(subject, f"more than {bytes_max:,} bytes", "too large to be read", hint)
    limit = ""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_key_twice)
        _check_depth(value)
        if _LONG.search(text):
            _check_whole_numbers(value)
    except RecursionError:
        found, limit = "nested too deeply", f"at most {DEPTH_MAX} levels"
    except UnicodeDecodeError as error:
        found = f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        found = f"not JSON at line {error.lineno}, column {error.colno} ({error.msg})"
    except _Refused as error:
        found, limit = str(error.args[0]), str(error.args[1])
    except ValueError:  # Python reads no number of that many digits
        found, limit = "a whole number of thousands of digits", "at most 64 bits"
    else:
        return value
    raise FileError.of(subject, found, limit, hint)


def _no_constant(name: str) -> object:
    raise _Refused(f"the number {name} is not allowed in JSON", "")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"the number {quoted(text, 40)} is not finite", "")
    return value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _Refused(f"the key {quoted(twice, 40)} occurs twice", "")
    return found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        entries = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for inner in entries for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise RecursionError


def _check_whole_numbers(value: Any) -> None:
    low, high = WHOLE_RANGE
    for place, number in _whole_numbers(value, ""):
        if not low <= number <= high:
            raise _Refused(f"{place or 'it'} is a whole number of {len(str(abs(number)))} digits", "at most 64 bits")


def _whole_numbers(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """Every whole number with its place, as ``totals.energy`` or ``routes[3].hops``."""
    if isinstance(value, dict):
        for key, each in value.items():
            name = key if key.isidentifier() and len(key) <= 40 else quoted(key, 40)
            yield from _whole_numbers(each, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for k, each in enumerate(value):
            yield from _whole_numbers(each, f"{place}[{k}]")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place, value


# -- toml ----------------------------------------------------------------------------------------------------------
# TOML files of users, read with the limits that all readers have.


FILE_BYTES_MAX = 1_000_000


def read_toml(path: str | os.PathLike[str], subject: str) -> dict[str, Any]:
    """The top table of a TOML file.

    Raises:
        FileError: it cannot be opened, is no regular file, too large, not UTF-8, or not TOML.
    """
    with open_regular(path, subject, "a TOML file") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise FileError.of(subject, "too large", f"at most {FILE_BYTES_MAX:,} bytes are read")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileError.of(subject, f"not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise FileError.of(subject, "nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and whole numbers of thousands of digits
        raise FileError.of(subject, f"not valid TOML ({quoted(error, 200)[1:-1]})") from error
