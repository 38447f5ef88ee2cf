"""Sweeps run: the missing points of a plan, on this machine or a cluster, and the table of all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from nirbridge._types import Progress, no_progress
from nirbridge.errors import counted
from nirbridge.sweeps.model import Sweep
from nirbridge.sweeps.parts import Row, kept_rows, make_parts_folder, parts_folder, write_part
from nirbridge.sweeps.plan import SweepPlan, SweepPoint
from nirbridge.sweeps.point import check_data, compute_point
from nirbridge.sweeps.tasks import check_jobs, run_tasks


def run_sweep(
    plan: SweepPlan,
    output: str | os.PathLike[str] | None = None,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress = no_progress,
) -> Sweep:
    """All points of a plan; those that an earlier run has kept beside ``output`` are not computed again.

    Args:
        plan: the points.
        output: where the table will be; rows are kept in the folder of that name with ``.parts`` after it.
        jobs: processes of this machine.
        scheduler: the address of a Dask scheduler instead, which is trusted with code.
        progress: called with the count of points and the estimated rest, and the completed fraction.

    Raises:
        FileError: a file has changed since the plan was made, or a row cannot be kept.
        UsageError: data or labels that do not fit a model; no such scheduler; workers that end again and again; an
            extra that is missing.
    """
    check_jobs(jobs, scheduler)
    folder = None if output is None else parts_folder(output)
    rows = {} if folder is None else kept_rows(folder, plan.points)
    missing = [point for point in plan.points if point.key not in rows]
    check_data(missing)
    tell = _teller(len(plan.points), len(rows), progress)
    tell(len(rows))
    task = partial(compute_and_keep, folder)
    keys = [point.key for point in missing]
    for _, row in run_tasks(task, missing, keys=keys, jobs=jobs, scheduler=scheduler):
        rows[row["key"]] = row
        tell(len(rows))
    return Sweep(plan, tuple(rows[point.key] for point in plan.points))


def compute_and_keep(folder: str | None, point: SweepPoint) -> Row:
    """The row of a point, kept by the task itself, so that it is not lost with the worker's memory."""
    if folder is None:
        return compute_point(point)
    kept = kept_rows(folder, [point]).get(point.key) if os.path.isdir(folder) else None
    if kept is not None:
        return kept
    row = compute_point(point)
    make_parts_folder(folder)
    write_part(folder, row)
    return row


def _teller(total: int, before: int, progress: Progress) -> Callable[[int], None]:
    """Reports the count, and how long the rest takes at the mean pace so far."""
    start = time.monotonic()

    def tell(done: int) -> None:
        text = f"{done:,} of {counted(total, 'point')}"
        if before < done < total:
            text += f", about {_duration((time.monotonic() - start) / (done - before) * (total - done))} left"
        progress(text, done / total)

    return tell


def _duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
