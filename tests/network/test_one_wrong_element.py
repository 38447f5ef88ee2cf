"""Every array of a network with one wrong element among valid ones is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.network import Network, Population, Projection, diagnose_network, neuron
from nirbridge.network.model import Port, Timing
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool
from tests.one_wrong import one_wrong_element, one_wrong_entry

RNG = np.random.default_rng(4)
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")


def some(*shape: int) -> Array:
    return freeze(RNG.normal(size=shape))


SHAPE = (2, 4, 4)
DENSE = Dense(some(32, 32))
SPARSE = Sparse(freeze(np.arange(33)), freeze(np.arange(32)), some(32), SHAPE, SHAPE)
CONV = Conv(some(2, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, SHAPE)
SCALE = Scale(some(*SHAPE))
POOL = SumPool((3, 3), (1, 1), ((1, 1), (1, 1)), SHAPE)
FLAT = (32,)
OPERATORS: dict[str, Operator] = {
    "scale": SCALE,
    "sparse": SPARSE,
    "conv": CONV,
    "pool": POOL,
    "dense": Chain((Reshape(SHAPE, FLAT), DENSE, Reshape(FLAT, SHAPE))),
    "first of a chain": Chain((SCALE, CONV, POOL)),
    "last of a chain": Chain((POOL, CONV, SCALE)),
}


def network(operator: Operator = SCALE, **own: Any) -> Network:
    """Two populations, three projections; the operator and fields are those of the second."""
    record = whole_neuron()
    populations = (Population("a", SHAPE, record), Population("b", SHAPE, record))
    projections = (
        Projection("in", "a", SCALE, delay_steps=freeze(np.zeros(SHAPE, np.int64))),
        replace(Projection("a", "b", operator), **own),
        Projection("b", "out", SCALE),
    )
    return Network(1e-3, TIMING, populations, projections, (Port("in", SHAPE),), (Port("out", SHAPE),))


def whole_neuron() -> Neuron:
    """Every array of the record has the population's shape."""
    record = neuron("CubaLIF")
    arrays = {f.name: getattr(record, f.name) for f in fields(record)}
    own = {name: v for name, v in arrays.items() if isinstance(v, np.ndarray)}
    return replace(record, **{name: freeze(np.array(np.broadcast_to(v, SHAPE))) for name, v in own.items()})


def found(made: Network) -> list[str]:
    return [str(p) for p in diagnose_network(made)]


@pytest.mark.parametrize("name", OPERATORS)
def test_right_ones_are_right(name: str) -> None:
    assert found(network(OPERATORS[name])) == []


# -- operators -------------------------------------------------------------------------------------------------------


def wrong_weights(operator: Operator, wrong: float) -> Iterator[Operator]:
    """Copies with one wrong element in one of the arrays of values."""
    if isinstance(operator, Chain):
        for i, part in enumerate(operator.parts):
            for other in wrong_weights(part, wrong):
                yield Chain((*operator.parts[:i], other, *operator.parts[i + 1 :]))
    field = {Dense: "weight", Conv: "weight", Scale: "scale", Sparse: "data"}.get(type(operator))
    if field is not None:
        for values in one_wrong_element(getattr(operator, field), wrong):
            yield replace(operator, **{field: values})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "pool"])
def test_one_weight_that_is_not_finite(name: str, wrong: float) -> None:
    for operator in wrong_weights(OPERATORS[name], wrong):
        assert [line.partition(": ")[2] for line in found(network(operator))] in [
            [f"a weight of its {kind} is not finite; repair it"] for kind in ("Scale", "Sparse", "Conv", "Dense")
        ]


def test_a_weight_that_repeats_in_memory_is_looked_at_too() -> None:
    shared = replace(SCALE, scale=np.broadcast_to(np.float64(np.nan), SHAPE))
    assert found(network(shared)) == ["projection 1 'a' -> 'b': a weight of its Scale is not finite; repair it"]


@pytest.mark.parametrize("part", [CONV, POOL], ids=["conv", "pool"])
@pytest.mark.parametrize(("field", "wrong"), [("stride", 0), ("dilation", 0), ("padding", -1), ("kernel", 0)])
def test_one_number_of_a_window(part: Any, field: str, wrong: int) -> None:
    if not hasattr(type(part), "__dataclass_fields__") or field not in type(part).__dataclass_fields__:
        pytest.skip("no such field")
    for values in one_wrong_entry(getattr(part, field), wrong):
        (line,) = found(network(replace(part, **{field: values})))
        assert "has a stride, kernel or dilation below 1, or padding below 0; correct it" in line


def test_one_axis_without_an_output() -> None:
    for kernel, shape in (((7, 3), (2, 0, 4)), ((3, 7), (2, 4, 0))):
        (line,) = found(network(replace(POOL, kernel=kernel)))
        assert f"its SumPool puts out {shape}, every axis has 1 or more" in line


@pytest.mark.parametrize("field", ["stride", "padding", "dilation"])
def test_one_list_of_a_window_of_another_length(field: str) -> None:
    (line,) = found(network(replace(CONV, **{field: getattr(CONV, field) * 2})))
    assert "its Conv has 2 kernel axes but entries for [2, 4]" in line


@pytest.mark.parametrize(
    ("weight", "groups"), [((3, 1, 3, 3), 2), ((2, 2, 3, 3), 2), ((2, 1, 3, 3), 1), ((2, 2, 3, 3), 0)]
)
def test_groups_divide_both(weight: tuple[int, ...], groups: int) -> None:
    (line,) = found(network(replace(CONV, weight=some(*weight), groups=groups)))
    assert "groups divide both; correct the weight or groups" in line


def test_one_wrong_index_of_sparse_rows() -> None:
    for wrong in (-1, 32):
        for indices in one_wrong_element(SPARSE.indices, wrong):
            (line,) = found(network(replace(SPARSE, indices=indices)))
            assert line.endswith("a sparse column index is out of range, 32 columns; correct indices")
    two = replace(SPARSE, indptr=freeze(np.minimum(np.arange(33) * 2, 32)))
    assert found(network(two)) == []
    for row in (0, 7, 15):
        for pair in ((2 * row + 1, 2 * row), (2 * row, 2 * row)):
            indices = SPARSE.indices.copy()
            indices[2 * row : 2 * row + 2] = pair
            (line,) = found(network(replace(two, indices=freeze(indices))))
            assert line.endswith("sparse columns are not ascending within a row; sort the indices, merge doubles")


def test_one_wrong_row_of_sparse_rows() -> None:
    for place, wrong in ((0, 1), (5, 7), (16, 14), (31, 33), (32, 31), (32, 33)):
        indptr = SPARSE.indptr.copy()
        indptr[place] = wrong
        (line,) = found(network(replace(SPARSE, indptr=freeze(indptr))))
        assert line.endswith("its sparse rows do not cover its data, 32 rows; correct indptr")
    for short in (replace(SPARSE, data=SPARSE.data[:-1]), replace(SPARSE, indptr=SPARSE.indptr[:-1])):
        (line,) = found(network(short))
        assert line.endswith("its sparse rows do not cover its data, 32 rows; correct indptr")


def test_one_pair_of_a_chain_that_does_not_fit() -> None:
    for parts in ((Scale(some(2, 4, 5)), SCALE, SCALE), (SCALE, SCALE, Scale(some(2, 4, 5)))):
        (line,) = found(network(Chain(parts)))
        assert "a part of its chain gives" in line
    (line,) = found(network(Chain((SCALE, Chain((SCALE, SCALE))))))
    assert line.endswith("its chain is nested or has fewer than two parts; compose it again")


@pytest.mark.parametrize(("shape", "other"), [((2, 3), (5,)), ((4,), (2, 3)), ((2, 2), (2, 2, 2))])
def test_a_reshape_keeps_the_number_of_elements(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="^reshape from "):
        Reshape(shape, other)


# -- projections and populations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["delay_steps", "target_delay_steps"])
def test_one_negative_delay(field: str) -> None:
    for steps in one_wrong_element(np.ones(SHAPE, np.int64), -1):
        (line,) = found(network(**{field: steps}))
        assert f"{field} has shape (2, 4, 4) and type int64, integers of 0 or more" in line


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_one_bias_that_is_not_finite(wrong: float) -> None:
    for bias in one_wrong_element(np.ones(SHAPE), wrong):
        (line,) = found(network(bias=bias))
        assert line.endswith("its bias of shape (2, 4, 4) is wrong, finite numbers of shape (2, 4, 4); correct it")


@pytest.mark.parametrize(("own", "is_wrong"), [({0: 0}, True), ({0: 1}, False)])
def test_the_shortest_way_round_a_back_edge_counts(own: dict[int, int], is_wrong: bool) -> None:
    """A delay of one step or more for each element: one of none is enough to be refused."""
    for steps in one_wrong_element(np.full(SHAPE, 2), own[0]):
        for field in ("delay_steps", "target_delay_steps"):
            lines = found(network(is_back=True, **{field: steps}))
            assert [line.partition(": ")[2][:35] for line in lines] == [
                "it closes a cycle with a delay of 0"
            ] * is_wrong


FIELDS = [f.name for f in fields(Neuron) if isinstance(getattr(whole_neuron(), f.name), np.ndarray)]


def with_neuron(which: int, **own: Any) -> Network:
    made = network()
    changed = [replace(p, neuron=replace(p.neuron, **own)) if i == which else p for i, p in enumerate(made.populations)]
    return replace(made, populations=tuple(changed))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("field", [f for f in FIELDS if f != "refractory_steps"])
def test_one_value_of_a_neuron_that_is_not_finite(field: str, which: int) -> None:
    for wrong in (np.nan, np.inf, -np.inf):
        for values in one_wrong_element(getattr(whole_neuron(), field), wrong):
            assert found(with_neuron(which, **{field: values})) == [
                f"population '{'ab'[which]}': neuron {field} is not finite; repair it"
            ]


@pytest.mark.parametrize("field", FIELDS)
def test_one_array_of_a_neuron_of_another_shape(field: str) -> None:
    values = freeze(np.array(np.broadcast_to(getattr(whole_neuron(), field)[:1], (1, 4, 4))))
    (line,) = found(with_neuron(1, **{field: values}))
    assert line.startswith(f"population 'b': neuron {field} has shape (1, 4, 4), () or (2, 4, 4); reshape it")


def test_one_negative_rest() -> None:
    for steps in one_wrong_element(np.ones(SHAPE, np.int64), -1):
        (line,) = found(with_neuron(1, refractory_steps=steps))
        assert line.startswith("population 'b': refractory_steps is negative")


def test_one_axis_of_one_shape() -> None:
    for shape in one_wrong_entry(SHAPE, 0):
        made = replace(network(), inputs=(Port("in", SHAPE), Port("other", shape)))
        assert found(made) == [
            f"population or port 'other': shape {shape}, every axis has 1 or more; correct the shape"
        ]
