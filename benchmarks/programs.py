"""Time per time step of emitted programs beside other ways to run the same networks; writes docs/programs.md.

    python -m benchmarks.programs [--only NAME ...] [--rounds 5] [--snn-mlir PYTHON]
                                  [--json build/programs.json] [-o docs/programs.md]

One sample, one thread, warm; medians of CPU time over rounds, in each of which every program has its turn. Before a
program is timed, its output is compared with that of the fixed-point simulator (integers) or of the reference simulator
(float32), value by value; one that differs is reported and not timed. The rows of ``--only`` replace those of the JSON
file; the page is written when all networks are there.
"""

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy is imported

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Mapping, Sequence  # noqa: E402
from importlib.metadata import PackageNotFoundError, version  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import nirbridge as nb  # noqa: E402
from benchmarks import programs_timed as timed  # noqa: E402
from benchmarks.programs_nets import CASES, Case  # noqa: E402
from benchmarks.programs_snn_mlir import Absent  # noqa: E402
from nirbridge.errors import ExporterFaultWarning  # noqa: E402
from nirbridge.quantization.model import QuantizedNetwork  # noqa: E402
from nirbridge.quantization.operators import weights_of  # noqa: E402
from nirbridge.simulators.fixed.simulate import simulate_fixed  # noqa: E402
from nirbridge.simulators.types import Probe  # noqa: E402

CHIP = "loihi2"
LAVA_ROUNDS = 1
INTEGERS = (timed.C_MAKE, timed.C_FASTEST, timed.NUMBA, timed.ORT, timed.LAVA)
REALS = (timed.NUMBA_FLOAT, timed.ORT_FLOAT, timed.SNN_MLIR)

INTRO = """# Programs, timed

This page is written by `python -m benchmarks.programs` ([how](../benchmarks/README.md)). It runs emitted programs and
other ways to compute the same network side by side, in one run: microseconds per time step at batch 1.

* One sample, one thread, warm: each program has run before, and preparation and compilation are not timed. Medians of
  CPU time over rounds in which every program has its turn of 0.1 s. Compare within a row: machines differ.
* **Equality comes first.** The integers of a program are compared with the fixed-point simulator, the spikes of float32
  with the reference simulator: every value of the output in all time steps. A program that differs is reported, and
  not timed.
* **C, as emitted** is `nirbridge emit --to c`, compiled by its own Makefile (`cc -O3`); the next column has the same
  files with `gcc -O3 -march=native`. A loop in C calls `nb_step` and reads the clock.
* **nirbridge** is the prepared simulator with its compiled kernels (numba), called from Python; **ONNX Runtime**
  runs `nirbridge emit --to onnx`. One call does all time steps, which share its cost.
* **Lava** is `nirbridge emit --to lava`. Its neurons are processes of Python: the time is the clock's, from the first
  time step to the last of a run of 1,000.

"""
SNN_MLIR_TEXT = """## snn-mlir

The package snn-mlir 1.0.0 (2026-08) writes a network of NIR as MLIR in a dialect of its own, with a `main.c` that calls
it. The column is measured with `--snn-mlir PYTHON`, the interpreter of an environment with `pip install snn-mlir`, and
`snn-opt` at `SNN_OPT`: this program of its repository turns the dialect into MLIR's own, and no package has it. Here
its dialect and the floating-point part of its lowering, retyped and shortened from its published sources, were compiled
against LLVM and MLIR 22.1.8 (`MLIR_DIR`): the figures are of this build, not of a binary of its authors. The times are
of the function in the object file that its `run` makes (`llc`, -O2), called by a loop as that of the programs in C.

* Every value of the output is equal in the five networks that it takes.
* It refuses `recurrent`: its `CubaLIF` has no gain of the input current, and it has no delays.
* Its `run` ends with an error for `digits_cnn` and `cnn_sinabs`: its list of passes leaves `memref.subview`, by which a
  padded convolution is written, and `mlir-translate` does not take this operation. For these two the benchmark adds the
  pass `expand-strided-metadata` to the list.
* Its products are loops over every weight, active input or not, each sum in order and one value at a time; nirbridge's
  kernels add the weights of active inputs.

"""


def run(name: str, rounds: int, snn_mlir: str | None, scratch: Path) -> dict[str, Any]:
    """The record of one network; programs are compiled in folders of ``scratch``."""
    case = CASES[name]()
    quantized = nb.quantize(case.network, CHIP)
    record = {"name": name, **_facts(case, quantized), "programs": {}}
    ready: dict[str, timed.Program] = {}
    for program, build in timed.programs(case, quantized, snn_mlir):
        record["programs"][program] = row = {"us": None, "differing": None, "why": ""}
        try:
            folder = scratch / f"{name}-{len(record['programs'])}"
            folder.mkdir()
            ready[program] = made = build(folder)
            row["differing"] = made.differing()
        except (Absent, ImportError) as error:
            row["why"] = str(error)
        if row["differing"] != 0:
            ready.pop(program, None)
    for program, times in measured(ready, rounds).items():
        record["programs"][program]["us"] = statistics.median(times) * 1e6
    return record


def measured(ready: Mapping[str, timed.Program], rounds: int) -> dict[str, list[float]]:
    """Seconds per time step of every program, in turn."""
    times: dict[str, list[float]] = {name: [] for name in ready}
    for k in range(rounds):
        for name, program in ready.items():
            if name != timed.LAVA or k < LAVA_ROUNDS:
                times[name].append(program.turn())
    return times


def _facts(case: Case, quantized: QuantizedNetwork) -> dict[str, Any]:
    probes = [Probe(p.name, ("count",)) for p in quantized.populations]
    arrays = simulate_fixed(quantized, case.spikes, record=probes).recording.arrays
    spikes = sum(int(arrays[p.node, "count"].sum()) for p in probes)
    steps = len(case.spikes)
    return {
        "text": case.text,
        "neurons": case.network.neurons,
        "weights": sum(weights_of(p.operator).size for p in quantized.projections),
        "steps": steps,
        "density": float(case.spikes.mean()),
        "rate": spikes / case.network.neurons / steps,
    }


def page(records: Mapping[str, Mapping[str, Any]], facts: Sequence[str]) -> str:
    """The text of docs/programs.md."""
    rows = [records[name] for name in CASES]
    parts = [INTRO, _networks(rows), "## The integers of a chip\n\n", _times(rows, INTEGERS)]
    parts += ["The same as multiples of the program in C, as emitted:\n\n", _ratios(rows, INTEGERS, timed.C_MAKE)]
    parts += ["## Float32\n\n", _times(rows, REALS)]
    parts += ["As multiples of nirbridge's kernels:\n\n", _ratios(rows, REALS, timed.NUMBA_FLOAT)]
    parts += [_untimed(rows), SNN_MLIR_TEXT, "## Versions\n\n", ", ".join(facts), ".\n"]
    return "".join(parts)


def _networks(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = (
        "network",
        "",
        "neurons",
        "weights stored",
        "time steps",
        "input spikes",
        "spikes per neuron and time step",
    )
    cells = [
        (r["name"], r["text"], *(f"{r[k]:,}" for k in ("neurons", "weights", "steps")),
         f"{100 * r['density']:.2g} %", f"{r['rate']:.2g}")
        for r in rows
    ]  # fmt: skip
    return _markdown(heads, cells)


def _times(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    return _markdown(("us per time step", *names), [(r["name"], *(cell(r, n) for n in names)) for r in rows])


def cell(record: Mapping[str, Any], name: str) -> str:
    """Microseconds of a program; a dash where it was not timed."""
    us = record["programs"][name]["us"]
    return "-" if us is None else f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def _ratios(rows: Sequence[Mapping[str, Any]], names: Sequence[str], base: str) -> str:
    cells = [(r["name"], *(ratio(r, n, base) for n in names if n != base)) for r in rows]
    return _markdown(("", *(n for n in names if n != base)), cells)


def ratio(record: Mapping[str, Any], name: str, base: str) -> str:
    """The time of a program over that of another."""
    us, whole = record["programs"][name]["us"], record["programs"][base]["us"]
    return "-" if us is None or whole is None else f"{us / whole:,.3g}x" if us < 1000 * whole else f"{us / whole:,.0f}x"


def _untimed(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for name in (*INTEGERS, *REALS):
        wrong = [f"{r['name']} ({r['programs'][name]['differing']:,} values)" for r in rows
                 if r["programs"][name]["differing"]]  # fmt: skip
        if wrong:
            lines.append(f"* **{name}** differs from the simulator: {', '.join(wrong)}.")
        for why in dict.fromkeys(r["programs"][name]["why"] for r in rows):
            absent = [r["name"] for r in rows if r["programs"][name]["why"] == why]
            if why:
                lines.append(f"* **{name}** on {', '.join(absent)}: {why}")
    return "## Not timed\n\n" + ("\n".join(lines) or "None.") + "\n\n"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def versions() -> list[str]:
    """Of everything that takes part, and the processor."""
    packages = ("numpy", "numba", "onnxruntime")
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package).partition('-')[0]}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    pinned = Path(nb.__file__).parent / "emitters" / "lava" / "requirements.txt"
    found += [line.replace("==", " ") for line in pinned.read_text().split() if line.startswith("lava-nc==")]
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    return [*found, compiler.splitlines()[0], _processor()]


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    """Measures, writes JSON, and the page when all networks are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--snn-mlir", metavar="PYTHON", help="interpreter of an environment with snn-mlir")
    parser.add_argument("--json", type=Path, default=Path("build/programs.json"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/programs.md"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ExporterFaultWarning)
    records = json.loads(options.json.read_text()) if options.json.is_file() else {}
    for name in options.only:
        try:
            with tempfile.TemporaryDirectory(prefix="nirbridge-programs-") as scratch:
                records[name] = run(name, options.rounds, options.snn_mlir, Path(scratch))
        except FileNotFoundError as error:
            print(f"{name}: {error} is not there", file=sys.stderr)
            continue
        for program, row in records[name]["programs"].items():
            print(
                f"{name:12} {program:26} {cell(records[name], program):>8} us, {row['differing']} differ {row['why']}"
            )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(records, indent=1) + "\n")
    if set(records) >= set(CASES):
        options.output.write_text(page(records, versions()), encoding="utf-8")


if __name__ == "__main__":
    main()
