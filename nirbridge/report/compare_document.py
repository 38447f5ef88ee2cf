"""A comparison of two recordings as one plain document (the JSON form)."""

from __future__ import annotations

import math
from typing import Any

from nirbridge.comparison.compare import Comparison, Row, SpikeDistances
from nirbridge.comparison.decisions import Decisions
from nirbridge.comparison.distances import KERNEL


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


def _row(row: Row) -> dict[str, Any]:
    return {
        "node": row.node,
        "variable": row.variable,
        "equal": row.equal,
        "problem": row.problem,
        "steps": row.steps,
        "latency_steps": row.latency_steps,
        "latency_source": row.latency_source,
        "first_step": row.first_step,
        "first_neuron": None if row.first_neuron is None else list(row.first_neuron),
        "first_values": None if row.first_values is None else [_finite(v) for v in row.first_values],
        "largest_difference": _finite(row.largest_difference),
        "spikes": None if row.spikes is None else _spikes(row.spikes),
        "decisions": None if row.decisions is None else _decisions(row.decisions),
    }


def _spikes(spikes: SpikeDistances) -> dict[str, Any]:
    return {
        "is_graded": spikes.is_graded,
        "spikes_a": spikes.spikes_a,
        "spikes_b": spikes.spikes_b,
        "jaccard": spikes.jaccard,
        "count_error": spikes.count_error,
        "van_rossum": _finite(spikes.van_rossum),
        "outside_a": spikes.outside_a,
        "outside_b": spikes.outside_b,
    }


def _decisions(decisions: Decisions) -> dict[str, Any]:
    return {
        "samples": decisions.samples,
        "alike": decisions.alike,
        "agreement": decisions.agreement,
        "accuracy_a": decisions.accuracy_a,
        "accuracy_b": decisions.accuracy_b,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
