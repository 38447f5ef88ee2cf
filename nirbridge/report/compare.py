"""A comparison of recordings, and a verification: as tables with remarks, and as one plain document (JSON)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.comparison.distances import KERNEL, Decisions
from nirbridge.comparison.types import SPIKES, Comparison, ComparisonRow, SpikeDistances
from nirbridge.errors import counted, quoted
from nirbridge.report.inspect import name_text
from nirbridge.report.lines import short_notes
from nirbridge.report.map_facts import one_line
from nirbridge.report.tables import Names, items, share_text, table
from nirbridge.simulators.types import Key
from nirbridge.verification.bounds import LayerBound
from nirbridge.verification.program import OTHER_WAYS
from nirbridge.verification.verify import ComparedPair, Verification, verification_failures, verification_verdict

NUMBERS = ("first step", "Jaccard", "spikes A / B", "count error", "van Rossum", "max |A-B|")
_LEAST_OF_VARIABLES = ("van Rossum", "max |A-B|", "latency", "count error", "same decision", "spikes A / B")
"""Columns that a narrow terminal does without, the first to go first."""


def compare_text(comparison: Comparison, *, notes: bool = True) -> RenderableType:
    """The table of a comparison and the sentences below it, without notes where ``notes`` is false.

    Names from files are escaped and never read as markup.
    """
    decided = any(row.decisions is not None for row in comparison.rows)
    headings = ("node", "", "same", *NUMBERS, *(["same decision"] if decided else []), "latency")
    variables = table(
        headings, "lLLR", (_cells(row, decided=decided) for row in comparison.rows), drop=_LEAST_OF_VARIABLES
    )
    spikes = comparison.spikes
    if spikes is not None and sum(row.spikes is not None for row in comparison.rows) > 1:
        variables.add_row(*map(Text, ("(all)", SPIKES, *_overall(comparison, spikes))), style="bold")
    return Group(
        variables,
        Text(),
        Text(comparison_verdict(comparison), style="bold"),
        *items(_remarks(comparison, notes=notes)),
    )


def comparison_verdict(comparison: Comparison) -> str:
    """One sentence: equal, or how many rows differ and from which step on."""
    rows = len(comparison.rows)
    if comparison.equal:
        return f"equal: every value of {counted(rows, 'recorded variable')}"
    differ = sum(not row.equal for row in comparison.rows)
    parts = [f"{differ:,} of {counted(rows, 'variable')} {'differs' if differ == 1 else 'differ'}"] if differ else []
    if comparison.first_step is not None:
        parts[0] += f", first at time step {comparison.first_step:,}"
    spikes = [row for row in comparison.rows if row.variable == SPIKES]
    if differ and spikes and all(row.equal for row in spikes):
        parts += ["all spikes are equal"]
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone:,} more recorded in only one of the two recordings"] if alone else []
    return "not equal: " + "; ".join(parts)


def _cells(row: ComparisonRow, *, decided: bool) -> tuple[str | Names, ...]:
    first = "" if row.first_step is None else f"{row.first_step:,}"
    largest = "" if row.largest_difference is None else f"{row.largest_difference:.6g}"
    mark = {"stored": "", "given": "", "estimated": " est."}[row.latency_source]
    numbers = ("", "", "", "") if row.spikes is None else _numbers(row.spikes)
    same = "yes" if row.equal else "no"
    cells = (Names((name_text(row.node),)), name_text(row.variable), same, first, *numbers, largest)
    decisions = "" if row.decisions is None else f"{row.decisions.alike:,} of {row.decisions.samples:,}"
    return (*cells, *([decisions] if decided else []), f"{row.latency_steps}{mark}")


def _numbers(spikes: SpikeDistances) -> tuple[str, ...]:
    counts = f"{spikes.spikes_a:,} / {spikes.spikes_b:,}"
    return (share_text(spikes.jaccard), counts, f"{spikes.count_error:,}", f"{spikes.van_rossum:.6g}")


def _overall(comparison: Comparison, spikes: SpikeDistances) -> tuple[str, ...]:
    rows = [row for row in comparison.rows if row.variable == SPIKES]
    steps = [row.first_step for row in rows if row.first_step is not None]
    same = "yes" if all(row.equal for row in rows) else "no"
    return (same, f"{min(steps):,}" if steps else "", *_numbers(spikes))


def _remarks(comparison: Comparison, *, notes: bool) -> Iterator[str]:
    for row in comparison.rows:
        label = f"{name_text(row.node)}/{name_text(row.variable)}"
        if row.problem is not None:
            yield f"{label}: {row.problem}"
        if row.first_values is not None:
            a, b = (f"{v:.9g}" for v in row.first_values)
            yield f"{label}: first differs at {place_text(row)}: {a} in A, {b} in B"
        if row.decisions is not None and row.decisions.right_a is not None:
            d = row.decisions
            correct = f"{d.right_a:,} in A, {d.right_b:,} in B"
            yield f"{label}: correct decisions in {counted(d.samples, 'sample')}: {correct}"
        if row.spikes is not None and row.spikes.outside_a + row.spikes.outside_b:
            out = f"{row.spikes.outside_a:,} in A, {row.spikes.outside_b:,} in B"
            yield f"{label}: spikes in time steps without a counterpart are not compared: {out}"
    for name, keys in (("A", comparison.only_a), ("B", comparison.only_b)):
        if keys:
            yield f"recorded only in {name}: {_keys(keys)}"
    if notes and comparison.spikes is not None:
        yield f"van Rossum: {KERNEL}; tau {comparison.tau_steps:g} time steps"
    yield from comparison.notes if notes else ()


def place_text(row: ComparisonRow) -> str:
    """Position of the first difference: ``time step 0, sample 3, neuron (0, 3, 3)``, as far as it exists."""
    step = [] if row.first_step is None else [f"time step {row.first_step:,}"]
    sample = [] if row.first_sample is None else [f"sample {row.first_sample:,}"]
    index = ", ".join(map(str, row.first_neuron or ()))
    return ", ".join([*step, *sample, *([f"neuron ({index})"] if index else [])])


def _keys(keys: Sequence[Key], shown: int = 8) -> str:
    names = ", ".join(f"{name_text(node)}/{name_text(variable)}" for node, variable in keys[:shown])
    return names + (f" and {len(keys) - shown:,} more" if len(keys) > shown else "")


def compare_document(comparison: Comparison, name_a: str = "A", name_b: str = "B") -> dict[str, Any]:
    """Everything that ``compare`` found; a number that is not finite is null."""
    spikes = comparison.spikes
    return {
        "a": name_a,
        "b": name_b,
        "equal": comparison.equal,
        "first_step": comparison.first_step,
        "spikes": None if spikes is None else _spikes(spikes),
        "rows": [_row(row) for row in comparison.rows],
        "only_a": [list(key) for key in comparison.only_a],
        "only_b": [list(key) for key in comparison.only_b],
        "van_rossum": {"kernel": KERNEL, "tau_steps": comparison.tau_steps},
        "notes": list(comparison.notes),
    }


def _row(row: ComparisonRow) -> dict[str, Any]:
    plain = ("node", "variable", "equal", "problem", "steps", "latency_steps", "latency_source")
    return {
        **_fields(row, *plain, "first_step", "first_sample"),
        "first_neuron": None if row.first_neuron is None else list(row.first_neuron),
        "first_values": None if row.first_values is None else [_finite(v) for v in row.first_values],
        "largest_difference": _finite(row.largest_difference),
        "spikes": None if row.spikes is None else _spikes(row.spikes),
        "decisions": None if row.decisions is None else _decisions(row.decisions),
    }


def _spikes(spikes: SpikeDistances) -> dict[str, Any]:
    distances = _fields(spikes, "is_graded", "spikes_a", "spikes_b", "jaccard", "count_error")
    outside = _fields(spikes, "outside_a", "outside_b")
    return {**distances, "van_rossum": _finite(spikes.van_rossum), **outside}


def _decisions(decisions: Decisions) -> dict[str, Any]:
    return _fields(decisions, "samples", "alike", "agreement", "accuracy_a", "accuracy_b")


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# -- verify --------------------------------------------------------------------------------------------------------
# A verification for a terminal, and as one plain document.


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
_LEAST_OF_PAIRS = ("count error", "latency", "accuracy", "same decision", "first difference", "Jaccard", "required")
_LEAST_OF_LAYERS = ("Jaccard", "spikes", "saturated", "changed by rounding")


def verify_text(verification: Verification, *, notes: bool = True, every: bool = True) -> RenderableType:
    """The table of pairs, the layers that differ, latency, input, notes (where ``notes`` is true), and the verdict.

    Without ``every`` the notes of the import are only counted.
    """
    length = f"{counted(verification.steps, 'time step')} on {name_text(verification.chip)}"
    lines = [f"{length}; input: {one_line(verification.input_said)}"]
    lines += [
        f"latency of output {quoted(n)}: {counted(steps, 'time step')}" for n, steps in verification.latency.items()
    ]
    near = "retimed" if verification.early_spikes else "reference"
    return Group(
        table(COLUMNS, "LR", [_way_cells(verification, pair) for pair in verification.pairs], drop=_LEAST_OF_PAIRS),
        Text(),
        Text(
            f"{near} ~ fixed, each population driven by the spikes of fixed; deviation in thresholds (readout: of v):"
        ),
        table(LAYERS, "lR", [_bound_cells(verification, x) for x in verification.layers], drop=_LEAST_OF_LAYERS),
        Text(),
        *(Text(line) for line in (*lines, *_early(verification))),
        *items(_layers(verification)),
        *items((verification.notes if every else short_notes(verification.notes)) if notes else ()),
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


def _bound_cells(verification: Verification, layer: LayerBound) -> tuple[str | Names, ...]:
    unit = layer.theta or 1.0
    name = layer.population
    rows = [row for row in verification.pairs[0].comparison.rows if row.node == name and row.spikes is not None]
    return (
        Names((name_text(name),)),
        f"{layer.bound / unit:.3g}",
        f"{layer.seen / unit:.3g}" + ("" if layer.holds else f", beyond at step {(layer.broken or (0,))[0]:,}"),
        "" if layer.theta is None else f"{layer.spikes:,}",
        "" if layer.theta is None else f"{layer.changed:,}",
        share_text(rows[0].spikes.jaccard) if rows and rows[0].spikes is not None else "",
        f"{layer.unbounded:,}" if layer.unbounded else "",
    )


def _way_cells(verification: Verification, pair: ComparedPair) -> tuple[str, ...]:
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
        **({"proofs": dict(verification.proofs)} if verification.proofs else {}),
        "layers": [{**_plain(layer), "holds": layer.holds} for layer in verification.layers],
    }


def _plain(layer: LayerBound) -> dict[str, Any]:
    broken = None if layer.broken is None else list(layer.broken)
    return {**dataclasses.asdict(layer), "broken": broken}
