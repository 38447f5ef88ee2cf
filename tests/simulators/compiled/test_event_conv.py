"""Layers after convolutions and pools are bit-identical to the reference, for any weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, SumPool
from nirbridge.simulators.simulate import Probe, prepare_simulator

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
EVERYTHING = [Probe("*", ("s", "v", "u", "i"))]
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-step")


def bits(values: np.ndarray) -> tuple[Any, ...]:
    return values.dtype, values.shape, (values + 0).tobytes()


def same(network: Network, values: np.ndarray, dtype: str = "float32", backend: str = "event") -> dict[str, Any]:
    """Every recorded bit (but the sign of zeros) and the state, in one piece, in two, and with outputs alone."""
    quick, slow = (
        prepare_simulator(network, backend=backend, dtype=dtype),
        prepare_simulator(network, backend="reference", dtype=dtype),
    )
    wanted, found = slow.run(values, record=EVERYTHING), quick.run(values, record=EVERYTHING)
    first = quick.run(values[:3], record=EVERYTHING)
    rest = quick.run(values[3:], record=EVERYTHING, state=first.state)
    spikes, outputs = quick.run(values, record=[Probe("*", ("s",))]), quick.run(values)
    assert found.recording.arrays.keys() == wanted.recording.arrays.keys()
    for key, expected in wanted.recording.arrays.items():
        cut = np.concatenate([first.recording.arrays[key], rest.recording.arrays[key]])
        assert bits(found.recording.arrays[key]) == bits(expected) == bits(cut), key
        if key in spikes.recording.arrays:
            assert bits(spikes.recording.arrays[key]) == bits(expected), key
        if key in outputs.recording.arrays:
            assert bits(outputs.recording.arrays[key]) == bits(expected), key
    for key, expected in wanted.state.arrays.items():
        assert bits(found.state.arrays[key]) == bits(expected) == bits(rest.state.arrays[key]), key
        assert bits(spikes.state.arrays[key]) == bits(outputs.state.arrays[key]) == bits(expected), key
    return dict(found.recording.meta["choices"])


def network_of(source: tuple[int, ...], layers: list[tuple[Operator, Neuron, np.ndarray | None]]) -> Network:
    """input -> population -> … -> output."""
    populations, projections, last = [], [], "in"
    for k, (operator, cells, bias) in enumerate(layers):
        populations.append(Population(f"p{k}", operator.output_shape, cells))
        projections.append(Projection(last, f"p{k}", operator, bias))
        last = f"p{k}"
    shape = populations[-1].shape
    projections.append(Projection(last, "out", Identity(shape)))
    ports = (Port("in", source),), (Port("out", shape),)
    return Network(1e-3, TIMING, tuple(populations), tuple(projections), *ports)


@st.composite
def windows(draw: st.DrawFn, axes: int, most: int = 4) -> tuple[Any, Any, Any]:
    """(kernel, stride, padding) that any map of at least 5 per axis can take."""
    sizes = st.tuples(*[st.integers(1, most)] * axes)
    kernel = draw(sizes)
    pad = st.tuples(*(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1)) for k in kernel))
    return kernel, draw(st.tuples(*[st.integers(1, 3)] * axes)), draw(pad)


@st.composite
def cells(draw: st.DrawFn, shape: tuple[int, ...], rng: np.random.Generator) -> Neuron:
    """A neuron of any kind, its parameters shared or one per neuron."""

    def value(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, shape if draw(st.booleans()) else ())

    kind = draw(st.sampled_from(["IF", "IF", "LIF", "CubaLIF", "read-out"]))
    options: dict[str, Any] = {"theta": None if kind == "read-out" else value(0.3, 1.0)}
    if kind in ("LIF", "CubaLIF"):
        options |= {"a_mem": value(0.5, 1.0), "g_mem": value(0.5, 1.0), "bias": value(-0.1, 0.1)}
        options |= {"refractory_steps": draw(st.integers(0, 2)), "max_spikes": draw(st.sampled_from([1, 1, 3]))}
    if kind == "CubaLIF":
        options |= {"a_syn": value(0.1, 0.9), "g_syn": value(0.5, 1.0)}
    options |= {"reset": draw(st.sampled_from(["to-value", "subtract", "none"])), "v_init": value(-0.5, 0.5)}
    if options["theta"] is not None and draw(st.booleans()):
        options["v_min"] = value(-0.5, 0.2)
    return neuron(kind, compare=draw(st.sampled_from([">", ">="])), **options)


@st.composite
def maps(draw: st.DrawFn) -> tuple[Network, np.random.Generator]:
    """One to three convolutions, some behind a pool, and perhaps a dense matrix behind a pool or a map."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    axes = draw(st.integers(1, 2))
    source = shape = (draw(st.integers(1, 3)), *(draw(st.integers(5, 9)) for _ in range(axes)))
    layers: list[tuple[Operator, Neuron, np.ndarray | None]] = []
    for _ in range(draw(st.integers(1, 3))):
        if min(shape[1:]) < 4:
            break
        parts: list[Operator] = []
        if draw(st.booleans()):
            kernel, stride, padding = draw(windows(axes, 3))
            parts.append(SumPool(kernel, stride, padding, shape, draw(st.sampled_from([1.0, 0.25, 0.3]))))
            shape = parts[0].output_shape
        if min(shape[1:]) >= 4:
            kernel, stride, padding = draw(windows(axes))
            weight = rng.normal(size=(draw(st.sampled_from([3, 8, 16])), shape[0], *kernel)) * 0.4
            parts.append(Conv(freeze(weight), stride, padding, (1,) * axes, 1, shape))
        else:
            parts += [Reshape(shape, (math.prod(shape),)), Dense(freeze(rng.normal(size=(7, math.prod(shape))) * 0.3))]
        operator = parts[0] if len(parts) == 1 else Chain(tuple(parts))
        shape = operator.output_shape
        bias = freeze(rng.normal(size=shape) * 0.1) if draw(st.booleans()) else None
        layers.append((operator, draw(cells(shape, rng)), bias))
        if len(shape) == 1:
            break
    return network_of(source, layers), rng


@settings(max_examples=50)
@given(maps(), st.integers(1, 3), st.sampled_from(["float32", "float32", "float64"]), st.booleans())
def test_any_layers_of_maps(made: tuple[Network, Any], batch: int, dtype: str, graded: bool) -> None:
    network, rng = made
    shape = (8, batch, *network.inputs[0].shape)
    draw = rng.normal(size=shape) if graded else (rng.random(shape) < rng.choice([0.03, 0.3, 0.8])).astype(np.uint8)
    same(network, draw, dtype)


def test_a_window_may_lie_in_the_padding_alone_and_windows_may_overlap() -> None:
    rng = np.random.default_rng(2)
    pool = SumPool((3, 2), (1, 3), ((2, 2), (1, 4)), (3, 6, 5), 0.3)
    conv = Conv(freeze(rng.normal(size=(4, 3, 2, 2))), (1, 1), ((0, 1), (1, 0)), (1, 1), 1, pool.output_shape)
    flat = Reshape(pool.output_shape, (math.prod(pool.output_shape),))
    dense = Dense(freeze(rng.normal(size=(9, flat.output_shape[0]))))
    values = (rng.random((8, 2, *pool.input_shape)) < 0.9).astype(np.uint8)
    for parts in ((pool, conv), (pool, flat, dense)):
        choices = same(network_of(pool.input_shape, [(Chain(parts), neuron("IF"), None)]), values)
        assert choices["0: in -> p0"][0] == {"operator": "SumPool", "kernel": "event"}


@pytest.mark.parametrize("compare", [">", ">="])
@pytest.mark.parametrize("v_min", [None, -0.25, 0.5, 0.75])
@pytest.mark.parametrize("v_reset", [-0.25, 0.0, 0.5, 0.75])
@pytest.mark.parametrize("reset", ["to-value", "subtract"])
def test_neurons_without_input_are_passed_over_only_where_they_do_nothing(
    reset: str, v_reset: float, v_min: float | None, compare: str
) -> None:
    """Half of them start at or above the threshold of 0.5; a reset or floor at or above it fires in every time step."""
    rng = np.random.default_rng(4)
    conv = Conv(freeze(rng.normal(size=(16, 2, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 9, 17))
    options: dict[str, Any] = {"theta": 0.5, "v_reset": v_reset, "reset": reset, "compare": compare}
    options["v_init"] = rng.choice([0.0, 0.25, 0.5, 2.0], (16, 9, 17))
    options["v_min"] = v_min
    values = np.zeros((12, 2, 2, 9, 17), np.uint8)
    values[2::3, :, :, 1:4, 6:8] = 1
    same(network_of((2, 9, 17), [(conv, neuron("IF", **options), None)]), values)


def test_a_state_stays_as_it_is_while_a_run_goes_on_from_it() -> None:
    rng = np.random.default_rng(3)
    conv = Conv(freeze(rng.normal(size=(8, 2, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 6, 6))
    made = prepare_simulator(network_of((2, 6, 6), [(conv, neuron("IF"), None)]), backend="event")
    values = (rng.random((20, 2, 6, 6)) < 0.2).astype(np.uint8)
    half = made.run(values[:10]).state
    before = {key: array.copy() for key, array in half.arrays.items()}
    first, second = (made.run(values[10:], state=half).recording.arrays["out", "s"] for _ in range(2))
    assert all(np.array_equal(half.arrays[key], array) for key, array in before.items())
    assert np.array_equal(first, second)
    assert first.any()


def conv_to(channels: int, shape: tuple[int, ...], rng: np.random.Generator) -> Conv:
    """3 by 3, as large as what comes in."""
    weight = freeze(rng.normal(size=(channels, shape[0], 3, 3)) * 0.3)
    return Conv(weight, (1, 1), ((1, 1), (1, 1)), (1, 1), 1, shape)


@pytest.mark.parametrize("channels", [8, 16, 24, 32, 64])
@pytest.mark.parametrize("side", [(8, 8), (9, 16), (8, 17), (4, 2)])
@pytest.mark.parametrize("window", [None, (2, 2), (2, 3)])
def test_spikes_that_nobody_records_go_from_map_to_map_in_bits(
    channels: int, side: tuple[int, int], window: tuple[int, int] | None
) -> None:
    rng = np.random.default_rng(5)
    first = conv_to(channels, (2, *side), rng)
    pool = None if window is None else SumPool((2, 2), window, ((0, 0), (0, 0)), first.output_shape, 0.25)
    shape = first.output_shape if pool is None else pool.output_shape
    second: Operator = conv_to(8, shape, rng)
    second = second if pool is None else Chain((pool, second))
    flat = Reshape(second.output_shape, (math.prod(second.output_shape),))
    last = Chain((flat, Dense(freeze(rng.normal(size=(5, flat.output_shape[0]))))))
    cells = neuron("IF", theta=0.6)
    values = (rng.random((9, 2, 2, *side)) < 0.3).astype(np.uint8)
    for layers in ((first, second, last), (first, second), (first,)):
        same(network_of((2, *side), [(operator, cells, None) for operator in layers]), values)


def test_bits_become_bytes_for_delays_and_for_targets_that_add_up_several_sources() -> None:
    rng = np.random.default_rng(6)
    first = conv_to(16, (2, 8, 8), rng)
    after, late = conv_to(8, first.output_shape, rng), np.array(2)
    shapes = {"a": first.output_shape, "b": after.output_shape, "c": first.output_shape, "d": after.output_shape}
    populations = tuple(Population(name, shape, neuron("IF", theta=0.6)) for name, shape in shapes.items())
    projections = (
        Projection("in", "a", first),
        Projection("a", "b", after, delay_steps=late),
        Projection("in", "c", first),
        Projection("a", "c", Identity(first.output_shape)),
        Projection("a", "d", after),
        *(Projection(name, f"out {name}", Identity(shapes[name])) for name in "abd"),
        Projection("c", "out c", Identity(shapes["c"]), delay_steps=np.array(1)),
    )
    outputs = tuple(Port(f"out {name}", shape) for name, shape in shapes.items())
    network = Network(1e-3, TIMING, populations, projections, (Port("in", (2, 8, 8)),), outputs)
    same(network, (rng.random((9, 2, 2, 8, 8)) < 0.3).astype(np.uint8))
