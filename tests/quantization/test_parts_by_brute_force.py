"""Decays, grids, units and folded neurons: every small case against its definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips import read_chip
from nirbridge.quantization import decays
from nirbridge.quantization.decays import dec, decay_of, initial_integers, undo
from nirbridge.quantization.folding import fold_population
from nirbridge.quantization.formats import bias_max, grid_of, signed_max, threshold_max
from nirbridge.quantization.weights import WeightRange, exponent_for, quantum, round_to_grid, weight_range
from tests.quantization.cells import cell, ints
from tests.quantization.nets import layer, lif

LOIHI2 = read_chip("loihi2")


# -- formats and weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", range(1, 9))
def test_a_width_has_all_its_weights_on_its_grid(bits: int) -> None:
    whole = {mode: grid_of(bits, mode) for mode in ("mixed", "excitatory", "inhibitory")}  # type: ignore[arg-type]
    levels = {mode: range(g.low, g.high + 1, g.step) for mode, g in whole.items()}
    assert [len(found) for found in levels.values()] == [2**bits] * 3
    assert (levels["mixed"][0], levels["excitatory"][0], levels["inhibitory"][-1]) == (-256, 0, 0)
    assert list(levels["excitatory"]) == [-x for x in reversed(levels["inhibitory"])]
    assert levels["excitatory"][-1] + whole["excitatory"].step == levels["mixed"][-1] + whole["mixed"].step == 256


def test_the_largest_numbers() -> None:
    assert [signed_max(bits) for bits in (1, 2, 8, 24)] == [0, 1, 127, 8_388_607]
    numbers = LOIHI2.numbers
    assert numbers is not None
    assert threshold_max(numbers) == 131_071 * 64
    assert bias_max(numbers) == 4_095 * 128


@pytest.mark.parametrize(
    ("weights", "mode", "low", "high"),
    [
        ([0.5, 2.0], "excitatory", 0.0, 2.0),
        ([-0.5, -2.0], "inhibitory", -2.0, 0.0),
        ([-0.5, 2.0], "mixed", -0.5, 2.0),
        ([0.0], "excitatory", 0.0, 0.0),
        ([], "excitatory", 0.0, 0.0),
    ],
)
def test_ranges_of_weights_have_0_in_them(weights: list[float], mode: str, low: float, high: float) -> None:
    assert weight_range(np.array(weights), 4) == WeightRange(4, mode, low, high)  # type: ignore[arg-type]
    assert weight_range(np.array(weights), 4, 0.5) == WeightRange(4, mode, low / 2, high / 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "unit"),
    [
        (WeightRange(8, "mixed", -256.0, 254.0), 1.0),
        (WeightRange(8, "mixed", -512.0, 254.0), 2.0),
        (WeightRange(8, "mixed", -256.0, 508.0), 2.0),
        (WeightRange(8, "excitatory", 0.0, 255.0), 1.0),
        (WeightRange(8, "inhibitory", -510.0, 0.0), 2.0),
        (WeightRange(1, "mixed", -256.0, 1000.0), 1.0),
        (WeightRange(8, "mixed", 0.0, 0.0), 0.0),
    ],
)
def test_the_unit_is_the_least_with_which_the_range_fits(own: WeightRange, unit: float) -> None:
    assert own.unit == unit


def test_weights_go_to_the_nearest_of_their_grid() -> None:
    grid = grid_of(6, "mixed")
    for quarter in range(-1200, 1200):
        x = quarter / 4
        (found,) = round_to_grid(np.array([x * 2]), 0.5, grid).tolist()
        nearest = min(range(grid.low, grid.high + 1, grid.step), key=lambda g: (abs(g - x), (g // grid.step) % 2))
        assert found == nearest


def test_the_exponent_is_the_least_with_which_weights_fit() -> None:
    for k in range(-300, 300):
        ratio = 2.0 ** (k / 50)
        found = exponent_for(ratio * 4, 0.25)
        assert found == next(e for e in range(20) if ratio / 2.0**e <= 1.0 + 1e-6)
    assert [exponent_for(4.0, 0.0), exponent_for(1.0, 1.0), exponent_for(1 + 1e-7, 1.0), exponent_for(1.01, 1.0)] == [
        0, 0, 0, 1,
    ]  # fmt: skip


@pytest.mark.parametrize(("top", "found"), [(127, 1.0), (128, None)])
def test_a_common_unit_has_at_most_so_many_levels(top: int, found: float | None) -> None:
    assert quantum(np.array([1.0, -top, 0.0]), 127) == found
    assert quantum(np.array([float(top)]), 1) == top
    assert quantum(np.array([0.0, -0.0]), 127) is None


# -- decays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2, 1000, 2048, 3000, 4000, 4094, 4095, 4096])
def test_a_decay_cuts_towards_0_and_is_undone_by_the_least(k: int) -> None:
    reach = 9000
    x = np.arange(-reach, reach + 1)
    y = dec(x, np.asarray(k))
    assert y.tolist() == [int(np.sign(a)) * (abs(int(a)) * (4096 - k) // 4096) for a in x]
    for value in (-2, -1, 0, 1, 2):
        wanted = [int(a) for a in x[y == value]]
        if wanted and k < 4096:
            assert undo(np.asarray(value), np.asarray(k)) == min(wanted, key=abs)
    assert undo(np.asarray(5), np.asarray(4096)) == 0


@pytest.mark.parametrize(
    ("factor", "parts"), [(1.0, 0), (0.5, 2048), (0.0, 4000), (1 - 0.6 / 4096, 1), (1 - 0.4 / 4096, 0)]
)
def test_decays_are_the_nearest_parts_that_there_are(factor: float, parts: int) -> None:
    assert decay_of(np.array(factor), 4000) == parts


@pytest.mark.parametrize("latency", [0, 1, 4])
@pytest.mark.parametrize("du", [0, 100, 2047, 4095])
@pytest.mark.parametrize("dv", [0, 7, 1024, 4095])
def test_a_start_leads_to_the_state_that_is_wanted(latency: int, du: int, dv: int) -> None:
    n = cell(du=ints([du, du]), dv=ints(dv), bias_mant=ints([3, -5]), v_init=ints([7, -9]), u_init=ints([2, -1]),
             fires_above=None)  # fmt: skip
    n = replace(n, u_init=ints([0, 0])) if du == 4095 else n
    v, u, problem = initial_integers(n, "p", latency)
    if problem is not None:  # 4095 parts: far beyond 24 bits
        assert dv == 4095
        return
    for _ in range(latency):
        u = dec(u, n.du + 1)
        v = dec(v, n.dv) + u + n.bias
    assert (v.tolist(), u.tolist()) == (n.v_init.tolist(), n.u_init.tolist())


@pytest.mark.parametrize("v_init", [0, 1, -3])
@pytest.mark.parametrize("u_init", [0, 2])
@pytest.mark.parametrize("bias", [0, 1, -20])
@pytest.mark.parametrize(("du", "dv"), [(4095, 0), (0, 0), (2047, 7), (0, 4000), (4095, 4096)])
def test_a_start_is_that_of_all_steps_one_by_one(v_init: int, u_init: int, bias: int, du: int, dv: int) -> None:
    n = cell(du=ints([du, 4095]), dv=ints(dv), bias_mant=ints(bias), v_init=ints(v_init), u_init=ints(u_init))
    n = replace(n, v_bits=60, u_bits=60)
    v, u = np.asarray(n.v_init), np.where(n.du < 4095, n.u_init, 0)
    for _ in range(6):
        v, u = undo(v - u - n.bias, n.dv), np.where(n.du < 4095, undo(u, n.du + 1), 0)
    found = initial_integers(n, "p", 6)
    assert (found[0].tolist(), found[1].tolist()) == (v.tolist(), u.tolist())
    reached = []
    for _ in range(6):
        u = dec(u, n.du + 1)
        v = dec(v, n.dv) + u + n.bias
        reached.append(v)
    assert (found[2] is None) == (max(int(np.max(x)) for x in reached) <= 640)


def test_a_neuron_at_rest_is_followed_for_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(decays, "undo", lambda y, k: (calls.append(1), undo(y, k))[1])
    assert initial_integers(cell(), "p", 1000)[2] is None
    assert len(calls) == 2


EARLY = (
    "in the 3 time steps before its first input, a chip runs all neurons from the first time step on; "
    "make its bias or its initial v smaller, or give --keep-early-spikes"
)


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ({"bias_mant": ints([0, -320])}, None),  # 960, 640, 320, 0: 640 does not fire
        ({"bias_mant": ints([0, -321])}, "fire"),
        ({"bias_mant": ints(-321), "fires_above": None}, None),
        ({"bias_mant": ints([0, -170]), "v_init": ints(1), "v_bits": 10}, None),  # 511
        (
            {"bias_mant": ints([0, -170]), "v_init": ints(2), "v_bits": 10},
            "need an initial state wider than the chip's numbers",
        ),
        ({"bias_mant": ints([0, 171]), "v_bits": 10}, "need an initial state wider than the chip's numbers"),
        ({"du": ints(2047), "u_init": ints([0, -63]), "u_bits": 10}, None),  # 504
        (
            {"du": ints(2047), "u_init": ints([0, -64]), "u_bits": 10},
            "need an initial state wider than the chip's numbers",
        ),
        ({"du": ints(4095), "u_init": ints([0, 512]), "u_bits": 10}, None),  # no memory: it starts at 0
        ({"bias_mant": ints([0, 5]), "v_min": ints(-10)}, None),  # -15 before, -10 after the first time step
        ({"bias_mant": ints([0, 5]), "v_min": ints([-30, -9])}, "need an initial state below its floor"),
        ({"bias_mant": ints(-5), "v_min": ints([0, -1])}, None),  # 15, 10, 5, 0
        ({"bias_mant": ints([0, 5]), "v_min": ints(-9), "dv": ints(4096), "v_init": ints(5)}, None),
    ],
)
def test_a_start_that_fires_or_is_too_wide_is_told(own: dict[str, Any], what: str | None) -> None:
    problem = initial_integers(cell(**own), "p", 3)[2]
    if what is None:
        assert problem is None
        return
    assert problem is not None
    assert str(problem) == f"population 'p': its constant drive would make it {what} {EARLY}"
    assert dict(problem.ids) == {"population": "p", "rule": "early", "steps": 3}


@pytest.mark.parametrize("latency", [0, 3])
@pytest.mark.parametrize("own", [
    {}, {"reset": "subtract"}, {"reset": "subtract", "refractory_steps": np.array([0, 1])},
    {"reset": "none"}, {"kind": "LI", "theta": None}, {"a_syn": 0.0, "kind": "LIF"},
    {"v_min": np.array([-0.1, 0.6])}, {"v_min": 0.45, "reset": "subtract"},
])  # fmt: skip
def test_a_folded_neuron_is_the_neuron_in_other_coordinates(own: dict[str, Any], latency: int) -> None:
    given: dict[str, Any] = {
        "kind": "CubaLIF", "a_mem": np.array([0.9, 0.5]), "g_mem": 0.3, "a_syn": 0.7, "g_syn": 2.0, "bias": 0.1,
        "theta": np.array([1.0, 2.0]), "v_reset": np.array([0.25, -0.5]), "v_init": 0.4, "i_init": -0.2,
    }  # fmt: skip
    net = layer(np.ones((2, 1)), lif(**(given | own)), bias=[0.5, -1.0], loop=np.eye(2))
    n, f = net.populations[0].neuron, fold_population(net, net.populations[0], latency)
    drive = np.array([0.5, -1.0])
    moved = n.fires and (n.reset == "to-value" or "refractory_steps" in own)
    off = np.array([0.25, -0.5]) if moved else np.zeros(2)
    assert np.broadcast_to(f.offset, 2).tolist() == off.tolist()
    assert f.neuron is n
    rng = np.random.default_rng(0)
    i, v = n.i_init, n.v_init
    for _ in range(latency):
        i = n.a_syn * i + n.g_syn * drive  # the biases of projections flow before the first input too
        v = n.a_mem * v + n.g_mem * i + n.bias
        v = v if n.v_min is None else np.maximum(v, n.v_min)
    c, w = f.i_start, f.v_start
    assert n.a_syn.any() or not c.any()
    assert np.allclose(w, v - off)
    for _ in range(4):
        x = rng.normal(size=2)
        i, v = n.a_syn * i + n.g_syn * (x + drive), v
        v = n.a_mem * v + n.g_mem * i + n.bias
        v = v if n.v_min is None else np.maximum(v, n.v_min)
        c = f.a_syn * c + f.gain * x
        w = f.a_mem * w + c + f.bias
        w = w if f.v_min is None else np.maximum(w, f.v_min)
        assert np.allclose(c, n.g_mem * (i - f.steady))
        assert np.allclose(w, v - off)
    assert (f.theta is None) == (n.theta is None)
    if f.theta is not None:
        assert np.allclose(f.theta, n.theta - off)
