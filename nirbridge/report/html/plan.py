"""The chip as a floor plan: cores by layer or by fullest resource, links by load, routes of a selected core."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.chips.model import CoreId
from nirbridge.errors import counted
from nirbridge.report.html.patterns import DEAD, paint
from nirbridge.report.html.svg import Picture, rectangles, svg, text
from nirbridge.report.html.tags import Markup, number, tag
from nirbridge.report.map_facts import one_line
from nirbridge.report.pictures.chip_layout import ChipFrame, ChipLayout
from nirbridge.report.pictures.floorplan_picture import CoreCell, FloorplanPicture
from nirbridge.report.pictures.traffic_picture import TrafficPicture

TEXT_CORE_MIN = 22.0
"""Side of a core, in pixels, from which on it has its layer's number or its share as text."""
LOAD_CLASSES, RINGS_MAX = 5, 8
_INSET = 1.0


def plan_picture(floor: FloorplanPicture, traffic: TrafficPicture, layout: ChipLayout, resources: list[str]) -> Picture:
    """The picture: layers of paths that the script shows and hides; no element for a single core."""
    side = layout.core + 3
    return _drawn(
        layout,
        tag("g", *_links(traffic, layout), class_="links", id="plan-links"),
        *_cores(floor, layout, tag("g", *_by_resource(floor, layout, resources), class_="by-resource")),
        tag("g", *_rings(traffic, layout), class_="links"),
        tag("g", id="plan-routes", class_="routes"),
        tag("rect", id="plan-cursor", class_="cursor", width=side, height=side, visibility="hidden"),
        id="plan-picture",
        aria_hidden="true",
    )


def still_plan(floor: FloorplanPicture, layout: ChipLayout, *, detailed: bool) -> Picture:
    """The picture of the cores by population alone; ``detailed``: with their outlines and numbers."""
    return _drawn(layout, *_cores(floor, layout, detailed=detailed))


def _cores(
    floor: FloorplanPicture, layout: ChipLayout, above: Markup | None = None, *, detailed: bool = True
) -> Iterator[Markup | None]:
    """Chips with their cores, those in use filled by their populations and by what is ``above``, in outlines."""
    yield from (_frame(layout, chip, floor) for chip in layout.frames)
    yield tag("g", *_free(floor, layout))
    yield tag("g", *_by_layer(floor, layout, numbered=detailed), class_="by-layer")
    yield above
    if detailed:
        yield rectangles(_boxes(layout, [c for c in floor.cells if c.parts]), class_="outline")


def _drawn(layout: ChipLayout, *inner: Markup | None, **attributes: str) -> Picture:
    return svg(layout.width, layout.height, *inner, class_="plan", **attributes)


def _frame(layout: ChipLayout, chip: ChipFrame, floor: FloorplanPicture) -> Markup:
    """Title, coordinates of tiles, and outline of a chip."""
    width, height = layout.size_of(chip)
    cells = [cell for cell in floor.cells if cell.core.chip == chip.chip]
    used = sum(bool(cell.parts) for cell in cells)
    said = f"chip {chip.chip}" + (f": {counted(used, 'core')} used" if floor.cores_used else "")
    title = text(chip.left, chip.top - 22, said, class_="title")
    outline = tag("rect", x=chip.left - 5, y=chip.top - 5, width=width + 10, height=height + 10, rx="3", class_="chip")
    tile_width, tile_height = layout.tile_size
    across, down = tile_width + layout.lane, tile_height + layout.lane
    every_x, every_y = _every(across), _every(down)
    columns = [
        text(chip.left + (x - chip.x_first) * across + tile_width / 2, chip.top - 8, str(x), anchor="middle")
        for x in range(chip.x_first, chip.x_stop)
        if x % every_x == 0
    ]
    rows = [
        text(chip.left - 8, chip.top + (y - chip.y_first) * down + tile_height / 2 + 4, str(y), anchor="end")
        for y in range(chip.y_first, chip.y_stop)
        if y % every_y == 0
    ]
    return tag("g", title, outline, columns, rows, class_="coordinates")


def _every(pitch: float) -> int:
    """Every which column has its number, so that numbers are 24 pixels apart."""
    return next(n for n in (1, 2, 4, 8, 16, 32, 64) if n * pitch >= 24 or n == 64)


def _boxes(layout: ChipLayout, cells: list[CoreCell]) -> Iterator[tuple[float, float, float, float]]:
    side = layout.core - 2 * _INSET
    for cell in cells:
        x, y = layout.corner(cell.core)
        yield x + _INSET, y + _INSET, side, side


def _free(floor: FloorplanPicture, layout: ChipLayout) -> Iterator[Markup | None]:
    yield rectangles(_boxes(layout, [c for c in floor.cells if not c.is_dead and not c.parts]), class_="free")
    yield rectangles(_boxes(layout, [c for c in floor.cells if c.is_dead]), fill=DEAD, class_="edge")


def _by_layer(floor: FloorplanPicture, layout: ChipLayout, *, numbered: bool) -> Iterator[Markup | None]:
    """A path for each population: strips of the cores that hold neurons of it."""
    strips: dict[int, list[tuple[float, float, float, float]]] = {}
    side = layout.core - 2 * _INSET
    for cell in floor.cells:
        x, y = layout.corner(cell.core)
        left = x + _INSET
        for part in cell.parts:
            strips.setdefault(part.population, []).append((left, y + _INSET, side * part.share, side))
            left += side * part.share
    for population, boxes in sorted(strips.items()):
        yield rectangles(boxes, fill=paint(population))
    if numbered and layout.core >= TEXT_CORE_MIN:
        for cell in (cell for cell in floor.cells if cell.parts):
            more = "+" if len(cell.parts) > 2 else ""
            numbers = [str(part.population + 1) for part in cell.parts[: 1 if more else 2]]
            yield _label(layout, cell.core, ",".join(numbers) + more)


def _by_resource(floor: FloorplanPicture, layout: ChipLayout, resources: list[str]) -> Iterator[Markup | None]:
    """A path for each resource: gauges of the cores in which it is the fullest, from the bottom up."""
    used = [cell for cell in floor.cells if cell.parts]
    yield rectangles(_boxes(layout, used), class_="empty")
    gauges: dict[str, list[tuple[float, float, float, float]]] = {}
    side = layout.core - 2 * _INSET
    for cell in used:
        x, y = layout.corner(cell.core)
        filled = side * min(cell.share, 1.0)
        gauges.setdefault(cell.fullest, []).append((x + _INSET, y + _INSET + side - filled, side, filled))
    for number_of, name in enumerate(resources):
        yield rectangles(gauges.get(name, ()), fill=paint(number_of))
    if layout.core >= TEXT_CORE_MIN:
        yield from (_label(layout, cell.core, f"{100 * cell.share:.0f}") for cell in used)


def _label(layout: ChipLayout, core: CoreId, said: str) -> Markup:
    x, y = layout.corner(core)
    return text(x + layout.core / 2, y + layout.core / 2 + 4, one_line(said), anchor="middle", class_="core-text")


# -- links -------------------------------------------------------------------------------------------------------


def load_class(share: float) -> int:
    """Class of a load as a share of the greatest, 0 to 4: fifths."""
    return min(LOAD_CLASSES - 1, int(share * LOAD_CLASSES))


def wedge(x0: float, y0: float, x1: float, y1: float, width: float) -> str:
    """A link as an area that is ``width`` where it leaves its tile and a quarter of it where it arrives."""
    length = abs(x1 - x0) + abs(y1 - y0) or 1.0
    across, down = (y1 - y0) / length * width / 2, (x1 - x0) / length * width / 2
    corners = (
        (x0 - across, y0 - down),
        (x0 + across, y0 + down),
        (x1 + across / 4, y1 + down / 4),
        (x1 - across / 4, y1 - down / 4),
    )
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "z"


def _links(traffic: TrafficPicture, layout: ChipLayout) -> Iterator[Markup]:
    """A path for each class of loads."""
    paths: dict[int, list[str]] = {}
    for link in traffic.links:
        level = load_class(link.share)
        width = 1.2 + layout.lane * 0.6 * (level + 1) / LOAD_CLASSES
        paths.setdefault(level, []).append(wedge(*layout.link(link.source, link.target), width))
    for level, wedges in sorted(paths.items()):
        yield tag("path", d="".join(wedges), class_=f"load{level}")


def _rings(traffic: TrafficPicture, layout: ChipLayout) -> Iterator[Markup]:
    """A ring around the busiest link, and around those with the same load; above the cores, whole."""
    for busiest in traffic.as_busy[:RINGS_MAX]:
        x0, y0, x1, y1 = layout.link(busiest.source, busiest.target)
        middle = (x0 + x1) / 2, (y0 + y1) / 2
        yield tag("circle", cx=middle[0], cy=middle[1], r=max(7.0, 0.7 * layout.lane), class_="busiest")
