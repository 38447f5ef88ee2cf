"""The time that a program states for its time steps alone, told beside its recording to who listens.

A recording depends on the inputs alone, so that no time can be part of it. A target that knows how long its time steps
took, without compilation, the start of a process and the transfer of arrays, says so with ``own_time`` or
``add_own_time``; ``nirbridge.bench`` listens. A program in a process of its own prints a line, ``time steps took
0.25 s``, which ``hear_own_time`` finds in its log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_LINE = re.compile(r"^time steps took (\d+\.\d+) s$", re.MULTILINE)
_HEARD: ContextVar[list[float] | None] = ContextVar("_HEARD", default=None)


def add_own_time(seconds: float) -> None:
    """Report the seconds that the time steps of a program took; without a listener nothing happens."""
    heard = _HEARD.get()
    if heard is not None:
        heard.append(seconds)


@contextmanager
def own_time() -> Iterator[None]:
    """Say how long the block takes: the time steps of a program in this process, and nothing else."""
    start = time.perf_counter()
    yield
    add_own_time(time.perf_counter() - start)


def hear_own_time(log: str) -> None:
    """Say what a program has printed as ``time steps took 0.25 s``, the last such line of its log; else nothing."""
    lines = _LINE.findall(log)
    if lines:
        add_own_time(float(lines[-1]))


def hear_log(log: Path) -> None:
    """The same of a log in a file."""
    hear_own_time(log.read_text(encoding="utf-8", errors="replace"))


@contextmanager
def listen_to_own_time() -> Iterator[list[float]]:
    """The seconds that are said within the block; empty where a program says nothing."""
    heard: list[float] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)
