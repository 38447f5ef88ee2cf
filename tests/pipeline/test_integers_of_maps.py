"""The quantized network of a map, and maps converted to dictionaries and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from nirbridge import pipeline
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, IllegalMapping, ModelError
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.storage import file
from nirbridge.mapping.storage.file import map_to_dict
from nirbridge.network import Network
from nirbridge.pipeline import MapOptions, map_network
from nirbridge.pipeline.saved_files import mapped_network
from nirbridge.plugins import get
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.types import Probe
from nirbridge.testing import networks
from nirbridge.testing.examples import example_chips, example_inputs, example_networks
from nirbridge.testing.faults import fingerprint
from tests.cases import cases
from tests.passes.retimed import on_grid
from tests.pipeline.test_early_spikes import mixed
from tests.pipeline.test_retimed_maps import driven, loop, short_delays, skip

QUICK = MapOptions(effort="fast")
CASES: dict[str, tuple[Network, Chip, dict[str, Any]]] = {
    "skip path": (skip(), read_chip("loihi1"), {}),
    "copies": (skip(), read_chip("loihi1"), {"splits": {"a": 2}}),
    "relays": (skip(), short_delays(0), {}),
    "constant drive": (driven(), read_chip("loihi2"), {}),
    "early spikes": (mixed(1), read_chip("loihi2"), {"keep_early_spikes": True}),
    "early spikes, another": (mixed(4), read_chip("loihi2"), {"keep_early_spikes": True}),
    **{f"example {k}": (network, example_chips()[-1], {}) for k, network in enumerate(example_networks())},
    "copies, no other delays": (example_networks()[2], example_chips()[-1], {"splits": {"loop": 2}}),
}


def computed(q: QuantizedNetwork) -> str:
    """All that decides what the integers compute."""
    return fingerprint((q.chip, q.dt, q.populations, q.projections, q.inputs, q.outputs, q.reads, dict(q.latency)))


@pytest.mark.parametrize("case", CASES)
def test_the_integers_of_a_map_are_those_of_its_network(case: str) -> None:
    network, chip, options = CASES[case]
    mapped = map_network(network, chip, replace(QUICK, **options))
    quantized = quantize(pipeline.retime(network, chip, **options), chip)
    assert computed(integers_of(mapped)) == computed(quantized)


@given(networks(max_populations=3))
@settings(max_examples=cases(8, 15))
def test_fixed_is_mapped_by_name(network: Network) -> None:
    chip = read_chip("loihi2")
    still = [replace(p, neuron=replace(p.neuron, v_init=freeze(0.0), i_init=freeze(0.0))) for p in network.populations]
    network = on_grid(replace(network, populations=tuple(still)), 0)
    try:
        mapped = map_network(network, chip, QUICK)
        quantized = quantize(pipeline.retime(network, chip), chip)
    except (ModelError, DoesNotFit):
        return
    assert computed(integers_of(mapped)) == computed(quantized)
    inputs, every = example_inputs(quantized), [Probe("*", ("s", "u", "v"))]
    fixed = get("simulators", "fixed", ())(quantized, inputs, record=every)
    again = get("simulators", "mapped", ())(mapped, inputs, record=every)
    assert fixed.arrays.keys() == again.arrays.keys()
    assert all(np.array_equal(array, again.arrays[key]) for key, array in fixed.arrays.items())


def test_integers_that_are_given_are_those_that_run() -> None:
    network, chip, _ = CASES["skip path"]
    mapped = map_network(network, chip, QUICK)
    quantized = quantize(pipeline.retime(network, chip), chip, QuantizationOptions(weight_bits=3))
    given_ = replace(mapped, quantized=quantized)
    assert integers_of(given_) is quantized
    simulate, inputs = get("simulators", "mapped", ()), {"in": np.ones((9, 2), np.uint8)}
    every = [Probe("*", ("s", "u", "v"))]
    three = simulate(given_, inputs, record=every)
    fixed = get("simulators", "fixed", ())(quantized, inputs, record=every)
    assert fingerprint(three.arrays) == fingerprint(fixed.arrays)
    assert fingerprint(three.arrays) != fingerprint(simulate(mapped, inputs, record=every).arrays)


def test_a_placement_has_no_integers() -> None:
    mapped = map_network(loop(), read_chip("loihi1"), replace(QUICK, placement_only=True))
    with pytest.raises(IllegalMapping, match="^map: is a placement only, nothing runs it; map the network for a chip"):
        integers_of(mapped)


@pytest.mark.parametrize("case", CASES)
def test_a_saved_map_is_the_same_value_again(case: str, tmp_path: Path) -> None:
    network, chip, options = CASES[case]
    mapped = map_network(network, chip, replace(QUICK, **options))
    file.write_document(map_to_dict(mapped, "m.nir", "0" * 64), tmp_path / "m.map.json")
    again = mapped_network(file.read_map(tmp_path / "m.map.json"), network, chip)
    marks = ("latency", "splits", "objective", "early_spikes", "placement_only")
    for name in ("partition", "cores", "chips", *marks):
        assert fingerprint(getattr(again, name)) == fingerprint(getattr(mapped, name)), name
    assert computed(integers_of(again)) == computed(integers_of(mapped))
