"""Side channel for run and compile times of emitted programs.

A recording depends on the inputs alone, so it contains no times. A target reports the run time of its time steps
(without compilation, process start and array transfer) by ``own_time`` or ``add_own_time``, and the time spent in a
compiler or tool by ``compile_time`` or ``add_compile_time``; ``nirbridge.bench`` collects both with
``listen_to_times``. A program in a separate process prints the lines ``compilation took 1.5 s`` and ``time steps took
0.25 s``, which ``hear_own_time`` parses from its log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from nirbridge.files.regular import read_own

_LINE = re.compile(r"^(time steps|compilation) took (\d+\.\d+) s$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReportedTimes:
    """Reported seconds, one entry per report: ``own`` for time steps, ``compilation`` for compilers and tools."""

    own: list[float] = field(default_factory=list)
    compilation: list[float] = field(default_factory=list)


_LISTENER: ContextVar[ReportedTimes | None] = ContextVar("_LISTENER", default=None)


def add_own_time(seconds: float) -> None:
    """Report the run time of a program's time steps in seconds; ignored without a listener."""
    reported = _LISTENER.get()
    if reported is not None:
        reported.own.append(seconds)


def add_compile_time(seconds: float) -> None:
    """Report the compile time of a program in seconds; ignored without a listener."""
    reported = _LISTENER.get()
    if reported is not None:
        reported.compilation.append(seconds)


@contextmanager
def own_time() -> Iterator[None]:
    """Report the duration of the block as run time: the time steps of a program in this process alone."""
    start = time.perf_counter()
    yield
    add_own_time(time.perf_counter() - start)


@contextmanager
def compile_time() -> Iterator[None]:
    """Report the duration of the block as compile time: a compiler, or a tool that prepares a program."""
    start = time.perf_counter()
    yield
    add_compile_time(time.perf_counter() - start)


def hear_own_time(log: str) -> None:
    """Report the times that a program printed: the last line ``time steps took 0.25 s`` of its log, if there is one.

    Likewise for ``compilation took 1.5 s``.
    """
    last = dict(_LINE.findall(log))
    if "time steps" in last:
        add_own_time(float(last["time steps"]))
    if "compilation" in last:
        add_compile_time(float(last["compilation"]))


def hear_log(log: Path) -> None:
    """Report the times in a log file, if it exists; see ``hear_own_time``."""
    with suppress(FileNotFoundError):
        hear_own_time(read_own(log).decode("utf-8", "replace"))


@contextmanager
def listen_to_times() -> Iterator[ReportedTimes]:
    """Collect the times reported within the block; empty if no program reports any."""
    reported = ReportedTimes()
    token = _LISTENER.set(reported)
    try:
        yield reported
    finally:
        _LISTENER.reset(token)


@contextmanager
def listen_to_own_time() -> Iterator[list[float]]:
    """Collect the run times of time steps, in seconds, reported within the block."""
    with listen_to_times() as reported:
        yield reported.own
