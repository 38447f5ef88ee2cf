"""Pictures of the page as cards: the same drawings, with the page's light colours inside of them, on white."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from nirbridge.report.html.page import asset
from nirbridge.report.html.patterns import pattern_definitions
from nirbridge.report.html.svg import Picture, svg, text
from nirbridge.report.html.tags import Child, Markup, number, tag
from nirbridge.report.pictures.labels import fitted_label

WIDTH, _MARGIN, _APART, _LINE, _TEXT = 480.0, 6.0, 8.0, 17.0, 12.0
"""Least width, margin, space between pictures, height of a line of text, and its size in pixels."""


def card(label: str, parts: Iterable[Picture | str]) -> str:
    """Pictures and lines of text, one below the other; the ground is white, so that dark themes leave it legible."""
    given = list(parts)
    width = max((part.width for part in given if isinstance(part, Picture)), default=WIDTH)
    width, top = max(WIDTH, width), 0.0
    inner: list[Child] = []
    for part in given:
        if isinstance(part, Picture):
            inner.append(tag("g", part, transform=f"translate(0 {number(top)})"))
            top += part.height + _APART
        else:
            inner.append(text(0, top + _TEXT, fitted_label(part, width, _TEXT)))
            top += _LINE
    wide, tall = width + 2 * _MARGIN, top + 2 * _MARGIN
    place = {"x": -_MARGIN, "y": -_MARGIN, "width": wide, "height": tall}
    ground = tag("rect", **place, class_="plate")
    view = f"{number(-_MARGIN)} {number(-_MARGIN)} {number(wide)} {number(tall)}"
    body = tag("g", ground, _patterns("".join(map(str, inner))), inner)
    return svg(
        wide, tall, _style(body), body, view=view, xmlns="http://www.w3.org/2000/svg", role="img", aria_label=label
    )


def beside(pictures: Sequence[Picture], columns: int) -> Picture:
    """Pictures of one size as one, row by row."""
    wide, tall = pictures[0].width + _APART, pictures[0].height + _APART
    places = (divmod(k, columns)[::-1] for k in range(len(pictures)))
    inner = [
        tag("g", each, transform=f"translate({number(column * wide)} {number(row * tall)})")
        for each, (column, row) in zip(pictures, places, strict=True)
    ]
    return svg(min(columns, len(pictures)) * wide, -(-len(pictures) // columns) * tall, inner)


def _patterns(drawn: str) -> Markup | None:
    """The fills that are used."""
    used = set(re.findall(r"url\(#(p\d\d|dead)\)", drawn))
    return pattern_definitions(sorted(used)) if used else None


def _style(drawn: str) -> Markup:
    """The rules of the page for what is drawn."""
    used = {word for words in re.findall(r'class="([^"]*)"', drawn) for word in words.split()}
    return tag("style", Markup("".join(rule for rule, names in _rules() if not names or names & used)))


@cache
def _rules() -> list[tuple[str, set[str]]]:
    """The page's rules for pictures with the light one of two colours, and the classes that each of them names."""
    style = re.sub(r"light-dark\(([^,()]+), [^()]+\)", r"\1", asset("page.css"))
    values = dict(re.findall(r"--([a-z]+): ([^;]+);", style))
    style = style[style.index("\nsvg {") : style.index("\n@media")]
    style = re.sub(r"var\(--([a-z]+)\)", lambda found: values[found[1]], style)
    return [
        (rule, set(re.findall(r"\.([a-z][\w-]*)", rule.split("{")[0]))) for rule in re.findall(r"[^{}]+{[^}]*}", style)
    ]
