"""Bars for a notebook: the proof of a partition, agreement of recordings, and errors of quantized weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.errors import counted
from nirbridge.report.cards.svg import BLUE, GREY, INK, ORANGE, PALE, fitted, path, rect, svg, text
from nirbridge.report.pictures.proof_picture import proof_picture

if TYPE_CHECKING:
    from nirbridge.arrays import Array
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

BARS_MAX, HISTOGRAMS_MAX = 16, 6
LABEL, BAR, AFTER, LINE = 130.0, 170.0, 100.0, 12.0
WIDTH = LABEL + BAR + AFTER
_BINS = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """A label, the filled share of the track, the words after it, and a colour."""

    label: str
    share: float
    said: str
    colour: str = BLUE
    bold: bool = False


def bars_svg(bars: Sequence[Bar], label: str, heading: str, remarks: Sequence[str] = ()) -> str:
    """At most ``BARS_MAX`` bars below a heading, and lines of remarks below them."""
    left_out = len(bars) - BARS_MAX
    lines = [*remarks, *([f"and {left_out:,} more"] if left_out > 0 else [])]
    shown = bars[:BARS_MAX]

    def parts() -> Iterator[str]:
        yield fitted(0, 7, heading, WIDTH, bold=True)
        for number, bar in enumerate(shown, start=1):
            y = number * LINE
            share = min(1.0, max(0.0, bar.share)) if math.isfinite(bar.share) else 1.0
            yield fitted(LABEL - 4, y + 8, bar.label, LABEL - 4, anchor="end", bold=bar.bold)
            yield rect(LABEL, y + 2, (BAR, 8), "#f2f2f2", "none")
            yield rect(LABEL, y + 2, (max(0.5, share * BAR), 8), bar.colour, INK)
            yield fitted(LABEL + BAR + 4, y + 8, bar.said, AFTER - 4, bold=bar.bold)
        for number, line in enumerate(lines, start=1):
            yield fitted(0, (len(shown) + 1 + number) * LINE - 2, line, WIDTH)

    return svg(WIDTH, (len(shown) + 1 + len(lines)) * LINE, label, parts())


def partition_svg(partition: Partition) -> str:
    """Cores found, the lower bounds, and the bound that decides."""
    proof = proof_picture(partition)
    most = max((bar.cores for bar in proof.bars), default=1) or 1
    colour = {"found": BLUE, "sliced": GREY, "bound": PALE}
    bars = [
        Bar(
            bar.label,
            bar.cores / most,
            f"{bar.cores:,}" + (", decides" if bar.decides else ""),
            ORANGE if bar.decides else colour[bar.kind],
            bar.decides or bar.kind == "found",
        )
        for bar in proof.bars
    ]
    sentence, _, limit = proof.sentence.partition("; ")
    return bars_svg(bars, f"proof of {partition!r}", "Cores and lower bounds", [s for s in (sentence, limit) if s])


def quantized_svg(quantized: QuantizedNetwork) -> str:
    """Histograms of the errors of weights; where the real weights are not there, the errors that the report states."""
    from nirbridge.report.html.sections.quantization import weight_errors

    found = list(islice(weight_errors(quantized), HISTOGRAMS_MAX))
    if found:
        return _histograms(quantized, found)
    bars = [
        Bar(f"{w['source']} to {layer.population}", 5 * float(w["error"]), f"{w['error']:.2%}, {w['bits']} bits")
        for layer in quantized.report
        for w in layer.weights
    ]
    note = "root mean square, as a share of the weights' own; a full bar is 20 %"
    return bars_svg(bars, f"errors of {quantized!r}", "Errors of the weights", [note]) if bars else ""


def _histograms(quantized: QuantizedNetwork, found: Sequence[tuple[FixedProjection, Array]]) -> str:
    wide, tall = WIDTH / 3, 76.0
    more = len(quantized.projections) - len(found)
    note = "steps of the grid: within half a step rounding, beyond it clipping"
    note += f"; {counted(more, 'more projection')} not drawn" if more else ""
    height = 12 + math.ceil(len(found) / 3) * tall

    def parts() -> Iterator[str]:
        yield text(0, 7, "Errors of the weights", anchor="start", bold=True)
        for number, (projection, errors) in enumerate(found):
            row, column = divmod(number, 3)
            yield from _histogram(projection, errors, column * wide, 14 + row * tall, wide - 8)
        yield fitted(0, height + 7, note, WIDTH)

    return svg(WIDTH, height + 10, f"errors of {quantized!r}", parts())


def _histogram(p: FixedProjection, errors: Array, left: float, top: float, width: float) -> Iterator[str]:
    counts, _ = np.histogram(np.clip(errors, -1, 1), bins=_BINS, range=(-1, 1))
    most, wide, base = max(1, int(counts.max())), width / _BINS, top + 58
    bars = [
        f"M{left + k * wide:.4g} {base:.4g}v-{32 * n / most:.4g}h{wide:.4g}v{32 * n / most:.4g}z"
        for k, n in enumerate(counts.tolist())
        if n
    ]
    yield fitted(left, top + 7, f"{p.source} to {p.target}", width)
    yield fitted(left, top + 16, f"{counted(errors.size, 'weight')}, {p.weight_bits} bits", width)
    yield path(bars, fill=BLUE, stroke=INK, width=0.3)
    ticks = "".join(f"M{left + share * width:.4g} {base:.4g}v2" for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    yield path([f"M{left:.4g} {base:.4g}h{width:.4g}{ticks}"], stroke=INK)
    for share, said, anchor in ((0.0, "-1", "start"), (0.5, "0", "middle"), (1.0, "1", "end")):
        yield text(left + share * width, base + 9, said, anchor=anchor)
