"""Figures of networks and maps: what is drawn, read back from the axes, against the value itself."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips.model import CoreId
from nirbridge.mapping.cost import ENERGY_FIGURES, TIME_FIGURES
from nirbridge.pipeline import network_of_shapes
from nirbridge.report.html.document import map_html
from nirbridge.report.html.page import COLOURS, asset
from nirbridge.report.pictures.bar_pictures import KINDS
from nirbridge.report.pictures.network_picture import network_picture
from nirbridge.report.plots import style
from nirbridge.report.plots.style import save_picture
from tests.report.pictures.drawn_networks import HOSTILE, NETWORKS

pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")

CHIP = nb.chip("loihi1")


@pytest.fixture(scope="module")
def mapped() -> nb.MappedNetwork:
    mesh = replace(CHIP.mesh, width_tiles=2, height_tiles=2, cores_per_tile=3, chips_max=4)
    chip = replace(CHIP, core=replace(CHIP.core, neurons=24), mesh=mesh, dead_cores=(CoreId(0, 1, 0, 1),))
    network = network_of_shapes("1x8x8 conv8k3 if conv4k3 if flatten dense20 if dense6 if")
    return nb.map(network, chip, chips=4, objective="traffic")


def texts(axes: Any) -> list[str]:
    found = [text.get_text() for text in axes.texts]
    found += [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title)]
    return found + ([t.get_text() for t in axes.get_legend().get_texts()] if axes.get_legend() else [])


def outside(axes: Any) -> list[str]:
    """Texts that reach out of the figure, after it was drawn; numbers of an axis beyond its limits are not drawn."""
    figure = axes.figure
    figure.savefig(io.BytesIO(), format="png")
    drawn = [*axes.texts, axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label]
    drawn += [] if axes.get_legend() is None else axes.get_legend().get_texts()
    for axis, place in ((axes.xaxis, 0), (axes.yaxis, 1)):
        low, high = sorted(axis.get_view_interval())
        drawn += [label for label in axis.get_majorticklabels() if low <= label.get_position()[place] <= high]
    frame = figure.bbox.padded(2)
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn if text.get_text()]
    return [text for text, box in boxes if not (frame.contains(*box.min) and frame.contains(*box.max))]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_its_boxes_and_texts(name: str) -> None:
    network = NETWORKS[name]()
    axes, picture = nb.plot_network(network), network_picture(network)
    boxes = [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]
    arrows = [p for p in axes.patches if type(p).__name__ == "FancyArrowPatch"]
    assert (len(boxes), len(arrows)) == (len(picture.boxes), len(picture.arrows))
    shown = texts(axes)
    for box in picture.boxes:
        assert box.lines[-1] in shown
    assert [p.get_linestyle() for p in arrows].count("--") == sum(a.closes_cycle for a in picture.arrows)
    assert not picture.remark or picture.remark in shown
    assert outside(axes) == []
    figure: Any = axes.figure
    assert figure.get_size_inches()[0] * 2.54 < 10


def test_every_core_has_the_stripes_of_its_populations(mapped: nb.MappedNetwork) -> None:
    axes = nb.plot_floorplan(mapped)
    stripes = sum(len({s.population for s in block.slices}) for block in mapped.partition.blocks)
    patches: list[Any] = list(axes.patches)
    coloured = [p for p in patches if p.get_facecolor()[:3] != (1, 1, 1) and p.get_width() != 10]
    assert len(coloured) == stripes
    by_colour = Counter(p.get_facecolor() for p in coloured)
    cores = [
        sum(p.name in {s.population for s in b.slices} for b in mapped.partition.blocks)
        for p in mapped.network.populations
    ]
    assert sorted(by_colour.values()) == sorted(cores)
    for p, count in zip(mapped.network.populations, cores, strict=True):
        assert any(f"'{p.name}', {nb.errors.counted(count, 'core')}" in text for text in texts(axes))
    assert len(axes.lines) == 2  # the cross of the dead core
    assert "chip 0" in texts(axes)
    assert outside(axes) == []


def test_cores_are_filled_as_high_as_they_are_full(mapped: nb.MappedNetwork) -> None:
    from nirbridge.report.map_facts import core_rows

    axes = nb.plot_floorplan(mapped, color="resource")
    patches: list[Any] = list(axes.patches)
    side = max(p.get_width() for p in patches if p.get_facecolor()[:3] == (1, 1, 1))
    heights = [p.get_height() / side for p in patches if p.get_facecolor()[:3] != (1, 1, 1) and p.get_width() == side]
    assert sorted(heights) == pytest.approx(sorted(min(1, row.share) for row in core_rows(mapped)))
    with pytest.raises(nb.errors.UsageError, match="color.*'population', 'resource'"):
        nb.plot_floorplan(mapped, color="layer")  # pyright: ignore[reportArgumentType]


def test_the_busiest_link_is_named(mapped: nb.MappedNetwork) -> None:
    axes = nb.plot_traffic(mapped)
    busiest = mapped.costs.max_link_load_spikes_per_step
    assert any(text.startswith("busiest link: ") and f"{busiest:.4g} spikes" in text for text in texts(axes))
    widths = [p.get_linewidth() for p in axes.patches if type(p).__name__ == "FancyArrowPatch"]
    assert max(widths) == 2.5
    assert widths == sorted(widths)
    assert outside(axes) == []


def test_the_matrix_is_that_of_the_traffic(mapped: nb.MappedNetwork) -> None:
    from nirbridge.report.pictures.map_pictures import traffic_matrix

    axes = nb.plot_traffic(mapped, show="matrix")
    image: Any = axes.images[0]
    assert np.array_equal(image.get_array(), traffic_matrix(mapped).spikes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("destination core", "source core")
    assert axes.figure.axes[1].get_ylabel() == "spikes per time step"


def test_the_proof_has_a_bar_for_each_bound(mapped: nb.MappedNetwork) -> None:
    report = replace(mapped.partition.report, cores=16, cores_lower_bound=14, bounds={"neurons": 14, "patterns": 3})
    report = replace(report, cores_lower_bound_sliced=15, binding="neurons", status="feasible")
    axes = nb.plot_proof(replace(mapped.partition, report=report))
    assert [bar.get_width() for bar in axes.patches[:4]] == [16, 15, 14, 3]
    labels = ["cores used", "bound: partitions searched", "bound: neurons", "bound: patterns"]
    assert [t.get_text() for t in axes.get_yticklabels()] == labels
    assert {"14, decides", "gap 2"} <= set(texts(axes))
    assert axes.get_xlabel() == "cores"
    assert "16 cores, at most 2 above the optimum" in axes.get_title(loc="right")
    assert outside(axes) == []


def test_energy_is_stacked_to_its_total(mapped: nb.MappedNetwork) -> None:
    axes = nb.plot_energy(mapped)
    bars: list[Any] = [p for p in axes.patches if p.get_height() == 0.6]
    energy = [bar.get_width() for bar in bars if abs(bar.get_y() + 0.3) < 0.01]
    values = [v for v in mapped.costs.energy_breakdown_j.values() if v > 0]
    assert energy == pytest.approx([100 * v / sum(values) for v in values])
    assert axes.get_xlabel() == "share of a time step's total (%)"
    assert outside(axes) == []
    costs = replace(mapped.costs, energy_breakdown_j={}, time_breakdown_s={})
    with pytest.raises(nb.errors.UsageError, match="has no figures of energy or time"):
        nb.plot_energy(replace(mapped, costs=costs))


def _renamed(network: nb.Network, names: dict[str, str]) -> nb.Network:
    populations = tuple(replace(p, name=names.get(p.name, p.name)) for p in network.populations)
    ends = [(names.get(p.source, p.source), names.get(p.target, p.target)) for p in network.projections]
    projections = tuple(
        replace(p, source=source, target=target) for p, (source, target) in zip(network.projections, ends, strict=True)
    )
    return replace(network, populations=populations, projections=projections)


def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    """Nothing in a name is mathematics, TeX or markup: SVG files are well formed and hold no element of a name."""
    network = network_of_shapes("6 dense6 if dense6 if dense6 if dense6 if dense6 if dense6 if")
    network = _renamed(network, dict(zip([p.name for p in network.populations], HOSTILE, strict=True)))
    chip = replace(CHIP, name=HOSTILE[1], core=replace(CHIP.core, neurons=4))
    mapped = nb.map(network, chip)
    run = nb.simulate(network, np.ones((8, 6), np.uint8), record="*:s,v")
    drawn = {
        "network": nb.plot_network(mapped),
        "floorplan": mapped.plot_floorplan(),
        "traffic": mapped.plot_traffic(),
        "matrix": nb.plot_traffic(mapped, show="matrix"),
        "raster": nb.plot_raster(run),
        "one": nb.plot_raster(run, HOSTILE[1]),
        "traces": nb.plot_traces(run, HOSTILE[1], [0, 1], threshold=1.0),
        "difference": nb.plot_difference(run, run, HOSTILE[1]),
    }
    for name, axes in drawn.items():
        assert name == "matrix" or any("$\\frac{1}{" in text for text in texts(axes)), name
        for kind in ("svg", "pdf", "png"):
            save_picture(axes, tmp_path / f"{name}.{kind}")
        tree = ElementTree.parse(tmp_path / f"{name}.svg")
        assert {e.tag.partition("}")[2] for e in tree.iter()}.isdisjoint({"script", "foreignObject", "a"})
        assert not re.search(r"\son\w+=", (tmp_path / f"{name}.svg").read_text())
        assert outside(axes) == [], name


def test_the_same_picture_is_the_same_file(mapped: nb.MappedNetwork, tmp_path: Path) -> None:
    for kind in ("svg", "pdf", "png"):
        for number in (1, 2):
            save_picture(nb.plot_floorplan(mapped), tmp_path / f"{number}.{kind}")
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()


@pytest.mark.parametrize("name", ["a.jpg", "a", "svg", "a.svg.gz", ".png"])
def test_other_endings_are_refused(name: str, mapped: nb.MappedNetwork, tmp_path: Path) -> None:
    with pytest.raises(nb.errors.UsageError, match="not a name of a picture, pictures are SVG, PDF or PNG"):
        save_picture(nb.plot_proof(mapped), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_axes_that_are_given_are_drawn_on(mapped: nb.MappedNetwork) -> None:
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    name, values = "a", np.ones((8, 3), np.uint8)
    run = nb.Recording({(name, "s"): values, (name, "v"): values / 2}, {"dt": 1e-3, "steps": 8})
    subplots = list(Figure(figsize=(9, 9)).subplots(3, 3).flat)
    drawn = [
        nb.plot_network(mapped, ax=subplots[0]),
        nb.plot_floorplan(mapped, ax=subplots[1]),
        nb.plot_traffic(mapped, ax=subplots[2]),
        nb.plot_proof(mapped, ax=subplots[3]),
        nb.plot_energy(mapped, ax=subplots[4]),
        nb.plot_raster(run, ax=subplots[5]),
        nb.plot_traces(run, name, ax=subplots[6]),
        nb.plot_difference(nb.compare(run, run), node=name, ax=subplots[7]),
        nb.plot_difference(run, run, name, ax=subplots[8]),
    ]
    assert drawn == subplots
    with pytest.raises(nb.errors.UsageError, match="b: is missing"):
        nb.plot_difference(run)


def test_without_matplotlib_every_function_names_the_extra(
    mapped: nb.MappedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    run = nb.simulate(network_of_shapes("4 dense3 lif"), np.ones((8, 4), np.uint8), record="2_lif:s,v")
    for draw in (nb.plot_network, nb.plot_floorplan, nb.plot_traffic, nb.plot_proof, nb.plot_energy):
        with pytest.raises(nb.errors.UsageError, match=r"matplotlib is not installed; pip install 'nirbridge\[plot\]'"):
            draw(mapped)  # pyright: ignore[reportArgumentType]
    for draw, *rest in ((nb.plot_raster,), (nb.plot_traces, "2_lif"), (nb.plot_difference, run)):
        with pytest.raises(nb.errors.UsageError, match="matplotlib is not installed"):
            draw(run, *rest)


def test_a_picture_of_what_is_no_value_is_refused(mapped: nb.MappedNetwork) -> None:
    with pytest.raises(nb.errors.UsageError, match="plot_floorplan.., mapped: a Network"):
        nb.plot_floorplan(mapped.network)  # pyright: ignore[reportArgumentType]
    with pytest.raises(nb.errors.UsageError):
        nb.plot_network(3)
    quantized = nb.quantize(mapped.network, "loihi1")
    assert len(nb.plot_network(quantized).patches) == len(nb.plot_network(mapped).patches)


def test_long_names_that_differ_have_labels_that_differ() -> None:
    names = [f"encoder.block_{k}.residual_branch.spiking_neurons_after_batch_norm" for k in (10, 11, 12)]
    network = network_of_shapes("6 dense6 if dense6 if dense6 if")
    network = _renamed(network, dict(zip([p.name for p in network.populations], names, strict=True)))
    run = nb.simulate(network, np.ones((8, 6), np.uint8), record="*:s")
    for axes in (nb.plot_profile(nb.profile(network, CHIP, np.ones((9, 6)))), nb.plot_raster(run, names)):
        labels = [label.get_text().split("\n")[0] for label in axes.get_yticklabels()]
        assert len(set(labels)) == len(names)
        assert all(label.startswith(f"…1{k}.re") for k, label in enumerate(labels))
        assert outside(axes) == []
    shown = run._repr_html_()
    drawn = b64decode(re.findall(r"base64,([^\"]+)", shown)[0]).decode()
    assert len(set(re.findall(r">(…1[0-2][^<]*…[^<]*norm)<", drawn))) == len(names)


# -- colours -------------------------------------------------------------------------------------------------------


def page_colour(name: str) -> str:
    """The light colour of a variable or class of the page's style."""
    found = re.search(rf"[-.]{name}(?:: | {{ [a-z]+: )light-dark\((#[0-9a-f]{{6}}),", asset("page.css"))
    assert found, name
    return found[1]


def test_areas_and_events_have_the_colours_of_the_page() -> None:
    assert list(style.PALETTE) == [page_colour(f"c{k}") for k in range(COLOURS)]
    pairs = {"ink": style.INK, "muted": style.GREY, "fill": style.BLUE, "full": style.FULL}
    pairs |= {"only-a": style.FIRST, "only-b": style.SECOND, "trace0": style.FIRST, "trace1": style.SECOND}
    assert {name: page_colour(name) for name in pairs} == pairs


def test_a_kind_of_event_has_one_colour_in_every_picture(mapped: nb.MappedNetwork) -> None:
    assert set(KINDS) == {*ENERGY_FIGURES, *TIME_FIGURES}
    profile = nb.profile(network_of_shapes("6 dense6 if dense3 if"), "loihi1", np.ones((9, 6)))
    colours: dict[str, set[Any]] = {}
    for axes in (nb.plot_energy(mapped), nb.plot_profile(profile)):
        legend: Any = axes.get_legend()
        for patch, text in zip(legend.get_patches(), legend.get_texts(), strict=True):
            look = patch.get_facecolor(), patch.get_hatch()
            colours.setdefault(text.get_text().partition(":")[0], set()).add(look)
    assert set(colours) > {"neuron updates", "barrier"}
    assert all(len(looks) == 1 for looks in colours.values())
    assert len(set.union(*colours.values())) == len(colours)
    page = map_html(mapped, title="m")
    fills = re.findall(r'fill="(url\(#p\d\d\))" class="edge"/></svg> ([a-z ]+)</th>', page)
    assert len({kind for _, kind in fills}) == len(set(fills)) < len(fills)  # energy and time share kinds
