"""Quantization report of each layer: ranges, errors, memory, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.quantization.error_bounds import report_bound, rounding_loss, weight_loss
from nirbridge.quantization.folding import FoldedPopulation
from nirbridge.quantization.formats import DECAY_ONE
from nirbridge.quantization.memory import projection_bits
from nirbridge.quantization.model import AccumulatorBounds, FixedPopulation, FixedProjection, LayerReport, VBound
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.scales import IncomingOperator, PopulationScale


def layer_report(
    folded: FoldedPopulation,
    fixed: FixedPopulation,
    projections: Sequence[FixedProjection],
    incoming: Sequence[IncomingOperator],
    bounds: AccumulatorBounds,
    scale: PopulationScale,
    notes: Sequence[str],
    chip: Chip,
) -> LayerReport:
    """The report on one population."""
    return LayerReport(
        population=fixed.name,
        process=fixed.process,
        bounds=bounds,
        decays=MappingProxyType(_decays(folded, fixed, scale)),
        weights=tuple(_weights(p, arriving, chip) for p, arriving in zip(projections, incoming, strict=True)),
        v_bound=_v_bound(folded, fixed, projections, incoming, bounds),
        notes=tuple(notes),
    )


def _decays(f: FoldedPopulation, fixed: FixedPopulation, scale: PopulationScale) -> dict[str, Any]:
    """Scale, and errors of the constants; those of decays relative to the decay."""
    n = fixed.neuron
    facts: dict[str, Any] = {
        "scale": scale.value,
        "limited_by": scale.limited_by,
        "exact_weights": scale.exact,
        "v_decay_error": _constant_error(1.0 - f.a_mem, n.dv / DECAY_ONE),
        "u_decay_error": _constant_error(1.0 - f.a_syn, (n.du + 1) / DECAY_ONE),
        "bias_error": float(np.max(np.abs(n.bias / scale.value - f.bias))),
    }
    if f.theta is not None and n.fires_above is not None:
        top = np.maximum(np.abs(f.theta), 1e-300)
        facts["threshold_error"] = float(np.max(np.abs(n.fires_above / scale.value - f.theta) / top))
    return facts


def _v_bound(
    folded: FoldedPopulation,
    fixed: FixedPopulation,
    projections: Sequence[FixedProjection],
    incoming: Sequence[IncomingOperator],
    bounds: AccumulatorBounds,
) -> VBound:
    lost = [
        weight_loss(p, arriving.operator, 1.0 if arriving.sent.low < 0 else None)
        for p, arriving in zip(projections, incoming, strict=True)
    ]
    largest_sent = [max(arriving.sent.high, -arriving.sent.low) for arriving in incoming]
    return report_bound(rounding_loss(folded, fixed), lost, largest_sent, bounds, float(fixed.neuron.scale))


def _constant_error(real: Array, fixed: Array) -> float:
    """Largest relative error of a decay per time step; 1 where a real decay has become none."""
    scale = np.where(real > 0, real, 1.0)
    return float(np.max(np.where(real > 0, np.abs(fixed - real) / scale, fixed)))


def _weights(p: FixedProjection, arriving: IncomingOperator, chip: Chip) -> Mapping[str, Any]:
    real, integers = weights_of(arriving.operator), weights_of(p.operator)
    size = float(np.sqrt(np.mean(np.square(real)))) if real.size else 0.0
    error = float(np.sqrt(np.mean(np.square(integers / p.scale - real)))) if real.size else 0.0
    unit, grid = float(p.scale), arriving.range.grid
    beyond = (real * unit > grid.high + grid.step / 2) | (real * unit < grid.low - grid.step / 2)
    return MappingProxyType(
        {
            "source": p.source,
            "index": p.index,
            "kind": type(p.operator).__name__,
            "bits": p.weight_bits,
            "exponent": p.weight_exp,
            "sign_mode": p.sign_mode,
            "range": [float(real.min(initial=0.0)), float(real.max(initial=0.0))],
            "integers": [int(integers.min(initial=0)), int(integers.max(initial=0))],
            "scale": unit,
            "error": error / size if size else 0.0,
            "clipped": int(beyond.sum()) / max(1, real.size),
            "synapse_bits": projection_bits(p, chip),
        }
    )
