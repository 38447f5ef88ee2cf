"""Chips on a page in points: the frames of their tiles with the numbers of columns and rows, and lines of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nirbridge.chips.model import Mesh
from nirbridge.report.pictures.chip_grid import ChipFrame, ChipGrid, cell_points
from nirbridge.report.pictures.labels import COLUMN_POINTS, text_width
from nirbridge.report.plots.style import GREY, POINTS, SMALL, TEXT, axes_for, bare_axes, drawn_name, put_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

LEGEND_LINE = 9.5
SWATCH = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """Axes in points; ``cell`` is the side of a core, and ``left`` the left edge of the grid. The legend is below."""

    axes: Axes
    grid: ChipGrid
    cell: float
    left: float
    legend_top: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A place of the grid in points."""
        return self.left + x * self.cell, y * self.cell


def page_for(grid: ChipGrid, mesh: Mesh, name: str, legend_lines: int, ax: Axes | None) -> Page:
    """A page a column wide with the frames of the grid, and room for lines of a legend."""
    cell = cell_points(grid)
    tall = grid.height * cell + 4
    height = tall + legend_lines * LEGEND_LINE
    axes = axes_for(ax, (height + 2) / POINTS, (COLUMN_POINTS + 2) / POINTS, filled=True)
    bare_axes(axes, COLUMN_POINTS, height)
    page = Page(axes, grid, cell, (COLUMN_POINTS - grid.width * cell) / 2, tall)
    for frame in grid.frames:
        _head(page, frame, mesh, name)
        _numbers(page, frame, range(frame.x_first, frame.x_stop), horizontal=True)
        _numbers(page, frame, range(frame.y_first, frame.y_stop), horizontal=False)
    return page


def _head(page: Page, frame: ChipFrame, mesh: Mesh, name: str) -> None:
    cropped = f", {frame.x_stop - frame.x_first}×{frame.y_stop - frame.y_first} of"
    size = f"{cropped if frame.is_cropped else ','} {mesh.width_tiles}×{mesh.height_tiles} tiles"
    x, y = page.at(frame.left, frame.top)
    room = max(frame.width * page.cell, 30.0)
    if len(page.grid.frames) == 1:
        room = COLUMN_POINTS - x
        text = drawn_name(name, max(30.0, room - text_width(size))) + size
    else:
        text = f"chip {frame.chip}"
    put_text(page.axes, x, y - 1.5, text, size=TEXT, va="bottom", ha="left")


def _numbers(page: Page, frame: ChipFrame, numbers: range, *, horizontal: bool) -> None:
    """Every column or row, or every n-th where they would touch."""
    size = min(SMALL, max(5.0, page.cell))
    pitch = (page.grid.pitch_x if horizontal else page.grid.pitch_y) * page.cell
    need = text_width(f"{numbers[-1]} ", size) if horizontal else 1.3 * size
    every = next(n for n in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 10**6) if n * pitch >= need)
    for number in numbers:
        if (number - numbers[0]) % every:
            continue
        column, row = (number, frame.y_first) if horizontal else (frame.x_first, number)
        x, y = page.grid.centre((frame.chip, column, row))
        if horizontal:
            left, top = page.at(x, frame.top + frame.height)
            put_text(page.axes, left, top + 1.5, str(number), size=size, ha="center", va="top", color=GREY)
        else:
            left, middle = page.at(frame.left, y)
            put_text(page.axes, left - 1.5, middle, str(number), size=size, ha="right", va="center", color=GREY)


def put_entries(page: Page, entries: Sequence[tuple[Any, str]], columns: int, first_line: int = 0) -> None:
    """Swatches (patches of a unit square, moved into place) with their texts, line by line in columns."""
    width = COLUMN_POINTS / columns
    lines = -(-len(entries) // columns)
    for number, (draw, label) in enumerate(entries):
        column, line = divmod(number, max(1, lines))
        x, y = column * width + 2, page.legend_top + (first_line + line) * LEGEND_LINE
        if draw is not None:
            draw(page.axes, x, y)
        text = drawn_name(label, width - SWATCH - 8, SMALL)
        put_text(page.axes, x + (SWATCH + 3 if draw is not None else 0), y + 3.6, text, size=SMALL, va="center")
