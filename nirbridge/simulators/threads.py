"""A batch split over threads: each takes some of the samples through the same time steps.

Samples do not influence one another, so the result has the same bits for any number of threads. Compiled kernels and
most of NumPy let other threads run meanwhile; what is left of Python runs in one thread at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array, same_array, stored_part
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.simulators.checks import check_state
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.types import SimulationState

if TYPE_CHECKING:
    from nirbridge.simulators.inputs import Inputs

Run = TypeVar("Run")
Item = TypeVar("Item")
Found = TypeVar("Found")
Advance = Callable[[int, Mapping[str, Array], int, int], None]
"""``(part, inputs, start, stop)``: takes a part of the batch through the time steps from start to stop."""

_this_thread = threading.local()


def split_samples(batch: int | None, threads: int, subject: str = "threads") -> tuple[slice, ...]:
    """The samples of each thread, or of each of ``subject``, in order; their numbers differ by one at most.

    Raises:
        UsageError: fewer threads than one, or more than there are samples.
    """
    samples = 1 if batch is None else batch
    if threads < 1:
        raise UsageError.of(subject, f"{threads:,}", "a run takes at least 1", "give 1 or more, or leave it out")
    if threads > samples:
        found = f"{threads:,} for {counted(samples, 'sample')}"
        limit = f"a {'thread' if subject == 'threads' else 'process'} takes at least one sample"
        raise UsageError.of(subject, found, limit, f"give {samples:,}" if samples > 1 else "leave it out")
    bounds = [samples * part // threads for part in range(threads + 1)]
    return tuple(slice(start, stop) for start, stop in pairwise(bounds))


def refuse_threads(backend: str, threads: int) -> None:
    """Raise UsageError where a simulator that runs in one thread is given several."""
    if threads != 1:
        found = f"runs in one thread, {threads:,} were requested"
        raise UsageError.of(f"backend {quoted(backend)}", found, "", "leave threads out, or give jobs")


def first_found(function: Callable[[Item], Found], items: Sequence[Item], crew: Crew) -> Found | None:
    """The first result that is true, in the order of the items, or None; the crew shares the items."""
    threads = min(crew.count, os.cpu_count() or 1, len(items))
    if threads <= 1:
        return next(filter(None, map(function, items)), None)
    rest, lock = iter(enumerate(items)), threading.Lock()
    found: dict[int, Found] = {}
    errors: dict[int, BaseException] = {}

    def work(part: int) -> None:
        try:
            while not found and not errors:  # an item that was taken is finished: none before it is missed
                with lock:
                    taken = next(rest, None)
                if taken is None:
                    return
                result = function(taken[1])
                if result:
                    found[taken[0]] = result
        except BaseException as error:
            errors[part] = error

    crew.run(work, threads, errors)
    if errors:
        raise errors[min(errors)]
    return found[min(found)] if found else None


def run_parts(
    crew: Crew,
    opened: Inputs,
    parts: Sequence[slice],
    stretch: int,
    read: Callable[[Inputs, int, int], Mapping[str, Array]],
    advance: Advance,
    progress: Progress | None,
) -> None:
    """Take every part through all time steps, ``stretch`` at a time, each in its own thread.

    A last stretch of less than half belongs to the one before. The caller's thread has the first part. Parts do not
    wait for one another, except for inputs that are functions: these are called by the caller's thread.
    """
    starts = range(0, max(1, opened.steps - (stretch - 1) // 2), stretch)
    ranges = list(pairwise([*starts, opened.steps]))
    own = [opened.part(samples) for samples in parts]
    errors: dict[int, BaseException] = {}

    def work(part: int, group: Sequence[tuple[int, int]], whole: Mapping[str, Array] | None) -> None:
        _this_thread.part = part
        try:
            for start, stop in group:
                if errors:
                    return
                ready = read(own[part], start, stop) if whole is None else part_of(whole, parts[part])
                advance(part, ready, start, stop)
                if progress is not None and part == 0:
                    progress("simulate", stop / opened.steps)
        except BaseException as error:
            errors[part] = error

    for group in [[each] for each in ranges] if opened.has_streams else [ranges]:
        whole = read(opened, *group[0]) if opened.has_streams else None
        crew.run(partial(work, group=group, whole=whole), len(parts), errors)
        if errors:
            raise errors[min(errors)]


def is_first_part() -> bool:
    """True in the thread of the first samples, which writes the log of the chosen kernels."""
    return getattr(_this_thread, "part", 0) == 0


def part_of(arrays: Mapping[str, Array], samples: slice) -> Mapping[str, Array]:
    """Some samples of arrays ``[steps, batch, ...]``."""
    return {name: array[:, samples] for name, array in arrays.items()}


def start_parts(
    parts: Sequence[slice],
    state: SimulationState | None,
    blank: Callable[[int], SimulationState],
    start: Callable[[int, SimulationState | None], Run],
) -> list[Run]:
    """The run of each part, from the initial state or a given one.

    ``blank`` and ``start`` take a number of samples. Raises UsageError for a state of another network or batch.
    """
    if state is None:
        return [start(samples.stop - samples.start, None) for samples in parts]
    check_state(state, blank(parts[-1].stop))
    return [start(samples.stop - samples.start, part_of_state(state, samples)) for samples in parts]


def part_of_state(state: SimulationState, samples: slice) -> SimulationState:
    """The state of some samples."""
    arrays = {key: array[:, samples] if _is_past(key) else array[samples] for key, array in state.arrays.items()}
    return SimulationState(state.step, arrays)


def joined_state(states: Sequence[SimulationState]) -> SimulationState:
    """The state of all samples, of those of the parts; an array is joined when it is first read."""
    return states[0] if len(states) == 1 else SimulationState(states[0].step, _JoinedArrays(states))


class _JoinedArrays(Mapping[tuple[str, str], Array]):
    """The arrays of a state by name and part."""

    def __init__(self, states: Sequence[SimulationState]) -> None:
        self._states, self._joined = states, dict[tuple[str, str], Array]()

    def __getitem__(self, key: tuple[str, str]) -> Array:
        if key not in self._joined:
            arrays = [state.arrays[key] for state in self._states]
            self._joined[key] = _joined(arrays, int(_is_past(key)))
        return self._joined[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._states[0].arrays)

    def __len__(self) -> int:
        return len(self._states[0].arrays)


def _joined(arrays: Sequence[Array], axis: int) -> Array:
    """The read-only array of all samples; values that repeat for every sample stay stored once."""
    first, shape = arrays[0], list(arrays[0].shape)
    if all(array.strides[axis] == 0 and same_array(stored_part(array), stored_part(first)) for array in arrays):
        shape[axis] = sum(array.shape[axis] for array in arrays)
        return np.broadcast_to(stored_part(first), shape)
    joined = np.concatenate(arrays, axis)
    joined.flags.writeable = False
    return joined


def _is_past(key: tuple[str, str]) -> bool:
    """True for past time steps, ``[steps, batch, ...]``; other parts of a state are ``[batch, ...]``."""
    return key[1].startswith("past")
