"""Orders of a population's neurons: the same runs and the same file as without, whatever the order."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import Chip
from nirbridge.emitters.lava.plan.fixed import split_by_core
from nirbridge.errors import DoesNotFit, FileError, ModelError
from nirbridge.mapping.checker import check
from nirbridge.mapping.checker.recount import lay_out
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.differences import map_differences
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.mapping.storage.record import MapRecord, map_from_dict
from nirbridge.mapping.synapses import SynapseList, expand_operator, synapses_into
from nirbridge.network.model import Network, Projection
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.ordering import in_orders, ordered_network
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, place_partition
from nirbridge.pipeline.fit import prepare_retimed
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.testing import chips, networks
from tests.cases import cases
from tests.mapping.hand_made import chip_with, dense_net, made
from tests.simulators.mapped.test_mapped import ALL, assert_same, at_rest, small_chip, spikes

HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]
Orders = dict[str, tuple[int, ...]]


def drawn_orders(network: Network, seed: int) -> Orders:
    """A random order of about two populations in three, the first one always."""
    rng = np.random.default_rng(seed)
    return {
        p.name: tuple(rng.permutation(p.size).tolist())
        for k, p in enumerate(network.populations)
        if k == 0 or rng.random() < 0.6
    }


def in_order(network: Network, chip: Chip, orders: Orders, bits: int | None = None) -> MappedNetwork:
    found = partition(ordered_network(network, orders), chip, PartitionOptions("sequential", weight_bits=bits))
    return place_partition(network, chip, replace(found, orders=MappingProxyType(orders)), MapOptions(effort="fast"))


def saved(mapped: MappedNetwork) -> MapRecord:
    return map_from_dict(json.loads(map_bytes(map_to_dict(mapped, "m.nir", "ab" * 32))))


@given(networks(), st.sampled_from([1, 3, 10]), st.integers(0, 2**16))
@settings(max_examples=cases(20, 40), deadline=None)
def test_maps_in_any_order_run_as_the_integers_do(network: Network, neurons: int, seed: int) -> None:
    chip = small_chip(neurons)
    most, graded = chip.core.delay_steps, chip.neuron.graded_spikes
    try:
        retimed = Retime(delay_steps_max=most, graded_spikes=graded).retimed(at_rest(network, seed))
        quantized = quantize(retimed, chip)
        ready = prepare_retimed(retimed, chip, MapOptions(relays=False))
        mapped = in_order(ready.network, chip, drawn_orders(ready.network, seed))
    except (ModelError, DoesNotFit):
        return
    mapped = replace(mapped, latency=ready.latency, placement_only=ready.placement_only)
    check.check_mapping(mapped)
    record = saved(mapped)
    assert record.orders == dict(mapped.partition.orders)
    assert "ranges of another order of the neurons" in record.raw["notes"][-1]
    inputs = spikes(quantized, 10, seed)
    fixed = simulate_fixed(quantized, inputs, record=ALL, backend="reference").recording
    assert_same(fixed, simulate_mapped(quantized, mapped, inputs, record=ALL))
    assert_same(fixed, simulate_mapped(quantized, record, inputs, record=ALL))
    assert_cores_agree(mapped, record, quantized)


def assert_cores_agree(mapped: MappedNetwork, record: MapRecord, quantized: QuantizedNetwork) -> None:
    """``where``, the checker's own layout and the processes of a program name the same cores."""
    shapes = {p.name: p.shape for p in mapped.network.populations}
    layout = lay_out(record.blocks, shapes, lambda _: True, record.orders)
    parts = split_by_core(quantized, mapped)
    for name, shape in shapes.items():
        blocks = [b for b in mapped.partition.blocks for s in b.slices if s.population == name]
        owner: dict[int, int] = {}
        for part, block in zip(parts[name], blocks, strict=True):
            assert part is not None
            owner |= dict.fromkeys(part.tolist(), int(block.id))
        for neuron in range(int(np.prod(shape)))[:6]:
            index = tuple(int(k) for k in np.unravel_index(neuron, shape))
            block = int(layout.block_of[name][neuron])
            assert mapped.where(name, index) == record.where(name, index) == (mapped.cores[block],)
            assert owner[neuron] == block


@settings(max_examples=cases(20, 50), suppress_health_check=HEALTH, deadline=None)
@given(networks(max_populations=3), chips(), st.integers(0, 2**16))
def test_maps_in_any_order_are_legal(network: Network, chip: Chip, seed: int) -> None:
    """Limits are those of the neurons that the checker finds in the model, not of the ordered network."""
    try:
        mapped = in_order(network, chip, drawn_orders(network, seed))
    except DoesNotFit:
        return
    assert not list(check.diagnose_mapping(mapped, placement_only=True))


@settings(max_examples=cases(20, 60), suppress_health_check=HEALTH, deadline=None)
@given(networks(max_populations=3), st.integers(0, 2**16))
def test_an_ordered_network_is_the_network_with_its_neurons_moved(network: Network, seed: int) -> None:
    orders = drawn_orders(network, seed)
    other = ordered_network(network, orders)
    assert ordered_network(network, {}) is network
    for p, q in zip(network.projections, other.projections, strict=True):
        rows, columns = (np.array(orders.get(n, range(10**4))) for n in (p.target, p.source))
        a, b = pairs(p), pairs(q)
        assert np.array_equal(a[rows[: a.shape[0]]][:, columns[: a.shape[1]]], b)
        for name, order in (("delay_steps", columns), ("target_delay_steps", rows), ("bias", rows)):
            x, y = getattr(p, name), getattr(q, name)
            if x is not None:
                assert np.array_equal(x.ravel()[order[: x.size]] if x.ndim else x, y.ravel() if x.ndim else y)
    for p, q in zip(network.populations, other.populations, strict=True):
        order = np.array(orders.get(p.name, range(p.size)))
        for x, y in ((p.neuron.a_mem, q.neuron.a_mem), (p.neuron.bias, q.neuron.bias)):
            assert np.array_equal(np.broadcast_to(x, p.shape).ravel()[order], np.broadcast_to(y, p.shape).ravel())
    rates = in_orders({p.name: np.arange(p.size).reshape(p.shape) for p in network.populations}, orders)
    for name, order in orders.items():
        assert tuple(rates[name].ravel().tolist()) == order


def pairs(p: Projection) -> Any:
    """[targets, sources], True where there is a synapse, as the checker lists them."""
    n_out, n_in = prod(p.operator.output_shape), prod(p.operator.input_shape)
    found = synapses_into(expand_operator(p.operator), np.arange(n_out))
    is_joined = np.zeros((n_out, n_in), bool)
    if isinstance(found, SynapseList):
        is_joined[found.row, found.source] = True
    else:
        is_joined[np.ix_(found.rows, found.sources)] = True
    return is_joined


# -- in files -----------------------------------------------------------------------------------------------------


def reordered() -> MappedNetwork:
    """Five neurons on two cores, the first of them on the second core alone."""
    net = dense_net()
    mapped = made(net, chip_with(), [[Slice("fc1", ((0, 4),))], [Slice("fc1", ((4, 5),)), Slice("out", ((0, 3),))]])
    partition = replace(mapped.partition, orders=MappingProxyType({"fc1": (4, 1, 3, 2, 0)}))
    return replace(mapped, partition=partition)


def test_the_file_names_the_order_and_says_so_by_its_schema() -> None:
    document = map_to_dict(reordered(), "net.nir", "ab" * 32)
    assert document["schema"] == 2
    assert [p.get("order") for p in document["populations"]] == [[4, 1, 3, 2, 0], None]
    record = map_from_dict(document)
    assert record.orders == {"fc1": (4, 1, 3, 2, 0)}
    assert record.where("fc1", 0) == (record.blocks[1].core,)
    assert record.where("fc1", 4) == (record.blocks[0].core,)
    assert not list(check.diagnose_mapping(reordered()))
    plain = map_to_dict(replace(reordered(), partition=replace(reordered().partition, orders={})), "net.nir", "ab" * 32)
    assert plain["schema"] == 1
    assert map_from_dict(plain).orders == {}


WRONG: list[tuple[object, str]] = [
    ([0, 1, 2, 3], r"populations\[0\].order: lists 4 neurons, the population has 5 neurons"),
    ([], r"populations\[0\].order: lists 0 neurons, the population has 5 neurons"),
    ([0, 1, 2, 3, 3], r"populations\[0\].order: names neuron 3 more than once, it names every neuron once"),
    ([0, 1, 2, 3, 5], r"populations\[0\].order: names neuron 5, neurons are numbered from 0 to 4"),
    ([0, 1, 2, 3, 2**53], r"populations\[0\].order: names neuron 9,007,199,254,740,992, neurons are numbered"),
    ([0, 1, 2, 3, 2**53 + 1], r"populations\[0\].order\[4\]: is 9007199254740993, expected a whole number"),
    ([0, 1, 2, 3, -4], r"populations\[0\].order\[4\]: is -4, expected a whole number"),
    ([0, 1, 2, 3, 4.0], r"populations\[0\].order\[4\]: is 4.0, expected a whole number"),
    ([0, True, 2, 3, 4], r"populations\[0\].order\[1\]: is True, expected a whole number"),
    ([[0], 1, 2, 3, 4], r"populations\[0\].order\[0\]: is a list, expected a whole number"),
    ("01234", r"populations\[0\].order: is '01234', expected a list"),
    ({"0": 1}, r"populations\[0\].order: is an object, expected a list"),
]


@pytest.mark.parametrize(("order", "said"), WRONG, ids=[str(order) for order, _ in WRONG])
def test_lists_that_are_no_order_are_refused(order: object, said: str) -> None:
    document = copy.deepcopy(map_to_dict(reordered(), "net.nir", "ab" * 32))
    document["populations"][0]["order"] = order
    with pytest.raises(FileError, match=said):
        map_from_dict(document)


def test_an_order_in_a_file_of_schema_1_is_refused() -> None:
    document = map_to_dict(reordered(), "net.nir", "ab" * 32) | {"schema": 1}
    with pytest.raises(FileError, match=r"order: is in a file of schema 1, maps of schema 2 have orders"):
        map_from_dict(document)


def test_an_order_of_another_number_of_neurons_than_the_model_is_a_violation() -> None:
    document = copy.deepcopy(map_to_dict(reordered(), "net.nir", "ab" * 32))
    document["populations"][0] |= {"order": [1, 0], "neurons": 2}
    found = [str(p) for p in check.diagnose_mapping(map_from_dict(document), reordered().network)]
    assert found[0].startswith("population 'fc1': has 2 neurons in the map, its shape is (5,)")


def test_maps_that_differ_in_an_order_name_it_and_the_neurons_that_move() -> None:
    a = map_from_dict(map_to_dict(reordered(), "net.nir", "ab" * 32))
    plain = replace(reordered(), partition=replace(reordered().partition, orders={}))
    b = map_from_dict(map_to_dict(plain, "net.nir", "ab" * 32))
    names = {d.name: (d.a, d.b) for d in map_differences(a, b)}
    assert names["order of 'fc1'"] == ("4, 1, 3, 2, 0", "that of the model")
    moved = [name for name in names if name.startswith("placement")]
    assert moved == ["placement of 2 of 5 neurons of 'fc1'"]  # 0 and 4 change places
    assert not map_differences(a, a)
