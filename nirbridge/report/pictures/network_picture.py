"""The picture of a network: boxes in rows from the inputs down to the outputs, operators on the arrows between them.

Coordinates are points (1/72 inch), y downwards, for text of ``FONT_POINTS``.
"""

from __future__ import annotations

from dataclasses import dataclass

from nirbridge.errors import counted
from nirbridge.network.model import Network
from nirbridge.report.pictures.labels import COLUMN_POINTS, text_width
from nirbridge.report.pictures.network_layout import LINE, NetworkArrow, NetworkBox, NetworkLayout, OperatorLabel
from nirbridge.report.pictures.network_nodes import drawn_graph

__all__ = ["LINE", "NetworkArrow", "NetworkBox", "NetworkPicture", "OperatorLabel", "network_picture"]

NODES_MAX, ROW_MAX = 12, 4
"""Nodes of a picture and of a row of it, beyond which a network is folded (see ``network_nodes``)."""
LABELS_MAX = (150.0, 100.0, 72.0, 40.0)
"""Widths that texts of arrows are cut to, the first that makes the picture narrow enough."""
_WIDER = 1.08


@dataclass(frozen=True, slots=True)
class NetworkPicture:
    """Boxes and arrows within ``width`` x ``height``; ``remark`` says in a sentence what was folded, if anything."""

    width: float
    height: float
    boxes: tuple[NetworkBox, ...]
    arrows: tuple[NetworkArrow, ...]
    remark: str


def network_picture(
    network: Network, *, width: float = COLUMN_POINTS, nodes_max: int = NODES_MAX, row_max: int = ROW_MAX
) -> NetworkPicture:
    """The picture of a network for a page of ``width`` points: texts are shortened to it."""
    graph = drawn_graph(network, max(3, nodes_max), max(2, row_max))
    layout = NetworkLayout(graph, width, LABELS_MAX[0])
    for label_max in LABELS_MAX[1:]:
        if layout.width > _WIDER * width:
            layout = min(layout, NetworkLayout(graph, width, label_max), key=lambda each: each.width)
    folded = [len(node.members) for node in graph.nodes.values() if len(node.members) > 1]
    remark = f"{sum(folded):,} nodes folded into {counted(len(folded), 'box', 'boxes')}" if folded else ""
    layout.widen(text_width(remark))
    return NetworkPicture(layout.width, layout.height, tuple(layout.boxes()), tuple(layout.arrows()), remark)
