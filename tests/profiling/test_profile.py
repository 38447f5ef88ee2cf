"""Profiles: figures from counted events, tables of points, files, refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.errors import DoesNotFit, UsageError
from nirbridge.profiling.model import COLUMNS, FIGURES, RANGES
from nirbridge.report.profile_text import source_lines
from tests.profiling.nets import readout_only, spikes, two_layers

MODEL = str(Path(__file__).resolve().parents[2] / "examples/models/digits_cnn.nir")
FIRST, SECOND = np.full((4, 3), 1.5), np.full((2, 4), 1.5)
pytestmark = pytest.mark.usefixtures("searched_once")


@pytest.fixture(scope="module")
def profile() -> nb.Profile:
    return nb.profile(two_layers(FIRST, SECOND), "loihi1", spikes(9, 5, 3), np.zeros(5, int), name="two layers")


def test_spikes_and_operations_are_those_of_the_integers(profile: nb.Profile) -> None:
    point = profile.points[0]
    quantized = nb.quantize(two_layers(FIRST, SECOND), "loihi1")
    late = max(quantized.latency.values())
    inputs = spikes(9, 5, 3)
    found = nb.simulate(quantized, inputs, record=["a:s", "b:s"], steps=9 + late, drain=False)
    a, b = int(found["a"].sum()), int(found["b"].sum())
    assert a
    assert b
    assert point["spikes_per_inference"] == pytest.approx((a + b) / 5)
    assert point["input_spikes_per_inference"] == pytest.approx(inputs.sum() / 5)
    assert point["synaptic_ops_per_inference"] == pytest.approx((4 * int(inputs.sum()) + 2 * a) / 5)
    layers = {layer.name: layer for layer in point.layers}
    assert [layers[n].spikes for n in ("in", "a", "b")] == pytest.approx([inputs.sum() / 5, a / 5, b / 5])
    assert [layers[n].synaptic_ops for n in ("a", "b")] == pytest.approx([4 * inputs.sum() / 5, 2 * a / 5])
    assert [layers[n].synapses for n in ("a", "b")] == [12, 8]


def test_energy_follows_from_the_events(profile: nb.Profile) -> None:
    point = profile.points[0]
    energy = sum(event.energy_j or 0.0 for event in point.events)
    assert point["energy_per_inference_j"] == pytest.approx(energy)
    assert point["energy_per_step_j"] == pytest.approx(energy / point.about["hardware_steps"])
    assert sum(layer.total_energy_j for layer in point.layers) == pytest.approx(energy)
    assert sum(event.time_s or 0.0 for event in point.events) == pytest.approx(point["time_per_inference_s"])
    time = point["time_per_inference_s"] or 0.0
    assert point["energy_delay_js"] == pytest.approx(energy * time)
    assert point["power_w"] == pytest.approx(energy / time)
    assert point["inferences_per_s"] == pytest.approx(1 / time)
    assert (point["guaranteed_inferences_per_s"] or 0.0) < 1 / time


def test_layers_of_a_network_on_several_cores_add_up() -> None:
    network = nb.load(MODEL)
    inputs = spikes(8, 3, *network.inputs[0].shape, rate=0.2)
    chip = Path(MODEL).parents[1] / "chips" / "my_chip.toml"
    small = nb.profile(network, [chip, "loihi1"], inputs, effort="fast")
    for point in small.points:
        total = sum(event.energy_j or 0.0 for event in point.events)
        parts: dict[str, float] = {}
        for layer in point.layers:
            for kind, joules in layer.energy_j.items():
                parts[kind] = parts.get(kind, 0.0) + joules
        assert {e.kind: e.energy_j for e in point.events if e.energy_j} == pytest.approx(parts)
        assert point["energy_per_inference_j"] == pytest.approx(total) or not total
        assert sum(e.time_s or 0.0 for e in point.events) == pytest.approx(point["time_per_inference_s"] or 0.0)
        assert (point["longest_step_s"] or 0.0) <= (point["guaranteed_step_s"] or 0.0)
        assert (point["time_per_step_s"] or 0.0) <= (point["longest_step_s"] or 0.0)
    assert small.points[0].about["cores"] > 1


def test_ranges_enclose_the_figures(profile: nb.Profile) -> None:
    point = profile.points[0]
    for name in RANGES:
        figure = point.figures[name]
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high
        assert figure.low < figure.high
    row = point.row()
    assert row["energy_per_step_j_low"] == point.figures["energy_per_step_j"].low


def test_every_figure_has_a_basis_and_counted_ones_are_measured(profile: nb.Profile) -> None:
    figures = profile.points[0].figures
    bases = {name: figure.basis for name, figure in figures.items()}
    assert set(bases) <= {column.name for column in FIGURES}
    measured = {n for n in bases if n.startswith(("spikes", "synaptic", "accuracy", "same", "activation", "memory"))}
    assert "published" in bases.values()
    assert {name for name, basis in bases.items() if basis == "measured"} == {*measured, "input_spikes_per_inference"}
    assert all(figure.source for figure in figures.values())
    assert "SANA-FE" in figures["energy_per_inference_j"].source


def test_rows_have_all_columns_in_order(profile: nb.Profile) -> None:
    (row,) = profile.rows()
    assert tuple(row) == COLUMNS
    assert (row["model"], row["chip"], row["samples"], row["steps"]) == ("two layers", "loihi1", 5, 9)
    assert list(profile.to_frame().columns) == list(COLUMNS)
    assert repr(profile).startswith("Profile: 5 samples of 9 time steps")
    assert "leaky" not in profile.summary()
    assert "<pre>" in profile._repr_html_()
    assert "data:image/svg" in profile._repr_html_()


def test_files_hold_the_same_rows(profile: nb.Profile, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for ending in ("json", "csv", "parquet"):
        profile.save(tmp_path / f"p.{ending}")
    (row,) = profile.rows()
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["points"][0]["row"] == row
    assert document == json.loads(json.dumps(profile.document()))
    with (tmp_path / "p.csv").open() as file:
        (text,) = list(csv.DictReader(file))
    assert text == {name: "" if value is None else str(value) for name, value in row.items()}
    read = pandas.read_parquet(tmp_path / "p.parquet")
    assert list(read.columns) == list(COLUMNS)
    assert read["energy_per_inference_j"][0] == row["energy_per_inference_j"]
    with pytest.raises(UsageError, match=r"ends in '.txt', a profile is written as .json, .csv, .parquet"):
        profile.save(tmp_path / "p.txt")


def test_a_silent_network_costs_its_idle_time_steps() -> None:
    point = nb.profile(two_layers(FIRST, SECOND), "loihi1", np.zeros((4, 2, 3))).points[0]
    figures = nb.chip("loihi1").energy
    assert figures.neuron_access_j is not None
    assert point["spikes_per_inference"] == point["synaptic_ops_per_inference"] == 0
    assert point["energy_per_step_j"] == pytest.approx(6 * figures.neuron_access_j)  # no update
    assert point["energy_per_synaptic_op_j"] is None
    assert any("no neuron fired" in note for note in point.notes)


def test_readouts_alone() -> None:
    point = nb.profile(readout_only(FIRST), "loihi1", spikes(6, 2, 3), [0, 3]).points[0]
    assert point["spikes_per_inference"] == 0
    assert point["synaptic_ops_per_inference"] == pytest.approx(4 * spikes(6, 2, 3).sum() / 2)
    assert point["activation_sparsity"] is None
    assert point["accuracy"] is not None
    assert any("readouts only" in note for note in point.notes)


def test_a_chip_without_figures_gives_none_and_says_so() -> None:
    found = nb.profile(two_layers(FIRST, SECOND), "crossbar256", spikes(4, 2, 3))
    row = found.rows()[0]
    assert [name for name in COLUMNS if name.endswith(("_j", "_s", "_w", "_js")) and row[name] is not None] == ["dt_s"]
    assert row["energy_basis"] is row["time_basis"] is None
    assert row["spikes_per_inference"] > 0
    assert "no figures of energy" in found.summary()
    with pytest.raises(UsageError, match="no chip of it has figures of energy"):
        found.plot()


def test_a_table_of_chips_bits_and_objectives() -> None:
    chips, objectives = ["loihi1", nb.chip("loihi2")], ["cores", "latency"]
    network = two_layers(FIRST, SECOND)
    found = nb.profile(network, chips, spikes(4, 2, 3), bits=[4, 8], objectives=objectives, effort="fast")
    asked = [(c, b, o) for c in ("loihi1", "loihi2") for b in (4, 8) for o in objectives]
    assert [(r["chip"], r["weight_bits"], r["objective"]) for r in found.rows()] == asked
    assert [p.figures["energy_per_inference_j"].basis for p in found.points] == ["published"] * 4 + ["assumed"] * 4
    axes = found.plot()
    assert axes.get_ylim()[0] == 7.5
    assert ["~" in text.get_text() for text in axes.texts] == [False] * 4 + [True] * 4


def test_a_table_marks_every_figure_that_is_assumed_and_names_the_sources() -> None:
    text = nb.profile(two_layers(FIRST, SECOND), ["loihi1", "loihi2"], spikes(4, 2, 3), effort="fast").summary()
    assert "points, per inference" in text
    first, second = (next(x for x in text.splitlines() if x.startswith(f"loihi{k} ")) for k in (1, 2))
    assert (first.count("~"), second.count("~")) == (0, 5)  # energy, time, two rates, energy-delay product
    assert "- loihi1, energy and time of neuron accesses: SANA-FE: reading one neuron's state" in text
    assert "- loihi2, energy and time of " in text


def test_a_point_marks_what_is_not_public_and_says_what_stands_in() -> None:
    public, rough = (
        nb.profile(two_layers(FIRST, SECOND), chip, spikes(4, 2, 3), effort="fast") for chip in ("loihi1", "loihi2")
    )
    assert "~" not in repr(public) + public.summary().partition("- map --input")[0]
    assert repr(rough).count("~") == repr(rough.points[0]).count("~") == 2
    lines = rough.summary().splitlines()
    for label in ("energy ", "time ", "power", "throughput, sustained"):
        assert "~" in next(line for line in lines if line.startswith(label)), label
    assert "- energy and time: the figures of the first Loihi stand in (~)" in rough.summary()
    there = rough.points[0].mapped.costs.energy_per_step_j * 1e9
    said = rough.summary()
    assert f"- map --input states ~{there:.3g} nJ per time step: its spikes are averaged over 4 time steps" in said


def test_every_figure_of_a_profile_has_its_source_by_chip() -> None:
    points = nb.profile(two_layers(FIRST, SECOND), ["loihi1", "loihi2"], spikes(4, 2, 3), effort="fast").points
    lines = source_lines([*points, *points])
    assert len(set(lines)) == len(lines) == sum(len(source_lines([point])) for point in points)
    said: set[tuple[str, str, str, str]] = set()
    for line in lines:
        about, _, source = line.partition(": ")
        chip, _, figures = about.partition(", ")
        for figure in figures.split(", "):
            words, _, kind = figure.partition(" of ")
            said |= {(chip, word, kind, source) for word in words.split(" and ")}
    wanted = {
        (chip.name, word, event.kind, source)
        for point in points
        for chip in [nb.chip(point.about["chip"])]
        for event in point.events
        for word, value, source in (
            ("energy", event.energy_j, event.energy_source),
            ("time", event.time_s, event.time_source),
        )
        if value
    }
    assert {x for x in said if x[1] in ("energy", "time")} == wanted
    assert all(source in nb.chip(chip).sources.values() for chip, _, _, source in wanted)


def test_zeros_follow_data_that_are_shorter_than_the_requested_steps() -> None:
    network, inputs = two_layers(FIRST, SECOND), spikes(4, 2, 3)
    whole = np.concatenate([inputs, np.zeros((5, 2, 3))])
    padded = nb.profile(network, "loihi1", inputs, steps=9, effort="fast")
    expected = nb.profile(network, "loihi1", whole, effort="fast")
    assert padded.rows() == expected.rows()
    assert padded.points[0].about["hardware_steps"] > 9
    assert nb.profile(network, "loihi1", whole, steps=4, effort="fast").rows() != expected.rows()


def test_points_that_do_not_fit_are_listed_beside_the_others() -> None:
    chip = nb.chip("crossbar256")
    wide = two_layers(np.full((300, 3), 0.1), np.full((2, 300), 1.0))
    found = nb.profile(wide, ["loihi1", chip], spikes(4, 2, 3), effort="fast")
    assert [point.about["chip"] for point in found.points] == ["loihi1"]
    assert [failed.chip for failed in found.failed] == ["crossbar256"]
    assert "crossbar256" in found.failed[0].reason or "axons" in found.failed[0].reason
    with pytest.raises(DoesNotFit):
        nb.profile(wide, chip, spikes(4, 2, 3), effort="fast")


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (np.zeros((0, 2, 3)), None, "steps: 0, at least 1"),
        (spikes(4, 2, 5), None, r"an array of shape \(4, 2, 5\), it takes \[steps, 3\]"),
        (spikes(4, 2, 3), [0, 1, 1], "labels: 3 labels for 2 samples, one for each sample"),
        (spikes(4, 2, 3), [0, 2], "a label of 2, output 'out' has classes 0 to 1"),
        (spikes(4, 2, 3), [0.5, 1.0], "whole numbers, one per sample"),
        ({"other": spikes(4, 2, 3), "more": spikes(4, 2, 3)}, None, "input 'in': is missing"),
    ],
)
def test_refused_data(inputs: object, labels: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        nb.profile(two_layers(FIRST, SECOND), "loihi1", inputs, labels)


def test_a_tool_without_figures_is_refused() -> None:
    with pytest.raises(UsageError, match="emitter 'lava': gives no figures"):
        nb.profile(two_layers(FIRST, SECOND), "loihi1", spikes(4, 2, 3), target="lava")


def test_map_measures_rates_on_inputs() -> None:
    network, inputs = two_layers(FIRST, SECOND), spikes(9, 5, 3)
    mapped = nb.map(network, "loihi1", input=inputs)
    assert mapped.rates == "measured on given arrays: 5 samples of 9 time steps"
    rates = {name: array.mean(axis=(0, 1)) for name, array in (("in", inputs), *_spikes(network, inputs))}
    given = nb.map(network, "loihi1", rates=rates)
    assert mapped.costs.energy_per_step_j == given.costs.energy_per_step_j
    assert nb.map(network, "loihi1").costs.energy_per_step_j != given.costs.energy_per_step_j
    with pytest.raises(UsageError, match="given beside rates"):
        nb.map(network, "loihi1", input=inputs, rates=rates)


def _spikes(network: nb.Network, inputs: np.ndarray) -> list[tuple[str, np.ndarray]]:
    recorded = nb.simulate(network, inputs, record=["a:s", "b:s"])
    return [(name, recorded[name].astype(float)) for name in ("a", "b")]


def test_relays_of_a_chip_have_the_rates_of_their_windows() -> None:
    network = nb.load(MODEL)
    inputs = spikes(8, 3, *network.inputs[0].shape, rate=0.2)
    rates = {p.name: np.full(p.shape, 0.1) for p in (*network.inputs, *network.populations)}
    mapped = nb.map(network, "crossbar256", rates=rates, effort="fast")  # relays are in none of these names
    assert "relays send what they pass on" in mapped.rates
    found = nb.profile(network, "crossbar256", inputs, effort="fast").points[0]
    assert {layer.name for layer in found.layers} > {p.name for p in network.populations}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    inputs = spikes(6, 3, 1, 8, 8, rate=0.2)
    np.savez("data.npz", x=inputs, labels=np.arange(3))
    words = ["profile", MODEL, "--chip", "loihi1", "--input", "data.npz", "--effort", "fast", "--samples", "2"]
    assert run([*words, "--verbose", "-o", "p.json", "--plot", "p.svg"]) == 0
    text = capsys.readouterr().out
    for word in ("accuracy, reference", "leaky_4", "published", "measured", "ClassificationAccuracy", "SANA-FE"):
        assert word in text, word
    assert json.loads(Path("p.json").read_text())["points"][0]["about"]["samples"] == 2
    assert Path("p.svg").read_text().startswith("<?xml")
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("p.json").read_text())
    assert run([*words, "--bits", "7"]) == 2
    assert run([*words, "--bits", "7", "--bits", "8"]) == 1
    captured = capsys.readouterr()
    assert "'loihi1', 7 bits" in captured.err
    assert "not profiled" in captured.out
    assert run([*words, "-o", "p.txt"]) == 2
    assert run([*words[:5], "no.npy"]) == 2
    np.save("labels.npy", np.arange(9))
    assert run([*words, "--labels", "labels.npy"]) == 2


def test_the_map_command_measures_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", spikes(6, 3, 1, 8, 8, rate=0.2))
    assert run(["map", MODEL, "--chip", "loihi1", "--input", "in.npy"]) == 0
    assert "measured on 'in.npy': 3 samples of 6 time steps" in capsys.readouterr().out
    np.savez("rates.npz", input=np.float64(0.1))
    assert run(["map", MODEL, "--chip", "loihi1", "--input", "in.npy", "--rates", "rates.npz"]) == 2
    assert "rates are measured or given" in capsys.readouterr().err
