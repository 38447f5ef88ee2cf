"""A circuit: the lanes of its cores, and what the open tools say of a device."""

from __future__ import annotations

from typing import Any

from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document
from nirbridge.emitters.verilog.synthesis import FIGURES
from nirbridge.errors import counted
from nirbridge.report.html.page import Child, Section, remark, short, table

_MANIFEST = {"lanes": dict[str, list[int]], "cycles_per_step": int, "activity": float, "board": dict[str, Any]}
_FIGURES: dict[str, Any] = {"board": str, "device": str, "mhz": float, "board_mhz": float, "versions": list[str]}
_CELLS = {name: name.replace("_", " ") for name in ("luts", "flip_flops", "block_rams", "multipliers")}


def circuit_section(program: Artifact) -> Section:
    """The section of an emitted program in Verilog; figures where it was synthesized. Raises FileError."""
    known = read_document(program, MANIFEST, _MANIFEST)
    cycles, rows = known["cycles_per_step"], [(short(n), *map(str, x)) for n, x in known["lanes"].items()]
    speed = f"{cycles:,} cycles a time step expected at {known['activity']:.0%} activity"
    lead = f"A circuit of {counted(len(rows), 'core')}; {speed}."
    cores = table("Lanes of the cores", ("population", "sums side by side", "neurons side by side"), rows, "lr")
    body: list[Child] = [cores]
    if FIGURES in program.files:
        f = read_document(program, FIGURES, _FIGURES | dict.fromkeys(_CELLS, list[int]))
        cells = [(word, *(f"{x:,}" for x in f[name])) for name, word in _CELLS.items()]
        device = f"{short(f['board'])} ({short(f['device'])})"
        body.append(table(f"Cells of {device}", ("cells", "used", "of"), cells, "lr"))
        lead += f" {f['mhz']:.1f} MHz routed: {cycles / f['mhz']:,.3g} us a time step."
        body.append(remark(f"Placed and routed by {', '.join(map(short, f['versions']))}."))
    return Section("circuit", "Circuit", lead, body)
