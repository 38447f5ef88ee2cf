"""The times that a program states: of its time steps alone, and of its compilation, told beside its recording.

A recording depends on the inputs alone, so that no time can be part of it. A target that knows how long its time steps
took, without compilation, the start of a process and the transfer of arrays, says so with ``own_time`` or
``add_own_time``, and with ``compile_time`` or ``add_compile_time`` how long a compiler or a tool worked on the program
before that; ``nirbridge.bench`` listens. A program in a process of its own prints lines, ``compilation took 1.5 s`` and
``time steps took 0.25 s``, which ``hear_own_time`` finds in its log.
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
class ToldTimes:
    """Seconds that programs state, one entry for each that says something: of time steps, and of compilation."""

    own: list[float] = field(default_factory=list)
    compilation: list[float] = field(default_factory=list)


_TOLD: ContextVar[ToldTimes | None] = ContextVar("_TOLD", default=None)


def add_own_time(seconds: float) -> None:
    """Report the seconds that the time steps of a program took; without a listener nothing happens."""
    told = _TOLD.get()
    if told is not None:
        told.own.append(seconds)


def add_compile_time(seconds: float) -> None:
    """Report the seconds that compiling a program took; without a listener nothing happens."""
    told = _TOLD.get()
    if told is not None:
        told.compilation.append(seconds)


@contextmanager
def own_time() -> Iterator[None]:
    """Say how long the block takes: the time steps of a program in this process, and nothing else."""
    start = time.perf_counter()
    yield
    add_own_time(time.perf_counter() - start)


@contextmanager
def compile_time() -> Iterator[None]:
    """Say how long the block takes: a compiler, or a tool that prepares a program."""
    start = time.perf_counter()
    yield
    add_compile_time(time.perf_counter() - start)


def hear_own_time(log: str) -> None:
    """Say what a program has printed as ``time steps took 0.25 s``, the last such line of its log; else nothing.

    The same with ``compilation took 1.5 s``.
    """
    last = dict(_LINE.findall(log))
    if "time steps" in last:
        add_own_time(float(last["time steps"]))
    if "compilation" in last:
        add_compile_time(float(last["compilation"]))


def hear_log(log: Path) -> None:
    """The same of a log in a file, where there is one."""
    with suppress(FileNotFoundError):
        hear_own_time(read_own(log).decode("utf-8", "replace"))


@contextmanager
def listen_to_times() -> Iterator[ToldTimes]:
    """The times that are said within the block; empty where a program says nothing."""
    told = ToldTimes()
    token = _TOLD.set(told)
    try:
        yield told
    finally:
        _TOLD.reset(token)


@contextmanager
def listen_to_own_time() -> Iterator[list[float]]:
    """The seconds of time steps that are said within the block."""
    with listen_to_times() as told:
        yield told.own
