"""Pictures in a notebook: well formed, without script, every name in them plain text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import nirbridge as nb
from nirbridge.pipeline import network_of_shapes
from nirbridge.report.pictures.floorplan_picture import floorplan_picture
from nirbridge.report.pictures.network_picture import network_picture
from tests.report.pictures.drawn_networks import NETWORKS

SVG = "{http://www.w3.org/2000/svg}"


def picture_of(value: nb.Network | nb.MappedNetwork) -> ElementTree.Element:
    drawn, found, _ = value._repr_html_().partition("</svg>")
    return ElementTree.fromstring(drawn + found)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_a_box_for_each_node(name: str) -> None:
    network = NETWORKS[name]()
    svg, drawn = picture_of(network), network_picture(network)
    assert {e.tag for e in svg.iter()} <= {SVG + tag for tag in ("svg", "rect", "text", "path")}
    texts = [e.text for e in svg.iter(SVG + "text")]
    assert all(line in texts for box in drawn.boxes for line in box.lines)
    labels = sum(arrow.label is not None for arrow in drawn.arrows)
    assert len(list(svg.iter(SVG + "rect"))) == 1 + len(drawn.boxes) + labels


def test_a_map_has_a_square_for_each_core_and_each_part() -> None:
    mapped = nb.map(network_of_shapes("16 dense32 lif dense10 lif"), "loihi1")
    drawn = floorplan_picture(mapped)
    parts = sum(len(cell.parts) for cell in drawn.cells)
    assert len(list(picture_of(mapped).iter(SVG + "rect"))) == 1 + drawn.cores_drawn + parts
    assert mapped._repr_html_() == mapped._repr_html_()
