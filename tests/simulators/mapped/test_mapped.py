from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, IllegalMapping, ModelError, UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage import file
from nirbridge.mapping.storage.record import MapRecord, map_from_dict
from nirbridge.network import Network, from_nir
from nirbridge.network.apply import apply, matrix
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_retimed
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import map_record, simulate_mapped
from nirbridge.simulators.mapped.tables import _synapses_into
from nirbridge.simulators.simulate import Probe, Recording
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.graphs import graph_of, lif, out, port
from tests.passes.retimed import on_grid

ALL = [Probe("*", ("s", "u", "v"))]
QUICK = MapOptions(method="sequential", effort="fast", relays=False)


def on_chip(network: Network, chip: Chip) -> tuple[QuantizedNetwork, MappedNetwork]:
    most, graded = chip.core.delay_steps, chip.neuron.graded_spikes
    retimed = Retime(delay_steps_max=most, graded_spikes=graded).retimed(network)
    quantized = quantize(retimed, chip)
    return quantized, map_retimed(retimed, chip, QUICK)


def spikes(quantized: QuantizedNetwork, steps: int, seed: int = 0, batch: int | None = None) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    lead = (steps,) if batch is None else (steps, batch)
    return {p.name: (rng.random((*lead, *p.shape)) < 0.4).astype(np.uint8) for p in quantized.inputs}


def assert_same(a: Recording, b: Recording) -> None:
    assert set(a.arrays) == set(b.arrays)
    for key, x in a.arrays.items():
        assert x.dtype == b.arrays[key].dtype, key
        assert np.array_equal(x, b.arrays[key]), key


# -- equal to the fixed simulator ------------------------------------------------------------------------------------


@given(networks(), st.sampled_from([1, 3, 10, 50]), st.integers(0, 2**16), st.sampled_from([None, 2]))
@settings(max_examples=cases(20, 60), deadline=None)
def test_mapped_equals_fixed_on_random_networks_and_chips(
    network: Network, neurons: int, seed: int, batch: int | None
) -> None:
    try:
        quantized, mapped = on_chip(at_rest(network, seed), small_chip(neurons))
    except (ModelError, DoesNotFit):
        return
    inputs = spikes(quantized, 12, seed, batch)
    assert_same(
        simulate_fixed(quantized, inputs, record=ALL, backend="reference").recording,
        simulate_mapped(quantized, mapped, inputs, record=ALL),
    )


def at_rest(network: Network, seed: int) -> Network:
    """With decays that chips have, and no start that could not be kept: so that most are not refused."""
    zero = freeze(np.float64(0))
    still = [replace(p, neuron=replace(p.neuron, v_init=zero, i_init=zero)) for p in on_grid(network, seed).populations]
    return replace(on_grid(network, seed), populations=tuple(still))


def small_chip(neurons: int, name: str = "loihi2") -> Chip:
    from nirbridge.chips import chip_from_dict

    base: Any = read_chip(name).record
    record = {key: dict(v) if hasattr(v, "items") else v for key, v in base.items()}
    record["core"] |= {"neurons": neurons}
    return chip_from_dict(record)


def skip_network() -> Network:
    """A convolution, a pool, a skip path, a loop, two inputs and two outputs; uneven delays; several spikes a step."""
    rng = np.random.default_rng(3)

    def grid(*shape: int) -> Array:
        return rng.integers(-12, 16, size=shape) / 16

    many = lif(6, theta=0.5, tau=4e-4)
    many.metadata = {"nirbridge:reset": "subtract", "nirbridge:max_spikes": 3, "nirbridge:compare": ">="}
    held = lif(3, 4, 4, theta=0.75, tau=4e-4, r=2.0)
    held.metadata = {"nirbridge:refractory_steps": 2}
    nodes = {
        "in": port(2, 8, 8),
        "other": port(6),
        "pool": nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0])),
        "conv": nir.Conv2d((4, 4), grid(3, 2, 3, 3), 1, 1, 1, 1, grid(3)),
        "a": held,
        "flat": nir.Flatten({"input": np.array([3, 4, 4])}, 0, -1),
        "fc": nir.Affine(grid(6, 48), grid(6)),
        "b": many,
        "late": nir.Delay(np.array([0, 1e-4, 2e-4, 0, 5e-4, 1e-4])),
        "w": nir.Linear(grid(6, 6)),
        "c": lif(6, theta=1.0, tau=2e-4, r=1.0),
        "loop": nir.Linear(grid(6, 6)),
        "out": out(6),
        "seen": out(6),
    }
    edges = [("in", "pool"), ("pool", "conv"), ("conv", "a"), ("a", "flat"), ("flat", "fc"), ("fc", "b"), ("b", "late")]
    edges += [("late", "w"), ("w", "c"), ("other", "c"), ("fc", "c"), ("c", "loop"), ("loop", "c"), ("c", "out")]
    return from_nir(graph_of(nodes, [*edges, ("b", "seen")], dt=1e-4))


@pytest.mark.parametrize("neurons", [4, 13, 1000])
def test_mapped_equals_fixed_on_a_network_with_everything(neurons: int) -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(neurons))
    assert len(mapped.cores) >= 48 // neurons
    inputs = spikes(quantized, 40)
    fixed = simulate_fixed(quantized, inputs, record=ALL).recording
    assert_same(fixed, simulate_mapped(quantized, mapped, inputs, record=ALL))
    assert all(fixed.arrays[name, "s"].any() for name in ("a", "b", "c"))
    assert fixed.arrays["b", "s"].max() > 1


# -- the map file is what runs ---------------------------------------------------------------------------------------


def saved(mapped: MappedNetwork, folder: Path) -> dict[str, Any]:
    path = folder / "m.map.json"
    file.write_map(mapped, path, "m.nir", "0" * 64)
    return json.loads(path.read_text())


def test_a_saved_map_runs_as_the_map_itself(tmp_path: Path) -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(13))
    document = saved(mapped, tmp_path)
    inputs = spikes(quantized, 10)
    loaded = file.read_map(tmp_path / "m.map.json")
    assert_same(
        simulate_mapped(quantized, mapped, inputs, record=ALL), simulate_mapped(quantized, loaded, inputs, record=ALL)
    )
    assert document == map_record(mapped).raw | {"model": document["model"]}


def broken(mapped: MappedNetwork, folder: Path, change: Any) -> MapRecord:
    document = saved(mapped, folder)
    change(document)
    return map_from_dict(document)


def drop_route(d: dict[str, Any]) -> None:
    d["routes"] = [r for r in d["routes"] if r["source_input"] is None or r["target_block"] != d["blocks"][0]["id"]]


def too_few_axons(d: dict[str, Any]) -> None:
    d["routes"][-1]["neurons"] -= 1


def drop_block(d: dict[str, Any]) -> None:
    del d["blocks"][0]


def shift_box(d: dict[str, Any]) -> None:
    d["blocks"][0]["slices"][0]["box"][0][1] += 1000


def twice(d: dict[str, Any]) -> None:
    d["blocks"][0]["slices"] *= 2


def other_delay(d: dict[str, Any]) -> None:
    next(p for p in d["projections"] if (p["source"], p["target"]) == ("b", "c"))["delay_steps"] += 1


def fewer_bits(d: dict[str, Any]) -> None:
    for p in d["projections"]:
        p["weight_bits"] = 4


def rename(d: dict[str, Any]) -> None:
    d["populations"][0]["name"] = "nobody"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (drop_route, "input 'in' to block .*the map has no route"),
        (too_few_axons, "neurons go there, the map has axons for"),
        (drop_block, "neurons are on no core"),
        (shift_box, "is not a rectangular slice of a population"),
        (twice, "are on more than one core, or twice on one"),
        (rename, "is not in the map"),
        (other_delay, "^projections 'b' -> 'c': take 7 time steps in the map, 6 in the network; map the model again$"),
        (fewer_bits, "^projection 'in' -> 'a': weights of 8 bits, the map has memory for 4; map the model again"),
    ],
)
def test_a_map_that_lacks_what_is_needed_does_not_run(tmp_path: Path, change: Any, found: str) -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(13))
    with pytest.raises(IllegalMapping, match=found):
        simulate_mapped(quantized, broken(mapped, tmp_path, change), spikes(quantized, 3))


def test_meta_says_what_ran() -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(13))
    meta = simulate_mapped(quantized, mapped, spikes(quantized, 3)).meta
    assert (meta["backend"], meta["cores"], meta["steps"]) == ("mapped", len(mapped.cores), 3)
    assert meta["latency"]["out"] == quantized.latency["out"]


def test_inputs_that_are_no_spikes_are_refused() -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(1000))
    inputs = {**spikes(quantized, 3), "other": np.full((3, 6), 0.5)}
    with pytest.raises(UsageError, match=r"input 'other': 0\.5 at time step 0, it takes spikes"):
        simulate_mapped(quantized, mapped, inputs)


# -- the synapses of a core ------------------------------------------------------------------------------------------


def operators() -> list[Dense | Sparse | Conv]:
    rng = np.random.default_rng(0)

    def whole(*shape: int) -> Array:
        return rng.integers(-9, 9, size=shape)

    table = matrix(Dense(whole(5, 7) * (rng.random((5, 7)) < 0.5)))
    return [
        Dense(whole(5, 7)),
        Sparse(np.asarray(table.indptr), np.asarray(table.indices), np.asarray(table.data), (7,), (5,)),
        Conv(whole(4, 3, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 2), 1, (3, 6, 5)),
        Conv(whole(6, 2, 3), (2,), ((1, 0),), (1,), 3, (6, 9)),
    ]


@pytest.mark.parametrize("operator", operators(), ids=lambda o: type(o).__name__)
def test_synapses_into_some_neurons_are_rows_of_the_matrix(operator: Any) -> None:
    table = apply(operator, np.eye(math.prod(operator.input_shape), dtype=int).reshape(-1, *operator.input_shape))
    table = table.reshape(len(table), -1).T
    targets = np.random.default_rng(1).permutation(len(table))[: len(table) // 2]
    target, source, weight = _synapses_into(matrix(operator), targets)
    rows = np.zeros((len(targets), table.shape[1]), np.int64)
    np.add.at(rows, (target, source), weight)
    assert np.array_equal(rows, table[targets])
    assert np.all(weight != 0)


def test_pools_in_a_row_leave_inputs_out_that_their_one_kernel_spans() -> None:
    """The map has axons for what the pools look at; the kernel that they become is wider and has zeros there."""

    def pool(kernel: tuple[int, int], stride: tuple[int, int]) -> nir.SumPool2d:
        return nir.SumPool2d(kernel_size=np.array(kernel), stride=np.array(stride), padding=np.array([0, 0]))

    nodes = {"in": port(2, 4, 5), "a": pool((2, 1), (2, 2)), "b": pool((2, 1), (1, 2)), "c": pool((1, 2), (2, 2))}
    nodes |= {"lif": lif(2, 1, 1, tau=4e-4, r=2.0), "out": out(2, 1, 1)}
    edges = [("in", "a"), ("a", "b"), ("b", "c"), ("c", "lif"), ("lif", "out")]
    quantized, mapped = on_chip(from_nir(graph_of(nodes, edges, dt=1e-4)), small_chip(3))
    inputs = spikes(quantized, 20)
    fixed = simulate_fixed(quantized, inputs, record=ALL).recording
    assert_same(fixed, simulate_mapped(quantized, mapped, inputs, record=ALL))
    assert fixed.arrays["lif", "s"].any()
