"""Values in a notebook: their picture as inline SVG above the summary, without script, so also where it is not trusted.

Attributes alone give colours and sizes: what removes scripts and styles from a page leaves the picture as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from nirbridge.report.summaries import summary_html

_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00")
_FILL = {"input": "#ffffff", "output": "#ffffff", "population": "#dceaf4", "folded": "#f2f2f2"}


def value_html(value: object) -> str:
    """The picture of the value, where it has one, and its summary."""
    cls = type(value)
    draw = next((_PICTURES[base.__name__] for base in cls.__mro__ if base.__name__ in _PICTURES), None)
    return ("" if draw is None else draw(value)) + summary_html(value)


def _svg(width: float, height: float, label: str, parts: Iterator[str]) -> str:
    """A white ground, so that dark themes leave the picture legible."""
    frame = f'viewBox="-4 -4 {width + 8:.4g} {height + 8:.4g}" width="{1.6 * width:.4g}" role="img"'
    ground = f'<rect x="-4" y="-4" width="{width + 8:.4g}" height="{height + 8:.4g}" fill="#ffffff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} aria-label="{escape(label)}">{ground}{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, weight: str = "normal", anchor: str = "middle") -> str:
    font = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="7" fill="#1a1a1a"'
    return f'<text x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}" font-weight="{weight}" {font}>{escape(text)}</text>'


def _rect(x: float, y: float, size: tuple[float, float], fill: str, stroke: str, more: str = "") -> str:
    place = f'x="{x:.5g}" y="{y:.5g}" width="{size[0]:.5g}" height="{size[1]:.5g}"'
    return f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="0.7"{more}/>'


def _network(network: Any) -> str:
    from nirbridge.report.pictures.network_picture import LINE, network_picture

    drawn = network_picture(network)

    def parts() -> Iterator[str]:
        for arrow in drawn.arrows:
            points = [f"{x:.5g} {y:.5g}" for x, y in arrow.path]
            dashes = ' stroke-dasharray="3 2"' if arrow.closes_cycle else ""
            yield f'<path d="M{points[0]} C{" ".join(points[1:])}" fill="none" stroke="#1a1a1a"{dashes}/>'
            x, y = arrow.path[-1]
            down = 1 if y >= arrow.path[-2][1] else -1
            head = f"{x - 2:.5g} {y - 4 * down:.5g} {x + 2:.5g} {y - 4 * down:.5g} {x:.5g} {y:.5g}"
            yield f'<path d="M{head}Z" fill="#1a1a1a"/>' if arrow.source != arrow.target else ""
            if arrow.label is not None:
                label = arrow.label
                yield _rect(label.x, label.y, (label.width, label.height), "#ffffff", "none")
                yield _text(label.x + label.width / 2, label.y + label.height - 2.5, label.text)
        for box in drawn.boxes:
            dashes = ' rx="2.5"' + (' stroke-dasharray="3 2"' if box.role in ("input", "output") else "")
            yield _rect(box.x, box.y, (box.width, box.height), _FILL[box.role], "#0072b2", dashes)
            for number, line in enumerate(box.lines):
                weight = "normal" if number else "bold"
                yield _text(box.x + box.width / 2, box.y + 1 + LINE * (number + 0.9), line, weight)
        if drawn.remark:
            yield _text(drawn.width / 2, drawn.height + 9, drawn.remark)

    return _svg(drawn.width, drawn.height + (10 if drawn.remark else 0), f"graph of {network!r}", parts())


def _mapped(mapped: Any) -> str:
    from nirbridge.report.pictures.chip_grid import cell_points
    from nirbridge.report.pictures.floorplan_picture import floorplan_picture

    drawn = floorplan_picture(mapped)
    cell = cell_points(drawn.grid)

    def parts() -> Iterator[str]:
        for frame in drawn.grid.frames:
            yield _text(frame.left * cell, frame.top * cell - 2, f"chip {frame.chip}", anchor="start")
        for core in drawn.cells:
            x, y = core.x * cell, core.y * cell
            yield _rect(x, y, (cell, cell), "#d9d9d9" if core.is_dead else "#ffffff", "#a6a6a6")
            for part in core.parts:
                yield _rect(x, y, (cell, part.share * cell), _COLOURS[part.population % len(_COLOURS)], "#1a1a1a")
                if part.share * cell >= 8:
                    yield _text(x + cell / 2, y + part.share * cell / 2 + 2.5, str(part.population + 1))
                y += part.share * cell

    return _svg(drawn.grid.width * cell, drawn.grid.height * cell, f"floor plan of {mapped!r}", parts())


_PICTURES: Mapping[str, Callable[[Any], str]] = {"Network": _network, "MappedNetwork": _mapped}
"""Class -> its picture."""
