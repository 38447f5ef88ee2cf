"""Points of a sweep or profile as a figure: two quantities against each other, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nirbridge.errors import UsageError, counted
from nirbridge.report.pictures.labels import distinct_labels
from nirbridge.report.plots.style import (
    GREY,
    INK,
    SMALL,
    STRONG,
    axes_for,
    drawn_name,
    put_legend,
    put_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
GROUPS_MAX = 14
_NAME, _NOTE = 105.0, 190.0
_PREFIXES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9), ("p", 1e-12))


class Quantity(NamedTuple):
    """The columns of a quantity, of an inference first, with words for the axis; ``more``: more of it is better."""

    columns: tuple[tuple[str, str], ...]
    unit: str
    more: bool = False


QUANTITIES: Mapping[str, Quantity] = {
    "energy": Quantity(
        (("energy_per_inference_j", "energy of an inference"), ("energy_per_step_j", "energy of a time step")), "J"
    ),
    "time": Quantity(
        (("time_per_inference_s", "time of an inference"), ("time_per_step_s", "time of a time step")), "s"
    ),
    "cores": Quantity((("cores", "cores"),), ""),
    "accuracy": Quantity((("accuracy", "accuracy (%)"),), "", more=True),
}


class ParetoPoint(NamedTuple):
    """A point of the figure: its values, what it is, and whether no other point is at least as good in both.

    ``is_partial``: one of its values leaves out events that the chip file has no data for.
    """

    x: float
    y: float
    group: tuple[str, str]
    is_best: bool
    is_partial: bool


def plot_pareto(rows: Sequence[Mapping[str, Any]], x: str, y: str, *, ax: Axes | None = None) -> Axes:
    """Points of ``x`` and ``y`` (names of ``QUANTITIES``), a colour per model, a mark per chip, and the Pareto front.

    Raises UsageError: no row has both, x is y, or matplotlib is not installed.
    """
    if x == y:
        raise UsageError.of("picture", f"x and y are both '{x}'", "", f"choose two of {', '.join(QUANTITIES)}")
    labels, points = pareto_points(rows, x, y)
    if not points:
        hint = "accuracy needs data with labels" if "accuracy" in (x, y) else "the chips need figures with a source"
        raise UsageError.of("picture", f"no point has {x} and {y}", "", hint)
    groups = list(dict.fromkeys(point.group for point in points))
    shown = groups[:GROUPS_MAX]
    axes = axes_for(ax, 2.3 + 0.13 * math.ceil((len(shown) + 1) / 2))
    scales = [
        scale_of(values, QUANTITIES[name]) for values, name in (([p.x for p in points], x), ([p.y for p in points], y))
    ]
    handles = _draw(axes, points, shown, scales)
    titles = [_title(label, scale, QUANTITIES[name]) for label, scale, name in zip(labels, scales, (x, y), strict=True)]
    style_axes(axes, *titles)
    axes.margins(0.08)
    for name, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if name == "cores":
            locator: Any = axis.get_major_locator()
            locator.set_params(integer=True, min_n_ticks=1)  # of one count alone, too
    left, partial = len(rows) - len(points), dict.fromkeys(point.group[1] for point in points if point.is_partial)
    notes = [f"{counted(left, 'point')} without these figures"] if left else []
    notes += [f"partial (no data in the chip file): {', '.join(partial)}"] if partial else []
    place = {"size": SMALL, "color": GREY, "transform": axes.transAxes, "ha": "right", "va": "bottom"}
    put_text(axes, 1.0, 1.01, "\n".join(drawn_name(note, _NOTE, SMALL) for note in notes), **place)
    models, chips = ({group[k] for group in groups} for k in (0, 1))
    names = [_group_name(group, len(models) > 1, len(chips) > 1) for group in shown]
    labels = distinct_labels(names, lambda name: drawn_name(name, _NAME, SMALL))
    put_legend(axes, handles, [*labels, "Pareto front"], columns=2)
    return axes


def pareto_points(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> tuple[tuple[str, str], list[ParetoPoint]]:
    """The words of both axes, and the points that have both quantities; a column is one for all rows."""
    (x_column, x_label), (y_column, y_label) = (column_of(rows, QUANTITIES[name]) for name in (x, y))
    full = [row for row in rows if row.get(x_column) is not None and row.get(y_column) is not None]
    values = [(float(row[x_column]), float(row[y_column])) for row in full]
    goods = [(-a if QUANTITIES[x].more else a, -b if QUANTITIES[y].more else b) for a, b in values]
    best = front(goods)
    points = [
        ParetoPoint(
            *(a, b, (str(row.get("model")), str(row.get("chip"))), good in best),
            is_partial=any(row.get(f"{name}_missing") for name in (x, y)),
        )
        for (a, b), good, row in zip(values, goods, full, strict=True)
    ]
    return (x_label, y_label), points


def front(values: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The pairs that no other pair is at most as large as in both numbers, and smaller in one."""
    best: set[tuple[float, float]] = set()
    least = math.inf
    for pair in sorted(set(values)):
        if pair[1] < least:
            best.add(pair)
            least = pair[1]
    return best


def column_of(rows: Sequence[Mapping[str, Any]], quantity: Quantity) -> tuple[str, str]:
    """The first column that some row has a value in."""
    have = (column for column in quantity.columns if any(row.get(column[0]) is not None for row in rows))
    return next(have, quantity.columns[-1])


def scale_of(values: Sequence[float], quantity: Quantity) -> tuple[str, float]:
    """A prefix and its factor; accuracy is drawn in per cent."""
    if not quantity.unit:
        return "", 0.01 if quantity.more else 1.0
    largest = max(values)
    return next(((prefix, factor) for prefix, factor in _PREFIXES if largest >= factor), _PREFIXES[-1])


def _title(label: str, scale: tuple[str, float], quantity: Quantity) -> str:
    return f"{label} ({scale[0]}{quantity.unit})" if quantity.unit else label


def _draw(
    axes: Axes, points: Sequence[ParetoPoint], groups: Sequence[tuple[str, str]], scales: Sequence[tuple[str, float]]
) -> list[Any]:
    """The marks of each group, filled on the front, and the front itself; the handles of the legend."""
    (_, fx), (_, fy) = scales
    models, chips = (list(dict.fromkeys(p.group[k] for p in points)) for k in (0, 1))
    edge = sorted({(p.x / fx, p.y / fy) for p in points if p.is_best})
    (line,) = axes.plot(*zip(*edge, strict=True), color=INK, linewidth=0.8, linestyle="--", zorder=1)
    handles = []
    for group in dict.fromkeys(p.group for p in points):
        color = STRONG[models.index(group[0]) % len(STRONG)]
        look = {"s": 16, "marker": MARKS[chips.index(group[1]) % len(MARKS)], "linewidths": 0.8, "zorder": 2}
        for is_best in (False, True):
            own = [(p.x / fx, p.y / fy) for p in points if p.group == group and p.is_best is is_best]
            xs, ys = zip(*own, strict=True) if own else ((), ())
            fill = color if is_best else "none"
            handle = axes.scatter(xs, ys, facecolors=fill, edgecolors=INK if is_best else color, **look)
        if group in groups:
            handles.append(handle)
    return [*handles, line]


def _group_name(group: tuple[str, str], several_models: bool, several_chips: bool) -> str:
    if several_models and several_chips:
        return f"{group[0]}, {group[1]}"
    return group[0] if several_models else group[1]
