"""Whether a recording has the spikes of the reference's, and its first difference in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import quoted
from nirbridge.simulators.types import Key

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
    told = [_difference(key, expected[key], found[key], name, base) for key in expected if key in found]
    first = min((each for each in told if not each.is_small), key=lambda each: each.step, default=_NONE)
    remark = next((each.text for each in told if each.is_small and each.text), "")
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
