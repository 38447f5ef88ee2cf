"""Recordings: rasters of all layers on one time axis, and potentials of reference and fixed with their thresholds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.comparison.alignment import has_batch
from nirbridge.errors import counted
from nirbridge.network.naming import natural_key
from nirbridge.report.html.events import NODES_MAX, POINTS_MAX, ROWS_MAX, events_of, raster, remarks_of
from nirbridge.report.html.page import Section
from nirbridge.report.html.sections.traces import potentials
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.html.svg import scrolled
from nirbridge.report.html.tags import Child, folded, short, table, tag
from nirbridge.report.pictures.raster_picture import NodeEvents, raster_picture
from nirbridge.simulators.types import Recording

RASTERS_MAX = 4
"""Recordings with rasters."""


def all_recordings(sources: ReportSources) -> dict[str, Recording]:
    """The recordings that were given, then those of a verification; ways that are equal to fixed are left out."""
    found = dict(sources.recordings)
    if sources.verification is not None:
        equal = {p.b for p in sources.verification.pairs if p.required and p.comparison.equal}
        found |= {way: r for way, r in sources.verification.recordings.items() if way not in equal}
    return found


def recordings_section(sources: ReportSources) -> Section | None:
    """The section of all recordings; None where there is none."""
    recordings = all_recordings(sources)
    if not recordings:
        return None
    body: list[Child] = []
    for name in list(recordings)[:RASTERS_MAX]:
        body += _rasters(sources, name, recordings[name])
    body += potentials(sources, recordings)
    said = ", ".join(short(name, 30) for name in recordings)
    steps = max(
        (len(a) for r in recordings.values() for (_, v), a in r.arrays.items() if a.ndim and v != "count"), default=0
    )
    return Section("recordings", "Recordings", f"{counted(steps, 'time step')} of {said}.", body)


def _nodes(sources: ReportSources, recording: Recording) -> list[str]:
    """Nodes with spikes in the order of the network; others after them by name."""
    network = sources.network or sources.drawn
    parts = () if network is None else (*network.inputs, *network.populations, *network.outputs)
    order = {part.name: k for k, part in enumerate(parts)}
    names = {node for node, variable in recording.arrays if variable == "s"}
    return sorted(names, key=lambda name: (order.get(name, len(order)), natural_key(name)))


def _rasters(sources: ReportSources, name: str, recording: Recording) -> Iterator[Child]:
    nodes = _nodes(sources, recording)
    events = [each for node in nodes if (each := events_of(recording, node)) is not None]
    if not events:
        return
    sample = ", sample 0" if has_batch(recording) else ""
    yield tag("h3", f"Spikes of {short(name, 40)}{sample}")
    drawn = raster_picture(events[:NODES_MAX], rows_max=ROWS_MAX, points_max=POINTS_MAX)
    label = f"Raster of {short(name, 40)}: {counted(len(drawn.bands), 'node')}"
    yield scrolled(raster(drawn, label), label)
    shown = remarks_of(drawn)
    if len(events) > NODES_MAX:
        shown.append(f"the first {NODES_MAX} of {len(events):,} nodes")
    if shown:
        yield tag("p", f"Shown: {'; '.join(shown)}.", class_="note")
    rows = [[short(e.node), f"{e.values.shape[1]:,}", f"{np.count_nonzero(e.values):,}", _rate(e)] for e in events]
    yield folded(
        "Spikes as a table",
        table(
            f"Events of {short(name, 30)} by node",
            ["node", "neurons", "events", "per neuron and time step"],
            rows,
            "lr",
        ),
    )


def _rate(events: NodeEvents) -> str:
    return f"{np.count_nonzero(events.values) / max(1, events.values.size):.4g}"
