"""A verification for a terminal, and as one plain document."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.comparison.types import ComparisonRow
from nirbridge.errors import counted, quoted
from nirbridge.report.compare import compare_document, place_text
from nirbridge.report.inspect import name_text
from nirbridge.report.map_facts import one_line
from nirbridge.report.tables import share_text, table
from nirbridge.verification.bounds import LayerBound
from nirbridge.verification.program import OTHER_WAYS
from nirbridge.verification.verify import ComparedPair, Verification, verification_failures, verification_verdict

__all__ = ["verification_failures", "verify_document", "verify_text"]

_VARIABLES = {"s": "spikes", "v": "potentials", "u": "currents", "count": "counts"}
LAYERS = ("population", "bound", "deviation", "spikes", "changed by rounding", "Jaccard", "saturated")
COLUMNS = (
    "pair",
    "required",
    "equal",
    "first difference",
    "Jaccard",
    "count error",
    "latency",
    "same decision",
    "accuracy",
)


def verify_text(verification: Verification, *, notes: bool = True) -> RenderableType:
    """The table of pairs, the layers that differ, latency, input, notes (where ``notes`` is true), and the verdict."""
    length = f"{counted(verification.steps, 'time step')} on {name_text(verification.chip)}"
    lines = [f"{length}; input: {one_line(verification.input_said)}"]
    lines += [
        f"latency of output {quoted(n)}: {counted(steps, 'time step')}" for n, steps in verification.latency.items()
    ]
    near = "retimed" if verification.early_spikes else "reference"
    return Group(
        table(COLUMNS, "LR", [_cells(verification, pair) for pair in verification.pairs]),
        Text(),
        Text(
            f"{near} ~ fixed, each population driven by the spikes of fixed; deviation in thresholds (readout: of v):"
        ),
        table(LAYERS, "LR", [_bound_cells(verification, layer) for layer in verification.layers]),
        Text(),
        *(Text(line) for line in (*lines, *_early(verification))),
        *(Text(f"- {line}") for line in _layers(verification)),
        *(Text(f"- {one_line(note)}") for note in verification.notes if notes),
        Text(verification_verdict(verification), style="bold"),
    )


def _early(verification: Verification) -> list[str]:
    """Differences of a run with early spikes from the reference, in sentences."""
    counts = [f"{name_text(name)} {count:,}" for name, count in verification.early_spikes.items()]
    if not counts:
        return []
    pair = next(p for p in verification.pairs if p.b == "retimed")
    spikes = pair.comparison.spikes
    differ = (
        "no spike" if pair.comparison.equal else "spikes from time step " + f"{pair.comparison.first_step or 0:,} on"
    )
    jaccard = "" if spikes is None else f" (Jaccard {share_text(spikes.jaccard)})"
    return [
        f"spikes kept from before the first input: {', '.join(counts)}",
        f"they change {differ}{jaccard}: reference ~ retimed, both in floating point",
    ]


def _bound_cells(verification: Verification, layer: LayerBound) -> tuple[str, ...]:
    unit = layer.theta or 1.0
    name = layer.population
    rows = [row for row in verification.pairs[0].comparison.rows if row.node == name and row.spikes is not None]
    return (
        name_text(name),
        f"{layer.bound / unit:.3g}",
        f"{layer.seen / unit:.3g}" + ("" if layer.holds else f", beyond at step {(layer.broken or (0,))[0]:,}"),
        "" if layer.theta is None else f"{layer.spikes:,}",
        "" if layer.theta is None else f"{layer.changed:,}",
        share_text(rows[0].spikes.jaccard) if rows and rows[0].spikes is not None else "",
        f"{layer.unbounded:,}" if layer.unbounded else "",
    )


def _cells(verification: Verification, pair: ComparedPair) -> tuple[str, ...]:
    comparison, spikes = pair.comparison, pair.comparison.spikes
    first = "" if comparison.first_step is None else f"step {comparison.first_step:,}"
    decided = next((row.decisions for row in comparison.rows if row.decisions is not None), None)
    alike = "" if decided is None else f"{decided.alike:,} of {decided.samples:,}"
    accuracies = "" if decided is None or decided.accuracy_a is None else _accuracies(decided)
    return (
        f"{pair.a} ~ {pair.b}" if not pair.required else f"{pair.a} = {pair.b}",
        _requirement(verification, pair),
        "yes" if comparison.equal else "no",
        first,
        "" if spikes is None else share_text(spikes.jaccard),
        "" if spikes is None else f"{spikes.count_error:,}",
        _latency([row.latency_steps for row in comparison.rows if row.node in verification.latency]),
        alike,
        accuracies,
    )


def _requirement(verification: Verification, pair: ComparedPair) -> str:
    """The requirement on a pair: a floating-point program has no bound, nor has one with early spikes."""
    if pair.required:
        return "equal"
    return "within bound" if pair.b in OTHER_WAYS and not verification.early_spikes else "nothing"


def _latency(steps: list[int]) -> str:
    """Lag of the outputs of the second, in time steps: one number where all are equal, else the range."""
    least, greatest = min(steps, default=0), max(steps, default=0)
    return f"{greatest:,}" if least == greatest else f"{least:,}-{greatest:,}"


def _accuracies(decided: Any) -> str:
    return f"{decided.accuracy_a:.2%} / {decided.accuracy_b:.2%}"


def _layers(verification: Verification) -> list[str]:
    """Where a pair differs, layer by layer, in the order of the table."""
    lines = []
    for pair in verification.pairs:
        rows = [row for row in pair.comparison.rows if not row.equal]
        lines += [_layer(pair, row) for row in rows]
        missing = [f"{name_text(n)}/{v}" for n, v in (*pair.comparison.only_a, *pair.comparison.only_b)]
        lines += [f"{pair.a} / {pair.b}: only one of them recorded {', '.join(missing[:8])}"] if missing else []
    return lines


def _layer(pair: ComparedPair, row: ComparisonRow) -> str:
    text = f"{name_text(row.node)}: {_VARIABLES.get(row.variable, row.variable)}"
    text += f" first differ at {place_text(row)}" if row.first_step is not None else " differ"
    if row.first_values is None:
        text += f" between {pair.a} and {pair.b}"
    else:
        text += f": {pair.a} {row.first_values[0]:g}, {pair.b} {row.first_values[1]:g}"
    if row.spikes is not None:
        counts = f"{row.spikes.spikes_a:,} against {row.spikes.spikes_b:,} spikes"
        text += f" ({counts}, Jaccard {share_text(row.spikes.jaccard)})"
    return text + ("" if row.problem is None else f": {row.problem}")


def verify_document(verification: Verification) -> dict[str, Any]:
    """Everything that was found, as JSON."""
    return {
        "holds": verification.holds,
        "verdict": verification_verdict(verification),
        "chip": verification.chip,
        "steps": verification.steps,
        "input": verification.input_said,
        "latency": dict(verification.latency),
        "left_out": dict(verification.left_out),
        "notes": list(verification.notes),
        "pairs": [{"required": p.required, **compare_document(p.comparison, p.a, p.b)} for p in verification.pairs],
        **({"early_spikes": dict(verification.early_spikes)} if verification.early_spikes else {}),
        "layers": [{**_plain(layer), "holds": layer.holds} for layer in verification.layers],
    }


def _plain(layer: LayerBound) -> dict[str, Any]:
    broken = None if layer.broken is None else list(layer.broken)
    return {**dataclasses.asdict(layer), "broken": broken}
