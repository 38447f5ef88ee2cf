"""Pictures of recordings: raster, trace, rates, and the difference of two rasters (matplotlib, the extra ``plot``).

Every function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state; ``save_picture``
writes it. Steps are numbered as the simulation numbers them, neurons along the flattened shape of their population.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.alignment import RecordedSteps, align_steps, has_batch, recorded_steps
from nirbridge.comparison.distances import is_counts
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.network.naming import natural_key
from nirbridge.simulators.types import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    from nirbridge.comparison.types import Comparison

BOTH, ONLY_A, ONLY_B = "#7f7f7f", "#d62728", "#1f77b4"
SIZE_INCHES = (9.0, 4.5)
BINS_MAX = 50
_LAST_CHARACTER = 0x24F
"""Up to here (Latin) the font has every letter; others are escaped, since a missing letter is drawn as a box."""


def plot_raster(recording: Recording, node: str, *, sample: int = 0) -> Figure:
    """Events of a node: a mark per step and neuron that sent one; a graded value is an event where it is not 0.

    ``sample``: which one of a batch. Raises UsageError where the spikes of the node were not recorded.
    """
    spikes, clock = _spikes(recording, node, sample), recorded_steps(recording, (node, "s"))
    figure, axes = _figure(f"{_label(node)}: {np.count_nonzero(spikes):,} events")
    step, neuron = np.nonzero(spikes)
    _marks(axes, step, neuron, clock, "black", None)
    _extent(axes, spikes.shape, clock)
    return figure


def plot_trace(
    recording: Recording, node: str, neuron: int = 0, threshold: float | None = None, *, sample: int = 0
) -> Figure:
    """The potential of one neuron over time, its threshold as a line, its spikes (where recorded) as marks above.

    ``neuron`` is an index along the flattened shape. The potential before the reset (``u``) is drawn where it was
    recorded, else ``v``, which is the one after. Raises UsageError where neither was, or there is no such neuron.
    """
    variable = "u" if (node, "u") in recording.arrays else "v"
    values, clock = _array(recording, node, variable, sample), recorded_steps(recording, (node, variable))
    if not 0 <= neuron < values.shape[1]:
        limit = f"it has {values.shape[1]:,}, numbered from 0"
        raise UsageError.of(f"population {quoted(node)}", f"neuron {neuron}", limit, "choose one of them")
    kind = {"u": "before the reset", "v": "after the reset"}[variable]
    figure, axes = _figure(f"{_label(node)}, neuron {neuron}")
    axes.plot(_steps(np.arange(len(values)), clock), values[:, neuron], color="black", linewidth=0.9, label=kind)
    if threshold is not None:
        axes.axhline(threshold, color=ONLY_A, linestyle="--", linewidth=1, label=f"threshold {threshold:g}")
    spikes = _array(recording, node, "s", sample) if (node, "s") in recording.arrays else values[:0]
    if len(spikes) and spikes.shape[1] == values.shape[1]:
        spike_steps = np.flatnonzero(spikes[:, neuron])
        high = axes.get_ylim()[1]
        axes.plot(
            _steps(spike_steps, recorded_steps(recording, (node, "s"))),
            np.full(len(spike_steps), high),
            "|",
            color=ONLY_B,
            markersize=10,
            label="spike",
        )
    axes.set_ylabel("potential")
    _legend(axes)
    return figure


def plot_rates(recording: Recording, node: str, *, sample: int = 0) -> Figure:
    """Histogram of firing rates of a node: spikes per recorded time step, over the whole recording.

    Raises UsageError where the spikes of the node were not recorded, or are graded and have no rate.
    """
    spikes = _spikes(recording, node, sample)
    if not is_counts(spikes):
        raise UsageError.of(f"population {quoted(node)}", "graded values", "rates are of spikes", "draw a raster")
    per_neuron = spikes.sum(axis=0, dtype=np.int64) / max(1, len(spikes))
    mean = float(per_neuron.mean()) if per_neuron.size else 0.0
    figure, axes = _figure(f"{_label(node)}: {mean:.4g} spikes per neuron and step")
    axes.hist(per_neuron, bins=list(_bins(per_neuron, len(spikes))), color=BOTH)
    axes.axvline(mean, color=ONLY_A, linestyle="--", linewidth=1, label="mean")
    axes.set_xlabel("spikes per time step")
    axes.set_ylabel("neurons")
    _legend(axes)
    return figure


def plot_difference(
    a: Recording,
    b: Recording,
    node: str,
    *,
    latency: int = 0,
    sample: int = 0,
    names: tuple[str, str] = ("A", "B"),
) -> Figure:
    """Events of two recordings in one raster: of both, of A alone, of B alone; steps are numbered as in A.

    ``latency``: time steps by which B lags A. Where both have events at a place but not as many, the one with more has
    the mark; where graded values differ, the place has both marks.
    Raises UsageError where the spikes were not recorded in both, or their shapes cannot be laid over each other.
    """
    x, y = _spikes(a, node, sample), _spikes(b, node, sample)
    clock, other = recorded_steps(a, (node, "s")), recorded_steps(b, (node, "s"))
    pairing = align_steps(len(x), len(y), latency, clock, other) if x.shape[1] == y.shape[1] else None
    if pairing is None:
        found = f"{x.shape} steps and neurons in one, {y.shape} in the other, latency {latency}"
        raise UsageError.of(f"population {quoted(node)}", found, "no steps in common", "compare without a picture")
    x, y = x[pairing.in_a], y[pairing.in_b]
    kinds = (("both", (x != 0) & (x == y), BOTH), (f"only {names[0]}, or more", _more(x, y), ONLY_A))
    kinds = (*kinds, (f"only {names[1]}, or more", _more(y, x), ONLY_B))
    figure, axes = _figure(f"{_label(node)}, sample {sample}" if has_batch(a) else _label(node))
    for label, events, color in kinds:
        step, neuron = np.nonzero(events)
        _marks(axes, step + pairing.in_a.start, neuron, clock, color, f"{label}: {len(step):,}")
    _extent(axes, (pairing.in_a.stop, x.shape[1]), clock)
    _legend(axes)
    return figure


def plot_comparison(comparison: Comparison, node: str | None = None, *, sample: int = 0) -> Figure:
    """The difference of two rasters of a comparison: of ``node``, or of the first node that differs, or of the first.

    Raises UsageError: the comparison has no recordings, or no spikes of such a node.
    """
    if comparison.recordings is None:
        raise UsageError.of(
            "comparison", "has no recordings", "a picture is of both", "compare with nirbridge.compare()"
        )
    return plot_rows(comparison, comparison.recordings, node, sample=sample)


def plot_rows(
    comparison: Comparison,
    recordings: tuple[Recording, Recording],
    node: str | None,
    *,
    sample: int | None = 0,
    names: tuple[str, str] = ("A", "B"),
) -> Figure:
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
    return plot_difference(*recordings, node, latency=latency, sample=sample, names=names)


def save_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a PNG, whole or not at all.

    Raises UsageError where the name does not end in ``.png``, FileError where the place cannot be written.
    """
    check_picture(path)
    subject = f"picture {quoted(Path(path).name)}"
    atomic_write(path, lambda file: figure.savefig(file, format="png", dpi=150), subject=subject)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raises UsageError, before any work is done, where the name is not that of a PNG or matplotlib is missing."""
    if Path(path).suffix.lower() != ".png":
        subject = f"picture {quoted(Path(path).name)}"
        raise UsageError.of(subject, "not a name of a PNG", "pictures are PNG", "let the name end in .png")
    _require_matplotlib()


def _require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise UsageError.of("pictures", "matplotlib is not installed", "", "pip install 'nirbridge[plot]'")


def _figure(title: str) -> tuple[Figure, Axes]:
    _require_matplotlib()
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_xlabel("step")
    return figure, axes


def _label(name: str) -> str:
    """A name that the font can draw: quoted, letters beyond Latin escaped."""
    escaped = (c if ord(c) <= _LAST_CHARACTER else c.encode("unicode_escape").decode() for c in quoted(name, 60))
    return "".join(escaped)


def _marks(axes: Axes, steps: Array, neuron: Array, clock: RecordedSteps, color: str, label: str | None) -> None:
    axes.plot(_steps(steps, clock), neuron, "|", color=color, markersize=5, markeredgewidth=1.2, label=label)


def _extent(axes: Axes, shape: tuple[int, ...], clock: RecordedSteps) -> None:
    left = clock.first - clock.every + 1
    axes.set_xlim(left - 0.5, left + max(1, shape[0] * clock.every) - 0.5)
    axes.set_ylim(-0.5, max(1, shape[1]) - 0.5)
    axes.set_ylabel("neuron")


def _bins(per_neuron: Array, steps: int) -> Array:
    """Edges: a bin for each number of spikes, or ``BINS_MAX`` of them where there are more."""
    spikes_max = round(float(per_neuron.max()) * steps) if per_neuron.size else 0
    return (np.linspace(0, spikes_max + 1, min(spikes_max + 1, BINS_MAX) + 1) - 0.5) / max(1, steps)


def _legend(axes: Axes) -> None:
    axes.figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)


def _steps(steps: Array, clock: RecordedSteps) -> Array:
    return clock.first + steps * clock.every


def _more(x: Array, y: Array) -> Array:
    """Where ``x`` has more of an event than ``y``; a graded value that differs counts where it is not 0."""
    return x > y if is_counts(x) and is_counts(y) else (x != 0) & (x != y)


def _spikes(recording: Recording, node: str, sample: int) -> Array:
    return _array(recording, node, "s", sample)


def _array(recording: Recording, node: str, variable: str, sample: int) -> Any:
    """``[steps, neurons]`` of one sample."""
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
