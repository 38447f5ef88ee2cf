"""Compiled neuron update and event lists (numba).

Every multiplication and addition is rounded on its own (no fastmath, no contraction), in the order of the neuron
record: ``i = a_syn*i + g_syn*x``, ``u = (a_mem*v + g_mem*i) + bias``. A step is several plain passes over a row of
neurons, which the compiler turns into vector code; what a population does not need is not run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

SYNAPSE, RESET, AT_LEAST, FIRES, MOST, HOLDS, FLOOR, KEEP_V, KEEP_U, KEEP_I = range(10)
"""Places in the tuple of whole numbers that says what a population's step does."""
RESETS = ("to-value", "subtract", "none")
A_MEM, G_MEM, BIAS, THETA, A_SYN, G_SYN, V_RESET, AMOUNT, V_MIN = range(9)
"""Rows of the coefficients ``[9, neurons]`` (``[9, 1]`` where all of them are shared)."""


def jitted(function: Callable[..., Any], **options: Any) -> Any:
    """``numba.njit`` with a cache on disk where one can be written (beside the package, else the user's cache).

    A kernel lets other threads run Python while it works.
    """
    shared: dict[str, Any] = {"error_model": "numpy", "nogil": True, **options}
    try:
        return numba.njit(cache=True, **shared)(function)
    except RuntimeError:  # no place for a cache
        return numba.njit(**shared)(function)


def borrowing(function: Callable[..., Any]) -> Any:
    """``jitted`` for a function that makes no array: it does not count references to those that it is given.

    Counting them costs more than a short inner function does.
    """
    return jitted(function, _nrt=False)


@borrowing
def copy(to, values) -> None:
    """``to[:] = values`` for rows; the slice assignment is not vectorised."""
    for j in range(to.shape[0]):
        to[j] = values[j]


@jitted
def list_values(x, indptr, idx, val) -> None:
    """As ``list_events`` for ``x: [rows, n]`` of any numbers: the sources that are not 0, and their values."""
    count = 0
    for r in range(x.shape[0]):
        indptr[r] = count
        for p in range(x.shape[1]):
            if x[r, p] != 0:
                idx[count] = p
                val[count] = x[r, p]
                count += 1
    indptr[x.shape[0]] = count


@jitted
def value_of(x, n, indptr, idx, val) -> None:
    """The byte of every event of ``list_events``."""
    for r in range(indptr.shape[0] - 1):
        for e in range(indptr[r], indptr[r + 1]):
            val[e] = x[r * n + np.int64(idx[e])]
