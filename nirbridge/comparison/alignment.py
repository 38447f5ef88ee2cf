"""Alignment of the time steps of two recordings by their latency, stated or estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.types import Key, Recording

LatencySource = Literal["given", "stored", "estimated"]
ESTIMATE_MAX_STEPS = 32
"""Largest latency, in either direction, that is tried where none is stated."""
_SAMPLED = 1 << 21
BY_EVENTS, BY_VALUES = ("s",), ("v", "u", "i")


@dataclass(frozen=True, slots=True)
class StepAlignment:
    """Step ``t`` of A belongs to step ``t + latency`` of B; slices are of kept steps, along the first axis.

    ``first_step`` is the step of A at the start of its slice, ``every`` the steps from one kept step to the next.
    """

    latency: int
    in_a: slice
    in_b: slice
    steps: int
    first_step: int
    every: int


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """Which steps an array holds: kept step ``k`` is step ``first + k * every`` of the simulation."""

    first: int = 0
    every: int = 1


def align_steps(
    steps_a: int, steps_b: int, latency: int, clock_a: RecordedSteps, clock_b: RecordedSteps
) -> StepAlignment | None:
    """Align the recorded time steps of two recordings; None where they have none in common."""
    every = clock_a.every
    shift, rest = divmod(clock_a.first + latency - clock_b.first, every)
    start_a, start_b = max(0, -shift), max(0, shift)
    steps = min(steps_a - start_a, steps_b - start_b)
    if steps <= 0 or rest or every != clock_b.every:
        return None
    in_a, in_b = slice(start_a, start_a + steps), slice(start_b, start_b + steps)
    return StepAlignment(latency, in_a, in_b, steps, clock_a.first + start_a * every, every)


def stored_latency(recording: Recording, node: str) -> int | None:
    """Latency of a node in time steps after the reference, as the recording states it; None where it does not.

    Raises UsageError where it is not a whole number of time steps.
    """
    stated = recording.meta.get("latency")
    if not isinstance(stated, Mapping) or stated.get(node) is None:
        return None
    return _whole(stated[node], f"latency of {quoted(node)} in the recording's meta", least=None)


def recorded_steps(recording: Recording, key: Key) -> RecordedSteps:
    """The clock of one array, from ``meta``: ``first_step``, and ``every`` by ``NODE/variable`` (default: 0 and 1).

    Of each stretch of ``every`` steps of the simulation the last one is kept. Raises UsageError for values that are no
    numbers of steps.
    """
    name = f"{key[0]}/{key[1]}"
    stated = recording.meta.get("every")
    stated_every = stated.get(name, 1) if isinstance(stated, Mapping) else 1
    every = _whole(stated_every, f"'every' of {quoted(name)} in the recording's meta", least=1)
    first = _whole(recording.meta.get("first_step", 0), "'first_step' in the recording's meta", least=0)
    return RecordedSteps(-(-(first + 1) // every) * every - 1, every)


def has_batch(recording: Recording) -> bool | None:
    """Whether arrays have a batch axis; None where the recording does not say."""
    if "batch" not in recording.meta:
        return None
    return recording.meta["batch"] is not None and recording.meta["batch"] is not False


def sample_and_neuron(recording: Recording, index: tuple[int, ...] | None) -> dict[str, Any]:
    """``first_sample`` and ``first_neuron`` of an index into one step's array: a batch has an axis before neurons."""
    if index and has_batch(recording):
        return {"first_sample": index[0], "first_neuron": index[1:]}
    return {"first_sample": None, "first_neuron": index}


def _whole(value: Any, subject: str, least: int | None) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return value
    limit = "whole time steps" if least is None else f"whole time steps, {least} or more"
    raise UsageError.of(subject, quoted(value), limit, "simulate it again")


def node_latency(
    a: Recording, b: Recording, node: str, latency: int | Mapping[str, int] | Literal["auto"]
) -> tuple[int, LatencySource]:
    """Time steps by which B lags A at this node, and the source of that number.

    With ``"auto"`` it is the difference of the stated latencies; where one of them is missing it is estimated
    (``estimate_latency``).
    """
    if isinstance(latency, int):
        return latency, "given"
    if isinstance(latency, Mapping):
        return latency.get(node, 0), "given"
    stored = both_stored(a, b, node)
    return (_estimated(a, b, node), "estimated") if stored is None else (stored, "stored")


def both_stored(a: Recording, b: Recording, node: str) -> int | None:
    """Time steps by which B lags A as both state it; None where one of them does not."""
    latency_a, latency_b = stored_latency(a, node), stored_latency(b, node)
    return None if latency_a is None or latency_b is None else latency_b - latency_a


def _estimated(a: Recording, b: Recording, node: str) -> int:
    for variable in (*BY_EVENTS, *BY_VALUES):
        key = node, variable
        x, y = a.arrays.get(key), b.arrays.get(key)
        if x is None or y is None or not x.ndim or not y.ndim or x.shape[1:] != y.shape[1:]:
            continue
        clock_a, clock_b = recorded_steps(a, key), recorded_steps(b, key)
        around, rest = divmod(clock_a.first - clock_b.first, clock_a.every)
        if clock_a.every == clock_b.every and not rest:
            latency = estimate_latency(x, y, by_values=variable in BY_VALUES, around=around)
            return (latency - around) * clock_a.every
    return 0


def estimate_latency(
    a: Array, b: Array, *, by_values: bool = False, around: int = 0, most: int = ESTIMATE_MAX_STEPS
) -> int:
    """Time steps by which B lags A, in kept steps, at which they agree best; of several the nearest to ``around``.

    Spikes: the most events at the same place (a value that is not 0). ``by_values``: the least mean square of the
    difference, among the latencies that leave half of the steps to compare. Latencies up to ``most`` from ``around``
    are tried, a lag of B first. Of very large arrays only every n-th neuron is compared.
    """
    x, y = _sampled(a), _sampled(b)
    least = max(1, min(len(x), len(y)) // 2) if by_values else 1
    candidates = sorted(range(around - most, around + most + 1), key=lambda n: (abs(n - around), n < around))
    tried = [n for n in candidates if min(len(x) - max(0, -n), len(y) - max(0, n)) >= least]
    scores = (_closeness if by_values else _common_events)(x, y, tried)
    return tried[max(range(len(tried)), key=lambda k: scores[k])] if tried else around


def _sampled(array: Array) -> Array:
    flat = array.reshape(len(array), math.prod(array.shape[1:]))
    return flat[:, :: max(1, flat.size // _SAMPLED)]


def _common_events(a: Array, b: Array, tried: list[int]) -> list[float]:
    """Coincident events per neuron, for each latency."""
    neurons = a.shape[1]
    at_a, at_b = np.flatnonzero(a != 0), np.flatnonzero(b != 0)
    return [float(np.intersect1d(at_a + n * neurons, at_b, assume_unique=True).size) for n in tried]


def _closeness(a: Array, b: Array, tried: list[int]) -> list[float]:
    scores = []
    for n in tried:
        x, y = a[max(0, -n) :], b[max(0, n) :]
        steps = min(len(x), len(y))
        with np.errstate(invalid="ignore", over="ignore"):
            squares = np.square(x[:steps].astype(np.float64) - y[:steps].astype(np.float64))
            error = float(squares.sum()) / max(1, squares.size)
        scores.append(-np.inf if np.isnan(error) else -error)
    return scores
