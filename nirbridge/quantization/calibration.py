"""Calibration by data: observed ranges of inputs and currents, and the share of the weight range to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.network.apply import apply
from nirbridge.network.model import Network
from nirbridge.quantization.folding import fold_population
from nirbridge.quantization.model import IntegerOperator
from nirbridge.quantization.operators import gained_operator, weights_of, with_weights
from nirbridge.quantization.weights import WeightRange, round_to_grid, weight_range


@dataclass(frozen=True, slots=True)
class ObservedRange:
    """Smallest and largest input and state of one population, in the reference's units.

    ``x``: ``g_mem * g_syn`` times the summed input of a time step (without biases); ``current``: ``g_mem * i`` (without
    the steady current of biases); ``v``: before the reset.
    """

    x: tuple[float, float]
    current: tuple[float, float]
    v: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Observed ranges and samples.

    ``seen`` by population; ``samples`` by source: ``[items, *shape]`` sent in some time steps; ``said``: data origin.
    """

    seen: Mapping[str, ObservedRange]
    samples: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))
    said: str = ""


METHODS = ("range", "percentile", "error")
SHARES = tuple(round(1.0 - 0.02 * k, 2) for k in range(41))
"""Shares of the range that the search tries: 1, 0.98, … 0.2."""
ITEMS = 512
"""Time steps of each source that are kept as a sample, evenly spaced."""


def calibration_of(network: Network, arrays: Mapping[tuple[str, str], Array], said: str = "") -> Calibration:
    """Calibration from recordings of the reference.

    Args:
        network: the one that ran.
        arrays: recordings ``[steps, batch, *shape]``: ``s`` of inputs and firing populations, ``i`` and ``u`` (before
            the reset) of populations.
        said: origin of the data, for reports.

    Raises:
        UsageError: a recording is missing.
    """
    needed = [(p.name, x) for p in network.populations for x in ("i", "u")] + [(p.name, "s") for p in network.inputs]
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise UsageError.of(f"calibration of {quoted(missing[0][0])}", f"{missing[0][1]} was not recorded")
    seen = {}
    for p in network.populations:
        folded = fold_population(network, p, 0)
        c = p.neuron.g_mem * (arrays[p.name, "i"].astype(np.float64) - folded.steady)
        x = c.copy()
        x[1:] -= p.neuron.a_syn * c[:-1]
        seen[p.name] = ObservedRange(_ends(x), _ends(c), _ends(arrays[p.name, "u"].astype(np.float64) - folded.offset))
    samples = {name: freeze(_spread(array)) for (name, variable), array in arrays.items() if variable == "s"}
    return Calibration(MappingProxyType(seen), MappingProxyType(samples), said)


def _ends(values: Array) -> tuple[float, float]:
    return float(values.min(initial=0.0)), float(values.max(initial=0.0))


def _spread(array: Array) -> Array:
    items = array.reshape(-1, *array.shape[2:])
    return items[np.linspace(0, len(items) - 1, min(ITEMS, len(items))).astype(int)]


def clip_shares(
    network: Network,
    bits: Mapping[int, int],
    method: str,
    calibration: Calibration | None = None,
    percentile: float = 99.9,
) -> dict[int, float]:
    """The share of the range of weights to keep, by projection index.

    ``bits``: width by projection index. ``method``: 'range' (all of it), 'percentile' (this percentile of the weights'
    magnitudes), or 'error' (the share that makes the mean square error of the summed input least on the calibration's
    samples; of the weights themselves where there is no sample).

    Raises:
        UsageError: another method.
    """
    if method not in METHODS:
        hint = did_you_mean(method, METHODS) or "choose one"
        raise UsageError.of(f"method {quoted(method)}", "unknown", f"there are {', '.join(METHODS)}", hint)
    shares = {}
    for index, width in bits.items():
        projection = network.projections[index]
        folded = fold_population(network, network.population(projection.target), 0)
        operator = gained_operator(projection.operator, folded.gain)
        weights = weights_of(operator)
        full_range = weight_range(weights, width)
        if method == "range" or full_range.unit == 0.0:
            shares[index] = 1.0
        elif method == "percentile":
            shares[index] = _percentile(weights, percentile)
        else:
            sample = None if calibration is None else calibration.samples.get(projection.source)
            errors = {share: _error(operator, full_range, share, sample) for share in SHARES}
            shares[index] = min(SHARES, key=errors.__getitem__)
    return shares


def _percentile(weights: Array, percentile: float) -> float:
    sizes = np.abs(weights.reshape(-1))
    return float(max(np.percentile(sizes, percentile) / sizes.max(), 1e-3))


def _error(operator: IntegerOperator, full_range: WeightRange, share: float, sample: Array | None) -> float:
    """Mean square error of the summed input with rounded weights."""
    weights = weights_of(operator)
    cut = WeightRange(full_range.bits, full_range.mode, full_range.low * share, full_range.high * share)
    off = round_to_grid(weights, 1.0 / cut.unit, cut.grid) * cut.unit - weights
    if sample is None:
        return float(np.mean(np.square(off)))
    errors = with_weights(operator, off)
    return float(np.mean(np.square(apply(errors, sample.reshape(-1, *errors.input_shape).astype(np.float64)))))
