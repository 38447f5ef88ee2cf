"""One back end measured: its spikes compared first, then timed, stage by stage, so that nothing known is lost."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.files.regular import read_own
from nirbridge.network.model import Network
from nirbridge.simulators.inputs import open_inputs
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
    beyond: dict[int, float] = {}
    for batch in plan.batches:
        arrays = first_samples(plan.inputs, batch)
        fastest = _fastest(run, arrays, plan)
        found = compared(plan, fastest.outputs, range(batch))
        if found["status"] != "equal":
            save({**found, "us_per_step": {}, "us_per_run": {}, "measured": ""})
            return recording
        times[batch] = (fastest.seconds if fastest.own is None else fastest.own) / plan.steps * 1e6
        beyond[batch] = 0.0 if fastest.own is None else max(0.0, fastest.seconds - fastest.own) * 1e6
        columns = {"us_per_step": times, "us_per_run": beyond}
        by_batch = {name: {str(b): t for b, t in column.items()} for name, column in columns.items()}
        save({**by_batch, "measured": _measured(plan, fastest.own)})
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
    outcome = agreement(expected, arrays, plan.outputs, name=plan.name, base=plan.base)
    return {"status": "differs" if outcome.difference else "equal", "reason": outcome.difference or outcome.remark}


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
    with listen_to_times() as reported:
        start = time.perf_counter()
        recording = run(inputs, steps=plan.steps, record=[Probe(name, ("s",)) for name in plan.outputs])
        seconds = time.perf_counter() - start
    own, compilation = (sum(times) if times else None for times in (reported.own, reported.compilation))
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


# -- agreement -----------------------------------------------------------------------------------------------------

READOUT_SHARE = 1e-4
"""Share of the largest value by which sums of reals, which depend on the order of their terms, may differ."""


class Agreement(NamedTuple):
    """``difference``: the first one, in words; empty where there is none. ``remark``: sums that differ a little."""

    difference: str = ""
    remark: str = ""


def agreement(
    expected: Mapping[Key, Array], found: Mapping[Key, Array], needed: Iterable[str], *, name: str, base: str
) -> Agreement:
    """Compare what both recordings hold: spikes in every value, sums of reals within ``READOUT_SHARE``.

    Args:
        expected: arrays of the reference, ``[steps, samples, *shape]``.
        found: arrays of the back end; of populations as far as it records them.
        needed: outputs that it has to record.
        name: of the back end, and
        base: of the reference, in the message.
    """
    recorded = {node for node, _ in found}
    missing = [quoted(node) for node in needed if node not in recorded]
    if missing:
        return Agreement(f"records nothing of {', '.join(missing)}")
    differences = [_difference(key, expected[key], found[key], name, base) for key in expected if key in found]
    first = min((each for each in differences if not each.is_small), key=lambda each: each.step, default=_NONE)
    remark = next((each.text for each in differences if each.is_small and each.text), "")
    return Agreement(first.text, remark)


class _Difference(NamedTuple):
    """``is_small``: none, or sums of reals in another order."""

    step: int
    text: str
    is_small: bool


_NONE = _Difference(0, "", is_small=True)


def _difference(key: Key, a: Array, b: Array, name: str, base: str) -> _Difference:
    label = quoted(key[0])
    if a.shape != b.shape:
        return _Difference(-1, f"{label}: {name} has shape {_shape(b)}, {base} {_shape(a)}", is_small=False)
    if np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f"):
        return _NONE
    if a.dtype.kind == "f":
        size = float(np.abs(a).max(initial=0.0))
        largest = float(np.abs(a.astype(float) - b.astype(float)).max(initial=0.0))
        if size > 0 and largest <= READOUT_SHARE * size:
            text = f"values of {label} within {largest / size:.1g} of the largest"
            return _Difference(0, text, is_small=True)
    place = tuple(int(i) for i in next(_places(a, b)))
    step, sample, *neuron = place
    counts = "" if a.dtype.kind == "f" else f" ({_total(a)} against {_total(b)} spikes)"
    where = f"time step {step:,}, sample {sample:,}, neuron ({', '.join(map(str, neuron))})"
    text = f"{label}: spikes first differ at {where}: {base} {a[place]:.9g}, {name} {b[place]:.9g}{counts}"
    return _Difference(step, text.replace("spikes first", "values first") if not counts else text, is_small=False)


def _places(a: Array, b: Array) -> Iterator[Array]:
    """Indices of elements that differ, in the order of time."""
    for step in range(len(a)):
        places = np.argwhere(a[step] != b[step])
        if len(places):
            yield np.concatenate([[step], places[0]])


def _shape(array: Array) -> str:
    return " x ".join(f"{n:,}" for n in array.shape)


def _total(array: Array) -> str:
    return f"{int(np.sum(array, dtype=np.int64)):,}"


# -- inputs --------------------------------------------------------------------------------------------------------
# Inputs of a benchmark: one array for each input, with as many samples as the largest batch.


def random_inputs(network: Network, steps: int, samples: int, rate: float, seed: int) -> tuple[dict[str, Array], str]:
    """Random spikes ``[steps, samples, *shape]`` by input, the same for the same seed, and their description.

    Raises:
        UsageError: a rate outside 0 to 1.
    """
    if not 0.0 <= rate <= 1.0:
        raise UsageError.of("rate", f"{rate:g}", "spikes per time step and element, from 0 to 1", "0.1 is a usual one")
    if not network.inputs:
        return {}, "the network has no input"
    rng = np.random.default_rng(seed)
    arrays = {p.name: (rng.random((steps, samples, *p.shape)) < rate).astype(np.uint8) for p in network.inputs}
    return arrays, f"random spikes, {rate:g} per time step and element, seed {seed}"


def given_inputs(network: Network, inputs: Any, steps: int | None, samples: int) -> tuple[dict[str, Array], int, str]:
    """Arrays ``[steps, samples, *shape]`` of the data, their time steps, and their description.

    Samples are repeated in turn where there are fewer than requested; time steps beyond the data are zero.

    Raises:
        UsageError: data that the network does not take; a function.
    """
    opened = open_inputs(network, inputs, steps, 0, "float32")
    streams = [name for name, value in opened.values.items() if callable(value)]
    if streams:
        found = "is a function, and every back end needs the same input"
        raise UsageError.of(f"input {quoted(streams[0])}", found, "", "give an array")
    given = 1 if opened.batch is None else opened.batch
    taken = np.arange(samples) % given
    arrays = {}
    for name, value in opened.values.items():
        array = np.asarray(value)[: opened.steps]
        array = array[:, None] if opened.batch is None else array
        arrays[name] = padded(np.ascontiguousarray(array[:, taken]), opened.steps)
    used = min(given, samples)
    repeated = ", repeated in turn" if given < samples else ""
    return arrays, opened.steps, f"data as given, {counted(used, 'sample')}{repeated}"


def padded(array: Array, steps: int) -> Array:
    """The array with zeros after its end, ``steps`` long."""
    missing = steps - len(array)
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)]) if missing > 0 else array


def first_samples(arrays: Mapping[str, Array], batch: int) -> dict[str, Array]:
    """The first samples of a batch, in arrays of their own."""
    return {name: np.ascontiguousarray(array[:, :batch]) for name, array in arrays.items()}
