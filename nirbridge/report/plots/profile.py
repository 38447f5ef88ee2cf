"""Energy of an inference as a figure: a stacked bar per layer, or per point, by kind of event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nirbridge.errors import UsageError
from nirbridge.profiling.model import Profile, ProfilePoint
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.plots.style import (
    HATCHES,
    INK,
    PALETTE,
    SMALL,
    axes_for,
    drawn_name,
    plain,
    put_legend,
    put_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

BARS_MAX = 40
_NAME = 90.0
"""Width of a name beside its bar in points."""
_PREFIXES = (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12))


class EnergyBar(NamedTuple):
    """A label, joules by kind of event, and whether they rest on a figure that is assumed."""

    label: str
    parts: Mapping[str, float]
    is_assumed: bool = False

    @property
    def total(self) -> float:
        """Joules of the whole bar."""
        return sum(self.parts.values())


def plot_profile(profile: Profile, *, ax: Axes | None = None) -> Axes:
    """Energy of an inference by kind of event: of each layer, or of each point where there are several.

    Raises UsageError: no point has figures of energy, or matplotlib is not installed.
    """
    bars = energy_bars(profile)
    if not bars:
        hint = "add [energy] to its file, with a source"
        raise UsageError.of("profile", "no chip of it has figures of energy", "", hint)
    shown = bars[:BARS_MAX]
    kinds = list(dict.fromkeys(kind for bar in shown for kind in bar.parts))
    axes = axes_for(ax, 0.75 + 0.24 * len(shown) + 0.14 * len(kinds))
    unit, scale = _unit(max(bar.total for bar in shown))
    handles = _draw(axes, shown, kinds, scale)
    for row, bar in enumerate(shown):
        text = figure_with_prefix(bar.total, "J", approximate=bar.is_assumed)
        put_text(axes, bar.total / scale, row, f" {text}", size=SMALL, va="center")
    largest = max(bar.total for bar in shown) / scale
    axes.set(xlim=(0, 1.22 * largest), ylim=(len(shown) - 0.5, -0.5))
    style_axes(axes, f"energy of an inference ({unit})", "")
    axes.set_yticks(range(len(shown)), [drawn_name(bar.label, _NAME) for bar in shown])
    plain(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)
    put_legend(axes, handles, kinds, columns=2)
    return axes


def energy_bars(profile: Profile) -> list[EnergyBar]:
    """The bars of the figure; layers and points without energy are left out."""
    if len(profile.points) == 1:
        (point,) = profile.points
        bars = [EnergyBar(layer.name, _positive(layer.energy_j), _is_assumed(point)) for layer in point.layers]
    else:
        bars = [EnergyBar(_label(p, profile.points), _positive(_by_kind(p)), _is_assumed(p)) for p in profile.points]
    return [bar for bar in bars if bar.parts]


def _label(point: ProfilePoint, points: Sequence[ProfilePoint]) -> str:
    """The columns of the request in which the points differ."""
    columns = (("chip", "{}"), ("weight_bits", "{} bits"), ("objective", "{}"))
    told = [form.format(point.about[c]) for c, form in columns if len({p.about[c] for p in points}) > 1]
    return ", ".join(told) or str(point.about["chip"])


def _is_assumed(point: ProfilePoint) -> bool:
    figure = point.figures.get("energy_per_inference_j")
    return figure is not None and figure.basis == "assumed"


def _by_kind(point: ProfilePoint) -> dict[str, float]:
    return {event.kind: event.energy_j for event in point.events if event.energy_j is not None}


def _positive(values: Mapping[str, float]) -> dict[str, float]:
    return {kind: value for kind, value in values.items() if value > 0}


def _unit(largest: float) -> tuple[str, float]:
    return next(((unit, scale) for unit, scale in _PREFIXES if largest >= scale), _PREFIXES[-1])


def _draw(axes: Axes, bars: Sequence[EnergyBar], kinds: Sequence[str], scale: float) -> list[object]:
    """The first piece of every kind, for the legend."""
    first: dict[str, object] = {}
    for row, bar in enumerate(bars):
        left = 0.0
        for kind, joules in bar.parts.items():
            number = kinds.index(kind)
            width = joules / scale
            drawn = axes.barh(
                row,
                width,
                left=left,
                height=0.66,
                facecolor=PALETTE[number % len(PALETTE)],
                hatch=HATCHES[number % len(HATCHES)],
                edgecolor=INK,
                linewidth=0.5,
            )
            first.setdefault(kind, drawn[0])
            left += width
    return [first[kind] for kind in kinds]
