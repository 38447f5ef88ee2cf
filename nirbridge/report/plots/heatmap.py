"""Points of a sweep as a heat map: one quantity over two keys that vary, a number in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from nirbridge.chips.schema import FIELDS
from nirbridge.errors import UsageError, counted, did_you_mean, quoted
from nirbridge.report.pictures.labels import text_width
from nirbridge.report.plots.pareto import QUANTITIES, Quantity, column_of, scale_of
from nirbridge.report.plots.style import (
    GREY,
    INK,
    LINE,
    PALE,
    POINTS,
    SMALL,
    TEXT,
    WIDTH,
    axes_for,
    drawn_name,
    plain,
    put_legend,
    put_text,
    ramp_colour,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

VALUES: Mapping[str, Quantity] = {
    **QUANTITIES,
    "hops": Quantity((("multicast_hops", "multicast hops of a time step"),), ""),
}
"""Quantities of a cell."""
KEYS = frozenset(field.name for field in FIELDS)
SIDE_MAX = 40
"""Most values of an axis."""
PANELS = ("model", "chip", "bits", "objective", "seed")
PANELS_MAX = 8
"""Columns that are never mixed in a cell: a panel for each combination of their values, at most so many."""
_NAME = 70.0
_ROW, _LOW_ROW, _AROUND = 0.3, 0.2, 1.05
"""Inches of a row, and of labels and legend."""
_MARGIN, _COLUMN = 70.0, 26.0
"""Points beside the cells, and of a column where there are many."""


def plot_heatmap(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    x: str | None = None,
    y: str | None = None,
    value: str = "cores",
    *,
    ax: Axes | None = None,
) -> Axes:
    """``value`` over the columns ``x`` and ``y``; None: the first two of ``names``, which are those that vary.

    A panel for each model, chip, width, objective and seed that is not an axis, in one figure and one scale; the axes
    of the first are returned. A cell of points that differ in other columns has the best of them.

    Raises UsageError: no two columns vary, too many panels, no point has the quantity, or no matplotlib.
    """
    x, y = check_heatmap(rows, names, x, y)
    quantity = VALUES[value]
    column, label = column_of(rows, quantity)
    best = max if quantity.more else min
    panels = [_cells(own, x, y) for own in _panels(rows, names, x, y).values()]
    found = [_found(cells, column, best) for cells in panels]
    if not any(found):
        raise UsageError.of(
            "picture", f"no point has {value}", "", "see the column 'error', or choose another quantity"
        )
    prefix, factor = scale_of([number for own in found for number in own.values()], quantity)
    unit = f" ({prefix}{quantity.unit})" if quantity.unit else ""
    several = max(len(own) for cells in panels for own in cells.values())
    word = "most" if quantity.more else "least"
    title = f"{label}{unit}{f', {word} of {several} points each' if several > 1 else ''}"
    sides = [list(dict.fromkeys(row[name] for row in rows)) for name in (x, y)]
    ends = [number / factor for own in found for number in own.values()]
    for axes, cells, own in zip(all_axes := _axes(ax, sides, len(panels)), panels, found, strict=True):
        points = [row for each in cells.values() for row in each]
        shown = {place: number / factor for place, number in own.items()}
        unproved = {
            place for place, number in own.items() if value == "cores" and _may_need_fewer(cells[place], number)
        }
        _draw(axes, cells, shown, sides, word, (min(ends), max(ends)), unproved)
        _label(axes, sides, x, y)
        _above(axes, title, _about(points, (x, y), names, value))
    return all_axes[0]


def _found(cells: Mapping[Any, Sequence[Mapping[str, Any]]], column: str, best: Any) -> dict[Any, float]:
    """The best number of each cell that has one."""
    return {
        place: best(have)
        for place, own in cells.items()
        if (have := [row[column] for row in own if row[column] is not None])
    }


def _may_need_fewer(rows: Sequence[Mapping[str, Any]], cores: float) -> bool:
    """True if no point with so many cores proves that they are the least."""
    return all(row["cores_gap"] for row in rows if row["cores"] == cores)


def _axes(ax: Axes | None, sides: Sequence[list[Any]], count: int) -> list[Axes]:
    """``ax``, or the axes of each panel in a new figure."""
    if ax is not None and count > 1:
        raise UsageError.of("heat map", f"{counted(count, 'panel')}", "'ax' holds one", "leave 'ax' out")
    across = min(count, 2)
    down = -(-count // across)
    width = min(max(WIDTH, (_MARGIN + _COLUMN * len(sides[0])) / POINTS), 2 * WIDTH) * across
    height = _AROUND + (_ROW if len(sides[1]) <= 12 else _LOW_ROW) * len(sides[1])
    axes = axes_for(ax, height * down, width)
    if count == 1:
        return [axes]
    figure: Any = axes.figure
    figure.clear()
    places = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in places[count:]:
        unused.remove()
    return places[:count]


def _about(rows: Sequence[Mapping[str, Any]], sides: Sequence[str], names: Sequence[str], value: str) -> str:
    """What all points of a panel have in common, and whether their figures rest on assumptions."""
    same = {name: str(rows[0][name]) for name in PANELS if name not in sides}
    said = [drawn_name(same[name].rpartition("/")[2], _NAME, SMALL) for name in ("model", "chip") if name in same]
    said += [f"{name} {same[name]}" for name in PANELS if name in same and name in names and name not in PANELS[:2]]
    of_rates = value == "hops" and any(str(row["rates"]).startswith("assumed") for row in rows)
    if of_rates or any(row.get(f"{value}_basis") == "assumed" for row in rows):
        said.append("~ assumed spike rates or figures")
    return ", ".join(said)


def _above(axes: Axes, title: str, about: str) -> None:
    """The title, and a line in grey below it."""
    from matplotlib.transforms import offset_copy  # pyright: ignore[reportMissingImports]

    figure: Any = axes.figure
    for text, points, look in ((title, 12.0, {}), (about, 3.5, {"size": SMALL, "color": GREY})):
        place = offset_copy(axes.transAxes, fig=figure, y=points, units="points")
        put_text(axes, 0.0, 1.0, text, transform=place, ha="left", va="bottom", **look)


def check_heatmap(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], x: str | None = None, y: str | None = None
) -> tuple[str, str]:
    """The two columns of the axes; rows need the columns of the plan alone. Raises UsageError: see ``plot_heatmap``."""
    for name in (x, y):
        if name in KEYS and rows and name not in rows[0]:
            limit = "chips that were given as values differ in the column 'chip'"
            hint = f"list the values of the key under 'set', as in set={{{quoted(name)}: [...]}}"
            raise UsageError.of("heat map", f"{quoted(name)} is no column", limit, hint)
        if name is not None and name not in names:
            hint = did_you_mean(name, names)
            raise UsageError.of("heat map", f"{quoted(name)} does not vary", f"these do: {', '.join(names)}", hint)
    rest = [name for name in names if name not in (x, y)]
    across = x or (rest.pop(0) if rest else "")
    up = y or (rest.pop(0) if rest else "")
    if not across or not up or across == up:
        found = f"{counted(len(names), 'column')} with several values ({', '.join(names) or 'none'})"
        raise UsageError.of("heat map", found, "it needs two", "add values of another key under [set]")
    panels = len(_panels(rows, names, across, up))
    if panels > PANELS_MAX:
        varied = ", ".join(name for name in rest if name in PANELS)
        found = f"{panels:,} panels, one for each {varied}"
        raise UsageError.of("heat map", found, f"at most {PANELS_MAX} are drawn", "sweep fewer of them")
    large = next((name for name in (across, up) if len({row[name] for row in rows}) > SIDE_MAX), None)
    if large is not None:
        raise UsageError.of("heat map", f"{quoted(large)} has more than {SIDE_MAX} values", "", "sweep fewer of them")
    return across, up


def _panels(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], x: str, y: str
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """The points of each panel."""
    split = [name for name in PANELS if name in names and name not in (x, y)]
    panels: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        panels.setdefault(tuple(row[name] for name in split), []).append(row)
    return panels


def _cells(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> dict[tuple[Any, Any], list[Mapping[str, Any]]]:
    cells: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row[x], row[y]), []).append(row)
    return cells


def _draw(
    axes: Axes,
    cells: Mapping[Any, Any],
    shown: Mapping[Any, float],
    sides: Sequence[list[Any]],
    word: str,
    ends: tuple[float, float],
    unproved: Set[Any],
) -> None:
    """Every cell, dark where the number is large; one without a number is hatched, and the best are framed."""
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    low, high = ends
    top = _number((max if word == "most" else min)(shown.values())) if shown else ""
    room = _column_width(axes, len(sides[0]))
    texts = {place: "≤" * (place in unproved) + _number(number) for place, number in shown.items()}
    size = TEXT if max((text_width(text, TEXT) for text in texts.values()), default=0) < room - 4 else SMALL
    fits = max((text_width(text, size) for text in texts.values()), default=0) < room - 2
    framed = [place for place, number in shown.items() if _number(number) == top]
    frames = [] if 4 * len(framed) > len(cells) else framed
    for place in cells:
        corner = (sides[0].index(place[0]), sides[1].index(place[1]))
        share = (shown[place] - low) / (high - low) if place in shown and high > low else 0.25
        colour = ramp_colour(0.04 + 0.8 * share)
        if place not in shown:
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=PALE, edgecolor=LINE, linewidth=0.0, hatch="//////"))
        fill = colour if place in shown else "none"
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=fill, edgecolor="white", linewidth=1.0))
        if place in frames:
            axes.add_patch(
                Rectangle((corner[0] + 0.03, corner[1] + 0.05), 0.94, 0.9, fill=False, edgecolor=INK, linewidth=1.2)
            )
        if place in shown and fits:
            look = {"size": size, "color": _ink(colour), "ha": "center", "va": "center"}
            put_text(axes, corner[0] + 0.5, corner[1] + 0.5, texts[place], **look)
    _explain(axes, len(cells) - len(shown), word if frames else "", fits, ends, len(unproved))


def _ink(colour: tuple[float, float, float]) -> str:
    """White or black, the one with more contrast: at least 4.5 (WCAG 2, relative luminance)."""
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in colour]
    light = sum(part * x for part, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05
    return "white" if 1.05 / light > light / 0.05 else "black"


def _explain(axes: Axes, empty: int, framed: str, fits: bool, ends: tuple[float, float], unproved: int) -> None:
    from matplotlib.patches import Patch  # pyright: ignore[reportMissingImports]

    handles, names = [], []
    if framed:
        handles.append(Patch(facecolor="none", edgecolor=INK, linewidth=1.2))
        names.append(framed)
    if empty:
        handles.append(Patch(facecolor=PALE, edgecolor=LINE, linewidth=0.5, hatch="//////"))
        names.append(f"{counted(empty, 'cell')} without a map or figure: column 'error'")
    if unproved:
        handles.append(Patch(facecolor="none", edgecolor="none"))
        names.append("≤: not proved, fewer may do" if fits else f"{counted(unproved, 'cell')} not proved: fewer may do")
    if not fits:
        for share, end in zip((0.04, 0.84), ends, strict=True):
            handles.append(Patch(facecolor=ramp_colour(share)))
            names.append(_number(end))
    if handles:
        put_legend(axes, handles, names, columns=2 if fits and not unproved else 1)


def _column_width(axes: Axes, columns: int) -> float:
    """Points of a column, about: the layout is known when the figure is drawn."""
    figure: Any = axes.figure
    place: Any = axes.get_subplotspec()
    panels = place.get_gridspec().ncols if place is not None else 1
    return (figure.get_figwidth() * POINTS / panels - _MARGIN) / columns


def _label(axes: Axes, sides: Sequence[list[Any]], x: str, y: str) -> None:
    style_axes(axes, x, y)
    axes.set(xlim=(0, len(sides[0])), ylim=(0, len(sides[1])))
    for axis, values in zip((axes.xaxis, axes.yaxis), sides, strict=True):
        axis.set_ticks([k + 0.5 for k in range(len(values))], [_tick(value) for value in values])
        plain(axis.get_ticklabels(), SMALL if len(values) > 6 else TEXT - 1)
    ticks = axes.get_xticklabels()
    if max(text_width(tick.get_text(), SMALL) for tick in ticks) > _column_width(axes, len(sides[0])) - 3:
        axes.tick_params(axis="x", rotation=90)
    axes.tick_params(length=0, color=GREY)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _tick(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool | str):
        return drawn_name(str(value), _NAME, SMALL)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _number(value: float) -> str:
    if value >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"
