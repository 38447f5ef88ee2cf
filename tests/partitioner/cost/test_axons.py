"""Contents of blocks and their senders, against counting synapse by synapse over random blocks."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import Chip
from nirbridge.network.model import Network, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense
from nirbridge.partitioner.cost.axons import (
    HOST,
    Blocks,
    axon_entries,
    axon_table,
    full_run_words,
    owner_blocks,
    resource_use,
)
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.model import RESOURCES, Slice
from nirbridge.partitioner.search.slicing import in_core_order
from tests.cases import cases
from tests.partitioner.cases import (
    axons,
    chip,
    network,
    neurons_of,
    population,
    positions,
    random_cuts,
    random_network,
    shared_words,
    structure,
    words,
)

seeds = st.integers(0, 2**32 - 1)
chips = st.builds(
    chip,
    run_targets_max=st.sampled_from([1, 3, 64]),
    run_free=st.booleans(),
    run_header_bits=st.sampled_from([0, 10]),
    word_bits=st.sampled_from([16, 64]),
    index_bits=st.sampled_from([None, 2, 9]),
)


def random_blocks(rng: np.random.Generator, net: Network) -> Blocks:
    """Every population cut at random, the pieces thrown onto a few cores, none of them empty."""
    names = tuple(p.name for p in net.populations)
    pieces = [Slice(p.name, box) for p in net.populations for box in random_cuts(rng, p.shape, 4)]
    cores: dict[int, list[Slice]] = {}
    for piece in pieces:
        cores.setdefault(int(rng.integers(4)), []).append(piece)
    return tuple(in_core_order(cores[core], names) for core in sorted(cores))


def owners(net: Network, blocks: Blocks) -> dict[tuple[str, int], int]:
    """The block of every neuron."""
    found: dict[tuple[str, int], int] = {}
    for number, slices in enumerate(blocks):
        for piece in slices:
            for index in neurons_of(net.population(piece.population).shape, piece.box):
                assert (piece.population, index) not in found
                found[piece.population, index] = number
    assert len(found) == net.neurons
    return found


def reached(net: Network, slices: tuple[Slice, ...]) -> Counter[tuple[str, int]]:
    """Sources (name, flat index) with a target in the core, and how many synapses each has there."""
    found: Counter[tuple[str, int]] = Counter()
    for piece in slices:
        rows = neurons_of(net.population(piece.population).shape, piece.box)
        for p in net.projections:
            if p.target == piece.population:
                counts = structure(p.operator)[rows].sum(axis=0)
                found.update({(p.source, int(i)): int(counts[i]) for i in np.flatnonzero(counts)})
    return found


def profiles(net: Network, slices: tuple[Slice, ...]) -> tuple[int, int]:
    decays, thresholds = set(), set()
    for piece in slices:
        p = net.population(piece.population)
        fields = [np.broadcast_to(a, p.shape).ravel() for a in (p.neuron.a_syn, p.neuron.a_mem)]
        fields.append(np.broadcast_to(p.neuron.refractory_steps, p.shape).ravel())
        for index in neurons_of(p.shape, piece.box):
            decays.add(tuple(float(f[index]) for f in fields))
            if p.neuron.theta is not None:
                thresholds.add(float(np.broadcast_to(p.neuron.theta, p.shape).ravel()[index]))
    return len(decays), len(thresholds)


def stored(net: Network, p: Projection, slices: tuple[Slice, ...], on: Chip) -> int:
    """Words of a projection in a core: its lists whole, or all cut where a slice ends, whichever are fewer."""
    shape = net.population(p.target).shape
    own = [piece for piece in slices if piece.population == p.target]
    cut = sum(words(p, positions(shape, [piece], p.target), on, 8) for piece in own)
    return min(cut, words(p, positions(shape, slices, p.target), on, 8))


def counted(net: Network, blocks: Blocks, on: Chip) -> list[dict[str, int]]:
    """The use of every resource, block by block."""
    owner = owners(net, blocks)
    inputs = [reached(net, slices) for slices in blocks]
    found = []
    for number, slices in enumerate(blocks):
        sent = sum(owner.get(source) == number for other in inputs for source in other)
        total = 0
        for p in net.projections:
            if any(piece.population == p.target for piece in slices):
                total += stored(net, p, slices, on)
        decays, thresholds = profiles(net, slices)
        neurons = sum(len(neurons_of(net.population(s.population).shape, s.box)) for s in slices)
        found.append(dict(zip(RESOURCES, (neurons, len(inputs[number]), sent, total, decays, thresholds), strict=True)))
    return found


def with_profiles(rng: np.random.Generator, net: Network) -> Network:
    """Neurons of a few different kinds, some of which never fire."""
    populations = []
    for p in net.populations:
        theta = None if rng.random() < 0.2 else rng.choice([1.0, 2.0], size=p.shape)
        record = neuron("LIF", a_mem=rng.choice([0.5, 0.9], size=p.shape if rng.random() < 0.5 else ()), theta=theta)
        populations.append(population(p.name, p.shape, record))
    return network({p.name: p.shape for p in net.inputs}, populations, net.projections)


@settings(max_examples=cases(30, 80))
@given(seeds, chips)
def test_usage_is_exact(seed: int, on: Chip) -> None:
    rng = np.random.default_rng(seed)
    net = with_profiles(rng, random_network(rng, windows=bool(seed % 2)))
    blocks = random_blocks(rng, net)
    found = resource_use(cost_model(net, on, 8), blocks)
    assert [dict(used) for used in found] == counted(net, blocks, on)


@settings(max_examples=cases(20, 60))
@given(seeds)
def test_usage_with_shared_kernels(seed: int) -> None:
    """Lists whole or cut where a slice ends, whichever takes fewer words; of those that are alike one is stored."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=True)
    on = chip(shared_kernels=True)
    sizes = cost_model(net, on, 8)
    blocks = random_blocks(rng, net)
    shares = {edge.index: edge.shares for edges in sizes.incoming.values() for edge in edges}
    for slices, used in zip(blocks, resource_use(sizes, blocks), strict=True):
        exact = 0
        for index, p in enumerate(net.projections):
            shape = net.population(p.target).shape
            own = [piece for piece in slices if piece.population == p.target]
            if own and shares[index]:
                whole = shared_words(p, positions(shape, slices, p.target), on, 8)
                cut = sum(shared_words(p, positions(shape, [piece], p.target), on, 8) for piece in own)
                exact += min(whole, cut)
            elif own:
                exact += stored(net, p, slices, on)
        assert used["synapse_words"] == exact


@settings(max_examples=cases(30, 80))
@given(seeds)
def test_a_piece_alone_costs_what_its_size_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=bool(seed % 2))
    sizes = cost_model(net, chip(), 8)
    pieces = [Slice(p.name, box) for p in net.populations for box in random_cuts(rng, p.shape, 3)]
    for piece, used in zip(pieces, resource_use(sizes, [(piece,) for piece in pieces]), strict=True):
        cost = sizes.cost(piece.population, piece.box)
        assert cost[:3] == tuple(used[name] for name in ("neurons", "input_axons", "synapse_words"))


@settings(max_examples=cases(30, 80))
@given(seeds)
def test_sums_over_slices_are_never_too_little(seed: int) -> None:
    """What the packing adds up bounds what the core really holds."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=bool(seed % 2))
    sizes = cost_model(net, chip(), 8)
    blocks = random_blocks(rng, net)
    for slices, used in zip(blocks, resource_use(sizes, blocks), strict=True):
        total = np.sum([sizes.cost(s.population, s.box) for s in slices], axis=0)
        assert total[0] == used["neurons"]
        assert total[1] >= used["input_axons"]
        assert total[2] >= used["synapse_words"]


@settings(max_examples=cases(20, 60))
@given(seeds)
def test_full_runs_are_the_other_run_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    blocks = random_blocks(rng, net)
    free, full = (chip(run_free=rule, run_targets_max=5, run_header_bits=24) for rule in (True, False))
    expected = [used["synapse_words"] for used in counted(net, blocks, full)]
    assert full_run_words(cost_model(net, free, 8), blocks) == tuple(expected)
    assert full_run_words(cost_model(net, full, 8), blocks) is None


@settings(max_examples=cases(35, 100))
@given(seeds)
def test_entries_of_every_source(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    blocks = random_blocks(rng, net)
    sizes = cost_model(net, chip(), 8)
    expected = {
        (source, number): count
        for number, slices in enumerate(blocks)
        for source, count in reached(net, slices).items()
    }
    owner = owners(net, blocks)
    found: dict[tuple[tuple[str, int], int], int] = {}
    for entry in axon_entries(sizes, blocks):
        own = [owner.get((entry.name, i), HOST) for i in range(len(entry.owner))]
        assert entry.owner.tolist() == own
        pairs = list(zip(entry.neuron.tolist(), entry.block.tolist(), strict=True))
        assert pairs == sorted(set(pairs))
        for (index, block), count in zip(pairs, entry.synapses.tolist(), strict=True):
            found[(entry.name, index), block] = count
    assert found == expected


@settings(max_examples=cases(35, 100))
@given(seeds)
def test_the_axon_table_groups_by_target_blocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng)
    blocks = random_blocks(rng, net)
    ports = [*net.inputs, *net.populations]
    rates = {p.name: rng.random(p.shape) if rng.random() < 0.7 else np.float64(0.5) for p in ports}
    table = axon_table(cost_model(net, chip(), 8), blocks, rates)
    owner = owners(net, blocks)
    into = [reached(net, slices) for slices in blocks]
    groups: dict[tuple[str, int, tuple[int, ...]], list[int]] = {}
    for p in ports:
        for i in range(p.size):
            targets = tuple(number for number, counts in enumerate(into) if (p.name, i) in counts)
            if targets:
                groups.setdefault((p.name, owner.get((p.name, i), HOST), targets), []).append(i)
    assert np.allclose(sum(table.ops_by_kind.values()), table.synaptic_ops_per_step, rtol=1e-12, atol=0)
    seen = set()
    for g in range(len(table.neurons)):
        name = table.names[table.source_name[g]]
        span = slice(table.target_ptr[g], table.target_ptr[g + 1])
        key = (name, int(table.source_block[g]), tuple(table.targets[span].tolist()))
        members = groups[key]
        rate = np.broadcast_to(rates[name], net_shape(net, name)).ravel()
        assert key not in seen
        seen.add(key)
        assert table.neurons[g] == len(members)
        assert np.isclose(table.spikes_per_step[g], rate[members].sum(), rtol=1e-12)
        for block, synapses, work in zip(key[2], table.synapses[span], table.synaptic_ops_per_step[span], strict=True):
            counts = [into[block][name, i] for i in members]
            assert synapses == sum(counts)
            assert np.isclose(work, float(np.dot(counts, rate[members])), rtol=1e-12)
    assert seen == set(groups)


def net_shape(net: Network, name: str) -> tuple[int, ...]:
    return next(p.shape for p in (*net.inputs, *net.populations) if p.name == name)


def test_owners_of_a_split_population() -> None:
    projection = Projection("in", "p", Dense(np.ones((4, 2))))
    net = network({"in": (2,)}, [population("p", (4,))], [projection])
    blocks = ((Slice("p", ((2, 4),)),), (Slice("p", ((0, 2),)),))
    assert owner_blocks(cost_model(net, chip(), 8), blocks)["p"].tolist() == [1, 1, 0, 0]


def test_a_list_runs_on_from_slice_to_slice() -> None:
    """Two neighbouring rows of a convolution in one core: 4 targets in a row are one run, not two."""
    operator = Conv(np.ones((2, 1, 2, 1)), (1, 1), ((0, 1), (0, 0)), (1, 1), 1, (1, 2, 1))
    net = network({"in": (1, 2, 1)}, [population("p", (2, 2, 1))], [Projection("in", "p", operator)])
    on = chip(run_header_bits=10, word_bits=64)
    sizes = cost_model(net, on, 8)
    rows = tuple(Slice("p", ((0, 2), (r, r + 1), (0, 1))) for r in range(2))
    joint, apart = resource_use(sizes, [rows]), resource_use(sizes, [(rows[0],), (rows[1],)])
    assert joint[0]["synapse_words"] == 2
    assert sum(used["synapse_words"] for used in apart) == 3
    assert joint[0]["input_axons"] == 2
    assert [used["input_axons"] for used in apart] == [2, 1]
    assert len(axons(net, "p", positions((2, 2, 1), rows, "p"))) == 2
