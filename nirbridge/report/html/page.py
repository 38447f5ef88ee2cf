"""HTML and SVG from Python, the frame of a page (head, security policy, navigation), and the sources of a report."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge._version import __version__
from nirbridge.files.regular import template_text
from nirbridge.report.map_facts import one_line

if TYPE_CHECKING:
    from nirbridge.comparison.types import Comparison
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its anchor, heading, one sentence that says the result, and its content."""

    anchor: str
    heading: str
    lead: str
    body: Child


def page(title: str, facts: Sequence[str], sections: Sequence[Section], data: Mapping[str, Any]) -> str:
    """A self-contained HTML document; ``data`` is for its script, as JSON that is never run."""
    style, script = asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}';"
        " base-uri 'none'; form-action 'none'"
    )
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"nirbridge {__version__}"),
        tag("title", short(title)),
        tag("style", Markup(style)),
    ]
    body = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        _header(title, facts),
        _navigation(sections) if len(sections) > 1 else None,
        tag("main", map(_section, sections), id="content", tabindex="-1"),
        tag("footer", tag("p", f"Made by nirbridge {__version__}. This page is one file and loads nothing.")),
        tag("script", Markup(_json(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    ]
    inner = joined((tag("head", head), Markup("\n"), tag("body", body)))
    return f'<!doctype html>\n<html lang="en">{inner}</html>\n'


def _header(title: str, facts: Sequence[str]) -> Markup:
    button = tag("button", "Dark", type="button", id="theme", aria_pressed="false", hidden=True)
    return tag(
        "header",
        tag("div", tag("h1", short(title, 100)), button, class_="title"),
        tag("p", (tag("span", fact) for fact in facts), class_="under"),
    )


def _navigation(sections: Sequence[Section]) -> Markup:
    links = (tag("li", tag("a", section.heading, href=f"#{section.anchor}")) for section in sections)
    return tag("nav", tag("ul", links), aria_label="Sections")


def _section(section: Section) -> Markup:
    heading = tag("h2", section.heading)
    lead = tag("p", section.lead, class_="lead") if section.lead else None
    return tag("section", heading, lead, section.body, id=section.anchor)


def _json(data: Mapping[str, Any]) -> str:
    """JSON inside a script element: no ``<``, so that nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """The style or the script of every page."""
    return template_text(files("nirbridge.report.html").joinpath(name))


# -- sources -------------------------------------------------------------------------------------------------------
# Everything that a report is about: values of the stages of one model.


@dataclass(frozen=True, slots=True, eq=False)
class ReportSources:
    """Parts of a report; None or empty: there is none, and its sections are left out.

    ``network``: the model as it was read; ``mapped`` holds the network as it is mapped. ``recordings`` by name.
    ``remarks``: sentences on how the parts belong together. ``viewer``: the viewer's page beside it.
    """

    title: str
    network: Network | None = None
    mapped: MappedNetwork | None = None
    partition: Partition | None = None
    quantized: QuantizedNetwork | None = None
    verification: Verification | None = None
    comparison: Comparison | None = None
    recordings: Mapping[str, Recording] = field(default_factory=lambda: MappingProxyType({}))
    circuit: Artifact | None = None
    remarks: tuple[str, ...] = ()
    viewer: str = ""

    @property
    def drawn(self) -> Network | None:
        """The network of the picture: that of the map where there is one, since its populations are those of cores."""
        return self.network if self.mapped is None else self.mapped.network


# -- tags ----------------------------------------------------------------------------------------------------------
# HTML and SVG from Python: text is escaped unless it is ``Markup``, so that names from files never become markup.


NAME_MAX = 60
"""Characters of a name in a table; longer ones are cut in their middle, and whole in the panel of details."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | Iterable["Child"] | None
_VOID = frozenset({"meta", "br", "input", "col", "rect", "path", "line", "circle", "use", "polyline"})


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. ``class_`` is ``class``, ``data_core`` ``data-core``; None and False leave an attribute out."""
    given = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    inner = joined(children)
    if name in _VOID and not inner:
        return Markup(f"<{name}{given}>" if name in ("meta", "br", "input", "col") else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{inner}</{name}>")


def joined(children: Child) -> Markup:
    """Children one after the other; plain text is made printable and escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int):
        return Markup(escape(one_line(children), quote=False))
    return Markup("".join(map(joined, children)))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = number(value) if isinstance(value, float) else one_line(str(value))
    return f' {name}="{escape(text)}"'


def number(value: float) -> str:
    """A coordinate: at most two digits after the point."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def short(name: str, length: int = NAME_MAX) -> str:
    """A name as one printable line, cut in its middle."""
    text = one_line(name if len(name) <= 4 * length else f"{name[: 2 * length]}…{name[-2 * length :]}") or "''"
    if len(text) <= length:
        return text
    tail = length // 2
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[Child]], align: str = "l", *, sort: bool = False
) -> Markup:
    """A table with a caption; ``align``: ``l`` or ``r`` for each column, the last one for the rest.

    The first column has the headings of the rows. ``sort``: the script makes the headings buttons.
    """
    sides = align + align[-1] * len(headings)
    kinds = ["n" if side == "r" else None for side in sides]
    # a column of bars has no heading of its own: its numbers stand beside it
    head = [
        tag("th", text, scope="col", class_=kind) if text else tag("td", class_=kind)
        for text, kind in zip(headings, kinds, strict=False)
    ]
    body = [
        tag(
            "tr",
            (
                tag("th", cell, scope="row", class_=kind) if not position else tag("td", cell, class_=kind)
                for position, (cell, kind) in enumerate(zip(row, kinds, strict=False))
            ),
        )
        for row in rows
    ]
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body), data_sort=sort)
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def remark(said: str) -> Markup:
    """A sentence below a picture or a table."""
    return tag("p", said, class_="note")


def facts(rows: Iterable[tuple[str, Child]]) -> Markup:
    """Labels and what they say."""
    return tag("dl", (tag("div", tag("dt", label), tag("dd", said)) for label, said in rows), class_="facts")


def folded(summary: str, *inner: Child) -> Markup:
    """A heading that opens to more, such as the table of a picture."""
    return tag("details", tag("summary", summary), *inner)


def listed(lines: Iterable[str]) -> Markup:
    """Sentences as a list."""
    return tag("ul", (tag("li", line) for line in lines))


# -- svg -----------------------------------------------------------------------------------------------------------
# Parts of pictures that several sections draw: texts, rectangles, bars, tracks, fills, samples of a legend.
#
# Fills of layers and resources are a colour and a texture each, so that they differ without colour, too.


class Picture(Markup):
    """An ``svg`` that knows its size in pixels, so that a card can put it below others."""

    __slots__ = ("height", "width")

    width: float
    height: float


def svg(width: float, height: float, *inner: Child, view: str = "", **attributes: str | None) -> Picture:
    """An ``svg`` of this size; ``view`` is its view box where lengths within are not pixels."""
    box = view or f"0 0 {number(width)} {number(height)}"
    drawn = Picture(tag("svg", *inner, viewBox=box, width=width, height=height, **attributes))
    drawn.width, drawn.height = width, height
    return drawn


def picture(width: float, height: float, *inner: Child, label: str, class_: str = "") -> Picture:
    """A picture with a text for readers who do not see it; it shrinks with the page and never grows."""
    return svg(width, height, *inner, role="img", aria_label=label, class_=f"picture {class_}".strip())


def text(x: float, y: float, said: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """A line of text; ``y`` is its base line."""
    return tag("text", said, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


def track(x: float, y: float, size: tuple[float, float], name: str, said: str) -> Markup:
    """A track with its name and words about it at its left."""
    middle = y + size[1] / 2
    return tag(
        "g",
        tag("rect", x=x, y=y, width=size[0], height=size[1], class_="track"),
        text(x - 8, middle - 3, short(name, 22), anchor="end", class_="strong"),
        text(x - 8, middle + 11, said, anchor="end", class_="small"),
    )


def rectangles(boxes: Iterable[tuple[float, float, float, float]], **attributes: str) -> Markup | None:
    """Many rectangles (x, y, width, height) as one path; None for none."""
    parts = [f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes]
    return tag("path", d="".join(parts), **attributes) if parts else None


def bar(share: float | None, *, mean: float | None = None, says: str, full: bool = False) -> Markup | None:
    """A bar on a track of 160: how much of a limit is used, with a tick at the mean over all cores."""
    if share is None:
        return None
    filled = tag("rect", width=160 * min(max(share, 0.0), 1.0), height="12", class_="fill full" if full else "fill")
    tick = None if mean is None else tag("path", d=f"M{number(160 * min(mean, 1.0))} -2v16", class_="tick")
    track = tag("rect", width="160", height="12", class_="track")
    return picture(162, 16, tag("g", track, filled, tick, transform="translate(1 2)"), label=says, class_="bar")


def explored(name: str, drawn: Markup, label: str) -> Markup:
    """A picture that the script makes readable with mouse and arrow keys; ``NAME-status`` says how."""
    return tag(
        "div",
        tag("div", drawn, class_="inner"),
        id=name,
        class_="scroll map",
        role="application",
        tabindex="0",
        aria_label=label,
        aria_describedby=f"{name}-status",
    )


def scrolled(drawn: Markup, label: str) -> Markup:
    """A wide picture in a window of its own."""
    return tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=label)


# -- fills ------------------------------------------------------------------------------------------------------------


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
