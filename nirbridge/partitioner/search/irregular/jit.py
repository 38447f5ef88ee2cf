"""Compiled inner loops of the search (numba, extra ``fast``); this module is imported only where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]


def compiled(function: Callable[..., Any]) -> Any:
    """``numba.njit`` with a cache on disk where one can be written (beside the package, else the user's cache)."""
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # no place for a cache
        return numba.njit(function)
