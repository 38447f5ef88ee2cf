"""Correspondence of the values of the module and of the import, and their first difference."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.network.operators import Identity
from nirbridge.verification.original_runs import NeuronObservation, OriginalRun
from nirbridge.verification.rounding import RoundingBounds
from nirbridge.verification.sample_axes import BATCH, TIME

STEPWISE, LAST, SUM, MEAN = "each time step", "the last time step", "the sum over time", "the mean over time"
_SENT = "0"
"""The word in ``way`` for values that the output of the network sends, not membranes before it."""
_NEARLY = 1e-5
_HALF = 0.5
"""Counts of spikes that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class MatchedValues:
    """One output or population of both sides, ``[steps, batch, values]``; ``bound``: that of rounding errors.

    ``over_time`` says how a returned value relates to the time steps; one that has none has ``steps`` 1. ``way``: where
    the value was found and in what order, to find it in another run.
    """

    name: str
    over_time: str
    original: Array
    imported: Array
    bound: Array
    way: tuple[str, ...] = ()

    @property
    def differs(self) -> Array:
        """Where the two differ by more than rounding."""
        with np.errstate(invalid="ignore"):
            return ~(np.abs(self.original - self.imported) <= self.bound)

    @property
    def share_equal(self) -> float:
        """Share of equal values."""
        return 1.0 - float(np.count_nonzero(self.differs)) / max(1, self.original.size)


def matched_outputs(
    run: OriginalRun,
    samples: int,
    network: Network,
    imported: Mapping[tuple[str, str], Array],
    bounds: RoundingBounds,
    ways: Mapping[str, tuple[str, ...]] | None = None,
) -> list[MatchedValues]:
    """Values that the module returned, each with an output of the network: one entry per output.

    An output that no returned value fits has no entry. Of several that fit (spikes and membranes) the one that
    agrees best is taken: an importer leaves out the states that come with spikes. Where a module returns nothing but
    the membrane of neurons that fire, the output of the network has their spikes, and their membrane is compared.
    A value that holds the spikes of one of the module's neurons is read in their order: an import that deviates may
    agree better with another order. ``ways``: those of another run of the same module, by output; no other value is
    tried then.
    """
    matched: list[MatchedValues] = []
    own = [spikes for probe in run.probes.values() if (spikes := _own_spikes(probe, samples)) is not None]
    for port in network.outputs:
        sent = imported[port.name, "s"].astype(np.float64)
        fitting = [
            replace(option, way=(name, str(variable), *option.way))
            for name, tensor in _returned(run)
            if len(network.outputs) == 1 or port.name.startswith(f"output_{name}")
            for variable, (values, bound) in enumerate(
                ((sent, bounds.outputs[port.name]), *_membranes_before(port.name, network, imported, bounds))
            )
            for option in _options(port.name, tensor, values, bound, samples)
        ]
        sure = [m for m in fitting if m.way[1] == _SENT and any(_holds(m, spikes) for spikes in own)]
        ordered = {m.way[0] for m in sure}
        fitting = [m for m in fitting if m.way[0] not in ordered or any(m is one for one in sure)]
        if ways is not None:
            fitting = _of_way(fitting, ways.get(port.name, ("", "")))
        matched += [max(fitting, key=lambda m: m.share_equal)] if fitting else []
    return matched


def _of_way(fitting: Sequence[MatchedValues], way: tuple[str, ...]) -> list[MatchedValues]:
    """The value of that way; where a run has no such order (one sample, one time step), the same value in any order."""
    same = [m for m in fitting if m.way == way]
    return same or [m for m in fitting if m.way[:2] == (way[0], _SENT) == way[:2]]


def _own_spikes(probe: NeuronObservation, samples: int) -> Array | None:
    """Outputs of a neuron of the module as ``[steps, batch, values]``; None where it is silent, or in no such order."""
    cells = sum(call.size for call in probe.spikes)
    size = cells // (probe.steps * samples) if probe.steps * samples else 0
    if not size or cells != size * probe.steps * samples or not any(call.any() for call in probe.spikes):
        return None
    return _in_time(probe.spikes, probe, np.broadcast_to(0.0, (probe.steps, samples, size)))


def _holds(m: MatchedValues, spikes: Array) -> bool:
    """True if the module's value is these spikes, or what ``over_time`` says of them."""
    if m.over_time == STEPWISE:
        return m.original.shape == spikes.shape and bool(np.array_equal(m.original, spikes))
    over = {LAST: spikes[-1], SUM: spikes.sum(axis=0), MEAN: spikes.mean(axis=0)}[m.over_time]
    return m.original[0].shape == over.shape and bool(np.allclose(m.original[0], over, rtol=_NEARLY, atol=0.0))


def _membranes_before(
    output: str, network: Network, imported: Mapping[tuple[str, str], Array], bounds: RoundingBounds
) -> Iterator[tuple[Array, Array]]:
    """The membranes of the population whose spikes are an output as they are, before and after the reset."""
    sources = [p for p in network.projections if p.target == output]
    name = sources[0].source if len(sources) == 1 and isinstance(sources[0].operator, Identity) else ""
    if (name, "v") in imported and not sources[0].max_delay_steps:
        yield imported[name, "u"], bounds.before_reset[name]
        yield imported[name, "v"], bounds.after_reset[name]


def _returned(run: OriginalRun) -> Iterator[tuple[str, Array]]:
    """Returned tensors by name; those of calls per time step are stacked."""
    if len(run.returned) == 1:
        yield from run.returned[0]
        return
    for k, (name, _) in enumerate(run.returned[0]):
        parts = [call[k][1] for call in run.returned if k < len(call)]
        if len(parts) == len(run.returned) and len({part.shape for part in parts}) == 1:
            yield name, np.stack(parts)


def _options(name: str, tensor: Array, values: Array, bound: Array, batch: int) -> Iterator[MatchedValues]:
    """The ways in which a tensor can hold ``values [steps, batch, *shape]``."""
    steps, size = len(values), math.prod(values.shape[2:])
    flat, spread = values.reshape(steps, batch, size), np.broadcast_to(bound, values.shape).reshape(steps, batch, size)
    if tensor.size == flat.size:
        yield MatchedValues(name, STEPWISE, tensor.reshape(flat.shape), flat, spread, (STEPWISE,))
        if steps > 1 and batch > 1:
            swapped = np.swapaxes(tensor.reshape(batch, steps, size), 0, 1)
            yield MatchedValues(name, STEPWISE, swapped, flat, spread, (STEPWISE, "batch first"))
        for before in _sizes_before_time(values.shape[2:]) if steps > 1 else ():
            time_later = np.moveaxis(tensor.reshape(batch, before, steps, size // before), 2, 0)
            way = (STEPWISE, f"time after {before}")
            yield MatchedValues(name, STEPWISE, time_later.reshape(flat.shape), flat, spread, way)
    if steps > 1 and tensor.size == batch * size:
        alone, total = tensor.reshape(1, batch, size), spread.sum(axis=0, keepdims=True)
        rounding = 2.0**-50 * np.abs(flat).sum(axis=0, keepdims=True)
        mean = flat.mean(axis=0, keepdims=True)
        yield MatchedValues(name, LAST, alone, flat[-1:], spread[-1:], (LAST,))
        yield MatchedValues(name, SUM, alone, flat.sum(axis=0, keepdims=True), total + rounding, (SUM,))
        yield MatchedValues(name, MEAN, alone, mean, (total + rounding) / steps, (MEAN,))


def _sizes_before_time(shape: tuple[int, ...]) -> list[int]:
    """Number of values before a time axis placed after some of the axes ``shape``, for each position."""
    return sorted({*accumulate(shape, operator.mul)} - {1})


# -- populations ---------------------------------------------------------------------------------------------------


def population_names(paths: Sequence[str]) -> dict[str, str]:
    """Module path -> name of the population that an importer makes of it."""
    return {path: path.replace(".", "_") or "neuron" for path in paths}


def matched_spikes(
    run: OriginalRun, network: Network, imported: Mapping[tuple[str, str], Array]
) -> list[MatchedValues]:
    """Spikes of every population whose module is known, in causal order."""
    matched: list[MatchedValues] = []
    for name, probe in _observed(run, network):
        values = imported.get((name, "s"))
        spikes = None if values is None else _in_time(probe.spikes, probe, values)
        worth = spike_value(probe)
        if values is not None and spikes is not None and worth:
            flat = values.reshape(spikes.shape).astype(np.float64)
            matched.append(MatchedValues(name, STEPWISE, spikes / worth, flat, np.full(spikes.shape, _HALF)))
    return matched


def _observed(run: OriginalRun, network: Network) -> list[tuple[str, NeuronObservation]]:
    """Populations whose module is known, in causal order."""
    probes = {name: run.probes[path] for path, name in population_names(list(run.probes)).items()}
    return [(p.name, probes[p.name]) for p in network.populations if p.name in probes]


def spike_value(probe: NeuronObservation) -> float:
    """The value of one spike in the module's output (snnTorch's factor), 0 where neurons have different ones."""
    factor: Any = getattr(probe.module, "graded_spikes_factor", 1.0)
    numbers = np.unique(factor.detach().numpy() if hasattr(factor, "detach") else np.asarray(factor))
    return float(numbers[0]) if numbers.size == 1 else 0.0


def _in_time(calls: Sequence[Array], probe: NeuronObservation, values: Array) -> Array | None:
    """Outputs of a neuron as ``[steps, batch, values]``; None where they are not one of each time step."""
    steps, batch = values.shape[:2]
    if probe.steps != steps:  # a module with several uses per time step is several populations
        return None
    if len(calls) == steps and all(c.size * steps == values.size for c in calls):
        return np.stack([c.reshape(batch, -1) for c in calls])
    if len(calls) != 1 or calls[0].size != values.size:
        return None
    if probe.layout == (BATCH, TIME):
        return np.swapaxes(calls[0].reshape(batch, steps, -1), 0, 1)
    return calls[0].reshape(steps, batch, -1)


def matched_membranes(
    run: OriginalRun, network: Network, imported: Mapping[tuple[str, str], Array], bounds: RoundingBounds
) -> list[MatchedValues]:
    """Membranes of every population whose module shows them, before or after the reset: whichever agrees better.

    A threshold without memory that has a module's name is a maximum after its neuron: it has no such membrane.
    """
    matched: list[MatchedValues] = []
    memoryless = {p.name for p in network.populations if p.neuron.kind == "Threshold"}
    for name, probe in _observed(run, network):
        if name in memoryless or not probe.membranes or any(membrane is None for membrane in probe.membranes):
            continue
        options = [
            option
            for variable, limits in (("u", bounds.before_reset), ("v", bounds.after_reset))
            for option in _membranes(probe, imported[name, variable], limits[name], name)
        ]
        options += [_without_offset(m) for m in options]
        matched += [max(options, key=lambda m: m.share_equal)] if options else []
    return matched


def _without_offset(m: MatchedValues) -> MatchedValues:
    """The import's membrane on the module's scale, where the two differ by one number for the whole population.

    An importer may measure membranes from another zero (sinabs adds ``reset_value`` in every time step).
    """
    offset = float(np.median(m.original - m.imported))
    bound = m.bound + m.bound.max() + 2.0**-50 * abs(offset)  # the offset is off by as much as some value is
    return replace(m, imported=m.imported + offset, bound=bound)


def _membranes(probe: NeuronObservation, values: Array, bound: Array, name: str) -> Iterator[MatchedValues]:
    calls = [m for m in probe.membranes if m is not None]
    stepwise = _in_time(calls, probe, values)
    last = calls[-1]
    if stepwise is not None:
        yield MatchedValues(name, STEPWISE, stepwise, values.reshape(stepwise.shape), bound.reshape(stepwise.shape))
    elif probe.steps == len(values) and last.size * len(values) == values.size:
        alone = last.reshape(1, values.shape[1], -1)
        yield MatchedValues(name, LAST, alone, values[-1:].reshape(alone.shape), bound[-1:].reshape(alone.shape))
