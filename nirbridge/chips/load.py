"""Reading of chip files (TOML): built-in chips by name, others by path; and chips with other values."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from nirbridge.chips.check import check_chip
from nirbridge.chips.codec import (
    RANGED,
    WITH,
    chip_dict_problems,
    chip_from_valid_dict,
    flat_sources,
    plain,
    shown,
)
from nirbridge.chips.model import Chip
from nirbridge.chips.schema import FIELDS, TABLES
from nirbridge.errors import ChipError, Diagnostic, did_you_mean, quoted
from nirbridge.files.regular import open_file, template_bytes

FILE_BYTES_MAX = 1_000_000
EXTENDS_MAX = 8
"""Files that extend one another."""
_FIELDS = {f.name: f for f in FIELDS}
_NAMED = 160
"""Characters of changed values in the name of a chip; the record has all of them."""


def builtin_chips() -> tuple[str, ...]:
    """Names of the chips that come with nirbridge, in alphabetical order."""
    files = (resources.files("nirbridge.chips") / "data").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


def read_chip(name_or_path: str | Path, more: Mapping[str, Path] = MappingProxyType({})) -> Chip:
    """A chip by name, or from a file where ``name_or_path`` is a Path, ends in ``.toml`` or has a separator.

    ``more`` maps further names (of plugins) to their files. Raises ChipError with every problem of the file.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        return _from_file(Path(name_or_path), quoted(text))
    if text in builtin_chips():
        return _parsed(template_bytes(resources.files("nirbridge.chips") / "data" / f"{text}.toml"), quoted(text))
    if text in more:
        return _from_file(more[text], quoted(text))
    names = sorted({*builtin_chips(), *more})
    step = did_you_mean(text, names) or "or give the path of a .toml file"
    raise ChipError(Diagnostic(f"chip {quoted(text)}", "unknown", f"known chips: {', '.join(names)}", step))


def chip_from_dict(record: Mapping[str, Any], subject: str = "chip record") -> Chip:
    """The chip of a record such as ``Chip.record`` (so a saved map rebuilds its chip).

    Raises ChipError with every problem: unknown and missing keys, wrong types, negative numbers, missing sources;
    and, where there are none of these, every problem of ``check.diagnose_chip``.
    """
    if not isinstance(record, Mapping):
        raise ChipError.of(subject, "not a table", "a chip is a table of keys")
    problems = chip_dict_problems(record)
    ChipError.raise_all(dataclasses.replace(problem, subject=f"{subject}: {problem.subject}") for problem in problems)
    chip = chip_from_valid_dict(record)
    check_chip(chip)
    return chip


def described_chip(record: Mapping[str, Any], subject: str, folder: Path | None, above: tuple[str, ...] = ()) -> Chip:
    """The chip of the table of a file, which may extend another one.

    ``extends`` names a built-in chip or a file of ``folder``: nothing else is read for a chip. ``above``: the names of
    the files that extend this one. Raises ChipError as ``chip_from_dict``.
    """
    if not isinstance(record, Mapping) or "extends" not in record:
        return chip_from_dict(record, subject)
    base = _extended(record["extends"], f"{subject}: extends", folder, above)
    changes = {key: value for key, value in record.items() if key != "extends"}
    return chip_from_dict(_with_changes(base, changes), subject)


def with_values(chip: Chip, values: Mapping[str, Any]) -> Chip:
    """The chip with other values of some keys, checked like a file; its name and the sources of the values say so.

    ``values``: by dotted key, in the form of the file; None stands for "unlimited" or "none". Raises ChipError.
    """
    ChipError.raise_all(unknown_key(key) for key in values if key not in _FIELDS)
    if not values:
        return chip
    tables: dict[str, Any] = {"name": chip.name}
    for key, value in values.items():
        field = _FIELDS[key]
        number = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
        tables.setdefault(field.table, {})[field.key] = field.absent if number is None and field.absent else number
    changed = chip_from_dict(_with_changes(chip, tables), f"chip {quoted(chip.name)}")
    texts = {key: shown(tables[_FIELDS[key].table][_FIELDS[key].key]).strip("'") for key in values}
    return dataclasses.replace(changed, name=_name_with(chip.name, texts))


def unknown_key(key: object) -> Diagnostic:
    """The problem of a dotted key that no chip has."""
    hint = did_you_mean(key, _FIELDS) or "'nirbridge chips loihi1' lists the keys"
    return Diagnostic(f"chip key {quoted(key)}", "unknown", "keys are those of a chip file, as core.neurons", hint)


def value_of_text(text: str) -> Any:
    """The value that ``512``, ``2e-12``, ``true``, ``[4, 8]`` or ``unlimited`` stands for: of TOML, else the text."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def key_meanings() -> dict[str, str]:
    """Every dotted key of a chip file, and what it means."""
    return {f.name: f.meaning for f in FIELDS}


def _name_with(name: str, texts: Mapping[str, str]) -> str:
    """``loihi2 with core.neurons=512``: each key once, however often it was changed."""
    base, _, changes = name.partition(WITH)
    pairs = (each.partition("=") for each in re.split(r", (?=[a-z]+\.)", changes))
    named = {key: text for key, equals, text in pairs if equals}
    said = ", ".join(f"{key}={text}" for key, text in {**named, **texts}.items())
    return f"{base}{WITH}{said if len(said) <= _NAMED else said[:_NAMED] + '…'}"


def _with_changes(base: Chip, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a chip with the keys of another, table by table; a changed number loses its mark and its range.

    The source of a changed number is that which ``changes`` gives, else the user. What is wrong is left as it is: the
    checks of the record name it.
    """
    record: dict[str, Any] = {key: value for key, value in base.record.items() if key != "name"}
    tables = {name: table for name in (*TABLES, "range") if isinstance(table := changes.get(name), Mapping)}
    changed = [f"{name}.{key}" for name, table in tables.items() for key in table]
    changed = [key for key in changed if key.removeprefix("range.") in (RANGED if key[:6] == "range." else _FIELDS)]
    stale = {key for key in base.ranges if key in changed and f"range.{key}" not in changed}
    ranges = {key: value for key, value in record.pop("range", {}).items() if key not in stale}
    record |= {"range": ranges} if ranges else {}
    sources = {key: text for key, text in base.sources.items() if key.removeprefix("range.") not in {*changed, *stale}}
    for key, value in changes.items():
        record[key] = {**record.get(key, {}), **value} if key in tables else value
    given = changes.get("source", {})
    if isinstance(given, Mapping):
        named = flat_sources(given)
        users = {key: _set_by_user(base, key) for key in changed if not named.keys() & {key, key.partition(".")[0]}}
        record["source"] = {**sources, **users, **named}
    marks = changes.get("approximate", [])
    if isinstance(marks, list | tuple):
        record["approximate"] = [*(key for key in base.approximate if key not in changed and key not in marks), *marks]
    return record


def _set_by_user(base: Chip, key: str) -> str:
    table, _, name = key.partition(".")
    had = base.record.get(table, {})
    before = shown(plain(had[name])) if isinstance(had, Mapping) and name in had else "no such number"
    return f"set by the user; {base.name} has {before}"


def _extended(value: Any, subject: str, folder: Path | None, above: tuple[str, ...]) -> Chip:
    """The chip that a file extends: a link is not followed, so nothing outside the folder is read."""
    names = builtin_chips()
    if isinstance(value, str) and value in names:
        return read_chip(value)
    if folder is None or not _is_beside(value):
        limit = f"expected a built-in chip ({', '.join(names)}){'' if folder is None else ' or a .toml file beside it'}"
        raise ChipError.of(subject, f"found {shown(value)}", limit, did_you_mean(value, names))
    if value in above:
        raise ChipError.of(subject, f"{quoted(value)} extends itself", "", "let one of the files be complete")
    if len(above) >= EXTENDS_MAX:
        raise ChipError.of(subject, f"more than {EXTENDS_MAX} files", "each extends the next one", "join some of them")
    return _from_file(folder / value, quoted(value), above)


def extended_files(path: str | Path) -> tuple[Path, ...]:
    """The files that a chip file extends, as far as they can be read: what is wrong is said where the chip is read."""
    found: list[Path] = []
    place = Path(path)
    while len(found) <= EXTENDS_MAX:
        try:
            with open_file(place, follow=not found) as file:
                value = tomllib.loads(file.read(FILE_BYTES_MAX + 1).decode("utf-8")).get("extends")
        except (OSError, ValueError, RecursionError):
            break
        if not _is_beside(value):
            break
        place = place.parent / value
        found.append(place)
    return tuple(found)


def _is_beside(value: Any) -> TypeGuard[str]:
    """True for the name of a ``.toml`` file without a folder."""
    return isinstance(value, str) and value.endswith(".toml") and not set(value) & set("/\\\0")


def _from_file(path: Path, label: str, above: tuple[str, ...] = ()) -> Chip:
    if not os.path.isfile(path):  # unlike Path.is_file, no exception for a name that is too long
        found = "is not a regular file" if os.path.exists(path) else "no such file"
        step = f"built-in chips: {', '.join(builtin_chips())}"
        raise ChipError(Diagnostic(f"chip file {label}", found, hint=step))
    try:
        with open_file(path, follow=not above) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ChipError(Diagnostic(f"chip file {label}", f"cannot be read ({error.strerror})")) from error
    return _parsed(data, label, path.parent, (*above, path.name))


def _parsed(data: bytes, label: str, folder: Path | None = None, above: tuple[str, ...] = ()) -> Chip:
    subject = f"chip file {label}"
    if len(data) > FILE_BYTES_MAX:
        raise ChipError(Diagnostic(subject, "too large", f"at most {FILE_BYTES_MAX:,} bytes are read"))
    try:
        record = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ChipError(Diagnostic(subject, f"not UTF-8 text (byte {error.start})")) from error
    except RecursionError as error:
        raise ChipError(Diagnostic(subject, "nested too deeply")) from error
    except ValueError as error:  # TOMLDecodeError, and whole numbers of thousands of digits
        raise ChipError(Diagnostic(subject, f"not valid TOML ({quoted(error, 200)[1:-1]})")) from error
    return described_chip(record, subject, folder, above)
