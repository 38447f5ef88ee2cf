"""Parts of pictures that several sections draw: bars on a track, texts, paths of many rectangles."""

from __future__ import annotations

from collections.abc import Iterable

from nirbridge.report.html.tags import Child, Markup, number, short, tag


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
