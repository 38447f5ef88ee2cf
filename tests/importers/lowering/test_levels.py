"""Values of which few are possible: what is proved, against every combination of spikes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirbridge.importers.lowering.levels import COUNT_MAX, Levels, LevelsOf, levels_of, total
from nirbridge.importers.neuron_specs import ImportedNeuron, Operation, ValueRef
from nirbridge.network.neurons import neuron

SPIKES = Levels(0.0, 1.0, 2)
SMALL = st.builds(Levels, st.integers(-3, 3).map(float), st.sampled_from([0.5, 1.0, 2.0]), st.integers(2, 5))


def operation(name: str, kind: str, *inputs: str, **arguments: Any) -> Operation:
    return Operation(name, name, kind, None, tuple(map(ValueRef, inputs)), arguments, (4,))


def rows_of(name: str, source: str, rows: Any, values: Any = 1.0, factor: Any = 1.0) -> Operation:
    """Sums of rows of a matrix."""
    given = {"rows": np.array(rows), "values": values, "factor": factor, "shape": (2,)}
    return operation(name, "matrix", source, **given)


def proved(*calls: Operation, **neurons: Any) -> Levels | None:
    """Of the last call; ``neurons``: the readings by name."""
    cells = [operation(name, "neuron", "x") for name in neurons]
    by_name = {c.name: c for c in (operation("x", "input"), *cells, *calls)}
    last = (*cells, *calls)[-1].name
    return LevelsOf(by_name, neurons)(ValueRef(last))


def spiking(**own: Any) -> ImportedNeuron:
    more = {key: own.pop(key) for key in ("scale_out",) if key in own}
    return ImportedNeuron(neuron("LIF", **own), **more)


@given(SMALL, SMALL)
def test_a_sum_has_every_sum_of_two_values_and_lies_on_its_levels(a: Levels, b: Levels) -> None:
    found = total(a, b)
    assert found is not None
    sums = {x + y for x, y in product(a.points, b.points)}
    assert sums <= set(found.points.tolist())
    assert (min(sums), max(sums)) == (found.low, found.high)


@given(SMALL, st.sampled_from([-2.0, -0.5, 0.5, 3.0]), st.integers(-2, 2))
def test_a_multiple_has_the_values_of_each(a: Levels, factor: float, shift: int) -> None:
    found = a.scaled(factor, float(shift))
    assert found is not None
    assert sorted(a.points * factor + shift) == found.points.tolist()


def test_sums_without_a_common_step_or_of_too_many_values_prove_nothing() -> None:
    assert total(SPIKES, Levels(0.0, 0.3, 2)) is None
    assert total(Levels(0.0, 1.0, COUNT_MAX), SPIKES) is None
    assert total(Levels(0.0, 1.0, COUNT_MAX - 1), SPIKES) is not None
    assert SPIKES.scaled(0.0) is None


def test_levels_of_values_lie_evenly() -> None:
    assert levels_of(np.array([2.0, 0.0, 1.0, 1.0])) == Levels(0.0, 1.0, 3)
    assert levels_of(np.array([0.0, 1.0, 3.0])) is None
    assert levels_of(np.array([1.0, 1.0])) is None


@pytest.mark.parametrize(("calls", "levels"), [
    ((), SPIKES),
    ((operation("b", "reshape", "a"),), SPIKES),
    ((operation("b", "gather", "a", indices=np.array([1, 0])),), SPIKES),
    ((operation("b", "gather", "a", indices=np.array([-1, 0])),), SPIKES),
    ((operation("n", "shift", "a", constant=1.0, sign=-1.0), operation("b", "gather", "n", indices=np.array([-1]))),
     SPIKES),
    ((operation("n", "shift", "a", constant=1.0, sign=1.0), operation("b", "gather", "n", indices=np.array([-1]))),
     None),
    ((operation("b", "concat", "a", "a", axis=0),), SPIKES),
    ((operation("n", "scale", "a", factor=2.0), operation("b", "concat", "a", "n", axis=0)), Levels(0.0, 1.0, 3)),
    ((operation("n", "scale", "a", factor=0.3), operation("b", "concat", "a", "n", axis=0)), None),
    ((operation("b", "scale", "a", factor=np.array([0.25, 0.25])),), Levels(0.0, 0.25, 2)),
    ((operation("b", "scale", "a", factor=np.array([0.25, 0.5])),), Levels(0.0, 0.25, 3)),
    ((operation("b", "scale", "a", factor=np.array([0.0, 1.0])),), SPIKES),
    ((operation("b", "scale", "a", factor=np.array([0.3, 1.0])),), None),
    ((operation("b", "scale", "a", factor=np.arange(17.0)),), None),
    ((operation("b", "relu", "a"),), SPIKES),
    ((operation("n", "scale", "a", factor=-1.0), operation("b", "relu", "n")), None),
    ((operation("b", "pad", "a", indices=np.array([0, -1]), constant=np.array([0.0, 1.0])),), SPIKES),
    ((operation("b", "pad", "a", indices=np.array([0, -1]), constant=np.array([0.0, 2.0])),), Levels(0.0, 1.0, 3)),
    ((operation("b", "pad", "a", indices=np.array([0, -1]), constant=np.array([0.0, np.inf])),), None),
    ((operation("b", "add", "a", "a", is_choice=True),), SPIKES),
    ((operation("b", "scale", "a", factor=-2.0),), Levels(-2.0, 2.0, 2)),
    ((operation("b", "shift", "a", constant=1.0, sign=-1.0),), SPIKES),
    ((operation("b", "shift", "a", constant=np.array([1.0, 2.0]), sign=1.0),), Levels(1.0, 1.0, 3)),
    ((operation("b", "add", "a", "a"),), Levels(0.0, 1.0, 3)),
    ((operation("b", "add", "a", "a", signs=(1.0, -1.0)),), Levels(-1.0, 1.0, 3)),
    ((operation("b", "add", "a", "x"),), None),
    ((operation("b", "linear", "a"),), None),
    ((operation("b", "avg_pool", "a", kernel=(2, 2), padding=((0, 0), (0, 0)), factor=0.25),), Levels(0.0, 0.25, 5)),
    ((operation("n", "shift", "a", constant=1.0, sign=1.0),
      operation("b", "avg_pool", "n", kernel=(2,), padding=((0, 0),), factor=1.0)), Levels(2.0, 1.0, 3)),
    ((operation("n", "shift", "a", constant=1.0, sign=1.0),
      operation("b", "avg_pool", "n", kernel=(2,), padding=((1, 1),), factor=1.0)), None),
    ((rows_of("b", "a", [0, 0, 1, 1, 1]),), Levels(0.0, 1.0, 4)),
    ((rows_of("b", "a", [0, 0, 1, 1], factor=np.array([0.5, 0.25])),), None),
    ((rows_of("b", "a", [0, 0, 1, 1], values=np.array([1, 1, 1, 2])),), None),
    ((operation("n", "shift", "a", constant=1.0, sign=1.0), rows_of("b", "n", [0, 0, 1])), None),
    ((operation("n", "shift", "a", constant=1.0, sign=1.0), rows_of("b", "n", [0, 0, 1, 1])), Levels(2.0, 1.0, 3)),
])  # fmt: skip
def test_what_is_proved_of_arithmetic_with_spikes(calls: Any, levels: Levels | None) -> None:
    assert proved(*calls, a=spiking()) == levels


def test_neurons_and_states() -> None:
    assert proved(a=spiking(max_spikes=3)) == Levels(0.0, 1.0, 4)
    assert proved(a=spiking(max_spikes=2**31 - 1)) is None
    assert proved(a=spiking(scale_out=0.5)) == Levels(0.0, 0.5, 2)
    assert proved(a=spiking(scale_out=np.array([0.5, 1.0, 1.0, 1.0]))) == Levels(0.0, 0.5, 3)
    assert proved(a=spiking(scale_out=np.array([0.3, 1.0, 1.0, 1.0]))) is None
    assert proved(a=ImportedNeuron(neuron("LI", theta=None))) is None
    state = Operation("b", "b", "reshape", None, (ValueRef("a", 1),), {}, (4,))
    assert proved(state, a=spiking()) is None
