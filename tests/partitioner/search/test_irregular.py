"""Cores of any neurons for irregular networks: legal maps, exact counts along the way, known optima."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from nirbridge.arrays import Array, freeze
from nirbridge.chips import cores_of, read_chip
from nirbridge.chips.model import Chip
from nirbridge.mapping.checker import check
from nirbridge.network import neuron, sparse_operator
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.operators import Dense
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search.irregular import blocks as irregular_blocks
from nirbridge.partitioner.search.irregular import model as irregular_model
from nirbridge.partitioner.search.irregular import search as irregular_search
from nirbridge.partitioner.search.irregular.balance import even_out, room_of
from nirbridge.partitioner.search.irregular.blocks import ordered_blocks
from nirbridge.partitioner.search.irregular.coarsen import bisected, clusters, contracted, graph_of
from nirbridge.partitioner.search.irregular.jit import compiled
from nirbridge.partitioner.search.irregular.model import model_of, nets_of
from nirbridge.partitioner.search.irregular.moves import AXONS, OUT, SIZE, WORDS
from nirbridge.partitioner.search.irregular.moves import _near as near_plain
from nirbridge.partitioner.search.irregular.moves import move as move_plain
from nirbridge.partitioner.search.irregular.moves import place_all as place_all_plain
from nirbridge.partitioner.search.irregular.search import irregular_cores
from nirbridge.partitioner.search.slicing import capacity
from nirbridge.pipeline import MapOptions, place_partition

_near, move, place_all = (compiled(loop) for loop in (near_plain, move_plain, place_all_plain))
FAN_IN = 12


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other search is tried, as for large networks."""
    monkeypatch.setattr(irregular_blocks, "NEURONS_LARGE", 0)


def ring(neurons: int, spread: float, seed: int, *, far: float = 0.0) -> Array:
    """[neurons, FAN_IN] sources near on a ring (some anywhere), of neurons that are then shuffled."""
    rng = np.random.default_rng(seed)
    offset = np.rint(rng.normal(0, spread, (neurons, FAN_IN))).astype(np.int64)
    sources = (np.arange(neurons)[:, None] + offset) % neurons
    sources = np.where(rng.random(sources.shape) < far, rng.integers(neurons, size=sources.shape), sources)
    name = rng.permutation(neurons)
    shuffled = np.empty_like(sources)
    shuffled[name] = name[sources]
    return shuffled


def reservoir(sources: Array, *, readout: int = 0, dense_input: int = 0) -> Network:
    """A shuffled reservoir with an input, and a dense readout where it has neurons."""
    neurons = len(sources)
    rows = np.repeat(np.arange(neurons), sources.shape[1])
    loop = sparse.coo_array((np.ones(sources.size), (rows, sources.ravel())), shape=(neurons, neurons))
    drive = sparse.coo_array((np.ones(neurons), (np.arange(neurons), np.arange(neurons) % 16)))
    one = freeze(np.int64(1))
    populations = [Population("reservoir", (neurons,), neuron("LIF", a_mem=0.9))]
    projections = [
        Projection("in", "reservoir", sparse_operator(drive)),
        Projection("reservoir", "reservoir", sparse_operator(loop), delay_steps=one, is_back=True),
    ]
    inputs = [Port("in", (16,))]
    if readout:
        populations.append(Population("readout", (readout,), neuron("LIF", a_mem=0.9)))
        weight = np.broadcast_to(np.float64(1), (readout, neurons))
        projections.append(Projection("reservoir", "readout", Dense(weight)))
    if dense_input:
        inputs.append(Port("all", (dense_input,)))
        projections.append(
            Projection("all", "reservoir", Dense(np.broadcast_to(np.float64(1), (neurons, dense_input))))
        )
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    return Network(1e-3, timing, tuple(populations), tuple(projections), tuple(inputs), ())


def chip_of(base: str = "loihi1", *, words: int = 16384, **core: int) -> Chip:
    chip = read_chip(base)
    mesh = replace(chip.mesh, width_tiles=20, height_tiles=20, cores_per_tile=1)
    return replace(chip, mesh=mesh, core=replace(chip.core, **core), synapses=replace(chip.synapses, words=words))


def legal(network: Network, chip: Chip, seed: int = 0) -> tuple[int, int, bool]:
    """(Cores, lower bound, were neurons put in order) of a map that the checker accepts."""
    found = partition(network, chip, PartitionOptions(effort="fast", seed=seed))
    placed = place_partition(network, chip, found, MapOptions(effort="fast"), cores_of(chip, 1)[: found.report.cores])
    assert not list(check.diagnose_mapping(placed))
    return found.report.cores, found.report.cores_lower_bound, bool(found.orders)


def test_a_shuffled_ring_takes_as_many_cores_as_its_neurons_need() -> None:
    sources, chip = ring(2000, 8, 0), chip_of(neurons=200)
    assert legal(reservoir(sources), chip) == (10, 10, True)
    part = cores_of_neurons(sources, chip)
    # ten arcs of the ring: a source near an end has targets in two cores, and few have any elsewhere
    destinations = len(np.unique(sources.ravel() * 10 + np.repeat(part, FAN_IN)))
    assert destinations < 2000 + 10 * 2 * 2.5 * 8


def cores_of_neurons(sources: Array, chip: Chip, effort: str = "default", seed: int = 0) -> Array:
    model = model_of(cost_model(reservoir(sources), chip, 8), capacity(chip))
    assert model is not None
    return list(irregular_cores(model, 10, effort, seed))[-1]


def destination_cores(sources: Array, part: Array) -> int:
    return len(np.unique(sources.ravel() * len(part) + np.repeat(part, FAN_IN)))


def test_the_greatest_effort_is_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all that it does beyond the default ends in worse cores."""
    sources, chip = ring(600, 10, 5, far=0.5), chip_of(neurons=100, input_axons=450)
    default = irregular_search.EFFORTS["default"]
    worse = irregular_search.Effort(1, 1.0, 1, 0, 0, 0)
    assert irregular_search.EFFORTS["max"][: len(default)] == default
    plain = cores_of_neurons(sources, chip)
    monkeypatch.setattr(irregular_search, "EFFORTS", {"max": (*default, worse), "fast": (worse,)})
    assert destination_cores(sources, cores_of_neurons(sources, chip, "fast")) > destination_cores(sources, plain)
    assert np.array_equal(cores_of_neurons(sources, chip, "max"), plain)


TIGHT = [
    {"neurons": 100},
    {"input_axons": 260},
    {"output_axons": 230},
    {"words": 150},
    {"neurons": 90, "input_axons": 330, "output_axons": 330, "words": 400},
]


@pytest.mark.parametrize("limits", TIGHT, ids=str)
@pytest.mark.parametrize("far", [0.0, 0.3])
def test_maps_are_legal_where_each_limit_binds(limits: dict[str, int], far: float) -> None:
    cores, lower, ordered = legal(reservoir(ring(700, 6, 3, far=far)), chip_of("loihi1", **limits))
    assert cores >= lower
    assert ordered


def test_a_dense_readout_and_a_dense_input_are_within_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    network = reservoir(ring(600, 6, 1), readout=5, dense_input=3)
    assert legal(network, chip_of(neurons=70))[2]
    monkeypatch.setattr(irregular_model, "LISTED_MAX", 0)  # dense projections are charged to every core
    assert legal(network, chip_of("loihi2", neurons=70, words=1200))[2]


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "listed"])
def test_uses_kept_up_to_date_are_those_counted_anew(counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not counted:
        monkeypatch.setattr(irregular_model, "COUNTED_MAX", 0)
    sources = ring(600, 6, 2, far=0.2)
    sources[:, 0] = 7  # a neuron of more targets than are counted in a row
    network, chip = reservoir(sources, readout=4), chip_of()
    model = model_of(cost_model(network, chip, 8), capacity(chip))
    assert model is not None
    rng = np.random.default_rng(0)
    x = nets_of(model, 9)
    place_all(x, rng.integers(9, size=604))
    for v in rng.integers(604, size=2000).tolist():
        move(x, v, int(rng.integers(9)))
    assert len(x.counts) == (len(model.source) if counted else 0)
    again = nets_of(model, 9)
    place_all(again, x.part)
    assert np.array_equal(x.use, again.use)
    assert np.array_equal(x.slots, again.slots)
    assert np.array_equal(x.length, again.length)
    members = [np.flatnonzero(x.part == core) for core in range(9)]
    assert x.use[SIZE].tolist() == [len(m) for m in members]
    nets = [np.unique(np.concatenate([model.nets[model.start[v] : model.start[v + 1]] for v in m])) for m in members]
    assert x.use[AXONS].tolist() == [len(n) for n in nets]
    assert x.use[OUT].tolist() == [sum(int(np.isin(model.source[n], m).sum()) for n in nets) for m in members]
    words = [
        sum(int(model.table[model.kind[e], np.count_nonzero(own == e)]) for e in np.unique(own))
        for own in (np.concatenate([model.nets[model.start[v] : model.start[v + 1]] for v in m]) for m in members)
    ]
    assert x.use[WORDS].tolist() == words


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "listed"])
def test_nets_of_a_neuron_are_counted_in_every_core(counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More cores than a word has bits, and neurons of more nets than are added at a time, one of 255 targets."""
    if not counted:
        monkeypatch.setattr(irregular_model, "COUNTED_MAX", 0)
    rng = np.random.default_rng(3)
    sources = np.array([rng.choice(600, 80, replace=False) for _ in range(600)])
    sources[:, 0] = 7
    model = model_of(cost_model(reservoir(sources), chip_of(), 8), capacity(chip_of()))
    assert model is not None
    x = nets_of(model, 70)
    place_all(x, rng.integers(70, size=600))
    held = np.zeros((len(model.source), 70), np.int64)
    np.add.at(held, (model.nets, np.repeat(x.part, np.diff(model.start))), 1)
    for v in range(0, 600, 40):
        own, sums, seen = model.nets[model.start[v] : model.start[v + 1]], np.zeros(128, np.int32), np.zeros(70, int)
        found = _near(x, v, sums, seen)
        others = held[own]
        others[:, x.part[v]] -= 1
        assert sums[:70].tolist() == (others > 0).sum(axis=0).tolist()
        assert sorted(seen[:found].tolist()) == np.flatnonzero(sums).tolist()


def test_the_graph_of_pairs_adds_those_of_one_pair_in_either_direction() -> None:
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(9, size=(2, 60))
    graph = graph_of(rows, columns, np.arange(60), np.ones(9, np.int64))
    weights = np.zeros((9, 9), np.int64)
    np.add.at(weights, (rows, columns), np.arange(60))
    weights += weights.T
    np.fill_diagonal(weights, 0)
    assert np.array_equal(graph.start, np.concatenate(([0], np.cumsum((weights > 0).sum(axis=1)))))
    assert np.array_equal(graph.index, np.nonzero(weights)[1])
    assert np.array_equal(graph.weight, weights[weights > 0])


def test_neurons_are_evened_out_along_chains_of_neighbours() -> None:
    """Cores of a chain 0 - 1 - 2 - 3, the first with ten neurons too many, the last with room for ten."""
    neurons = 400
    sources = np.clip(np.arange(neurons)[:, None] + np.arange(-6, 6), 0, neurons - 1)
    model = model_of(cost_model(reservoir(sources), chip_of(), 8), capacity(chip_of(neurons=100)))
    assert model is not None
    part = np.repeat(np.arange(4), [110, 100, 100, 90])
    x = nets_of(model, 4)
    place_all(x, part)
    before = int(x.length.sum())
    even_out(x, room_of(x, x.cap))
    assert x.use[SIZE].tolist() == [100] * 4
    assert np.array_equal(x.part, np.repeat(np.arange(4), 100))  # each core gave the next one its last ten
    assert int(x.length.sum()) <= before + 5


def test_halves_of_a_line_are_its_ends() -> None:
    n = 64
    line = graph_of(np.arange(n - 1), np.arange(1, n), np.ones(n - 1, np.int32), np.ones(n, np.int64))
    part = bisected(line, 4, np.random.default_rng(0))
    assert np.count_nonzero(np.diff(part)) == 3
    assert set(np.bincount(part).tolist()) <= {15, 16, 17}
    cluster = clusters(line, 4, np.random.default_rng(0))
    smaller = contracted(line, cluster)
    assert np.bincount(cluster).max() <= 4
    assert np.array_equal(np.bincount(cluster), smaller.size)
    assert smaller.weight.sum() == 2 * np.count_nonzero(np.diff(cluster))


def test_equal_seeds_give_equal_cores_and_more_effort_no_more_of_them() -> None:
    sources, chip = ring(1000, 10, 5, far=0.2), chip_of(neurons=100, input_axons=500)
    parts = {effort: cores_of_neurons(sources, chip, effort, 1) for effort in ("fast", "default", "max")}
    assert np.array_equal(parts["default"], cores_of_neurons(sources, chip, "default", 1))
    used = [int(parts[effort].max()) + 1 for effort in ("fast", "default", "max")]
    assert used == sorted(used, reverse=True)
    many = [destination_cores(sources, parts[effort]) for effort in ("default", "max")]
    assert used[2] < used[1] or many[1] <= many[0]


def test_networks_that_the_search_does_not_know_are_left_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    network, chip = reservoir(ring(600, 6, 0)), chip_of(neurons=100)

    def found(net: Network, on: Chip = chip, groups: dict[str, int] | None = None) -> object:
        return ordered_blocks(cost_model(net, on, 8), capacity(on), groups or {}, 6, "fast", 0)

    assert found(network) is not None
    assert found(network, groups={"reservoir": 1}) is None
    assert found(reservoir(ring(400, 6, 0))) is None  # small
    many = replace(network.populations[0], neuron=neuron("LIF", a_mem=np.linspace(0.1, 0.9, 600)))
    assert found(replace(network, populations=(many,))) is None  # more decays than a core holds
    assert found(replace(network, projections=network.projections[:1])) is not None
    assert found(reservoir(ring(600, 6, 0), dense_input=30)) is None  # more dense synapses than others


def test_a_graph_without_parts_is_not_cut() -> None:
    rng = np.random.default_rng(0)
    chip = chip_of(neurons=100)

    def levels(sources: Array) -> int:
        model = model_of(cost_model(reservoir(sources), chip, 8), capacity(chip))
        assert model is not None
        return len(irregular_search._levels(model.graph, 10, rng))

    assert levels(rng.integers(8000, size=(8000, FAN_IN))) == 0
    assert levels(ring(8000, 6, 0)) > 1


def test_neurons_of_many_sources_are_spread_over_cores() -> None:
    """Ten readouts of 1,500 sources each, of which a core holds the words of three at most."""
    sources = np.random.default_rng(0).integers(6000, size=(6000, FAN_IN))
    network = reservoir(sources)
    chosen = sparse.random_array((10, 6000), density=0.25, rng=np.random.default_rng(1))
    readout = Population("readout", (10,), neuron("LIF", a_mem=0.9))
    read = Projection("reservoir", "readout", sparse_operator(chosen))
    network = replace(network, populations=(*network.populations, readout), projections=(*network.projections, read))
    assert legal(network, chip_of("loihi2", words=5000))[2]


def test_the_need_of_all_cores_is_their_mean_use(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = chip_of(words=300, output_axons=500)
    model = model_of(cost_model(reservoir(ring(600, 6, 2, far=0.1)), chip, 8), capacity(chip))
    assert model is not None
    part = np.random.default_rng(1).integers(9, size=600)
    x = nets_of(model, 9)
    place_all(x, part)
    shares = x.use[1:].mean(axis=1) / x.cap[1:]
    monkeypatch.setattr(irregular_search, "SAMPLE", 9)
    # every net of a reservoir's neuron is fed by a core, so output axons in all are the input axons from neurons
    assert irregular_search._need(model, part, 9) == pytest.approx(shares.max())
    assert np.argmax(shares) in (1, 2)


def test_annealed_cores_have_fewer_destinations_than_arcs_of_a_ring() -> None:
    neurons, rng = 2000, np.random.default_rng(4)
    sources = (np.arange(neurons)[:, None] + np.rint(rng.normal(0, 20, (neurons, FAN_IN))).astype(np.int64)) % neurons
    part = cores_of_neurons(sources, chip_of(neurons=200))

    assert np.bincount(part).tolist() == [200] * 10
    assert destination_cores(sources, part) < destination_cores(sources, np.arange(neurons) // 200)


def test_an_interrupted_search_gives_the_best_cores_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    network, chip = reservoir(ring(600, 6, 0)), chip_of(neurons=100)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(irregular_search, "sweep", stop)
    with pytest.raises(KeyboardInterrupt):
        partition(network, chip, PartitionOptions())
    said: list[str] = []
    options = PartitionOptions(keep_best=True, progress=lambda stage, _: said.append(stage))
    found = partition(network, chip, options)
    assert found.report.interrupted
    assert found.report.cores == 6
    assert found.orders
    assert any("destination cores" in stage for stage in said)
    monkeypatch.setattr(irregular_search, "_levels", stop)  # before there are any cores
    with pytest.raises(KeyboardInterrupt):
        partition(network, chip, options)
