"""Conversion of hand-built ANNs: folding, scales, counts, and the proved bound, against brute force."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.importers.ann.convert import ConversionOptions, ScaleOptions, choose_scale, clipped_share, convert_ann
from nirbridge.importers.ann.replay import UNBOUNDED, check_replayable, walk_populations
from nirbridge.importers.ann.spiking import count_spikes, fair_start, rescale
from nirbridge.network.apply import matrix
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.simulators.simulate import Probe, simulate
from tests.cases import cases

TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")
SEEDS = st.integers(0, 2**32 - 1)


def dense(rng: np.random.Generator, source: str, target: str, pre: int, post: int) -> Projection:
    weight = rng.uniform(-1, 1, (post, pre)).astype(np.float32)
    return Projection(source, target, Dense(freeze(weight)), freeze(rng.uniform(-0.5, 0.5, post)))


def random_ann(seed: int) -> Network:
    """One to three dense layers of ReLU on an input of 3, the first also summed into the last."""
    rng = np.random.default_rng(seed)
    widths = [3, *rng.integers(1, 6, size=int(rng.integers(1, 4))).tolist(), 2]
    names = ["in", *(f"r{k}" for k in range(len(widths) - 2)), "out"]
    relus = list(zip(names, widths, strict=True))[1:-1]
    projections = [dense(rng, *ends, *sizes) for ends, sizes in zip(pairwise(names), pairwise(widths), strict=True)]
    if len(relus) > 1:
        projections.append(dense(rng, "r0", "out", widths[1], widths[-1]))
    populations = tuple(Population(n, (w,), neuron("IF", theta=UNBOUNDED)) for n, w in relus)
    return Network(1e-4, TIMING, populations, tuple(projections), (Port("in", (3,)),), (Port("out", (2,)),))


def plain(network: Network, x: Array, scales: dict[str, Array] | None = None) -> dict[str, Array]:
    """Values of every population and output, by matrices in float64; clipped at ``scales`` where given."""
    values: dict[str, Array] = {"in": x.astype(np.float64)}
    for node in (*network.populations, *network.outputs):
        drive = np.zeros((len(x), *node.shape))
        for p in (q for q in network.projections if q.target == node.name):
            drive += (values[p.source] @ matrix(p.operator).toarray().T) + (0 if p.bias is None else p.bias)
        top = np.inf if scales is None or node.name not in scales else scales[node.name]
        values[node.name] = np.clip(drive, 0, top) if isinstance(node, Population) else drive
    return values


# -- one neuron ------------------------------------------------------------------------------------------------------


@given(st.integers(-2048, 3072), st.integers(1, 64))
def test_a_constant_input_is_rounded_to_a_neighbour(x: int, steps: int) -> None:
    s = x / 1024  # exact sums in float32
    count = float(count_spikes(np.full((steps, 1, 1), s, np.float32), np.asarray(0.5))[0, 0])
    assert abs(count - steps * min(max(s, 0.0), 1.0)) <= 0.5


@given(st.lists(st.integers(-512, 512), min_size=1, max_size=40), st.integers(-128, 320), st.integers(-256, 512))
def test_the_bound_of_a_varying_input(noise: list[int], mean: int, start: int) -> None:
    s, v0 = mean / 256, start / 256
    x = s + np.asarray(noise) / 256
    steps = np.arange(1, len(x) + 1)
    farthest = float(np.max(np.abs(np.cumsum(x) - steps * s)))
    spikes = np.zeros((len(x), 1, 1), bool)
    count_spikes(x.astype(np.float32)[:, None, None], np.asarray(v0), spikes)
    counts = np.cumsum(spikes[:, 0, 0])
    limit = max(abs(v0), abs(1 - v0)) + farthest
    assert np.all(np.abs(counts - steps * min(max(s, 0.0), 1.0)) <= limit)


def test_counts_are_those_of_the_simulator() -> None:
    drive = np.random.default_rng(3).normal(0.2, 0.5, (30, 4, 6)).astype(np.float32)
    spikes = np.zeros(drive.shape, bool)
    counts = count_spikes(drive, np.full((6,), 0.25), spikes)
    population = Population("p", (6,), neuron("IF", reset="subtract", v_init=0.25))
    identity = Dense(freeze(np.eye(6, dtype=np.float32)))
    ports = (Port("in", (6,)),), (Port("out", (6,)),)
    wires = (Projection("in", "p", identity), Projection("p", "out", identity))
    record = [Probe("p", ("s", "count"))]
    arrays = simulate(Network(1e-4, TIMING, (population,), wires, *ports), drive, record=record).recording.arrays
    assert np.array_equal(arrays["p", "s"], spikes)
    assert np.array_equal(arrays["p", "count"], counts)


def test_a_fair_start_takes_the_surplus_away() -> None:
    rng = np.random.default_rng(1)
    drive = rng.normal(0.1, 0.7, (32, 400, 3)).astype(np.float32)
    wanted = np.clip(drive.mean(0), 0, 1) * 32
    before = np.mean(count_spikes(drive, np.asarray(0.5)) - wanted, axis=0)
    start = fair_start(drive, wanted, per_channel=True)
    after = np.mean(count_spikes(drive, start) - wanted, axis=0)
    assert start.shape == (3,)
    assert np.all(before > 0.5)
    assert np.all(np.abs(after) < 0.35 * before)


# -- scales ----------------------------------------------------------------------------------------------------------


def test_percentile_and_maximum_per_channel() -> None:
    values = np.random.default_rng(0).exponential(1, (50, 4, 3, 3)).astype(np.float32)
    rows = values.transpose(1, 0, 2, 3).reshape(4, -1)
    choices: list[tuple[Any, Array]] = [("max", rows.max(1)), (99.0, np.percentile(rows, 99, axis=1))]
    for choice, expected in choices:
        found = choose_scale(values, np.inf, ScaleOptions(choice, 16, True))
        assert found.shape == (4, 1, 1)
        assert np.allclose(found.reshape(-1), expected)
    whole = choose_scale(values, np.inf, ScaleOptions(99.0, 16, False))
    assert whole.shape == ()
    assert np.isclose(float(whole), np.percentile(values, 99))
    assert np.isclose(clipped_share(values, whole), 0.01, atol=1e-3)


def test_the_least_error_is_less_than_that_of_any_percentile() -> None:
    values = np.random.default_rng(2).exponential(1, (400, 1)).astype(np.float32)
    steps = 8

    def error(scale: Any) -> float:
        counts = np.clip(np.round(values * steps / scale), 0, steps)
        return float(np.mean((values - counts * scale / steps) ** 2))

    best = error(choose_scale(values, np.inf, ScaleOptions("least-error", steps, True)))
    assert all(best <= error(np.percentile(values, p)) * 1.02 for p in (80, 90, 95, 99, 99.9, 100))


def test_silent_channels_and_ceilings() -> None:
    values = np.stack([np.zeros(20), np.linspace(0, 8, 20), np.linspace(0, 1e-6, 20)], axis=1).astype(np.float32)
    options = ScaleOptions("max", 16, True)
    assert choose_scale(values, 6.0, options).tolist() == [6.0, 6.0, 0.125]
    assert choose_scale(values[:, :1], np.inf, options).tolist() == [1.0]


# -- folding ---------------------------------------------------------------------------------------------------------


def chains() -> list[tuple[Operator, ...]]:
    rng = np.random.default_rng(5)
    conv = Conv(freeze(rng.normal(size=(4, 1, 3, 3))), (1, 2), ((1, 1), (0, 1)), (1, 1), 2, (2, 5, 6))
    pool = SumPool((2, 1), (2, 1), ((0, 0), (0, 0)), conv.output_shape, 0.5)
    flat = Reshape(pool.output_shape, (int(np.prod(pool.output_shape)),))
    weight = freeze(rng.normal(size=(3, flat.output_shape[0])))
    norm = Scale(freeze(np.broadcast_to(rng.normal(size=(4, 1, 1)), conv.output_shape)))
    indptr, indices = freeze([0, 2, 3, 3]), freeze([0, 2, 1])
    sparse = Sparse(indptr, indices, freeze(rng.normal(size=3)), (3,), (3,))
    return [
        (conv,),
        (conv, norm),
        (conv, norm, pool, flat, Dense(weight)),
        (pool,),
        (flat, Dense(weight)),
        (Dense(weight), sparse),
        (norm, pool, flat),
    ]


@pytest.mark.parametrize("parts", chains(), ids=lambda parts: "-".join(type(p).__name__ for p in parts))
@pytest.mark.parametrize("kind", ["one", "channels", "elements"])
def test_rescaling_is_multiplying_on_both_sides(parts: tuple[Operator, ...], kind: str) -> None:
    operator, _ = compose(parts, [""] * len(parts), parts[0].input_shape)
    rng = np.random.default_rng(9)

    def factor(shape: tuple[int, ...]) -> Array:
        sizes = {"one": (), "channels": (shape[0], *(1,) * (len(shape) - 1)), "elements": shape}
        return np.asarray(rng.uniform(0.5, 2, sizes[kind]))

    before, after = factor(operator.input_shape), factor(operator.output_shape)
    found = rescale(operator, before, after)
    rows = np.broadcast_to(after, operator.output_shape).reshape(-1, 1)
    columns = np.broadcast_to(before, operator.input_shape).reshape(1, -1)
    expected = matrix(operator).toarray() * rows * columns
    assert np.allclose(matrix(found).toarray(), expected, rtol=1e-5, atol=1e-6)
    if kind == "channels" and any(isinstance(p, Dense | Conv) for p in parts):
        assert not any(isinstance(p, Scale) for p in parts_of(found))


# -- whole networks --------------------------------------------------------------------------------------------------


@given(SEEDS)
@settings(max_examples=cases(12, 30), deadline=None)
def test_the_walk_is_the_ann(seed: int) -> None:
    network, x = random_ann(seed), np.random.default_rng(seed).uniform(-1, 1, (5, 3)).astype(np.float32)
    assert np.allclose(walk_populations(network, {"in": x})["out"], plain(network, x)["out"], atol=1e-4)


@given(SEEDS, st.booleans(), st.sampled_from(["max", 90.0, "least-error"]), st.booleans())
@settings(max_examples=cases(20, 40), deadline=None)
def test_rates_stay_within_the_proved_bound_of_the_clipped_ann(
    seed: int, fair: bool, choice: Any, per_channel: bool
) -> None:
    network = random_ann(seed)
    x = np.random.default_rng(seed).uniform(-1, 1, (6, 3)).astype(np.float32)
    converted = convert_ann(
        network, {"in": x}, ConversionOptions(1e-4, ScaleOptions(choice, 16, per_channel), fair, "potential")
    )
    steps = 200
    records = [Probe(p.name, ("s",)) for p in network.populations] + [Probe("out_readout", ("v",))]
    fed = np.broadcast_to(x, (steps, *x.shape))
    arrays = simulate(converted.network, fed, record=records, dtype="float64").recording.arrays
    clipped = plain(network, x, dict(converted.scales))
    bounds = exact_bounds(converted.network)
    t = np.arange(1, steps + 1).reshape(-1, 1, 1)
    for layer in converted.layers:
        counts = np.cumsum(arrays[layer.name, "s"], axis=0, dtype=np.float64)
        off = np.abs(counts - t * clipped[layer.name] / layer.scale)
        assert np.all(off <= bounds[layer.name] + 1e-3)
        assert np.isclose(layer.bound_spikes, bounds[layer.name].max())
    off = np.abs(arrays["out_readout", "v"] - t * clipped["out"])
    assert np.all(off <= bounds["out_readout"] + 1e-3)


def exact_bounds(network: Network) -> dict[str, Array]:
    """The bound of each neuron by explicit matrices."""
    bounds: dict[str, Array] = {"in": np.zeros(3)}
    for p in network.populations:
        start = np.broadcast_to(p.neuron.v_init, p.shape)
        own = np.maximum(np.abs(start), np.abs(1 - start)) if p.neuron.fires else np.zeros(p.shape)
        into = [q for q in network.projections if q.target == p.name]
        bounds[p.name] = own + sum(np.abs(matrix(q.operator).toarray()) @ bounds[q.source] for q in into)
    return bounds


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_what_was_measured_is_what_the_simulator_gives(seed: int) -> None:
    network = random_ann(seed)
    x = np.random.default_rng(seed).uniform(-1, 1, (6, 3)).astype(np.float32)
    steps = 12
    converted = convert_ann(
        network, {"in": x}, ConversionOptions(1e-4, ScaleOptions("max", steps, True), True, "potential")
    )
    fed = np.broadcast_to(x, (steps, *x.shape))
    arrays = simulate(converted.network, fed, record=[Probe("out_readout", ("v",))]).recording.arrays
    reached = arrays["out_readout", "v"][-1] / steps
    # float32 sums in another order may move a spike that is decided by a rounding: one spike of one neuron at most
    close = np.abs(reached - converted.reached["out"]) < 1e-4
    assert np.mean(close) > 0.8
    assert np.array_equal(converted.wanted["out"], walk_populations(network, {"in": x})["out"])


def test_spikes_as_outputs_share_a_scale_and_keep_the_order() -> None:
    network = random_ann(11)
    x = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    converted = convert_ann(network, {"in": x}, ConversionOptions(1e-4, ScaleOptions("max", 64, True), True, "spikes"))
    counts = simulate(
        converted.network, np.broadcast_to(x, (256, *x.shape)), record=[Probe("out", ("count",))]
    ).recording.arrays["out", "count"]
    wanted = np.maximum(plain(network, x)["out"], 0)
    assert converted.scales["out"].shape == ()
    assert np.max(np.abs(counts / 256 * float(converted.scales["out"]) - wanted)) < 0.1 * wanted.max()


def test_loops_and_delays_are_refused_by_name() -> None:
    network = random_ann(4)
    first = network.projections[0]
    late = Projection(first.source, first.target, first.operator, delay_steps=freeze(np.int64(2)))
    with pytest.raises(ModelError, match="'in' -> 'r0'"):
        check_replayable(Network(1e-4, TIMING, network.populations, (late,), network.inputs, network.outputs))
