"""Energy and time of a chip whose file lacks figures: every place that shows a total says that it is partial."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips import chip_from_dict
from nirbridge.pipeline import network_of_shapes
from nirbridge.report.html.document import map_html
from nirbridge.report.map_facts import summary_line
from nirbridge.report.map_text import saved_map_text
from nirbridge.report.notebook import profile_svg
from nirbridge.report.summaries import plain_text
from nirbridge.sweeps.table import read_table, sweep_text

MISSING = {"energy": ("hop_x_j", "hops x"), "time": ("barrier_s", "barrier")}


@pytest.fixture(scope="module")
def chip() -> nb.Chip:
    """loihi1 without one figure of energy and one of time."""
    record = json.loads(json.dumps(dict(nb.chip("loihi1").record)))
    for table, (key, _) in MISSING.items():
        del record[table][key]
        for beside in ("source", "range"):
            record[beside] = {k: v for k, v in record[beside].items() if not k.endswith(f"{table}.{key}")}
    return chip_from_dict(record)


@pytest.fixture(scope="module")
def network() -> nb.Network:
    return network_of_shapes("16 dense32 lif dense10 lif")


@pytest.fixture(scope="module")
def mapped(chip: nb.Chip, network: nb.Network) -> nb.MappedNetwork:
    return nb.map(network, chip)


@pytest.fixture(scope="module")
def profile(chip: nb.Chip, network: nb.Network) -> nb.Profile:
    return nb.profile(network, chip, np.ones((20, 2, 16)))


def totals(text: str) -> list[tuple[str, str]]:
    """(energy or time, the words after it) of every total in a text that states both."""
    return re.findall(r"(~?[0-9.]+ [numkp]?[Js])\b( \(partial)?", text)


def test_lines_and_tables_of_a_map(mapped: nb.MappedNetwork, tmp_path: Path) -> None:
    line = summary_line(mapped)
    assert [after for _, after in totals(line)] == [" (partial", " (partial"]
    assert re.search(r" nJ \(partial\), .* \(partial\) per time step$", line)
    assert "energy per time step (partial)" in mapped.summary()
    assert "duration of a time step (partial)" in mapped.summary()
    mapped.save(tmp_path / "m.map.json")
    saved = plain_text(saved_map_text(nb.load_map(tmp_path / "m.map.json")))
    assert len(re.findall(r"\n(?:energy|time) +[0-9.]+ [nu]?[Js] per time step \(partial: 1 kind of event", saved)) == 2
    whole = nb.map(mapped.network, "loihi1")
    assert "partial" not in summary_line(whole) + whole.summary()


def test_the_page_of_a_map(mapped: nb.MappedNetwork) -> None:
    page = map_html(mapped, title="m")
    tiles = re.findall(r"<h3>(?:Energy|Duration) of a time step</h3>(.*?)</div>", page)
    assert len(tiles) == 2
    for tile, (_, kind) in zip(tiles, MISSING.values(), strict=True):
        assert re.match(
            r'<p class="value">~?[0-9.]+ [nu][Js] \(partial\)</p><p>[0-9]+% [a-z ]+ of what is known</p>', tile
        )
        assert f"no data for {kind}" in tile
    assert len(re.findall(r"<h3>(?:Energy|Duration) of a time step: ~?[0-9.]+ [nu][Js] \(partial\)</h3>", page)) == 2


def test_lines_tables_and_columns_of_a_profile(profile: nb.Profile) -> None:
    point = profile.points[0]
    for line in (repr(profile), repr(point)):
        assert [after for _, after in totals(line)] == [" (partial", " (partial"]
    text = profile.summary()
    for row in ("energy", "time", "throughput, sustained", "power", "energy-delay product"):
        assert re.search(rf"\n *{row} \(partial\) .* (published|assumed)\n", text), row
    assert "layers, per inference (energy is partial)" in text
    assert point.figures["power_w"].missing == ("hops x", "barrier")
    row = point.row()
    assert (row["energy_missing"], row["time_missing"]) == ("hops x", "barrier")
    assert profile.document()["points"][0]["figures"]["energy_per_step_j"]["missing"] == ("hops x",)


def test_pictures_and_cards_of_a_profile_and_a_map(profile: nb.Profile, mapped: nb.MappedNetwork) -> None:
    assert len(re.findall(r"[0-9.]+ [nu]J \(partial\)</text>", profile_svg(profile))) == 2
    pytest.importorskip("matplotlib")
    said = [text.get_text() for text in nb.plot_profile(profile).texts]
    assert [text for text in said if text.endswith("J (partial)")] == said
    rows = [label.get_text().split("\n") for label in nb.plot_energy(mapped).get_yticklabels()]
    assert [(row[0], row[2]) for row in rows] == [("energy", "(partial)"), ("time", "(partial)")]
    axes = nb.plot_pareto(profile, "cores", "energy")
    assert "partial (no data in the chip file): loihi1" in [text.get_text() for text in axes.texts]
    whole = nb.plot_pareto(nb.profile(mapped.network, "loihi1", np.ones((20, 2, 16))), "cores", "energy")
    assert not any("partial" in text.get_text() for text in whole.texts)


def test_columns_and_text_of_a_sweep(chip: nb.Chip, network: nb.Network, tmp_path: Path) -> None:
    from tests.sweeps.test_sweep import toml_text

    record: dict[str, Any] = json.loads(json.dumps(dict(chip.record)))
    (tmp_path / "chip.toml").write_text(toml_text(record))
    nb.save(network, tmp_path / "m.net.npz")
    table = nb.sweep({"models": [str(tmp_path / "m.net.npz")], "chips": [str(tmp_path / "chip.toml"), "loihi1"]})
    missing = [(row["energy_missing"], row["time_missing"]) for row in table.rows()]
    assert missing == [("hops x", "barrier"), (None, None)]
    lines = sweep_text(table.rows()).splitlines()
    assert [line.count("*") for line in lines[2:4]] == [2, 0]
    assert lines[-1].startswith("*: partial, without the events in the columns energy_missing and time_missing")
    pytest.importorskip("pyarrow")
    table.save(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet") == table.rows()
