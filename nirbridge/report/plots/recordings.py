"""Figures of recordings: rasters, traces of potentials, rates, and the difference of two rasters.

Steps are numbered as the simulation numbers them, neurons along the flattened shape of their population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.distances import align_steps, has_batch, is_counts, recorded_steps, stored_latency
from nirbridge.errors import UsageError, counted, did_you_mean, quoted
from nirbridge.network.naming import natural_key
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.labels import distinct_labels, printable_name, text_width
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterBand, differing_events, raster_picture
from nirbridge.report.plots.style import (
    FIRST,
    GREY,
    INK,
    LINE,
    POINTS,
    RED,
    SECOND,
    SMALL,
    STRONG,
    TEXT,
    axes_for,
    drawn_name,
    plain,
    put_legend,
    put_title,
    shade_map,
    style_axes,
)
from nirbridge.simulators.types import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

    from nirbridge.comparison.types import Comparison

BINS_MAX = 50
NODES_MAX = 12
_BAND = 0.86
"""Part of a band's height that its neurons take; the rest keeps it apart from the next one."""
_NAME, _TITLE = 74.0, 195.0
_HEIGHT, _BAND_HEIGHT = 1.9, 0.55
"""Inches of a raster of one node, and of each band."""
_BAND_ROWS = 40
_SPIKES = 0.06
"""Height of a row of spikes above traces, of the height of the lines."""
TRACES = (INK, *(colour for colour in STRONG[:-1] if colour not in (FIRST, SECOND)))
"""Colours of neurons: none of them is that of a recording, or of the threshold."""


def plot_recording(
    recording: Recording, nodes: str | Sequence[str] | None = None, *, sample: int = 0, ax: Axes | None = None
) -> Axes:
    """The raster of ``nodes``, or of all; the traces of the first neurons of one node that has no spikes.

    Raises UsageError: neither spikes nor potentials of the node were recorded.
    """
    spiking = {node for node, variable in recording.arrays if variable == "s"}
    drawn = [node for node, variable in recording.arrays if variable in ("s", "u", "v")]
    if nodes is None and not drawn:
        raise UsageError.of("recording", "no node has spikes or potentials to draw", "", "add record='*:s,v'")
    one = nodes if isinstance(nodes, str) else drawn[0] if nodes is None and not spiking else None
    if one is None or one in spiking or one not in drawn:
        # a node that was not recorded is refused by the raster, which names those that were
        return plot_raster(recording, nodes, sample=sample, ax=ax)
    count = potential_of(recording, one, sample)[0].shape[1]
    return plot_traces(recording, one, range(min(count, len(TRACES))), sample=sample, ax=ax)


def plot_raster(
    recording: Recording, nodes: str | Sequence[str] | None = None, *, sample: int = 0, ax: Axes | None = None
) -> Axes:
    """Events as marks over time: of one node, or of several in bands on one time axis, the first one at the top.

    ``nodes`` None: all with recorded spikes, at most ``NODES_MAX``. A graded value is an event where it is not 0. Of
    many neurons or events the cells are shaded, and the label of the band says what a cell is. Raises UsageError:
    spikes not recorded.
    """
    names = _spiking(recording) if nodes is None else [nodes] if isinstance(nodes, str) else list(nodes)
    single = len(names) == 1
    rows = {} if single else {"rows_max": _BAND_ROWS}
    picture = raster_picture([events_of(recording, name, sample) for name in names], **rows)
    axes = axes_for(ax, _HEIGHT if single else 0.6 + _BAND_HEIGHT * len(picture.bands))
    for number, band in enumerate(picture.bands):
        _band(axes, band, (0, max(1, band.neurons)) if single else (number, _BAND))
    style_axes(axes, time_label(recording), "neuron" if single else "")
    axes.set_xlim(picture.first - 0.5, picture.stop - 0.5)
    if single:
        (band,) = picture.bands
        axes.set_ylim(-0.5, max(1, band.neurons) - 0.5)
        axes.locator_params(axis="y", integer=True)
        put_title(axes, _band_label(band), SMALL)
        return axes
    axes.set_ylim(len(picture.bands) - 1 + _BAND, -(1 - _BAND))
    labels = distinct_labels(names, lambda name: drawn_name(printable_name(name), _NAME, SMALL))
    texts = [f"{label}\n{_band_text(band)}" for label, band in zip(labels, picture.bands, strict=True)]
    axes.set_yticks([k + _BAND / 2 for k in range(len(names))], texts)
    plain(axes.get_yticklabels(), SMALL)
    for number in range(1, len(names)):
        axes.axhline(number - (1 - _BAND) / 2, color=LINE, linewidth=0.5)
    return axes


def _band(axes: Axes, band: RasterBand, place: tuple[float, float], color: str = INK) -> object:
    """The events of a node where its neurons begin, in an extent for all of them: marks, or shaded cells.

    Returns the handle for a legend.
    """
    start, extent = place
    neurons = max(1, band.neurons)
    shift = 0.5 if extent == neurons else 0.0  # on the axis of a single node whole numbers are neurons
    if not band.is_binned:
        height = _HEIGHT if extent == neurons else _BAND_HEIGHT
        size = min(6.0, max(3.0, 0.5 * POINTS * height / band.rows))
        return _marks(axes, band.steps, start + extent * (band.neuron + 0.5) / neurons - shift, color, "|", size)
    row, column = band.neuron // band.stride, (band.steps - band.first) // (band.joined * band.every)
    last = -(-(band.stop - band.first) // (band.joined * band.every))
    shades = np.full((band.rows, last), np.nan)
    shades[row, column] = band.counts / band.most
    x = np.minimum(band.first + np.arange(last + 1) * band.joined * band.every, band.stop) - 0.5
    y = start + extent * np.minimum(np.arange(band.rows + 1) * band.stride, neurons) / neurons - shift
    axes.pcolormesh(x, y, shades, cmap=shade_map(color), vmin=0, vmax=1, rasterized=True)
    return _marks(axes, band.steps[:0], band.neuron[:0], color, "s", 3.0)


def _spiking(recording: Recording) -> list[str]:
    names = [node for node, variable in recording.arrays if variable == "s"]
    if not names:
        raise UsageError.of("recording", "no node has spikes", "a raster is of spikes", "add record='*:s'")
    return names[:NODES_MAX]


def _band_label(band: RasterBand) -> str:
    """Name and counts; below them what a cell is. A long name is cut, what is said of it is not."""
    said = f"; {counted(band.events, 'event')} of {counted(band.neurons, 'neuron')}"
    name = drawn_name(printable_name(band.node), _TITLE - text_width(said, SMALL), SMALL)
    return "\n".join(filter(None, (name + said, band.remark)))


def _band_text(band: RasterBand) -> str:
    lines = [counted(band.neurons, "neuron")]
    steps = counted(band.joined, "step" if band.every == 1 else "recorded step")
    lines += [f"cell: {band.stride:,} × {steps},", f"≤ {counted(band.most, 'event')}"] if band.is_binned else []
    return "\n".join(lines)


def plot_traces(
    recording: Recording,
    node: str,
    neurons: int | Sequence[int] = 0,
    *,
    threshold: float | None = None,
    other: Recording | None = None,
    names: tuple[str, str] = ("A", "B"),
    sample: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Potentials over time with their threshold as a line; spikes, where recorded, are marks at the top.

    ``neurons``: indices along the flattened shape. The potential before the reset (``u``) is drawn where it was
    recorded, else ``v``, which is the one after; of integers ``v``, in real units by the scale that the recording
    states. ``other``: a second recording of the same node, dashed, as the fixed-point model beside the reference; its
    latency, where stated, is taken off. Raises UsageError: not recorded, or no such neuron.
    """
    chosen = [neurons] if isinstance(neurons, int) else list(neurons)
    axes = axes_for(ax, 2.0)
    handles, labels, count = [], [], 0
    for way, (run, style) in enumerate(((recording, "-"), (other, "--"))):
        if run is None:
            continue
        values, steps, kind = potential_of(run, node, sample)
        count = values.shape[1]
        for number, neuron in enumerate(chosen):
            _check_neuron(node, neuron, values.shape[1])
            colour = TRACES[number % len(TRACES)] if other is None else (FIRST, SECOND)[way]
            (line,) = axes.plot(
                steps, values[:, neuron], color=colour, linewidth=0.9, linestyle=style if number < len(TRACES) else "-."
            )
            which = f"neuron {neuron}, " if len(chosen) > 1 else ""
            handles.append(line)
            labels.append(f"{names[way]}: {which}{kind}" if other is not None else f"{which}{kind}")
    if threshold is not None:
        handles.append(axes.axhline(threshold, color=GREY, linestyle=":", linewidth=1))
        labels.append(f"threshold {threshold:g}")
    spikes = _spike_marks(axes, recording, node, chosen, sample)
    style_axes(axes, time_label(recording), "potential")
    put_legend(axes, [*handles, *spikes], [*labels, *["spike"] * len(spikes)], columns=2)
    which = f", neuron {chosen[0]:,}" if len(chosen) == 1 else f", {len(chosen):,} of {counted(count, 'neuron')}"
    put_title(axes, drawn_name(printable_name(node), _TITLE - text_width(which, SMALL), SMALL) + which, SMALL)
    return axes


def _check_neuron(node: str, neuron: int, count: int) -> None:
    if not 0 <= neuron < count:
        limit = f"it has {count:,}, numbered from 0"
        raise UsageError.of(f"population {quoted(node)}", f"neuron {neuron}", limit, "choose one of them")


def _spike_marks(axes: Axes, recording: Recording, node: str, chosen: Sequence[int], sample: int) -> list[object]:
    """The spikes of these very neurons, where they were recorded: a row for each above the lines, in its colour."""
    if (node, "s") not in recording.arrays:
        return []
    events = events_of(recording, node, sample)
    if not len(events.values) or max(chosen) >= events.values.shape[1]:
        return []
    if (node, "v") in recording.arrays and values_of(recording, node, "v", sample).shape[1] != events.values.shape[1]:
        return []
    lines = zip(chosen, axes.lines, strict=False)
    fired = [(steps, line) for neuron, line in lines if len(steps := np.flatnonzero(events.values[:, neuron]))]
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + _SPIKES * len(fired) * (high - low))
    marks: list[object] = []
    for row, (steps, line) in enumerate(fired):
        heights = np.full(len(steps), 1 - _SPIKES * (row + 0.5) / (1 + _SPIKES * len(fired)))
        look = {
            "color": line.get_color(),
            "markersize": 5,
            "markeredgewidth": 1.0,
            "transform": axes.get_xaxis_transform(),
        }
        marks += axes.plot(events.first + steps * events.every, heights, "|", **look)
    return marks[:1]


def plot_rates(recording: Recording, node: str, *, sample: int = 0, ax: Axes | None = None) -> Axes:
    """Histogram of firing rates of a node: spikes per recorded time step, over the whole recording.

    Raises UsageError where the spikes of the node were not recorded, or are graded and have no rate.
    """
    spikes = values_of(recording, node, "s", sample)
    if not is_counts(spikes):
        raise UsageError.of(f"population {quoted(node)}", "graded values", "rates are of spikes", "draw a raster")
    per_neuron = spikes.sum(axis=0, dtype=np.int64) / max(1, len(spikes))
    mean = float(per_neuron.mean()) if per_neuron.size else 0.0
    axes = axes_for(ax, 1.9)
    bins = list(rate_bins(per_neuron, len(spikes)))
    axes.hist(per_neuron, bins=bins, color=LINE, edgecolor=INK, linewidth=0.4)
    line = axes.axvline(mean, color=RED, linestyle="--", linewidth=1)
    style_axes(axes, "spikes per time step", "neurons", drawn_name(printable_name(node), _TITLE))
    put_legend(axes, [line], [f"mean {mean:.4g}"], columns=1)
    return axes


def rate_bins(per_neuron: Array, steps: int) -> Array:
    """Edges: a bin for each number of spikes, or ``BINS_MAX`` of them where there are more."""
    spikes_max = round(float(per_neuron.max()) * steps) if per_neuron.size else 0
    return (np.linspace(0, spikes_max + 1, min(spikes_max + 1, BINS_MAX) + 1) - 0.5) / max(1, steps)


def plot_difference(
    a: Recording,
    b: Recording,
    node: str,
    *,
    latency: int = 0,
    sample: int = 0,
    names: tuple[str, str] = ("A", "B"),
    ax: Axes | None = None,
) -> Axes:
    """Events of two recordings in one raster: of both, of A alone, of B alone; steps are numbered as in A.

    ``latency``: time steps by which B lags A. Where both have events at a place but not as many, the one with more has
    the mark; where graded values differ, the place has both marks. Many events of both are shaded cells.
    Raises UsageError where the spikes were not recorded in both, or their shapes cannot be laid over each other.
    """
    x, y = values_of(a, node, "s", sample), values_of(b, node, "s", sample)
    clock, other = recorded_steps(a, (node, "s")), recorded_steps(b, (node, "s"))
    pairing = align_steps(len(x), len(y), latency, clock, other) if x.shape[1] == y.shape[1] else None
    if pairing is None:
        found = f"{x.shape} steps and neurons in one, {y.shape} in the other, latency {latency}"
        raise UsageError.of(f"population {quoted(node)}", found, "no steps in common", "compare without a picture")
    x, y = x[pairing.in_a], y[pairing.in_b]
    said = ("both", f"only {names[0]}, or more", f"only {names[1]}, or more")
    kinds = zip(said, differing_events(x, y), strict=True)
    first = clock.first + pairing.in_a.start * clock.every
    both, *others = (NodeEvents(text, events, first, clock.every) for text, events in kinds)
    bands = (*raster_picture([both]).bands, *raster_picture(others, rows_max=10**9).bands)
    axes = axes_for(ax, 2.2)
    handles = [_band(axes, bands[0], (0, max(1, bands[0].neurons)), GREY)]
    for band, (colour, sign) in zip(bands[1:], ((FIRST, "x"), (SECOND, "+")), strict=True):
        steps = band.steps + (band.joined - 1) * band.every / 2  # in the middle of a cell
        handles.append(_marks(axes, steps, band.neuron + (band.stride - 1) / 2, colour, sign, 4.5))
    title = f", sample {sample}" if has_batch(a) else ""
    style_axes(axes, time_label(a), "neuron")
    name = drawn_name(printable_name(node), _TITLE - text_width(title)) + title
    put_title(axes, "\n".join(filter(None, (name, bands[0].remark))), SMALL if bands[0].remark else TEXT)
    begin = clock.first - clock.every + 1
    axes.set_xlim(begin - 0.5, begin + max(1, pairing.in_a.stop * clock.every) - 0.5)
    axes.set_ylim(-0.5, max(1, x.shape[1]) - 0.5)
    axes.locator_params(axis="y", integer=True)
    put_legend(axes, handles, [f"{band.node}: {band.events:,}" for band in bands], columns=2)
    return axes


def _marks(axes: Axes, steps: Array, rows: Array, color: str, marker: str, size: float) -> object:
    (line,) = axes.plot(steps, rows, marker, color=color, markersize=size, markeredgewidth=1.0)
    return line


def plot_comparison(
    comparison: Comparison, node: str | None = None, *, sample: int | None = None, ax: Axes | None = None
) -> Axes:
    """The difference of two rasters of a comparison: of ``node``, or of the first node that differs, or of the first.

    ``sample`` None: the first that differs. Raises UsageError: the comparison has no recordings, or no spikes of such
    a node.
    """
    if comparison.recordings is None:
        raise UsageError.of(
            "comparison", "has no recordings", "a picture is of both", "compare with nirbridge.compare()"
        )
    return plot_rows(comparison, comparison.recordings, node, sample=sample, ax=ax)


def plot_rows(
    comparison: Comparison,
    recordings: tuple[Recording, Recording],
    node: str | None,
    *,
    sample: int | None = 0,
    names: tuple[str, str] = ("A", "B"),
    ax: Axes | None = None,
) -> Axes:
    """As ``plot_comparison``, of the two recordings that were compared.

    ``sample`` None: the first that differs. Raises UsageError: no spikes of such a node.
    """
    rows = {row.node: row for row in comparison.rows if row.spikes is not None}
    if node is None and not rows:
        raise UsageError.of(
            "comparison", "no node has spikes to compare", "a raster is of spikes", "record 's' in both"
        )
    if node is None:
        node = next((name for name, row in rows.items() if not row.equal), next(iter(rows)))
    row = rows.get(node)  # a node without spikes is refused by the picture itself, which names those that have some
    latency, first_sample = (0, 0) if row is None else (row.latency_steps, row.first_sample or 0)
    sample = first_sample if sample is None else sample
    return plot_difference(*recordings, node, latency=latency, sample=sample, names=names, ax=ax)


# -- values of one sample of one node ---------------------------------------------------------------------------------


def values_of(recording: Recording, node: str, variable: str, sample: int) -> Any:
    """``[steps, neurons]`` of one sample. Raises UsageError: not recorded, or no such sample."""
    array = recording.arrays.get((node, variable))
    if array is None or array.ndim < 1:
        nodes = sorted({n for n, v in recording.arrays if v == variable}, key=natural_key)
        recorded = f"recorded for {', '.join(map(quoted, nodes[:8]))}" if nodes else "record it"
        step = recorded if node in nodes else did_you_mean(node, nodes) or recorded
        raise UsageError.of(f"population {quoted(node)}", f"'{variable}' was not recorded", "", step)
    samples = array.shape[1] if has_batch(recording) and array.ndim > 1 else 1
    if not 0 <= sample < samples:
        limit = f"the recording has {samples:,}, numbered from 0"
        raise UsageError.of(f"population {quoted(node)}", f"sample {sample}", limit, "choose one of them")
    values = array[:, sample] if has_batch(recording) and array.ndim > 1 else array
    return values.reshape(len(values), int(np.prod(values.shape[1:], dtype=np.int64)))


def events_of(recording: Recording, node: str, sample: int) -> NodeEvents:
    """The spikes of a node with their time steps. Raises UsageError: not recorded."""
    values, clock = values_of(recording, node, "s", sample), recorded_steps(recording, (node, "s"))
    return NodeEvents(node, values, clock.first, clock.every)


def potential_of(recording: Recording, node: str, sample: int) -> tuple[Array, Array, str]:
    """Values, their time steps, and which potential they are; integers are put in real units.

    The latency that the recording states is taken off. Raises UsageError: not recorded.
    """
    fixed = _stated(recording, "scale", node, None) is not None
    variable = "u" if (node, "u") in recording.arrays and not fixed else "v"
    values, clock = values_of(recording, node, variable, sample), recorded_steps(recording, (node, variable))
    scale, offset = (_stated(recording, key, node, values.shape[1]) for key in ("scale", "v_offset"))
    if scale is not None:
        values = values / scale + (0.0 if offset is None else offset)
    steps = clock.first + np.arange(len(values)) * clock.every - (stored_latency(recording, node) or 0)
    return values, steps, {"u": "before the reset", "v": "after the reset"}[variable]


def _stated(recording: Recording, key: str, node: str, neurons: int | None) -> Array | None:
    """Numbers of a node in the meta of a recording: one, or one for each neuron. Raises UsageError for others."""
    stated = recording.meta.get(key)
    if not isinstance(stated, Mapping) or node not in stated:
        return None
    try:
        numbers = np.ravel(np.asarray(stated[node], np.float64))
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    wrong = len(numbers) not in (1, neurons) or not np.isfinite(numbers).all() or (key == "scale" and not numbers.all())
    if neurons is not None and wrong:
        subject = f"{key} of {quoted(node)} in the recording's meta"
        raise UsageError.of(subject, quoted(stated[node]), "a number, or one for each neuron", "simulate it again")
    return numbers


def time_label(recording: Recording) -> str:
    """``time step (1 ms each)``; without the duration where the recording does not say it."""
    dt = recording.meta.get("dt")
    if not isinstance(dt, int | float) or isinstance(dt, bool) or not dt > 0:
        return "time step"
    return f"time step ({figure_with_prefix(float(dt), 's')} each)"
