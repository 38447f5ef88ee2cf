"""One back end measured: its spikes compared first, then timed, stage by stage, so that nothing known is lost."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from nirbridge.arrays import Array
from nirbridge.benchmarking.agreement import agreement
from nirbridge.benchmarking.inputs import first_samples
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.files.regular import read_own
from nirbridge.simulators.types import Key, Probe, Recording

ENOUGH_S = 2.0
"""Seconds of repeated runs of one batch after which no further one starts."""
Save = Callable[[Mapping[str, Any]], None]


class Runnable(Protocol):
    """A model that is ready on a back end."""

    def __call__(
        self, inputs: Mapping[str, Array], /, *, steps: int, record: Sequence[Probe] | None = None
    ) -> Recording:
        """The recording of a run."""
        ...


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is measured of a back end: ``inputs`` of the largest batch, ``every``: probes of all that is compared.

    ``expected``: gives the arrays of the reference; None for the reference itself. ``is_program``: its runs may start
    a process.
    """

    name: str
    base: str
    inputs: Mapping[str, Array]
    steps: int
    batches: tuple[int, ...]
    repeats: int
    every: Sequence[Probe]
    outputs: tuple[str, ...]
    expected: Callable[[], Mapping[Key, Array]] | None
    is_program: bool


def measure(run: Runnable, plan: BenchPlan, save: Save) -> Recording:
    """The recording of every spike at the largest batch; every figure is given to ``save`` when it is known.

    Raises:
        Anything that ``run`` raises.
    """
    cold = 0.0 if plan.is_program else _seconds(run, first_samples(plan.inputs, plan.batches[0]), plan).seconds
    largest = max(plan.batches)
    recording = run(first_samples(plan.inputs, largest), steps=plan.steps, record=plan.every)
    save({"peak_memory_bytes": peak_memory(), "spikes": _spikes(recording, plan.outputs)})
    found = compared(plan, recording.arrays, range(largest))
    save(found)
    if found["status"] != "equal":
        return recording
    times: dict[int, float] = {}
    for batch in plan.batches:
        arrays = first_samples(plan.inputs, batch)
        fastest = _fastest(run, arrays, plan)
        found = compared(plan, fastest.outputs, range(batch))
        if found["status"] != "equal":
            save({**found, "us_per_step": {}, "measured": ""})
            return recording
        times[batch] = (fastest.seconds if fastest.own is None else fastest.own) / plan.steps * 1e6
        save({"us_per_step": {str(b): t for b, t in times.items()}, "measured": _measured(plan, fastest.own)})
        if batch == plan.batches[0]:
            save(_start(plan, cold, fastest))
    return recording


def compared(plan: BenchPlan, arrays: Mapping[Key, Array], samples: range) -> dict[str, Any]:
    """The verdict on recorded arrays of the first samples, as columns of a row."""
    if plan.expected is None:
        return {"status": "equal"}
    if plan.inputs:
        expected = {key: array[:, : len(samples)] for key, array in plan.expected().items()}
    else:  # without an input there is no axis of samples
        expected = {key: array[:, None] for key, array in plan.expected().items()}
        arrays = {key: array[:, None] for key, array in arrays.items()}
    told = agreement(expected, arrays, plan.outputs, name=plan.name, base=plan.base)
    return {"status": "differs" if told.difference else "equal", "reason": told.difference or told.remark}


def _spikes(recording: Recording, outputs: Sequence[str]) -> int:
    """Spikes of all populations that were recorded; outputs repeat those of their source."""
    arrays = [array for (node, _), array in recording.arrays.items() if node not in outputs]
    return sum(int(array.sum(dtype="int64")) for array in arrays if array.dtype.kind in "uib")


def _measured(plan: BenchPlan, own: float | None) -> str:
    if not plan.is_program:
        return "call"
    return "whole run" if own is None else "own time"


def _start(plan: BenchPlan, cold: float, fastest: _Run) -> dict[str, float]:
    """Seconds that are no time steps: of a first call; of compilation, and of each run beyond both."""
    if not plan.is_program:
        return {"build_s": max(0.0, cold - fastest.seconds)}
    compiling = {} if fastest.compilation is None else {"compile_s": fastest.compilation}
    if fastest.own is None:
        return compiling
    return {**compiling, "start_s": max(0.0, fastest.seconds - fastest.own - (fastest.compilation or 0.0))}


class _Run(NamedTuple):
    """One run, or the least of several: its seconds, those that a program states of itself, and its outputs."""

    seconds: float
    own: float | None
    compilation: float | None
    outputs: Mapping[Key, Array]


def _seconds(run: Runnable, inputs: Mapping[str, Array], plan: BenchPlan) -> _Run:
    with listen_to_times() as told:
        start = time.perf_counter()
        recording = run(inputs, steps=plan.steps, record=[Probe(name, ("s",)) for name in plan.outputs])
        seconds = time.perf_counter() - start
    own, compilation = (sum(times) if times else None for times in (told.own, told.compilation))
    return _Run(seconds, own, compilation, recording.arrays)


def _fastest(run: Runnable, inputs: Mapping[str, Array], plan: BenchPlan) -> _Run:
    """The least of several runs, each time by itself; the outputs of the last one."""
    runs = [_seconds(run, inputs, plan)]
    while len(runs) < plan.repeats and sum(each.seconds for each in runs) < ENOUGH_S:
        runs.append(_seconds(run, inputs, plan))
    own, compilation = (
        min((t for t in times if t is not None), default=None)
        for times in ([each.own for each in runs], [each.compilation for each in runs])
    )
    return _Run(min(each.seconds for each in runs), own, compilation, runs[-1].outputs)


def peak_memory() -> int:
    """Bytes of the largest process so far: this one, or one that it waited for."""
    own = _high_water() or _bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return max(own, _bytes(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))


def _bytes(maximum: int) -> int:
    return maximum if sys.platform == "darwin" else maximum * 1024


def _high_water() -> int:
    """Most bytes of this process alone: ``ru_maxrss`` would begin with those of its parent. 0 where Linux is not."""
    try:
        lines = read_own("/proc/self/status").decode("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
