"""Coefficients, outputs and updates of compiled neurons, and weights as kernels read them, by definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.network.model import Population, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv
from nirbridge.simulators.compiled.backend import ConvLayer
from nirbridge.simulators.compiled.feature_map import FeatureMapLayout, FlatLayout
from nirbridge.simulators.compiled.kernels.events import by_source, smallest_unsigned
from nirbridge.simulators.compiled.kernels.simd import aligned_zeros, block_of, lanes_of, pack_weights
from nirbridge.simulators.compiled.neurons import EventNeurons, NeuronBuffers, aligned_empty
from nirbridge.simulators.reference.array_namespace import array_namespace
from nirbridge.simulators.reference.semantics import ReferenceNeurons
from tests.simulators.compiled.test_memory_of_maps import by_hand

FLOAT = np.dtype(np.float32)
RNG = np.random.default_rng(0)
SHAPE = (3, 2, 2)
ROWS = ("a_mem", "g_mem", "bias", "theta", "a_syn", "g_syn", "v_reset", "reset_amount")


def each(low: float = 0.1) -> np.ndarray:
    return RNG.uniform(low, 1, SHAPE).astype(np.float32)


def parameters(shared: bool) -> dict[str, Any]:
    own = {name: 0.1 * (k + 1) if shared or k % 2 else each() for k, name in enumerate(ROWS)}
    return {**own, "reset": "subtract", "refractory_steps": 2 if shared else np.arange(12).reshape(SHAPE)}


def numbers(cells: Any, row: int, size: int) -> list[float]:
    start, moves = cells.coef_offsets[2 * row : 2 * row + 2]
    return [float(cells.coefficients[start + moves * j]) for j in range(size)]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("channels", [3, 8])
def test_coefficients_of_every_row(shared: bool, channels: int) -> None:
    """A vector of copies where all neurons share one, else one number each; maps fill thresholds with infinity."""
    shape = (channels, 2, 2)
    own = {k: np.resize(v, shape) if np.ndim(v) else v for k, v in parameters(shared).items()}
    cell = neuron("CubaLIF", **own)
    layouts = FlatLayout(shape), FeatureMapLayout(shape, 1), FeatureMapLayout(shape)
    usual, last, maps = (NeuronBuffers(Population("p", shape, cell), FLOAT, layout) for layout in layouts)
    size = 4 * channels
    for row, name in enumerate(ROWS):
        full = np.broadcast_to(getattr(cell, name), shape).astype(np.float32)
        assert numbers(usual, row, size) == full.reshape(-1).tolist()
        assert numbers(last, row, size) == np.moveaxis(full, 0, -1).reshape(-1).tolist()
        filled = by_hand(full, 0)
        if channels == 3:
            filled[by_hand(np.ones(shape), 0) == 0] = math.inf if name == "theta" else 0.0
        assert numbers(maps, row, 32) == filled.tolist()
        for made in (usual, last):
            start = made.coef_offsets[2 * row]
            assert len({*made.coefficients[start : start + 16].tolist()}) == 1 or made.coef_offsets[2 * row + 1] == 1
            assert start % 16 == 0
    steps = np.broadcast_to(cell.refractory_steps, shape)
    assert usual.steps.tolist() == ([2] if shared else steps.reshape(-1).tolist())
    assert last.steps.tolist() == ([2] if shared else np.moveaxis(steps, 0, -1).reshape(-1).tolist())
    assert maps.is_shared is (shared and channels == 8)
    assert (usual.rests, maps.rests, maps.width) == (True, True, 32)
    assert maps.coefficients.ctypes.data % 64 == usual.coefficients.ctypes.data % 64 == 0


def test_biases_of_maps_are_theirs_alone() -> None:
    population, slow = Population("p", SHAPE, neuron("IF")), None
    op = Conv(np.zeros((SHAPE[0], 1, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, *SHAPE[1:]))

    def bias_of(bias: Any, dtype: str = "float32") -> Any:
        projection = Projection("in", "p", op, bias)
        return ConvLayer(population, projection, None, op, array_namespace("numpy", dtype), slow).bias  # type: ignore[arg-type]

    assert bias_of(None).size == 0
    bias = each()
    assert bias_of(bias).tolist() == by_hand(bias, 0).tolist()
    wide = bias_of(np.float64(0.5), "float64")
    assert (wide.sum(), wide.dtype, wide.size) == (6.0, np.float64, 32)
    for own, rests in (({"refractory_steps": 0}, False), ({"refractory_steps": 1}, True),
                       ({"refractory_steps": 1, "theta": None}, False)):  # fmt: skip
        cell = neuron("LIF", a_mem=0.5, **own)
        for layout in (FlatLayout(SHAPE), FeatureMapLayout(SHAPE)):
            assert NeuronBuffers(Population("p", SHAPE, cell), FLOAT, layout).rests is rests


@pytest.mark.parametrize(("own", "wanted", "kind", "sent", "kept"), [
    ({}, (), "uint8", 72, (1, 1, 1)), ({"max_spikes": 2}, ("u",), "float32", 72, (1, 72, 1)),
    ({"theta": None}, ("i",), "uint8", 12, (72, 1, 72)), ({}, ("v", "u", "i"), "uint8", 72, (72, 72, 72)),
])  # fmt: skip
def test_outputs_of_cells(own: Any, wanted: Any, kind: str, sent: int, kept: Any) -> None:
    cells = NeuronBuffers(Population("p", SHAPE, neuron("LIF", a_mem=0.5, **own)), FLOAT, FlatLayout(SHAPE))
    asked = frozenset(wanted)
    flags = cells.flags(asked)
    assert cells.flags(asked) is flags
    found, traces = cells.outputs(3, 2, flags)
    assert (found.size, str(found.dtype), tuple(x.size for x in traces)) == (sent, kind, kept)


@pytest.mark.parametrize("shape", [(3, 2, 2), (5,), (3, 5)])
@pytest.mark.parametrize("own", [
    {}, {"refractory_steps": 2}, {"max_spikes": 3, "reset": "subtract"}, {"theta": None}, {"compare": ">="},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_neurons_step_as_the_reference_does_however_their_input_lies(shape: Any, own: Any, turned: bool) -> None:
    """Channels last, or with gaps; in two stretches, the second from the state of the first."""
    cell = neuron("CubaLIF", **{"a_mem": 0.8, "a_syn": 0.5, "theta": 0.4, **own})
    population, wanted = Population("p", shape, cell), frozenset("vui")
    drive = RNG.integers(-4, 9, (7, 2, *shape)).astype(np.float32) / 8
    given = np.moveaxis(np.ascontiguousarray(np.moveaxis(drive, 2, -1)), -1, 2) if len(shape) > 1 else drive
    given = np.repeat(drive, 2, axis=-1)[..., ::2] if len(shape) == 1 else given
    start = {name: np.zeros((2, *shape), np.float32) for name in "vi"} | {"refractory": np.zeros((2, *shape), int)}
    made = EventNeurons(population, array_namespace())
    first = made.run(given[:3] if turned else drive[:3], start, wanted)
    second = made.run(given[3:] if turned else drive[3:], first.state, wanted)
    expected = ReferenceNeurons(population, array_namespace()).run(drive, start, wanted)
    assert np.concatenate([first.sent, second.sent]).tolist() == np.asarray(expected.sent).tolist()
    for name in "vui":
        both = np.concatenate([first.traces[name], second.traces[name]])
        assert both.tolist() == np.asarray(expected.traces[name]).tolist()
    for name, values in expected.state.items():
        assert np.asarray(second.state[name]).tolist() == np.asarray(values).tolist()
    assert set(made.run(drive, start, frozenset()).traces) == set()


# -- weights ---------------------------------------------------------------------------------------------------------


def test_memory_begins_at_64_bytes() -> None:
    for size in (1, 15, 16, 17, 1000):
        for kind in (FLOAT, np.dtype(np.float64)):
            assert aligned_empty(size, kind).ctypes.data % 64 == 0
            assert aligned_empty(size, kind).shape == (size,)
            made = aligned_zeros((size, 2), kind)
            assert (made.ctypes.data % 64, made.shape, made.any()) == (0, (size, 2), False)


@pytest.mark.parametrize(("post", "block"), [(5, 8), (8, 8), (9, 8), (17, 8), (3, 1)])
def test_weights_are_packed_block_by_block(post: int, block: int) -> None:
    weight = RNG.normal(size=(post, 4))
    found = pack_weights(weight, block, np.float64)
    blocks = -(-post // block)
    padded = np.zeros((blocks * block, 4))
    padded[:post] = weight
    assert found.tolist() == padded.reshape(blocks, block, 4).transpose(0, 2, 1).tolist()


def test_a_matrix_by_source() -> None:
    indptr, indices, data = np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 3]), np.array([1.5, 2, 3, 4, 5])
    starts, targets, weights = by_source(indptr, indices, data, 5, np.float32)
    assert (starts.tolist(), starts.dtype) == ([0, 1, 3, 3, 5, 5], np.int64)
    assert (targets.tolist(), targets.dtype) == ([2, 0, 2, 0, 2], np.uint16)
    assert (weights.tolist(), weights.dtype) == ([3, 1.5, 4, 2, 5], FLOAT)
    assert [smallest_unsigned(n) for n in (1, 2**16, 2**16 + 1)] == [np.uint16, np.uint16, np.uint32]


def test_blocks_of_vectors_have_little_padding() -> None:
    assert [lanes_of(x) for x in ("float32", np.float64, np.int8)] == [16, 8, 64]
    for kind, lanes in (("float32", 16), ("float64", 8)):
        for posts in range(1, 700):
            costs = {n: math.ceil(posts / (n * lanes)) * (n + 2) for n in (1, 3, 8)}
            assert block_of(posts, kind) == lanes * min(costs, key=lambda n: (costs[n], n))
