"""Pictures in a notebook: well formed, without script, every name in them plain text, counts as in the data."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips.model import CoreId
from nirbridge.mapping.storage.record import SliceRecord
from nirbridge.network.operators import Dense
from nirbridge.pipeline import network_of_shapes
from nirbridge.report import notebook
from nirbridge.report.html.page import DEAD, asset, paint
from nirbridge.report.html.sections.quantization import weight_errors
from nirbridge.report.pictures.bar_pictures import proof_picture
from nirbridge.report.pictures.map_pictures import floorplan_picture
from nirbridge.report.pictures.network_picture import network_picture
from nirbridge.verification.verify import Verification
from tests.report.pictures.drawn_networks import NETWORKS

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>\"'&\n\x00\x1b[31m" + "x" * 1000
ATTRIBUTES, WORDS = re.compile("[a-zA-Z][a-zA-Z0-9-]*"), re.compile("[a-z][a-z0-9 -]*")
TAGS = ("svg", "g", "defs", "marker", "pattern", "style", "rect", "circle", "text", "path")


def image_of(value: Any) -> str | None:
    """The SVG of the card, of an ``img`` with two attributes; None where there is no picture."""
    shown = value._repr_html_()
    assert len(shown.encode()) <= notebook.BYTES_MAX
    assert shown.count("<img") <= 1
    if "<img" not in shown:
        return None
    found = re.search(r'</div><img src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)" alt="([^"<>]*)"/>', shown)
    assert found
    assert unescape(found[2]) == repr(value)
    return b64decode(found[1]).decode()


def picture_of(value: Any) -> ElementTree.Element:
    drawn = image_of(value)
    assert drawn is not None
    return ElementTree.fromstring(drawn)


def texts(svg: ElementTree.Element) -> list[str]:
    return [e.text or "" for e in svg.iter(SVG + "text")]


def subpaths(svg: ElementTree.Element, **attributes: str) -> int:
    """Parts of all paths with these attributes."""
    chosen = (e for e in svg.iter(SVG + "path") if all(e.get(k.rstrip("_")) == v for k, v in attributes.items()))
    return sum(e.get("d", "").count("M") for e in chosen)


def of_class(svg: ElementTree.Element, name: str) -> int:
    """Elements of this class."""
    return sum(name in e.get("class", "").split() for e in svg.iter())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_a_box_for_each_node(name: str) -> None:
    network = NETWORKS[name]()
    svg, drawn = picture_of(network), network_picture(network)
    assert all(line in texts(svg) for box in drawn.boxes for line in box.lines)
    assert of_class(svg, "shape") == len(drawn.boxes)
    assert of_class(svg, "edge-line") == len(drawn.arrows)
    assert of_class(svg, "edge-back") == sum(arrow.label is not None for arrow in drawn.arrows)
    assert drawn.remark in (*texts(svg), "")


def test_a_map_has_a_square_for_each_core_and_each_part(tmp_path: Path) -> None:
    mapped = nb.map(network_of_shapes("16 dense32 lif dense10 lif"), "loihi1")
    drawn = floorplan_picture(mapped)
    svg, parts = picture_of(mapped), sum(len(cell.parts) for cell in drawn.cells)
    assert subpaths(svg, class_="outline") == drawn.cores_used
    assert subpaths(svg, class_="free") == len(drawn.cells) - drawn.cores_used
    assert sum(subpaths(svg, fill=paint(k)) for k in range(len(drawn.populations))) == parts > 1
    mapped.save(tmp_path / "m.map.json")
    record = nb.load_map(tmp_path / "m.map.json")
    saved, label = image_of(record), "aria-label"
    assert saved is not None
    first, second = ElementTree.fromstring(saved), picture_of(mapped)
    assert [(e.tag, {**e.attrib, label: ""}, e.text) for e in first.iter()] == [
        (e.tag, {**e.attrib, label: ""}, e.text) for e in second.iter()
    ]
    elsewhere = tuple(replace(b, core=b.core._replace(x=99)) for b in record.blocks)
    assert image_of(replace(record, blocks=elsewhere)) is None
    assert image_of(replace(record, blocks=())) is None
    assert image_of(replace(record, chip={"name": "x"})) is None


def test_a_map_of_many_cores_has_a_square_for_each(tmp_path: Path) -> None:
    nb.map(network_of_shapes("16 dense32 lif dense10 lif"), "loihi1").save(tmp_path / "m.map.json")
    record = nb.load_map(tmp_path / "m.map.json")
    names = [p.name for p in record.populations]
    sizes = np.random.default_rng(0).permutation(200).reshape(100, 2).tolist()
    blocks = tuple(
        replace(
            record.blocks[0],
            core=CoreId(k % 2, k // 2 % 8, k // 16 % 4, k // 64),
            slices=tuple(SliceRecord(name, ((0, n),), None) for name, n in zip(names, pair, strict=True)),
        )
        for k, pair in enumerate(sizes)
    )
    svg = picture_of(replace(record, blocks=blocks, chips=2))
    held = {name: sum(pair[k] > 0 for pair in sizes) for k, name in enumerate(names)}
    assert [subpaths(svg, fill=paint(k)) for k in (0, 1)] == [held[name] for name in names]
    assert subpaths(svg, class_="free") == 2 * 128 - 100
    assert {"chip 0: 50 cores used", "chip 1: 50 cores used"} <= set(texts(svg))


@pytest.mark.parametrize(
    ("mesh", "shown"),
    [
        ((8, 16, 1), 128),
        ((1, 1, 1), 1),
        ((64, 64, 4), 1024),
        ((3, 5, 2), 30),
        ((1, 1, 3000), 1200),
        ((4000, 1, 1), 62),
    ],
)
def test_a_chip_has_a_square_for_each_core(mesh: tuple[int, int, int], shown: int) -> None:
    chip = nb.chip("loihi1")
    sizes = dict(zip(("width_tiles", "height_tiles", "cores_per_tile"), mesh, strict=True))
    chip = replace(chip, mesh=replace(chip.mesh, **sizes))
    assert subpaths(picture_of(chip), class_="free") == shown
    assert any(line.startswith("shown") for line in texts(picture_of(chip))) == (shown < int(np.prod(mesh)))
    if shown == 30:
        dead = replace(chip, dead_cores=(CoreId(0, 1, 2, 1),))
        assert [subpaths(picture_of(dead), **kind) for kind in ({"fill": DEAD}, {"class_": "free"})] == [1, 29]


# -- events ------------------------------------------------------------------------------------------------------


def recording(arrays: Mapping[str, Any], **meta: Any) -> nb.Recording:
    return nb.Recording(MappingProxyType({(n, "s"): a for n, a in arrays.items()}), MappingProxyType(meta))


def test_a_raster_has_a_mark_for_each_spike() -> None:
    spikes = (np.random.default_rng(0).random((50, 6, 4)) < 0.2).astype(np.uint8)
    run = recording({"a": spikes, "b": 0 * spikes})
    svg = picture_of(run)
    assert subpaths(svg, class_="mark") == int(spikes.sum())
    said = {f"24 neurons, {int(spikes.sum())} events", "24 neurons, 0 events"}
    assert {"a", "b", *said, "time step"} <= set(texts(svg))


def test_a_large_raster_is_binned_and_says_so() -> None:
    run = recording({f"n{k}": np.ones((200, 3, 1000), np.uint8) for k in range(20)}, batch=3)
    svg = picture_of(run)
    assert 0 < subpaths(svg, class_="mark") <= notebook.POINTS_MAX
    assert {"shown: the first 12 of 20 nodes", "shown: sample 0 of the batch"} <= set(texts(svg))
    (said,) = (line for line in texts(svg) if line.startswith("n11, "))
    cell = re.fullmatch("n11, a cell: ([0-9]+) neurons × ([0-9]+) time steps, fullest: ([0-9,]+) events", said)
    assert cell
    neurons, steps, most = (int(n.replace(",", "")) for n in cell.groups())
    assert most == neurons * steps  # every neuron fires in every time step
    last = [e.get("d", "") for e in svg.iter(SVG + "path") if e.get("class") == "mark"][-1]
    assert sum(map(float, re.findall("h([0-9.]+)", last))) == pytest.approx(780 * (1000 // neurons), rel=0.1)


def test_a_single_spike_of_a_long_run_is_large_enough_to_see() -> None:
    spikes = np.zeros((100_000, 20), np.uint8)
    spikes[4321, 7] = 1
    (mark,) = (e for e in picture_of(recording({"a": spikes})).iter(SVG + "path") if e.get("class") == "mark")
    tall = float(re.fullmatch(r"M[0-9.]+ [0-9.]+v([0-9.]+)", mark.get("d", ""))[1])  # pyright: ignore[reportOptionalSubscript]
    assert (float(mark.get("stroke-width", 0)) >= 3, tall >= 8) == (True, True)


@pytest.mark.parametrize(
    "empty",
    [
        {},
        {"a": np.zeros((5, 0), np.uint8)},
        {"a": np.zeros((), np.uint8)},
    ],
)
def test_a_recording_without_neurons_has_words_alone(empty: dict[str, Any]) -> None:
    assert image_of(recording(empty)) is None


def test_a_recording_without_time_steps_or_with_an_impossible_clock() -> None:
    assert image_of(recording({"a": np.zeros((0, 3), np.uint8)})) is not None
    ones = {"a": np.ones((2, 3), np.uint8)}
    assert image_of(recording(ones, first_step=10**30)) is None
    assert image_of(recording(ones, every={"a/s": 10**30})) is None
    assert image_of(recording(ones, first_step="x")) is None
    late = recording(ones, first_step=10**30), recording({"a": 1 - ones["a"]}, first_step=10**30)
    assert "different, 0.00%" in texts(picture_of(nb.compare(*late, latency=0)))
    assert image_of(recording(ones, first_step=10**9)) is not None
    assert image_of(nb.Recording({("a", "v"): np.ones((2, 3))}, {})) is None


def test_a_difference_has_a_mark_for_each_spike_of_either() -> None:
    a = (np.random.default_rng(1).random((40, 9)) < 0.2).astype(np.uint8)
    a[7, 3], a[9:11, 4] = 1, 0
    b = a.copy()
    b[7, 3], b[9:11, 4] = 0, 1
    svg = picture_of(nb.compare(recording({"n": a}), recording({"n": b}), latency=0))
    alone = 1, 2
    both = int((a & b).sum())
    said = {f"only in A, or more: {alone[0]}", f"only in B, or more: {alone[1]}", f"in both: {both}"}
    assert {*said, "'n': spikes first differ at time step 7, neuron (3)"} <= set(texts(svg))
    marks = [subpaths(svg, class_=f"diff {kind}") for kind in ("both", "only-a", "only-b")]
    assert marks == [both + 1, alone[0] + 1, alone[1] + 1]  # and those of the legend


def test_one_difference_among_many_spikes_is_drawn() -> None:
    a = np.ones((200, 500), np.uint8)
    b = a.copy()
    b[100, 333] = 0
    compared = nb.compare(recording({"n": a}), recording({"n": b}), latency=0)
    svg = picture_of(compared)
    assert subpaths(svg, class_="diff only-a") == 2
    bare = picture_of(replace(compared, recordings=None))
    assert "different, 100.00%" in texts(bare)


@pytest.fixture(scope="module")
def verified() -> Verification:
    x = (np.random.default_rng(0).random((30, 8)) < 0.3).astype(np.uint8)
    return nb.verify(network_of_shapes("8 dense12 lif dense4 lif"), "loihi2", x)


def test_a_verification_shows_its_first_difference_else_its_pairs(verified: Verification) -> None:
    differs = [pair for pair in verified.pairs if not pair.comparison.equal]
    assert any(
        "spikes first differ" in line or "no spike differs" in line for line in texts(picture_of(verified))
    ) == bool(differs)
    equal = tuple(pair for pair in verified.pairs if pair.comparison.equal)
    assert equal
    svg = picture_of(replace(verified, pairs=equal))
    assert texts(svg).count("equal") == len(equal)
    assert [of_class(svg, kind) for kind in ("track", "fill", "full")] == [len(equal), len(equal), 0]


# -- bars --------------------------------------------------------------------------------------------------------


def test_a_partition_has_a_bar_for_each_bound() -> None:
    partition = nb.check_fit(network_of_shapes("16 dense32 lif dense10 lif"), "loihi1")
    proof, svg = proof_picture(partition), picture_of(partition)
    drawn = [of_class(svg, f"bar-{kind}") for kind in ("found", "bound", "decides")]
    assert drawn == [1, sum(not bar.decides for bar in proof.bars) - 1, sum(bar.decides for bar in proof.bars)]
    assert sum(line.endswith("decides") for line in texts(svg)) == sum(bar.decides for bar in proof.bars)
    assert proof.sentence in texts(svg)


def test_a_quantized_network_has_a_histogram_for_each_projection(tmp_path: Path) -> None:
    network, rng = network_of_shapes("16 dense32 lif dense10 lif"), np.random.default_rng(0)
    shapes = [(p.operator.output_shape[0], p.operator.input_shape[0]) for p in network.projections[:2]]
    dense = [
        replace(p, operator=Dense(rng.normal(size=shape)))
        for p, shape in zip(network.projections[:2], shapes, strict=True)
    ]
    quantized = nb.quantize(replace(network, projections=(*dense, *network.projections[2:])), "loihi2")
    counts = [np.histogram(np.clip(e, -1, 1), bins=20, range=(-1, 1))[0] for _, e in weight_errors(quantized)]
    assert len(counts) == 2
    drawn = [p.get("d", "") for p in picture_of(quantized).iter(SVG + "path") if p.get("class") == "fill"]
    heights = [[float(h) for h in re.findall(r"h8v([0-9.]+)h", d)] for d in drawn]
    assert heights == [pytest.approx((66 * n[n > 0] / n.max()).tolist(), abs=0.005) for n in counts]
    assert max(map(len, heights)) > 3
    quantized.save(tmp_path / "q.q.npz")
    read = nb.load_quantized(tmp_path / "q.q.npz")
    weights = sum(len(layer.weights) for layer in read.report)
    assert weights == 2
    assert of_class(picture_of(read), "fill") == weights
    assert image_of(replace(read, report=())) is None


# -- all ---------------------------------------------------------------------------------------------------------


def hostile_values() -> dict[str, Any]:
    network = network_of_shapes("4 dense3 lif dense2 lif")
    old = network.populations[0].name

    def named(name: str) -> str:
        return HOSTILE if name == old else name

    network = replace(
        network,
        populations=tuple(replace(p, name=named(p.name)) for p in network.populations),
        projections=tuple(replace(p, source=named(p.source), target=named(p.target)) for p in network.projections),
    )
    a = np.ones((4, 3), np.uint8)
    b = a.copy()
    b[1, 1] = 0
    first = recording({HOSTILE: a})
    quantized = nb.quantize(network, "loihi1")
    return {
        "network": network,
        "mapped": nb.map(network, "loihi1"),
        "partition": nb.check_fit(network, "loihi1"),
        "chip": replace(nb.chip("loihi1"), name=HOSTILE),
        "quantized": quantized,
        "quantized report": replace(quantized, network=None),
        "recording": first,
        "comparison": nb.compare(first, recording({HOSTILE: b}), latency=0),
        "bars": replace(nb.compare(first, recording({HOSTILE: b}), latency=0), recordings=None),
        "verification": nb.verify(network, "loihi1", np.ones((4, 4), np.uint8)),
    }


def test_hostile_names_are_text_and_pictures_are_the_same_each_time() -> None:
    for kind, value in hostile_values().items():
        drawn = image_of(value)
        assert drawn is not None, kind
        root = ElementTree.fromstring(drawn)
        assert {e.tag for e in root.iter()} <= {SVG + tag for tag in TAGS}, kind
        ids = {f"url(#{e.get('id')})" for e in root.iter()}
        for element in root.iter():
            for key, said in element.attrib.items():
                assert ATTRIBUTES.fullmatch(key), kind
                assert not key.startswith("on"), kind
                assert key not in ("style", "href"), kind
                assert key not in ("class", "id") or WORDS.fullmatch(said), kind
                assert "url(" not in said or key in ("aria-label", "data-node") or said in ids, kind
        style = "".join(e.text or "" for e in root.iter(SVG + "style"))
        style, dark = style.split("@media (prefers-color-scheme: dark) {")
        assert all(rule in asset("page.css") for rule in re.findall("[^{}]+{", style + dark[:-1])), kind
        assert not re.search(r"url|@|http|var\(|light-dark", style + dark), kind
        assert all(line.isprintable() and len(line) < 130 for line in texts(root)), kind
        assert image_of(value) == drawn, kind


def test_what_is_too_large_is_left_out_and_the_card_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = nb.chip("loihi1")
    assert image_of(chip) is not None
    assert "too large" not in chip._repr_html_()
    monkeypatch.setattr(notebook, "BYTES_MAX", 3000)
    assert image_of(chip) is None
    assert "3 sections too large for a card: print(value.summary())" in chip._repr_html_()
    wide = recording({HOSTILE + str(k): np.ones((3, 2), np.uint8) for k in range(300)})
    monkeypatch.setattr(notebook, "BYTES_MAX", 60_000)
    assert len(wide._repr_html_().encode()) <= 60_000
    assert "… and 270 more rows" in wide._repr_html_()


def test_a_card_has_sections_that_fold_with_a_row_for_each_part() -> None:
    network = network_of_shapes("16 dense32 lif dense10 lif")
    card = network._repr_html_()
    sections = re.findall(r"<details( open)?><summary>([^<]*)</summary>(.*?)</details>", card, re.DOTALL)
    names = [name for _, name, _ in sections]
    assert names[:3] == ["populations (2)", "projections (3)", "inputs and outputs (2)"]
    assert names[-1] == "summary as text"
    assert [bool(is_open) for is_open, *_ in sections][:3] == [True, True, False]
    rows = [re.findall("<td[^>]*>([^<]*)</td>", row) for row in re.findall("<tr>(.*?)</tr>", sections[0][2])]
    assert rows[1:] == [["2_lif", "LIF", "32", "32", "yes", "1"], ["4_lif", "LIF", "10", "10", "yes", "1"]]
    run = nb.simulate(network, np.ones((9, 16)), record="*:s,v")
    shown = run._repr_html_()
    for (node, variable), array in run.arrays.items():
        spikes = f'<td class="n">{int(array.sum()):,}</td>' if variable == "s" else '<td class="n"></td>'
        row = rf"<td>{node}</td><td>{variable}</td><td>9x[0-9]+</td><td>{array.dtype}</td>.*?{spikes}</tr>"
        assert re.search(row, shown), (node, variable)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.5])
def test_a_card_of_graded_values_counts_no_spikes(value: float) -> None:
    shown = recording({"n": np.array([[value, 0.0]])}, steps=HOSTILE, dt=[HOSTILE], batch=value)._repr_html_()
    assert '<td class="n">0.5</td>' in shown or value != 0.5
    assert "<th" in shown
    assert ">spikes</th>" not in shown
    assert "<script" not in shown


def test_the_rules_of_a_card_are_of_its_class_alone() -> None:
    (style,) = re.findall("<style>(.*?)</style>", nb.chip("loihi1")._repr_html_())
    selectors = [each for rule in re.findall("([^{}]+){[^{}]*}", style) for each in rule.split(",")]
    assert len(selectors) > 5
    assert all(re.fullmatch(r"\.nirbridge-card( [a-z. ]+)?", each) for each in selectors)
    assert not re.search(r"url|@|http|position", style)


def test_values_without_a_picture_have_their_words() -> None:
    network = network_of_shapes("4 dense3 lif")
    for value in (
        network.timing,
        network.populations[0],
        network.projections[0],
        nb.MapOptions(),
        nb.Probe("a", ("s",)),
    ):
        assert image_of(value) is None


def test_a_card_shows_nothing_beside_itself_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Jupyter rich shows an output of its own, here an empty one, unless it is told where its text goes."""
    import rich.console
    import rich.jupyter

    shown: list[object] = []
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(rich.jupyter, "display", lambda *parts: shown.append(parts))
    network = network_of_shapes("4 dense3 lif")
    for value in (network, nb.map(network, "loihi2")):
        assert "3 neurons" in value._repr_html_()
    assert shown == []
