"""Warnings of graphs: which tools would run an imported one differently, which faults a file's exporter left."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from nirbridge.errors import ExporterFaultWarning, ExportWarning

TOOLS = ("Lava", "Nengo", "Norse", "Rockpool", "Sinabs", "snnTorch", "spikingjelly")


def warn_of_tools(texts: Sequence[str]) -> None:
    """One ``ExportWarning`` at the line of the user's code that called the importer; none where there are no texts."""
    if texts:
        warnings.warn(message(texts), ExportWarning, stacklevel=_levels())


def message(texts: Sequence[str]) -> str:
    """One line: the tools that texts of ``export_warnings`` speak of, and where the texts are."""
    named = [tool for tool in TOOLS if any(tool in text for text in texts)]
    who = ", ".join(named) if named else "tools with a dt of their own"
    points = f"{len(texts)} points" if len(texts) > 1 else "one point"
    return f"other tools would run this graph differently ({who}): {points} in its metadata, 'nirbridge:warnings'"


def warn_of_faults(sentences: Sequence[str]) -> None:
    """One ``ExporterFaultWarning`` for each sentence, at the line of the user's code that reads the file."""
    for sentence in sentences:
        warnings.warn(sentence, ExporterFaultWarning, stacklevel=_levels())


def _levels() -> int:
    """How far up the stack the first function is that is not part of nirbridge, for ``warnings.warn``."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "nirbridge":
        levels, frame = levels + 1, frame.f_back
    return levels
