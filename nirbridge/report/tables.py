"""The parts that reports are made of: tables, headings and lists, for consoles of rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nirbridge.report.map_facts import one_line


def table(headings: Sequence[str], alignment: str, rows: Iterable[Sequence[str | Text]] = (), **options: Any) -> Table:
    """A table without lines.

    ``alignment``: a letter per column, ``l`` or ``r``, in upper case where cells are not wrapped; the last letter holds
    for all columns after it. Cells are never read as markup.
    """
    columns = Table(**{"box": None, "pad_edge": False, **options})
    for number, heading in enumerate(headings):
        letter = alignment[min(number, len(alignment) - 1)]
        justify: Literal["left", "right"] = "right" if letter in "rR" else "left"
        columns.add_column(heading, justify=justify, no_wrap=letter.isupper())
    for row in rows:
        columns.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return columns


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Labels and their texts, without headings."""
    return table(("", ""), "Ll", facts, show_header=False, padding=(0, 2, 0, 0))


def heading(text: str) -> Text:
    """The heading of a part, after an empty line."""
    return Text(f"\n{text}", style="bold")


def listed(title: str, sentences: Iterable[str]) -> list[RenderableType]:
    """A heading and a line for each sentence; nothing where there is none."""
    lines = [Text(f"- {one_line(sentence)}") for sentence in sentences]
    return [heading(title), *lines] if lines else []


def share_text(value: float) -> str:
    """A share with four decimals; only 1 is shown as 1."""
    text = f"{value:.4f}"
    return "0.9999" if text == "1.0000" and value < 1 else text
