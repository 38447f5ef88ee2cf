"""One wrong element among valid ones, for tests of refusals: distinguishes ``any`` from ``all``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze


def one_wrong_element(values: Array, wrong: Any) -> Iterator[Array]:
    """Copies of ``values`` (two elements or more) with the first, a middle or the last element wrong."""
    assert values.size > 1, "one wrong element among right ones needs two"
    for place in sorted({0, values.size // 2, values.size - 1}):
        changed = np.array(values, dtype=np.result_type(values, type(wrong)))
        changed.flat[place] = wrong
        yield freeze(changed)


def one_wrong_entry(values: Sequence[Any], wrong: Any) -> Iterator[tuple[Any, ...]]:
    """As ``one_wrong_element`` for a tuple or list; of a tuple of tuples, one entry of one of them."""
    assert len(values) > 1, "one wrong entry among right ones needs two"
    for place, own in enumerate(values):
        inner = [(*own[:i], wrong, *own[i + 1 :]) for i in range(len(own))] if isinstance(own, tuple) else [wrong]
        for entry in inner:
            yield (*values[:place], entry, *values[place + 1 :])
