from __future__ import annotations

import json
from pathlib import Path

import pytest

from nirbridge.chips import read_chip
from nirbridge.cli.main import run

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "chips" / "my_chip.toml"


def test_the_list_has_the_main_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line}
    assert rows["loihi1"] == ["128", "1,024", "4,096", "4,096", "16,384", "1-8", "bits", "62"]
    assert rows["loihi2"] == ["128", "~8,192", "~unlimited", "~unlimited", "~24,576", "~1-8", "bits", "63"]
    assert rows["crossbar256"] == ["4,096", "256", "256", "~unlimited", "unlimited", "~8", "bits", "15"]


@pytest.mark.parametrize("name", ["loihi1", "loihi2", "halapoint", "crossbar256", str(EXAMPLE)])
def test_one_chip_shows_every_number_and_source(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", name, "--verbose"]) == 0
    out = capsys.readouterr().out
    chip = read_chip(name)
    words = out.split()
    for key, source in chip.sources.items():
        assert key.partition(".")[2] in words
        assert all(word in words for word in source.split())
    assert ("~" in out) == bool(chip.approximate)


def test_long_lists_are_shown_by_their_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "halapoint"]) == 0
    words = capsys.readouterr().out.split()
    assert words.count("...,") == 1
    assert "(1,152" in words
    assert len(words) < 2 * 1152  # the numbers of all places alone are more


def test_figures_are_shown_with_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "loihi1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["synaptic_op_j", "35.5", "pJ"] in [row[:3] for row in rows]
    assert ["barrier_s", "600", "ns", "from", "1,"] in [row[:5] for row in rows]


def test_json_of_one_and_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chips", "loihi1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == read_chip("loihi1").record
    assert run(["chips", "--json"]) == 0
    chips = json.loads(capsys.readouterr().out)["chips"]
    assert [chip["name"] for chip in chips] == ["crossbar256", "halapoint", "loihi1", "loihi2"]
    assert chips[2] == record


def test_a_broken_file_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.toml"
    text = EXAMPLE.read_text().replace("neurons = 256", "neurons = -256").replace("words = 4096", "words = 0.5")
    path.write_text(text)
    assert run(["chips", str(path)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "core.neurons: found -256" in errors[0]
    assert "synapses.words: found 0.5" in errors[1]
