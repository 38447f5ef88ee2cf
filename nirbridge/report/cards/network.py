"""The graph of a network for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nirbridge.report.cards.svg import BLUE, INK, WHITE, path, rect, svg, text
from nirbridge.report.pictures.network_picture import LINE, network_picture

if TYPE_CHECKING:
    from nirbridge.network.model import Network

_FILL = {"input": WHITE, "output": WHITE, "population": "#dceaf4", "folded": "#f2f2f2"}


def network_svg(network: Network) -> str:
    """Boxes of populations in rows, arrows of projections; cycles and ports are dashed."""
    drawn = network_picture(network)

    def parts() -> Iterator[str]:
        for arrow in drawn.arrows:
            points = [f"{x:.5g} {y:.5g}" for x, y in arrow.path]
            dashes = ' stroke-dasharray="3 2"' if arrow.closes_cycle else ""
            yield f'<path d="M{points[0]} C{" ".join(points[1:])}" fill="none" stroke="{INK}"{dashes}/>'
            x, y = arrow.path[-1]
            down = 1 if y >= arrow.path[-2][1] else -1
            head = f"M{x - 2:.5g} {y - 4 * down:.5g} {x + 2:.5g} {y - 4 * down:.5g} {x:.5g} {y:.5g}Z"
            yield path([head], fill=INK) if arrow.source != arrow.target else ""
            if arrow.label is not None:
                label = arrow.label
                yield rect(label.x, label.y, (label.width, label.height), WHITE, "none")
                yield text(label.x + label.width / 2, label.y + label.height - 2.5, label.text)
        for box in drawn.boxes:
            dashes = ' rx="2.5"' + (' stroke-dasharray="3 2"' if box.role in ("input", "output") else "")
            yield rect(box.x, box.y, (box.width, box.height), _FILL[box.role], BLUE, dashes)
            for number, line in enumerate(box.lines):
                yield text(box.x + box.width / 2, box.y + 1 + LINE * (number + 0.9), line, bold=not number)
        if drawn.remark:
            yield text(drawn.width / 2, drawn.height + 9, drawn.remark)

    return svg(drawn.width, drawn.height + (10 if drawn.remark else 0), f"graph of {network!r}", parts())
