"""HTML and SVG from Python: text is escaped unless it is ``Markup``, so that names from files never become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from nirbridge.report.map_facts import one_line

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
