"""A simulation of many samples split over processes or the workers of a cluster, as the points of a sweep are.

Samples do not influence one another, so the recording has the same bits as that of one process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, quoted
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.host_io import signature_network
from nirbridge.simulators.inputs import open_inputs
from nirbridge.simulators.threads import split_samples
from nirbridge.simulators.types import Key, Recording
from nirbridge.sweeps.tasks import check_jobs, run_tasks, worker_threads

Simulate = Callable[..., Recording]
"""Takes inputs by name, and ``steps``; it is sent to workers: a function of a module, or a partial of one."""


def simulate_samples(
    simulate: Simulate,
    model: Model,
    inputs: Any,
    *,
    steps: int | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Simulate a batch in parts, and join their recordings.

    Args:
        simulate: runs the model on the inputs of some samples.
        model: the model that it runs.
        inputs: as of ``simulate``: arrays with a batch axis.
        steps: as of ``simulate``.
        jobs: processes of this machine, at most one per sample.
        scheduler: the address of a Dask scheduler instead, which is trusted with code; its workers share the samples.
        progress: called with the completed fraction.

    Raises:
        UsageError: as of ``simulate``; more jobs than samples; no such scheduler; workers that end again and again.
    """
    check_jobs(jobs, scheduler)
    network = model.network if isinstance(model, MappedNetwork) else model
    outline = signature_network(network) if isinstance(network, QuantizedNetwork) else network
    opened = open_inputs(outline, inputs, steps, 0, "float64")
    streams = [name for name, value in opened.values.items() if callable(value)]
    if streams:
        found = "is a function, which is called in one process"
        raise UsageError.of(f"input {quoted(streams[0])}", found, "", "give an array, or leave jobs and scheduler out")
    count = jobs if scheduler is None else min(worker_threads(scheduler), opened.batch or 1)
    parts = split_samples(opened.batch, count, "jobs")
    items = [dict(opened.part(samples).values) for samples in parts]
    run = uuid.uuid4().hex
    keys = [f"{run}-{place}" for place in range(len(items))]
    found_by_place: dict[int, Recording] = {}
    task = partial(_simulate_part, simulate, opened.steps)
    for place, (arrays, meta) in run_tasks(task, items, keys=keys, jobs=jobs, scheduler=scheduler):
        found_by_place[place] = Recording(arrays, meta)
        progress("simulate", len(found_by_place) / len(items))
    return _joined([found_by_place[place] for place in range(len(items))], opened.batch)


def _simulate_part(simulate: Simulate, steps: int, inputs: dict[str, Array]) -> tuple[dict[Key, Array], dict[str, Any]]:
    recording = simulate(inputs, steps=steps)
    return dict(recording.arrays), dict(recording.meta)


def _joined(recordings: Sequence[Recording], batch: int | None) -> Recording:
    first = recordings[0]
    arrays = {}
    for key in first.arrays:
        pieces = [recording.arrays[key] for recording in recordings]
        joined = np.concatenate(pieces, axis=int(key[1] != "count")) if len(pieces) > 1 else pieces[0]
        joined.flags.writeable = False
        arrays[key] = joined
    meta = {**first.meta, "batch": batch}
    if "not_finite" in meta:
        meta["not_finite"] = sorted({name for recording in recordings for name in recording.meta["not_finite"]})
    return Recording(MappingProxyType(arrays), MappingProxyType(meta))
