"""Chip files written for people: every key with its meaning and unit, every number with its source."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nirbridge.chips.codec import NAME, SCHEMA, WITH
from nirbridge.chips.model import Chip
from nirbridge.chips.schema import TABLE_MEANINGS, TABLES, Field, table_fields
from nirbridge.errors import FileError, quoted
from nirbridge.files.atomic import atomic_write_bytes

_WIDTH, _COMMENT_AT = 118, 36
_HEAD = (
    "A chip of your own, written from {like} by 'nirbridge chips --new'. Put in your numbers, and give the path of "
    "this file wherever a chip is named: nirbridge map MODEL.nir --chip FILE.toml. 'nirbridge chips FILE.toml' checks "
    "it.",
    'Keys end in their unit (_j: joules, _s: seconds); "~" marks those listed as approximate; docs/chips.md explains '
    "them at length. Every number has a source, at the end.",
    'A file that differs from a chip in a few numbers may give those alone, after its name and extends = "{like}".',
)


def write_chip(chip: Chip, path: str | os.PathLike[str]) -> Chip:
    """Write a chip to a new file, with comments; its name is that of the file. The chip of the file is returned.

    Raises:
        FileError: there is something at the path already, or it cannot be written.
    """
    subject = f"chip file {quoted(Path(path).name)}"
    if os.path.lexists(path):
        raise FileError.of(subject, "is there already", "a chip file may hold work by hand", "name another one")
    chosen = _name_of(Path(path).stem)
    atomic_write_bytes(path, chip_text(chip, chosen).encode(), subject=subject)
    return dataclasses.replace(chip, name=chosen)


def chip_text(chip: Chip, name: str) -> str:
    """The chip under another name as a TOML file that reads back equal."""
    record = chip.record
    dead = [list(core) for core in chip.dead_cores]
    top = [
        *_comments(*(part.format(like=chip.name.partition(WITH)[0]) for part in _HEAD)),
        f"schema = {SCHEMA}",
        f"name = {_toml(name)}",
        f"description = {_toml(chip.description)}",
        *_listed("approximate", list(chip.approximate), "keys that are not public or not certain; maps on them say so"),
        *_listed("dead_cores", dead, "faulty cores, each [chip, column, row, core in the tile]"),
    ]
    ranges: Any = record.get("range", {})
    tables = [line for table in TABLES for line in _table(chip, table, record.get(table))]
    return "\n".join([*top, *tables, *_texts("range", ranges), *_texts("source", chip.sources)]) + "\n"


def _name_of(stem: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", stem)[:64]
    return name if NAME.fullmatch(name) else f"chip_{name}"[:64]


def _table(chip: Chip, table: str, values: Any) -> Iterator[str]:
    """A table with every key; one that the chip does not state is commented out."""
    yield from ("", *_comments(TABLE_MEANINGS[table]))
    if values is None and table == "numbers":
        yield "# [numbers]"
        return
    yield f"[{table}]"
    stated: Mapping[str, Any] = values or {}
    for field in table_fields(table):
        if field.key in stated:
            mark = "~ " if field.name in chip.approximate else ""
            yield from _assigned(f"{field.key} = {_toml(stated[field.key])}", mark + _comment(field))
        else:
            yield from _assigned(f"# {field.key} = {_EXAMPLES.get(field.key, _EXAMPLES[field.kind])}", _comment(field))


_EXAMPLES = {"flag": "true", "figure": "1e-12", "steps": "1e-6", "pairs": "[[0, 1]]", "places": "[[0, 0], [1, 0]]"}
"""Of keys that may be left out, by kind or name."""


def _comment(field: Field) -> str:
    other = f'or "{field.absent}"' if field.absent else ""
    is_said = field.unit in re.findall(r"\w+", field.meaning) and not other
    unit = "" if is_said else field.unit
    note = ", ".join(each for each in (unit, other) if each)
    return f"{field.meaning} ({note})" if note else field.meaning


def _assigned(text: str, comment: str) -> Iterator[str]:
    """An assignment and its comment: beside it, or above it where the line would be too long."""
    beside = f"{text:<{_COMMENT_AT}}# {comment}" if len(text) < _COMMENT_AT - 1 else f"{text}  # {comment}"
    if len(beside) <= _WIDTH:
        yield beside
    else:
        yield from _comments(comment)
        yield from _wrapped(text)


def _listed(key: str, values: list[Any], comment: str) -> Iterator[str]:
    yield f"# {comment}"
    yield from _wrapped(f"{key} = {_toml(values)}") if values else (f"# {key} = []",)


def _wrapped(text: str) -> Iterator[str]:
    """A long list over several lines."""
    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _texts(table: str, values: Mapping[str, Any]) -> Iterator[str]:
    if values:
        yield from ("", *_comments(TABLE_MEANINGS[table]), f"[{table}]")
        yield from (f"{_toml(key)} = {_toml(value)}" for key, value in values.items())


def _comments(*texts: str) -> Iterator[str]:
    return (f"# {line}" for text in texts for line in textwrap.wrap(text, _WIDTH - 2))


def _toml(value: Any) -> str:
    """Values of a chip's record are written in TOML as in JSON."""
    return json.dumps(value, ensure_ascii=False)
