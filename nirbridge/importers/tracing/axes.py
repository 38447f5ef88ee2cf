"""Leading axes of a traced value (batch and time), and the effect of rearrangements on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze

Lead = tuple[str, ...]
"""Words for leading axes: ``batch``, ``time``, ``merged`` (time and batch as one axis), ``merged-batch-first``."""


class CannotFollow(Exception):
    """A call that has no place in a flow: why, and what to do."""

    def __init__(self, why: str, advice: str = "") -> None:
        super().__init__(why)
        self.why, self.advice = why, advice


def reshape_lead(shape: Shape, lead: Lead, new: Shape) -> Lead:
    """The leading axes after a reshape from ``shape`` to ``new``.

    Raises:
        CannotFollow: it mixes batch or time with the values.
    """
    axes, features = shape[: len(lead)], math.prod(shape[len(lead) :])
    merged = "merged" if lead[:1] == ("time",) else "merged-batch-first"
    if new[: len(lead)] == axes:
        return lead
    options: list[tuple[Shape, Lead]] = [((), ())]
    ones = [k for k, word in enumerate(lead) if word == "time" and axes[k] == 1]
    options = [((*axes[:k], *axes[k + 1 :]), (*lead[:k], *lead[k + 1 :])) for k in ones] or options
    if len(lead) == 2:
        options.append(((axes[0] * axes[1],), (merged,)))
    if lead in (("merged",), ("merged-batch-first",)):
        words = ("time", "batch") if lead == ("merged",) else ("batch", "time")
        options = [((a, axes[0] // a), words) for a in range(1, axes[0] + 1) if axes[0] % a == 0]
    if axes and axes[0] == 1:
        options.append((axes[1:], lead[1:]))
    for sizes, words in options:
        if (
            new[: len(sizes)] == sizes
            and math.prod(new[len(sizes) :]) == features
            and math.prod(axes) == math.prod(sizes)
        ):
            return words
    if new[:1] == (1,) and new[1 : 1 + len(axes)] == axes and "time" not in lead:
        return ("time", *lead)
    raise CannotFollow(f"a reshape from {shape} to {new} mixes batch or time with values", "keep the batch axis")


def permutation(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rank: int) -> tuple[int, ...]:
    """The order of axes that a transposing function gives."""
    import torch

    primes = (2, 3, 5, 7, 11, 13, 17, 19)[:rank]
    small = torch.empty(primes, device="meta")
    out: Any = func(small, *args, **kwargs)
    return tuple(primes.index(n) for n in out.shape)


def is_in_front(lead: Lead, order: Sequence[int]) -> bool:
    """True if an order of axes has batch and time before the values."""
    return set(order[: len(lead)]) == set(range(len(lead)))


def reshaped_in_place(arranged: Shape, lead: Lead, order: Sequence[int], new: Shape) -> tuple[int, ...]:
    """The order of axes after a reshape of a value whose batch or time stands among its values.

    An axis is still there if one of the new axes has its size and its stride.

    Raises:
        CannotFollow: it mixes batch or time with the values.
    """
    old = tuple(arranged[k] for k in order)
    found: dict[int, int] = {}
    for place, axis in enumerate(order):
        extent = (old[place], math.prod(old[place + 1 :]))
        fitting = [k for k, n in enumerate(new) if (n, math.prod(new[k + 1 :])) == extent and k not in found]
        if axis < len(lead) and not fitting:
            raise CannotFollow(f"a reshape from {old} to {new} mixes batch or time with values", "move them in front")
        found |= {fitting[0]: axis} if axis < len(lead) else {}
    values = iter(range(len(lead), len(new)))
    return tuple(found[k] if k in found else next(values) for k in range(len(new)))


def permute_lead(shape: Shape, lead: Lead, order: Sequence[int]) -> tuple[Lead, Array | None]:
    """(Leading axes, gather of the values or None where they stay) after a permutation with the former in front."""
    front = tuple(order[: len(lead)])
    rest = [k - len(lead) for k in order[len(lead) :]]
    words = tuple(lead[k] for k in front)
    if rest == sorted(rest):
        return words, None
    features = shape[len(lead) :]
    positions = np.arange(math.prod(features)).reshape(features).transpose(rest)
    return words, freeze(positions, np.int64)


def picked_positions(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], output: int, shape: Shape, lead: Lead
) -> Array:
    """The positions of the values that a slicing function leaves, batch and time left alone.

    Raises:
        CannotFollow: it slices batch or time.
    """
    import torch

    whole = torch.arange(math.prod(shape)).reshape(shape)
    out = func(whole, *args, **kwargs)
    out = out[output] if isinstance(out, tuple | list) else out
    n, features = len(lead), math.prod(shape[len(lead) :])
    if tuple(out.shape[:n]) != shape[:n]:
        raise CannotFollow("it takes a part of the batch or of the time axis", "treat every sample and time step alike")
    first = out[(0,) * n]
    starts = torch.arange(math.prod(shape[:n])).reshape(*shape[:n], *(1,) * first.ndim) * features
    if not bool((out == first + starts).all()):
        raise CannotFollow("it mixes samples or time steps", "treat every sample and time step alike")
    return freeze(first.numpy(), np.int64)
