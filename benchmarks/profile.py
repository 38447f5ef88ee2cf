"""Profile ten networks on loihi1 beside SANA-FE, and write docs/profile.md.

    python -m benchmarks.profile [--only NAME ...] [--json build/profile.json] [-o docs/profile.md]

Each network runs on its data: energy and time at the assumed spike rates, measured on the data, and of SANA-FE on the
same map, whose spikes are compared with ours one by one. The rows of ``--only`` replace those of the JSON file; the
page is written when all ten are there. Nothing depends on the clock.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nirbridge as nb
from benchmarks.profile_nets import CASES, Case
from nirbridge.errors import NirbridgeError

CHIP = "loihi1"
ENERGY_SHARE, TIME_SHARE = 0.05, 0.10

INTRO = """# Profiles: ten networks beside SANA-FE

This page is written by `python -m benchmarks.profile`: every figure is computed, none is timed. Ten networks, fixed
before the first comparison, on loihi1. SANA-FE is an independent simulator of such chips; it runs the same map on the
same spikes, with the same figures of energy and time for each event
(`nirbridge profile MODEL --chip loihi1 --input DATA --to sanafe`). No rule of ours is fitted to its output.

"""
WITNESS = """## Spikes, energy and time of an inference

Ours and SANA-FE's, averages over the samples; the ratio is ours over SANA-FE's. Spikes are compared one by one, of
every neuron in every time step.

"""
ASSUMED = """## How far an assumed spike rate is off

Without data a map assumes 0.02 spikes per neuron and time step, inputs too. Energy and time of a time step under this
assumption, and measured on the data above:

"""


def run(name: str) -> dict[str, Any]:
    """The record of one network."""
    case = CASES[name]()
    options = {"effort": "fast", **case.options}
    profile, why = _profile(case, name, options)
    point = profile.points[0]
    assumed = nb.map(case.network, CHIP, **options).costs
    return {
        "name": name,
        "text": case.text,
        "neurons": point.about["neurons"],
        "synapses": point.about["synapses"],
        "cores": point.about["cores"],
        "steps": point.about["hardware_steps"],
        "spikes": point["spikes_per_inference"],
        "operations": point["synaptic_ops_per_inference"],
        "energy": point["energy_per_inference_j"],
        "time": point["time_per_inference_s"],
        "energy_step": point["energy_per_step_j"],
        "time_step": point["time_per_step_s"],
        "accuracy": point["accuracy"],
        "assumed_energy_step": assumed.energy_per_step_j,
        "assumed_time_step": assumed.time_per_step_s,
        "witness": _witness(point),
        "why": why,
    }


def _profile(case: Case, name: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The profile beside SANA-FE; without it, and the reason, where that cannot express the network."""
    arguments: dict[str, Any] = {**options, "name": name, "potentials": False}
    try:
        return nb.profile(case.network, CHIP, case.inputs, case.labels, target="sanafe", **arguments), ""
    except NirbridgeError as error:
        return nb.profile(case.network, CHIP, case.inputs, case.labels, **arguments), str(error.problems[0])


def _witness(point: Any) -> dict[str, Any] | None:
    witness = point.witness
    if witness is None:
        return None
    fields = ("version", "spikes_equal", "spikes", "energy_j", "time_s", "samples", "notes")
    return {field: getattr(witness, field) for field in fields}


def page(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of docs/profile.md."""
    rows = [records[name] for name in CASES]
    parts = [INTRO, _networks(rows), WITNESS, _table(rows), "".join(_causes(rows)), ASSUMED, _assumption(rows)]
    return "".join(parts)


def _networks(rows: list[Mapping[str, Any]]) -> str:
    heads = ("network", "", "neurons", "synapses", "cores", "time steps")
    cells = [(r["name"], r["text"], *(f"{r[k]:,}" for k in ("neurons", "synapses", "cores", "steps"))) for r in rows]
    return _markdown(heads, cells)


def _table(rows: list[Mapping[str, Any]]) -> str:
    heads = ("network", "spikes", "equal", "energy, ours", "SANA-FE", "ratio", "time, ours", "SANA-FE", "ratio")
    return _markdown(heads, [row_cells(r) for r in rows])


def row_cells(r: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of a network in the table of energy and time."""
    ours = (_unit(r["energy"], "J"), _unit(r["time"], "s"))
    w = r["witness"]
    if w is None:
        return (r["name"], f"{r['spikes']:,.1f}", "not run", ours[0], "", "", ours[1], "", "")
    theirs = (_unit(w["energy_j"], "J"), _unit(w["time_s"], "s"))
    ratios = (f"{r['energy'] / w['energy_j']:.3f}", f"{r['time'] / w['time_s']:.3f}")
    equal = "yes" if w["spikes_equal"] else "no"
    return (r["name"], f"{r['spikes']:,.1f}", equal, ours[0], theirs[0], ratios[0], ours[1], theirs[1], ratios[1])


def _causes(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each network that is not run, or that differs by more than the limits."""
    lines = []
    for r in rows:
        if r["witness"] is None:
            lines.append(f"* **{r['name']}** is not run by SANA-FE: {r['why']}.")
        elif beyond(r):
            lines.append(f"* **{r['name']}**: {'. '.join(r['witness']['notes']) or 'the cause is not known'}.")
    if lines:
        text = (
            "Differences above 5 % in energy or 10 % in time, and networks that SANA-FE cannot express. The cause of a"
        )
        text += (
            "\ndifference in time is measured by the profile, by another run of SANA-FE with its timing model simple:"
        )
        yield f"{text}\n\n" + "\n".join(lines) + "\n\n"


def beyond(r: Mapping[str, Any]) -> bool:
    """True where energy differs by more than 5 %, or time by more than 10 %."""
    w = r["witness"]
    return abs(r["energy"] / w["energy_j"] - 1) > ENERGY_SHARE or abs(r["time"] / w["time_s"] - 1) > TIME_SHARE


def _assumption(rows: list[Mapping[str, Any]]) -> str:
    heads = ("network", "energy, assumed", "measured", "ratio", "time, assumed", "measured", "ratio")
    cells = []
    for r in rows:
        energy, time = r["energy_step"] / r["assumed_energy_step"], r["time_step"] / r["assumed_time_step"]
        pair = (_unit(r["assumed_energy_step"], "J"), _unit(r["energy_step"], "J"), f"{energy:.1f}")
        cells.append((r["name"], *pair, _unit(r["assumed_time_step"], "s"), _unit(r["time_step"], "s"), f"{time:.1f}"))
    ratios = [r["energy_step"] / r["assumed_energy_step"] for r in rows]
    text = f"The measured energy is {min(ratios):.1f} to {max(ratios):.1f} times the assumed one.\n"
    return _markdown(heads, cells) + text


def _unit(value: float, unit: str) -> str:
    from nirbridge.report.map_facts import figure_with_prefix

    return figure_with_prefix(value, unit)


def _markdown(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n\n"


def main() -> int:
    """Run, store, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), help="networks to run; default: all")
    parser.add_argument("--json", type=Path, default=Path("build/profile.json"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/profile.md"))
    options = parser.parse_args()
    records = json.loads(options.json.read_text()) if options.only and options.json.exists() else {}
    for name in options.only or CASES:
        print(name, file=sys.stderr, flush=True)
        records[name] = run(name)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(records, indent=1, sort_keys=True))
    missing = [name for name in CASES if name not in records]
    if missing:
        print(f"{options.output} not written, these are missing: {', '.join(missing)}", file=sys.stderr)
        return 0
    options.output.write_text(page(records), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
