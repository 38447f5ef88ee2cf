"""Compilation on demand (numba) of the inner loops of partitioning and placement: plain Python for little work.

The decorators only mark a loop. The loops of placement give bit-identical results in plain Python (``plain``), so small
searches need not wait for the compiler, which takes some 20 s once for the annealing of trees. The loops of this folder
subtract booleans, which numpy refuses, and are always ``compiled``.
"""

from __future__ import annotations

from collections.abc import Callable
from dis import get_instructions
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from nirbridge._types import Progress

_OPTIONS = "compile_options"


def loop(function: Callable[..., Any]) -> Any:
    """A function that ``compiled`` makes machine code of, and of those marked ones that it calls."""
    return _marked(function)


def uncounted(function: Callable[..., Any]) -> Any:
    """``loop`` for functions that make no array: references to those they get are not counted.

    Counting takes two atomic operations for each field of a tuple that is read, more than a move of a neuron does.
    """
    return _marked(function, error_model="numpy", _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """The same as a part of each function that calls it: a call passes every array of a tuple, some 0.2 us."""
    return _marked(function, error_model="numpy", _nrt=False, inline="always")


def _marked(function: Any, **options: Any) -> Any:
    setattr(function, _OPTIONS, options)
    return function


@cache
def compiled(function: Any) -> Any:
    """A marked function in machine code, kept on disk where that can be (beside the package, else the user's cache).

    Numba compiles a function again where its own file has changed, not where that of a function it calls has: after an
    edit, ``make kernels``.
    """
    import numba

    names = {one.argval for one in get_instructions(function.__code__) if one.opname == "LOAD_GLOBAL"}
    called = {name: function.__globals__[name] for name in names if name in function.__globals__}
    used = {name: compiled(value) for name, value in called.items() if isinstance(getattr(value, _OPTIONS, None), dict)}
    own = FunctionType(function.__code__, {**function.__globals__, **used}, function.__name__, function.__defaults__)
    own.__module__, own.__qualname__ = function.__module__, function.__qualname__
    options = getattr(function, _OPTIONS)
    try:
        return numba.njit(cache=True, **options)(own)
    except RuntimeError:  # no place for a cache
        return numba.njit(**options)(own)


def announce(function: Any, progress: Progress) -> None:
    """Tell that a function is about to be compiled, unless machine code of it is kept already."""
    machine, code = compiled(function), function.__code__
    kept = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}.*.nbi"
    if not machine.signatures and not any(Path(machine.stats.cache_path or "/nowhere").glob(kept)):
        progress("compiling the search, this once", None)


def plain(function: Any) -> Any:
    """A marked function as it stands; whole numbers of 64 bits wrap around in it as they do in machine code."""

    def run(*arguments: Any) -> Any:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return function(*arguments)

    return run
