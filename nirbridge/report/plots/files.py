"""Figures as files: PNG, PDF or SVG by the ending of the name, the same bytes for the same picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nirbridge.errors import UsageError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.report.plots.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

FORMATS = ("svg", "pdf", "png")
DOTS_PER_INCH = 300
_PLAIN: dict[Any, Any] = {
    "svg.hashsalt": "nirbridge",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "text.usetex": False,
    "savefig.transparent": False,
}
"""Letters are drawn as curves in SVG, where fonts differ; nothing depends on the clock or on chance."""


def save_picture(axes: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of the axes, whole or not at all, in the format of the name's ending.

    Raises UsageError where the name does not end in ``.svg``, ``.pdf`` or ``.png``, FileError where the place cannot
    be written.
    """
    kind = _format(path)
    from matplotlib import rc_context  # pyright: ignore[reportMissingImports]

    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}, "png": {}}[kind]

    def write(file: BinaryIO) -> None:
        figure: Any = axes.figure
        with rc_context(_PLAIN):
            figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)

    atomic_write(path, write, subject=f"picture {quoted(Path(path).name)}")


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raises UsageError, before any work is done, for a name of another format, or where matplotlib is missing."""
    _format(path)
    require_matplotlib()


def _format(path: str | os.PathLike[str]) -> str:
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        subject = f"picture {quoted(Path(path).name)}"
        hint = "let the name end in .svg, .pdf or .png"
        raise UsageError.of(subject, "not a name of a picture", "pictures are SVG, PDF or PNG", hint)
    return kind
