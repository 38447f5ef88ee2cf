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
from nirbridge.report.pictures.labels import printable_name
from nirbridge.report.pictures.raster_picture import NodeEvents, RasterBand, differing_events, raster_picture
from nirbridge.report.plots.style import (
    BLUE,
    INK,
    LINE,
    ORANGE,
    RED,
    SMALL,
    axes_for,
    drawn_name,
    plain,
    put_legend,
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
_NAME = 62.0


def plot_raster(
    recording: Recording, nodes: str | Sequence[str] | None = None, *, sample: int = 0, ax: Axes | None = None
) -> Axes:
    """Events as marks over time: of one node, or of several in bands on one time axis, the first one at the top.

    ``nodes`` None: all with recorded spikes, at most ``NODES_MAX``. A graded value is an event where it is not 0. Of
    many neurons every k-th is shown, and the label of the band says so. Raises UsageError: spikes not recorded.
    """
    names = _spiking(recording) if nodes is None else [nodes] if isinstance(nodes, str) else list(nodes)
    picture = raster_picture([events_of(recording, name, sample) for name in names])
    single = len(picture.bands) == 1
    axes = axes_for(ax, 1.9 if single else 0.6 + 0.55 * len(picture.bands))
    for number, band in enumerate(picture.bands):
        rows = band.neuron if single else number + _BAND * (band.neuron + 0.5) / max(1, band.neurons)
        _marks(axes, band.steps, rows, INK, "|")
    style_axes(axes, time_label(recording), "neuron" if single else "")
    axes.set_xlim(picture.first - 0.5, picture.stop - 0.5)
    if single:
        axes.set_ylim(-0.5, max(1, picture.bands[0].neurons) - 0.5)
        remark = picture.bands[0].remark
        axes.set_title(drawn_name(_band_label(picture.bands[0], "; ") + (f"; {remark}" if remark else ""), 230, SMALL))
        axes.title.set(parse_math=False, usetex=False, fontsize=SMALL)
        return axes
    axes.set_ylim(len(picture.bands) - 1 + _BAND, -(1 - _BAND))
    axes.set_yticks([k + _BAND / 2 for k in range(len(names))], [_band_text(band) for band in picture.bands])
    plain(axes.get_yticklabels(), SMALL)
    for number in range(1, len(names)):
        axes.axhline(number - (1 - _BAND) / 2, color=LINE, linewidth=0.5)
    return axes


def _spiking(recording: Recording) -> list[str]:
    names = [node for node, variable in recording.arrays if variable == "s"]
    if not names:
        raise UsageError.of("recording", "no node has spikes", "a raster is of spikes", "add record='*:s'")
    return names[:NODES_MAX]


def _band_label(band: RasterBand, between: str) -> str:
    return f"{printable_name(band.node)}{between}{counted(band.events, 'event')} of {counted(band.neurons, 'neuron')}"


def _band_text(band: RasterBand) -> str:
    lines = [drawn_name(printable_name(band.node), _NAME, SMALL), counted(band.neurons, "neuron")]
    lines += [f"1 in {band.stride:,} shown"] if band.stride > 1 else []
    return "\n".join([*lines, *([f"{band.joined:,} steps a mark"] if band.joined > 1 else [])])


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
    handles, labels = [], []
    for way, (run, style) in enumerate(((recording, "-"), (other, "--"))):
        if run is None:
            continue
        values, steps, kind = potential_of(run, node, sample)
        for number, neuron in enumerate(chosen):
            _check_neuron(node, neuron, values.shape[1])
            colour = (INK, ORANGE, BLUE, RED)[number % 4] if other is None else (INK, ORANGE)[way]
            (line,) = axes.plot(steps, values[:, neuron], color=colour, linewidth=0.9, linestyle=style)
            which = f"neuron {neuron}, " if len(chosen) > 1 else ""
            handles.append(line)
            labels.append(f"{names[way]}: {which}{kind}" if other is not None else f"{which}{kind}")
    if threshold is not None:
        handles.append(axes.axhline(threshold, color=RED, linestyle=":", linewidth=1))
        labels.append(f"threshold {threshold:g}")
    spikes = _spike_marks(axes, recording, node, chosen, sample)
    style_axes(axes, time_label(recording), "potential")
    put_legend(axes, [*handles, *spikes], [*labels, *["spike"] * len(spikes)], columns=2)
    name = drawn_name(printable_name(node), 160)
    axes.set_title(name + (f", neuron {chosen[0]}" if len(chosen) == 1 else ""), fontsize=SMALL, parse_math=False)
    return axes


def _check_neuron(node: str, neuron: int, count: int) -> None:
    if not 0 <= neuron < count:
        limit = f"it has {count:,}, numbered from 0"
        raise UsageError.of(f"population {quoted(node)}", f"neuron {neuron}", limit, "choose one of them")


def _spike_marks(axes: Axes, recording: Recording, node: str, chosen: Sequence[int], sample: int) -> list[object]:
    """Marks at the top of the axes, where the spikes of these very neurons were recorded."""
    if (node, "s") not in recording.arrays:
        return []
    events = events_of(recording, node, sample)
    if not len(events.values) or max(chosen) >= events.values.shape[1]:
        return []
    if (node, "v") in recording.arrays and values_of(recording, node, "v", sample).shape[1] != events.values.shape[1]:
        return []
    steps = np.unique(np.nonzero(events.values[:, list(chosen)])[0])
    place = axes.get_xaxis_transform()
    marks = axes.plot(
        events.first + steps * events.every, np.full(len(steps), 0.97), "|", color=BLUE, markersize=6, transform=place
    )
    return list(marks)


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
    style_axes(axes, "spikes per time step", "neurons", drawn_name(printable_name(node), 220))
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
    the mark; where graded values differ, the place has both marks. Of many events every k-th neuron is shown.
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
    picture = raster_picture([NodeEvents(text, events, first, clock.every) for text, events in kinds], rows_max=10**9)
    axes = axes_for(ax, 2.2)
    looks = ((LINE, "|"), (RED, "x"), (BLUE, "+"))
    handles = [_marks(axes, e.steps, e.neuron, *look) for e, look in zip(picture.bands, looks, strict=True)]
    remark = f"; {picture.bands[0].remark}" if picture.bands[0].remark else ""
    title = f"{printable_name(node)}, sample {sample}" if has_batch(a) else printable_name(node)
    style_axes(axes, time_label(a), "neuron", drawn_name(title + remark, 220))
    begin = clock.first - clock.every + 1
    axes.set_xlim(begin - 0.5, begin + max(1, pairing.in_a.stop * clock.every) - 0.5)
    axes.set_ylim(-0.5, max(1, x.shape[1]) - 0.5)
    put_legend(axes, handles, [f"{band.node}: {band.events:,}" for band in picture.bands], columns=2)
    return axes


def _marks(axes: Axes, steps: Array, rows: Array, color: str, marker: str) -> object:
    size = 3.0 if marker == "|" else 3.4
    (line,) = axes.plot(steps, rows, marker, color=color, markersize=size, markeredgewidth=0.7)
    return line


def plot_comparison(
    comparison: Comparison, node: str | None = None, *, sample: int = 0, ax: Axes | None = None
) -> Axes:
    """The difference of two rasters of a comparison: of ``node``, or of the first node that differs, or of the first.

    Raises UsageError: the comparison has no recordings, or no spikes of such a node.
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
