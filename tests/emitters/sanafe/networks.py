"""Small mapped networks whose integers are changed by hand, and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array, freeze
from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe, Recording
from nirbridge.testing import example_networks

needs_sanafe = pytest.mark.skipif(
    find_spec("sanafe") is None, reason='the package sanafe is not installed: pip install "nirbridge[sanafe]"'
)


def small_chip(neurons: int = 6) -> nb.Chip:
    """Loihi 2 with a few small cores."""
    base: Any = read_chip("loihi2").record
    return chip_from_dict({**base, "core": {**base["core"], "neurons": neurons}})


def mapped_example(number: int = 0, neurons: int = 6) -> MappedNetwork:
    """0: dense with a delayed skip path; 1: convolution, pooling and a readout; 2: recurrence."""
    return nb.map(example_networks()[number], small_chip(neurons), keep_zeros=True)


def changed(mapped: MappedNetwork, *each: Mapping[str, Any], **changes: Any) -> MappedNetwork:
    """The map with the integers of its firing neurons changed: of all, or of the first, the second …; by numbers."""
    quantized = integers_of(mapped)
    populations = []
    for k, p in enumerate(quantized.populations):
        own = {**changes, **(each[k % len(each)] if each else {})}
        plain = ("reset", "max_spikes", "bias_exp")
        arrays = {name: v if name in plain else freeze(np.int64(v)) for name, v in own.items()}
        populations.append(replace(p, neuron=replace(p.neuron, **arrays)) if p.neuron.fires else p)
    return replace(mapped, quantized=replace(quantized, populations=tuple(populations)))


def spikes_for(quantized: QuantizedNetwork, steps: int = 24, batch: int | None = None) -> dict[str, Array]:
    """Random inputs."""
    rng = np.random.default_rng(5)
    lead = (steps,) if batch is None else (steps, batch)
    return {p.name: (rng.random((*lead, *p.shape)) < 0.4).astype(np.uint8) for p in quantized.inputs}


def probes(mapped: MappedNetwork) -> list[Probe]:
    """Spikes and potentials of every population."""
    return [Probe(p.name, ("s", "v") if p.neuron.fires else ("v",)) for p in integers_of(mapped).populations]


def expected(mapped: MappedNetwork, inputs: Mapping[str, Array]) -> Recording:
    """Spikes and potentials of the fixed-point simulator."""
    return simulate_fixed(integers_of(mapped), inputs, record=probes(mapped)).recording


def assert_same(recording: Recording, other: Recording) -> None:
    """Every array is the same."""
    assert set(recording.arrays) == set(other.arrays)
    for key, values in other.arrays.items():
        assert np.array_equal(recording.arrays[key], values), key
