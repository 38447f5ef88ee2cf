"""Fills of layers and resources: a colour and a texture each, so that they differ without colour, too."""

from __future__ import annotations

from collections.abc import Iterable

from nirbridge.report.html.tags import Markup, tag

COLOURS = 8
_TEXTURES = (
    "",
    "M-2 2l4-4M0 8l8-8M6 10l4-4",
    "M2 2h2v2h-2zM6 6h2v2h-2z",
    "M0 2h8M0 6h8",
    "M-2 6l4 4M0 0l8 8M6-2l4 4",
    "M2 0v8M6 0v8",
    "M0 4h8M4 0v8",
    "M0 0l8 8M8 0l-8 8",
)
FREE, DEAD = "url(#free)", "url(#dead)"


def paint(index: int) -> str:
    """The fill of a layer or resource by its number: 64 pairs of a colour and a texture, then again from the start."""
    return f"url(#{_name(index)})"


def _name(index: int) -> str:
    return f"p{index % COLOURS}{(index + index // COLOURS) % len(_TEXTURES)}"


def paints(count: int) -> list[str]:
    """The names of the fills of ``count`` layers, and of that of dead cores."""
    return [*(_name(k) for k in range(min(count, 64))), "dead"]


def pattern_definitions(names: Iterable[str]) -> Markup:
    """These fills, for every picture of a page."""
    patterns = [_pattern(n, *(("dead", 7) if n == "dead" else (f"c{n[1]}", int(n[2])))) for n in names]
    return tag(
        "svg", tag("defs", patterns), class_="defs", width="0", height="0", aria_hidden="true", focusable="false"
    )


def _pattern(name: str, colour: str, texture: int) -> Markup:
    lines = tag("path", d=_TEXTURES[texture], class_="texture") if texture else None
    back = tag("rect", width="8", height="8", class_=colour)
    return tag("pattern", back, lines, id=name, width="8", height="8", patternUnits="userSpaceOnUse")


def swatch(index: int) -> Markup:
    """A small sample of a fill, for a legend."""
    return sample(tag("rect", x="0.5", y="0.5", width="23", height="15", fill=paint(index), class_="edge"))


def sample(mark: Markup) -> Markup:
    """A mark of 24 x 16 for a legend."""
    return tag("svg", mark, viewBox="0 0 24 16", width="24", height="16", class_="swatch", aria_hidden="true")
