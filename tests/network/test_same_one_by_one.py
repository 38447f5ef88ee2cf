"""Equality of networks: every field of every part, one element at a time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import compact, freeze, same_array
from nirbridge.network import same_network
from nirbridge.network.equality import same_operator
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Chain, Dense, Operator, Reshape, Sparse, SumPool
from tests.network.test_one_wrong_element import (
    CONV,
    DENSE,
    FLAT,
    OPERATORS,
    POOL,
    SCALE,
    SHAPE,
    SPARSE,
    network,
    whole_neuron,
)
from tests.one_wrong import one_wrong_element

ARRAYS = [f.name for f in fields(Neuron) if isinstance(getattr(whole_neuron(), f.name), np.ndarray)]


def with_neuron(made: Network, **own: Any) -> Network:
    last = made.populations[-1]
    changed = replace(last, neuron=replace(last.neuron, **own))
    return replace(made, populations=(*made.populations[:-1], changed))


def with_way(made: Network, **own: Any) -> Network:
    return replace(made, projections=(made.projections[0], replace(made.projections[1], **own), made.projections[2]))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_network_is_the_same_as_itself(name: str) -> None:
    made = network(OPERATORS[name])
    assert same_network(made, network(OPERATORS[name]))
    assert same_network(made, replace(made, notes=("other",), assumed=("other",)))


@pytest.mark.parametrize("field", ARRAYS)
def test_one_value_of_a_neuron(field: str) -> None:
    made = network()
    for values in one_wrong_element(getattr(whole_neuron(), field), 3):
        assert not same_network(made, with_neuron(made, **{field: values}))


@pytest.mark.parametrize(
    "own", [{"kind": "LIF"}, {"reset": "none"}, {"compare": ">="}, {"max_spikes": 2}, {"theta": None}]
)
def test_one_word_of_a_neuron(own: dict[str, Any]) -> None:
    made = network()
    assert not same_network(made, with_neuron(made, **own))
    assert not same_network(with_neuron(made, **own), made)


@pytest.mark.parametrize("field", ["bias", "delay_steps", "target_delay_steps"])
def test_one_value_of_a_projection(field: str) -> None:
    made = with_way(network(), **{field: freeze(np.ones(SHAPE, np.int64 if "steps" in field else np.float64))})
    assert same_network(made, with_way(made, **{field: freeze(getattr(made.projections[1], field)[:])}))
    for values in one_wrong_element(getattr(made.projections[1], field), 2):
        assert not same_network(made, with_way(made, **{field: values}))
    assert same_network(made, with_way(made, **{field: compact(getattr(made.projections[1], field))})), (
        "one value for all"
    )


def test_a_bias_and_none_a_mark_a_source_an_order() -> None:
    made = network()
    assert not same_network(made, with_way(made, bias=freeze(np.zeros(SHAPE))))
    assert not same_network(with_way(made, bias=freeze(np.zeros(SHAPE))), made)
    assert not same_network(made, with_way(made, is_back=True))
    assert not same_network(made, with_way(made, source="in"))
    assert not same_network(made, replace(made, projections=made.projections[:2]))
    assert not same_network(made, replace(made, projections=(*made.projections, made.projections[1])))
    two = replace(made, projections=(*made.projections, Projection("in", "b", SCALE)))
    swapped = replace(made, projections=(*made.projections[:1], two.projections[3], *made.projections[1:3]))
    assert not same_network(two, swapped), "sums are taken in the order of the projections of a target"
    between = replace(made, projections=(made.projections[2], *made.projections[:2]))
    assert same_network(made, between), "the order of different targets is none"


def test_one_port_and_dt() -> None:
    made = network()
    assert not same_network(made, replace(made, inputs=(*made.inputs, Port("more", (1,)))))
    assert not same_network(made, replace(made, outputs=(Port("out", (2, 4, 3)),)))
    assert not same_network(made, replace(made, dt=2e-3))
    assert not same_network(made, replace(made, populations=made.populations[:1]))


def changed(operator: Operator) -> list[Operator]:
    if isinstance(operator, Chain):
        last = [
            Chain((*operator.parts[:i], p, *operator.parts[i + 1 :]))
            for i, own in enumerate(operator.parts)
            for p in changed(own)
        ]
        return last
    if isinstance(operator, Reshape):
        return []
    if isinstance(operator, SumPool):
        return [replace(operator, factor=0.5)]
    field = {"Dense": "weight", "Conv": "weight", "Scale": "scale", "Sparse": "data"}[type(operator).__name__]
    return [replace(operator, **{field: v}) for v in one_wrong_element(getattr(operator, field), 9.0)]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OPERATORS)
def test_one_value_of_an_operator(name: str) -> None:
    operator = OPERATORS[name]
    assert same_operator(operator, operator)
    for other in changed(operator):
        assert not same_operator(operator, other)
        assert not same_operator(other, operator)


def test_shapes_kinds_and_trivial_parts() -> None:
    flat = Reshape(SHAPE, FLAT)
    assert same_operator(Chain((SCALE, flat)), Chain((SCALE, Reshape(SHAPE, (8, 4)), Reshape((8, 4), FLAT))))
    assert not same_operator(SCALE, Chain((SCALE, flat)))
    assert not same_operator(CONV, POOL)
    assert not same_operator(Chain((SCALE, CONV)), SCALE)
    as_rows = Sparse(SPARSE.indptr, SPARSE.indices, SPARSE.data, FLAT, FLAT)
    assert same_operator(SPARSE, Chain((flat, as_rows, Reshape(FLAT, SHAPE))))
    single = replace(DENSE, weight=freeze(DENSE.weight.astype(np.float32)))
    assert not same_operator(DENSE, single)
    zeros = Dense(freeze(np.zeros((2, 2))))
    assert not same_operator(zeros, Dense(freeze(np.array([[0.0, 0.0], [0.0, -0.0]]))))
    assert same_operator(Dense(np.broadcast_to(np.float64(1.0), (2, 2))), Dense(freeze(np.ones((2, 2)))))


def test_arrays_are_the_same_bit_for_bit() -> None:
    values = freeze(np.array([0.0, 1.0]))
    assert same_array(values, freeze(values))
    assert same_array(None, None)
    for other in (
        None,
        freeze(np.array([0.0, 2.0])),
        freeze(np.array([-0.0, 1.0])),
        values.astype(np.float32),
        values[:1],
    ):
        assert not same_array(values, other)
        assert not same_array(other, values)
