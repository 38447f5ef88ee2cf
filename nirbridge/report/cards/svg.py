"""Parts of SVG as text: every colour and size an attribute, every text escaped, on a white ground."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape

from nirbridge.report.pictures.labels import fitted_label

INK, GREY, PALE, BLUE, ORANGE, RED = "#1a1a1a", "#a6a6a6", "#d9d9d9", "#0072b2", "#e69f00", "#c0392b"
WHITE = "#ffffff"
_SCALE = 1.6
"""Pixels for a point: text of 7 points is legible."""


def svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """The picture on a white ground, so that dark themes leave it legible."""
    box = f'viewBox="-4 -4 {width + 8:.4g} {height + 8:.4g}"'
    size = f'width="{_SCALE * (width + 8):.4g}" height="{_SCALE * (height + 8):.4g}"'
    ground = f'<rect x="-4" y="-4" width="{width + 8:.4g}" height="{height + 8:.4g}" fill="{WHITE}"/>'
    font = f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="7" fill="{INK}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {size} {font} role="img" aria-label="{escape(label)}">'
    return f"{opening}{ground}{''.join(parts)}</svg>"


def image(drawn: str, label: str) -> str:
    """The picture as an ``img``: JupyterLab removes ``svg`` from notebooks that it does not trust, and keeps images."""
    data = b64encode(drawn.encode()).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(label)}"/>'


def text(x: float, y: float, said: str, *, anchor: str = "middle", bold: bool = False) -> str:
    """A line of text in the font of the picture; ``y`` is its base line."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}"{weight}>{escape(said)}</text>'


def fitted(x: float, y: float, name: str, width: float, *, anchor: str = "start", bold: bool = False) -> str:
    """A name from a file on one line of at most ``width`` points."""
    return text(x, y, fitted_label(name, width / (1.13 if bold else 1.0)), anchor=anchor, bold=bold)


def rect(x: float, y: float, size: tuple[float, float], fill: str, stroke: str, more: str = "") -> str:
    """A rectangle with a thin line."""
    place = f'x="{x:.5g}" y="{y:.5g}" width="{size[0]:.5g}" height="{size[1]:.5g}"'
    return f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="0.7"{more}/>'


def path(steps: Iterable[str], *, fill: str = "none", stroke: str = "none", width: float = 0.7) -> str:
    """One path of many parts; empty for none."""
    d = "".join(steps)
    return f'<path d="{d}" fill="{fill}" stroke="{stroke}" stroke-width="{width:.3g}"/>' if d else ""


def square(x: float, y: float, side: float) -> str:
    """A part of a path."""
    return f"M{x:.4g} {y:.4g}h{side:.4g}v{side:.4g}h-{side:.4g}z"
