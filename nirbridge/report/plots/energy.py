"""Energy and duration of a time step as a figure: two stacked bars in per cent of their totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nirbridge.errors import UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.energy_picture import CostBar, CostPart, energy_picture
from nirbridge.report.plots.style import HATCHES, INK, PALETTE, SMALL, axes_for, plain, put_legend, put_text, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

_LABELLED = 0.09
"""Share of a bar from which on a part carries its percentage."""


def plot_energy(mapped: MappedNetwork, *, ax: Axes | None = None) -> Axes:
    """Energy and time of a time step by kind of event; figures marked ``~`` are approximate.

    Raises UsageError: the chip has no figures of energy or time, or matplotlib is not installed.
    """
    bars = [bar for bar in energy_picture(mapped).bars if bar.parts]
    if not bars:
        hint = "add [energy] or [time] to its file"
        raise UsageError.of(f"chip {mapped.chip.name!r}", "has no figures of energy or time", "", hint)
    kinds = list(dict.fromkeys(part.kind for bar in bars for part in bar.parts))
    axes = axes_for(ax, 0.75 + 0.32 * len(bars) + 0.14 * len(kinds))
    drawn = dict.fromkeys(kinds)
    for row, bar in enumerate(bars):
        for part in bar.parts:
            drawn[part.kind] = _draw(axes, row, part, kinds.index(part.kind))
    axes.set(xlim=(0, 100), ylim=(len(bars) - 0.5, -0.5))
    style_axes(axes, "share of a time step's total (%)", "")
    axes.set_yticks(range(len(bars)), [_total(bar) for bar in bars])
    plain(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)
    put_legend(axes, list(drawn.values()), [_label(kind, bars) for kind in kinds], columns=1)
    return axes


def _draw(axes: Axes, row: int, part: CostPart, number: int) -> Any:
    look: dict[str, Any] = {"facecolor": PALETTE[number % len(PALETTE)], "hatch": HATCHES[number % len(HATCHES)]}
    width = 100 * (part.stop - part.start)
    drawn = axes.barh(row, width, left=100 * part.start, height=0.6, edgecolor=INK, linewidth=0.5, **look)
    if part.stop - part.start >= _LABELLED:
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        place = 50 * (part.start + part.stop), row
        put_text(axes, *place, f"{width:.0f}", size=SMALL, ha="center", va="center", bbox=ground)
    return drawn[0]


def _total(bar: CostBar) -> str:
    rough = any(part.is_approximate for part in bar.parts)
    partial = "\n(partial)" if bar.missing else ""
    return f"{bar.quantity}\n{figure_with_prefix(bar.total or 0.0, bar.unit, approximate=rough)}{partial}"


def _label(kind: str, bars: list[CostBar]) -> str:
    amounts = [
        figure_with_prefix(part.value, bar.unit, approximate=part.is_approximate)
        for bar in bars
        for part in bar.parts
        if part.kind == kind
    ]
    return f"{kind}: {', '.join(amounts)}"
