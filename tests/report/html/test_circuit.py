"""The section of a circuit: lanes of cores, and figures where it was synthesized."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nirbridge.cli.main import run
from nirbridge.emitters.artifact import Artifact, make_artifact, write_artifact
from nirbridge.errors import FileError
from nirbridge.report.html.sections.circuit import circuit_section

FACTS = {"kind": "verilog", "lanes": {"a<b>": [8, 2]}, "cycles_per_step": 300, "activity": 0.3, "board": {"name": "x"}}
FIGURES = {"board": "x<y>", "device": "ecp5 25k", "mhz": 60.0, "board_mhz": 25.0, "versions": ["Yosys 0.23"]}
FIGURES |= {"luts": [1234, 24288], "flip_flops": [9, 24288], "block_rams": [3, 56], "multipliers": [0, 28]}


def program(**files: object) -> Artifact:
    return make_artifact({name: json.dumps(value).encode() for name, value in files.items()}, FACTS)


def test_lanes_and_figures() -> None:
    section = circuit_section(program(**{"synthesis.json": FIGURES}))
    body = "".join(map(str, section.body))
    assert section.lead == (
        "A circuit of 1 core; 300 cycles a time step expected at 30% activity. 60.0 MHz routed: 5 us a time step."
    )
    assert "1,234" in body
    assert "a&lt;b&gt;" in body
    assert "x&lt;y&gt;" in body
    assert "MHz" not in circuit_section(program()).lead


def test_damaged_figures_are_named() -> None:
    with pytest.raises(FileError, match="mhz"):
        circuit_section(program(**{"synthesis.json": FIGURES | {"mhz": "fast"}}))


def test_the_command_shows_it(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = root / "examples" / "models" / "digits_mlp.nir", tmp_path / "page.html"

    def report(folder: str) -> int:
        return run(["report", str(model), "--circuit", str(tmp_path / folder), "-o", str(page)])

    write_artifact(program(**{"synthesis.json": FIGURES}), tmp_path / "circuit")
    assert report("circuit") == 0
    assert 'id="circuit"' in page.read_text()
    write_artifact(make_artifact({}, FACTS | {"kind": "c"}), tmp_path / "other")
    assert report("other") != 0
    assert "emit --to verilog" in capsys.readouterr().err
