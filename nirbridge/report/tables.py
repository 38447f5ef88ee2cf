"""The parts that reports are made of: tables, headings and lists, for consoles of rich."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
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


# -- layout --------------------------------------------------------------------------------------------------------

_WIDEST = 100_000
_READABLE = 16
"""Columns of text are at least as wide, or as wide as their text: narrower ones are hard to read."""


def fitted(part: RenderableType, console: Console) -> RenderableType:
    """The same with columns just wide enough for every word; where they do not fit, each row becomes a few lines.

    Left to itself rich shortens cells, and cuts numbers with them.
    """
    if isinstance(part, Group):
        return Group(*(fitted(each, console) for each in part.renderables))
    if not isinstance(part, Table) or not part.columns:
        return part
    widths, room = _column_widths(part, console), console.width - _space_between(part)
    if sum(widest for _, widest in widths) <= room:
        return part
    if sum(narrowest for narrowest, _ in widths) > room:
        return Group(*_as_lines(part))
    for column, width in zip(part.columns, _shares(widths, room), strict=True):
        column.width = width
    return part


def captured(parts: Iterable[RenderableType], width: int, *, fit: bool = False, color: bool = False) -> str:
    """Tables and texts of rich as text, without spaces at the ends of lines; nothing in it is read as markup."""
    console = Console(  # every cell is a Text; were one a str, a name in it would still not be read as markup
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        force_jupyter=False,  # in a notebook rich would show an empty output of its own
        color_system="standard" if color else None,
        no_color=not color,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as text:
        for part in parts:
            console.print(fitted(part, console) if fit else part)
    return "\n".join(line.rstrip() for line in text.get().split("\n"))


def _column_widths(table: Table, console: Console) -> list[tuple[int, int]]:
    """(Least width, width of the longest line) of every column; the least width holds every word."""
    options = console.options.update(width=_WIDEST)
    widths = []
    for column in table.columns:
        cells = [*([column.header] if table.show_header else []), *column.cells]
        sizes = [Measurement.get(console, options, cell) for cell in cells if cell != ""]
        widest = max((size.maximum for size in sizes), default=0)
        narrowest = widest if column.no_wrap else max([min(widest, _READABLE), *(size.minimum for size in sizes)])
        widths.append((narrowest, widest))
    return widths


def _space_between(table: Table) -> int:
    """Columns of the terminal that hold no cell: padding, and the lines of a box."""
    _, right, _, left = table.padding
    edges = 0 if table.pad_edge else left + right
    lines = len(table.columns) + 1 if table.box is not None else 0
    return (left + right) * len(table.columns) - edges + lines


def _shares(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Every column gets its least width; the columns that need more share the remaining width evenly."""
    shares = [narrowest for narrowest, _ in widths]
    for _ in range(room - sum(shares)):
        narrow = [number for number, (_, widest) in enumerate(widths) if shares[number] < widest]
        shares[min(narrow, key=lambda number: shares[number])] += 1
    return shares


def _as_lines(table: Table) -> Iterator[RenderableType]:
    """Every row as its first cell, and its other cells on lines of their own, each after its heading."""
    if table.title is not None:
        yield Text(_plain(table.title), style="bold")
    headings = [_plain(column.header) if table.show_header else "" for column in table.columns]
    rows = zip_longest(*(list(column.cells) for column in table.columns), fillvalue="")
    for cells in rows:
        first, *others = (_plain(cell) for cell in cells)
        yield Text(first or "-", overflow="fold")
        for heading, cell in zip(headings[1:], others, strict=True):
            if cell:
                yield Padding(Text(f"{heading}: {cell}" if heading else cell, overflow="fold"), (0, 0, 0, 2))


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
