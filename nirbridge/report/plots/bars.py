"""Figures of bars: energy and time of a step, energy of an inference, cores and their bounds, times of back ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.errors import UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.profiling.model import Figure, Profile, ProfilePoint
from nirbridge.report.bench import microseconds
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.bar_pictures import (
    KINDS,
    CostBar,
    CostPart,
    ProofBar,
    ProofPicture,
    energy_picture,
    proof_picture,
)
from nirbridge.report.pictures.labels import distinct_labels
from nirbridge.report.plots.style import (
    BLUE,
    FULL,
    HATCHES,
    INK,
    LINE,
    PALETTE,
    SMALL,
    TEXT,
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
_LABELLED = 0.09
"""Share of a bar from which on a part carries its percentage."""


def _name_rows(axes: Axes, title: str, labels: Sequence[str]) -> None:
    """The title of the axis of values, and a label beside each bar."""
    style_axes(axes, title, "")
    axes.set_yticks(range(len(labels)), labels)
    plain(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)


def _look(number: int) -> dict[str, Any]:
    """Colour and hatch of a kind by its number."""
    edge = {"edgecolor": INK, "linewidth": 0.5}
    return {"facecolor": PALETTE[number % len(PALETTE)], "hatch": HATCHES[number % len(HATCHES)], **edge}


# -- energy and time of a step -----------------------------------------------------------------------------------


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
            drawn[part.kind] = _draw_part(axes, row, part)
    axes.set(xlim=(0, 100), ylim=(len(bars) - 0.5, -0.5))
    _name_rows(axes, "share of a time step's total (%)", [_total(bar) for bar in bars])
    put_legend(axes, list(drawn.values()), [_kind_text(kind, bars) for kind in kinds], columns=1)
    return axes


def _draw_part(axes: Axes, row: int, part: CostPart) -> Any:
    width = 100 * (part.stop - part.start)
    drawn = axes.barh(row, width, left=100 * part.start, height=0.6, **_look(part.number))
    if part.stop - part.start >= _LABELLED:
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        place = 50 * (part.start + part.stop), row
        put_text(axes, *place, f"{width:.0f}", size=SMALL, ha="center", va="center", bbox=ground)
    return drawn[0]


def _total(bar: CostBar) -> str:
    rough = any(part.is_approximate for part in bar.parts)
    figure = figure_with_prefix(bar.total or 0.0, bar.unit, approximate=rough, partial=bar.missing)
    return f"{bar.quantity}\n" + figure.replace(" (", "\n(")


def _kind_text(kind: str, bars: list[CostBar]) -> str:
    amounts = [
        figure_with_prefix(part.value, bar.unit, approximate=part.is_approximate)
        for bar in bars
        for part in bar.parts
        if part.kind == kind
    ]
    return f"{kind}: {', '.join(amounts)}"


# -- energy of an inference -------------------------------------------------------------------------------------------


_PREFIXES = (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12))


class EnergyBar(NamedTuple):
    """A label, joules by kind of event, and the figure of the point: its basis, and the kinds that it leaves out."""

    label: str
    parts: Mapping[str, float]
    figure: Figure | None = None

    @property
    def total(self) -> float:
        """Joules of the whole bar."""
        return sum(self.parts.values())

    @property
    def said(self) -> str:
        """The total in words."""
        rough, missing = (False, ()) if self.figure is None else (self.figure.basis == "assumed", self.figure.missing)
        return figure_with_prefix(self.total, "J", approximate=rough, partial=missing)


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
    handles = _draw_bars(axes, shown, kinds, scale)
    for row, bar in enumerate(shown):
        put_text(axes, bar.total / scale, row, f" {bar.said}", size=SMALL, va="center")
    largest, partial = max(bar.total for bar in shown) / scale, any("(" in bar.said for bar in shown)
    axes.set(xlim=(0, (1.5 if partial else 1.22) * largest), ylim=(len(shown) - 0.5, -0.5))
    _name_rows(
        axes,
        f"energy of an inference ({unit})",
        distinct_labels([bar.label for bar in shown], lambda name: drawn_name(name, 90)),
    )
    put_legend(axes, handles, kinds, columns=2)
    return axes


def energy_bars(profile: Profile) -> list[EnergyBar]:
    """The bars of the figure; layers and points without energy are left out."""
    if len(profile.points) == 1:
        (point,) = profile.points
        bars = [EnergyBar(layer.name, _positive(layer.energy_j), _energy(point)) for layer in point.layers]
    else:
        bars = [EnergyBar(_point_text(p, profile.points), _positive(_by_kind(p)), _energy(p)) for p in profile.points]
    return [bar for bar in bars if bar.parts]


def _point_text(point: ProfilePoint, points: Sequence[ProfilePoint]) -> str:
    """The columns of the request in which the points differ."""
    columns = (("chip", "{}"), ("weight_bits", "{} bits"), ("objective", "{}"))
    told = [form.format(point.about[c]) for c, form in columns if len({p.about[c] for p in points}) > 1]
    return ", ".join(told) or str(point.about["chip"])


def _energy(point: ProfilePoint) -> Figure | None:
    return point.figures.get("energy_per_inference_j")


def _by_kind(point: ProfilePoint) -> dict[str, float]:
    return {event.kind: event.energy_j for event in point.events if event.energy_j is not None}


def _positive(values: Mapping[str, float]) -> dict[str, float]:
    return {kind: value for kind, value in values.items() if value > 0}


def _unit(largest: float) -> tuple[str, float]:
    return next(((unit, scale) for unit, scale in _PREFIXES if largest >= scale), _PREFIXES[-1])


def _draw_bars(axes: Axes, bars: Sequence[EnergyBar], kinds: Sequence[str], scale: float) -> list[object]:
    """The first piece of every kind, for the legend."""
    first: dict[str, object] = {}
    for row, bar in enumerate(bars):
        left = 0.0
        for kind, joules in bar.parts.items():
            drawn = axes.barh(row, joules / scale, left=left, height=0.66, **_look(KINDS.index(kind)))
            first.setdefault(kind, drawn[0])
            left += joules / scale
    return [first[kind] for kind in kinds]


# -- proof ------------------------------------------------------------------------------------------------------------


def plot_proof(value: MappedNetwork | Partition, *, ax: Axes | None = None) -> Axes:
    """Cores used, every lower bound, the bound that decides, and the optimality gap, with the sentence that says it.

    Raises UsageError: matplotlib is not installed.
    """
    picture = proof_picture(value)
    axes = axes_for(ax, 0.62 + 0.17 * (len(picture.bars) + (picture.gap > 0)))
    for row, bar in enumerate(picture.bars):
        axes.barh(row, bar.cores, height=0.62, **_proof_look(bar))
        note = f"{bar.cores:,}" + (", decides" if bar.decides else "")
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        options = {"textcoords": "offset points", "va": "center", "fontsize": SMALL, "bbox": ground}
        axes.annotate(note, (bar.cores, row), (2, 0), **options)
    most = max(1, *(bar.cores for bar in picture.bars))
    axes.set(xlim=(0, 1.28 * most), ylim=(len(picture.bars) - (0.4 if not picture.gap else -0.2), -0.6))
    _gap(axes, picture)
    _name_rows(axes, "cores", [drawn_name(bar.label, 110) for bar in picture.bars])
    axes.locator_params(axis="x", integer=True)
    axes.set_title("\n".join(wrap(picture.sentence, 56)), fontsize=TEXT, loc="right", parse_math=False, usetex=False)
    return axes


def _gap(axes: Axes, picture: ProofPicture) -> None:
    """The distance from the best bound to the cores used, as an arrow below the bars."""
    if not picture.gap:
        return
    found, row = picture.bars[0].cores, len(picture.bars) - 0.2
    for place in (found, found - picture.gap):
        axes.plot((place, place), (0, row + 0.2), color=FULL, linewidth=0.6, linestyle=":", zorder=0.5)
    arrow = {"arrowstyle": "<->", "color": FULL, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 5}
    axes.annotate("", (found - picture.gap, row), (found, row), arrowprops=arrow)
    options = {"textcoords": "offset points", "va": "center", "fontsize": SMALL, "color": FULL}
    axes.annotate(f"gap {picture.gap:,}", (found, row), (3, 0), **options)


def _proof_look(bar: ProofBar) -> dict[str, Any]:
    edge = {"edgecolor": INK, "linewidth": 0.5}
    if bar.kind == "found":
        return {"facecolor": BLUE, **edge}
    if bar.decides:
        return {"facecolor": FULL, **edge}
    return {
        "facecolor": PALETTE[0] if bar.kind == "sliced" else LINE,
        "hatch": "...." if bar.kind == "sliced" else "",
        **edge,
    }


# -- times of back ends -----------------------------------------------------------------------------------------------


def plot_bench(bench: Bench, *, ax: Axes | None = None) -> Axes:
    """Microseconds per time step of every back end with equal spikes, by batch, the fastest first.

    Raises UsageError: no back end was timed, or matplotlib is not installed.
    """
    rows = timed_rows(bench)
    if not rows:
        raise UsageError.of("benchmark", "no back end was timed", "", "bench a model that one of them takes")
    count = len(bench.batches)
    axes = axes_for(ax, 0.8 + (0.1 + 0.13 * count) * len(rows))
    height = 0.8 / count
    handles = []
    for number, batch in enumerate(bench.batches):
        places = [place for place, row in enumerate(rows) if batch in row.us_per_step]
        values = [rows[place].us_per_step[batch] for place in places]
        heights = [place - 0.4 + (number + 0.5) * height for place in places]
        handles.append(axes.barh(heights, values, height=0.9 * height, **_look(number)))
        for place, value in zip(heights, values, strict=True):
            put_text(axes, value, place, f" {microseconds(value)}", size=SMALL, va="center")
    _finish(axes, rows)
    put_legend(axes, handles, [f"batch {batch:,}" for batch in bench.batches], columns=min(count, 4))
    return axes


def timed_rows(bench: Bench) -> list[BenchRow]:
    """Rows with equal spikes and a time, the fastest at the smallest batch first."""
    rows = [row for row in bench.rows if row.status == "equal" and row.us_per_step]
    return sorted(rows, key=lambda row: next(iter(row.us_per_step.values())))[:BARS_MAX]


def _finish(axes: Axes, rows: list[BenchRow]) -> None:
    """Logarithmic axis with room for the numbers, and names that say the numbers of a back end with two rows."""
    values = [value for row in rows for value in row.us_per_step.values()]
    axes.set_xscale("log")
    axes.set(xlim=(min(values) / 2, max(values) * 6), ylim=(len(rows) - 0.5, -0.5))
    _name_rows(axes, "time step of the whole batch (us)", [drawn_name(_backend_text(row), 112) for row in rows])


def _backend_text(row: BenchRow) -> str:
    """Its name, with what sets it apart."""
    apart = [row.numbers] if row.numbers == "integers" else []
    apart += [row.measured] if row.measured == "whole run" else []
    return f"{row.backend} ({', '.join(apart)})" if apart else row.backend
