"""Backend ``best``: the fastest bit-identical backend, chosen by a short trial on the head of the input.

Which one is the fastest depends on the machine and the moment; the result must not. Candidates are therefore the back
ends that add in the reference's order (``EXACT``) alone, and the trial holds each of them to the reference's bits, too.
``dense``, whose sums have no fixed order, could be equal in the trial and differ later: it is no candidate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, NirbridgeError, ToolMissing, UsageError, quoted
from nirbridge.network.model import Network
from nirbridge.simulators.backends import EXACT
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.simulate import Simulator, prepare_simulator
from nirbridge.simulators.types import Key, Probe, Recording

TRIAL_STEPS = 16
"""Time steps at the head of the input that the trial runs."""
_RUNS, ENOUGH_S = 3, 0.5
"""Runs of a candidate, of which the fastest counts, and seconds after which no further one starts."""


class _Trial(NamedTuple):
    """Trial of one backend: its simulator, the seconds of its fastest run, and the outcome as text.

    ``simulator`` is None, and ``reason`` says why, if the backend is no candidate.
    """

    simulator: Simulator | None
    seconds: float
    reason: str


def simulate_best(
    network: Network,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    dtype: str = "float32",
    library: str = "numpy",
    device: str = "cpu",
    threads: int = 1,
    progress: Any = None,
) -> Recording:
    """Simulate on the fastest back end that has the reference's bits; arguments as of ``simulate``.

    ``meta["backend"]`` of the recording is its name, ``meta["requested_backend"]`` is ``best``, and
    ``meta["candidates"]`` says of each back end whether it was equal, or why it was left out.

    Raises:
        UsageError: as of ``simulate``; an input that is a function, of which no head can be tried.
        ModelError: as of ``simulate``.
    """
    head, count = _head(network, inputs, steps, dtype)
    options: dict[str, Any] = {"dtype": dtype, "library": library, "device": device}
    run: dict[str, Any] = {"steps": count, "threads": threads}
    names = EXACT if library == "numpy" else EXACT[:1]
    expected: Mapping[Key, Array] | None = None
    trials: dict[str, _Trial] = {}
    for number, name in enumerate(names):
        if progress is not None:
            progress(f"try {name}", number / len(names))
        trial = partial(_tried, network, name, head, record, options, run, expected)
        trials[name] = trial() if expected is None else _guarded(trial)
        if expected is None:
            expected = _everything(trials[name], head, run)
    chosen = min((name for name in trials if trials[name].simulator is not None), key=lambda n: trials[n].seconds)
    simulator: Any = trials[chosen].simulator
    recording = simulator.run(inputs, steps=steps, record=record, threads=threads, progress=progress).recording
    choice = {"requested_backend": "best", "candidates": {name: trial.reason for name, trial in trials.items()}}
    return Recording(recording.arrays, MappingProxyType({**recording.meta, **choice}))


def _head(network: Network, inputs: Any, steps: int | None, dtype: str) -> tuple[dict[str, Array], int]:
    """The first time steps of every input, and how many. Raises UsageError."""
    opened = open_inputs(network, inputs, steps, 0, dtype)
    streams = [name for name, value in opened.values.items() if callable(value)]
    if streams:
        found = "is a function, which may give its time steps only once"
        raise UsageError.of(f"input {quoted(streams[0])}", found, "backend 'best' tries some first", "name a backend")
    count = min(TRIAL_STEPS, opened.steps)
    return {name: np.asarray(value)[:count] for name, value in opened.values.items()}, count


def _guarded(trial: Callable[[], _Trial]) -> _Trial:
    """Run the trial of a backend other than the reference; a failure only excludes the backend."""
    try:
        return trial()
    except ToolMissing as error:
        return _Trial(None, 0.0, f"absent: {error.problems[0].found}")
    except Exception as error:
        first = error.problems[0] if isinstance(error, NirbridgeError) else f"{type(error).__name__}: {error}"
        return _Trial(None, 0.0, f"failed: {first}")


def _tried(
    network: Network,
    name: str,
    head: Mapping[str, Array],
    record: Sequence[Probe] | None,
    options: Mapping[str, Any],
    run: Mapping[str, Any],
    expected: Mapping[Key, Array] | None,
) -> _Trial:
    """One back end on the head of the input; ``expected``: the arrays of the reference, None for the reference."""
    simulator = prepare_simulator(network, backend=name, **options)
    if expected is not None:
        differs = _first_difference(expected, _everything(_Trial(simulator, 0.0, ""), head, run))
        if differs:
            return _Trial(None, 0.0, f"differs: {differs}")
    seconds: list[float] = []
    while len(seconds) < _RUNS and sum(seconds) < ENOUGH_S:
        start = time.perf_counter()
        simulator.run(head, record=record, **run)
        seconds.append(time.perf_counter() - start)
    return _Trial(simulator, min(seconds), "equal")


def _everything(trial: _Trial, head: Mapping[str, Array], run: Mapping[str, Any]) -> Mapping[Key, Array]:
    """Spikes and potentials of every population and output."""
    if trial.simulator is None:
        raise ModelError.of("the reference", "cannot run", "backends are compared with it", "name a backend")
    return trial.simulator.run(head, record=[Probe("*", ("s", "v"))], **run).recording.arrays


def _first_difference(a: Mapping[Key, Array], b: Mapping[Key, Array]) -> str:
    """The first node and variable whose bits differ; empty if none does."""
    keys = [key for key in a if key not in b or not np.array_equal(a[key], b[key], equal_nan=a[key].dtype.kind == "f")]
    return f"{quoted(keys[0][0])} {keys[0][1]}" if keys else ""
