"""The page of the compiler stack, written from the rows of ``stack.py``."""

from __future__ import annotations

import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.stack_nets import HELD_OUT

Row = Mapping[str, Any]
FORMS = {"iree": ("time batching", "fusion"), "loops": ("fusion", "events", "time batching")}
KEYS = {"time batching": "batched", "fusion": "fused", "events": "events"}
TITLES = {"iree": "IREE", "loops": "Plain loops: MLIR and LLVM"}
INTRO = """# Forms of the MLIR dialect, timed

This page is written by `python -m benchmarks.stack` ([how](../benchmarks/README.md)). It compares the
[forms](mlir.md#forms) that `nirbridge lower` can give a network with the plain program: time batching, fusion, and
products by events, in two compilers, in one run.

* **Equality comes first.** The output spikes of every program are those of the reference simulator, or the benchmark
  fails.
* 32 time steps, one thread, CPU time, the least of several rounds in which every program has its turn. Compare within
  a row: machines differ.
* A factor is the time of a time step without the form over the time with it: above 1, the form gains. **Bold**: the
  estimate chose the form there, and the factor is that of the chosen program without and with it. "All chosen" is the
  plain program over the chosen one.
* Networks with a `*` are held out: the constants of the estimate were set on the others.
* *IREE*: llvm-cpu, `--iree-llvmcpu-target-cpu=host --iree-opt-data-tiling`. *Plain loops*: `mlir-opt` with products
  in tiles of 32 x 256, then LLVM -O3 for this processor.
* `net_a` is 784-1000-10 LIF, `narrow` 256-512-10, `wide` 2048-2048-10, `tall` 4096-256-10, `deep` 512-512-512-512-10;
  `elementwise`: two layers of 4,096 CubaLIF neurons (`_1k`: 1,000), one synapse each; `few_synapses` and `fan_in_40`:
  8 and 40 sources per neuron; `drawn`: of random shape.

"""


def page(rows: Sequence[Row]) -> str:
    """The text of docs/stack.md."""
    parts = [INTRO, "## What the estimate chose\n\n", _summary(rows)]
    for compiler, title in TITLES.items():
        chosen = [r for r in rows if r["compiler"] == compiler]
        parts += [f"## {title}\n\n", _table(chosen, FORMS[compiler])] if chosen else []
    return "".join([*parts, "## Versions\n\n", ", ".join(versions()), ".\n"])


def is_chosen(row: Row, form: str) -> bool:
    """Whether the estimate chose a form."""
    return bool(row["forms"][KEYS[form]])


def gain(row: Row, form: str) -> float | None:
    """The time without the form over the time with it; None where it was not measured."""
    us = row["us"]
    if is_chosen(row, form):
        return us[f"chosen without {form}"] / us["chosen"]
    return us["plain"] / us[form] if form in us else None


def overall(row: Row) -> float:
    """The plain program's time over that of the chosen one."""
    return row["us"]["plain"] / row["us"]["chosen"]


def _summary(rows: Sequence[Row]) -> str:
    lines = []
    for compiler, forms in FORMS.items():
        for form in forms:
            for held in (False, True):
                some = [r for r in rows if r["compiler"] == compiler and (r["net"] in HELD_OUT) == held]
                lines.append((compiler, form, "held out" if held else "fitted", *_facts(some, form)))
    heads = ("compiler", "form", "networks", "rows", "chosen", "factor where chosen", "not chosen, at least 1.5 x")
    return _markdown(heads, lines) + _slowest(rows)


def _facts(rows: Sequence[Row], form: str) -> tuple[str, str, str, str]:
    gains = [g for r in rows if is_chosen(r, form) and (g := gain(r, form)) is not None]
    missed = sum(1 for r in rows if not is_chosen(r, form) and (gain(r, form) or 0) >= 1.5)
    text = f"{min(gains):.2f} to {max(gains):.2f}, median {statistics.median(gains):.2f}" if gains else "-"
    return str(len(rows)), str(len(gains)), text, str(missed)


def _slowest(rows: Iterable[Row]) -> str:
    timed = [r for r in rows if r["compiler"] in FORMS]
    if not timed:
        return ""
    worst = min(timed, key=overall)
    where = f"`{worst['net']}`, batch {worst['batch']}, {TITLES[worst['compiler']].partition(':')[0]}"
    factor = 1 / overall(worst)
    if factor < 1.005:
        return "The chosen program is nowhere slower than the plain one.\n\n"
    return f"The chosen program is never slower than the plain one by more than a factor of {factor:.2f} ({where}).\n\n"


def _table(rows: Sequence[Row], forms: Sequence[str]) -> str:
    rates = len({r["rate"] for r in rows}) > 1
    heads = ["network", "batch", *(["input"] if rates else []), "plain, us", *forms, "all chosen"]
    lines = []
    for r in rows:
        name = f"{r['net']}{' *' if r['net'] in HELD_OUT else ''}"
        rate = [f"{100 * r['rate']:g} %"] if rates else []
        lines.append(
            [
                name,
                str(r["batch"]),
                *rate,
                _number(r["us"]["plain"]),
                *(_cell(r, f) for f in forms),
                f"{overall(r):.2f}",
            ]
        )
    return _markdown(heads, lines)


def _cell(row: Row, form: str) -> str:
    factor = gain(row, form)
    text = "" if factor is None else f"{factor:.2f}"
    return f"**{text}**" if is_chosen(row, form) else text


def _number(us: float) -> str:
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def versions() -> list[str]:
    """Of everything that takes part, and the processor."""
    found = [f"Python {platform.python_version()}"]
    for package in ("iree-base-compiler", "xdsl", "numpy"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    text = subprocess.run(["mlir-opt-22", "--version"], capture_output=True, text=True, check=False).stdout
    found += [line.strip() for line in text.splitlines() if "version" in line.lower()][:1]
    return [*found, processor()]


def processor() -> str:
    """Its name."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
