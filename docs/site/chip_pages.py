"""One page per chip, from its TOML file: every key with its value, unit and meaning, and the sources."""

from __future__ import annotations

from pathlib import Path

import nirbridge
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip
from nirbridge.chips.schema import FIELDS
from nirbridge.report.chips import LISTED_MAX


def write(folder: Path) -> None:
    """``folder/index.md`` and a page per chip of the package."""
    folder.mkdir(parents=True)
    names = nirbridge.chips()
    for name in names:
        (folder / f"{name}.md").write_text(page(read_chip(name)), encoding="utf-8")
    listed = "\n".join(names)
    text = (
        "# Chips\n\nEvery number with its source, from the chip's file. `~` marks a number that is not public or not "
        "certain.\nYour own chip is a file like these: [the keys, and a chip in ten minutes](../chips.md).\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    (folder / "index.md").write_text(text, encoding="utf-8")


def page(chip: Chip) -> str:
    """The page of one chip."""
    lines = [f"# {chip.name}", "", str(chip.record["description"]), ""]
    for table in dict.fromkeys(f.table for f in FIELDS):
        rows = [
            row for field in FIELDS if field.table == table and (row := _row(chip, field.table, field.key)) is not None
        ]
        if rows:
            lines += [f"## [{table}]", "", "| key | value | unit | meaning |", "|---|--:|---|---|", *rows, ""]
    lines += ["## Sources", ""]
    lines += [f"* **{key}**: {value}" for key, value in dict(chip.record["source"]).items()]
    return "\n".join(lines) + "\n"


def _row(chip: Chip, table: str, key: str) -> str | None:
    """A row of a table; None: the file leaves the key out."""
    value = chip.record.get(table, {}).get(key)
    if value is None:
        return None
    field = next(f for f in FIELDS if (f.table, f.key) == (table, key))
    mark = "~" if field.name in chip.record.get("approximate", ()) else ""
    return f"| `{key}` | {mark}{_number(value)} | {field.unit} | {field.meaning} |"


def _number(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)) and len(value) > LISTED_MAX:
        return f"{_number(value[:3])}, ..., {_number(value[-1:])} ({len(value):,} entries)"
    return ", ".join(map(_number, value)) if isinstance(value, (list, tuple)) else str(value)
