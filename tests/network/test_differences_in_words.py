"""Each difference of two networks in words, one change at a time, without false differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network.equality import _same_value, network_differences, same_network, same_operator
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Chain, Identity, Reshape, Scale, Sparse
from tests.network.test_one_wrong_element import DENSE, FLAT, SCALE, SHAPE, SPARSE, network, whole_neuron
from tests.network.test_same_one_by_one import with_neuron, with_way

TWO = freeze(np.broadcast_to(np.float64(2.0), SHAPE))
ARROW = "projection 0 'a' -> 'b': "


def words(**own: Any) -> tuple[Network, Network]:
    return network(), replace(network(), **own)


MADE = network()
LATE = freeze(np.arange(32).reshape(SHAPE))
CASES: dict[str, tuple[Network, Network, list[str]]] = {
    "dt": (*words(dt=2e-3), ["dt: 0.001 s and 0.002 s"]),
    "dt of the timing is not counted twice": (*words(timing=replace(MADE.timing, dt=5.0)), []),
    "timing": (
        *words(timing=replace(MADE.timing, integrator="zoh", compare=">=")),
        ["timing integrator: 'euler' and 'zoh'", "timing compare: '>' and '>='"],
    ),
    "ports in order of names": (
        replace(MADE, inputs=(Port("z", (1,)), Port("in", SHAPE))),
        replace(MADE, inputs=(Port("in", SHAPE), Port("b", (1,))), outputs=(Port("out", (32,)),)),
        ["input 'b': only in the second", "input 'z': only in the first", f"output 'out': shape {SHAPE} and (32,)"],
    ),
    "populations in order of names, their fields, and what leads to one": (
        replace(MADE, populations=MADE.populations[::-1]),
        replace(MADE, populations=tuple(replace(p, neuron=replace(p.neuron, a_mem=TWO)) for p in MADE.populations)),
        [
            f"population '{n}': neuron a_mem array{SHAPE} float64 from 1 to 1 and array{SHAPE} float64 from 2 to 2"
            for n in "ab"
        ],
    ),
    "words of a neuron": (
        MADE,
        with_neuron(MADE, reset="none", max_spikes=3, theta=None),
        [
            f"population 'b': neuron theta array{SHAPE} float64 from 1 to 1 and None",
            "population 'b': neuron reset 'to-value' and 'none'",
            "population 'b': neuron max_spikes 1 and 3",
        ],
    ),
    "a population of another shape": (
        MADE,
        replace(MADE, populations=(MADE.populations[0], replace(MADE.populations[1], shape=(3,)))),
        [f"population 'b': shape {SHAPE} and (3,)"],
    ),
    "counts of projections, target by target in order of names": (
        replace(MADE, projections=MADE.projections[::-1]),
        replace(
            MADE, projections=(*MADE.projections, *MADE.projections[:2], replace(MADE.projections[2], target="out"))
        ),
        [f"target '{n}': 1 and 2 projections" for n in ("a", "b", "out")],
    ),
    "after a target with another count the next are compared": (
        MADE,
        replace(
            with_way(MADE, is_back=True),
            projections=(MADE.projections[0], *with_way(MADE, is_back=True).projections),
        ),
        ["target 'a': 1 and 2 projections", ARROW + "is_back False and True"],
    ),
    "the second projection into a target": (
        replace(MADE, projections=(*MADE.projections, Projection("in", "b", SCALE))),
        replace(MADE, projections=(*MADE.projections, Projection("a", "b", SCALE, bias=freeze(np.zeros(SHAPE))))),
        [
            "projection 1 'in' -> 'b': source 'in' and 'a'",
            f"projection 1 'in' -> 'b': bias None and array{SHAPE} float64 from 0 to 0",
        ],
    ),
    "operators by their parts, the last one first": (
        with_way(MADE, operator=Chain((Reshape(SHAPE, FLAT), DENSE))),
        with_way(MADE, operator=SCALE),
        [ARROW + "operator Dense * Reshape and Scale"],
    ),
    "delays": (
        with_way(MADE, delay_steps=freeze(np.int64(3))),
        with_way(MADE, target_delay_steps=freeze(LATE)),
        [ARROW + "delay_steps 3 and 0", ARROW + f"target_delay_steps 0 and array{SHAPE} int64 from 0 to 31"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_difference_is_told_in_its_words(name: str) -> None:
    first, second, told = CASES[name]
    assert list(network_differences(first, second)) == told
    assert same_network(first, second) is (not told)
    assert network_differences(first, first) == ()
    assert same_network(second, second) is True


def test_sameness_of_operators_is_a_yes_or_a_no() -> None:
    flat = Sparse(SPARSE.indptr, SPARSE.indices, SPARSE.data, FLAT, FLAT)
    ones = Scale(freeze(np.ones(FLAT)))
    chained = Chain((DENSE, Scale(freeze(np.full(FLAT, 2.0)))))
    assert same_operator(DENSE, DENSE) is True
    assert same_operator(DENSE, SCALE) is False, "other shapes"
    assert same_operator(DENSE, chained) is False, "other numbers of parts"
    assert same_operator(DENSE, flat) is False, "other kinds"
    assert same_operator(Chain((DENSE, ones)), Chain((ones, DENSE))) is True, "ones are no part"
    assert same_operator(Identity(FLAT), ones) is True
    assert same_operator(Chain((DENSE, Reshape(FLAT, SHAPE))), Chain((DENSE, Reshape(FLAT, (4, 8))))) is False


VALUES = freeze(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (VALUES, VALUES, True),
        (VALUES, freeze(VALUES), True),
        (VALUES, np.asfortranarray(VALUES), True),
        (VALUES, freeze(VALUES.reshape(3, 2)), False),
        (VALUES, VALUES.astype(np.float32), False),
        (freeze(np.zeros((2, 3), np.int64)), freeze(np.zeros((2, 3))), False),
        (np.broadcast_to(np.float64(1), (2, 3)), np.broadcast_to(np.float64(1), (2, 3)), True),
        (np.broadcast_to(np.float64(1), (2, 3)), np.broadcast_to(np.float64(2), (2, 3)), False),
        (np.broadcast_to(VALUES[0], (2, 3)), freeze(np.stack([VALUES[0], VALUES[1]])), False),
        (np.broadcast_to(VALUES[:1], (2, 3)), np.broadcast_to(VALUES[0], (2, 3)), True),
        (VALUES, None, False),
        (None, VALUES, False),
        (None, None, True),
        (np.asarray(1.0), 1.0, False),
        (1.0, np.asarray(1.0), False),
        (1.0, np.asarray([1.0, 2.0]), False),
        ("none", "none", True),
        ("none", "zero", False),
        (1, 2, False),
        (0, None, False),
    ],
)
def test_values_of_fields_are_the_same_or_not(x: Any, y: Any, told: bool) -> None:
    assert _same_value(x, y) is told


def test_a_neuron_with_itself_copied_value_by_value() -> None:
    copied = {name: freeze(getattr(whole_neuron(), name)) for name in ("a_mem", "theta", "v_init", "refractory_steps")}
    assert network_differences(MADE, with_neuron(MADE, **copied)) == ()
