"""Which step of one recording belongs to which step of another: the latency between them, known or estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.model import Recording

LatencySource = Literal["given", "stored", "estimated"]
ESTIMATE_MAX_STEPS = 32
"""Latencies up to so many steps, either way, are tried where none is known."""
_SAMPLED = 1 << 21
BY_EVENTS, BY_VALUES = ("s",), ("v", "u", "i")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Step ``t`` of A belongs to step ``t + latency`` of B; slices are of kept steps, along the first axis.

    ``first_step`` is the step of A that the first kept step of the slice holds, ``every`` the steps between two.
    """

    latency: int
    in_a: slice
    in_b: slice
    steps: int
    first_step: int
    every: int


def pair(steps_a: int, steps_b: int, latency: int, every: int = 1) -> Pairing | None:
    """Pairs the kept steps of two recordings; None where no step of one belongs to a step of the other.

    ``latency`` is a multiple of ``every``; a kept step is the last one of each stretch of ``every`` steps.
    """
    shift = latency // every
    start_a, start_b = max(0, -shift), max(0, shift)
    steps = min(steps_a - start_a, steps_b - start_b)
    if steps <= 0:
        return None
    first = (start_a + 1) * every - 1
    in_a, in_b = slice(start_a, start_a + steps), slice(start_b, start_b + steps)
    return Pairing(latency, in_a, in_b, steps, first, every)


def stored_latency(recording: Recording, node: str) -> int | None:
    """Latency of a node in steps behind the reference meaning, as the recording states it; None: it does not.

    Raises UsageError where it states something else than whole steps.
    """
    stated = recording.meta.get("latency")
    if not isinstance(stated, Mapping) or stated.get(node) is None:
        return None
    return _whole(stated[node], f"latency of {quoted(node)} in the recording's meta", least=None)


def every_of(recording: Recording, node: str) -> int:
    """One step in so many of this node was kept; 1 where the recording does not say."""
    stated = recording.meta.get("every", 1)
    value = stated.get(node, 1) if isinstance(stated, Mapping) else stated
    return _whole(value, f"'every' of {quoted(node)} in the recording's meta", least=1)


def has_batch(recording: Recording) -> bool | None:
    """Whether arrays have a batch axis; None where the recording does not say."""
    if "batch" not in recording.meta:
        return None
    return recording.meta["batch"] is not None and recording.meta["batch"] is not False


def _whole(value: Any, thing: str, least: int | None) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return value
    limit = "whole steps" if least is None else f"whole steps, {least} or more"
    raise UsageError.of(thing, quoted(value), limit, "simulate it again")


def node_latency(
    a: Recording, b: Recording, node: str, latency: int | Mapping[str, int] | Literal["auto"]
) -> tuple[int, LatencySource]:
    """Steps that B is behind A at this node, and where that number is from.

    With ``"auto"`` it is what the two recordings state, B's less A's; where one of them states nothing it is estimated
    (``estimate_latency``).
    """
    if isinstance(latency, int):
        return latency, "given"
    if isinstance(latency, Mapping):
        return latency.get(node, 0), "given"
    stored = both_stored(a, b, node)
    return (_estimated(a, b, node), "estimated") if stored is None else (stored, "stored")


def both_stored(a: Recording, b: Recording, node: str) -> int | None:
    """Steps that B is behind A as both state it; None where one of them states nothing."""
    own, other = stored_latency(a, node), stored_latency(b, node)
    return None if own is None or other is None else other - own


def _estimated(a: Recording, b: Recording, node: str) -> int:
    every = every_of(a, node)
    for variable in (*BY_EVENTS, *BY_VALUES):
        x, y = a.arrays.get((node, variable)), b.arrays.get((node, variable))
        if x is not None and y is not None and x.ndim and x.shape[1:] == y.shape[1:] and every == every_of(b, node):
            return estimate_latency(x, y, by_values=variable in BY_VALUES) * every
    return 0


def estimate_latency(a: Array, b: Array, *, by_values: bool = False, most: int = ESTIMATE_MAX_STEPS) -> int:
    """The latency of B behind A, in kept steps, at which they agree best; of several the nearest to 0, then B behind A.

    Spikes: the most events at the same place (a value that is not 0). ``by_values``: the least mean square of the
    difference, among the latencies that leave half of the steps to compare. Of very large arrays only every so many
    neurons are looked at.
    """
    x, y = _sampled(a), _sampled(b)
    agreement = _closeness if by_values else _common_events
    limit = max(len(x), len(y)) // 2 if by_values else max(len(x), len(y)) - 1
    tried = sorted(range(-min(most, limit), min(most, limit) + 1), key=lambda n: (abs(n), n < 0))
    scores = agreement(x, y, tried)
    return tried[max(range(len(tried)), key=lambda k: scores[k])] if tried else 0


def _sampled(array: Array) -> Array:
    flat = array.reshape(array.shape[0], -1) if array.size else array.reshape(array.shape[0], 0)
    return flat[:, :: max(1, flat.size // _SAMPLED)]


def _common_events(a: Array, b: Array, tried: list[int]) -> list[float]:
    """Events of the same neuron that fall on each other, for each latency."""
    neurons = max(1, a.shape[1])
    at_a, at_b = np.flatnonzero(a != 0), np.flatnonzero(b != 0)
    return [float(np.intersect1d(at_a + n * neurons, at_b, assume_unique=True).size) for n in tried]


def _closeness(a: Array, b: Array, tried: list[int]) -> list[float]:
    scores = []
    for n in tried:
        pairing = pair(len(a), len(b), n)
        x, y = (a[:0], b[:0]) if pairing is None else (a[pairing.in_a], b[pairing.in_b])
        with np.errstate(invalid="ignore", over="ignore"):
            error = float(np.mean((x.astype(np.float64) - y.astype(np.float64)) ** 2)) if x.size else np.nan
        scores.append(-np.inf if np.isnan(error) else -error)
    return scores
