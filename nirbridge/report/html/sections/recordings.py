"""Recordings: rasters of all layers on one time axis, and potentials of reference and fixed with their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import RecordedSteps, has_batch, recorded_steps
from nirbridge.errors import NirbridgeError, counted
from nirbridge.network.model import Network
from nirbridge.network.naming import natural_key
from nirbridge.report.html.events import (
    LEFT,
    NODES_MAX,
    POINTS_MAX,
    WIDTH,
    events_of,
    place_of,
    raster,
    remarks_of,
    rows_max,
    steps_by_neurons,
    time_axis,
)
from nirbridge.report.html.page import (
    Child,
    Markup,
    ReportSources,
    Section,
    folded,
    number,
    picture,
    remark,
    sample,
    scrolled,
    short,
    table,
    tag,
    text,
)
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
    rows = rows_max(min(len(events), NODES_MAX))
    drawn = raster_picture(events[:NODES_MAX], rows_max=rows, points_max=POINTS_MAX)
    label = f"Raster of {short(name, 40)}: {counted(len(drawn.bands), 'node')}"
    yield scrolled(raster(drawn, label), label)
    shown = remarks_of(drawn)
    if len(events) > NODES_MAX:
        shown.append(f"the first {NODES_MAX} of {len(events):,} nodes")
    if shown:
        yield remark(f"Shown: {'; '.join(shown)}.")
    cells = [[short(e.node), f"{e.values.shape[1]:,}", f"{np.count_nonzero(e.values):,}", _rate(e)] for e in events]
    yield folded(
        "Spikes as a table",
        table(
            f"Events of {short(name, 30)} by node",
            ["node", "neurons", "events", "per neuron and time step"],
            cells,
            "lr",
        ),
    )


def _rate(events: NodeEvents) -> str:
    return f"{np.count_nonzero(events.values) / max(1, events.values.size):.4g}"


# -- potentials -------------------------------------------------------------------------------------------------------


TRACES_MAX, TRACE_POINTS_MAX = 8, 600
"""Neurons whose potential is drawn (one of a node), points of a line."""
_TOP, _HEIGHT = 18.0, 120.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Potential of one neuron in one recording, in the units of the model: values, their steps, threshold, spikes."""

    name: str
    values: Array
    clock: RecordedSteps
    latency: int
    threshold: float | None
    spikes: Array

    def step(self, kept: int) -> int:
        """The time step of the reference at which a kept value is."""
        return self.clock.first - self.latency + kept * self.clock.every


def potentials(sources: ReportSources, recordings: Mapping[str, Recording]) -> Iterator[Child]:
    """Pictures of one neuron of each node, with all recordings over each other."""
    drawn = [picture_ for node in _recorded(sources, recordings) if (picture_ := _trace(sources, recordings, node))]
    if not drawn:
        return
    yield tag("h3", "Potentials and thresholds")
    said = (
        "Of each node the neuron with the most spikes. Lines: the potential; dashed: the threshold; "
        "ticks above: spikes. Integers are drawn in the units of the model, earlier by their latency."
    )
    yield remark(said)
    yield from drawn[:TRACES_MAX]
    if len(drawn) > TRACES_MAX:
        yield remark(f"The first {TRACES_MAX} of {len(drawn):,} nodes are drawn.")


def _recorded(sources: ReportSources, recordings: Mapping[str, Recording]) -> list[str]:
    """Nodes whose potential some recording has, in the order of the network."""
    names = {node for r in recordings.values() for node, variable in r.arrays if variable == "v"}
    network = sources.network or sources.drawn
    order = {} if network is None else {p.name: k for k, p in enumerate(network.populations)}
    names = names & set(order) or names
    return sorted(names, key=lambda name: (order.get(name, len(order)), natural_key(name)))


def _trace(sources: ReportSources, recordings: Mapping[str, Recording], node: str) -> Markup | None:
    neuron = _busiest(recordings, node)
    traces = [t for name in recordings if (t := trace_of(sources, recordings[name], name, node, neuron)) is not None]
    return _drawn(node, neuron, traces[:3]) if traces else None


def _busiest(recordings: Mapping[str, Recording], node: str) -> int:
    for recording in recordings.values():
        spikes = steps_by_neurons(recording, node, "s", 0)
        if spikes is not None and spikes.size and np.count_nonzero(spikes):
            return int(np.count_nonzero(spikes, axis=0).argmax())
    return 0


def trace_of(sources: ReportSources, recording: Recording, name: str, node: str, neuron: int) -> Trace | None:
    """The potential of a neuron; integers become reals by the scale of the quantized network, else stay as they are."""
    values, spikes = (steps_by_neurons(recording, node, variable, 0) for variable in ("v", "s"))
    if values is None or neuron >= values.shape[1] or not len(values):
        return None
    try:
        clock = recorded_steps(recording, (node, "v"))
    except NirbridgeError:
        return None
    line, threshold, latency = values[:, neuron].astype(np.float64), _real_threshold(sources.network, node, neuron), 0
    if values.dtype.kind in "iu" and sources.quantized is not None:
        fixed = next((p for p in sources.quantized.populations if p.name == node), None)
        if fixed is None or neuron >= fixed.size:
            return None
        n = fixed.neuron
        scale, offset = (float(_of(a, neuron)) for a in (n.scale, n.v_offset))
        line = line / scale + offset
        threshold = None if n.fires_above is None else float(_of(n.fires_above, neuron)) / scale + offset
        latency = sources.quantized.latency.get(node, 0)
    elif values.dtype.kind in "iu":
        threshold = None
    fired = spikes[:, neuron] if spikes is not None and neuron < spikes.shape[1] else values[:0, 0]
    return Trace(name, np.nan_to_num(line, posinf=0.0, neginf=0.0), clock, latency, threshold, fired)


def _real_threshold(network: Network | None, node: str, neuron: int) -> float | None:
    population = next((p for p in network.populations if p.name == node), None) if network is not None else None
    if population is None or population.neuron.theta is None or neuron >= population.size:
        return None
    return float(_of(population.neuron.theta, neuron))


def _of(array: Array, neuron: int) -> float:
    return float(array.reshape(-1)[neuron]) if array.ndim and array.size > 1 else float(array.reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class TraceAxes:
    """Ranges of a picture of traces: time steps ``first`` to ``stop``, potentials ``low`` to ``high``."""

    first: int
    stop: int
    low: float
    high: float

    def x(self, step: int) -> float:
        """Where a time step is."""
        return place_of(step, self.first, self.stop)

    def y(self, value: float) -> float:
        """Where a potential is; the greatest at the top."""
        return _TOP + 4 + (_HEIGHT - 8) * (1 - (value - self.low) / ((self.high - self.low) or 1.0))


def _axes(traces: Sequence[Trace]) -> TraceAxes:
    levels = [t.threshold for t in traces if t.threshold is not None]
    ends = [*levels, *(float(edge) for t in traces for edge in (t.values.min(), t.values.max()))]
    first = max(0, min(t.step(0) for t in traces))
    return TraceAxes(first, max(t.step(len(t.values)) for t in traces), min(ends), max(ends))


def _drawn(node: str, neuron: int, traces: Sequence[Trace]) -> Markup:
    axes = _axes(traces)
    inner: list[Child] = [tag("rect", x=LEFT, y=_TOP, width=WIDTH, height=_HEIGHT, class_="track")]
    inner += [_trace_lines(t, k, axes) for k, t in enumerate(traces)]
    lines = ((60, short(node, 22), "strong"), (76, f"neuron {neuron:,}", "small"))
    ends = ((30, f"{axes.high:.3g}", "small"), (_TOP + _HEIGHT, f"{axes.low:.3g}", "small"))
    inner += [text(LEFT - 8, y, said, anchor="end", class_=kind) for y, said, kind in (*lines, *ends)]
    inner.append(time_axis(axes.first, axes.stop, _TOP + _HEIGHT + 4))
    names = ", ".join(t.name if t.threshold is None else f"{t.name} (threshold {t.threshold:.4g})" for t in traces)
    label = f"Potential of {short(node, 40)}, neuron {neuron:,}: {names}"
    said = (f", threshold {t.threshold:.4g}" if t.threshold is not None else "" for t in traces)
    legend = (
        tag("li", _line(k), f" {short(t.name, 30)}{more}") for k, (t, more) in enumerate(zip(traces, said, strict=True))
    )
    drawn = picture(LEFT + WIDTH + 14, _TOP + _HEIGHT + 42, inner, label=label, class_="raster")
    return tag("div", tag("ul", legend, class_="legend inline"), scrolled(drawn, label))


def _trace_lines(t: Trace, k: int, axes: TraceAxes) -> Markup:
    """The potential, its threshold, and ticks at its spikes."""
    every = max(1, -(-len(t.values) // TRACE_POINTS_MAX))
    kept = [s for s in range(0, len(t.values), every) if t.step(s) >= axes.first]
    line = "L".join(f"{number(axes.x(t.step(s)))} {number(axes.y(float(t.values[s])))}" for s in kept)
    fired = [t.step(int(s)) for s in np.flatnonzero(t.spikes)[:TRACE_POINTS_MAX]]
    ticks = "".join(f"M{number(axes.x(at))} {1 + 6 * k}v5" for at in fired if at >= axes.first)
    level = None if t.threshold is None else f"M{number(LEFT)} {number(axes.y(t.threshold))}h{number(WIDTH)}"
    return tag(
        "g",
        tag("path", d=f"M{line}", class_=f"trace trace{k}") if kept else None,
        None if level is None else tag("path", d=level, class_=f"threshold trace{k}"),
        tag("path", d=ticks, class_=f"trace trace{k}") if ticks else None,
    )


def _line(k: int) -> Markup:
    return sample(tag("path", d="M1 8h22", class_=f"trace trace{k}"))
