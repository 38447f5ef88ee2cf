"""Pages as text: self-contained, escaped, the same every time, of bounded size; and what their sections say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import CoreId, EnergyFigures, TimeFigures
from nirbridge.cli.main import run
from nirbridge.comparison.distances import RecordedSteps
from nirbridge.report.html.document import map_html, report_html, value_html
from nirbridge.report.html.events import round_steps
from nirbridge.report.html.page import ReportSources, number, short, tag
from nirbridge.report.html.sections.floorplan import Plan, link_name, load_class, plan_picture, wedge
from nirbridge.report.html.sections.quantization import weight_errors
from nirbridge.report.html.sections.recordings import trace_of
from nirbridge.report.html.sections.traffic import Scale, drawn_matrix, map_matrix, scale_of, traffic_section
from nirbridge.report.html.sections.verification import agreement_over_time
from nirbridge.report.map_facts import percent
from nirbridge.report.pictures.map_pictures import SCREEN, TrafficMatrix, chip_layout, traffic_picture
from nirbridge.simulators.types import Recording
from tests.report.html.pages import MODEL, NAMES, Reader, cores_in_order, everything, hostile, placed


def data_of(page: str) -> Any:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]


@pytest.mark.parametrize("sources", [everything, hostile], ids=["everything", "hostile"])
def test_a_page_loads_nothing_and_runs_its_own_script_alone(sources: Any) -> None:
    page = report_html(sources())
    reader = Reader(page)
    names = Counter(name for name, _ in reader.tags)
    assert not {"link", "img", "iframe", "object", "base", "form"} & set(names)
    attributes = {name for _, given in reader.tags for name in given}
    assert not {"src", "style", "srcdoc", "action"} & attributes
    assert not [name for name in attributes if name.startswith("on")]
    hrefs = [given["href"] for _, given in reader.tags if "href" in given]
    assert all(href.startswith("#") for href in hrefs)
    assert set(re.findall(r"url\((.)", page)) == {"#"}
    policy = next(given["content"] for name, given in reader.tags if given.get("http-equiv"))
    bodies = [re.search(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)[1] for name in ("script", "style")]  # type: ignore[index]
    digests = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{digests[0]}'",
        f"style-src 'sha256-{digests[1]}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert names["script"] == 2  # the script, and data that no browser runs


def test_every_anchor_and_label_leads_somewhere() -> None:
    reader = Reader(report_html(everything()))
    ids = Counter(given["id"] for _, given in reader.tags if "id" in given)
    assert max(ids.values()) == 1
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        assert {given[attribute] for _, given in reader.tags if attribute in given} <= set(ids)
    assert {given["href"][1:] for _, given in reader.tags if "href" in given} <= set(ids)
    fills = {given["fill"] for _, given in reader.tags if given.get("fill", "").startswith("url")}
    assert fills <= {f"url(#{each})" for each in ids}


def test_names_from_files_are_text() -> None:
    page = report_html(hostile())
    reader = Reader(page)
    assert "<script>alert(1)</script>" in reader.text
    assert "n" * 100 not in reader.text  # shortened wherever it is shown
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert set(data_of(page)["nodes"]) >= {NAMES[0], NAMES[2], "名前"}


@pytest.mark.parametrize("blocks", [100, 2100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_sizes_of_pages(blocks: int) -> None:
    mapped = placed(("a", "b", "c", "d"), blocks, "crossbar256", 3 if blocks > 4096 else 1)
    page = map_html(mapped)
    limit = 1_000_000 if blocks == 100 else 5_000_000
    assert len(page.encode()) < limit
    data = data_of(page)
    assert len(data["plan"]["cores"]) == min(blocks, 2000)
    assert sum("r" in core for core in data["plan"]["cores"]) == min(blocks, 500)
    assert (f"The 2,000 fullest of {blocks:,} cores are listed" in page) == (blocks > 2000)


def test_the_same_values_give_the_same_page() -> None:
    assert report_html(hostile(12)) == report_html(hostile(12))


# -- what sections say -------------------------------------------------------------------------------------------------


def test_a_report_of_everything_says_what_was_asked() -> None:
    sources = everything()
    text = Reader(report_html(sources)).text
    mapped = sources.mapped
    assert mapped is not None
    for part in (
        "778 neurons in 3 populations",
        "The limiting resource is neurons: core 0 at tile (0, 0) uses 778 of 1,024 (76%).",
        "1 core: no map needs fewer (set by neurons).",
        "SANA-FE: dense synapse",
        "Weights of 4 bits for loihi1; no sum can overflow, proved from the weights for any input.",
        "fixed == mapped: every spike, u and v; reference ~ fixed: within the bound, which is wide (",
        "spikes first differ at time step",
        "Agreement of every layer over time, reference and fixed",
        "Potentials and thresholds",
        "assumed: 0.02 spikes per neuron and time step",
    ):
        assert part in text, part


def test_the_busiest_link_and_the_limiting_resource_are_named() -> None:
    mapped = placed(("a", "b"), 24)
    text = Reader(map_html(mapped)).text
    load = mapped.costs.max_link_load_spikes_per_step
    names = [link.name for link in traffic_picture(mapped).links if link.load == pytest.approx(load)]
    assert sum(f"The busiest link is {name}: {load:.4g} spikes per time step" in text for name in names) == 1
    assert "The limiting resource is synapse words: core" in text


def test_of_equally_full_cores_every_section_names_the_first_and_its_tile() -> None:
    mapped = placed(("a", "b"), 24)
    page = map_html(replace(mapped, cores=mapped.cores[::-1]))  # the first block is on the last core
    text = Reader(page).text
    for part in (
        "24,500 of ~24,576 (99.7%)core 0 at tile (0, 0), as in 23 other cores",
        "The fullest is core 0 at tile (0, 0): synapse words, 99.7% of the limit, as in 23 other cores.",
        "is synapse words: core 0 at tile (0, 0) uses 24,500 of ~24,576 (99.7%), as in 23 other cores.",
        "synapse words0 and 23 more24,500",
    ):
        assert part in text, part
    plan = data_of(page)["plan"]
    assert plan["cores"][plan["first"]]["n"] == "0"


def test_links_that_are_as_busy_are_named_and_marked() -> None:
    plan = Plan(placed(("a", "b"), 24))
    *others, second, busiest = plan.traffic.links
    assert plan.traffic.as_busy == (busiest,)
    equal = replace(second, load=busiest.load, share=1 - 1e-12)  # a sum in another order
    plan.traffic = replace(plan.traffic, links=(*others, equal, busiest))
    section = traffic_section(plan, map_matrix(plan.mapped))
    assert section.lead.endswith(f" the mean of the used links. As busy: {link_name(second, plan)}.")
    drawn = plan_picture(plan.floor, plan.traffic, plan.layout, plan.resources)
    assert drawn.count('class="busiest"') == 2


def test_cores_of_several_layers_and_arrows_without_text_are_explained() -> None:
    everything_said, apart = Reader(report_html(everything())).text, Reader(map_html(placed(("a", "b"), 24))).text
    assert "A core of several layers counts for each; 1+ is a core of more than two." in everything_said
    assert "A core of several layers" not in apart
    assert "No cycle; no delays." in everything_said
    assert "1 projection closes a cycle; the longest delay is 2 time steps." in apart
    assert "An arrow without text passes values on as they are." in everything_said
    assert "An arrow without text" not in apart


def test_a_bound_near_the_cores_found_stands_beyond_their_line() -> None:
    page = map_html(placed(("a", "b"), 24))
    assert re.search(r"M870\.00 0V\d+", page)
    assert re.search(r'<text x="876"[^>]*>23 decides</text>', page)


@pytest.mark.parametrize(("share", "said"), [(0.994, "99%"), (0.9969, "99.7%"), (0.99999, "99.9%"), (1.0, "100%")])
def test_full_is_said_of_what_is_full(share: float, said: str) -> None:
    assert percent(share) == said


def test_without_figures_energy_and_time_are_unknown() -> None:
    mapped = placed(("a",), 3)
    bare = replace(mapped.chip, energy=EnergyFigures(), time=TimeFigures())
    costs = replace(
        mapped.costs, energy_per_step_j=None, time_per_step_s=None, energy_breakdown_j={}, time_breakdown_s={}
    )
    text = Reader(map_html(replace(mapped, chip=bare, costs=costs))).text
    assert "Unknown: the chip file has no data for energy." in text
    assert "Unknown: the chip file has no data for time." in text


def test_a_map_without_a_core_has_no_floor_plan() -> None:
    mapped = placed(("a",), 3)
    empty = replace(mapped, partition=replace(mapped.partition, blocks=()), cores=())
    reader = Reader(map_html(empty))
    assert "floorplan" not in {given.get("id") for _, given in reader.tags}


def test_a_placement_is_marked() -> None:
    assert "PLACEMENT ONLY" in map_html(replace(placed(("a",), 3), placement_only=True))


# -- geometry and numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "chips", "chip"), [(1, 1, "loihi1"), (100, 1, "loihi1"), (600, 8, "loihi2"), (4096, 1, "crossbar256")]
)
def test_cores_and_chips_do_not_overlap(blocks: int, chips: int, chip: str) -> None:
    mesh = read_chip(chip).mesh
    cores = cores_in_order(mesh, blocks, chips)
    layout = chip_layout(mesh, {core[:3] for core in cores}, SCREEN)
    corners = np.array([layout.corner(core) for core in cores])
    assert layout.width <= SCREEN.width
    assert (corners >= 0).all()
    assert (corners.max(axis=0) + layout.core <= [layout.width, layout.height]).all()
    order = np.lexsort(corners.T)
    near = corners[order]
    for shift in range(1, min(4, blocks)):
        apart = np.abs(near[shift:] - near[:-shift]).max(axis=1)
        assert (apart >= layout.core - 1e-6).all()
    boxes = [(c.left, c.top, *layout.size_of(c)) for c in layout.frames]
    for k, (x, y, w, h) in enumerate(boxes):
        for left, top, _, _ in boxes[k + 1 :]:
            assert left >= x + w or top >= y + h or left + w <= x


@pytest.mark.parametrize(("share", "level"), [(0.01, 0), (0.2, 1), (0.39, 1), (0.5, 2), (0.99, 4), (1.0, 4)])
def test_classes_of_loads(share: float, level: int) -> None:
    assert load_class(share) == level


def test_a_link_is_wide_where_it_leaves() -> None:
    assert wedge(0, 0, 10, 0, 4) == "M0 -2L0 2L10 0.5L10 -0.5z"
    assert wedge(0, 10, 0, 0, 4) == "M2 10L-2 10L-0.5 0L0.5 0z"


def test_classes_of_a_matrix() -> None:
    scale = scale_of(np.array([[0.0, 1.0], [32.0, 5.0]]))
    assert (scale.most, scale.ratio) == (32.0, 2.0)
    assert [scale.level(x) for x in (32.0, 16.1, 16.0, 8.0, 4.0, 2.0, 1.0, 0.001)] == [4, 4, 4, 3, 2, 1, 0, 0]
    assert scale_of(np.array([[3.0]])) == Scale(3.0, 1.2)


def test_a_large_matrix_sums_neighbours() -> None:
    values = np.arange(400.0 * 400).reshape(400, 400)
    names = tuple(map(str, range(400)))
    drawn, joined = drawn_matrix(TrafficMatrix("population", names, names, values))
    assert (joined, drawn.spikes.shape) == (3, (134, 134))
    assert drawn.spikes.sum() == values.sum()
    assert drawn.spikes[1, 2] == values[3:6, 6:9].sum()
    assert (drawn.sources[0], drawn.sources[-1]) == ("0 to 2", "399")


def test_cores_of_a_matrix_are_in_the_order_of_their_numbers() -> None:
    mapped = placed(("a",), 20)
    found = map_matrix(mapped)
    assert list(found.destinations) == [str(n) for n in range(20)]
    number_of = {mapped.chip.mesh.width_tiles * c.y + c.x: b for b, c in enumerate(mapped.cores)}
    axons = mapped.axons
    for row, column in ((3, 4), (3, 5), (3, 0), (7, 9)):
        b, target = number_of[row], number_of[column]
        sent = sum(
            float(axons.spikes_per_step[g])
            for g in range(len(axons.source_block))
            if axons.source_block[g] == b and target in axons.targets[axons.target_ptr[g] : axons.target_ptr[g + 1]]
        )
        assert found.spikes[list(found.sources).index(str(row)), column] == sent


def test_agreement_over_time_by_hand() -> None:
    x = np.array([[1, 1], [0, 0], [1, 0], [1, 1]])
    y = np.array([[1, 1], [0, 0], [0, 1], [1, 0]])
    assert agreement_over_time(x, y) == [1.0, 1.0, 0.0, 0.5]
    assert agreement_over_time(x, y, points=2) == [1.0, 0.25]


def test_errors_of_weights_are_within_half_a_step() -> None:
    quantized = everything().quantized
    assert quantized is not None
    found = list(weight_errors(quantized))
    assert [p.target for p, _ in found] == [p.target for p in quantized.projections]
    for _, errors in found:
        assert errors.size
        assert np.abs(errors).max() <= 0.5 + 1e-9
    assert list(weight_errors(replace(quantized, network=None))) == []
    other = replace(
        quantized, projections=tuple(replace(p, scale=freeze(p.scale * 1.5)) for p in quantized.projections)
    )
    assert list(weight_errors(other)) == []  # errors that are not those of the report are not drawn


def test_integers_are_traced_in_the_units_of_the_model() -> None:
    sources = everything()
    assert sources.quantized is not None
    assert sources.verification is not None
    fixed = sources.verification.recordings["fixed"]
    population = sources.quantized.populations[0]
    found = trace_of(sources, fixed, "fixed", population.name, 7)
    assert found is not None
    raw = fixed.arrays[population.name, "v"].reshape(-1, population.size)[:, 7]
    assert found.values == pytest.approx(raw / float(population.neuron.scale))
    assert found.threshold == pytest.approx(1.0, rel=0.05)
    assert found.latency == sources.quantized.latency[population.name]
    assert found.clock == RecordedSteps(0, 1)


@pytest.mark.parametrize(
    ("first", "stop", "ticks"), [(0, 10, list(range(10))), (5, 105, list(range(10, 101, 10))), (0, 1, [0])]
)
def test_ticks_are_round(first: int, stop: int, ticks: list[int]) -> None:
    assert round_steps(first, stop) == ticks


@pytest.mark.parametrize(("value", "said"), [(1.0, "1"), (-0.001, "0"), (2.345, "2.35"), (10.0, "10"), (-3.5, "-3.5")])
def test_coordinates(value: float, said: str) -> None:
    assert number(value) == said


def test_long_names_keep_both_ends() -> None:
    assert short("a" * 50 + "z" * 50, 10) == "aaaa…zzzzz"
    assert short("", 10) == "''"
    assert len(short("x" * 100_000)) == 60
    assert tag("p", "a\nb<", title='"') == '<p title="&quot;">a\\nb&lt;</p>'


# -- files and values --------------------------------------------------------------------------------------------------


def test_the_command_writes_one_page_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = {name: str(tmp_path / name) for name in ("m.map.json", "q.q.npz", "v.npz", "r.npz", "report.html")}
    np.save(tmp_path / "in.npy", np.ones((8, 1, 8, 8), np.uint8))
    options = ["--chip", "loihi1"]
    assert run(["map", str(MODEL), *options, "--effort", "fast", "-o", path["m.map.json"]]) == 0
    assert run(["quantize", str(MODEL), *options, "-o", path["q.q.npz"]]) == 0
    assert run(["verify", str(MODEL), *options, "--map", path["m.map.json"], "--steps", "8", "-o", path["v.npz"]]) == 0
    assert run(["simulate", str(MODEL), "--input", str(tmp_path / "in.npy"), "-o", path["r.npz"]]) == 0
    capsys.readouterr()
    files = ["--map", path["m.map.json"], "--quantized", path["q.q.npz"], "--verify", path["v.npz"]]
    assert run(["report", str(MODEL), *files, "--recording", path["r.npz"], "-o", path["report.html"], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert document["bytes"] == len(page.encode())
    assert document["sections"] == re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert {"Floor plan", "Quantization", "Verification", "Recordings"} <= set(document["sections"])
    assert "Errors of the weights" in page  # the real weights are those of the model
    assert "Spikes of r.npz" in page


def test_costs_are_at_the_rates_of_the_data_or_the_page_says_that_they_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "in.npy", np.random.default_rng(1).random((10, 1, 8, 8)) < 0.4)
    data, made, page = str(tmp_path / "in.npy"), str(tmp_path / "m.map.json"), tmp_path / "r.html"
    options = ["--chip", "loihi1", "--effort", "fast", "--input", data, "--report", str(tmp_path / "pages")]
    assert run(["map", str(MODEL), *options, "-o", made]) == 0
    capsys.readouterr()
    report = ["report", str(MODEL), "--map", made, "-o", str(page)]
    assert run(report) == 0
    said = "assume 0.02 spikes per neuron and time step, inputs too. The map was made with rates measured on 'in.npy'"
    assert said in Reader(page.read_text("utf-8")).text
    assert f"warning: Traffic, energy and time on this page {said}" in capsys.readouterr().err
    assert run([*report, "--input", data]) == 0
    assert capsys.readouterr().err == ""
    tiles = [
        re.findall(r'<p class="value">(.*?)</p>', file.read_text("utf-8"))
        for file in (page, tmp_path / "pages/map.html")
    ]
    assert tiles[0] == tiles[1]  # the figures of the map itself
    assert run(["report", str(MODEL), "--input", data, "-o", str(page)]) == 2
    assert "--input: does not apply here, its rates are for the map of --map" in capsys.readouterr().err


def test_a_page_is_named_as_the_command_line_names_its_model(tmp_path: Path) -> None:
    code = (
        "import torch, snntorch\n"
        "net = torch.nn.Sequential(torch.nn.Linear(4, 3), snntorch.Leaky(beta=0.5, init_hidden=True))\n"
    )
    (tmp_path / "gesture_net.py").write_text(code)
    page = tmp_path / "r.html"
    assert run(["report", f"{tmp_path}/gesture_net.py:net", "--sample-shape", "1,4", "-o", str(page)]) == 0
    assert "<title>gesture_net.py:net</title>" in page.read_text("utf-8")


def test_files_of_another_model_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = Recording(MappingProxyType({("other", "s"): np.zeros((2, 3), np.uint8)}), MappingProxyType({}))
    nb.save(recording, tmp_path / "r.npz")
    assert run(["report", str(MODEL), "--recording", str(tmp_path / "r.npz"), "-o", str(tmp_path / "x.html")]) == 2
    assert "recording 'r.npz': is of another model: it has 'other', the model has " in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_the_page_is_opened_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda where: opened.append(where) or len(opened) < 2)
    for said in ("", "warning: no browser opens"):
        assert run(["report", str(MODEL), "-o", str(tmp_path / "x.html"), "--open"]) == 0
        assert said in capsys.readouterr().err
    assert opened == [(tmp_path / "x.html").resolve().as_uri()] * 2


def test_values_write_their_own_pages(tmp_path: Path) -> None:
    sources = everything()
    assert sources.mapped is not None
    assert sources.network is not None
    sources.mapped.report(tmp_path / "m.html")
    assert "Floor plan" in (tmp_path / "m.html").read_text("utf-8")
    for value, said in (
        (sources.network, "Graph of the network"),
        (sources.verification, "Rounding stays within its bound"),
        (sources.mapped.chip, "Chip of nirbridge"),
        (sources.network.populations[0], "threshold"),
    ):
        assert said in Reader(value_html(value)).text or said in value_html(value)
    values = [sources.network, sources.mapped, sources.quantized, sources.verification]
    nb.write_report(tmp_path / "all.html", values)
    untitled = replace(sources, title="nirbridge report")
    assert report_html(untitled).split("<body>")[1] == (tmp_path / "all.html").read_text("utf-8").split("<body>")[1]
    with pytest.raises(nb.errors.UsageError, match="Chip has no section of its own"):
        nb.write_report(tmp_path / "no.html", [sources.network, sources.mapped.chip])
    with pytest.raises(nb.errors.UsageError, match="two of a kind"):
        nb.write_report(tmp_path / "no.html", [sources.network, sources.network])


def test_a_chip_with_dead_cores_shows_them() -> None:
    mapped = placed(("a",), 20, "loihi1")
    dead = replace(mapped.chip, dead_cores=(CoreId(0, 7, 0, 0),))
    mapped = replace(mapped, chip=dead, cores=(*mapped.cores[:-1], CoreId(0, 7, 0, 1)))
    page = map_html(mapped)
    assert 'fill="url(#dead)"' in page


def test_a_report_of_nothing_but_a_recording() -> None:
    spikes = (np.arange(600).reshape(20, 30) % 7 == 0).astype(np.uint8)
    sources = ReportSources(
        "r", recordings=MappingProxyType({"r": Recording(MappingProxyType({("a", "s"): spikes}), MappingProxyType({}))})
    )
    text = Reader(report_html(sources)).text
    assert "20 time steps of r." in text
    assert f"30 neurons, {int(spikes.sum())} events" in text


def test_links_of_several_chips_name_their_chip() -> None:
    one, many = (Plan(placed(("a",), 40, "loihi2", chips)) for chips in (1, 2))
    assert {link_name(link, one).count("chip") for link in one.traffic.links} == {0}
    names = [link_name(link, many) for link in many.traffic.links]
    assert all(name.startswith("chip ") for name in names)
    assert any(name.count("chip") == 2 for name in names)  # from one chip to the other


@pytest.mark.parametrize("clock", [{"first_step": 10**30}, {"every": {"a/s": 10**30}}])
def test_time_steps_that_no_axis_can_hold_are_not_drawn(clock: dict[str, Any], tmp_path: Path) -> None:
    spikes = np.ones((2, 3), np.uint8)
    runs = [nb.Recording({("a", "s"): values}, clock) for values in (spikes, 1 - spikes)]
    nb.write_report(tmp_path / "r.html", runs[0])
    nb.write_report(tmp_path / "c.html", nb.compare(*runs, latency=0))
    assert "<h2" in (tmp_path / "r.html").read_text()
