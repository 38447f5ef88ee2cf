"""The traffic of a map as a figure: the load of every link of the mesh, or a matrix of who sends to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from nirbridge.errors import UsageError, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.map_facts import rate_text
from nirbridge.report.pictures.labels import COLUMN_POINTS
from nirbridge.report.pictures.traffic_picture import DrawnLink, TrafficPicture, traffic_matrix, traffic_picture
from nirbridge.report.plots.mesh import LEGEND_LINE, Page, page_for, put_entries
from nirbridge.report.plots.style import (
    GREY,
    LINE,
    PALE,
    RED,
    SMALL,
    TEXT,
    WIDTH,
    axes_for,
    drawn_name,
    plain,
    put_text,
    ramp_colour,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

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
    page = page_for(picture.grid, mapped.chip.mesh, mapped.chip.name, 2 if picture.links else 1, ax)
    _tiles(page, picture)
    for link in picture.links:
        _draw(page, link, headed=len(picture.links) <= ARROWS_MAX, busiest=link is picture.busiest)
    busiest = picture.busiest
    if busiest is None:
        put_entries(page, [(None, "no spikes between tiles")], 1)
        return page.axes
    where = f"busiest link: {busiest.name}, {rate_text(busiest.load)} spikes per time step"
    put_entries(page, [(_swatch(1.0, busiest=True), where)], 1)
    shares = (0.1, 0.3, 0.6)
    scale = [(_swatch(share, busiest=False), rate_text(share * picture.load_max)) for share in shares]
    put_entries(page, scale, 5, 1)
    unit = 0.6 * COLUMN_POINTS, page.legend_top + LEGEND_LINE + 3.6
    put_text(page.axes, *unit, "spikes per time step", size=SMALL, va="center")
    return page.axes


def _tiles(page: Page, picture: TrafficPicture) -> None:
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    used, grid = set(picture.tiles), picture.grid
    size = grid.tile_columns * page.cell, grid.tile_rows * page.cell
    for frame in grid.frames:
        for y in range(frame.y_first, frame.y_stop):
            for x in range(frame.x_first, frame.x_stop):
                tile = (frame.chip, x, y)
                fill = {"facecolor": "#dceaf4" if tile in used else "white", "edgecolor": LINE, "linewidth": 0.4}
                page.axes.add_patch(Rectangle(page.at(*grid.corner(tile)), *size, **fill))
    if picture.host is not None:
        left, top = page.at(*grid.corner(picture.host))
        text = "host" if size[0] >= 14 else "h"
        put_text(page.axes, left + 1, top + 1, text, size=min(5.5, size[0] / 2), va="top", color=GREY)


def _look(share: float, *, busiest: bool) -> dict[str, Any]:
    colour = RED if busiest else ramp_colour(0.25 + 0.75 * share)
    return {"color": colour, "linewidth": 0.5 + 2.0 * share}


def _draw(page: Page, link: DrawnLink, *, headed: bool, busiest: bool) -> None:
    from matplotlib.patches import FancyArrowPatch  # pyright: ignore[reportMissingImports]

    ends = page.at(link.x0, link.y0), page.at(link.x1, link.y1)
    look = _look(link.share, busiest=busiest)
    style = f"-|>,head_length={2.2 + link.share:.3g},head_width={1.1 + link.share:.3g}" if headed or busiest else "-"
    shrink = {"shrinkA": 0, "shrinkB": 0, "joinstyle": "miter", "capstyle": "butt"}
    page.axes.add_patch(FancyArrowPatch(*ends, arrowstyle=style, zorder=3 if busiest else 2, **shrink, **look))


def _swatch(share: float, *, busiest: bool) -> Any:
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
