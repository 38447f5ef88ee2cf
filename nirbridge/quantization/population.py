"""One population in integers: the projections into it, its bounds and its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.chips.model import Chip, NumberFormats
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.network.model import Network, Population
from nirbridge.network.neurons import Adaptation
from nirbridge.quantization.decays import decay_of, initial_integers
from nirbridge.quantization.error_bounds import report_bound, rounding_loss, weight_loss
from nirbridge.quantization.folding import FoldedPopulation
from nirbridge.quantization.formats import DECAY_ONE, formats_of, signed_max, threshold_max
from nirbridge.quantization.memory import projection_bits
from nirbridge.quantization.model import (
    AccumulatorBounds,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    FixedReset,
    LayerReport,
    Process,
    VBound,
)
from nirbridge.quantization.operators import weights_of, with_weights
from nirbridge.quantization.overflow import bounds_of, total_input_range
from nirbridge.quantization.scales import (
    IncomingOperator,
    InputRange,
    PopulationScale,
    exponents,
    input_range,
    scale_for,
)
from nirbridge.quantization.weights import round_to_grid

if TYPE_CHECKING:
    from nirbridge.quantization.options import QuantizationOptions


RESETS: dict[str, FixedReset] = {"to-value": "zero", "subtract": "subtract", "none": "none"}


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedPopulation:
    """A population in integers; ``problems``: values beyond the chip's number formats."""

    population: FixedPopulation
    projections: tuple[FixedProjection, ...]
    report: LayerReport
    problems: tuple[Diagnostic, ...]


def quantize_population(
    network: Network,
    folded: FoldedPopulation,
    incoming: Sequence[IncomingOperator],
    chip: Chip,
    options: QuantizationOptions,
    timing: tuple[int, int],
) -> QuantizedPopulation:
    """The integers of a population: a scale, then everything at that scale; a smaller one while something overflows.

    ``timing``: its latency, and the most spikes that it sends per time step.
    """
    numbers, population = formats_of(chip), folded.population
    seen = _seen(population, input_range(incoming, population.size), options)
    requested = options.scales.get(population.name)
    scale = scale_for(folded, incoming, seen, numbers, options.run_steps, requested)
    sent = {network.projections[arriving.index].source: arriving.sent for arriving in incoming}
    while True:
        projections = _projections(network, incoming, scale)
        fixed, notes, early = _fixed_population(folded, scale, numbers, *timing)
        bounds = bounds_of(fixed, *total_input_range(projections, sent, population.size))
        excess = _over(bounds, numbers)
        wide = max(excess if seen.proved else 0.0, _raised(fixed.neuron, numbers))
        if requested is not None or wide <= 1.0 or wide == math.inf:
            break
        scale = replace(scale, value=scale.value / wide * (1 - 1e-3), exact=False)  # rounding added to the bounds
    fits = excess <= 1.0
    bounds = replace(bounds, proved=fits if requested is not None else seen.proved or fits)
    return QuantizedPopulation(
        population=fixed,
        projections=projections,
        report=layer_report(folded, fixed, projections, incoming, bounds, scale, notes, chip),
        problems=(
            *([early] if early else []),
            *_adaptation_problems(folded, fixed, numbers),
            *_too_small(population, incoming, projections, scale, is_calibrated=options.calibration is not None),
            *_too_large(population, scale, requested, fits or not seen.proved),
        ),
    )


def _seen(population: Population, worst: InputRange, options: QuantizationOptions) -> InputRange:
    """Range of the input: the worst case, or the calibrated range times its margin where that is less."""
    seen = options.calibration.seen.get(population.name) if options.calibration is not None else None
    if seen is None:
        return worst
    high, low = seen.x[1] * options.margin, -seen.x[0] * options.margin
    return InputRange(min(worst.high, max(high, 0.0)), min(worst.low, max(low, 0.0)), False)


def _over(bounds: AccumulatorBounds, numbers: NumberFormats) -> float:
    """Largest ratio of a bound to the chip's limit."""
    a_in = max(abs(x) for x in bounds.a_in) / signed_max(numbers.a_in_bits)
    return max(a_in, max(abs(x) for x in bounds.u) / signed_max(numbers.u_bits))


def _projections(
    network: Network, incoming: Sequence[IncomingOperator], scale: PopulationScale
) -> tuple[FixedProjection, ...]:
    projections = []
    for arriving, exponent in zip(incoming, exponents(scale.value, incoming), strict=True):
        real = network.projections[arriving.index]
        factor = scale.value / 64 / 2**exponent
        weights = round_to_grid(weights_of(arriving.operator), factor, arriving.range.grid)
        projections.append(
            FixedProjection(
                source=real.source,
                target=real.target,
                operator=with_weights(arriving.operator, weights),
                weight_bits=arriving.range.bits,
                weight_exp=exponent,
                sign_mode=arriving.range.mode,
                delay_steps=real.delay_steps,
                nodes=real.nodes,
                index=arriving.index,
                scale=freeze(np.float64(factor)),
            )
        )
    return tuple(projections)


def _fixed_population(
    f: FoldedPopulation, scale: PopulationScale, numbers: NumberFormats, latency: int, most_spikes: int
) -> tuple[FixedPopulation, list[str], Diagnostic | None]:
    """The integer neurons at a scale, their emulated features, and why they have no initial state (None: they do)."""
    n, s, last = f.neuron, scale.value, signed_max(numbers.v_bits)
    bias_mant, bias_exp = _bias(f.bias, s, numbers)
    du = np.maximum(decay_of(f.a_syn, DECAY_ONE) - 1, 0)
    first = FixedNeuron(
        du=compact(np.minimum(du, numbers.du_max)),
        dv=compact(decay_of(f.a_mem, numbers.dv_max)),
        bias_mant=bias_mant,
        bias_exp=bias_exp,
        fires_above=None,
        reset=RESETS[n.reset],
        reset_amount=compact(_whole(f.amount * s)),
        spike_size=compact(_whole(np.zeros(()) if f.theta is None else f.theta * s)),
        max_spikes=most_spikes,
        refractory_steps=n.refractory_steps,
        v_init=compact(_whole(f.v_start * s)),
        u_init=compact(_whole(f.i_start * s)),
        scale=freeze(np.float64(s)),
        v_offset=f.offset,
        u_bits=numbers.u_bits,
        v_bits=numbers.v_bits,
        v_min=None if f.v_min is None else compact(np.clip(_whole(f.v_min * s), -last, last)),
        adaptation=_adaptation(n.adaptation, s),
    )
    fires_above, notes = _threshold(f, first, scale, numbers)
    neuron = replace(first, fires_above=fires_above, spike_size=_spike_size(first, fires_above))
    v, u, problem = initial_integers(neuron, f.population.name, latency)
    neuron = replace(neuron, v_init=compact(v), u_init=compact(u))
    kind: Process = "lif" if neuron.is_lava_lif else "custom"
    fixed = FixedPopulation(f.population.name, f.population.shape, neuron, kind)
    return fixed, notes + _decay_notes(f, numbers), problem


def _adaptation(real: Adaptation | None, scale: float) -> Adaptation | None:
    """The adaptation in integers; what decays goes on to decay."""
    if real is None:
        return None
    kept = DECAY_ONE - decay_of(real.decay, DECAY_ONE)
    kept = np.where(real.decay < 1, np.minimum(kept, DECAY_ONE - 1), kept)
    whole = (compact(x) for x in (kept, _whole(real.jump * scale), _whole(real.init * scale)))
    return Adaptation(*whole, in_reset=real.in_reset)


def _raised(n: FixedNeuron, numbers: NumberFormats) -> float:
    """Largest ratio of b, and of a threshold with it, to the chip's limit of v; infinite where nothing bounds b."""
    if n.adaptation is None or n.fires_above is None:
        return 0.0
    low, high = n.adaptation.reach(n.max_spikes, DECAY_ONE)
    sizes = (-low, high, np.abs(n.fires_above + low), np.abs(n.fires_above + high))
    return max(float(np.max(x)) for x in sizes) / signed_max(numbers.v_bits)


def _adaptation_problems(f: FoldedPopulation, fixed: FixedPopulation, numbers: NumberFormats) -> Iterator[Diagnostic]:
    real, made, subject = f.neuron.adaptation, fixed.neuron.adaptation, f"population {quoted(fixed.name)}"
    if real is None or made is None:
        return
    if _raised(fixed.neuron, numbers) > 1.0:
        limit = f"v and the threshold have {counted(numbers.v_bits, 'bit')}"
        yield Diagnostic(subject, "its adaptive threshold may grow beyond", limit, "give it a faster decay")
    if bool(np.any((made.jump == 0) & (real.jump != 0))):
        found = f"the jump of its adaptive threshold becomes 0 at a scale of {float(fixed.neuron.scale):g}"
        yield Diagnostic(subject, found, "", "train with a larger one, or with smaller weights")


def _bias(bias: Array, scale: float, numbers: NumberFormats) -> tuple[Array, int]:
    whole, exponent = _whole(bias * scale), 0
    while int(np.max(np.abs(np.rint(whole / 2**exponent)))) > signed_max(numbers.bias_mant_bits):
        exponent += 1
    return compact(np.rint(whole / 2**exponent).astype(np.int64)), exponent


def _threshold(
    f: FoldedPopulation, n: FixedNeuron, scale: PopulationScale, numbers: NumberFormats
) -> tuple[Array | None, list[str]]:
    """``fires_above`` on the grid of 64 where possible; '>=' becomes '>' of one less."""
    if f.theta is None:
        return None, []
    top = np.minimum(np.rint(f.theta * scale.value / 64).astype(np.int64) * 64, threshold_max(numbers))
    if f.neuron.compare == ">":
        return compact(top), []
    if _multiples_of_64(n):
        return compact(top - 64), []
    if numbers.programmable:
        return compact(top - 1), [
            "compares with >=: a threshold off the chip's grid of 64, so a neuron program of its own"
        ]
    return compact(top - 64), ["compares with >=: fires up to 63/64 of one unit of input early"]


def _spike_size(n: FixedNeuron, fires_above: Array | None) -> Array:
    """At most the least v that fires, so that every v above the threshold sends at least one spike."""
    if n.max_spikes == 1 or fires_above is None:
        return n.spike_size
    return compact(np.minimum(n.spike_size, fires_above + 1))


def _multiples_of_64(n: FixedNeuron) -> bool:
    """True if v can only be a multiple of 64: no decay, no memory in u, and a bias and start that are."""
    still = bool(np.all(n.dv == 0)) and bool(np.all(n.du == DECAY_ONE - 1))
    return still and not bool(np.any(n.bias % 64)) and not bool(np.any(n.v_init % 64))


def _decay_notes(f: FoldedPopulation, numbers: NumberFormats) -> list[str]:
    if numbers.dv_max < DECAY_ONE and bool(np.any(f.a_mem == 0.0)):
        return [f"has no memory of v: the chip's least memory, {DECAY_ONE - numbers.dv_max}/4096 a step, stands for it"]
    return []


def _whole(values: Array) -> Array:
    return np.rint(np.asarray(values)).astype(np.int64)


def _too_large(population: Population, scale: PopulationScale, requested: float | None, fits: bool) -> list[Diagnostic]:
    """A requested scale that exceeds the chip's numbers."""
    if requested is None or (fits and requested <= scale.value):
        return []
    found = f"a scale of {requested:g} was requested, {scale.limited_by} allows less"
    found = found if requested > scale.value else f"at the requested scale of {requested:g} its input may overflow"
    return [Diagnostic(f"population {quoted(population.name)}", found, "", "quantize without given scales")]


def _too_small(
    population: Population,
    incoming: Sequence[IncomingOperator],
    projections: Sequence[FixedProjection],
    scale: PopulationScale,
    *,
    is_calibrated: bool = False,
) -> list[Diagnostic]:
    """Projections all of whose weights have become 0: refused, not reported."""
    problems, ids = [], MappingProxyType({"population": population.name, "rule": "zeros"})
    step = f"give more bits,{'' if is_calibrated else ' calibrate with data,'} or split the fan-in"
    for arriving, projection in zip(incoming, projections, strict=True):
        if bool(np.any(weights_of(arriving.operator))) and not bool(np.any(weights_of(projection.operator))):
            subject = f"projection {quoted(projection.source)} -> {quoted(population.name)}"
            bits = counted(arriving.range.bits, "bit")
            found = f"all weights become 0 at {bits}, since {scale.limited_by} limits the scale"
            problems.append(Diagnostic(subject, found, "", step, ids))
    return problems


# -- layer report --------------------------------------------------------------------------------------------------
# Quantization report of each layer: ranges, errors, memory, limits.


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
