"""The parts that reports are made of: tables, headings and lists, for consoles of rich."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from nirbridge.report.map_facts import one_line


class Columns(Table):
    """A table with columns that may be left out where there is no room: their headings, the first to go first."""

    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Names in one line of a cell: as many as there is room for, and the number of the others: ``fc1, fc2 +3``."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.within(_WIDEST)

    def within(self, width: int) -> str:
        """At most ``width`` columns; of a first name that has no room the beginning."""
        for shown in range(len(self.names), 0, -1):
            more = len(self.names) - shown
            text = ", ".join(self.names[:shown]) + (f" +{more}" if more else "")
            if cell_len(text) <= width:
                return text
        more = f" +{len(self.names) - 1}" if len(self.names) > 1 else ""
        return set_cell_size(self.names[0], max(width - cell_len(more) - 1, 1)) + f"…{more}" if self.names else ""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widest = cell_len(str(self))
        return Measurement(min(widest, _READABLE), widest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(self.within(options.max_width), no_wrap=True)


def table(
    headings: Sequence[str],
    alignment: str,
    rows: Iterable[Sequence[str | Text | Names]] = (),
    *,
    drop: Sequence[str] = (),
    **options: Any,
) -> Columns:
    """A table without lines.

    ``alignment``: a letter per column, ``l`` or ``r``, in upper case where cells are not wrapped; the last letter holds
    for all columns after it. ``drop``: headings of columns that a narrow terminal does without, in the order in which
    they go. Cells are never read as markup.
    """
    columns = Columns(**{"box": None, "pad_edge": False, **options})
    columns.drop = tuple(drop)
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
    lines = items(sentences)
    return [heading(title), *lines] if lines else []


def items(sentences: Iterable[str]) -> list[RenderableType]:
    """A line for each sentence after a dash; where it goes on, its further lines are indented."""
    return [Item(one_line(sentence)) for sentence in sentences]


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence after a dash."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        lines = Text(self.text, overflow="fold").wrap(console, max(options.max_width - 2, 1))
        for number, line in enumerate(lines):
            yield Text("- " if number == 0 else "  ").append_text(line)


def share_text(value: float) -> str:
    """A share with four decimals; only 1 is shown as 1."""
    text = f"{value:.4f}"
    return "0.9999" if text == "1.0000" and value < 1 else text


# -- layout --------------------------------------------------------------------------------------------------------

_WIDEST = 100_000
_READABLE = 16
"""Columns of text are at least as wide, or as wide as their text: narrower ones are hard to read."""


def fitted(part: RenderableType, console: Console, gone: dict[str, None] | None = None) -> RenderableType:
    """The same with columns just wide enough for every word; where they do not fit, each row becomes a few lines.

    Left to itself rich shortens cells, and cuts numbers with them. Where ``gone`` is given, the columns that a table
    can do without are left out first, and their headings are put into it.
    """
    if isinstance(part, Group):
        return Group(*(fitted(each, console, gone) for each in part.renderables))
    if not isinstance(part, Table) or not part.columns:
        return part
    if gone is not None and isinstance(part, Columns):
        part = _without_least(part, console, gone)
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
        readable = min(widest, _READABLE) if column.justify == "left" else 0
        narrowest = widest if column.no_wrap else max([readable, *(size.minimum for size in sizes)])
        widths.append((narrowest, widest))
    return widths


def _without_least(part: Columns, console: Console, gone: dict[str, None]) -> Columns:
    """The table without as many columns as it takes for each row to fit on a line, in its order.

    Empty ones are the first to go, and are not put into ``gone``.
    """
    kept = copy(part)
    if not _fits(kept, console):
        kept.columns = _numbered(c for c in kept.columns if c.header not in part.drop or any(map(_plain, c.cells)))
    for heading in part.drop:
        if _fits(kept, console):
            break
        others = [column for column in kept.columns if column.header != heading]
        gone |= {heading or "share": None} if len(others) < len(kept.columns) else {}
        kept.columns = _numbered(others)
    return kept


def _fits(table: Table, console: Console) -> bool:
    """True if every row is one line; lists of names may be shortened."""
    widths = zip(table.columns, _column_widths(table, console), strict=True)
    needed = (narrowest if any(isinstance(c, Names) for c in column.cells) else widest
              for column, (narrowest, widest) in widths)  # fmt: skip
    return sum(needed) <= console.width - _space_between(table)


def _numbered(columns: Iterable[Column]) -> list[Column]:
    return [replace(column, _index=number) for number, column in enumerate(columns)]


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
