"""The graph of a network for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nirbridge.report.cards.page_picture import card
from nirbridge.report.html.sections.network import network_drawing
from nirbridge.report.pictures.network_picture import network_picture

if TYPE_CHECKING:
    from nirbridge.network.model import Network


def network_svg(network: Network) -> str:
    """The graph of the page, for a column, with the sentence that says what was folded."""
    drawn = network_picture(network)
    return card(f"graph of {network!r}", (network_drawing(network, drawn), *filter(None, (drawn.remark,))))
