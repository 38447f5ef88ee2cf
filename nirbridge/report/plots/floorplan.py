"""A map as a figure of its chips: every core with its populations, or with its fullest resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from nirbridge.errors import UsageError, counted, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.pictures.floorplan_picture import CoreCell, FloorplanPicture, floorplan_picture
from nirbridge.report.pictures.labels import printable_name
from nirbridge.report.plots.mesh import Page, page_for, put_entries
from nirbridge.report.plots.style import GREY, HATCHES, INK, LINE, PALETTE, put_text, ramp_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

NAMED_MAX = 3 * len(PALETTE)
"""Populations with a colour and a hatch of their own; where there are more, colours go from the first to the last."""
_SHOWN = 12
_NUMBERED = 7.5
"""Side of a core in points from which on it carries the number of its population."""


def plot_floorplan(
    mapped: MappedNetwork, *, color: Literal["population", "resource"] = "population", ax: Axes | None = None
) -> Axes:
    """The chips of a map, cropped to the tiles in use, each core with the populations that it holds.

    With ``color="resource"`` a core is filled as high as its fullest resource, in that resource's colour. Raises
    UsageError: matplotlib is not installed, or no such ``color``.
    """
    if color not in ("population", "resource"):
        raise UsageError.of("color", quoted(color), "'population' or 'resource'", "choose one of them")
    picture = floorplan_picture(mapped)
    by_population = color == "population"
    entries = _populations(picture) if by_population else _resources(picture)
    columns = 2 if by_population and len(entries) > 2 else 1
    remark = _remark(picture)
    lines = -(-len(entries) // columns) + 1
    page = page_for(picture.grid, mapped.chip.mesh, mapped.chip.name, lines, ax)
    for cell in picture.cells:
        (_draw_populations if by_population else _draw_resource)(page, cell, picture)
    put_entries(page, entries, columns)
    put_entries(page, [(None, remark)], 1, lines - 1)
    return page.axes


def _remark(picture: FloorplanPicture) -> str:
    dead = sum(cell.is_dead for cell in picture.cells)
    text = f"{counted(picture.cores_used, 'core')} in use; columns and rows of tiles are numbered"
    return text + (f"; ×: masked out ({dead:,})" if dead else "")


def _draw_populations(page: Page, cell: CoreCell, picture: FloorplanPicture) -> None:
    """Stripes as high as the populations' shares of the neurons, with their numbers where these can be read."""
    _outline(page, cell)
    top = cell.y
    for part in cell.parts:
        _patch(page, cell.x, top, part.share, population_style(part.population, len(picture.populations)))
        height = part.share * page.cell
        text = str(part.population + 1)
        size = min(6.5, 0.8 * height, 1.2 * page.cell / max(2, len(text)))
        if page.cell >= _NUMBERED and size >= 4:
            middle = page.at(cell.x + 0.5, top + part.share / 2)
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8}
            put_text(page.axes, *middle, text, size=size, ha="center", va="center", bbox=ground)
        top += part.share


def _draw_resource(page: Page, cell: CoreCell, picture: FloorplanPicture) -> None:
    del picture
    _outline(page, cell)
    if cell.parts:
        share = min(1.0, cell.share)
        style = resource_style(cell.fullest) if cell.fullest else {"facecolor": LINE}
        _patch(page, cell.x, cell.y + 1 - share, share, style)


def _outline(page: Page, cell: CoreCell) -> None:
    edge = {"edgecolor": GREY if cell.parts else LINE, "linewidth": 0.5}
    _patch(page, cell.x, cell.y, 1.0, {"facecolor": "white", **edge})
    if cell.is_dead:
        for ends in ((0.15, 0.85), (0.85, 0.15)):
            a, b = page.at(cell.x + 0.15, cell.y + ends[0]), page.at(cell.x + 0.85, cell.y + ends[1])
            page.axes.plot((a[0], b[0]), (a[1], b[1]), color=GREY, linewidth=0.7, gid="dead")


def _patch(page: Page, x: float, y: float, height: float, style: dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    options = {"edgecolor": INK, "linewidth": 0.4, **style}
    page.axes.add_patch(Rectangle(page.at(x, y), page.cell, height * page.cell, **options))


def population_style(number: int, count: int) -> dict[str, Any]:
    """Colour and hatch of a population: of its own, or a step from light to dark where there are too many."""
    if count > NAMED_MAX:
        return {"facecolor": ramp_colour(number / max(1, count - 1))}
    return {"facecolor": PALETTE[number % len(PALETTE)], "hatch": HATCHES[number // len(PALETTE)]}


def resource_style(name: str) -> dict[str, Any]:
    """Colour and hatch of a resource."""
    number = RESOURCES.index(name)
    return {"facecolor": PALETTE[number % len(PALETTE)], "hatch": HATCHES[number % len(HATCHES)]}


def _populations(picture: FloorplanPicture) -> list[tuple[Any, str]]:
    """Numbers and names; of very many the first ones, the last one, and how many are between."""
    count = len(picture.populations)
    names = [
        f"{k + 1} '{printable_name(p.name)}', {counted(p.cores, 'core')}" for k, p in enumerate(picture.populations)
    ]
    entries = [(_swatch(population_style(k, count)), name) for k, name in enumerate(names)]
    if count <= NAMED_MAX:
        return entries
    return [*entries[: _SHOWN - 2], (None, f"… {count - _SHOWN + 1:,} more, in network order"), entries[-1]]


def _resources(picture: FloorplanPicture) -> list[tuple[Any, str]]:
    entries = []
    for name in RESOURCES:
        cells = [cell for cell in picture.cells if cell.fullest == name]
        if cells:
            words = name.replace("_", " ")
            most = max(cell.share for cell in cells)
            text = f"{words}: fullest in {counted(len(cells), 'core')}, up to {most:.0%}"
            entries.append((_swatch(resource_style(name)), text))
    unlimited = sum(1 for cell in picture.cells if cell.parts and not cell.fullest)
    return [*entries, (_swatch({"facecolor": LINE}), f"nothing limited: {unlimited:,}")] if unlimited else entries


def _swatch(style: dict[str, Any]) -> Callable[[Axes, float, float], None]:
    def draw(axes: Axes, x: float, y: float) -> None:
        from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

        axes.add_patch(Rectangle((x, y), 10, 7, edgecolor=INK, linewidth=0.4, **style))

    return draw
