"""Rewrites of C programs in integers: pools taken out of weights, choices that are always the same, shorter decays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.c.pools import pool_apart
from nirbridge.network.apply import apply
from nirbridge.network.operators import Conv, Dense
from nirbridge.quantization.model import FixedInput
from tests.emitters.c.programs import assert_equal_to_fixed, random_inputs, whole
from tests.emitters.hand_made import neuron, population, projection, quantized

SHAPE = (3, 6, 12)


def pooled_dense(rng: np.random.Generator, side: int) -> Any:
    small = 2 * rng.integers(-9, 9, (5, 3, 6 // side, 12 // side))
    return Dense(freeze(small.repeat(side, axis=2).repeat(side, axis=3).reshape(5, -1)))


def pooled_conv(rng: np.random.Generator) -> Any:
    weight = 2 * rng.integers(-9, 9, (4, 3, 3, 2)).repeat(2, axis=2).repeat(2, axis=3)
    return Conv(freeze(weight), (2, 4), ((2, 4), (0, 2)), (1, 1), 1, SHAPE)


@pytest.mark.parametrize("make", [lambda r: pooled_dense(r, 2), lambda r: pooled_dense(r, 6), pooled_conv])
def test_pools_are_taken_out(make: Any) -> None:
    rng = np.random.default_rng(0)
    operator = make(rng)
    found = pool_apart(operator, SHAPE)
    assert found is not None
    pool, rest = found
    assert rest.weight.size * int(np.prod(pool.kernel)) == operator.weight.size
    x = rng.integers(0, 3, (7, *operator.input_shape))
    pooled = apply(pool, x.reshape(7, *SHAPE)).reshape(7, *rest.input_shape)
    assert np.array_equal(apply(rest, pooled), apply(operator, x))


@pytest.mark.parametrize("make", [lambda r: pooled_dense(r, 2), lambda r: pooled_dense(r, 3), pooled_conv])
def test_one_other_weight_keeps_them_in(make: Any) -> None:
    operator = make(np.random.default_rng(1))
    for at in (0, operator.weight.size // 2, operator.weight.size - 1):
        weight = operator.weight.copy()
        weight.flat[at] += 1
        changed = Dense(freeze(weight)) if isinstance(operator, Dense) else with_weight(operator, weight)
        assert pool_apart(changed, SHAPE) is None


def with_weight(operator: Conv, weight: Any) -> Conv:
    return Conv(freeze(weight), operator.stride, operator.padding, operator.dilation, 1, operator.input_shape)


def test_programs_with_pools_are_those_of_the_simulator() -> None:
    """Spikes, whole numbers of an input and readouts through pools, with delays of sources and a shift to the right."""
    rng = np.random.default_rng(2)
    cells = [
        population("conv", pooled_conv(rng).output_shape, neuron(fires_above=9000)),
        population("dense", (5,), neuron(du=900, fires_above=9000, max_spikes=3, spike_size=4000)),
        population("silent", SHAPE, neuron(dv=2000, fires_above=None)),
        population("last", (5,), neuron(dv=3000, fires_above=1 << 16)),
    ]
    one = Dense(freeze(2 * rng.integers(-5, 9, (int(np.prod(SHAPE)), 5))))
    edges = [
        projection("image", "conv", pooled_conv(rng)),
        projection("spikes", "conv", pooled_conv(rng), delay_steps=rng.integers(1, 4, SHAPE)),
        projection("spikes", "dense", pooled_dense(rng, 6), weight_exp=3),
        projection("dense", "silent", one),
        projection("silent", "last", pooled_dense(rng, 3), weight_exp=-4, delay_steps=2),
    ]
    ports = [FixedInput("image", SHAPE, value_max=40), FixedInput("spikes", SHAPE)]
    q = whole(quantized(ports, cells, edges, ["conv", "dense", "silent", "last"]))
    assert C.emit(q).files["model.c"].decode().count(": pool, ") == 4
    arrays = assert_equal_to_fixed(q, random_inputs(q, 40))
    assert all(arrays[name, "s"].any() for name in ("conv", "dense", "last"))


def test_digits_cnn_has_its_parameters_once(root: Any) -> None:
    program = C.emit(nb.quantize(root / "examples/models/digits_cnn.nir", "loihi2"))
    assert json.loads(program.files["manifest.json"])["tables_bytes"] == 72 + 16 * 8 * 9 + 640
    text = program.files["model.c"].decode()
    assert "16777216" not in text  # no wrap: no input reaches it
    assert "8388607" not in text
    assert "m->p0_v[i], 7)" in text  # 3,584 of 4,096
