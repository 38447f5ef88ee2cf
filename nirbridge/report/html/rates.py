"""Rates of populations: measured in a recording where there is one, else those that the map was made with."""

from __future__ import annotations

import numpy as np

from nirbridge.comparison.distances import is_counts
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.map_facts import one_line
from nirbridge.simulators.types import Recording

Rate = tuple[float, str]
"""Spikes per neuron and time step, and where the number is from."""


def population_rates(sources: ReportSources) -> dict[str, Rate]:
    """The rate of every node that has one."""
    return {**_assumed(sources), **_measured(sources)}


def _measured(sources: ReportSources) -> dict[str, Rate]:
    recordings = dict(sources.recordings)
    if sources.verification is not None:
        recordings = {**sources.verification.recordings, **recordings}
    rates: dict[str, Rate] = {}
    for name in recordings:
        for node, rate in _of(recordings[name]).items():
            rates.setdefault(node, (rate, f"measured, {one_line(name)}"))
    return rates


def _of(recording: Recording) -> dict[str, float]:
    rates = {}
    for (node, variable), array in recording.arrays.items():
        if variable == "s" and array.size and array.ndim and is_counts(array):
            rates[node] = float(array.sum(dtype=np.int64)) / array.size
    return rates


def _assumed(sources: ReportSources) -> dict[str, Rate]:
    """Spikes per time step of the neurons that send to a core, as the costs of the map count them."""
    mapped = sources.mapped
    if mapped is None:
        return {}
    axons, said = mapped.axons, one_line(mapped.rates)
    rates = {}
    for k, name in enumerate(axons.names):
        of = axons.source_name == k
        neurons = int(axons.neurons[of].sum())
        if neurons:
            rates[name] = float(axons.spikes_per_step[of].sum()) / neurons, said
    return rates
