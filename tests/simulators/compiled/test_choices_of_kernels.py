"""Choice of kernels, with both sides of every bound, and the text that reports it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.arrays import freeze
from nirbridge.network.model import Population, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.simulators.compiled import dense_layer
from nirbridge.simulators.compiled import sums as event_sums
from nirbridge.simulators.compiled.backend import ConvLayer, DenseAfterMap, can_pool, compiled_backend, make_conv_layer
from nirbridge.simulators.compiled.dense_layer import DenseLayer, DenseStage, is_self_recurrent, make_dense_layer
from nirbridge.simulators.compiled.events import Signal, events_of, take_input
from nirbridge.simulators.compiled.kernels.conv import is_plain
from nirbridge.simulators.compiled.neurons import neuron_flags
from nirbridge.simulators.compiled.sums import EventAccumulate, Method, is_partition
from nirbridge.simulators.reference import numpy_backend as numpy_parts
from nirbridge.simulators.reference.array_namespace import array_namespace
from nirbridge.simulators.reference.sums import _NumpySparseSums, _WindowSums

SPACE = array_namespace()
FLOAT = np.dtype(np.float32)
RNG = np.random.default_rng(0)


def conv(groups: int = 1, dilation: int = 1, axes: int = 2) -> Conv:
    weight = freeze(RNG.normal(size=(4, 2 // groups, *(2,) * axes)))
    return Conv(weight, (1,) * axes, ((0, 0),) * axes, (dilation,) * axes, groups, (2, *(4,) * axes))


def pool(
    kernel: tuple[int, ...], stride: tuple[int, ...], shape: tuple[int, ...] = (2, 4, 4), by: float = 1
) -> SumPool:
    return SumPool(kernel, stride, ((0, 0),) * len(kernel), shape, by)


DENSE = Dense(freeze(RNG.normal(size=(3, 5))))
SPARSE = Sparse(freeze([0, 1, 2]), freeze([1, 0]), freeze([1.0, 2.0]), (2,), (2,))


def log_of(op: Operator) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = []
    EventAccumulate(op, SPACE, "event", log)
    return log


@pytest.mark.parametrize(("op", "kernel"), [
    (conv(), "event"), (conv(axes=1), "event"), (conv(axes=3), "event, as a sparse matrix"),
    (conv(groups=2), "event, as a sparse matrix"), (conv(dilation=2), "event, as a sparse matrix"),
    (SPARSE, "event"), (pool((2, 2), (2, 2)), "event"), (pool((2, 2), (1, 2)), "reference"),
    (pool((2, 1), (2, 1)), "event"), (pool((3,), (3,), (2, 7)), "event"), (pool((2,), (1,), (2, 7)), "reference"),
    (pool((15, 17), (15, 17), (1, 15, 17)), "event"), (pool((16, 16), (16, 16), (1, 16, 16)), "reference"),
    (Identity((2,)), "elementwise"), (Scale(freeze([1.0, 2.0])), "elementwise"), (Reshape((2, 3), (6,)), "none"),
])  # fmt: skip
def test_every_operator_has_its_kernel(op: Operator, kernel: str) -> None:
    assert log_of(op) == [{"operator": type(op).__name__, "kernel": kernel}]


def test_convolutions_become_matrices_up_to_so_many_synapses(monkeypatch: pytest.MonkeyPatch) -> None:
    synapses = 4 * 9 * 4  # output elements times taps of a group
    monkeypatch.setattr(event_sums, "SYNAPSES_MAX", synapses)
    assert log_of(conv(groups=2))[0]["kernel"] == "event, as a sparse matrix"
    monkeypatch.setattr(event_sums, "SYNAPSES_MAX", synapses - 1)
    assert log_of(conv(groups=2))[0]["kernel"] == "reference"
    chain = Chain((pool((2, 2), (1, 1), (2, 5, 5)), conv(groups=2)))
    assert [part["kernel"] for part in log_of(chain)] == ["reference", "reference"]


def test_without_numba_maps_become_matrices_up_to_so_many_synapses(monkeypatch: pytest.MonkeyPatch) -> None:
    made, windows = conv(groups=2), pool((2, 2), (1, 1), by=0.5)
    for op, synapses in ((made, 4 * 9 * 4), (windows, 2 * 9 * 4)):
        spikes = RNG.integers(0, 2, (5, *op.input_shape)).astype(np.float32)
        wanted = _WindowSums(op, SPACE)(spikes)
        for most, kind in ((synapses, _NumpySparseSums), (synapses - 1, _WindowSums)):
            monkeypatch.setattr(numpy_parts, "SYNAPSES_MAX", most)
            part = numpy_parts._part(op, SPACE)
            assert np.array_equal(part(spikes), wanted)
            assert isinstance(part, kind) is (op is made or kind is _WindowSums)
    monkeypatch.setattr(numpy_parts, "SYNAPSES_MAX", 10**6)
    assert isinstance(numpy_parts._part(pool((2, 2), (2, 2)), SPACE), _NumpySparseSums)


def test_plain_maps_and_pools() -> None:
    assert [is_plain(x) for x in (conv(), conv(axes=1), conv(axes=3), conv(groups=2), conv(dilation=2))] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert is_partition(pool((2, 2), (3, 2)))
    assert not is_partition(pool((2, 2), (2, 1)))
    assert can_pool(pool((15, 17), (1, 1), (1, 15, 17)))
    assert not can_pool(pool((16, 16), (1, 1), (1, 16, 16)))
    assert not can_pool(pool((2, 1, 1), (1, 1, 1), (1, 4, 4, 4)))
    assert can_pool(pool((2,), (1,), (2, 7)))


def one_of(shape: tuple[int, ...], op: Operator) -> tuple[Population, list[dict[str, Any]], Projection]:
    return Population("p", shape, neuron("IF")), [], Projection("in", "p", op)


FLAT = Reshape((2, 4, 4), (32,))
WIDE = Dense(freeze(RNG.normal(size=(3, 32))))
BEHIND = Chain((pool((2, 2), (2, 2)), Reshape((2, 2, 2), (8,)), Dense(freeze(RNG.normal(size=(3, 8))))))
LONG = Chain((pool((1, 1), (1, 1)), Reshape((2, 4, 4), (32,)), WIDE, Dense(freeze(np.ones((2, 3))))))


@pytest.mark.parametrize(("op", "method", "kind", "kernels"), [
    (conv(), "event", ConvLayer, ["event"]), (conv(), "dense", ConvLayer, ["event"]),
    (Chain((pool((1, 1), (1, 1)), conv())), "event", ConvLayer, ["event", "event"]),
    (Chain((conv(), Identity((4, 3, 3)))), "event", None, []),
    (conv(groups=2), "event", None, []), (Chain((pool((1, 1), (1, 1)), conv(groups=2))), "event", None, []),
    (Chain((pool((1, 1, 1), (1, 1, 1), (2, 4, 4, 4)), conv(axes=3))), "event", None, []),
    (pool((2, 2), (2, 2)), "event", None, []), (DENSE, "event", None, []),
    (Chain((FLAT, WIDE)), "event", DenseAfterMap, ["none", "none"]), (Chain((FLAT, WIDE)), "dense", None, []),
    (Chain((Reshape((4, 8), (32,)), WIDE)), "event", DenseAfterMap, ["none", "none"]),
    (Chain((Reshape((32,), (32,)), WIDE)), "event", None, []),
    (Chain((Reshape((2, 2, 2, 4), (32,)), WIDE)), "event", None, []),
    (Chain((Identity((32,)), WIDE)), "event", None, []),
    (BEHIND, "event", DenseAfterMap, ["event", "none", "event"]), (BEHIND, "dense", None, []),
    (LONG, "event", None, []),
])  # fmt: skip
def test_layers_behind_maps(op: Operator, method: Method, kind: type | None, kernels: list[str]) -> None:
    population, log, projection = one_of(op.output_shape, op)
    made = make_conv_layer(population, projection, SPACE, method, log)
    assert (made is None) if kind is None else isinstance(made, kind)
    assert [part["kernel"] for part in log] == kernels
    names = [type(part).__name__ for part in (op.parts if isinstance(op, Chain) else (op,))]
    assert [part["operator"] for part in log] == (names if kernels else [])


@pytest.mark.parametrize(("op", "kernels"), [
    (DENSE, ["event"]), (Chain((Reshape((5,), (5,)), DENSE, Identity((3,)))), ["none", "event", "none"]),
    (Chain((DENSE, Dense(freeze(np.ones((2, 3)))))), None), (Identity((3,)), None),
    (Chain((Scale(freeze(np.ones(5))), DENSE)), None), (SPARSE, None),
])  # fmt: skip
def test_layers_behind_one_dense_matrix(op: Operator, kernels: list[str] | None) -> None:
    population, log, projection = one_of(op.output_shape, op)
    made = make_dense_layer(population, projection, SPACE, "event", log)
    assert (made is None) is (kernels is None)
    if made is None:
        assert log == []
        return
    assert isinstance(made, DenseLayer)
    made.stage.by_product(Signal(np.ones((2, 5), np.uint8)))  # writes what it chose where the matrix is
    assert [part["kernel"] for part in log] == kernels


def test_layers_are_asked_one_after_the_other_and_said_by_their_place() -> None:
    parts = compiled_backend(SPACE, "event")
    population, _, first = one_of((3,), DENSE)
    second = Projection("a", "b", Identity((3,)))
    assert parts.layer(population, second) is None
    assert isinstance(parts.layer(population, first), DenseLayer)
    parts.accumulate(second)
    own = Projection("p", "p", Dense(freeze(np.eye(3))), delay_steps=freeze(np.int64(1)))
    assert parts.loop(population, own) is not None
    assert dict(parts.choices) == {
        "0: in -> p": [{"operator": "Dense", "kernel": "none"}],
        "1: a -> b": [{"operator": "Identity", "kernel": "elementwise"}],
        "2: p -> p": [{"operator": "Dense", "kernel": "event, all steps in one call"}],
    }
    assert compiled_backend(SPACE, "dense").loop(population, own) is None


@pytest.mark.parametrize(("cell", "op", "late", "target", "wanted"), [
    ({}, Dense(freeze(np.eye(2))), 1, 0, True), ({}, SPARSE, 1, 0, True), ({}, Identity((2,)), 1, 0, False),
    ({"theta": None}, SPARSE, 1, 0, False), ({"max_spikes": 2}, SPARSE, 1, 0, False), ({}, SPARSE, 2, 0, False),
    ({}, SPARSE, [1, 2], 0, False), ({}, SPARSE, [1, 1], 0, True), ({}, SPARSE, 1, [0, 1], False),
    ({}, SPARSE, 1, [0, 0], True),
])  # fmt: skip
def test_loops_of_one_step(cell: Any, op: Operator, late: Any, target: Any, wanted: bool) -> None:
    delays = {"delay_steps": freeze(np.asarray(late)), "target_delay_steps": freeze(np.asarray(target))}
    population = Population("p", (2,), neuron("LIF", a_mem=0.5, **cell))
    assert is_self_recurrent(population, Projection("p", "p", op, **delays)) is wanted


@pytest.mark.parametrize(("own", "wanted", "flags"), [
    ({}, (), (0, 0, 0, 1, 1, 0, 0, 0, 0, 0)), ({"a_syn": 0.5}, (), (1, 0, 0, 1, 1, 0, 0, 0, 0, 0)),
    ({"a_syn": [0.0, 0.5]}, (), (1, 0, 0, 1, 1, 0, 0, 0, 0, 0)), ({"g_syn": 0.5}, (), (1, 0, 0, 1, 1, 0, 0, 0, 0, 0)),
    ({"g_syn": [1.0, 2.0]}, ("v",), (1, 0, 0, 1, 1, 0, 0, 1, 0, 0)),
    ({"reset": "subtract", "compare": ">="}, ("u",), (0, 1, 1, 1, 1, 0, 0, 0, 1, 0)),
    ({"reset": "none", "max_spikes": 4}, ("i",), (0, 2, 0, 1, 4, 0, 0, 0, 0, 1)),
    ({"refractory_steps": [0, 2]}, (), (0, 0, 0, 1, 1, 1, 0, 0, 0, 0)),
    ({"theta": None, "refractory_steps": 2}, (), (0, 0, 0, 0, 1, 0, 0, 1, 0, 0)),
    ({"v_min": -1.0}, (), (0, 0, 0, 1, 1, 0, 1, 0, 0, 0)),
])  # fmt: skip
def test_what_a_step_does(own: Any, wanted: tuple[str, ...], flags: tuple[int, ...]) -> None:
    cell = neuron("CubaLIF", **{"a_mem": 0.5, "a_syn": 0.0, "g_syn": 1.0, **own})
    assert neuron_flags(cell, frozenset(wanted)) == flags


# -- one product or events -------------------------------------------------------------------------------------------

WHOLE = np.ones((4, 5), np.uint8)


def stage(method: str, weight: Any = None) -> DenseStage:
    found = np.eye(3, 5) if weight is None else weight
    return DenseStage(Dense(freeze(found)), SPACE, method, {})


@pytest.mark.parametrize(("product", "fixed", "each", "chosen"), [
    (7.4, 0, 0.5, True), (7.5, 0, 0.5, False), (8.1, 1, 0.5, True), (8.3, 1, 0.5, False), (14.9, 0, 1.0, True),
    (15.1, 0, 1.0, False), (7.4, -0.5, 0.5, False),
])  # fmt: skip
def test_one_product_has_to_be_quicker_by_a_quarter(
    product: float, fixed: float, each: float, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Than the 20 events of this signal."""
    asked: list[Any] = []
    monkeypatch.setattr(dense_layer, "product_ns", lambda *own: asked.append(own) or product)
    monkeypatch.setattr(dense_layer, "event_coefficients", lambda *own: asked.append(own) or (fixed, each))
    made = stage("auto")
    assert made.by_product(Signal(WHOLE)) is chosen
    assert made.entry == {"kernel": "product" if chosen else "event"}
    made.by_product(Signal(WHOLE))
    assert asked == [(4, 5, 3), (4, 5, made.padded)]
    made.by_product(Signal(WHOLE[:2]))
    assert len(asked) == 4


def test_a_product_is_for_whole_spikes_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_layer, "product_ns", lambda *own: 0.0)
    made = stage("auto")
    assert made.by_product(Signal(WHOLE))
    assert not made.by_product(Signal(WHOLE.astype(np.float32)))
    assert not made.by_product(Signal(WHOLE, True, 0.5))
    for bound, most, wanted in ((3.0, 3, True), (3.0, 4, False), (1.0, 1, True)):
        made.bound = bound
        assert made.by_product(Signal(WHOLE * most, True)) is wanted
    assert stage("event").weight is None
    assert stage("auto", np.full((3, 5), 0.1)).weight is None
    assert stage("auto", np.array([[0.1]])).bound == 1.0
    assert stage("auto", np.array([[0.1]])).weight is not None
    forced = stage("dense", np.full((3, 5), 0.1))
    assert forced.by_product(Signal(WHOLE.astype(np.float32)))
    assert forced(Signal(WHOLE)).values.tolist() == (WHOLE.astype(np.float32) @ np.full((5, 3), 0.1, "f4")).tolist()


# -- signals ---------------------------------------------------------------------------------------------------------


def test_signals_by_their_type() -> None:
    spikes = np.array([[0, 1, 1], [0, 0, 0]], np.uint8)
    unit, counts, half = Signal(spikes), Signal(spikes * 3, True), Signal(spikes * 3, True, 0.5)
    reals = Signal(np.array([[0.0, -0.5, 2.0]], np.float32))
    assert [s.is_unit for s in (unit, counts, half, reals)] == [True, False, False, False]
    assert [s.is_whole for s in (unit, counts, half, reals)] == [True, True, False, False]
    assert [unit.most(), counts.most(), Signal(spikes[:0], True).most()] == [1, 3, 0]
    assert [s.events() for s in (unit, counts, half, reals)] == [2, 2, 2, 2]
    assert half.real(FLOAT).tolist() == [[0, 1.5, 1.5], [0, 0, 0]]
    assert unit.real(FLOAT).dtype == FLOAT
    for signal, values, valued in ((unit, None, False), (counts, [3, 3], True), (half, [1.5, 1.5], True)):
        indptr, idx, val, has = events_of(signal, FLOAT)
        assert (indptr.tolist(), idx[:2].tolist(), has) == ([0, 2, 2], [1, 2], valued)
        assert values is None or val[:2].tolist() == values
    indptr, idx, val, has = events_of(reals, FLOAT)
    assert (indptr.tolist(), idx[:2].tolist(), val[:2].tolist(), has) == ([0, 2], [1, 2], [-0.5, 2.0], True)
    assert events_of(Signal(spikes[:0]), FLOAT)[0].tolist() == [0]


@pytest.mark.parametrize(("kind", "values", "found", "shared"), [
    ("bool", [0, 1], "uint8", True), ("uint8", [0, 1], "uint8", True), ("uint8", [0, 2], "float32", False),
    ("int8", [0, 1], "uint8", False), ("int64", [1, 1], "uint8", False), ("int64", [-1, 1], "float32", False),
    ("float64", [0, 1], "uint8", False), ("float32", [0.5, 1], "float32", True), ("uint8", [], "uint8", True),
])  # fmt: skip
def test_inputs_are_bytes_where_every_value_is_0_or_1(kind: str, values: Any, found: str, shared: bool) -> None:
    given = np.array(values, kind)
    taken = take_input(given, "float32")
    assert (str(taken.dtype), taken.tolist()) == (found, given.tolist())
    assert np.shares_memory(taken, given) is (shared and bool(values))
    turned = take_input(np.array([values, values], kind).T, "float32")
    assert turned.flags.c_contiguous
    assert turned.shape == (len(values), 2)
