"""One style of all figures (sizes for a printed column, a palette for colour-blind readers), and figures as files.

Colours of lines are those of M. Okabe and K. Ito, "Color universal design", 2008, those of areas the page's; hatches
and marks repeat what they say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nirbridge.errors import UsageError, quoted
from nirbridge.files.atomic import atomic_write
from nirbridge.report.pictures.labels import COLUMN_POINTS, FONT_POINTS, fitted_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]


POINTS = 72.0
WIDTH = COLUMN_POINTS / POINTS
"""Width of a figure in inches: a printed column."""
TEXT, SMALL = FONT_POINTS, 6.0
INK, GREY, PALE, LINE = "#111111", "#525a63", "#f2f2f2", "#a6a6a6"
STRONG = (*("#56b4e9", "#e69f00", "#009e73", "#c9b800", "#0072b2", "#d55e00", "#cc79a7", "#6b6b6b"),)
"""Colours of lines and marks; those of areas, in the same order, are ``PALETTE``, which the page has too."""
BLUE, RED = STRONG[4:6]
FIRST, SECOND = RED, BLUE
"""What the first of two recordings has alone, and the second one."""
FULL = "#a83c00"
"""What limits: the bound that decides, the busiest link."""
PALETTE = (*("#a9d5f5", "#f9c56d", "#8edbb6", "#f4ec85", "#a9bcf7", "#f7a98b", "#e8b6da", "#cdd3d9"),)
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx")
_LAST_CHARACTER = 0x24F
"""Up to here (Latin) every usual font has the letters; others in names are escaped, as a missing letter is a box."""
_DRAWN = frozenset("…×→−")
_BELOW_AXES = 25.0
"""From the axes down to a legend, with the numbers and the label of the axis between them, in points."""


def require_matplotlib() -> None:
    """Raises UsageError, with the extra to install, where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise UsageError.of("pictures", "matplotlib is not installed", "", "pip install 'nirbridge[plot]'")


def axes_for(ax: Axes | None, height: float, width: float = WIDTH, *, filled: bool = False) -> Axes:
    """``ax``, or the axes of a new figure of ``width`` x ``height`` inches; ``filled``: they fill it.

    In a notebook, and where ``matplotlib.pyplot`` is in use, the figure is one of pyplot's, so that it is shown; else
    it belongs to no window and no global state.
    """
    if ax is not None:
        return ax
    require_matplotlib()
    import sys

    if "matplotlib.pyplot" in sys.modules or "ipykernel" in sys.modules:
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=(width, height), layout=None if filled else "constrained")
    else:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

        figure = Figure(figsize=(width, height), layout=None if filled else "constrained")
    return figure.add_axes((0, 0, 1, 1)) if filled else figure.add_subplot()


def drawn_name(name: str, width: float, size: float = TEXT) -> str:
    """A name in letters that the font can draw, others escaped, of at most ``width`` points."""
    known = (c if ord(c) <= _LAST_CHARACTER or c in _DRAWN else c.encode("unicode_escape").decode() for c in name[:400])
    return fitted_label("".join(known), width, size)


def put_text(axes: Axes, x: float, y: float, text: str, *, size: float = TEXT, **options: Any) -> Any:
    """A text in which nothing is markup, neither mathematics nor TeX."""
    return axes.text(x, y, text, fontsize=size, parse_math=False, usetex=False, **{"color": INK, **options})


def plain(texts: Sequence[Any], size: float = TEXT) -> None:
    """The texts of an axis or a legend: of one size, nothing in them markup."""
    for text in texts:
        text.set(parse_math=False, usetex=False, fontsize=size)


def put_title(axes: Axes, text: str, size: float = TEXT) -> None:
    """A title in which nothing is markup."""
    axes.set_title(text, fontsize=size, parse_math=False, usetex=False)


def style_axes(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Labels and thin lines; no title without a text."""
    axes.set_xlabel(x, fontsize=TEXT, parse_math=False, usetex=False)
    axes.set_ylabel(y, fontsize=TEXT, parse_math=False, usetex=False)
    if title:
        put_title(axes, title)
    axes.tick_params(labelsize=SMALL, width=0.5, length=2.5, color=GREY)
    for side, spine in axes.spines.items():
        spine.set(linewidth=0.5, color=GREY, visible=side in ("left", "bottom"))


def bare_axes(axes: Axes, width: float, height: float) -> None:
    """Axes of a drawing in points: no ticks, y downwards, nothing stretched."""
    axes.set(xlim=(-1, width + 1), ylim=(height + 1, -1), aspect="equal", xticks=(), yticks=())
    axes.set_axis_off()


def put_legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str], *, columns: int = 2) -> None:
    """A legend below the axes; labels may begin with any character, and are never markup."""
    from matplotlib.transforms import offset_copy  # pyright: ignore[reportMissingImports]

    figure: Any = axes.figure
    box = axes.legend(
        handles,
        [str(number) for number in range(len(labels))],
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=offset_copy(axes.transAxes, fig=figure, y=-_BELOW_AXES, units="points"),
        ncols=columns,
        fontsize=SMALL,
        frameon=False,
        handlelength=1.6,
        handleheight=1.1,
        columnspacing=1.2,
        labelspacing=0.35,
        borderaxespad=0.2,
    )
    for text, label in zip(box.get_texts(), labels, strict=True):
        text.set(text=label, parse_math=False, usetex=False)


_RAMP = ((0.93, 0.96, 0.98), (0.60, 0.79, 0.88), (0.26, 0.57, 0.78), (0.03, 0.30, 0.58), (0.02, 0.12, 0.28))


def ramp_colour(share: float) -> tuple[float, float, float]:
    """From pale to dark blue, in even steps of lightness: the order is kept in print and without colour vision."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    part = place - low
    first, second = _RAMP[low], _RAMP[low + 1]
    r, g, b = ((1 - part) * x + part * y for x, y in zip(first, second, strict=True))
    return r, g, b


def shade_map(color: str) -> Any:
    """Shades of a colour for shares of the most: even the least is told from the white ground."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb  # pyright: ignore[reportMissingImports]

    least = tuple(1 - 0.4 * (1 - part) for part in to_rgb(color))
    return LinearSegmentedColormap.from_list("shades", (least, color))


# -- files ---------------------------------------------------------------------------------------------------------
# Figures as files: PNG, PDF or SVG by the ending of the name, the same bytes for the same picture.


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
