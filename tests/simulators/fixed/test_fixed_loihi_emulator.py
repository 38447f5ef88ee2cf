"""The fixed-point simulator against brian2-loihi, an independent emulator, where definitions agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense, Identity, Sparse
from nirbridge.passes import Retime
from nirbridge.pipeline import load_network
from nirbridge.quantization import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork, quantize
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import SignMode
from nirbridge.quantization.overflow import prove
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe
from tests.simulators.fixed.loihi_emulator import Unavailable, run_emulator

pytestmark = pytest.mark.slow
STEPS = 80


def whole(values: Any) -> Any:
    return freeze(np.asarray(values, np.int64))


def cell(rng: np.random.Generator, size: int) -> FixedNeuron:
    """A neuron that both have: one du, dv, vth and refractory time, no bias."""
    zero = whole(0)
    return FixedNeuron(
        du=whole(rng.choice(np.array([4095, rng.integers(0, 4095)]))),
        dv=whole(rng.choice(np.array([0, 4095, rng.integers(0, 4096)]))),
        bias_mant=zero,
        bias_exp=0,
        fires_above=whole(64 * rng.integers(50, 2000)),
        reset="zero",
        reset_amount=zero,
        spike_size=zero,
        max_spikes=1,
        refractory_steps=whole(rng.choice(np.array([0, 0, rng.integers(1, 10)]))),
        v_init=whole(rng.integers(-5000, 5000, size)),
        u_init=whole(rng.integers(-5000, 5000, size)),
        scale=freeze(np.float64(64)),
        v_offset=freeze(np.float64(0)),
    )


def link(rng: np.random.Generator, source: tuple[str, int], target: tuple[str, int]) -> FixedProjection:
    """Weights on the grid of some width and sign mode, an exponent, a delay per source."""
    modes: tuple[SignMode, ...] = ("mixed", "mixed", "excitatory", "inhibitory")
    mode = modes[int(rng.integers(4))]
    bits = int(rng.choice([8, 6, 4, 2]))
    grid = grid_of(bits, mode)
    weights = grid.step * rng.integers(grid.low // grid.step, grid.high // grid.step + 1, (target[1], source[1]))
    mask = rng.random(weights.shape) < 0.5
    operator: Any = Dense(whole(weights))
    if rng.random() < 0.5:
        ends, places = np.concatenate(([0], np.cumsum(mask.sum(1)))), np.nonzero(mask)[1]
        operator = Sparse(whole(ends), whole(places), whole(weights[mask]), (source[1],), (target[1],))
    delays = rng.integers(1, 6, source[1]) if rng.random() < 0.5 else rng.integers(1, 6)
    exponent = int(rng.integers(0, 4))
    return FixedProjection(
        source[0],
        target[0],
        operator,
        bits,
        exponent,
        mode,
        whole(delays),
    )


def random_network(rng: np.random.Generator) -> QuantizedNetwork:
    """Two populations with loops inside and between them, and two inputs."""
    nodes = {"in": 20, "other": 7, "a": 12, "b": 9}
    pairs = [("in", "a"), ("other", "b"), ("a", "b"), ("b", "a"), ("a", "a"), ("in", "b")]
    projections = [link(rng, (s, nodes[s]), (t, nodes[t])) for s, t in pairs]
    populations = tuple(FixedPopulation(x, (nodes[x],), cell(rng, nodes[x]), "lif") for x in "ab")
    return QuantizedNetwork(
        chip="loihi1",
        dt=1e-3,
        populations=populations,
        projections=tuple(projections),
        inputs=(FixedInput("in", (20,)), FixedInput("other", (7,))),
        outputs=(Port("out", (9,)),),
        reads=(Projection("b", "out", Identity((9,))),),
        latency={},
        formats={},
    )


def ours(q: QuantizedNetwork, inputs: dict[str, Any]) -> dict[tuple[str, str], Any]:
    arrays = simulate_fixed(q, inputs, record=[Probe("*", ("s", "u", "v"))]).recording.arrays
    return {key: array.reshape(len(array), -1) for key, array in arrays.items()}


def clear_network(seed: int) -> tuple[QuantizedNetwork, dict[str, Any]]:
    """A network and spikes with which u cannot wrap and v is not held at its last value: the emulator has neither."""
    rng = np.random.default_rng(seed)
    while True:
        q = random_network(rng)
        inputs = {p.name: (rng.random((STEPS, *p.shape)) < rng.uniform(0.05, 0.3)).astype(int) for p in q.inputs}
        found = ours(q, inputs)
        held = max(int(np.abs(found[name, "v"]).max()) for name in "ab") >= 2**23 - 1
        wraps = any(max(map(abs, b.u)) >= 2**23 for b in prove(q).values())
        if not (held or wraps) and all(0.01 < found[name, "s"].mean() < 0.9 for name in "ab"):
            return q, inputs


def emulated(q: QuantizedNetwork, inputs: dict[str, Any], folder: Path) -> dict[tuple[str, str], Any]:
    try:
        return run_emulator(q, inputs, folder)
    except Unavailable as error:
        pytest.skip(f"brian2-loihi cannot be set up here: {error}")


def assert_same(q: QuantizedNetwork, inputs: dict[str, Any], folder: Path) -> None:
    """Both give the same spikes, currents and potentials in every step, and every population fires."""
    found, wanted = emulated(q, inputs, folder), ours(q, inputs)
    for p in q.populations:
        for variable in "suv":
            key = (p.name, variable)
            np.testing.assert_array_equal(found[key], wanted[key], err_msg=str(key))
        assert found[p.name, "s"].any()


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_are_the_same_in_every_step(seed: int, tmp_path: Path) -> None:
    assert_same(*clear_network(seed), tmp_path)


def test_a_trained_network_is_the_same_in_every_step(root: Path, tmp_path: Path) -> None:
    chip = read_chip("loihi1")
    network = load_network(root / "examples" / "models" / "digits_mlp.nir")
    q = quantize(Retime(delay_steps_max=chip.core.delay_steps).retimed(network), chip)
    values = (np.random.default_rng(0).random((STEPS, 64)) < 0.3).astype(int)
    assert_same(q, {q.inputs[0].name: values}, tmp_path)


def test_a_wrong_rule_would_be_seen(tmp_path: Path) -> None:
    """One part of 4096 more decay, one step more delay: each changes what is compared."""
    q, inputs = clear_network(3)
    first, link = q.populations[0], q.projections[0]
    found = emulated(q, inputs, tmp_path)
    other = replace(first, neuron=replace(first.neuron, du=whole((int(first.neuron.du) + 1) % 4096)))
    late = replace(link, delay_steps=freeze(link.delay_steps + 1))
    for changed in (
        replace(q, populations=(other, *q.populations[1:])),
        replace(q, projections=(late, *q.projections[1:])),
    ):
        got = ours(changed, inputs)
        assert not np.array_equal(got["a", "v"], found["a", "v"])
