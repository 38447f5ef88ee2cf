"""Geometry of the picture of a network: nothing overlaps, nothing is outside, everything of the network is there."""

from __future__ import annotations

import itertools

import pytest

from nirbridge.network.model import Network
from nirbridge.report.pictures.labels import BOLD, fitted_label, text_width
from nirbridge.report.pictures.network_picture import (
    GAP,
    LINE_HEIGHT,
    NetworkPicture,
    Slot,
    connect,
    fitted_arrow_text,
    network_picture,
    place_slots,
)
from tests.report.pictures.drawn_networks import HOSTILE, NETWORKS, network_of_arcs

Rectangle = tuple[float, float, float, float]


def rectangles(picture: NetworkPicture) -> list[Rectangle]:
    """Boxes and labels: left, top, right, bottom."""
    labels = [arrow.label for arrow in picture.arrows if arrow.label is not None]
    return [(r.x, r.y, r.x + r.width, r.y + r.height) for r in (*picture.boxes, *labels)]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return min(a[2], b[2]) - max(a[0], b[0]) > 1e-6 and min(a[3], b[3]) - max(a[1], b[1]) > 1e-6


def inside_of_box(path: tuple[tuple[float, float], ...], box: Rectangle) -> bool:
    """A point of the curves is well within the box."""
    for k in range(0, len(path) - 1, 3):
        for n in range(21):
            t = n / 20
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (sum(w * path[k + i][axis] for i, w in enumerate(weights)) for axis in (0, 1))
            if box[0] + 0.5 < x < box[2] - 0.5 and box[1] + 0.5 < y < box[3] - 0.5:
                return True
    return False


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("sizes", [(12, 4), (1000, 1000)])
def test_nothing_overlaps_and_nothing_is_cut_off(name: str, sizes: tuple[int, int]) -> None:
    if sizes[0] > 100 and len(NETWORKS[name]().populations) > 50:
        sizes = (40, 30)
    picture = network_picture(NETWORKS[name](), nodes_max=sizes[0], row_max=sizes[1])
    found = rectangles(picture)
    assert not [pair for pair in itertools.combinations(found, 2) if overlap(*pair)]
    for left, top, right, bottom in found:
        assert left > -1e-6
        assert top > -1e-6
        assert right < picture.width + 1e-6
        assert bottom < picture.height + 1e-6
    for box in picture.boxes:
        assert BOLD * text_width(box.lines[0]) <= box.width
        assert max(map(text_width, box.lines[1:])) <= box.width
        assert len(box.lines) * LINE_HEIGHT <= box.height
        assert all(line.isprintable() and line for line in box.lines)
    boxes = found[: len(picture.boxes)]
    for arrow in picture.arrows:
        assert not any(inside_of_box(arrow.path, box) for box in boxes)
        assert arrow.label is None or text_width(arrow.label.text) <= arrow.label.width


@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_is_in_one_box_and_every_projection_is_an_arrow(name: str) -> None:
    network = NETWORKS[name]()
    picture = network_picture(network)
    members = [member for box in picture.boxes for member in box.members]
    ends = [p.name for p in (*network.inputs, *network.populations, *network.outputs)]
    assert sorted(members) == sorted(ends)
    assert sum(box.neurons for box in picture.boxes) == network.neurons
    assert len(picture.boxes) <= 12
    of = {member: box.name for box in picture.boxes for member in box.members}
    expected = {
        (of[p.source], of[p.target])
        for p in network.projections
        if of[p.source] != of[p.target] or p.source == of[p.source] == p.target
    }
    assert {(arrow.source, arrow.target) for arrow in picture.arrows} == expected
    assert (picture.remark == "") == (len(picture.boxes) == len(ends))


def test_arrows_go_down_except_those_that_close_a_cycle() -> None:
    picture = network_picture(NETWORKS["cycles"]())
    closing = {(a.source, a.target) for a in picture.arrows if a.closes_cycle}
    back = {("feedback", "encoder"), ("readout", "reservoir")}
    assert closing == back | {("reservoir", "reservoir"), ("readout", "readout")}
    middle = {box.name: box.y + box.height / 2 for box in picture.boxes}
    for arrow in picture.arrows:
        if not arrow.closes_cycle:
            assert middle[arrow.source] < middle[arrow.target]
    box = {b.name: b for b in picture.boxes}["encoder"]
    back_arrow = next(a for a in picture.arrows if (a.source, a.target) == ("feedback", "encoder"))
    assert back_arrow.path[-1][1] == pytest.approx(box.y)
    assert box.x < back_arrow.path[-1][0] < box.x + box.width


def test_texts_are_those_of_the_network() -> None:
    picture = network_picture(NETWORKS["skips"]())
    assert {a.text for a in picture.arrows if a.source == "a"} == {"dense 8→8", "dense 8→2, delay 3"}
    assert {box.name: box.lines for box in picture.boxes}["d"] == ("d", "LIF, 2 neurons")
    assert {box.name: (box.role, box.lines[1]) for box in picture.boxes if box.role != "population"} == {
        "in": ("input", "input 4"),
        "out": ("output", "output 2"),
    }
    identity = next(a for a in picture.arrows if a.target == "out")
    assert (identity.text, identity.label) == ("", None)


def test_alike_populations_of_a_chain_are_folded_first() -> None:
    picture = network_picture(NETWORKS["chain of 100"]())
    assert [box.lines[0] for box in picture.boxes] == ["in", "l0", "l1 … l99", "out"]
    folded = picture.boxes[2]
    assert (folded.role, folded.neurons, len(folded.members)) == ("folded", 99 * 8, 99)
    assert folded.lines[1] == "99 populations, each LIF, 8 neurons"
    assert picture.remark == "99 nodes folded into 1 box"
    side = network_picture(NETWORKS["100 side by side"]())
    assert [len(box.members) for box in side.boxes if box.role == "folded"] == [97]
    assert len(network_picture(NETWORKS["chain of 100"](), nodes_max=200).boxes) == 102


def test_rows_in_the_middle_are_folded_last() -> None:
    picture = network_picture(NETWORKS["different sizes"](), nodes_max=6)
    assert len(picture.boxes) <= 6
    assert max(len(box.members) for box in picture.boxes) > 90
    assert any(box.lines[-1].endswith("neurons") for box in picture.boxes if box.role == "folded")


def test_several_projections_of_two_populations_are_one_arrow() -> None:
    network: Network = network_of_arcs(
        {"a": 3, "b": 3}, [("in", "a", 0), ("a", "b", 0), ("a", "b", 2), ("b", "out", 0)]
    )
    assert [a.text for a in network_picture(network).arrows if a.source == "a"] == ["2 projections"]


def test_recurrence_of_folded_populations_is_said() -> None:
    names = [f"r{k}" for k in range(20)]
    arcs = [("in", "r0", 0), *((a, b, 0) for a, b in itertools.pairwise(names)), *((n, n, 1) for n in names)]
    picture = network_picture(network_of_arcs(dict.fromkeys(names, 5), arcs))
    assert next(box.lines[-1] for box in picture.boxes if box.role == "folded").endswith("recurrent")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("width", [20.0, 60.0, 200.0])
def test_a_label_fits_and_keeps_both_ends(name: str, width: float) -> None:
    label = fitted_label(name, width)
    assert text_width(label) <= width
    assert label.isprintable()
    if label != name and width > 20 and len(name) == 1000:
        assert label.startswith("x")
        assert label.endswith("x")
        assert text_width(label) > width - 2 * text_width("x")


def test_a_cut_text_of_an_arrow_keeps_its_delay() -> None:
    text = "dense 12,345→12,345, delay 17"
    assert fitted_arrow_text(text, 200) == text
    assert fitted_arrow_text(text, 80).endswith(", delay 17")
    assert fitted_arrow_text(text, 40) == "delay 17"
    assert all(text_width(fitted_arrow_text(text, w)) <= w for w in range(20, 140, 7))
    assert fitted_arrow_text("", 40) == ""


def test_labels_are_as_wide_as_the_font_draws_them() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.font_manager import FontProperties  # pyright: ignore[reportMissingImports]
    from matplotlib.textpath import TextPath  # pyright: ignore[reportMissingImports]

    texts = ["conv 3×3, stride 2 · sum pool 2×2", "LIF 16×16×16, 4,096 neurons", "WWW mmm @@", "Großbuchstaben ÄÖÜ"]
    texts += ["average pool 2×2 · dense 64→10", "the quick brown fox jumps", "0123456789 (…)", "HIJKLMNOPQRSTUVXYZ"]
    for weight, factor in (("normal", 1.0), ("bold", BOLD)):
        font = FontProperties(family="DejaVu Sans", size=7, weight=weight)
        for text in texts:
            box = TextPath((0, 0), text, prop=font, usetex=False).get_extents()
            assert box.width <= factor * text_width(text) <= 1.25 * box.width


def test_order_has_no_crossing_where_none_is_needed() -> None:
    upper, lower = [Slot(0, 5, 5) for _ in range(3)], [Slot(1, 5, 5) for _ in range(3)]
    for a, b in ((0, 2), (1, 1), (2, 0)):
        connect(upper[a], lower[b])
    rows = place_slots([*upper, *lower])
    assert [lower.index(slot) for slot in rows[1]] == [upper.index(slot) for slot in rows[0]][::-1]
    for row in rows:
        assert all(b.x - a.x >= a.right + b.left + GAP - 1e-9 for a, b in itertools.pairwise(row))
    for a, b in ((0, 2), (1, 1), (2, 0)):
        assert upper[a].x == pytest.approx(lower[b].x)


def test_a_picture_is_the_same_each_time() -> None:
    for name in ("cycles", "different sizes"):
        assert network_picture(NETWORKS[name]()) == network_picture(NETWORKS[name]())
