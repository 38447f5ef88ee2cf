"""Progress of long work, with an estimate of the time left: on stderr where that is a terminal, or in a notebook.

One line, which vanishes with the end of the work. In scripts whose stderr is no terminal there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any, Protocol

from nirbridge._types import Progress, no_progress

SWITCH = "NIRBRIDGE_PROGRESS"
"""Environment variable that turns progress off with ``0``."""
_BETWEEN_S = 0.1
"""Least time between two drawings where no thread draws."""
_IS_SHOWN: ContextVar[bool] = ContextVar("_IS_SHOWN", default=False)


class Drawer(Protocol):
    """One line somewhere."""

    def draw(self, stage: str, done: float | None, left: str) -> None:
        """Shows the line, in place of the one before."""
        ...

    def end(self) -> None:
        """Takes the line away."""
        ...


@contextmanager
def progress_shown(*, delay_s: float = 1.0, animated: bool = False, ascii_only: bool = False) -> Iterator[Progress]:
    """Gives a callback ``progress(stage, done)`` that shows a line from its first call after ``delay_s`` on.

    ``animated``: a thread draws between calls, too. Within another one, without a terminal and a notebook, and with
    ``NIRBRIDGE_PROGRESS=0`` the callback shows nothing.
    """
    drawer = None if _IS_SHOWN.get() or os.environ.get(SWITCH) == "0" else _drawer(animated, ascii_only)
    if drawer is None:
        yield no_progress
        return
    token = _IS_SHOWN.set(True)
    line = _Line(drawer, delay_s, 0.0 if animated else _BETWEEN_S)
    try:
        yield line.show
    finally:
        _IS_SHOWN.reset(token)
        line.end()


def _drawer(animated: bool, ascii_only: bool) -> Drawer | None:
    if sys.stderr is None:
        return None
    if "IPython" in sys.modules:  # only there can this be a notebook, and rich is not imported to find out
        from rich.console import Console

        if Console(file=sys.stderr).is_jupyter:
            return _Notebook()
    return _Terminal(animated, ascii_only) if sys.stderr.isatty() else None


class _Line:
    """The drawn line: from when on, how often, and with which estimate."""

    def __init__(self, drawer: Drawer, delay_s: float, between_s: float) -> None:
        self._drawer = drawer
        self._between_s = between_s
        self._next = monotonic() + delay_s
        self._is_drawn = False
        self._stage: tuple[str, float, float] | None = None

    def show(self, stage: str, done: float | None) -> None:
        """The callback; a stream that cannot be written changes nothing."""
        now = monotonic()
        left = self._left(stage, done, now)
        if now < self._next:
            return
        self._next, self._is_drawn = now + self._between_s, True
        with suppress(OSError, ValueError):
            self._drawer.draw(stage, done, left)

    def _left(self, stage: str, done: float | None, now: float) -> str:
        """``about 12 s left``, from the speed since the first fraction of the stage; empty where that says nothing."""
        if done is None:
            self._stage = None
            return ""
        if self._stage is None or self._stage[0] != stage or done < self._stage[1]:
            self._stage = stage, done, now
        _, first, since = self._stage
        if done <= first or done >= 1:
            return ""
        return f"about {duration_text((now - since) * (1 - done) / (done - first))} left"

    def end(self) -> None:
        """Takes the line away, if it was drawn."""
        if self._is_drawn:
            with suppress(OSError, ValueError):
                self._drawer.end()


def duration_text(seconds: float) -> str:
    """``8 s``, ``3 min``, ``2.5 h``: as exact as an estimate is."""
    if seconds < 99.5:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


class _Terminal:
    """A bar of rich on stderr."""

    def __init__(self, animated: bool, ascii_only: bool) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        class Terminal(Console):
            """Draws in ASCII where the locale is C."""

            @property
            def encoding(self) -> str:
                return "ascii" if ascii_only else super().encoding

        moving = (rich_progress.SpinnerColumn("line" if ascii_only else "dots"),) if animated else ()
        clock = (rich_progress.BarColumn(), rich_progress.TimeElapsedColumn()) if animated else ()
        self._bar = rich_progress.Progress(
            *moving,
            rich_progress.TextColumn("{task.description}", markup=False),
            *clock,  # they would stand still without a thread
            rich_progress.TextColumn("{task.fields[left]}", markup=False),
            console=Terminal(file=sys.stderr),
            transient=True,
            auto_refresh=animated,
            redirect_stdout=animated,
            redirect_stderr=animated,
        )
        self._task = self._bar.add_task("", total=None, left="")

    def draw(self, stage: str, done: float | None, left: str) -> None:
        total = None if done is None else 1.0
        text = left if self._bar.live.auto_refresh else _share_and_left(done, left)
        self._bar.update(self._task, description=stage, total=total, completed=done or 0.0, left=text)
        self._bar.start()
        if not self._bar.live.auto_refresh:
            self._bar.refresh()

    def end(self) -> None:
        self._bar.stop()


def _share_and_left(done: float | None, left: str) -> str:
    """``40%, about 12 s left``, as far as it is known."""
    return "" if done is None else f"{done:.0%}" + (f", {left}" if left else "")


class _Notebook:
    """A line of text below the cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, stage: str, done: float | None, left: str) -> None:
        self._put(f"{stage} {_share_and_left(done, left)}".rstrip())

    def end(self) -> None:
        self._put("")

    def _put(self, text: str) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        content = {"text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
