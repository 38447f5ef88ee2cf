"""Bars for a notebook: the proof of a partition, the weights of a quantized network, the energy of a profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from nirbridge.errors import counted
from nirbridge.report.cards.page_picture import beside, card
from nirbridge.report.html.sections.proof import proof_drawing
from nirbridge.report.html.sections.quantization import HISTOGRAM_NOTE, histogram, weight_errors
from nirbridge.report.html.svg import Picture, picture, text
from nirbridge.report.html.tags import Child, tag
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.labels import fitted_label
from nirbridge.report.pictures.proof_picture import proof_picture
from nirbridge.report.plots.profile import energy_bars

if TYPE_CHECKING:
    from nirbridge.partitioner.model import Partition
    from nirbridge.profiling.model import Profile
    from nirbridge.quantization.model import QuantizedNetwork

BARS_MAX, HISTOGRAMS_MAX = 16, 6
_LABEL, _BAR, _AFTER, _LINE = 220.0, 280.0, 180.0, 20.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A label, the filled share of the track, the words after it, and whether it stands out."""

    label: str
    share: float
    said: str
    full: bool = False


def bars_svg(bars: Sequence[Bar], label: str, heading: str, remarks: Sequence[str] = ()) -> str:
    """At most ``BARS_MAX`` bars below a heading, and lines of remarks below them."""
    more = [f"and {len(bars) - BARS_MAX:,} more"] if len(bars) > BARS_MAX else []
    return card(label, (heading, _bars(bars[:BARS_MAX], heading), *remarks, *more))


def _bars(bars: Sequence[Bar], label: str) -> Picture:
    inner: list[Child] = []
    for number, bar in enumerate(bars):
        y, share = number * _LINE, min(1.0, max(0.0, bar.share)) if math.isfinite(bar.share) else 1.0
        place = {"x": _LABEL, "y": y + 2, "height": "14"}
        inner += [
            text(_LABEL - 8, y + 14, fitted_label(bar.label, _LABEL - 8, 12), anchor="end"),
            tag("rect", width=_BAR, class_="track", **place),
            tag("rect", width=max(1.0, share * _BAR), class_="fill full" if bar.full else "fill", **place),
            text(_LABEL + _BAR + 8, y + 14, fitted_label(bar.said, _AFTER - 8, 12)),
        ]
    return picture(_LABEL + _BAR + _AFTER, len(bars) * _LINE, inner, label=label)


def partition_svg(partition: Partition) -> str:
    """Cores found, the lower bounds, and the bound that decides."""
    proof = proof_picture(partition)
    return card(f"proof of {partition!r}", (proof_drawing(proof), *proof.sentence.split("; ")))


def profile_svg(profile: Profile) -> str:
    """Bars of the energy of an inference; nothing where no chip has figures of energy."""
    bars = energy_bars(profile)
    largest = max((bar.total for bar in bars), default=0.0)
    shown = [Bar(bar.label, bar.total / largest, figure_with_prefix(bar.total, "J")) for bar in bars]
    return bars_svg(shown, f"energy of {profile!r}", "Energy of an inference") if bars else ""


def quantized_svg(quantized: QuantizedNetwork) -> str:
    """Histograms of the errors of weights; where the real weights are not there, the errors that the report states."""
    label, heading = f"errors of {quantized!r}", "Errors of the weights"
    drawn = [histogram(*each) for each in islice(weight_errors(quantized), HISTOGRAMS_MAX)]
    if drawn:
        more = len(quantized.projections) - len(drawn)
        left_out = [f"{counted(more, 'more projection')} not drawn"] if more else []
        return card(label, (heading, beside(drawn, 3), HISTOGRAM_NOTE, *left_out))
    bars = [
        Bar(f"{w['source']} to {layer.population}", 5 * float(w["error"]), f"{w['error']:.2%}, {w['bits']} bits")
        for layer in quantized.report
        for w in layer.weights
    ]
    note = "root mean square, as a share of the weights' own; a full bar is 20 %"
    return bars_svg(bars, label, heading, [note]) if bars else ""
