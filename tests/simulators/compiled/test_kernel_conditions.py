"""Conditions under which kernels may skip neurons: each by itself, and runs in which each is decisive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from dataclasses import replace

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Identity
from nirbridge.simulators.compiled.feature_map import FlatLayout
from nirbridge.simulators.compiled.kernels.conv_neuron import is_idle_stable, is_usual
from nirbridge.simulators.compiled.neurons import NeuronBuffers
from nirbridge.simulators.simulate import Probe, simulate

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
RESTING: dict[str, Any] = {"a_mem": 1.0, "bias": 0.0, "v_reset": 0.0, "theta": 1.0}


def cells(**own: Any) -> NeuronBuffers:
    return NeuronBuffers(
        Population("p", (4,), neuron("LIF", **{**RESTING, **own})), np.dtype(np.float32), FlatLayout((4,))
    )


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, True),
        ({"v_reset": -0.5}, True),
        ({"v_reset": 0.5}, True),
        ({"a_mem": 0.5}, False),
        ({"a_mem": 0.0}, False),
        ({"bias": 0.25}, False),
        ({"bias": -0.25}, False),
        ({"v_reset": 1.0}, False),
        ({"v_reset": 1.5}, False),
        ({"reset": "subtract"}, False),
        ({"reset": "none"}, False),
    ],
)
def test_neurons_that_do_nothing_without_input(own: dict[str, Any], wanted: bool) -> None:
    made = cells(**own)
    assert bool(is_idle_stable(made.coefficients, made.coef_offsets, made.flags(frozenset({"s"})))) is wanted


@pytest.mark.parametrize(
    ("own", "keeps", "wanted"),
    [
        ({}, (), True),
        ({"reset": "subtract"}, (), True),
        ({"reset": "none"}, (), False),
        ({"max_spikes": 2}, (), False),
        ({"theta": None}, (), False),
        ({"refractory_steps": 1}, (), False),
        *(({}, (variable,), False) for variable in "vui"),
    ],
)
def test_the_usual_step_is_for_what_it_does(own: dict[str, Any], keeps: tuple[str, ...], wanted: bool) -> None:
    made = cells(**own)
    assert bool(is_usual(made.flags(frozenset({"s", *keeps})))) is wanted


def test_a_synapse_is_not_usual() -> None:
    made = NeuronBuffers(Population("p", (4,), neuron("CubaLIF", a_syn=0.5)), np.dtype(np.float32), FlatLayout((4,)))
    assert not is_usual(made.flags(frozenset({"s"})))


def image(size: int, **own: Any) -> Network:
    """A convolution onto an image, wide enough that groups of neurons without input are passed over."""
    rng = np.random.default_rng(0)
    shape = (1, 3, size)
    conv = Conv(freeze(rng.integers(-2, 5, (2, 1, 3, 3)) / 4), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, shape)
    populations = (Population("p", (2, 3, size), neuron("LIF", **{**RESTING, **own})),)
    projections = (Projection("in", "p", conv), Projection("p", "out", Identity((2, 3, size))))
    return Network(1e-3, TIMING, populations, projections, (Port("in", shape),), (Port("out", (2, 3, size)),))


@pytest.mark.parametrize("size", [5, 127, 128, 300])
@pytest.mark.parametrize(
    "own",
    [{}, {"v_init": 2.0}, {"a_mem": 0.5}, {"bias": 0.25}, {"v_reset": 1.5}, {"reset": "subtract"}, {"theta": -0.5}],
    ids=str,
)
def test_few_spikes_in_a_wide_image_give_the_references_bits(own: dict[str, Any], size: int) -> None:
    network = image(size, **own)
    values = np.zeros((6, 1, 3, size), np.uint8)
    values[0, 0, 1, 3] = values[2, 0, :, size - 1] = values[3, 0, 0, ::3] = 1
    record = [Probe("p", ("s",)), Probe("out", ("s",))]
    a, b = (simulate(network, values, record=record, backend=x).recording.arrays for x in ("reference", "event"))
    assert np.array_equal(a["p", "s"], b["p", "s"])
    kept = [simulate(network, values, backend=x).state.arrays["p", "v"] for x in ("reference", "event")]
    assert np.array_equal(*kept)
    wide = replace(network, outputs=())
    assert wide.neurons == 6 * size


PAIRS = (6, 16, 3, 8, 2, 2, 2, 2, 0, 0)
"""Height and width before and behind a pool, its kernel, stride and padding."""


@pytest.mark.parametrize(
    ("pool", "per", "wanted"),
    [
        (PAIRS, 1, True),
        ((6, 16, 2, 8, *PAIRS[4:]), 1, True),
        ((7, 16, 3, 8, *PAIRS[4:]), 1, True),
        ((6, 8, 3, 4, *PAIRS[4:]), 2, True),
        ((6, 4, 3, 2, *PAIRS[4:]), 2, True),
        ((6, 4, 3, 2, *PAIRS[4:]), 4, True),
        ((6, 16, 4, 8, *PAIRS[4:]), 1, False),
        ((6, 18, 3, 8, *PAIRS[4:]), 1, False),
        ((6, 17, 3, 8, *PAIRS[4:]), 1, False),
        ((8, 12, 4, 6, *PAIRS[4:]), 1, False),
        ((16, 12, 8, 6, *PAIRS[4:]), 1, False),
        ((6, 16, 3, 8, *PAIRS[4:]), 3, False),
        ((6, 16, 3, 8, *PAIRS[4:]), 8, False),
        ((6, 16, 3, 8, 3, 2, 2, 2, 0, 0), 1, False),
        ((6, 16, 3, 8, 2, 2, 2, 1, 0, 0), 1, False),
        ((6, 16, 3, 8, 2, 2, 2, 2, 0, 1), 1, False),
    ],
)
def test_pools_that_read_bits(pool: tuple[int, ...], per: int, wanted: bool) -> None:
    from nirbridge.simulators.compiled.feature_map import _is_pairs

    assert _is_pairs(pool, per) is wanted
