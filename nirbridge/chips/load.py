"""Reading of chip files (TOML): built-in chips by name, others by path."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.chips.check import check_chip
from nirbridge.chips.codec import chip_dict_problems, chip_from_valid_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import ChipError, Diagnostic, did_you_mean, quoted
from nirbridge.files.regular import open_file, template_bytes

FILE_BYTES_MAX = 1_000_000


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


def _from_file(path: Path, label: str) -> Chip:
    if not os.path.isfile(path):  # unlike Path.is_file, no exception for a name that is too long
        found = "is not a regular file" if os.path.exists(path) else "no such file"
        step = f"built-in chips: {', '.join(builtin_chips())}"
        raise ChipError(Diagnostic(f"chip file {label}", found, hint=step))
    try:
        with open_file(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ChipError(Diagnostic(f"chip file {label}", f"cannot be read ({error.strerror})")) from error
    return _parsed(data, label)


def _parsed(data: bytes, label: str) -> Chip:
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
    return chip_from_dict(record, subject)
