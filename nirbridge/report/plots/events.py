"""Values of recordings as figures take them: ``[time steps, neurons]`` of one sample of one node."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.comparison.alignment import has_batch, recorded_steps
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


def time_label(recording: Recording) -> str:
    """``time step (1 ms each)``; without the duration where the recording does not say it."""
    dt = recording.meta.get("dt")
    if not isinstance(dt, int | float) or isinstance(dt, bool) or not dt > 0:
        return "time step"
    return f"time step ({figure_with_prefix(float(dt), 's')} each)"
