"""Zeros that are no synapses: counted by brute force on the integers, run bit by bit, and never a weight lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nirbridge import pipeline
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import IllegalMapping, ModelError
from nirbridge.mapping.checker.check import check_mapping, diagnose_mapping
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.mapping.storage.record import MapRecord, map_from_dict
from nirbridge.mapping.zeros import stored_operators
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Scale, Sparse
from nirbridge.pipeline import MapOptions, map_network
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import map_record, simulate_mapped
from nirbridge.simulators.types import Probe
from tests.mapping.hand_made import chip_with, network_of, population

QUICK = MapOptions(effort="fast")
CHIPS = ("loihi1", "loihi2", "crossbar256")


def masked(rng: np.random.Generator, rows: int, columns: int, density: float, tiny: float = 0.0) -> np.ndarray:
    """Normal weights, some of them 0 and some so small that their integers are 0; some sources without any."""
    weight = rng.normal(size=(rows, columns)) + np.sign(rng.normal(size=(rows, columns))) * 0.2
    weight[rng.random((rows, columns)) < tiny] *= 1e-6
    weight[rng.random((rows, columns)) >= density] = 0.0
    weight[:, rng.random(columns) < 0.2] = 0.0
    return weight


def net(rng: np.random.Generator, density: float, tiny: float = 0.0, loop: bool = True) -> Network:
    """in -> p -> q, and p -> p, all dense; in -> q as rows that list some zeros."""
    a, p, q = (int(n) for n in rng.integers(3, 14, size=3))
    rows = matrix(Dense(masked(rng, q, a, 0.7)))
    data = rows.data * (rng.random(len(rows.data)) < density)
    lists = Sparse(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), data, (a,), (q,))
    ways = [
        Projection("in", "p", Dense(masked(rng, p, a, density, tiny)), delay_steps=freeze(1)),
        Projection("p", "q", Dense(masked(rng, q, p, density, tiny)), delay_steps=freeze(1)),
        Projection("in", "q", lists, delay_steps=freeze(2)),
    ]
    if loop:
        way = Projection("p", "p", Dense(masked(rng, p, p, density, tiny)), delay_steps=freeze(1), is_back=True)
        ways.append(way)
    return network_of([population("p", p), population("q", q)], ways, [Port("in", (a,))])


def small(name: str, neurons: int) -> Any:
    """A chip whose cores hold so few neurons that networks are spread."""
    chip = read_chip(name)
    return chip_with(name, core={**dict(chip.record["core"]), "neurons": neurons})  # type: ignore[call-overload]


def sources_by_block(mapped: MappedNetwork) -> list[set[tuple[str, int]]]:
    """Sources with an integer other than 0 into each block, counted weight by weight."""
    found = []
    held = {p.index: matrix(p.operator).toarray() for p in integers_of(mapped).projections}
    for block in mapped.partition.blocks:
        sources = set()
        for s in block.slices:
            for k, p in enumerate(mapped.network.projections):
                if p.target == s.population:
                    own = np.arange(*s.box[0])
                    if s.population in mapped.partition.orders:
                        own = np.array(mapped.partition.orders[s.population])[own]
                    sources |= {(p.source, int(j)) for j in np.flatnonzero(held[k][own].any(axis=0))}
        found.append(sources)
    return found


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.3, 0.6]), st.sampled_from([0.0, 0.5]), st.sampled_from(CHIPS)
)
def test_maps_without_zeros_hold_every_integer(seed: int, density: float, tiny: float, name: str) -> None:
    rng = np.random.default_rng(seed)
    network, chip = net(rng, density, tiny), small(name, int(rng.integers(2, 9)))
    mapped = map_network(network, chip, QUICK)
    try:
        integers_of(mapped)
    except ModelError:
        assume(False)  # all weights of a projection become 0
    whole = map_network(network, chip, replace(QUICK, keep_zeros=True))
    assert not whole.stored
    for block, sources in zip(mapped.partition.blocks, sources_by_block(mapped), strict=True):
        if name == "crossbar256":
            assert block.used["input_axons"] == len(sources)
        assert block.used["input_axons"] >= len(sources)
    total = {m: sum(b.used["synapse_words"] for b in m.partition.blocks) for m in (mapped, whole)}
    if len(mapped.cores) == len(whole.cores):
        assert total[mapped] <= total[whole] or name != "crossbar256"
    inputs = {"in": rng.integers(0, 2, size=(12, network.inputs[0].size))}
    integers, probes = integers_of(mapped), [Probe("*", ("s", "v"))]
    fixed = simulate_fixed(integers, inputs, record=probes).recording
    for each in (mapped, whole):
        assert fixed.arrays.keys() == (on_cores := simulate_mapped(integers, each, inputs, record=probes)).arrays.keys()
        assert all(np.array_equal(fixed.arrays[key], on_cores.arrays[key]) for key in fixed.arrays)


@pytest.mark.parametrize("name", CHIPS)
def test_a_saved_map_is_checked_against_the_integers(name: str, tmp_path: Path) -> None:
    network = net(np.random.default_rng(3), 0.2, 0.5)
    mapped = map_network(network, read_chip(name), QUICK)
    assert mapped.stored
    record: MapRecord = map_record(mapped)
    assert record.raw["schema"] == 2
    assert [p.zeros for p in record.projections].count("dropped") == len(mapped.stored)
    assert list(diagnose_mapping(record, mapped.network)) == []
    k = min(mapped.stored)
    dense = replace(network.projections[k], operator=Dense(np.ones(network.projections[k].operator.weight.shape)))  # type: ignore[union-attr]
    other = replace(network, projections=(*network.projections[:k], dense, *network.projections[k + 1 :]))
    assert any("operator is not that of the model" in str(p) for p in diagnose_mapping(record, other))
    (path := tmp_path / "m.map.json").write_bytes(map_bytes(map_to_dict(mapped, "m.nir", "ab" * 32)))
    assert pipeline.check_map(path, network, "ab" * 32) == ()


def test_a_mark_of_zeros_that_are_not_left_out_is_a_violation() -> None:
    """A simulator refuses such a map, so the checker does."""
    way = Projection("in", "p", Dense(np.ones((6, 4))))
    mapped = map_network(network_of([population("p", 6)], [way], [Port("in", (4,))]), read_chip("loihi1"), QUICK)
    document = map_to_dict(mapped, "m.nir", "ab" * 32)
    assert list(diagnose_mapping(map_from_dict(document), mapped.network)) == []
    document |= {"schema": 2, "projections": [document["projections"][0] | {"zeros": "dropped"}]}
    (problem,) = diagnose_mapping(map_from_dict(document), mapped.network)
    assert "says zeros 'dropped', but its cores hold every weight" in str(problem)


def test_a_lost_weight_is_seen() -> None:
    mapped = map_network(net(np.random.default_rng(5), 0.3), read_chip("crossbar256"), QUICK)
    k, pattern = next((k, s) for k, s in mapped.stored.items() if isinstance(s, Sparse) and len(s.indices) > 3)
    first = int(np.flatnonzero(np.diff(pattern.indptr))[0])
    indptr = pattern.indptr - (np.arange(len(pattern.indptr)) > first)
    cut = replace(pattern, indptr=indptr, indices=pattern.indices[1:], data=pattern.data[1:])
    stored = MappingProxyType({**mapped.stored, k: cut})
    with pytest.raises(IllegalMapping, match="1 weight other than 0 left out as zeros"):
        check_mapping(replace(mapped, stored=stored))


def test_other_integers_are_refused_where_a_zero_is_no_longer_one() -> None:
    """All but a hundredth of the range is clipped away, so that weights whose integers were 0 are not any more."""
    weight = np.zeros((6, 40))
    weight[:, 0], weight[0, 1:] = 100.0, 0.15
    way = Projection("in", "p", Dense(weight), delay_steps=freeze(1))
    network = network_of([population("p", 6)], [way], [Port("in", (40,))])
    chip = read_chip("loihi1")
    mapped = map_network(network, chip, QUICK)
    assert np.count_nonzero(matrix(integers_of(mapped).projections[0].operator).toarray()) == 6
    (stored,) = mapped.stored.values()
    assert matrix(stored).nnz == 6
    inputs = {"in": np.ones((5, 40), int)}
    other = quantize(pipeline.retime(network, chip), chip, QuantizationOptions(clip={0: 0.01}))
    assert np.count_nonzero(matrix(other.projections[0].operator).toarray()) == 45
    with pytest.raises(IllegalMapping, match="39 weights that the map left out as 0"):
        simulate_mapped(other, mapped, inputs)
    with pytest.raises(IllegalMapping, match="39 weights other than 0 left out"):
        check_mapping(replace(mapped, quantized=other))
    whole = map_network(network, chip, replace(QUICK, keep_zeros=True))
    a, b = simulate_mapped(other, whole, inputs), simulate_fixed(other, inputs).recording
    assert all(np.array_equal(a.arrays[key], b.arrays[key]) for key in b.arrays)
    blind = replace(other, network=None)
    with pytest.raises(IllegalMapping, match="does not tell"):
        simulate_mapped(blind, mapped, inputs)


def stored_in(operator: Operator, name: str = "loihi1", runs: bool = False) -> Any:
    """The stored structure of one operator; by its real weights, or its integers (``runs``)."""
    from nirbridge.mapping.zeros import MapFacts

    target = Population("p", operator.output_shape, population("p", 1).neuron)
    network = network_of([target], [Projection("in", "p", operator)], [Port("in", operator.input_shape)])
    return stored_operators(network, read_chip(name), MapFacts(8, runs=runs)).get(0)


def test_which_zeros_are_left_out() -> None:
    rng = np.random.default_rng(0)
    few, none = rng.normal(size=(50, 40)), np.broadcast_to(np.float64(0), (50, 40))
    few[:, 7] = 0.0
    (picked, full) = stored_in(Dense(few)).parts
    assert list(picked.indices) == [j for j in range(40) if j != 7]
    assert full.weight.shape == (50, 39)
    few[3, 5] = 0.0
    assert isinstance(stored_in(Dense(few)), Chain)  # of many weights, few are 0: whole rows
    assert matrix(stored_in(Dense(few), "crossbar256")).nnz == 50 * 39 - 1
    for name in CHIPS:
        assert matrix(stored_in(Dense(few[3:5, :20]), name)).nnz == 2 * 19 - 1
    assert stored_in(Dense(none)) is None  # a shape without weights
    assert stored_in(Dense(rng.normal(size=(50, 40))), "loihi1") is None
    half = np.where(rng.random((50, 40)) < 0.1, few, 0.0)
    half[:, 0] = few[:, 0]
    stored = matrix(stored_in(Dense(half))).toarray()
    assert np.array_equal(stored, half != 0)
    assert matrix(stored_in(Dense(np.zeros((3, 4))))).nnz == 0
    assert matrix(stored_in(Scale(np.array([1.0, 0.0, 2.0])))).toarray().tolist() == np.diag([1, 0, 1]).tolist()


def test_kernels_stay_whole_where_they_are_stored_once() -> None:
    weight = np.zeros((4, 2, 3, 3))
    weight[:, :, 1, 1] = 1.0
    conv = Conv(weight, (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 6, 6))
    assert stored_in(conv, "loihi2") is None
    assert matrix(stored_in(conv, "loihi1")).nnz == 4 * 2 * 36
    weight = np.ones((4, 2, 3, 3))
    weight[0] = 0.0
    assert stored_in(replace(conv, weight=weight), "loihi1") is None  # less than half are 0


def test_an_axis_of_channels_is_numbered_last() -> None:
    """Four targets in a row of numbers are one run: channels of one pixel."""
    weight = np.zeros((8, 1))
    weight[[0, 2, 4, 6]] = 1.0  # [channel, position]: position 0 of every channel
    lists = Sparse(np.concatenate(([0], np.cumsum(np.ones(8, int)))), np.zeros(8, int), weight[:, 0], (1,), (4, 2))
    chip = chip_with(synapses={"index_bits": "none", "word_bits": 8, "run_header_bits": 8, "words": 100})
    target = Population("p", (4, 2), population("p", 1).neuron)
    network = network_of([target], [Projection("in", "p", lists)], [Port("in", (1,))])
    mapped = map_network(network, chip, replace(QUICK, placement_only=True))
    (block,) = mapped.partition.blocks
    assert block.used["synapse_words"] == 5  # a header and four weights


@pytest.mark.parametrize("name", ["loihi1", "crossbar256"])
def test_zeros_of_copies_are_those_of_their_own_projections(name: str) -> None:
    """Copies come between the projections of other targets, and their integers keep that order."""
    rng = np.random.default_rng(11)
    weights = {(a, b): masked(rng, m, n, 0.3) for a, b, m, n in (("in", "p", 9, 7), ("p", "p", 9, 9), ("p", "q", 8, 9))}
    ways = [
        Projection(*ends, Dense(w), delay_steps=freeze(int(ends == ("p", "p"))), is_back=ends == ("p", "p"))
        for ends, w in weights.items()
    ]
    network = network_of([population("p", 9), population("q", 8)], ways, [Port("in", (7,))])
    mapped = map_network(network, read_chip(name), replace(QUICK, splits=MappingProxyType({"p": 2})))
    assert mapped.latency is None
    assert mapped.stored
    held = {p.index: (p.source, p.target) for p in integers_of(mapped).projections}
    assert held == {k: (p.source, p.target) for k, p in enumerate(mapped.network.projections)}
    assert list(diagnose_mapping(map_record(mapped), mapped.network)) == []
