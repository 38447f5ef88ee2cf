"""Two recordings of the same neurons: alignment of their time steps, distances, decisions of a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, counted, quoted
from nirbridge.simulators.types import Key, Recording

VARIABLES = ("s", "count", "v")
"""Deciding variables, the first that both recorded: spikes of all time steps, their count, or v summed over them."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Number of samples with the same decision in both, and (with labels) of correct ones in each.

    A tie goes to the class of the lower number, in both.
    """

    samples: int
    alike: int
    right_a: int | None = None
    right_b: int | None = None

    @property
    def agreement(self) -> float:
        """Share of samples with the same decision; 1 for none."""
        return self.alike / self.samples if self.samples else 1.0

    @property
    def accuracy_a(self) -> float | None:
        """Accuracy of A; None without labels or samples."""
        return None if self.right_a is None or not self.samples else self.right_a / self.samples

    @property
    def accuracy_b(self) -> float | None:
        """Accuracy of B; None without labels or samples."""
        return None if self.right_b is None or not self.samples else self.right_b / self.samples


def deciding_outputs(a: Recording, b: Recording, *, labels: bool) -> tuple[Key, ...]:
    """The node and variable of each decision: of each output that both recorded alike, with two classes or more.

    Outputs are those that ``meta`` names (in ``outputs``, else ``latency`` has an entry for each); where neither
    names any, every node.
    Without labels, nothing is decided where no recording says whether its arrays have a batch axis.
    """
    if _batched(a, b) is None and not labels:
        return ()
    outputs = {name for r in (a, b) for name in _stated(r)}
    common = [(n, v) for n, v in a.arrays if (n, v) in b.arrays and v in VARIABLES and (not outputs or n in outputs)]
    first_last = sorted(common, key=lambda key: VARIABLES.index(key[1]), reverse=True)
    return tuple(sorted({node: (node, variable) for node, variable in first_last}.values()))


def _stated(recording: Recording) -> tuple[str, ...]:
    stated = recording.meta.get("outputs", recording.meta.get("latency"))
    names = stated if isinstance(stated, Mapping | list | tuple) else ()
    return tuple(name for name in names if isinstance(name, str))


def _batched(a: Recording, b: Recording) -> bool | None:
    stated = has_batch(a)
    return has_batch(b) if stated is None else stated


def compare_decisions(
    key: Key, pair: tuple[Array, Array], recordings: tuple[Recording, Recording], labels: Array | None
) -> Decisions | None:
    """Decisions of two arrays that were cut to the same steps; None where there are no two classes to decide between.

    Raises UsageError for labels that do not belong to the samples.
    """
    batched = _batched(*recordings)
    if batched is None:
        batched = labels is not None and labels.ndim == 1
    steps_axis = key[1] != "count"
    if pair[0].ndim < steps_axis + batched:
        return None
    totals_a, totals_b = (_totals(x, steps_axis, batched) for x in pair)
    samples, classes = totals_a.shape
    if classes < 2:
        return None
    classes_a, classes_b = np.argmax(totals_a, axis=1), np.argmax(totals_b, axis=1)
    alike = int((classes_a == classes_b).sum())
    if labels is None:
        return Decisions(samples, alike)
    correct = _fitting(labels, key[0], samples, classes)
    return Decisions(samples, alike, int((classes_a == correct).sum()), int((classes_b == correct).sum()))


def _totals(array: Array, steps_axis: bool, batched: bool) -> Array:
    """``[samples, classes]``."""
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    summed = array.sum(axis=0, dtype=kind) if steps_axis else array.astype(kind)
    samples = summed.shape[0] if batched else 1
    return summed.reshape(samples, math.prod(summed.shape[batched:]))


def checked_labels(labels: npt.ArrayLike) -> Array:
    """Labels as an array of whole numbers, one or one per sample; raises UsageError for others."""
    values = np.asarray(labels)
    if values.dtype.kind not in "iu" or values.ndim > 1:
        found = f"{values.dtype} of shape {values.shape}"
        raise UsageError(Diagnostic("labels", found, "whole numbers, one per sample", "give the class of each sample"))
    return values


def _fitting(labels: Array, node: str, samples: int, classes: int) -> Array:
    subject = f"labels of {quoted(node)}"
    if labels.size != samples:
        limit = f"the recordings have {counted(samples, 'sample')}"
        raise UsageError(Diagnostic(subject, counted(labels.size, "label"), limit))
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        found = f"a label of {labels.min() if labels.min() < 0 else labels.max()}"
        raise UsageError(
            Diagnostic(subject, found, f"classes are 0 to {classes - 1}", "give the index of the correct neuron")
        )
    return labels


# -- distances -----------------------------------------------------------------------------------------------------
# Distances of two recordings of the same neurons: numbers from two arrays of one shape.
#
# Arrays are ``[steps, ...]``, all axes after the first are neurons (and samples). A spike array holds 0 and 1, or whole
# numbers where a neuron may send several spikes in a step (k spikes are k events), or any real numbers where a neuron
# is graded (then an event is a value that is not 0). Large arrays are read in pieces, so no copy of them is made.


TAU_STEPS = 10.0
"""Decay of the kernel of ``van_rossum`` in steps, where none is given."""
KERNEL = "causal exponential exp(-t / tau), scaled so that one spike more or less is a distance of 1"
_PIECE = 1 << 21


def is_counts(array: Array) -> bool:
    """True if all values are non-negative integers, of any dtype: spikes, not graded values."""
    if array.dtype.kind in "bu":
        return True
    flat = _steps_by_neurons(array)
    return all(bool(np.all((p >= 0) & (p == np.floor(p)) & (p < np.inf))) for p in _pieces(flat))


def first_difference(a: Array, b: Array) -> tuple[int, ...] | None:
    """Index (step first) of the first value that differs, the first in the order of memory; None: nothing differs."""
    flat_a, flat_b = _steps_by_neurons(a), _steps_by_neurons(b)
    for start, x, y in _pairs(flat_a, flat_b):
        differs = ~((x == y) | ((x != x) & (y != y)))
        if differs.any():
            place = int(np.argmax(differs)) + start * flat_a.shape[1]
            return tuple(int(i) for i in np.unravel_index(place, a.shape or (1,)))[: a.ndim]
    return None


def event_count(array: Array) -> int:
    """Number of events: the sum of whole numbers, or how many graded values are not 0."""
    flat = _steps_by_neurons(array)
    counts = is_counts(array)
    return sum(int(p.sum(dtype=np.int64) if counts else np.count_nonzero(p)) for p in _pieces(flat))


def event_overlap(a: Array, b: Array) -> tuple[int, int]:
    """Events that both have, and events that at least one has (step, neuron and number agree).

    Where one of the two is graded, places are compared and values are not.
    """
    common = either = 0
    counts = is_counts(a) and is_counts(b)
    for _, x, y in _pairs(_steps_by_neurons(a), _steps_by_neurons(b)):
        x, y = (x, y) if counts else (x != 0, y != 0)
        common += int(np.minimum(x, y).sum(dtype=np.int64))
        either += int(np.maximum(x, y).sum(dtype=np.int64))
    return common, either


def ratio(common: int, either: int) -> float:
    """``common / either``; 1 for nothing over nothing."""
    return common / either if either else 1.0


def count_error(a: Array, b: Array) -> int:
    """Sum over neurons (and samples) of the difference of their numbers of events, each without sign."""
    return int(np.abs(events_of_each(a) - events_of_each(b)).sum())


def events_of_each(array: Array) -> Array:
    """Events of each neuron over all steps, int64 ``[neurons]``."""
    flat = _steps_by_neurons(array)
    counts = is_counts(array)
    total = np.zeros(flat.shape[1], np.int64)
    for piece in _pieces(flat):
        total += piece.sum(axis=0, dtype=np.int64) if counts else np.count_nonzero(piece, axis=0)
    return total


def van_rossum(a: Array, b: Array, tau_steps: float = TAU_STEPS) -> float:
    """Distance of van Rossum (Neural Computation 13, 2001) in discrete time, over all neurons together.

    ``f[t] = g f[t-1] + a[t] - b[t]`` with ``g = exp(-1 / tau_steps)``, and the distance is
    ``sqrt((1 - g**2) * sum of f[t]**2)`` over neurons, samples and all steps to infinity. So one spike more is 1, one
    spike moved by k steps is ``sqrt(2 (1 - g**k))``, and n neurons that differ alike are ``sqrt(n)`` times as far.
    NaN where a value is NaN. Raises UsageError where ``tau_steps`` is not above 0.
    """
    if not (math.isfinite(tau_steps) and tau_steps > 0):
        raise UsageError.of("tau_steps", f"{tau_steps}", "a number of steps above 0", f"{TAU_STEPS:g} is the default")
    log_g = -1.0 / tau_steps
    flat_a, flat_b = _steps_by_neurons(a), _steps_by_neurons(b)
    f, last = np.zeros(flat_a.shape[1]), np.zeros(flat_a.shape[1], np.int64)
    total = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for start, x, y in _pairs(flat_a, flat_b):
            step, neuron = np.nonzero(x != y)
            for selected in _nth_of_each(neuron):
                steps, n = step[selected] + start, neuron[selected]
                # Between two steps that differ f only decays: its squares are a geometric series.
                gap = log_g * (steps - last[n])
                total -= float(np.square(f[n]) @ np.expm1(2.0 * gap))
                f[n] = f[n] * np.exp(gap) + _minus(x[step[selected], n], y[step[selected], n])
                last[n] = steps
        return math.sqrt(total + float(f @ f))


def _nth_of_each(neuron: Array) -> Iterator[Array]:
    """Places of the first event of each neuron, then of the second of each, and so on."""
    order = np.argsort(neuron, kind="stable")
    grouped = neuron[order]
    place = np.arange(len(grouped))
    is_first = np.diff(grouped, prepend=-1) != 0
    rank = place - np.maximum.accumulate(np.where(is_first, place, 0))
    by_rank = np.argsort(rank, kind="stable")
    stops = np.cumsum(np.bincount(rank))
    return (order[part] for part in np.split(by_rank, stops[:-1]) if len(part))


def largest_difference(a: Array, b: Array) -> float:
    """The largest ``|a - b|``; 0 where nothing differs (so infinity and NaN at the same places do not count)."""
    largest = 0.0
    for _, x, y in _pairs(_steps_by_neurons(a), _steps_by_neurons(b)):
        differs = ~((x == y) | ((x != x) & (y != y)))
        if differs.any():
            gap = np.abs(_minus(x[differs], y[differs]))
            largest = math.nan if np.isnan(gap).any() else max(largest, float(gap.max()))
        if math.isnan(largest):
            break
    return largest


def _minus(x: Array, y: Array) -> Array:
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, and reported so
        return x.astype(np.float64) - y.astype(np.float64)


def _steps_by_neurons(array: Array) -> Array:
    steps = array.shape[0] if array.ndim else 1
    return array.reshape(steps, math.prod(array.shape[1:]))


def _rows(flat: Array) -> Iterator[slice]:
    rows = max(1, _PIECE // max(1, flat.shape[1]))
    return (slice(start, start + rows) for start in range(0, flat.shape[0], rows))


def _pieces(flat: Array) -> Iterator[Array]:
    return (flat[rows] for rows in _rows(flat))


def _pairs(a: Array, b: Array) -> Iterator[tuple[int, Array, Array]]:
    """(first step, piece of a, piece of b)."""
    if a.shape != b.shape:
        raise UsageError.of("two arrays", f"shapes {a.shape} and {b.shape}", "one shape for both", "align them first")
    return ((rows.start, a[rows], b[rows]) for rows in _rows(a))


# -- alignment -----------------------------------------------------------------------------------------------------
# Alignment of the time steps of two recordings by their latency, stated or estimated.


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
