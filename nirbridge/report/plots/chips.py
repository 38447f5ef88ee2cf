"""Maps as figures of their chips (cores with populations or their fullest resource, links with loads), and networks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nirbridge.chips.model import Chip
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.map_facts import rate_text
from nirbridge.report.pictures.labels import COLUMN_POINTS, printable_name, text_width
from nirbridge.report.pictures.map_pictures import (
    COLUMN,
    ChipFrame,
    ChipLayout,
    CoreCell,
    DrawnLink,
    FloorplanPicture,
    Tile,
    TrafficPicture,
    chip_layout,
    cores_of,
    floorplan_picture,
    tile_spans,
    traffic_matrix,
    traffic_picture,
)
from nirbridge.report.pictures.network_picture import LINE_HEIGHT, NetworkArrow, NetworkBox, network_picture
from nirbridge.report.plots.style import (
    BLUE,
    FULL,
    GREY,
    HATCHES,
    INK,
    LINE,
    PALE,
    PALETTE,
    POINTS,
    SMALL,
    TEXT,
    WIDTH,
    axes_for,
    bare_axes,
    drawn_name,
    plain,
    put_text,
    ramp_colour,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]


LEGEND_LINE, SWATCH = 9.5, 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """Axes in points, with ``left`` the left edge of the layout. The legend is below."""

    axes: Axes
    layout: ChipLayout
    left: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A place of the layout in points."""
        return self.left + x, y


def _page(chip: Chip, tiles: Collection[Tile], legend_lines: int, ax: Axes | None) -> Page:
    """A page a column wide with the frames of the chips, and room for lines of a legend."""
    layout = chip_layout(chip.mesh, tiles, COLUMN)
    width, height = max(COLUMN_POINTS, layout.width), layout.height + legend_lines * LEGEND_LINE
    axes = axes_for(ax, (height + 2) / POINTS, (width + 2) / POINTS, filled=True)
    bare_axes(axes, width, height)
    page = Page(axes, layout, (width - layout.width) / 2)
    for frame in layout.frames:
        _head(page, frame, chip)
        _numbers(page, frame, horizontal=True)
        _numbers(page, frame, horizontal=False)
    return page


def _head(page: Page, frame: ChipFrame, chip: Chip) -> None:
    cropped = f", {frame.x_stop - frame.x_first}×{frame.y_stop - frame.y_first} of"
    size = f"{cropped if frame.is_cropped else ','} {chip.mesh.width_tiles}×{chip.mesh.height_tiles} tiles"
    x, y = page.at(frame.left, frame.top)
    text = f"chip {frame.chip}"
    if len(page.layout.frames) == 1:
        text = drawn_name(chip.name, max(30.0, COLUMN_POINTS - x - text_width(size))) + size
    put_text(page.axes, x, y - 1.5, text, size=TEXT, va="bottom", ha="left")


def _numbers(page: Page, frame: ChipFrame, *, horizontal: bool) -> None:
    """Every column or row, or every n-th where they would touch."""
    first, stop = (frame.x_first, frame.x_stop) if horizontal else (frame.y_first, frame.y_stop)
    side, size = page.layout.tile_size[0 if horizontal else 1], min(SMALL, max(5.0, page.layout.core))
    need = text_width(f"{stop - 1} ", size) if horizontal else 1.3 * size
    every = next(
        n for n in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 10**6) if n * (side + page.layout.lane) >= need
    )
    for number in range(first, stop, every):
        column, row = (number, frame.y_first) if horizontal else (frame.x_first, number)
        x, y = page.at(*page.layout.tile((frame.chip, column, row)))
        if horizontal:
            below = frame.top + page.layout.size_of(frame)[1] + 1.5
            put_text(page.axes, x + side / 2, below, str(number), size=size, ha="center", va="top", color=GREY)
        else:
            put_text(page.axes, x - 1.5, y + side / 2, str(number), size=size, ha="right", va="center", color=GREY)


def _entries(page: Page, entries: Sequence[tuple[Any, str]], columns: int, first_line: int = 0) -> None:
    """Swatches (patches of a unit square, moved into place) with their texts, line by line in columns."""
    width = COLUMN_POINTS / columns
    lines = -(-len(entries) // columns)
    for number, (draw, label) in enumerate(entries):
        column, line = divmod(number, max(1, lines))
        x, y = column * width + 2, page.layout.height + (first_line + line) * LEGEND_LINE
        if draw is not None:
            draw(page.axes, x, y)
        text = drawn_name(label, width - SWATCH - 8, SMALL)
        put_text(page.axes, x + (SWATCH + 3 if draw is not None else 0), y + 3.6, text, size=SMALL, va="center")


# -- floor plans ----------------------------------------------------------------------------------------------------

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
    page = _page(mapped.chip, {cell.core[:3] for cell in picture.cells}, lines, ax)
    for cell in picture.cells:
        (_draw_populations if by_population else _draw_resource)(page, cell, picture)
    _entries(page, entries, columns)
    _entries(page, [(None, remark)], 1, lines - 1)
    return page.axes


def _remark(picture: FloorplanPicture) -> str:
    dead = sum(cell.is_dead for cell in picture.cells)
    text = f"{counted(picture.cores_used, 'core')} in use; columns and rows of tiles are numbered"
    return text + (f"; ×: masked out ({dead:,})" if dead else "")


def _draw_populations(page: Page, cell: CoreCell, picture: FloorplanPicture) -> None:
    """Stripes as high as the populations' shares of the neurons, with their numbers where these can be read."""
    _outline(page, cell)
    top, side = 0.0, page.layout.core
    for part in cell.parts:
        _patch(page, cell, top, part.share, population_style(part.population, len(picture.populations)))
        text = str(part.population + 1)
        size = min(6.5, 0.8 * part.share * side, 1.2 * side / max(2, len(text)))
        if side >= _NUMBERED and size >= 4:
            x, y = page.at(*page.layout.corner(cell.core))
            middle = x + side / 2, y + (top + part.share / 2) * side
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8}
            put_text(page.axes, *middle, text, size=size, ha="center", va="center", bbox=ground)
        top += part.share


def _draw_resource(page: Page, cell: CoreCell, picture: FloorplanPicture) -> None:
    del picture
    _outline(page, cell)
    if cell.parts:
        share = min(1.0, cell.share)
        style = resource_style(cell.fullest) if cell.fullest else {"facecolor": LINE}
        _patch(page, cell, 1 - share, share, style)


def _outline(page: Page, cell: CoreCell) -> None:
    edge = {"edgecolor": GREY if cell.parts else LINE, "linewidth": 0.5}
    _patch(page, cell, 0.0, 1.0, {"facecolor": "white", **edge})
    if cell.is_dead:
        (x, y), side = page.at(*page.layout.corner(cell.core)), page.layout.core
        across = (x + 0.15 * side, x + 0.85 * side)
        for ends in ((0.15, 0.85), (0.85, 0.15)):
            page.axes.plot(across, [y + end * side for end in ends], color=GREY, linewidth=0.7, gid="dead")


def _patch(page: Page, cell: CoreCell, top: float, height: float, style: dict[str, Any]) -> None:
    """A stripe of a core; ``top`` and ``height`` in sides of it."""
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    (x, y), side = page.at(*page.layout.corner(cell.core)), page.layout.core
    options = {"edgecolor": INK, "linewidth": 0.4, **style}
    page.axes.add_patch(Rectangle((x, y + top * side), side, height * side, **options))


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


# -- traffic ----------------------------------------------------------------------------------------------------

ARROWS_MAX = 80
"""Links that get the head of an arrow; of more, the side of the line shows the direction: links keep to the right."""


def plot_traffic(mapped: MappedNetwork, *, show: Literal["links", "matrix"] = "links", ax: Axes | None = None) -> Axes:
    """The load of every link in spikes per time step, wider and darker where it is more; the busiest one is named.

    ``show="matrix"``: spikes per time step from every core to every core (populations, where there are many cores).
    Raises UsageError: matplotlib is not installed, or no such ``show``.
    """
    if show not in ("links", "matrix"):
        raise UsageError.of("show", quoted(show), "'links' or 'matrix'", "choose one of them")
    return _links(mapped, ax) if show == "links" else _matrix(mapped, ax)


def _links(mapped: MappedNetwork, ax: Axes | None) -> Axes:
    picture = traffic_picture(mapped)
    page = _page(mapped.chip, picture.drawn, 2 if picture.links else 1, ax)
    _tiles(page, picture)
    for link in picture.links:
        _arrow(page, link, headed=len(picture.links) <= ARROWS_MAX, busiest=link is picture.busiest)
    busiest = picture.busiest
    if busiest is None:
        _entries(page, [(None, "no spikes between tiles")], 1)
        return page.axes
    where = f"busiest link: {busiest.name}, {rate_text(busiest.load)} spikes per time step"
    _entries(page, [(_line(1.0, busiest=True), where)], 1)
    shares = (0.1, 0.3, 0.6)
    scale = [(_line(share, busiest=False), rate_text(share * picture.load_max)) for share in shares]
    _entries(page, scale, 5, 1)
    unit = 0.6 * COLUMN_POINTS, page.layout.height + LEGEND_LINE + 3.6
    put_text(page.axes, *unit, "spikes per time step", size=SMALL, va="center")
    return page.axes


def _tiles(page: Page, picture: TrafficPicture) -> None:
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    used, size = set(picture.tiles), page.layout.tile_size
    spans = tile_spans(picture.drawn)
    for tile in {core[:3]: None for core in cores_of(page.layout.mesh, spans)}:
        fill = {"facecolor": "#dceaf4" if tile in used else "white", "edgecolor": LINE, "linewidth": 0.4}
        page.axes.add_patch(Rectangle(page.at(*page.layout.tile(tile)), *size, **fill))
    if picture.host is not None:
        left, top = page.at(*page.layout.tile(picture.host))
        text = "host" if size[0] >= 14 else "h"
        put_text(page.axes, left + 1, top + 1, text, size=min(5.5, size[0] / 2), va="top", color=GREY)


def _look(share: float, *, busiest: bool) -> dict[str, Any]:
    colour = FULL if busiest else ramp_colour(0.25 + 0.75 * share)
    return {"color": colour, "linewidth": 0.5 + 2.0 * share}


def _arrow(page: Page, link: DrawnLink, *, headed: bool, busiest: bool) -> None:
    """From the middle of a tile to that of the next; to another chip, up to a lane beyond the edge."""
    from matplotlib.patches import FancyArrowPatch  # pyright: ignore[reportMissingImports]

    (x0, y0, x1, y1), (width, height) = page.layout.link(link.source, link.target), page.layout.tile_size
    inward = ((x1 > x0) - (x1 < x0)) * width / 2, ((y1 > y0) - (y1 < y0)) * height / 2
    within = link.source[0] == link.target[0]
    ends = page.at(x0 - inward[0], y0 - inward[1]), page.at(x1 + within * inward[0], y1 + within * inward[1])
    look = _look(link.share, busiest=busiest)
    style = f"-|>,head_length={2.2 + link.share:.3g},head_width={1.1 + link.share:.3g}" if headed or busiest else "-"
    shrink = {"shrinkA": 0, "shrinkB": 0, "joinstyle": "miter", "capstyle": "butt"}
    page.axes.add_patch(FancyArrowPatch(*ends, arrowstyle=style, zorder=3 if busiest else 2, **shrink, **look))


def _line(share: float, *, busiest: bool) -> Any:
    def draw(axes: Axes, x: float, y: float) -> None:
        axes.plot((x, x + 10), (y + 3.5, y + 3.5), solid_capstyle="butt", **_look(share, busiest=busiest))

    return draw


def _matrix(mapped: MappedNetwork, ax: Axes | None) -> Axes:
    from matplotlib.colors import ListedColormap  # pyright: ignore[reportMissingImports]

    matrix = traffic_matrix(mapped)
    axes = axes_for(ax, WIDTH * 0.85)
    colours = ListedColormap([PALE, *(ramp_colour(k / 62) for k in range(1, 64))])
    image = axes.imshow(matrix.spikes, cmap=colours, vmin=0, aspect="auto", interpolation="nearest")
    style_axes(axes, f"destination {matrix.of}", f"source {matrix.of}")
    for axis, names, most in ((axes.xaxis, matrix.destinations, 8), (axes.yaxis, matrix.sources, 16)):
        every = -(-len(names) // most)
        axis.set_ticks(range(0, len(names), every), [drawn_name(n, 40, SMALL) for n in names[::every]])
        plain(axis.get_ticklabels(), SMALL)
    for label in axes.get_xticklabels() if matrix.of == "population" else ():
        label.set(rotation=35, ha="right", rotation_mode="anchor")
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label("spikes per time step", fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL, width=0.5, length=2)
    bar.outline.set(linewidth=0.5, edgecolor=GREY)
    return axes


# -- network -------------------------------------------------------------------------------------------------------
# A network as a figure: its graph in rows from the inputs down to the outputs.


_FILL = {"input": "white", "output": "white", "population": "#dceaf4", "folded": PALE}
_EDGE = {"input": GREY, "output": GREY, "population": BLUE, "folded": INK}


def plot_network(network: Network, *, ax: Axes | None = None) -> Axes:
    """The graph of a network: populations with kind, shape and size, operators and delays on the arrows.

    Inputs and outputs have dashed edges; arrows that close a cycle are dashed. A large network is folded, and a line
    below says so. Raises UsageError: matplotlib is not installed.
    """
    picture = network_picture(network)
    below = LINE_HEIGHT + 3 if picture.remark else 0.0
    size = (picture.height + below + 2) / POINTS, (picture.width + 2) / POINTS
    axes = axes_for(ax, *size, filled=True)
    bare_axes(axes, picture.width, picture.height + below)
    for arrow in picture.arrows:
        _network_arrow(axes, arrow)
    for box in picture.boxes:
        _box(axes, box)
    if picture.remark:
        put_text(axes, picture.width / 2, picture.height + below, picture.remark, size=6, ha="center", color=GREY)
    return axes


def _box(axes: Axes, box: NetworkBox) -> None:
    from matplotlib.patches import FancyBboxPatch  # pyright: ignore[reportMissingImports]

    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y),
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=2.5",
            facecolor=_FILL[box.role],
            edgecolor=_EDGE[box.role],
            linewidth=0.8 if box.role != "folded" else 1.4,
            linestyle="--" if box.role in ("input", "output") else "-",
        )
    )
    middle, first = box.x + box.width / 2, box.y + box.height / 2 - (len(box.lines) - 1) * LINE_HEIGHT / 2
    for number, line in enumerate(box.lines):
        text = drawn_name(line, box.width - 6)
        weight = "bold" if number == 0 else "normal"
        put_text(
            axes, middle, first + number * LINE_HEIGHT, text, ha="center", va="center", fontweight=weight, size=TEXT
        )


def _network_arrow(axes: Axes, arrow: NetworkArrow) -> None:
    from matplotlib.patches import FancyArrowPatch, Rectangle  # pyright: ignore[reportMissingImports]
    from matplotlib.path import Path  # pyright: ignore[reportMissingImports]

    codes = [Path.MOVETO, *[Path.CURVE4] * (len(arrow.path) - 1)]
    style = "--" if arrow.closes_cycle else "-"
    axes.add_patch(
        FancyArrowPatch(
            path=Path(arrow.path, codes),
            arrowstyle="-|>,head_length=2.6,head_width=1.4",
            linewidth=0.7,
            linestyle=style,
            color=INK,
            shrinkA=0,
            shrinkB=0,
            joinstyle="round",
        )
    )
    if arrow.label is not None:
        label = arrow.label
        place = (label.x, label.y), label.width, label.height
        axes.add_patch(Rectangle(*place, facecolor="white", edgecolor="none", zorder=2.5))
        middle = label.x + label.width / 2, label.y + label.height / 2
        text = drawn_name(label.text, label.width - 2)
        put_text(axes, *middle, text, ha="center", va="center", color=INK, size=TEXT, zorder=3)
