"""The proof of a map as a figure: cores used beside all lower bounds."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.report.pictures.proof_picture import ProofBar, ProofPicture, proof_picture
from nirbridge.report.plots.style import (
    BLUE,
    INK,
    LINE,
    ORANGE,
    RED,
    SKY,
    SMALL,
    TEXT,
    axes_for,
    drawn_name,
    plain,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

_WRAP = 56


def plot_proof(value: MappedNetwork | Partition, *, ax: Axes | None = None) -> Axes:
    """Cores used, every lower bound, the bound that decides, and the optimality gap, with the sentence that says it.

    Raises UsageError: matplotlib is not installed.
    """
    picture = proof_picture(value)
    axes = axes_for(ax, 0.62 + 0.17 * (len(picture.bars) + (picture.gap > 0)))
    for row, bar in enumerate(picture.bars):
        axes.barh(row, bar.cores, height=0.62, **_look(bar))
        note = f"{bar.cores:,}" + (", decides" if bar.decides else "")
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        options = {"textcoords": "offset points", "va": "center", "fontsize": SMALL, "bbox": ground}
        axes.annotate(note, (bar.cores, row), (2, 0), **options)
    most = max(1, *(bar.cores for bar in picture.bars))
    axes.set(xlim=(0, 1.28 * most), ylim=(len(picture.bars) - (0.4 if not picture.gap else -0.2), -0.6))
    _gap(axes, picture)
    labels = [drawn_name(bar.label, 110) for bar in picture.bars]
    style_axes(axes, "cores", "")
    axes.locator_params(axis="x", integer=True)
    axes.set_yticks(range(len(labels)), labels)
    plain(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)
    lines = wrap(picture.sentence, _WRAP)
    axes.set_title("\n".join(lines), fontsize=TEXT, loc="right", parse_math=False, usetex=False)
    return axes


def _gap(axes: Axes, picture: ProofPicture) -> None:
    """The distance from the best bound to the cores used, as an arrow below the bars."""
    if not picture.gap:
        return
    found, row = picture.bars[0].cores, len(picture.bars) - 0.2
    for place in (found, found - picture.gap):
        axes.plot((place, place), (0, row + 0.2), color=RED, linewidth=0.6, linestyle=":", zorder=0.5)
    arrow = {"arrowstyle": "<->", "color": RED, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 5}
    axes.annotate("", (found - picture.gap, row), (found, row), arrowprops=arrow)
    options = {"textcoords": "offset points", "va": "center", "fontsize": SMALL, "color": RED}
    axes.annotate(f"gap {picture.gap:,}", (found, row), (3, 0), **options)


def _look(bar: ProofBar) -> dict[str, Any]:
    edge = {"edgecolor": INK, "linewidth": 0.5}
    if bar.kind == "found":
        return {"facecolor": BLUE, **edge}
    if bar.decides:
        return {"facecolor": ORANGE, "hatch": "////", **edge}
    return {"facecolor": SKY if bar.kind == "sliced" else LINE, "hatch": "...." if bar.kind == "sliced" else "", **edge}
