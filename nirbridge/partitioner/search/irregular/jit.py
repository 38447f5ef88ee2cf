"""Compiled inner loops of both searches, of cores and of placements (numba, extra ``fast``).

This module is imported only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """``numba.njit`` with a cache on disk where one can be written (beside the package, else the user's cache).

    Numba compiles a function again where its own file has changed, not where that of a function it calls has: after an
    edit, ``make kernels``.
    """
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache
        return numba.njit(**options)(function)


def uncounted(function: Callable[..., Any], **options: Any) -> Any:
    """``compiled`` for functions that make no array: references to those they get are not counted.

    Counting takes two atomic operations for each field of a tuple that is read, more than a move of a neuron does.
    """
    return compiled(function, error_model="numpy", _nrt=False, **options)


def inlined(function: Callable[..., Any]) -> Any:
    """The same as a part of each function that calls it: a call passes every array of a tuple, some 0.2 us."""
    return uncounted(function, inline="always")
