"""The benchmark of Verilog: the same network and spikes for both designs, and a page that keeps figures apart."""

from __future__ import annotations

import numpy as np
import pytest

import nirbridge as nb
from benchmarks import verilog
from benchmarks.verilog_published import PUBLISHED
from benchmarks.verilog_spikerplus import repaired
from nirbridge.quantization.operators import weights_of


def test_the_network_loses_nothing_in_the_integers_of_the_chip() -> None:
    quantized = nb.quantize(nb.load(verilog.graph()), "loihi2", weight_bits=verilog.BITS)
    for p, own in zip(quantized.projections, verilog.weights().values(), strict=True):
        target = next(each for each in quantized.populations if each.name == p.target)
        stored = weights_of(p.operator).astype(np.float64) * 2.0**p.weight_exp * 64
        assert (stored == own * float(target.neuron.scale)).all()
        assert set(np.unique(own * verilog.GRID)) <= set(range(-8, 8))
        assert int(target.neuron.dv) == 4096 * verilog.DECAY
        assert target.neuron.reset == "subtract"


def test_an_image_has_the_density_of_mnist_and_pixels_of_their_own_rates() -> None:
    spikes = verilog.image()
    assert spikes.shape == (100, 784)
    assert spikes.mean() == pytest.approx(0.1307, rel=0.05)
    assert (spikes.mean(axis=0) == 0).mean() == pytest.approx(1 - verilog.PIXELS, abs=0.03)
    assert (verilog.image(2) != spikes).any()


def test_spikes_are_compared_at_the_latency_that_fits_best() -> None:
    own = (np.random.default_rng(0).random((50, 20)) < 0.4).astype(np.uint8)
    seen = np.concatenate([np.zeros((2, 20), np.uint8), own])[:51]
    assert verilog.unlike(seen, own) == 0
    seen[10, :5] ^= 1
    assert verilog.unlike(seen, own) == pytest.approx(5 / (48 * 20), rel=0.03)


VERILOG = """module reg
  (input  en);
  always @*
    case (n1_o)
      2'b10: n2_o <= in1;
      2'b01: n2_o <= in0;
    endcase
  always @*
    case (n3_o)
      1'b1: n4_o <= 1'b1;
    endcase
  assign n5_o = 240'bZ;
  reg spike (
    .en(en));
endmodule
"""
VHDL = """  with n1_o select n2_o <=
    in1 when "10",
    in0 when "01",
    in2 when others;
  with n3_o select n4_o <=
    '1' when "1",
    (39 downto 0 => 'X') when others;
"""


def test_choices_that_ghdl_drops_are_those_of_its_vhdl() -> None:
    text = repaired(VERILOG, VHDL)
    assert "      default: n2_o <= in2;\n    endcase" in text
    assert "      default: n4_o <= 40'bx;\n    endcase" in text
    assert "assign n5_o = 240'b0;" in text
    assert text.startswith("module reg_plain\n")
    assert "  reg_plain spike (\n" in text
    with pytest.raises(KeyError, match="n4_o"):
        repaired(VERILOG, VHDL.replace("n4_o", "n9_o"))


def test_the_page_has_what_was_measured_and_what_was_published() -> None:
    row = {"luts": 1000, "flip_flops": 20, "block_rams": 3, "multipliers": 0, "mhz": 50.0, "cycles": 20000}
    ours = {"name": "nirbridge, `--lanes 4`: 4 and 2", **row, "versions": ["Yosys 0.23"]}
    theirs = {"name": "spikerplus", **row, "versions": ["Yosys 0.23"], "unlike": 0.0328}
    alone = verilog.page([ours])
    assert "| nirbridge, `--lanes 4`: 4 and 2 | 1,000 | 20 | 3 | 0 | 50.0 | 20,000 | 400 us |\n" in alone
    assert "of spikerplus" not in alone
    both = verilog.page([ours, theirs])
    assert "of spikerplus 3.3 % are not those" in both
    for each in PUBLISHED:
        assert both.count(f"| {each.name} | {each.network} |") == 1
        assert each.source in both
    assert both.endswith("Versions: Yosys 0.23.\n")
