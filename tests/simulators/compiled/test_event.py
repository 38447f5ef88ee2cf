"""The compiled backend is bit-identical to the reference for any network, and reports its choice of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Sparse, SumPool
from nirbridge.simulators.simulate import Probe, prepare_simulator
from nirbridge.testing import networks

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
EVERYTHING = [Probe("*", ("s", "v", "u", "i"))]
ONE = freeze(np.int64(1))


def same(network: Network, inputs: dict[str, Any], backend: str = "event", dtype: str = "float32") -> dict[str, Any]:
    """Runs both, in one piece and in two, and compares every bit (but for the sign of zeros); the choices."""
    quick, slow = (
        prepare_simulator(network, backend=backend, dtype=dtype),
        prepare_simulator(network, backend="reference", dtype=dtype),
    )
    found, wanted = quick.run(inputs, record=EVERYTHING), slow.run(inputs, record=EVERYTHING)
    first = quick.run({k: x[:3] for k, x in inputs.items()}, record=EVERYTHING)
    rest = quick.run({k: x[3:] for k, x in inputs.items()}, record=EVERYTHING, state=first.state)
    assert found.recording.arrays.keys() == wanted.recording.arrays.keys()
    for key, values in wanted.recording.arrays.items():
        cut = np.concatenate([first.recording.arrays[key], rest.recording.arrays[key]])
        assert bits(found.recording.arrays[key]) == bits(values), key
        assert bits(cut) == bits(values), key
    for key, values in wanted.state.arrays.items():
        assert bits(found.state.arrays[key]) == bits(values) == bits(rest.state.arrays[key]), key
    return dict(found.recording.meta["choices"])


def bits(values: np.ndarray) -> tuple[Any, ...]:
    return values.dtype, values.shape, (values + 0).tobytes()


@settings(max_examples=25)
@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.booleans())
def test_any_network_gives_the_bits_of_the_reference(network: Network, seed: int, dtype: str, graded: bool) -> None:
    rng = np.random.default_rng(seed)
    shapes = {p.name: (9, int(rng.integers(1, 4)), *p.shape) for p in network.inputs[:1]}
    batch = next(iter(shapes.values()))[1]
    draw = rng.normal if graded else lambda size: rng.random(size) < 0.4
    same(network, {p.name: draw(size=(9, batch, *p.shape)) for p in network.inputs}, "event", dtype)


def layers(source: tuple[int, ...], *steps: Operator, recurrent: Operator | None = None) -> Network:
    """input -> population -> … -> output; the last population may hear itself."""
    populations, projections, last = [], [], "in"
    for k, operator in enumerate(steps):
        leaky = neuron("CubaLIF", a_mem=0.9, g_mem=0.8, a_syn=0.7)
        populations.append(Population(f"p{k}", operator.output_shape, leaky))
        projections.append(Projection(last, f"p{k}", operator))
        last = f"p{k}"
    if recurrent is not None:
        projections.append(
            Projection(last, last, recurrent, freeze(np.full(populations[-1].size, 0.01)), ONE, is_back=True)
        )
    shape = populations[-1].shape
    projections.append(Projection(last, "out", Identity(shape)))
    timing = Timing(1e-3, "euler", "to-value", ">", "per-step")
    return Network(1e-3, timing, tuple(populations), tuple(projections), (Port("in", source),), (Port("out", shape),))


def normal(*shape: int, scale: float = 0.3) -> np.ndarray:
    return freeze(np.random.default_rng(sum(shape)).normal(size=shape) * scale)


def spikes(*shape: int, density: float = 0.2) -> dict[str, np.ndarray]:
    return {"in": (np.random.default_rng(5).random(shape) < density).astype(np.uint8)}


def test_wide_layers_with_weights_on_no_grid() -> None:
    network = layers((37,), Dense(normal(300, 37)), Dense(normal(70, 300, scale=0.1)), Dense(normal(11, 70)))
    choices = same(network, spikes(40, 3, 37), "fast")
    assert [c[0]["kernel"] for c in choices.values()] == ["event", "event", "event", "elementwise"]


def test_convolutions_and_pools_keep_the_order_of_their_sums() -> None:
    first = Conv(normal(8, 2, 5, 5), (2, 2), ((1, 1), (1, 2)), (1, 1), 1, (2, 13, 12))
    second = Conv(normal(5, 8, 3, 3), (1, 1), ((1, 1), (0, 0)), (1, 1), 1, first.output_shape)
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), second.output_shape, 0.25)
    flat = Reshape(pool.output_shape, (int(np.prod(pool.output_shape)),))
    from nirbridge.network.operators import Chain

    last = Chain((pool, flat, Dense(normal(6, flat.output_shape[0]))))
    choices = same(layers((2, 13, 12), first, second, last), spikes(12, 2, 2, 13, 12))
    assert [part["kernel"] for part in choices["2: p1 -> p2"]] == ["event", "none", "event"]


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_recurrent_layers_run_all_steps_in_one_call(form: str) -> None:
    weight = normal(30, 30, scale=0.4)
    ends = freeze(np.arange(0, 901, 30), np.int64)
    sparse = Sparse(ends, freeze(np.tile(np.arange(30), 30), np.int64), freeze(weight.reshape(-1)), (30,), (30,))
    own: Operator = Dense(weight) if form == "dense" else sparse
    choices = same(layers((12,), Dense(normal(30, 12, scale=0.6)), recurrent=own), spikes(60, 3, 12))
    assert choices["1: p0 -> p0"][0]["kernel"] == "event, all steps in one call"


def test_a_product_is_only_chosen_where_every_sum_is_exact() -> None:
    rng = np.random.default_rng(1)
    grid = rng.integers(-128, 128, (64, 400)) / 256
    crowded = spikes(200, 400, density=0.9)
    for weight, kernel in ((grid, "product"), (grid + 1e-4 * rng.normal(size=grid.shape), "event")):
        choices = same(layers((400,), Dense(freeze(weight))), crowded, "fast")
        assert choices["0: in -> p0"][0]["kernel"] == kernel
    few = same(layers((400,), Dense(freeze(grid))), spikes(200, 400, density=0.01), "fast")
    assert few["0: in -> p0"][0]["kernel"] == "event"


def test_a_product_by_request_is_near() -> None:
    network = layers((37,), Dense(normal(30, 37)))
    made = prepare_simulator(network, backend="dense")
    record = [Probe("p0", ("i",))]
    found = made.run(spikes(9, 37), record=record).recording
    wanted = prepare_simulator(network, backend="reference").run(spikes(9, 37), record=record).recording
    np.testing.assert_allclose(found.arrays["p0", "i"], wanted.arrays["p0", "i"], rtol=1e-4, atol=1e-5)
    assert found.meta["choices"]["0: in -> p0"][0]["kernel"] == "product"


def test_counts_of_many_steps_are_the_sums_of_the_spikes() -> None:
    network = layers((3,), Dense(freeze(np.ones((4, 3)))))
    record = [Probe("p0", ("s", "count"))]
    found = (
        prepare_simulator(network, backend="event").run(np.ones((700, 2, 3), np.uint8), record=record).recording.arrays
    )
    assert found["p0", "count"].max() > 255
    assert np.array_equal(found["p0", "count"], found["p0", "s"].sum(axis=0, dtype=np.int64))


def test_auto_is_the_compiled_backend() -> None:
    assert prepare_simulator(layers((3,), Dense(normal(4, 3)))).run(spikes(5, 3)).recording.meta["backend"] == "fast"


def test_other_array_libraries_are_refused() -> None:
    from nirbridge.simulators.backends import backend_named
    from nirbridge.simulators.reference.array_namespace import ArrayNamespace

    with pytest.raises(
        UsageError, match="^backend 'fast': runs on numpy, not on torch; choose the backend 'reference'$"
    ):
        backend_named("fast", ArrayNamespace("torch", None, "float32"))
