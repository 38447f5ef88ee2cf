"""The network of Spiker+ in Verilog, beside the package spikerplus and what is published; writes a table in Markdown.

    python -m benchmarks.verilog [--lanes 16 auto ...] [--spikerplus PYTHON --ghdl GHDL]
                                 [--json build/verilog.json] [-o build/verilog.md] [--nir build/verilog.nir]

784-128-10 leaky neurons without biases, reset by subtraction, decay 15/16, threshold 1, weights of 4 bits (multiples of
1/8) from a seed. The input is an image of random pixels at the density of MNIST, as spikes of seeded rates in 100 time
steps: no accuracy is measured. Both designs get the same weights and spikes, and the same programs and device; ours is
compared with the fixed-point simulator in every time step before it is counted. Rows are kept in the JSON file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np

import nirbridge as nb
from benchmarks import verilog_spikerplus as spikerplus
from benchmarks.verilog_published import PUBLISHED
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.verilog.boards import Board, read_board
from nirbridge.emitters.verilog.emit import SOURCES, VerilogOptions, program
from nirbridge.emitters.verilog.lanes import chosen
from nirbridge.emitters.verilog.plan import Circuit
from nirbridge.emitters.verilog.run import run_program
from nirbridge.emitters.verilog.synthesis import Synthesis, synthesize
from nirbridge.emitters.verilog.tokens import mark, token_lines
from nirbridge.files.scratch import temporary_folder
from nirbridge.simulators.fixed.simulate import simulate_fixed

SIZES = (784, 128, 10)
STEPS = 100
BITS = spikerplus.BITS_WEIGHT
GRID = 2**spikerplus.BITS_FRACTION
PIXELS, BRIGHTNESS = 0.191, (0.37, 1.0)
"""The share of pixels that are not 0, and their range: the mean is 0.13, as in MNIST."""
DT_S = 1e-3
DECAY = 1 / 16
AS_EMITTED = VerilogOptions()
BOARD = AS_EMITTED.board
HEADS = ("", "LUTs", "flip-flops", "block RAMs", "multipliers", "MHz", "cycles, 100 time steps", "time, 100 time steps")
RELATED = (
    "",
    "network",
    "device",
    "LUTs or cells",
    "block RAMs",
    "MHz",
    "an image",
    "accuracy",
    "tools",
    "equality",
    "",
)
INTRO = f"""784-128-10 leaky neurons, reset by subtraction, decay 15/16, weights of {BITS} bits from a seed; an image of
random pixels at the density of MNIST, {STEPS} time steps of spikes. Both designs have the same weights and spikes, and
the same programs and device (ECP5 LFE5U-25F); after `--lanes`: the sums side by side of the hidden and the output
neurons. Measured by `python -m benchmarks.verilog`.

"""
OF_SPIKERPLUS = """nirbridge's output spikes are those of the chip's integers in every time step. Of the hidden spikes
of spikerplus {share:.1f} % are not those of its own quantized model in Python, at the latency that fits best: the
hardware leaks after its reset, adds one weight after the other and saturates each sum. It reads all inputs in turn,
spikes or not; its accelerator takes them bit by bit, one a cycle, which is not counted here.

"""
NOTE = """The figures below are those of their sources, on other devices and other data: a LUT of one family is not one
of another. An empty cell is a figure that the source does not give.

"""


def weights(seed: int = 0) -> dict[str, Array]:
    """``fc1`` and ``fc2``: ``[targets, sources]`` on the grid, as a normal distribution whose deviation is 1/4."""
    rng = np.random.default_rng(seed)
    low, high = -(2 ** (BITS - 1)), 2 ** (BITS - 1) - 1
    drawn = [np.trunc(rng.normal(0, GRID / 4, (post, pre))) for pre, post in pairwise(SIZES)]
    return {f"fc{k}": (np.clip(w, low, high) / GRID).astype(np.float32) for k, w in enumerate(drawn, start=1)}


def graph(seed: int = 0) -> nir.NIRGraph:
    """The network as a NIR graph."""
    nodes: dict[str, nir.NIRNode] = {"input": nir.Input({"input": np.array(SIZES[:1])})}
    for k, (name, w) in enumerate(weights(seed).items(), start=1):
        one = np.ones(len(w))
        nodes[name] = nir.Linear(weight=w)
        nodes[f"lif{k}"] = nir.LIF(
            tau=one * DT_S / DECAY, r=one / DECAY, v_leak=0 * one, v_threshold=one, v_reset=0 * one
        )
    nodes["output"] = nir.Output({"output": np.array(SIZES[-1:])})
    timing = {
        "nirbridge:dt": DT_S,
        "nirbridge:integrator": "euler",
        "nirbridge:reset": "subtract",
        "nirbridge:compare": ">",
    }
    return nir.NIRGraph(nodes, list(pairwise(nodes)), metadata=timing)


def image(seed: int = 1) -> Array:
    """``[STEPS, 784]`` spikes at rates that stand for brightness."""
    rng = np.random.default_rng(seed)
    rates = np.where(rng.random(SIZES[0]) < PIXELS, rng.uniform(*BRIGHTNESS, SIZES[0]), 0.0)
    return (rng.random((STEPS, SIZES[0])) < rates).astype(np.uint8)


def ours(lanes: str, spikes: Array, board: Board) -> dict[str, Any]:
    """The row of nirbridge's circuit; it fails where an output spike differs from the integers."""
    quantized = nb.quantize(nb.load(graph()), "loihi2", weight_bits=BITS)
    plan = chosen(quantized, lanes, board, AS_EMITTED.rate, AS_EMITTED.activity)
    made = program(plan, board, AS_EMITTED.activity)
    expected = simulate_fixed(quantized, spikes).recording["output", "s"]
    differing = int((run_program(made, spikes)["output", "s"] != expected).sum())
    if differing:
        raise AssertionError(f"{differing} output spikes differ from those of the integers")
    files = {name: content for name, content in made.files.items() if "/" not in name}
    wide = " and ".join(str(core.stream.layout.lanes) for core in plan.cores)
    row = _row(f"nirbridge, `--lanes {lanes}`: {wide}", synthesize(files, SOURCES, "net", board))
    return {**row, "cycles": cycles(plan, made, spikes)}


def cycles(plan: Circuit, made: Artifact, spikes: Array) -> int:
    """Clock cycles of the circuit's own test bench for these time steps, no stream stalled."""
    (stream,) = plan.inputs
    with temporary_folder("measured") as scratch:
        folder = Path(scratch, "program")
        write_artifact(made, folder)
        for file in (folder / "vectors").iterdir():
            file.unlink()
        tokens = "".join(token_lines(stream, spikes, more=len(plan.cores) + 1)) + mark(stream)
        (folder / "vectors" / f"{stream.id}.hex").write_text(tokens)
        subprocess.run(["make", "sim.vvp"], cwd=folder, check=True, capture_output=True)
        command = ["vvp", "-n", "sim.vvp", f"+steps={len(spikes)}"]
        text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    found = re.search(r"PASS: \d+ tokens in (\d+) cycles", text)
    if found is None:
        raise AssertionError(text[-300:])
    return int(found[1])


def rival(python: str, ghdl: str, spikes: Array, board: Board) -> dict[str, Any]:
    """The row of spikerplus, of its whole accelerator; the cycles are those of its network, inputs already there."""
    with temporary_folder("measured") as scratch:
        vhdl, own = spikerplus.generate(python, weights(), spikes, Path(scratch))
        seen = spikerplus.simulate(ghdl, vhdl, spikes, SIZES[1:])
        text = spikerplus.verilog(ghdl, vhdl)
    used = synthesize({"net.v": text.encode()}, ["net.v"], "full_accelerator", board)
    row = _row(f"spikerplus 2.0.3, {spikerplus.BITS_NEURON} bits of potential", used)
    return {**row, "cycles": seen.cycles, "unlike": unlike(seen.hidden, own["hidden"])}


def unlike(seen: Array, own: Array, lags: int = 4) -> float:
    """The share of spikes that differ, at the lag in time steps at which fewest do."""
    shifted = [(seen[lag : lag + len(own)], own[: len(seen) - lag]) for lag in range(lags)]
    return min(float(np.mean(a[: len(b)] != b[: len(a)])) for a, b in shifted)


def _row(name: str, made: Synthesis) -> dict[str, Any]:
    used = {key: getattr(made.used, key) for key in ("luts", "flip_flops", "block_rams", "multipliers")}
    return {"name": name, **used, "mhz": made.mhz, "versions": list(made.versions)}


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The section "Beside what is published"."""
    parts = ["## Beside what is published\n\n", INTRO, _markdown(HEADS, [_cells(row) for row in rows])]
    parts += [OF_SPIKERPLUS.format(share=100 * row["unlike"]) for row in rows if "unlike" in row]
    names = sorted({text for row in rows for text in row["versions"]})
    related = [(*row[:-1], row.source) for row in PUBLISHED]
    return "".join([*parts, NOTE, _markdown(RELATED, related), f"Versions: {', '.join(names)}.\n"])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    keys = ("luts", "flip_flops", "block_rams", "multipliers")
    micro = row["cycles"] / row["mhz"]
    return (row["name"], *(f"{row[k]:,}" for k in keys), f"{row['mhz']:.1f}", f"{row['cycles']:,}", f"{micro:,.0f} us")


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def main() -> None:
    """Measures the requested rows, and writes the rows and the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", nargs="*", default=["16", "auto"], help="auto, or sums side by side")
    parser.add_argument("--spikerplus", metavar="PYTHON", help="interpreter of an environment with spikerplus")
    parser.add_argument("--ghdl", default="ghdl", help="GHDL 2.0 or later")
    parser.add_argument("--json", type=Path, default=Path("build/verilog.json"))
    parser.add_argument("--nir", type=Path, help="write the network to this NIR file")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/verilog.md"))
    options = parser.parse_args()
    if options.nir is not None:
        nir.write(options.nir, graph())
    rows = json.loads(options.json.read_text()) if options.json.is_file() else {}
    board, spikes = read_board(BOARD), image()
    made = [ours(lanes, spikes, board) for lanes in options.lanes]
    if options.spikerplus is not None:
        made.append(rival(options.spikerplus, options.ghdl, spikes, board))
    for row in made:
        print(row)
        rows[row["name"]] = row
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1) + "\n")
    options.output.write_text(page(list(rows.values())), encoding="utf-8")


if __name__ == "__main__":
    main()
