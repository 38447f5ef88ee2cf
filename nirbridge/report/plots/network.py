"""A network as a figure: its graph in rows from the inputs down to the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nirbridge.network.model import Network
from nirbridge.report.pictures.network_picture import LINE, NetworkArrow, NetworkBox, network_picture
from nirbridge.report.plots.style import (
    BLUE,
    GREY,
    INK,
    PALE,
    POINTS,
    TEXT,
    axes_for,
    bare_axes,
    drawn_name,
    put_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

_FILL = {"input": "white", "output": "white", "population": "#dceaf4", "folded": PALE}
_EDGE = {"input": GREY, "output": GREY, "population": BLUE, "folded": INK}


def plot_network(network: Network, *, ax: Axes | None = None) -> Axes:
    """The graph of a network: populations with kind, shape and size, operators and delays on the arrows.

    Inputs and outputs have dashed edges; arrows that close a cycle are dashed. A large network is folded, and a line
    below says so. Raises UsageError: matplotlib is not installed.
    """
    picture = network_picture(network)
    below = LINE + 3 if picture.remark else 0.0
    size = (picture.height + below + 2) / POINTS, (picture.width + 2) / POINTS
    axes = axes_for(ax, *size, filled=True)
    bare_axes(axes, picture.width, picture.height + below)
    for arrow in picture.arrows:
        _arrow(axes, arrow)
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
    middle, first = box.x + box.width / 2, box.y + box.height / 2 - (len(box.lines) - 1) * LINE / 2
    for number, line in enumerate(box.lines):
        text = drawn_name(line, box.width - 6)
        weight = "bold" if number == 0 else "normal"
        put_text(axes, middle, first + number * LINE, text, ha="center", va="center", fontweight=weight, size=TEXT)


def _arrow(axes: Axes, arrow: NetworkArrow) -> None:
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
