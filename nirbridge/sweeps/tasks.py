"""Tasks on processes of this machine (joblib) or of a cluster (Dask): each item once, whatever happens to a worker.

A task is a function at the top of a module, and its items and results are plain values, so that both can be sent.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.host_io import signature_network
from nirbridge.simulators.inputs import open_inputs
from nirbridge.simulators.threads import split_samples
from nirbridge.simulators.types import Key, Recording

if TYPE_CHECKING:
    from distributed import Client


Item = TypeVar("Item")
Result = TypeVar("Result")
Task = Callable[[Item], Result]
RETRIES = 3
"""How often a cluster may lose the worker of a task."""
CONNECT_SECONDS = 10


def check_jobs(jobs: int, scheduler: str | None) -> None:
    """Raise UsageError for numbers and combinations that make no sense, or a package that is missing."""
    if jobs < 1:
        raise UsageError.of("jobs", f"{jobs:,}", "at least 1 process", "give 1 or more")
    if scheduler is not None and jobs != 1:
        found = f"{jobs:,} and a scheduler"
        raise UsageError.of("jobs", found, "the workers of a cluster are its own", "give one of the two")
    if scheduler is None and jobs > 1 and find_spec("joblib") is None:
        raise UsageError.of("jobs", "joblib is not installed", "in the extra sweep", "pip install 'nirbridge[sweep]'")
    if scheduler is not None and find_spec("distributed") is None:
        hint = "pip install 'nirbridge[dask]'"
        raise UsageError.of("scheduler", "distributed is not installed", "in the extra dask", hint)


def run_tasks(
    task: Task[Item, Result],
    items: Sequence[Item],
    *,
    keys: Sequence[str],
    jobs: int = 1,
    scheduler: str | None = None,
) -> Iterator[tuple[int, Result]]:
    """The place of each item and its result, in the order in which they are done; each once.

    Raises:
        UsageError: the scheduler cannot be reached, or workers end again and again.
        Anything that ``task`` raises.
    """
    check_jobs(jobs, scheduler)
    if scheduler is not None:
        yield from _on_cluster(task, items, keys, scheduler)
    elif jobs > 1 and len(items) > 1:
        yield from _in_processes(task, items, min(jobs, len(items)))
    else:
        yield from enumerate(map(task, items))


# -- processes ---------------------------------------------------------------------------------------------------------


def _in_processes(task: Task[Item, Result], items: Sequence[Item], jobs: int) -> Iterator[tuple[int, Result]]:
    """One worker that is killed ends all of joblib's: what is missing then runs once more."""
    missing = dict(enumerate(items))
    for last in (False, True):
        try:
            for place, result in _one_pool(task, missing, jobs):
                del missing[place]
                yield place, result
        except _lost_workers() as error:
            if last:
                done = len(items) - len(missing)
                found = f"worker processes ended twice (killed, or out of memory), {done:,} of {len(items):,} done"
                raise UsageError.of("jobs", found, "", "run it again with fewer jobs") from error


def _one_pool(task: Task[Item, Result], items: dict[int, Item], jobs: int) -> Iterator[tuple[int, Result]]:
    import joblib

    calls = [joblib.delayed(_placed)(task, place, item) for place, item in items.items()]
    options: dict[str, Any] = {"backend": "loky", "batch_size": 1, "return_as": "generator_unordered"}
    parallel = joblib.Parallel(n_jobs=jobs, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of workers that ended: what they did not do is done again
        results: Any = parallel(calls)
        try:
            yield from results
        finally:
            with suppress(Exception):
                results.close()


def _placed(task: Task[Item, Result], place: int, item: Item) -> tuple[int, Result]:
    return place, task(item)


def _lost_workers() -> tuple[type[BaseException], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    return TerminatedWorkerError, BrokenProcessPool


# -- a cluster ---------------------------------------------------------------------------------------------------------


def _on_cluster(
    task: Task[Item, Result], items: Sequence[Item], keys: Sequence[str], scheduler: str
) -> Iterator[tuple[int, Result]]:
    from distributed import KilledWorker, as_completed

    with cluster_client(scheduler) as client:
        names = [f"nirbridge-{key}" for key in keys]
        futures = client.map(task, items, key=names, retries=RETRIES, pure=True)
        places = {future.key: place for place, future in enumerate(futures)}
        done: set[int] = set()
        try:
            for future in as_completed(futures, loop=client.loop):
                place, result = places[future.key], future.result()
                if place not in done:  # a result that was lost with its worker is computed again
                    done.add(place)
                    yield place, result
        except KilledWorker as error:
            found = f"a task lost its worker {RETRIES + 1} times, {counted(len(done), 'task')} of {len(items):,} done"
            raise UsageError.of(_subject(scheduler), found, "", "give workers more memory, and run it again") from error
        finally:
            with suppress(Exception):
                client.cancel(futures)


@contextmanager
def cluster_client(scheduler: str) -> Iterator[Client]:
    """A connection to a scheduler of Dask. Raises UsageError: it cannot be reached."""
    from distributed import Client

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = quoted(str(error).splitlines()[0] if str(error) else type(error).__name__)
        hint = "start one with 'dask scheduler', and give its address, as in tcp://127.0.0.1:8786"
        raise UsageError.of(_subject(scheduler), f"cannot be reached ({reason})", "", hint) from error
    try:
        yield client
    finally:
        client.close()


def _subject(scheduler: str) -> str:
    return f"scheduler {quoted(scheduler)}"


def worker_threads(scheduler: str) -> int:
    """How many tasks a cluster runs at once, at least 1. Raises UsageError."""
    check_jobs(1, scheduler)
    with cluster_client(scheduler) as client:
        threads: Any = client.nthreads()
    return max(1, sum(threads.values()))


# -- samples -------------------------------------------------------------------------------------------------------
# A simulation of many samples split over processes or the workers of a cluster, as the points of a sweep are.
#
# Samples do not influence one another, so the recording has the same bits as that of one process.


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
