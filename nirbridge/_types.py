"""Type aliases that every room shares, and the default of every ``progress`` argument."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Shape = tuple[int, ...]
"""Sizes of the axes of an array, a population or an input."""
Box = tuple[tuple[int, int], ...]
"""Rectangular set of neurons of a population: (start, stop) per axis, the stop excluded."""
Progress = Callable[[str, float | None], None]
"""Called with the name of a stage and the completed fraction of it, 0 to 1; None where the fraction is unknown."""


def no_progress(stage: str, done: float | None) -> None:
    """Report nothing."""


IMPORT_PROGRESS: ContextVar[Progress] = ContextVar("IMPORT_PROGRESS", default=no_progress)
"""Progress of the import that runs: between it and its caller is the importer of a framework, or of a plugin."""
