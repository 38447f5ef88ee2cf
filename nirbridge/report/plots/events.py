"""Values of recordings as figures take them: ``[time steps, neurons]`` of one sample of one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.alignment import has_batch, recorded_steps, stored_latency
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.network.naming import natural_key
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.raster_picture import NodeEvents
from nirbridge.simulators.types import Recording


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
