"""Rasters of a recording, and the first difference of a comparison or a verification, for a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nirbridge.comparison.alignment import has_batch
from nirbridge.report.cards.bars import Bar, bars_svg
from nirbridge.report.cards.page_picture import card
from nirbridge.report.html.events import events_of, raster, remarks_of
from nirbridge.report.html.sections.verification import first_difference
from nirbridge.report.pictures.raster_picture import raster_picture

if TYPE_CHECKING:
    from nirbridge.comparison.types import Comparison, ComparisonRow
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification

NODES_MAX, ROWS_MAX, POINTS_MAX = 12, 48, 2_000
DIFFERENCES_MAX = 700, 600
"""Marks of events that are equal, and of those that are not."""


def recording_svg(recording: Recording) -> str:
    """Rasters of all nodes with recorded spikes on one time axis, in the order of the recording."""
    names = [node for node, variable in recording.arrays if variable == "s"]
    nodes = [each for name in names if (each := events_of(recording, name)) is not None]
    if not nodes:
        return ""
    drawn = raster_picture(nodes[:NODES_MAX], rows_max=ROWS_MAX, points_max=POINTS_MAX)
    label = f"raster of {recording!r}"
    shown = [f"the first {NODES_MAX} of {len(nodes):,} nodes"] if len(nodes) > NODES_MAX else []
    shown += ["sample 0 of the batch"] if has_batch(recording) else []
    remarks = [f"shown of {remark}" for remark in remarks_of(drawn)]
    return card(label, (raster(drawn, label), *(f"shown: {said}" for said in shown), *remarks))


def comparison_svg(comparison: Comparison) -> str:
    """The spikes of the first node that differs, else of the first node; bars where the spikes are not there."""
    drawn = "" if comparison.recordings is None else _difference(comparison, comparison.recordings, ("A", "B"))
    rows = [row for row in comparison.rows if row.spikes is not None]
    if drawn or not rows:
        return drawn
    return _agreement([(row.node, row.equal, row) for row in rows], f"agreement of {comparison!r}")


def verification_svg(verification: Verification) -> str:
    """The first required pair that is not equal, or else the first that differs; bars where all pairs are equal."""
    differing = sorted((p for p in verification.pairs if not p.comparison.equal), key=lambda p: not p.required)
    for pair in differing:
        recordings = verification.recordings.get(pair.a), verification.recordings.get(pair.b)
        if recordings[0] is not None and recordings[1] is not None:
            drawn = _difference(pair.comparison, (recordings[0], recordings[1]), (pair.a, pair.b))
            if drawn:
                return drawn
    bars = [(f"{p.a} {'=' if p.required else '~'} {p.b}", p.comparison.equal, p.comparison) for p in verification.pairs]
    return _agreement(bars, f"agreement of {verification!r}") if bars else ""


def _agreement(rows: Iterable[tuple[str, bool, Comparison | ComparisonRow]], label: str) -> str:
    bars = []
    for name, equal, row in rows:
        share = 1.0 if row.spikes is None else row.spikes.jaccard
        said = "equal" if equal else "different" if row.spikes is None else f"different, {share:.2%}"
        bars.append(Bar(name, share if equal or row.spikes is not None else 0.0, said, not equal))
    return bars_svg(bars, label, "Events in both as a share of the events in either")


def _difference(comparison: Comparison, recordings: tuple[Recording, Recording], names: tuple[str, str]) -> str:
    rows = [row for row in comparison.rows if row.spikes is not None]
    differing = (row for row in rows if row.first_step is not None)
    row = min(differing, key=lambda row: row.first_step or 0, default=next(iter(rows), None))
    found = None if row is None else first_difference(row, recordings, names, DIFFERENCES_MAX)
    return "" if found is None else card(f"spikes of {comparison!r}", found)
