"""Comparison of two recordings, population by population and overall, at a known latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy.typing as npt

from nirbridge.arrays import Array
from nirbridge.comparison import distances
from nirbridge.comparison.distances import (
    ESTIMATE_MAX_STEPS,
    LatencySource,
    RecordedSteps,
    StepAlignment,
    align_steps,
    both_stored,
    checked_labels,
    compare_decisions,
    deciding_outputs,
    node_latency,
    recorded_steps,
    sample_and_neuron,
)
from nirbridge.comparison.types import COUNT, SPIKES, Comparison, ComparisonRow, SpikeDistances
from nirbridge.errors import Diagnostic, UsageError, counted, did_you_mean, quoted
from nirbridge.network.naming import natural_key
from nirbridge.simulators.types import Key, Recording

Latency = int | Mapping[str, int] | Literal["auto"]
NAMES_SHOWN = 6


def compare(
    a: Recording,
    b: Recording,
    *,
    latency: Latency = 0,
    labels: npt.ArrayLike | None = None,
    tau_steps: float = distances.TAU_STEPS,
) -> Comparison:
    """Compare B with A at each node and variable that both recorded.

    Step ``t`` of A is compared with step ``t + latency`` of B. Equality is of every value (NaN equals NaN; a dtype may
    differ); where B does not have the additional time steps of the latency, the common ones are compared.

    Args:
        a: The recording to compare with, for example the reference.
        b: The other recording.
        latency: Time steps by which B lags A: one number, a number per node (0 for the others), or ``"auto"``: the
            difference of the stated latencies, estimated where one is missing, and marked so in the row.
        labels: The correct class of each sample (``[samples]``, or one number without a batch axis), for accuracy.
        tau_steps: Decay of the van Rossum kernel in time steps.

    Raises:
        UsageError: no variable in common, different dt, an unknown node in ``latency``, wrong labels.
    """
    common = sorted(set(a.arrays) & set(b.arrays), key=_order)
    UsageError.raise_all([*_unlike(a, b, common), *_latency_problems(latency, {node for node, _ in common})])
    correct = None if labels is None else checked_labels(labels)
    deciders = deciding_outputs(a, b, labels=correct is not None)
    rows = []
    for key in common:
        row = _row(a, b, key, node_latency(a, b, key[0], latency), tau_steps)
        row = replace(row, **sample_and_neuron(a, row.first_neuron))
        rows.append(_with_decisions(row, a, b, correct) if key in deciders else row)
    only_a, only_b = (tuple(sorted(set(x.arrays) - set(y.arrays), key=_order)) for x, y in ((a, b), (b, a)))
    return Comparison(tuple(rows), only_a, only_b, tau_steps, tuple(_notes(a, b, rows, latency)))


def _order(key: Key) -> tuple[Any, ...]:
    return natural_key(key[0]), key[1]


def _unlike(a: Recording, b: Recording, common: Sequence[Key]) -> Iterator[Diagnostic]:
    if not common:
        found = f"one has {_names(a.arrays)}, the other {_names(b.arrays)}"
        yield Diagnostic("recordings", found, "nothing was recorded in both", "record the same nodes and variables")
    dt_a, dt_b = a.meta.get("dt"), b.meta.get("dt")
    if dt_a is not None and dt_b is not None and dt_a != dt_b:
        found = f"dt {quoted(dt_a)[1:-1]} s in one and {quoted(dt_b)[1:-1]} s in the other"
        yield Diagnostic("recordings", found, "their time steps differ", "simulate both with the same --dt")


def _names(arrays: Mapping[Key, Array]) -> str:
    names = [f"{quoted(node)}/{quoted(variable)[1:-1]}" for node, variable in sorted(arrays, key=_order)]
    return _shown(names) or "nothing"


def _latency_problems(latency: Latency, nodes: set[str]) -> Iterator[Diagnostic]:
    by_node = latency if isinstance(latency, Mapping) else {}
    for node in sorted(set(by_node) - nodes):
        step = did_you_mean(node, nodes) or f"recorded: {', '.join(map(quoted, sorted(nodes)[:8]))}"
        yield Diagnostic("latency", f"node {quoted(node)}", "not recorded in both", step)
    for value in by_node.values() if isinstance(latency, Mapping) else [latency]:
        if value != "auto" and (not isinstance(value, int) or isinstance(value, bool)):
            yield Diagnostic("latency", quoted(value), "whole time steps", "give one, or 'auto'")


# -- one row -----------------------------------------------------------------------------------------------------


def _row(
    a: Recording, b: Recording, key: Key, node_latency: tuple[int, LatencySource], tau_steps: float
) -> ComparisonRow:
    x, y = a.arrays[key], b.arrays[key]
    latency, source = node_latency
    empty = ComparisonRow(*key, steps=0, latency_steps=latency, latency_source=source, equal=False)
    if key[1] == COUNT:
        return _counts(empty, x, y)
    clocks = recorded_steps(a, key), recorded_steps(b, key)
    if clocks[0].every != clocks[1].every:
        return replace(empty, problem=f"one step in {clocks[0].every} was kept in A, one in {clocks[1].every} in B")
    if x.ndim == 0 or y.ndim == 0 or x.shape[1:] != y.shape[1:]:
        return replace(empty, problem=f"shape {_shape(x)} of one time step in A, {_shape(y)} in B")
    if latency % clocks[0].every:
        problem = f"a latency of {counted(latency, 'step')} where one step in {clocks[0].every} was kept"
        return replace(empty, problem=problem)
    pairing = align_steps(len(x), len(y), latency, *clocks)
    if pairing is None:
        return replace(empty, problem=f"no step in common: {len(x)} kept in A, {len(y)} in B, latency {latency}")
    row = _values(empty, x[pairing.in_a], y[pairing.in_b], pairing)
    if not _as_long(len(x), len(y), latency, *clocks):
        problem = f"{len(x)} steps in A, {len(y)} in B: the {pairing.steps} in common were compared"
        row = replace(row, equal=False, problem=problem)
    if key[1] != SPIKES:
        return row
    return replace(row, spikes=_spikes(x, y, pairing, tau_steps, same=row.first_step is None))


def _as_long(steps_a: int, steps_b: int, latency: int, clock_a: RecordedSteps, clock_b: RecordedSteps) -> bool:
    """B may start and stop with A, or later by the latency; all else is a difference."""
    later = clock_b.first - clock_a.first
    longer = later + (steps_b - steps_a) * clock_a.every
    return all(min(0, latency) <= n <= max(0, latency) for n in (later, longer))


def _shape(array: Array) -> str:
    return str(tuple(array.shape[1:])) if array.ndim else "missing"


def _values(row: ComparisonRow, x: Array, y: Array, pairing: StepAlignment | None) -> ComparisonRow:
    """The row with the first and the largest difference; ``pairing`` is None for counts, which have no steps."""
    place = distances.first_difference(x, y)
    row = replace(row, steps=0 if pairing is None else pairing.steps)
    if place is None:
        return replace(row, equal=True, largest_difference=0.0)
    return replace(
        row,
        first_step=None if pairing is None else pairing.first_step + place[0] * pairing.every,
        first_neuron=place[1:],
        first_values=(float(x[place]), float(y[place])),
        largest_difference=distances.largest_difference(x, y),
    )


def _spikes(x: Array, y: Array, pairing: StepAlignment, tau_steps: float, *, same: bool) -> SpikeDistances:
    a, b = x[pairing.in_a], y[pairing.in_b]
    common, either = distances.event_overlap(a, b)
    return SpikeDistances(
        is_graded=not (distances.is_counts(a) and distances.is_counts(b)),
        spikes_a=distances.event_count(a),
        spikes_b=distances.event_count(b),
        common=common,
        either=either,
        count_error=distances.count_error(a, b),
        van_rossum=0.0 if same else distances.van_rossum(a, b, tau_steps),
        outside_a=_events_outside(x, pairing.in_a),
        outside_b=_events_outside(y, pairing.in_b),
    )


def _events_outside(array: Array, inside: slice) -> int:
    return sum(distances.event_count(part) for part in (array[: inside.start], array[inside.stop :]))


def _counts(row: ComparisonRow, x: Array, y: Array) -> ComparisonRow:
    """The row of two counts, which have no steps and so no latency."""
    row = replace(row, latency_steps=0, latency_source="given")
    if x.shape != y.shape:
        return replace(row, problem=f"shape {tuple(x.shape)} in A, {tuple(y.shape)} in B")
    return _values(row, x[None], y[None], None)


def _with_decisions(row: ComparisonRow, a: Recording, b: Recording, labels: Array | None) -> ComparisonRow:
    x, y = a.arrays[row.node, row.variable], b.arrays[row.node, row.variable]
    if row.steps:
        clocks = (recorded_steps(r, (row.node, row.variable)) for r in (a, b))
        pairing = align_steps(len(x), len(y), row.latency_steps, *clocks)
        assert pairing is not None, "steps were compared"
        x, y = x[pairing.in_a], y[pairing.in_b]
    if x.shape != y.shape:
        return row
    return replace(row, decisions=compare_decisions((row.node, row.variable), (x, y), (a, b), labels))


# -- notes -----------------------------------------------------------------------------------


def _notes(a: Recording, b: Recording, rows: Sequence[ComparisonRow], latency: Latency) -> Iterator[str]:
    estimated = sorted({row.node for row in rows if row.latency_source == "estimated"}, key=natural_key)
    if estimated:
        yield (
            f"latency of {_listed(estimated)} estimated, because the recordings do not both state it: best agreement "
            f"within {ESTIMATE_MAX_STEPS} kept steps"
        )
    if latency != "auto":
        timed = [row for row in rows if row.variable != COUNT]
        stored = {row.node: both_stored(a, b, row.node) for row in timed}
        other = [*dict.fromkeys(row.node for row in timed if stored[row.node] not in (None, row.latency_steps))]
        if other:
            yield f"the recordings state a different latency for {_listed(other)}: {stored[other[0]]}; 'auto' uses it"
    if any(r.meta.get("dt") is None for r in (a, b)):
        yield "the recordings do not both state dt: it is assumed to be the same"


def _listed(names: Sequence[str]) -> str:
    return _shown([quoted(name) for name in names])


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
