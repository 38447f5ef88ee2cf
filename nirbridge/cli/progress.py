"""Progress of long work on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nirbridge._types import Progress, no_progress
from nirbridge.cli.ascii import is_ascii_locale
from nirbridge.cli.quiet import is_quiet


@contextmanager
def progress_on_stderr(enabled: bool = True) -> Iterator[Progress]:
    """Gives a callback ``progress(stage, done)``; it shows one line that vanishes, or nothing without a terminal."""
    if not enabled or is_quiet() or not sys.stderr.isatty():
        yield no_progress
        return
    from rich import progress as rich_progress
    from rich.console import Console

    class Terminal(Console):
        """Draws in ASCII where the locale is C."""

        @property
        def encoding(self) -> str:
            return "ascii" if is_ascii_locale() else super().encoding

    columns = (
        rich_progress.SpinnerColumn("line" if is_ascii_locale() else "dots"),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=Terminal(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(stage: str, done: float | None) -> None:
            bar.update(task, description=stage, total=None if done is None else 1.0, completed=done or 0.0)

        yield show
