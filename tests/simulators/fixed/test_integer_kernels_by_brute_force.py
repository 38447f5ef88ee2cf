"""Compiled integer sums and neurons against plain Python at every edge, and the conditions of each fast path."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.network.apply import matrix
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.quantization import FixedNeuron, FixedPopulation, FixedProjection
from nirbridge.simulators.fixed import kernels_sums as fixed_sums
from nirbridge.simulators.fixed.kernels import FAST, FastFixedAccumulate, _conv_arrays
from nirbridge.simulators.fixed.kernels_neuron import FastFixedNeurons
from nirbridge.simulators.fixed.kernels_sums import BlockSparse, TiledDense, fast_for_spikes
from nirbridge.simulators.fixed.semantics import (
    REFERENCE,
    ReferenceFixedAccumulate,
    ReferenceFixedNeurons,
)
from tests.simulators.fixed.test_integers_by_hand import cell, whole

RNG = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return whole(RNG.integers(-90, 90, shape))


def sparse(targets: int, sources: int) -> Sparse:
    mask = RNG.random((targets, sources)) < 0.5
    mask[1] = False
    ends = np.concatenate(([0], np.cumsum(mask.sum(1))))
    return Sparse(whole(ends), whole(np.nonzero(mask)[1]), some(int(mask.sum())), (sources,), (targets,))


OPERATORS: list[Any] = [
    Dense(some(5, 7)), Dense(some(33, 7)), sparse(6, 9),
    Conv(some(4, 3, 3, 2), (2, 1), ((1, 0), (0, 1)), (1, 2), 1, (3, 5, 4)),
    Conv(some(6, 2, 2, 3), (1, 2), ((0, 1), (2, 1)), (2, 1), 3, (6, 4, 5)),
    Conv(some(4, 1, 3), (2,), ((2, 0),), (2,), 2, (2, 7)),
]  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("spikes", [True, False])
@pytest.mark.parametrize("exponent", [-3, 0, 2])
def test_what_a_projection_adds_in_every_step(operator: Any, spikes: bool, exponent: int) -> None:
    """To what is there already, late source by source; in few steps and in many, silent and crowded ones."""
    rows, sources = matrix(operator).toarray().astype(int), int(np.prod(operator.input_shape))
    targets = len(rows)
    for delays, steps in product((whole(2), whole(RNG.integers(1, 4, operator.input_shape))), (3, 40)):
        projection = FixedProjection("a", "b", operator, 8, exponent, delay_steps=delays)
        late = np.broadcast_to(np.asarray(delays).reshape(-1), (sources,))
        sent = RNG.integers(0, 2, (3 + steps, 2, sources)) if spikes else RNG.integers(-9, 9, (3 + steps, 2, sources))
        sent[RNG.random(len(sent)) < 0.3] = 0
        arriving = np.stack([[sent[3 + t - late, b, np.arange(sources)] for b in range(2)] for t in range(steps)])
        summed = arriving @ rows.T
        wanted = 1000 + (summed << exponent if exponent >= 0 else summed >> -exponent)
        history = sent.astype(np.int8 if spikes else np.int64)
        for kind in (np.int32, np.int64):
            for adds in (FastFixedAccumulate, ReferenceFixedAccumulate):
                a_in = np.full((steps, 2, targets), 1000, kind)
                adds(projection, kind, spikes)(history, 3, a_in)
                assert a_in.tolist() == wanted.tolist(), (adds, kind)


def test_numbers_of_convolutions() -> None:
    weight, form = _conv_arrays(OPERATORS[4], 2, np.int32)
    assert weight.dtype == np.int16
    assert weight.tolist() == (np.asarray(OPERATORS[4].weight) * 4).tolist()
    assert form == (4, 5, *OPERATORS[4].output_shape[1:], 1, 2, 0, 2, 2, 1, 3)
    weight, form = _conv_arrays(OPERATORS[5], 0, np.int64)
    assert (weight.dtype, weight.shape) == (np.int32, (4, 1, 1, 3))
    assert form == (1, 7, 1, OPERATORS[5].output_shape[1], 1, 2, 0, 2, 1, 2, 2)
    assert (FAST.name, REFERENCE.name) == ("fast", "reference")


def test_tiles_of_dense_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    for tile, targets, width, count in ((32, 5, 16, 1), (32, 16, 16, 1), (32, 17, 32, 1), (32, 33, 32, 2),
                                        (32, 65, 32, 3)):  # fmt: skip
        monkeypatch.setattr(fixed_sums, "TILE", tile)
        weight = RNG.integers(-9, 9, (targets, 4))
        made = TiledDense(weight, np.array([2, 2, 2, 2]), np.int32)
        assert made.tiles.shape == (count, 4, width)
        padded = np.zeros((count * width, 4), int)
        padded[:targets] = weight
        assert made.tiles.tolist() == padded.reshape(count, width, 4).transpose(0, 2, 1).tolist()
        assert (made.tiles.dtype, made.delays.tolist(), made.room.shape) == (np.int16, [2], (width,))
    late = TiledDense(weight, np.array([2, 1, 2, 2]), np.int64)
    assert (late.tiles.dtype, late.delays.tolist()) == (np.int32, [2, 1, 2, 2])


@pytest.mark.parametrize(("row", "wide"), [
    ([2**15 - 1, -5], False), ([2**15, -5], True), ([2**14, 2**14], True), ([2**14, 2**14 - 1, -(2**15) + 1], False),
    ([-(2**15)], True), ([3, -(2**14), -(2**14)], True), ([], False),
])  # fmt: skip
def test_16_bits_hold_what_a_target_can_get(row: list[int], wide: bool) -> None:
    """All weights of one sign at once; one target that needs more is enough."""
    for rows in ([row, [1] * len(row)], [[1] * len(row), row]):
        weight = np.array(rows, np.int64).reshape(2, len(row))
        ends = np.array([0, len(row), 2 * len(row)])
        lists = Sparse(whole(ends), whole([*range(len(row))] * 2), whole(weight.ravel()), (len(row),), (2,))
        late = np.ones(len(row), np.int64)
        found = [BlockSparse(lists, late, np.int32).kind]
        found += [TiledDense(weight, late, np.int32).room.dtype.type] if row else []
        assert set(found) == {np.int32 if wide else np.int16}
        assert BlockSparse(lists, late, np.int64).kind is np.int64
        assert BlockSparse(lists, late, np.int64).weights.dtype == np.int32


def test_blocks_of_steps_pay_for_many_steps_with_many_spikes() -> None:
    operator, late = sparse(6, 10), np.ones(10, np.int64)
    made = fast_for_spikes(operator, late, np.int32)
    assert isinstance(made, BlockSparse)
    assert isinstance(fast_for_spikes(OPERATORS[0], late, np.int32), TiledDense)
    assert fast_for_spikes(OPERATORS[3], late, np.int32) is None

    def pays(steps: int, batch: int, spikes: int, depth: int = 2) -> bool:
        history = np.zeros((depth + steps, batch, 10), np.int8)
        history[depth - 1 : depth - 1 + steps].reshape(-1)[:spikes] = 1
        history[: depth - 1] = history[depth - 1 + steps :] = 1  # what does not arrive in these steps
        return made.pays(history, depth, np.zeros((steps, batch, 6), np.int32))

    assert [pays(15, 1, 150), pays(16, 1, 160), pays(5, 3, 150), pays(8, 2, 160)] == [False, True, False, True]
    assert [pays(20, 1, 8), pays(20, 1, 9), pays(25, 2, 20), pays(25, 2, 21)] == [False, True, False, True]


# -- neurons ---------------------------------------------------------------------------------------------------------

EDGES = [0, 1, -1, 63, 64, 65, 4095, 4096, -4097, 2**17, -(2**22), 2**23 - 1, -(2**23) + 1, 2**23, -(2**23)]
CELLS: list[dict[str, Any]] = [
    {"dv": whole(0)}, {"dv": whole(4096), "du": whole(0)}, {"dv": whole(1000), "du": whole(777)},
    {"reset": "subtract", "reset_amount": whole(100)}, {"reset": "none", "dv": whole(5)},
    {"refractory_steps": whole(2), "bias_mant": whole(3), "bias_exp": 6}, {"fires_above": whole(-70)},
    {"refractory_steps": whole(1), "reset": "subtract", "reset_amount": whole(2**23)},
    {"max_spikes": 3, "reset": "subtract", "reset_amount": whole(64)}, {"max_spikes": 3, "spike_size": whole(0)},
    {"max_spikes": 2, "spike_size": whole(200), "refractory_steps": whole(2)}, {"fires_above": None},
    {"fires_above": whole(2**25)}, {"fires_above": whole(-(2**25)), "bias_mant": whole(-1)},
    {"v_min": whole(-100)}, {"v_min": whole(70), "refractory_steps": whole(1)}, {"v_min": whole(-(2**23) + 1)},
    {"v_min": whole(-64), "reset": "subtract", "reset_amount": whole(2**20), "dv": whole(9)},
    {"v_min": whole(-3), "max_spikes": 3, "reset": "subtract", "reset_amount": whole(64), "spike_size": whole(60)},
]  # fmt: skip


def python_neuron(n: FixedNeuron, u: int, v: int, wait: int, a_in: int) -> tuple[int, int, int, int]:
    """(u, v, steps to wait, sent) behind one step."""

    def kept(x: int, parts: int) -> int:
        return (abs(x) * parts // 4096) * (1 if x >= 0 else -1)

    u = kept(u, 4095 - int(n.du)) + 64 * a_in
    u = u - 2**24 if u > 2**23 else u + 2**24 if u <= -(2**23) else u
    v = max(-(2**23) + 1, min(2**23 - 1, kept(v, 4096 - int(n.dv)) + u + int(n.bias)))
    if n.fires_above is None:
        return u, v, wait, v
    least = -(2**30) if n.v_min is None else int(n.v_min)
    if wait > 0:
        return u, max(0, least), wait - 1, 0
    if v <= int(n.fires_above):
        return u, max(v, least), 0, 0
    spikes = 1 if n.max_spikes == 1 else min(n.max_spikes, v // max(1, int(n.spike_size)))
    if spikes <= 0:
        return u, v - spikes * int(n.reset_amount) if n.reset == "subtract" else v, 0, spikes
    after = {"zero": 0, "none": v, "subtract": v - spikes * int(n.reset_amount)}[n.reset]
    return u, max(after, least), int(n.refractory_steps), spikes


GRID = np.array(list(product(EDGES, EDGES, (0, 1, 3), (0, 1, -1, 2**17 - 1, -(2**17) + 1))))


@pytest.mark.parametrize("own", CELLS, ids=lambda x: " ".join(f"{k}={np.asarray(v)}" for k, v in x.items()))
def test_a_step_from_every_edge(own: dict[str, Any]) -> None:
    """The wide way, the narrow one (where it takes the neuron) and numpy's, from states within 24 bits."""
    n = cell(**own)
    inside = GRID[(np.abs(GRID[:, :2]) < 2**23).all(axis=1) & ((GRID[:, 2] == 0) | (n.refractory_steps > 0))]
    population = FixedPopulation("p", (len(inside),), n, "custom")
    wanted = np.array([python_neuron(n, *map(int, row)) for row in inside])
    found: dict[str, Any] = {}
    for name, made in (("wide", FastFixedNeurons(population, 2**40)), ("narrow", FastFixedNeurons(population,
    2**18 - 1)),
                       ("numpy", ReferenceFixedNeurons(population, 0))):  # fmt: skip
        state = {k: inside[None, :, i].astype(np.int64) for i, k in enumerate(("u", "v", "refractory"))}
        one = n.fires_above is not None and n.max_spikes == 1
        sent = np.zeros((1, 1, len(inside)), np.int8 if one else np.int64)
        traces = {k: np.zeros((1, 1, len(inside)), np.int64) for k in ("u", "v")}
        a_in = inside[None, None, :, 3].astype(np.int32)
        made(a_in, state, sent, traces)
        assert (traces["u"][0].tolist(), traces["v"][0].tolist()) == (state["u"].tolist(), state["v"].tolist())
        found[name] = np.stack([state["u"][0], state["v"][0], state["refractory"][0], sent[0, 0]], axis=1)
    negative = n.max_spikes > 1 and bool(np.any(wanted[:, 3] < 0))
    for name, rows in found.items():
        assert negative or rows.tolist() == wanted.tolist(), name


@pytest.mark.parametrize(("own", "reach", "narrow"), [
    ({}, 2**24, True), ({}, 2**25, False), ({"fires_above": None}, 1, True), ({"max_spikes": 2}, 1, True),
    ({"u_bits": 31}, 1, True), ({"u_bits": 32}, 1, False), ({"u_bits": 23, "v_bits": 23}, 1, True),
    ({"bias_mant": whole([2**30, 0])}, 1, True), ({"bias_mant": whole([0, -(2**31)])}, 1, False),
    ({"reset": "subtract", "reset_amount": whole([0, 2**29])}, 1, True),
    ({"reset": "subtract", "reset_amount": whole([2**31 - 2**22, 1])}, 1, False),
    ({"refractory_steps": whole(2**40)}, 1, True), ({"fires_above": whole(2**40)}, 1, False),
])  # fmt: skip
def test_32_bits_are_for_what_fits_them(own: dict[str, Any], reach: int, narrow: bool) -> None:
    assert FastFixedNeurons(FixedPopulation("p", (2,), cell(**own), "custom"), reach).is_narrow is narrow


def test_states_beyond_24_bits_are_wide() -> None:
    for u, v, wide in ((2**23, -(2**23), False), (2**23 + 1, 0, True), (0, -(2**23) - 1, True)):
        made = FastFixedNeurons(FixedPopulation("p", (2,), cell(), "custom"), 1)
        assert made._is_held({"u": np.array([0, u]), "v": np.array([v, 0])}) is not wide


def test_narrow_numbers_pay_from_so_many_steps_of_neurons_on() -> None:
    """The wide way would keep a start in 64 bits; what is read is which loop ran."""
    ran: list[str] = []
    made = FastFixedNeurons(FixedPopulation("p", (16,), cell(), "custom"), 1)
    made.loops = {kind: (lambda *a, kind=kind: ran.append(kind), ()) for kind in ("int32", "int64")}
    for steps in (127, 128):
        state = {k: np.zeros((1, 16), np.int64) for k in ("u", "v", "refractory")}
        made(np.zeros((steps, 1, 16), np.int32), state, np.zeros((steps, 1, 16), np.int8), {})
    state["v"][0, 3] = 2**23 + 1
    made(np.zeros((128, 1, 16), np.int32), state, np.zeros((128, 1, 16), np.int8), {})
    assert ran == ["int64", "int32", "int64"]
