"""The package spikerplus beside ours: its VHDL for the same weights, simulated by GHDL, synthesized by the same flow.

GHDL also writes the VHDL as Verilog, which yosys reads. Version 2.0 of it drops the last choice of multiplexers there,
and not in the VHDL that it writes: the choice is taken from the latter, where the names of signals are the same.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nirbridge.arrays import Array

BITS_WEIGHT, BITS_NEURON, BITS_FRACTION = 4, 6, 3
"""Bits of weights and potentials, and how many of them follow the point."""
SILENT = "--ieee-asserts=disable"

_GENERATE = """
import sys
import numpy as np, torch
from spikerplus import NetBuilder, Optimizer, VhdlGenerator
from spikerplus.vhdl.vhdl import write_file_all
given = np.load(sys.argv[1])
bits = {"weights_bw": WEIGHT, "neurons_bw": NEURON, "fp_dec": FRACTION}
weights = [given["fc1"], given["fc2"]]
net = {"n_cycles": len(given["spikes"]), "n_inputs": weights[0].shape[1]}
for k, w in enumerate(weights):
    net[f"layer_{k}"] = {
        "neuron_model": "lif", "n_neurons": len(w), "beta": 0.9375, "learn_beta": False,
        "threshold": 1.0, "learn_threshold": False, "reset_mechanism": "subtract",
    }
snn = NetBuilder(net).build()
with torch.no_grad():
    for k, w in enumerate(weights):
        snn.layers[f"fc{k + 1}"].weight.copy_(torch.as_tensor(w))
write_file_all(VhdlGenerator(snn, bits).generate(functional=True, interface=True), output_dir=sys.argv[2])
own = Optimizer(snn, net, {k: {"min": b, "max": b} for k, b in bits.items()})
own.build_quant_snn(*bits.values())
with torch.no_grad():
    own.net(torch.as_tensor(given["spikes"], dtype=torch.float32)[:, None])
np.savez(sys.argv[3], hidden=own.net.spk_rec["lif1"][:, 0], out=own.net.spk_rec["lif2"][:, 0])
"""

_BENCH = """
library ieee; use ieee.std_logic_1164.all; use std.textio.all; use std.env.all;
entity bench is end;
architecture run of bench is
  signal clk, rst_n, start, ready, sample : std_logic := '0';
  signal in_spikes : std_logic_vector(@IN@ downto 0) := (others => '0');
  signal hidden : std_logic_vector(@HIDDEN@ downto 0);
  signal out_spikes : std_logic_vector(@OUT@ downto 0);
begin
  dut : entity work.network port map (clk => clk, rst_n => rst_n, start => start, sample_ready => '1', ready => ready,
    sample => sample, in_spikes => in_spikes, hidden => hidden, out_spikes => out_spikes);
  process
    file given : text open read_mode is "spikes.txt";
    variable i, o : line;
    variable spikes : bit_vector(@IN@ downto 0);
    variable cycle : integer := 0;
    procedure load is begin
      if not endfile(given) then
        readline(given, i); read(i, spikes); in_spikes <= to_stdlogicvector(spikes);
      end if;
    end;
    procedure tick is begin
      clk <= '0'; wait for 5 ns; clk <= '1'; wait for 5 ns; cycle := cycle + 1;
    end;
  begin
    tick; tick; rst_n <= '1';
    while ready /= '1' loop tick; end loop;
    load; start <= '1'; cycle := 0; tick; start <= '0';
    loop
      if sample = '1' then  -- inputs are read in the next cycle; the spikes are those of the step before
        write(o, to_bitvector(hidden)); write(o, ' '); write(o, to_bitvector(out_spikes)); writeline(output, o);
        tick; tick; load;
      end if;
      tick;
      exit when ready = '1';
    end loop;
    write(o, cycle); writeline(output, o);
    finish;
  end process;
end;
"""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The VHDL in GHDL's simulator: spikes ``[steps, neurons]``, and cycles of all time steps together."""

    hidden: Array
    out: Array
    cycles: int


def generate(python: str, weights: dict[str, Array], spikes: Array, folder: Path) -> tuple[Path, dict[str, Array]]:
    """The VHDL in a folder, and the spikes that the package's own quantized model has for this input.

    Args:
        python: an interpreter with spikerplus, which needs torch, snntorch and tabulate.
        weights: ``fc1`` and ``fc2``: ``[targets, sources]``, thresholds are 1.
        spikes: ``[steps, inputs]``.
        folder: to write into.
    """
    vhdl = folder / "vhdl"
    vhdl.mkdir()
    np.savez(folder / "given.npz", spikes=spikes, fc1=weights["fc1"], fc2=weights["fc2"])
    bits = {"WEIGHT": BITS_WEIGHT, "NEURON": BITS_NEURON, "FRACTION": BITS_FRACTION}
    script = _filled(_GENERATE, {f": {name}": f": {value}" for name, value in bits.items()})
    own = folder / "own.npz"
    command = [python, "-W", "ignore", "-c", script, str(folder / "given.npz"), str(vhdl), str(own)]
    subprocess.run(command, check=True, capture_output=True)
    with np.load(own) as arrays:
        return vhdl, {name: arrays[name].astype(np.uint8) for name in arrays}


def simulate(ghdl: str, vhdl: Path, spikes: Array, sizes: tuple[int, int]) -> Simulated:
    """Run the VHDL on ``spikes``, in a copy whose hidden layer (``sizes``: its neurons, and outputs) is a port."""
    folder = vhdl.parent / "simulated"
    folder.mkdir()
    for file in vhdl.glob("*.vhd"):
        (folder / file.name).write_text(file.read_text())
    network = (vhdl / "network.vhd").read_text()
    hidden = f"hidden : out std_logic_vector({sizes[0] - 1} downto 0);\n"
    network = network.replace("        in_spikes : in", f"        {hidden}        in_spikes : in", 1)
    network = network.replace(
        "    sample <= start_all;", "    hidden <= layer_0_feedback;\n    sample <= start_all;", 1
    )
    (folder / "network.vhd").write_text(network)
    (folder / "full_accelerator.vhd").unlink()
    ends = {"@IN@": spikes.shape[1] - 1, "@HIDDEN@": sizes[0] - 1, "@OUT@": sizes[1] - 1}
    (folder / "bench.vhd").write_text(_filled(_BENCH, {name: str(n) for name, n in ends.items()}))
    (folder / "spikes.txt").write_text("".join("".join(map(str, row[::-1])) + "\n" for row in spikes))
    _make(ghdl, folder, "bench")
    *lines, cycles = _run([ghdl, "elab-run", "--std=08", "bench", SILENT], folder).split("\n")[: len(spikes) + 2]
    bits = [[np.array(list(word[::-1]), np.uint8) for word in line.split()] for line in lines]
    hidden, out = (np.array(each) for each in zip(*bits, strict=True))
    return Simulated(hidden, out, int(cycles))


def verilog(ghdl: str, vhdl: Path) -> str:
    """The whole accelerator, with its registers for input spikes, in Verilog for yosys."""
    _make(ghdl, vhdl, "full_accelerator")
    command = [ghdl, "synth", "--std=08", "--out=@", "full_accelerator"]
    made, same = (_run([word.replace("@", form) for word in command], vhdl) for form in ("verilog", "vhdl"))
    return repaired(made, same)


def repaired(text: str, vhdl: str) -> str:
    """GHDL's Verilog with the last choices of its multiplexers, which it drops, from its VHDL of the same circuit."""
    last = dict(re.findall(r"select (\w+) <=\s(?:[^;]*,)?\s*([^,;]+?) when others;", vhdl))
    lines, target = [], ""
    for line in text.split("\n"):
        assigned = re.search(r"(\w+) <= ", line)
        target = assigned[1] if assigned else target
        if line.strip() == "endcase":
            lines.append(f"      default: {target} <= {_literal(last[target])};")
        lines.append(line)
    text = "\n".join(lines)
    text = re.sub(r"'b0{1000,}", "'b0", text)  # longer than yosys reads
    text = re.sub(r"\b(\d+)'b[zZ]\b", r"\1'b0", text)  # inputs that no pin drives
    text = re.sub(r"^module reg$", "module reg_plain", text, flags=re.MULTILINE)
    return re.sub(r"^( +)reg (\w+) \($", r"\1reg_plain \2 (", text, flags=re.MULTILINE)


def _literal(value: str) -> str:
    """A value of VHDL in Verilog."""
    if "=> 'X'" in value:
        return f"{int(value[1:].split()[0]) + 1}'bx"
    bits = value.strip("'\"")
    return value if bits == value else f"{len(bits)}'b{bits.lower()}"


def _make(ghdl: str, folder: Path, top: str) -> None:
    _run([ghdl, "import", "--std=08", *sorted(f.name for f in folder.glob("*.vhd"))], folder)
    _run([ghdl, "make", "--std=08", top], folder)


def _run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
